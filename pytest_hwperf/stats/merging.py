"""One report of the shards of a build on one kind of machine: what is not of one build is refused, gaps are named."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pytest_hwperf.records.budgets import nearest
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.fleet import ENDED
from pytest_hwperf.records.report import Report, Shard
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import named, shortened
from pytest_hwperf.records.units import counted

_DECIDED = ("regressed", "improved", "equivalent")
_NAMED = 5  # tests in a sentence
_LONGEST_ID = 300  # characters of one
_ROUNDED = 1 + 1e-9
_AGAIN = "run every shard with the same arguments"

Parts = Mapping[str, tuple[Shard, Report]]  # file → what it holds


def merge(reports: Mapping[str, Report]) -> Report:
    """Put the reports of shards together."""
    found = [(file, (shard_in(file, report), report)) for file, report in reports.items()]
    parts = dict(sorted(found, key=lambda part: part[1][0].number))
    _refuse_others(parts)
    merged = _joined([report for _, report in parts.values()])
    return replace(
        merged, warnings=(*_machines(parts), *why_shards_are_open(merged), *failed_by_themselves(merged), *_own(parts))
    )


def _joined(found: Sequence[Report], **others: Any) -> Report:
    """Return what several reports hold as one; their warnings are said by whoever joins them."""
    names = ("judgements", "skips", "gates", "sweeps", "shards")
    parts = {name: tuple(chain.from_iterable(getattr(report, name) for report in found)) for name in names}
    started_at, partial = min(report.started_at for report in found), any(report.partial for report in found)
    return replace(found[0], started_at=started_at, partial=partial, warnings=(), **parts | others)


def is_failed(report: Report) -> bool:
    """Whether a test of a merged report failed, by a verdict or by itself."""
    failed = any(shard.failed or shard.exit_code == 1 for shard in report.shards)
    return failed or any(judgement.fails for judgement in report.judgements)


def why_shards_are_open(report: Report) -> list[str]:
    """Say why a merged report is no answer to its build, whatever its tests say; nothing where it is one."""
    of = report.shards[0].of
    found = []
    if missing := report.missing_shards:
        verb, whose = ("is", "its") if len(missing) == 1 else ("are", "their")
        found.append(f"{_numbered(missing)} of {of} {verb} missing: {whose} tests are not in this report")
    cut = [shard for shard in report.shards if shard.exit_code not in ENDED]
    found += [f"{_one(shard)} did not end: pytest's exit code was {shard.exit_code}" for shard in cut]
    some, none = ("a shard", "no shard has") if of > 1 else ("the run", "the run has not")
    if report.partial and not cut:
        found.append(f"{some} was interrupted: not all of its tests are in this report")
    if not report.judgements:
        found.append(f"{none} measured anything")
    elif report.shards[0].settings.get("--hwperf-against") and not _is_anything_decided(report):
        found.append(f"{none} decided any comparison")
    return found


def _one(shard: Shard) -> str:
    return f"shard {shard.number} of {shard.of}" if shard.of > 1 else "the run"


def _is_anything_decided(report: Report) -> bool:
    return any(one.outcome in _DECIDED for judgement in report.judgements for one in judgement.comparisons)


def shard_in(file: str, report: Report) -> Shard:
    """Return the shard that a report is of; a whole run on one kind of machine is the only shard of that kind."""
    if len(report.shards) == 1:
        return report.shards[0]
    what = "is merged already" if report.shards else "is no shard"
    raise UsageProblem(
        f"{file} {what}: give a file of pytest --hwperf-shard=K/N --hwperf-report=FILE.json for each shard, or of "
        "pytest --hwperf-machine-kind=NAME --hwperf-report=FILE.json for each kind of machine"
    )


def _refuse_others(parts: Parts) -> None:
    """Refuse what is not of one build."""
    refuse_unlike(parts, "the number of shards", lambda shard, _: str(shard.of), "give every shard the same N of K/N")
    _refuse_doubles(parts)
    refuse_other_builds(parts)
    refuse_unlike(parts, "the selection of tests", _selection, f"{_AGAIN}, on the same files")
    _refuse_whole_rates(parts)
    _refuse_tests_twice(parts)


def refuse_other_builds(parts: Parts) -> None:
    """Refuse what was asked or compared otherwise, on whatever kind of machine."""
    refuse_unlike(parts, "--hwperf-alpha", lambda shard, _: f"{100 * shard.alpha:g}%", _AGAIN)
    for option in dict.fromkeys(option for shard, _ in parts.values() for option in shard.settings):
        refuse_unlike(parts, option, lambda shard, _, option=option: shard.settings.get(option) or "not given", _AGAIN)  # type: ignore[misc]
    code = "run every shard on the same commit, without changes"
    refuse_unlike(parts, "the revision", lambda _, report: _revision(report), code)
    _refuse_other_baselines(parts)


def refuse_unlike(parts: Parts, what: str, value: Callable[[Shard, Report], str], remedy: str) -> None:
    """Refuse shards in which something is not alike; where a value is "", it is not known."""
    seen: dict[str, str] = {}
    for file, (shard, report) in parts.items():
        if given := value(shard, report):
            seen.setdefault(given, file)
    if len(seen) > 1:
        (one, first), (other, second) = list(seen.items())[:2]
        raise UsageProblem(f"{what} is {shortened(one)} in {first} and {shortened(other)} in {second}: {remedy}")


def _refuse_doubles(parts: Parts) -> None:
    """Refuse two reports of one shard: nobody can tell which of them counts."""
    seen: dict[int, str] = {}
    for file, (shard, _) in parts.items():
        if (other := seen.setdefault(shard.number, file)) != file:
            raise UsageProblem(
                f"shard {shard.number} of {shard.of} is there twice, in {other} and {file}: give one "
                "report of each, that of its only run"
            )


def _refuse_other_baselines(parts: Parts) -> None:
    """Refuse one name of a baseline that was another commit in each shard."""
    for against in dict.fromkeys(gate.against for _, report in parts.values() for gate in report.gates):

        def commit(_: Shard, report: Report, against: str = against) -> str:
            return next((gate.revision for gate in report.gates if gate.against == against), "")

        remedy = "it has moved: give every shard the commit itself, --hwperf-against=COMMIT"
        refuse_unlike(parts, f"the revision of {shortened(against)}", commit, remedy)


def _refuse_whole_rates(parts: Parts) -> None:
    """Refuse a shard whose pairs have spent more than its part of the false-alarm rate."""
    for file, (shard, report) in parts.items():
        own = shard.own_alpha
        for gate in report.gates:
            asked = gate.against == shard.settings.get("--hwperf-against")
            if asked and gate.evidence.alpha > own * _ROUNDED:
                again = [f"--hwperf-shard={shard.number}/{shard.of}"] if shard.of > 1 else []
                again += [f"--hwperf-machine-kind={shard.kind}/{shard.kinds}"] if shard.kinds > 1 else []
                raise UsageProblem(
                    f"{file}: its pairs had a false-alarm rate of {100 * gate.evidence.alpha:g} %, where its part is "
                    f"{100 * own:g} %: run it again with {' '.join([*again, f'--hwperf-alpha={100 * shard.alpha:g}%'])}"
                )


def _refuse_tests_twice(parts: Parts) -> None:
    """Refuse a test that two shards have measured."""
    seen: dict[tuple[str, str], str] = {}
    for file, (_, report) in parts.items():
        for key in dict.fromkeys((one.run.test, one.run.label) for one in report.judgements):
            if (other := seen.setdefault(key, file)) != file:
                raise UsageProblem(
                    f"{shortened(key[0])} was measured in {other} and in {file}: a test belongs to one shard; run "
                    "every shard with the same arguments and the same version of pytest-hwperf"
                )


def _revision(report: Report) -> str:
    return f"{report.revision}+changes" if report.changed and report.revision else report.revision


def _selection(shard: Shard, _: Report) -> str:
    return f"{counted(shard.selected, 'test')} ({shard.selection[:12]})" if shard.selection else ""


def _machines(parts: Parts) -> Iterator[str]:
    """Yield which shards ran on which machine, where there are several."""
    found: dict[str, list[int]] = {}
    named: dict[str, str] = {}
    for shard, report in parts.values():
        machine = report.machine
        found.setdefault(machine.fingerprint, []).append(shard.number)
        named[machine.fingerprint] = f"{machine.cpu_model}, {counted(machine.cores, 'core')}"
    if len(found) > 1:
        each = "; ".join(f"{named[one]} ({_numbered(numbers)})" for one, numbers in found.items())
        yield f"measured on {len(found)} machines, and compared on each of them alone: {each}"


def failed_by_themselves(report: Report) -> Iterator[str]:
    """Yield which tests failed for another reason than a verdict: a report holds nothing else of them."""
    judged = {judgement.run.test for judgement in report.judgements if judgement.fails}
    failed = [test for shard in report.shards for test in shard.failed if test not in judged]
    if failed:
        tests = named([one[:_LONGEST_ID] for one in failed], _NAMED)
        yield f"{counted(len(failed), 'test')} failed by themselves: {tests}"


def _own(parts: Parts) -> Iterator[str]:
    """Yield the warnings of all shards, each once, with the shards that it is of."""
    found: dict[str, list[int]] = {}
    for shard, report in parts.values():
        for warning in report.warnings:
            found.setdefault(warning, []).append(shard.number)
    divided = any(shard.of > 1 for shard, _ in parts.values())
    for warning, numbers in found.items():
        yield f"{_numbered(numbers)}: {warning}" if divided else warning


def _numbered(numbers: Sequence[int]) -> str:
    return f"{'shard' if len(numbers) == 1 else 'shards'} {', '.join(map(str, numbers))}"


ByKind = Mapping[str, Report]  # kind of machine → its shards, merged


def merge_kinds(reports: Mapping[str, Report], names: tuple[str, ...] = (), number: int = 0) -> Report:
    """Put the reports of a build together: the shards of each kind of machine, then all kinds side by side."""
    files: dict[str, dict[str, Report]] = {}
    for file, report in reports.items():
        files.setdefault(shard_in(file, report).kind, {})[file] = report
    if [*files] == [""] and not number:
        return merge(reports)
    _refuse_unknown(files, names)
    order = {kind: place for place, kind in enumerate(names)}
    kinds = sorted(files, key=lambda kind: (order.get(kind, 0), kind))
    merged = {kind: assigned(merge(files[kind]), kind) for kind in kinds}
    shared = _kinds_that_share(reports, len(merged))
    missing = [name for name in names if name not in merged]
    unnamed = max(number, shared) - len(merged) - len(missing)
    return _side_by_side(merged, (*missing, *[""] * unnamed))


def _kinds_that_share(reports: Mapping[str, Report], kinds: int) -> int:
    """Return among how many kinds the rate was divided; refuse reports of several builds, and too many kinds."""
    parts = {file: (shard_in(file, report), report) for file, report in reports.items()}
    refuse_other_builds(parts)
    again = "give every kind the same N of --hwperf-machine-kind=NAME/N"
    refuse_unlike(parts, "the number of kinds that share the rate", lambda shard, _: str(shard.kinds), again)
    shared = next(shard.kinds for shard, _ in parts.values())
    if 1 < shared < kinds:
        raise UsageProblem(
            f"{kinds} kinds of machine, each with its part of the rate for {shared}: run all of them again with "
            f"--hwperf-machine-kind=NAME/{kinds}"
        )
    return shared


def _refuse_unknown(files: Mapping[str, Mapping[str, Report]], names: tuple[str, ...]) -> None:
    """Refuse a report that names no kind of machine, or one that the build is not for."""
    for kind, reports in files.items():
        file = next(iter(reports))
        if not kind:
            raise UsageProblem(f"{file} names no kind of machine: run every job with --hwperf-machine-kind=NAME")
        if names and kind not in names:
            raise UsageProblem(
                f"{file} is of {kind!r}, which is not among --kinds={','.join(names)}.{nearest(kind, names)}"
            )


def assigned(report: Report, kind: str) -> Report:
    """Write into every part of a report of which kind of machine it is, whatever stood there."""
    return replace(
        report,
        judgements=tuple(replace(one, run=replace(one.run, kind=kind)) for one in report.judgements),
        skips=tuple(replace(one, kind=kind) for one in report.skips),
        gates=tuple(replace(one, kind=kind) for one in report.gates),
        sweeps=tuple(replace(one, name=f"{one.name.removesuffix(f' on {kind}')} on {kind}") for one in report.sweeps),
    )


def why_open(report: Report) -> list[str]:
    """Say why a merged report is no answer to its build, whatever its tests say; nothing where it is one."""
    if not report.kinds:
        return why_shards_are_open(report)
    found = [f"{kind}: {line}" for kind in report.kinds for line in why_shards_are_open(report.of_kind(kind))]
    if report.partial and not any(shard.exit_code not in ENDED for shard in report.shards):
        found.append("a run was interrupted: not all of its tests are in this report")
    return [*_missing(report.missing_kinds), *found]


def _side_by_side(merged: ByKind, missing: tuple[str, ...]) -> Report:
    """Return the kinds in one report, what each of them says of a test next to each other."""
    found = [*merged.values()]
    judgements = [judgement for report in found for judgement in report.judgements]
    tests = dict.fromkeys((one.run.test, one.run.label) for one in judgements)
    places = {test: place for place, test in enumerate(tests)}
    in_order = tuple(sorted(judgements, key=lambda one: places[one.run.test, one.run.label]))
    whole = _joined(found, judgements=in_order, missing_kinds=missing)
    own = (f"{kind}: {warning}" for kind, report in merged.items() for warning in report.warnings)
    return replace(whole, warnings=(*_missing(missing), *_machine_kinds(merged), *_other_tests(merged), *own))


def _missing(kinds: tuple[str, ...]) -> Iterator[str]:
    for kind in kinds:
        named = f"the kind of machine {kind}" if kind else "one more kind of machine"
        yield f"{named} is missing: nothing is known of it"


def _machine_kinds(merged: ByKind) -> Iterator[str]:
    """Yield what each kind of machine is, where there are several."""
    if len(merged) > 1:
        each = (
            f"{kind} ({report.machine.cpu_model}, {counted(report.machine.cores, 'core')})"
            for kind, report in merged.items()
        )
        yield f"compared on each kind of machine alone, never across: {', '.join(each)}"


def _other_tests(merged: ByKind) -> Iterator[str]:
    """Yield that the kinds have not selected the same tests, as where a module is skipped on one of them."""
    shards = {kind: report.shards[0] for kind, report in merged.items()}
    if len({shard.selection for shard in shards.values() if shard.selection}) > 1:
        each = ", ".join(f"{kind} {counted(shard.selected, 'test')}" for kind, shard in shards.items())
        yield f"not all kinds of machine have selected the same tests: {each}"
