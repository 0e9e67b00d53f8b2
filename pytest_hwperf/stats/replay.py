"""Recomputation of a written report from the values in it: a disagreement was edited, or never held."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from pytest_hwperf.records.evidence import Gate, Measurement
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Run
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement, Policy, Verdict
from pytest_hwperf.stats.causes.explanations import explained
from pytest_hwperf.stats.choice.sweeps import row_of, sweep_of
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.pairs.paired import is_ratio, pair_value
from pytest_hwperf.stats.pairs.sequence import decide
from pytest_hwperf.stats.verdicts import judge_budget, judge_comparison

_Key = tuple[str, Measurement, str, str]  # kind of machine, measurement, metric and statistic
_CLOSE = 1e-9  # relative: another C library may round a logarithm otherwise in its last digit


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """The result of judging again."""

    agreeing: int  # verdicts that came out as they are written
    unjudged: int  # answers of the pairs without a verdict: of tests that failed by themselves, or did not run
    disagreements: tuple[str, ...]  # where and what, as "test latency p50: outcome: equivalent, regressed"
    beyond: int  # comparisons with stored runs and budgets decided by further processes, which a report does not hold


def recompute(report: Report) -> Recomputed:
    """Judge every figure, pair value, comparison and verdict of a report again; return what does not agree."""
    gates = [(gate.kind, explained(decide(gate.evidence), gate.profiles, gate.explanations)) for gate in report.gates]
    settled = {(kind, *key): one for kind, decided in gates for key, one in decided.items()}
    found, agreeing, beyond = [line for gate in report.gates for line in _pair_values(gate)], 0, 0
    due = set(settled)
    for judgement in report.judgements:
        run = judgement.run
        where = " ".join(filter(None, [run.test, run.label, run.kind]))
        again = figures(run)
        for was, now in zip_longest(judgement.figures, again):
            found += [f"{where}: figure {path}" for path in disagreements(was, now)]
        for verdict in judgement.verdicts:
            problems, known = _verdict(verdict, judgement, settled, report.policy)
            found += [f"{where}: {problem}" for problem in problems]
            agreeing += known and not problems
            beyond += not known
        here = _measured(run)
        answered = {(*here, *one.key) for one in judgement.comparisons}
        missing = {key for key in due if key[:2] == here} - answered
        found += sorted(f"{where}: {metric} {statistic}: its verdict is missing" for *_, metric, statistic in missing)
        due -= {key for key in due if key[:2] == here}
    found += _sweeps(report)
    return Recomputed(agreeing=agreeing, unjudged=len(due), disagreements=tuple(found), beyond=beyond)


def _measured(run: Run) -> tuple[str, Measurement]:
    """Return what the pairs call a measurement, with the kind of machine that they ran on."""
    return run.kind, Measurement(test=run.test, label=run.label)


def _sweeps(report: Report) -> Iterator[str]:
    """Yield which answers and best points do not follow from the figures of the points, and which figures are new."""
    known = {(figure.key, figure.estimate.value) for judgement in report.judgements for figure in judgement.figures}
    for sweep in report.sweeps:
        for row in sweep.rows:
            where = f"sweep of {sweep.name}, {row.point.named}"
            yield from (f"{where}: {path}" for path in disagreements(row, row_of(row.point, row.figures)))
            new = [figure for figure in row.figures if (figure.key, figure.estimate.value) not in known]
            yield from (f"{where}: no measurement has its {one.metric} {one.statistic}" for one in new)
        for was, now in zip_longest(sweep.best, sweep_of(sweep.name, sweep.rows).best):
            yield from (f"sweep of {sweep.name}: best point{path}" for path in disagreements(was, now))


def _pair_values(gate: Gate) -> Iterator[str]:
    """Yield which pair values do not follow from their blocks."""
    for pair in gate.evidence.pairs:
        for one in pair.observations:
            now = pair_value(one) if is_ratio(one) else None
            for path in disagreements(one.change, now):
                where = f"{one.measurement.test} {one.measurement.label}".rstrip()
                yield f"{where}: {one.metric} {one.statistic} of pair {pair.number}{path}"


def _verdict(
    verdict: Verdict, judgement: Judgement, settled: Mapping[_Key, Comparison], policy: Policy
) -> tuple[list[str], bool]:
    """Return what is wrong with a verdict, and whether the report holds what it rests on."""
    subject, run = verdict.subject, judgement.run
    if isinstance(subject, Budget):
        if any(one.kind == "fresh processes" for one in verdict.decided_by):  # whose values no report holds
            return [], False
        again = judge_budget(run, figures(run), subject, policy)
        return [f"budget {subject.keyword}: {path}" for path in disagreements(verdict, again)], True
    key = (*_measured(run), *subject.key)
    what = f"{subject.metric} {subject.statistic}"
    again = judge_comparison(run.metric(subject.metric), subject, policy)
    problems = [f"{what}: {path}" for path in disagreements(verdict, again)]
    if subject.is_with_stored:
        return problems, False
    if key in settled:
        return [*problems, *(f"{what}: {path}" for path in disagreements(subject, settled[key]))], True
    return problems, subject.change is None  # without a change there is only a reason


def disagreements(was: object, now: object, path: str = "") -> Iterator[str]:
    """Yield where two records differ, as `.change.value: 0.1, 0.2`; numbers may differ in their last digits."""
    if isinstance(was, Record) and type(was) is type(now):
        for name in was.__struct_fields__:
            yield from disagreements(getattr(was, name), getattr(now, name), f"{path}.{name}")
    elif isinstance(was, float) and isinstance(now, float):
        if not math.isclose(was, now, rel_tol=_CLOSE, abs_tol=1e-15):
            yield f"{path}: {was!r}, {now!r}"
    elif was != now:
        yield f"{path}: {was!r}, {now!r}"
