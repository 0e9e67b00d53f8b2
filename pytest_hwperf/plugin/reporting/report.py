"""The report of a session: made of what was judged, with what has to be known of the whole."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest

from pytest_hwperf.plugin.reporting.drift import drift_warnings
from pytest_hwperf.plugin.session.command import published
from pytest_hwperf.plugin.session.state import is_measured, session_of
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report, ReportPart, Shard
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.reports.headline import hidden_by_xfails
from pytest_hwperf.reports.table import families
from pytest_hwperf.stats.choice.advice import advice
from pytest_hwperf.stats.choice.candidates import candidate_of, pairs_of, slower_than_fp32
from pytest_hwperf.stats.choice.tradeoffs import measured_together
from pytest_hwperf.stats.merging import assigned
from pytest_hwperf.stats.pairs.hypotheses import one_side_only
from pytest_hwperf.stats.stored.compare import gone_from, machine_drift
from pytest_hwperf.stats.verdicts import baseline_failed, pairs_failed

if TYPE_CHECKING:
    from pytest_hwperf.plugin.session.settings import Settings


from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.choice.sweeps import missed, row_of, sweep_of

_NAMED = 3  # tests in a warning
_MOST_TURNS = 0.5  # of a comparison, interrupted: then nothing else helps it


def report_of(
    config: pytest.Config,
    results: Mapping[str, str],
    *,
    partial: bool,
    hidden: tuple[str, ...] = (),
    shards: tuple[Shard, ...] = (),
    failed: tuple[str, ...] = (),
) -> Report:
    """Make the report of everything that was judged, in the order in which it ran."""
    shared = session_of(config)
    settings = shared.settings
    parts = [from_json(ReportPart, text) for text in results.values()]
    judgements = [judgement for part in parts for judgement in part.judgements]
    comparisons = [comparison for judgement in judgements for comparison in judgement.comparisons]
    gates = tuple([shared.gate.gate] if shared.gate else []) + tuple(gate for part in parts for gate in part.gates)
    swept = {one.run.test for part in parts for one in part.judgements if part.point is not None}
    advised = map(str, advice(judgements, served=settings.serving_batch, swept=swept))
    remarks = [
        hidden_by_xfails(hidden),
        *_warnings(judgements, comparisons),
        *drift_warnings(config, judgements, gates),
    ]
    whole = [test for test, part in zip(results, parts, strict=True) if not (part.skips or part.point)]
    remarks.append(_gone(config, test_names(whole), judgements))
    report = Report(
        machine=shared.machine,
        revision=shared.revision.commit,
        revision_date=shared.revision_date,
        changed=shared.revision.changed,
        started_at=shared.started_at,
        baseline=settings.baseline if settings.keeps_runs else "",
        judgements=tuple(judgements),
        skips=tuple(skip for part in parts for skip in part.skips),
        warnings=tuple(filter(None, [*remarks, *advised])),
        partial=partial,
        hidden=hidden,
        failed=failed,
        shards=shards,
        policy=shared.policy,
        sweeps=sweeps_of(parts, workers=bool(getattr(config.option, "tx", None))),
        gates=gates,
        options=published(config),
    )
    return assigned(report, settings.machine_kind[0]) if settings.machine_kind else report


def sweeps_of(parts: Sequence[ReportPart], *, workers: bool) -> tuple[Sweep, ...]:
    """Put the points of all tests together: a sweep for each test and label."""
    rows: dict[str, list[SweepRow]] = {}
    for part in parts:
        if part.point is not None:
            for name, row in _rows_of(part, part.point):
                rows.setdefault(name, []).append(row)
    return tuple(sweep_of(name, found, *_notes(found, workers=workers)) for name, found in rows.items())


def _rows_of(part: ReportPart, point: SweepPoint) -> Iterator[tuple[str, SweepRow]]:
    if point.skipped or not part.judgements:
        yield point.sweep, row_of(point, ())
    for judgement in part.judgements:
        run = judgement.run
        label = run.label.replace(run.scenario, "").strip() if run.scenario else run.label
        found = replace(point, scenario=run.scenario)
        yield f"{point.sweep} {label}".strip(), row_of(found, judgement.figures)


def _notes(rows: Sequence[SweepRow], *, workers: bool) -> Iterator[Statement]:
    if len(rows) > 1:
        yield state("collection order")
    if workers and any(missed(row) for row in rows):
        yield state("workers stop alone")


def test_names(nodes: Collection[str]) -> set[str]:
    """Return node ids as they are, and without the `@group` of pytest-xdist: the names of runs leave it out."""
    return {name for node in nodes for name in accumulate(node.split("@"), "{}@{}".format)}


def _gone(config: pytest.Config, tests: Collection[str], judgements: Sequence[Judgement]) -> str:
    """Name the measurements that the stored baseline has of these tests and the session did not make; "" for none."""
    shared = session_of(config)
    measured = {Measurement(test=one.run.test, label=one.run.label) for one in judgements}
    gone = list[Measurement]()
    with suppress(StoreError):  # the tests say that it cannot be read
        stored = shared.store.newest(shared.settings.baseline) if shared.settings.compare else ()
        alike = [one.run for one in stored if one.run.machine.is_alike(shared.machine, ())]
        gone = gone_from(alike, tests, measured)
    named = _some([f"{one.test}: {one_side_only(one, 'baseline')}" for one in gone])
    return f"{counted(len(gone), 'stored measurement')} not compared: {named}" if gone else ""


def _warnings(judgements: Sequence[Judgement], comparisons: Sequence[Comparison]) -> Iterator[str | None]:
    """Yield what has to be known of a whole session; "" or None for what is as it should be."""
    yield machine_drift(comparisons)
    if comparisons and all(one.outcome == "not comparable" for one in comparisons):
        none = f"none of {len(comparisons)} comparisons could be made: {comparisons[0].reason}"
        yield f"{none}; --hwperf-strict fails them"
    yield from _not_run(judgements)
    yield from _slower_int8(judgements)
    yield from _lost_classes(judgements)
    doubts = (one for judgement in judgements for sample in judgement.run.samples for one in sample.warnings)
    yield next((str(one) for one in doubts if isinstance(one, Statement) and one.kind == "workers"), None)
    yield _interrupted(comparisons)
    yield from _shared_causes(judgements)


def _not_run(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield warnings that name the tests which the baseline has and could not run, or which do not run in pairs."""
    comparisons = [(judgement.run.test, one) for judgement in judgements for one in judgement.comparisons]
    compared = {test for test, one in comparisons if one.outcome not in ("no baseline", "not comparable")}
    for failed, who in ((baseline_failed, "the baseline"), (pairs_failed, "the pairs")):
        reasons = {test: one.reason for test, one in comparisons if test not in compared and failed(one)}
        if reasons:
            tests, named = counted(len(reasons), "test"), _some([f"{test}: {why}" for test, why in reasons.items()])
            yield f"{tests} not compared, since {who} could not run them; --hwperf-strict fails them: {named}"


def _some(sentences: Sequence[str]) -> str:
    more = [f"and {counted(len(sentences) - _NAMED, 'other')}"] if len(sentences) > _NAMED else []
    return "; ".join([*sentences[:_NAMED], *more])


def _slower_int8(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield warnings that name the tests in which INT8 is slower than FP32, and those in which it may be."""
    measured = [list(map(candidate_of, family.judgements)) for family in families(judgements, ())]
    found = [one for candidates in measured for one in slower_than_fp32(candidates)]
    for kind, verb in (("slower than fp32", "is"), ("may be slower than fp32", "may be")):
        slower = [one for one in found if one.kind == kind]
        pairs = f". Measure in pairs: {pairs_of(one.texts['test'] for one in slower)}" if verb == "may be" else ""
        if slower:
            yield f"INT8 {verb} slower than FP32, median of a call: {_some([*map(str, slower)])}{pairs}"


def _lost_classes(judgements: Sequence[Judgement]) -> Iterator[str]:
    found = [
        f"{one.name} of {measured.test} against {measured.reference.name}: {lost}"
        for measured in measured_together(judgements)
        for one in measured.candidates
        if (lost := measured.lost_by(one))
    ]
    found += [
        f"{judgement.run.test} against the baseline: {one.moved}"
        for judgement in judgements
        for one in judgement.comparisons
        if one.outcome != "regressed" and one.moved and one.moved.kind == "class lost"
    ]
    if found:
        yield f"classes are lost: {_some(found)}"


def _shared_causes(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Say once what several tests regressed by: each of their failures shows its own part of it."""
    tests = dict[str, set[str]]()
    for judgement in judgements:
        for one in judgement.comparisons:
            if one.outcome == "regressed" and one.moved and {"name", "where"} <= one.moved.texts.keys():
                cause = f"{one.moved.texts['name']} ({one.moved.texts['where']})"
                tests.setdefault(cause, set()).add(judgement.run.test)
    yield from (
        f"{len(found)} tests regressed by one cause: {cause}" for cause, found in tests.items() if len(found) > 1
    )


def _interrupted(comparisons: Sequence[Comparison]) -> str:
    """Say what helps where other work has left comparisons inconclusive, "" elsewhere."""
    inconclusive = [one for one in comparisons if one.outcome == "inconclusive"]
    most = sum((one.interference or 0.0) > _MOST_TURNS for one in inconclusive)
    told = f"other work interrupted most turns of {counted(most, 'inconclusive comparison')}"
    return f"{told}: stop it, or run on a machine with a free processor" if most else ""


_UNASKED = ("latency_p95", "memory")  # any test has them, and none is compared by them that does not name them
_GREEN = {"equivalent", "improved"}


def not_compared(settings: "Settings", items: Sequence[pytest.Item], report: Report) -> Iterator[str]:
    """Say after a green comparison which tests and statistics it left out, and how to include them."""
    made = [one for judgement in report.judgements for one in judgement.comparisons if not one.is_left_out]
    if not made or {one.outcome for one in made} - _GREEN or any(one.fails for one in report.judgements):
        return
    left, silent = list[str](), [item for item in items if not is_measured(item)]
    if silent and not settings.all:
        are_benchmarks = all("benchmark" in getattr(item, "fixturenames", ()) for item in silent)
        option = "--hwperf-benchmark" if are_benchmarks else "--hwperf-all"
        left.append(f"{counted(len(silent), 'test')} that measure{'s' * (len(silent) == 1)} nothing (add {option})")
    for name in _UNASKED:
        margin = DEFAULT_MARGINS[name]
        if margin.key not in {one.key for one in made}:
            statistic = METRICS[margin.metric].called(margin.statistic)
            left.append(f"{statistic} (add --hwperf-margin={name}={100 * margin.size:g}%)")
    if left:
        yield f"not compared: {', '.join(left)}"
