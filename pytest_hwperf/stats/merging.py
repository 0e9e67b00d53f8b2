"""One report of the shards of a build on one kind of machine: what is not of one build is refused, gaps are named."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.report import ENDED, Report, Shard
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import shortened
from pytest_hwperf.records.units import counted

_DECIDED = ("regressed", "improved", "equivalent")
_ROUNDED = 1 + 1e-9
_AGAIN = "run every shard with the same arguments"

Parts = Mapping[str, tuple[Shard, Report]]  # file → what it holds


def merge(reports: Mapping[str, Report]) -> Report:
    """Put the reports of shards together."""
    parts = dict(sorted(_parts(reports).items(), key=lambda part: part[1][0].number))
    _refuse_others(parts)
    merged = _joined([report for _, report in parts.values()])
    machines, warnings, cpus = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list), dict[str, str]()
    for shard, report in parts.values():
        machine = report.machine
        machines[machine.fingerprint].append(shard.number)
        cpus[machine.fingerprint] = f"{machine.cpu_model}, {counted(machine.cores, 'core')}"
        for warning in report.warnings:
            warnings[warning].append(shard.number)
    each = "; ".join(f"{cpus[one]} ({_numbered(numbers)})" for one, numbers in machines.items())
    several = [f"measured on {len(cpus)} machines, and compared on each of them alone: {each}"] if len(cpus) > 1 else []
    divided = any(shard.of > 1 for shard in merged.shards)
    own = (f"{_numbered(numbers)}: {warning}" if divided else warning for warning, numbers in warnings.items())
    said = (*several, *why_shards_are_open(merged), *own)
    return replace(merged, warnings=said)


def merge_kinds(reports: Mapping[str, Report], names: tuple[str, ...] = (), number: int = 0) -> Report:
    """Put the reports of a build together: the shards of each kind of machine, then all kinds side by side."""
    parts, files = _parts(reports), defaultdict[str, dict[str, Report]](dict)
    for file, (shard, report) in parts.items():
        files[shard.kind][file] = report
    if [*files] == [""] and not number:
        return merge(reports)
    for kind, of_kind in files.items():
        file = next(iter(of_kind))
        if not kind:
            raise UsageProblem(f"{file} names no kind of machine: run every job with --hwperf-machine-kind=NAME")
        if names and kind not in names:
            hint = nearest(kind, names)
            raise UsageProblem(f"{file} is of {kind!r}, which is not among --kinds={','.join(names)}.{hint}")
    order = {kind: place for place, kind in enumerate(names)}
    kinds = sorted(files, key=lambda kind: (order.get(kind, 0), kind))
    merged = {kind: assigned(merge(files[kind]), kind) for kind in kinds}
    _refuse_other_builds(parts)
    again = "give every kind the same N of --hwperf-machine-kind=NAME/N"
    _refuse_unlike(parts, "the number of kinds that share the rate", lambda shard, _: str(shard.kinds), again)
    shared = next(shard.kinds for shard, _ in parts.values())
    if 1 < shared < len(merged):
        raise UsageProblem(
            f"{len(merged)} kinds of machine, each with its part of the rate for {shared}: run all of them again with "
            f"--hwperf-machine-kind=NAME/{len(merged)}"
        )
    missing = [name for name in names if name not in merged]
    unnamed = max(number, shared) - len(merged) - len(missing)
    return _side_by_side(merged, (*missing, *[""] * unnamed))


def _side_by_side(merged: Mapping[str, Report], missing: tuple[str, ...]) -> Report:
    """Return kinds of machine in one report, what each of them says of a test next to each other."""
    judgements = [judgement for report in merged.values() for judgement in report.judgements]
    tests = dict.fromkeys((one.run.test, one.run.label) for one in judgements)
    places = {test: place for place, test in enumerate(tests)}
    in_order = tuple(sorted(judgements, key=lambda one: places[one.run.test, one.run.label]))
    found = [*_missing(missing)]
    if len(merged) > 1:
        machines = ((kind, report.machine) for kind, report in merged.items())
        each = (f"{kind} ({one.cpu_model}, {counted(one.cores, 'core')})" for kind, one in machines)
        found.append(f"compared on each kind of machine alone, never across: {', '.join(each)}")
    shards = {kind: report.shards[0] for kind, report in merged.items()}
    if len({shard.selection for shard in shards.values() if shard.selection}) > 1:  # as where one skips a module
        each = (f"{kind} {counted(shard.selected, 'test')}" for kind, shard in shards.items())
        found.append(f"not all kinds of machine have selected the same tests: {', '.join(each)}")
    found += [f"{kind}: {warning}" for kind, report in merged.items() for warning in report.warnings]
    return _joined([*merged.values()], judgements=in_order, missing_kinds=missing, warnings=tuple(found))


def _joined(found: Sequence[Report], **others: Any) -> Report:
    """Return what several reports hold as one; their warnings are said by whoever joins them."""
    names = ("judgements", "skips", "gates", "sweeps", "shards", "hidden")
    parts = {name: tuple(chain.from_iterable(getattr(report, name) for report in found)) for name in names}
    whole = {"started_at": min(one.started_at for one in found), "partial": any(one.partial for one in found)}
    return replace(found[0], **parts | whole | {"warnings": ()} | others)


def assigned(report: Report, kind: str) -> Report:
    """Write into every part of a report of which kind of machine it is, whatever stood there."""
    return replace(
        report,
        judgements=tuple(replace(one, run=replace(one.run, kind=kind)) for one in report.judgements),
        skips=tuple(replace(one, kind=kind) for one in report.skips),
        gates=tuple(replace(one, kind=kind) for one in report.gates),
        sweeps=tuple(replace(one, name=f"{one.name.removesuffix(f' on {kind}')} on {kind}") for one in report.sweeps),
    )


def is_failed(report: Report) -> bool:
    failed = any(shard.failed or shard.exit_code == 1 for shard in report.shards)
    return failed or any(judgement.fails for judgement in report.judgements)


def why_open(report: Report) -> list[str]:
    """Say why a merged report is no answer to its build, whatever its tests say; nothing where it is one."""
    if not report.kinds:
        return why_shards_are_open(report)
    found = [f"{kind}: {line}" for kind in report.kinds for line in why_shards_are_open(report.of_kind(kind))]
    if report.partial and not any(shard.exit_code not in ENDED for shard in report.shards):
        found.append("a run was interrupted: not all of its tests are in this report")
    return [*_missing(report.missing_kinds), *found]


def why_shards_are_open(report: Report) -> list[str]:
    """Say why the shards of one kind of machine are no answer to their build; nothing where they are one."""
    of, found = report.shards[0].of, list[str]()
    if missing := report.missing_shards:
        verb, whose = ("is", "its") if len(missing) == 1 else ("are", "their")
        found.append(f"{_numbered(missing)} of {of} {verb} missing: {whose} tests are not in this report")
    cut = [shard for shard in report.shards if shard.exit_code not in ENDED]
    for shard in cut:
        one = f"shard {shard.number} of {shard.of}" if shard.of > 1 else "the run"
        found.append(f"{one} did not end: pytest's exit code was {shard.exit_code}")
    some, none = ("a shard", "no shard has") if of > 1 else ("the run", "the run has not")
    if report.partial and not cut:
        found.append(f"{some} was interrupted: not all of its tests are in this report")
    outcomes = {one.outcome for judgement in report.judgements for one in judgement.comparisons}
    if not report.judgements:
        found.append(f"{none} measured anything")
    elif report.shards[0].settings.get("--hwperf-against") and outcomes.isdisjoint(_DECIDED):
        found.append(f"{none} decided any comparison")
    return found


def _missing(kinds: tuple[str, ...]) -> Iterator[str]:
    for kind in kinds:
        one = f"the kind of machine {kind}" if kind else "one more kind of machine"
        yield f"{one} is missing: nothing is known of it"


def _numbered(numbers: Sequence[int]) -> str:
    return f"{'shard' if len(numbers) == 1 else 'shards'} {', '.join(map(str, numbers))}"


def _parts(reports: Mapping[str, Report]) -> Parts:
    """Return the shard that each report is of; a whole run on one kind of machine is the only shard of that kind."""
    for file, report in reports.items():
        if len(report.shards) != 1:
            what = "is merged already" if report.shards else "is no shard"
            raise UsageProblem(
                f"{file} {what}: give a file of pytest --hwperf-shard=K/N --hwperf-report=FILE.json for each shard, or "
                "of pytest --hwperf-machine-kind=NAME --hwperf-report=FILE.json for each kind of machine"
            )
    return {file: (report.shards[0], report) for file, report in reports.items()}


def _refuse_others(parts: Parts) -> None:
    """Refuse what is not of one build, and shards whose pairs have spent more than their part of the rate."""
    _refuse_unlike(parts, "the number of shards", lambda shard, _: str(shard.of), "give every shard the same N of K/N")
    for shard, one, other in _twice(parts, lambda shard, _: [shard.number]):
        raise UsageProblem(
            f"shard {shard} of {parts[one][0].of} is there twice, in {one} and {other}: give one report of each, that "
            "of its only run"
        )
    _refuse_other_builds(parts)
    _refuse_unlike(
        parts,
        "the selection of tests",
        lambda shard, _: f"{counted(shard.selected, 'test')} ({shard.selection[:12]})" if shard.selection else "",
        f"{_AGAIN}, on the same files",
    )
    for file, (shard, report) in parts.items():
        for gate in report.gates:
            asked = gate.against == shard.settings.get("--hwperf-against")
            if asked and gate.evidence.alpha > shard.own_alpha * _ROUNDED:
                again = [f"--hwperf-shard={shard.number}/{shard.of}"] if shard.of > 1 else []
                again += [f"--hwperf-machine-kind={shard.kind}/{shard.kinds}"] if shard.kinds > 1 else []
                raise UsageProblem(
                    f"{file}: its pairs had a false-alarm rate of {100 * gate.evidence.alpha:g} %, where its part is "
                    f"{100 * shard.own_alpha:g} %: run it again with "
                    f"{' '.join([*again, f'--hwperf-alpha={100 * shard.alpha:g}%'])}"
                )
    for test, one, other in _twice(
        parts, lambda _, report: dict.fromkeys((x.run.test, x.run.label) for x in report.judgements)
    ):
        raise UsageProblem(
            f"{shortened(test[0])} was measured in {one} and in {other}: a test belongs to one shard; {_AGAIN} and the "
            "same version of pytest-hwperf"
        )


def _twice(parts: Parts, keys: Callable[[Shard, Report], Iterable[Any]]) -> Iterator[tuple[Any, str, str]]:
    """Yield what two reports hold, with their files: nobody can tell which of them counts."""
    seen: dict[Hashable, str] = {}
    for file, part in parts.items():
        for key in keys(*part):
            if (other := seen.setdefault(key, file)) != file:
                yield key, other, file


def _refuse_other_builds(parts: Parts) -> None:
    """Refuse what was asked or compared otherwise, on whatever kind of machine, and a name that was two commits."""
    _refuse_unlike(parts, "--hwperf-alpha", lambda shard, _: f"{100 * shard.alpha:g}%", _AGAIN)
    for option in dict.fromkeys(option for shard, _ in parts.values() for option in shard.settings):
        _refuse_unlike(parts, option, lambda shard, _, of=option: shard.settings.get(of) or "not given", _AGAIN)  # type: ignore[misc]
    _refuse_unlike(
        parts,
        "the revision",
        lambda _, one: f"{one.revision}+changes" if one.changed and one.revision else one.revision,
        "run every shard on the same commit, without changes",
    )
    for against in dict.fromkeys(gate.against for _, report in parts.values() for gate in report.gates):

        def commit(_: Shard, report: Report, against: str = against) -> str:
            return next((gate.revision for gate in report.gates if gate.against == against), "")

        remedy = "it has moved: give every shard the commit itself, --hwperf-against=COMMIT"
        _refuse_unlike(parts, f"the revision of {shortened(against)}", commit, remedy)


def _refuse_unlike(parts: Parts, what: str, value: Callable[[Shard, Report], str], remedy: str) -> None:
    """Refuse shards in which something is not alike; where a value is "", it is not known."""
    seen: dict[str, str] = {}
    for file, part in parts.items():
        if given := value(*part):
            seen.setdefault(given, file)
    if len(seen) > 1:
        (one, first), (other, second) = list(seen.items())[:2]
        raise UsageProblem(f"{what} is {shortened(one)} in {first} and {shortened(other)} in {second}: {remedy}")
