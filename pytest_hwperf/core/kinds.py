"""One report of a build on several kinds of machine: each kind has verdicts of its own, and none is across kinds."""

from collections.abc import Iterator, Mapping
from itertools import chain

from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.merging import ENDED, merge, refuse_other_builds, refuse_unlike, shard_in, why_shards_are_open
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.units import counted

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
    whole = replace(
        found[0],
        started_at=min(report.started_at for report in found),
        judgements=tuple(sorted(judgements, key=lambda one: places[one.run.test, one.run.label])),
        skips=tuple(chain.from_iterable(report.skips for report in found)),
        gates=tuple(chain.from_iterable(report.gates for report in found)),
        sweeps=tuple(chain.from_iterable(report.sweeps for report in found)),
        partial=any(report.partial for report in found),
        shards=tuple(chain.from_iterable(report.shards for report in found)),
        missing_kinds=missing,
    )
    own = (f"{kind}: {warning}" for kind, report in merged.items() for warning in report.warnings)
    return replace(whole, warnings=(*_missing(missing), *_machines(merged), *_other_tests(merged), *own))


def _missing(kinds: tuple[str, ...]) -> Iterator[str]:
    for kind in kinds:
        named = f"the kind of machine {kind}" if kind else "one more kind of machine"
        yield f"{named} is missing: nothing is known of it"


def _machines(merged: ByKind) -> Iterator[str]:
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
