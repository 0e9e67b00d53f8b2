"""Judgement of a test whose body has passed: budgets on its figures, and its runs against the baseline."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from pytest_hwperf.host.machine import loaded_libraries
from pytest_hwperf.plugin.fixture.targets import gone_scenarios
from pytest_hwperf.plugin.judging.again import Again, lines_of_sites
from pytest_hwperf.plugin.judging.failure import LOOK_FURTHER
from pytest_hwperf.plugin.measuring.run import empty_run, unmeasured_run
from pytest_hwperf.plugin.session.command import repeated
from pytest_hwperf.plugin.session.state import (
    Markers,
    SessionState,
    node_of,
    session_of,
    test_of,
)
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.report import ReportPart
from pytest_hwperf.records.run import Figure, Key, Run, replace
from pytest_hwperf.records.text import shell_line, visible
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.reports.exports import properties
from pytest_hwperf.stats.choice.sweeps import is_beyond, missed, row_of
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.stored.compare import (
    Criteria,
    Stored,
    choose,
    compare_with_stored,
    family_of,
    is_exact_alarm,
    measured_margins,
    named_too,
    needs_repeats,
    not_compared,
    required_of,
    unless_agreed,
)
from pytest_hwperf.stats.verdicts import answers_markers, failure_lines, judge


def judge_test(item: pytest.Item) -> str:
    """Judge every run of a test; return the text of its failure, "" where it passes.

    All verdicts of the test are reported together, the failing ones first.
    """
    session, test, again = session_of(item.config), test_of(item), Again(item)
    if test.markers.left_out:
        test.runs[""] = unmeasured_run(item, state("not repeatable", why=test.markers.left_out))
    measured = [run for run in test.runs.values() if run.samples or run.unmeasured]
    measured = measured or _never_called(item)
    judged = [_judged(item, run, again) for run in measured]
    judgements = [judgement for judgement, _ in judged]
    judgements += [judged_by(session, run, found) for run, found, _ in test.compared]
    for judgement in judgements:
        item.user_properties.extend(properties(judgement))
    note_miss(item, judgements)
    compared, failed = [one for judgement in judgements for one in judgement.comparisons], failures(judgements)
    if any(one.is_of_other_data for one in compared):
        test.counted = "not comparable"
    elif any(one.outcome == "inconclusive" for one in compared) and not failed:
        test.counted = "inconclusive"
    test.result = plain_result(item, judgements)
    errors = dict.fromkeys(error for _, error in judged if error)
    lines = [*failed, *errors, *gone_scenarios(item, test.skips), *lines_of_sites(item, judgements)]
    return "\n".join([*lines, *([_look_further(item)] if failed else [])])


_NEVER_CALLED = state("never called")
_FAR = 2.0  # times, by which calls of one process may differ from those of another on the same machine


def _never_called(item: pytest.Item) -> list[Run]:
    """Return a run of a test with budgets or margins of its own that measured nothing: they have not passed."""
    test = test_of(item)
    margins = test.markers.own if session_of(item.config).settings.compares and not test.compared else ()
    asked = (*test.markers.budgets, *margins)
    if not asked or test.skips:
        return []
    return [replace(empty_run(item.config, node_of(item)), unmeasured={one.metric: _NEVER_CALLED for one in asked})]


def judged_by(session: SessionState, run: Run, comparisons: Sequence[Comparison]) -> Judgement:
    return Judgement(run=run, figures=(), verdicts=judge(run, (), comparisons, (), session.policy))


def keep_comparisons(item: pytest.Item) -> None:
    """Keep what the pairs say of a test that measured, and then skipped itself or expects to fail."""
    test, judgements = test_of(item), list[Judgement]()
    for run in filter(lambda one: one.samples, test.runs.values()):
        compared = tuple(_in_pairs(item, run, figures(run), _criteria(item, run)).values())
        judgements.append(judged_by(session_of(item.config), run, compared))
        if compared and all(one.outcome == "not comparable" for one in compared):
            test.counted = "not comparable"
    if judgements:
        test.result = plain_result(item, judgements)


def plain_result(item: pytest.Item, judgements: Sequence[Judgement]) -> str:
    """Return what goes onto the report of a test: text, which xdist sends from worker to controller."""
    test = test_of(item)
    gates, point = tuple(gate for _, _, gate in test.compared), test.skipped_point or test.markers.point
    part = ReportPart(judgements=tuple(judgements), skips=tuple(test.skips), gates=gates, point=point)
    return to_json(part).decode()


def _judged(item: pytest.Item, run: Run, again: Again) -> tuple[Judgement, str]:
    """Judge one run; return why it could not be compared too, for budgets hold whatever became of the baseline."""
    session, test = session_of(item.config), test_of(item)
    found, compared, trouble = figures(run), tuple[Comparison, ...](), ""
    if session.settings.compares:
        criteria = _criteria(item, run)
        try:
            compared = _compared(item, run, found, criteria, again)
        except HwperfError as error:
            trouble = str(error)
            compared = not_compared(found, criteria, said(error.sentence))
        run = run if session.gate is None else _beside_pairs(run, compared)
    budgets = test.markers.budgets if answers_markers(run, test.measured) else ()
    verdicts = judge(run, found, compared, budgets, session.policy)
    if session.settings.undecided == "retry":
        try:
            verdicts = judge(run, found, compared, budgets, session.policy, again.retried(run, verdicts))
        except HwperfError as error:
            trouble = trouble or str(error)
    return Judgement(run=run, figures=found, verdicts=verdicts), trouble


def _compared(
    item: pytest.Item, run: Run, found: Sequence[Figure], criteria: Criteria, again: Again
) -> tuple[Comparison, ...]:
    """Compare with what was rerun and with what is stored; for each margin the better of both counts.

    An alarm by stored runs is repeated in two further fresh processes.
    """
    session, paired = session_of(item.config), _in_pairs(item, run, found, criteria)
    if not session.settings.compare:
        return tuple(paired.values())
    blind = session.gate is not None and session.gate.is_blind_to(item.path)
    stored, criteria = _stored(session, run), dataclasses.replace(criteria, family=_family(item))
    by_stored = compare_with_stored(run, found, stored, criteria)
    decided = {key for key, one in paired.items() if one.is_answer or one.is_answered_elsewhere}
    late = any(needs_repeats(one) and (blind or one.key not in decided) for one in by_stored)
    if late or any(is_exact_alarm(run, one) for one in by_stored):
        others = [other for runs in again.repeats for other in runs if other.label == run.label]
        repeats = [figures(other) for other in others] if late else ()
        by_stored = compare_with_stored(run, found, stored, criteria, repeats)
        by_stored = unless_agreed(run, by_stored, others, stored, criteria)
    return choose(run, criteria.margins, by_stored, paired, blind=blind)


def _in_pairs(item: pytest.Item, run: Run, found: Sequence[Figure], criteria: Criteria) -> dict[Key, Comparison]:
    """Return what the pairs say of a run; nothing where none ran."""
    session = session_of(item.config)
    gate = session.gate
    if gate is None or run.test in session.unpaired:
        return {}
    here = Measurement(test=run.test, label=run.label)
    measured = {figure.key for figure in found}
    margins = measured_margins(criteria.margins, found)
    # Where --hwperf-all measures nothing here, the run itself says why, and more plainly than the pairs do.
    whole = test_of(item).markers.by_all and MEDIAN_LATENCY[0] in run.unmeasured
    required = frozenset(criteria.required) - ({MEDIAN_LATENCY} if whole else set())
    silent = _NEVER_CALLED in run.unmeasured.values()  # which says more than that only the baseline measures
    return named_too(run, found, criteria, {} if silent else gate.answers.of(here, margins, measured, required))


def _beside_pairs(run: Run, paired: Iterable[Comparison]) -> Run:
    """Return a run, with a warning where all its calls took far more, or far less, than those of the pairs.

    Pairs whose sides share what they should not measure the same code twice, and this session only its own.
    """
    taken = run.sample(MEDIAN_LATENCY[0])
    pairs_s = next((one.candidate for one in paired if one.key == MEDIAN_LATENCY and one.candidate), None)
    if taken is None or pairs_s is None:
        return run
    least_s, most_s = min(taken.values), max(taken.values)
    if least_s <= _FAR * pairs_s <= _FAR * _FAR * most_s:
        return run
    doubt = state("own calls differ", least=least_s, most=most_s, pairs=pairs_s)
    doubted = replace(taken, warnings=(*taken.warnings, doubt))
    return replace(run, samples=tuple(doubted if one is taken else one for one in run.samples))


def _stored(session: SessionState, run: Run) -> Stored:
    """Fetch the stored runs of a measurement: of this machine, or where it has none of one that is alike."""
    where: dict[str, Any] = {"baseline": session.settings.baseline, "test": run.test, "label": run.label}
    if own := session.store.load(machine=run.machine, **where):
        return Stored(runs=own)
    elsewhere = session.store.machines(**where)  # shown only where this machine has none
    loaded = loaded_libraries() if elsewhere else frozenset()
    same = [machine for machine in elsewhere if machine.is_alike(run.machine, loaded)]
    alike = [one for machine in same for one in session.store.load(machine=machine, **where)]
    return Stored(runs=sorted(alike, key=lambda one: one.run.started_at), elsewhere=elsewhere)


def _criteria(item: pytest.Item, run: Run) -> Criteria:
    """Return what is compared: everything with a margin, the test's own metrics among it."""
    test, session = test_of(item), session_of(item.config)
    recorded = [margin for margin in test.own_margins if margin.metric in run.directions]
    asked = test.markers if answers_markers(run, test.measured) else Markers()
    everywhere = test.markers.by_all or test.markers.left_out  # whatever is not compared then is named
    here = Measurement(test=run.test, label=run.label)
    failing = () if session.gate is None else session.gate.answers.failing(here)
    return Criteria(
        margins=[*test.markers.margins, *recorded, *failing],
        required=required_of(run, asked.own, asked.named) | ({MEDIAN_LATENCY} if everywhere else set()),
        alpha=session.settings.alpha,
    )


def _family(item: pytest.Item) -> int:
    """Return the number of comparisons by example among which their alpha is split."""
    session = session_of(item.config)
    if session.family is None:
        tests = {node_of(one) for one in item.session.items}
        session.family = family_of(session.store.newest(session.settings.baseline), tests, session.machine)
    return session.family * session.settings.parts  # as if each part held as many


def skip_beyond(item: pytest.Item) -> None:
    """Skip a point that would miss the limit which a smaller batch has missed.

    Where a baseline is compared with, every point is measured: one that is skipped would be compared with nothing.
    """
    session, test = session_of(item.config), test_of(item)
    point = test.markers.point
    if point is None or not test.markers.stop or not session.judges:
        return
    if session.settings.compares:
        return
    for other, why in session.missed:
        if is_beyond(point, other):
            test.skipped_point = replace(point, skipped=why)
            pytest.skip(visible(str(why)))


def note_miss(item: pytest.Item, judgements: Sequence[Judgement]) -> None:
    """Keep a point where everything that is measured misses a limit which every larger batch would miss too."""
    if point := test_of(item).markers.point:
        rows = [row_of(point, judgement.figures) for judgement in judgements]
        misses = [missed(row) for row in rows if any(answer.value is not None for answer in row.answers)]
        session_of(item.config).missed.extend((point, why) for why in misses[:1] if why and all(misses))


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
    file, *inside = node_of(item).split("::")
    here = os.path.relpath(item.config.rootpath / file, item.config.invocation_params.dir)
    test = "::".join([f".{os.sep}{here}" if here.startswith("-") else here, *inside])
    return f"{LOOK_FURTHER}pytest {shell_line([test, '-vv', *repeated(item.config)])}"
