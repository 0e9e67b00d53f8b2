"""Judgement of a test whose body has passed: budgets on its figures, and its runs against the baseline."""

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import Any

import pytest

from pytest_hwperf.host.machine import loaded_libraries
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.plugin.command import command_for, repeated, timeout_paused
from pytest_hwperf.plugin.failure import LOOK_FURTHER, lines_of_sites
from pytest_hwperf.plugin.markers import note_miss
from pytest_hwperf.plugin.measurement import empty_run, repeat_runs
from pytest_hwperf.plugin.progress import countdown_of
from pytest_hwperf.plugin.session import Markers, SessionState, session_of, test_of
from pytest_hwperf.plugin.whole_suites import unmeasured_run
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.report import ReportPart
from pytest_hwperf.records.run import Figure, Key, Run, figure_of, replace
from pytest_hwperf.records.text import visible, visible_pattern
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement, Policy, Skip, Verdict
from pytest_hwperf.reports.exports import properties
from pytest_hwperf.stats.baselines import (
    Criteria,
    Stored,
    choose,
    compare_with_stored,
    family_of,
    is_exact_alarm,
    measured_margins,
    named_too,
    not_compared,
    required_of,
    unless_agreed,
)
from pytest_hwperf.stats.estimates import figures
from pytest_hwperf.stats.stored_timings import needs_repeats
from pytest_hwperf.stats.verdicts import MOST_RETRIES, answers_markers, failure_lines, is_timed, judge, keeps


@dataclass(slots=True)
class Retries:
    """Further measurements of a test, each in a fresh process, made when they are first asked for."""

    item: pytest.Item
    _made: list[list[Run]] = field(default_factory=list)
    _took_s: float = 0.0  # of the last of them

    def values(self, run: Run, verdicts: Sequence[Verdict]) -> Mapping[Key, Sequence[float]]:
        """Return the values of every inconclusive budget in up to five processes: as long as all lie on one side."""
        inconclusive = [verdict.subject for verdict in verdicts if verdict.outcome == "inconclusive"]
        budgets = [one for one in inconclusive if isinstance(one, Budget) and is_timed(run.metric(one.metric))]
        found = {budget.key: list[float]() for budget in budgets}
        for number in range(MOST_RETRIES):
            going_on = [one for one in budgets if len({keeps(run, one, value) for value in found[one.key]}) <= 1]
            if not going_on:
                break
            again = figures(next(other for other in self._nth(number) if other.label == run.label))
            for budget in going_on:
                figure = figure_of(again, budget.key)
                found[budget.key].extend([figure.estimate.value] if figure else [])
        return found

    def _nth(self, number: int) -> list[Run]:
        while len(self._made) <= number:
            task, shown, began = WorkerTask(role="run", node=self.item.nodeid), countdown_of(self.item), monotonic()
            with timeout_paused(self.item), closing(shown):  # nothing is written while the process measures
                shown.announce(f"measurement {len(self._made) + 1} of up to {MOST_RETRIES} more", self._took_s)
                (result,) = ask(task, [command_for(self.item)])
            self._took_s = monotonic() - began
            self._made.append(result.runs)
        return self._made[number]


def judge_test(item: pytest.Item) -> str:
    """Judge every run of a test; return the text of its failure, "" where it passes.

    All verdicts of the test are reported together, the failing ones first.
    """
    settings, test = session_of(item.config).settings, test_of(item)
    if test.markers.left_out:
        test.runs.append(unmeasured_run(item, state("not repeatable", why=test.markers.left_out)))
    measured = [run for run in test.runs if run.samples or run.unmeasured]
    if not measured and test.markers.budgets and not test.skips:
        measured = [_nothing_measured(item)]
    again = cache(lambda: repeat_runs(item))  # once for all labels of a test
    retries = Retries(item)
    judgements, errors = list[Judgement](), list[str]()
    for run in measured:
        judgement, error = _judged(item, run, again, retries)
        judgements.append(judgement)
        errors.extend(filter(None, [error]))
    policy = Policy(undecided=settings.undecided, strict=settings.strict)
    for run, comparisons, _ in test.compared:
        judgements.append(Judgement(run=run, figures=(), verdicts=judge(run, (), comparisons, (), policy)))
    for judgement in judgements:
        item.user_properties.extend(properties(judgement))
    note_miss(item, judgements)
    compared = [one for judgement in judgements for one in judgement.comparisons]
    if any(one.is_of_other_data for one in compared):
        test.counted = "not comparable"
    elif any(one.outcome == "inconclusive" for one in compared) and not failures(judgements):
        test.counted = "inconclusive"
    test.result = plain_result(item, judgements)
    failed = failures(judgements)
    sites = lines_of_sites(item, judgements)
    lines = [*failed, *dict.fromkeys(errors), *gone_scenarios(item, test.skips), *sites]
    return "\n".join([*lines, *([_look_further(item)] if failed else [])])


def keep_comparisons(item: pytest.Item) -> None:
    """Keep what the pairs say of a test that measured, and then skipped itself or expects to fail."""
    settings, test = session_of(item.config).settings, test_of(item)
    policy = Policy(undecided=settings.undecided, strict=settings.strict)
    judgements = []
    for run in filter(lambda one: one.samples, test.runs):
        compared = tuple(_in_pairs(item, run, figures(run), _criteria(item, run)).values())
        judgements.append(Judgement(run=run, figures=(), verdicts=judge(run, (), compared, (), policy)))
        if compared and all(one.outcome == "not comparable" for one in compared):
            test.counted = "not comparable"
    if judgements:
        test.result = plain_result(item, judgements)


def gone_scenarios(item: pytest.Item, skips: Sequence[Skip]) -> list[str]:
    """Say which skipped scenarios of a test with budgets could be prepared in the baseline: they have to fail.

    A budget that nothing measures any more would pass unseen.
    """
    session = session_of(item.config)
    if not session.mode.judges or all(budget.default for budget in test_of(item).markers.budgets):
        return []
    return [
        f"{skip.scenario}: it has a budget and ran in {where}, and cannot be prepared now: {skip.reason}"
        for skip in skips
        if (where := _ran_in(item, session, skip.scenario))
    ]


def _ran_in(item: pytest.Item, session: SessionState, scenario: str) -> str:
    """Return the name of the baseline in which a scenario of a test was measured, "" where it was not."""
    if session.gate is not None:
        gone = (one for one in session.gate.gone if one.test == item.nodeid)
        if any(not one.label or scenario in one.label for one in gone):
            return session.gate.gate.against
    if not session.settings.compare:
        return ""
    name = session.settings.baseline
    stored = session.store.newest(name)
    return (
        f"baseline {name}"
        if any(one.run.test == item.nodeid and one.run.scenario == scenario for one in stored)
        else ""
    )


def plain_result(item: pytest.Item, judgements: Sequence[Judgement]) -> str:
    """Return what goes onto the report of a test: text, which xdist sends from worker to controller."""
    test = test_of(item)
    gates, point = tuple(gate for _, _, gate in test.compared), test.skipped_point or test.markers.point
    part = ReportPart(judgements=tuple(judgements), skips=tuple(test.skips), gates=gates, point=point)
    return to_json(part).decode()


def _nothing_measured(item: pytest.Item) -> Run:
    """Return the run of a test that has budgets and never measured: they are unmeasured, never passed."""
    cause = state("never called")
    return replace(empty_run(item), unmeasured={budget.metric: cause for budget in test_of(item).markers.budgets})


def _judged(
    item: pytest.Item,
    run: Run,
    again: Callable[[], list[list[Run]]],
    retries: Retries,
) -> tuple[Judgement, str]:
    """Judge one run; return why it could not be compared too, for budgets hold whatever became of the baseline."""
    settings, test = session_of(item.config).settings, test_of(item)
    found, compared, trouble = figures(run), tuple[Comparison, ...](), ""
    if settings.compare or settings.reruns:
        try:
            compared = _compared(item, run, found, again)
        except HwperfError as error:
            trouble = str(error)
            compared = not_compared(found, _criteria(item, run), said(error.sentence))
    policy = Policy(undecided=settings.undecided, strict=settings.strict)
    budgets = test.markers.budgets if answers_markers(run, test.measured) else ()
    verdicts = judge(run, found, compared, budgets, policy)
    if settings.undecided == "retry":
        try:
            verdicts = judge(run, found, compared, budgets, policy, retries.values(run, verdicts))
        except HwperfError as error:
            trouble = trouble or str(error)
    return Judgement(run=run, figures=found, verdicts=verdicts), trouble


def _compared(
    item: pytest.Item, run: Run, found: Sequence[Figure], again: Callable[[], list[list[Run]]]
) -> tuple[Comparison, ...]:
    """Compare with what was rerun and with what is stored; for each margin the better of both counts."""
    session, criteria = session_of(item.config), _criteria(item, run)
    paired = _in_pairs(item, run, found, criteria)
    if not session.settings.compare:
        return tuple(paired.values())
    blind = session.gate is not None and session.gate.is_blind_to(item.path)
    stored = _stored(item, run, found, criteria, again, decided=() if blind else paired.keys())
    return choose(run, criteria.margins, stored, paired, blind=blind)


def _in_pairs(item: pytest.Item, run: Run, found: Sequence[Figure], criteria: Criteria) -> dict[Key, Comparison]:
    """Return what the pairs say of a run; nothing where none ran."""
    gate = session_of(item.config).gate
    if gate is None:
        return {}
    here = Measurement(test=run.test, label=run.label)
    measured = {figure.key for figure in found}
    margins = measured_margins(criteria.margins, found)
    # Where --hwperf-all measures nothing here, the run itself says why, and more plainly than the pairs do.
    whole = test_of(item).markers.by_all and MEDIAN_LATENCY[0] in run.unmeasured
    required = frozenset(criteria.required) - ({MEDIAN_LATENCY} if whole else set())
    return named_too(run, found, criteria, gate.answers.of(here, margins, measured, required))


def _stored(
    item: pytest.Item,
    run: Run,
    found: Sequence[Figure],
    criteria: Criteria,
    again: Callable[[], list[list[Run]]],
    decided: Collection[tuple[str, str]],
) -> tuple[Comparison, ...]:
    """Compare with the stored runs; an alarm is repeated in two further fresh processes."""
    shared = session_of(item.config)
    settings = shared.settings
    where: dict[str, Any] = {"baseline": settings.baseline, "test": run.test, "label": run.label}
    stored_runs = shared.store.load(machine=run.machine, **where)
    elsewhere = shared.store.machines(**where) if not stored_runs else ()  # shown only where this machine has none
    loaded = loaded_libraries() if elsewhere else frozenset()
    same = [machine for machine in elsewhere if machine.is_alike(run.machine, loaded)]
    alike = [one for machine in same for one in shared.store.load(machine=machine, **where)]
    stored_runs = stored_runs or tuple(sorted(alike, key=lambda one: one.run.started_at))
    stored = Stored(runs=stored_runs, elsewhere=elsewhere)
    first = compare_with_stored(run, found, stored, criteria)
    late = any(needs_repeats(one) and one.key not in decided for one in first)
    if not late and not any(is_exact_alarm(run, one) for one in first):
        return first
    others = [other for runs in again() for other in runs if other.label == run.label]
    repeats = [figures(other) for other in others] if late else ()
    again_compared = compare_with_stored(run, found, stored, criteria, repeats)
    return unless_agreed(run, again_compared, others, stored, criteria)


def _criteria(item: pytest.Item, run: Run) -> Criteria:
    """Return what is compared: everything with a margin, the test's own metrics among it."""
    test = test_of(item)
    recorded = [margin for margin in test.own_margins if margin.metric in run.directions]
    asked = test.markers if answers_markers(run, test.measured) else Markers()
    everywhere = test.markers.by_all or test.markers.left_out  # whatever is not compared then is named
    session = session_of(item.config)
    if session.family is None and session.settings.compare:
        tests = {one.nodeid for one in item.session.items}
        session.family = family_of(session.store.newest(session.settings.baseline), tests, session.machine)
    return Criteria(
        margins=[*test.markers.margins, *recorded],
        required=required_of(run, asked.own, asked.named) | ({MEDIAN_LATENCY} if everywhere else set()),
        alpha=session.settings.alpha,
        family=(session.family or 1) * session.settings.parts,  # as if each held as many
    )


def failures(judgements: Sequence[Judgement]) -> list[str]:
    """Write what fails a test, the worst first: a line for each verdict, and below it what is known of its cause."""
    found = [
        (verdict.outcome not in ("regressed", "failed"), judgement.run, verdict)
        for judgement in judgements
        for verdict in judgement.verdicts
        if verdict.fails
    ]
    lines = []
    for _, run, verdict in sorted(found, key=lambda one: one[0]):
        first, *causes = map(visible, failure_lines(run, verdict))
        lines += [f"{first} [{visible(run.label)}]" if run.label else first, *(f"  {cause}" for cause in causes)]
    return lines


def _look_further(item: pytest.Item) -> str:
    """Return the command that shows everything about one test, from the folder in which this one was typed."""
    file, *inside = item.nodeid.split("::")
    here = os.path.relpath(item.config.rootpath / file, item.config.invocation_params.dir)
    test = visible_pattern("::".join([here, *inside]))
    return f"{LOOK_FURTHER}pytest {visible(shlex.join([test, '-vv', *repeated(item.config)]))}"
