"""Judge a test whose body has passed: budgets on its figures, and its runs against the stored baseline."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hwperf import registry
from pytest_hwperf.core.baselines import Stored, Terms, compare_with_sessions, not_compared, without
from pytest_hwperf.core.errors import HwperfError
from pytest_hwperf.core.estimates import figures
from pytest_hwperf.core.evidence import Measurement
from pytest_hwperf.core.records import Budget, Comparison, Figure, Judgement, Policy, Run, replace
from pytest_hwperf.core.report import ReportPart
from pytest_hwperf.core.serialisation import to_json
from pytest_hwperf.core.stored_timings import needs_repeats
from pytest_hwperf.core.verdicts import explain, judge
from pytest_hwperf.meters.energy.estimate import WATTS_VARIABLE, watts_here
from pytest_hwperf.plugin.allocation_sites import lines_of_sites
from pytest_hwperf.plugin.command_line import repeat_runs
from pytest_hwperf.plugin.measurement import empty_run
from pytest_hwperf.plugin.session import session_state
from pytest_hwperf.plugin.state import COMPARED, MARKERS, OWN_MARGINS, RERUN, RESULT, RUNS, SETTINGS, SKIPS
from pytest_hwperf.reports.junit import properties

if TYPE_CHECKING:
    from pytest_hwperf.plugin.options import Settings


def judge_test(item: pytest.Item) -> str:
    """Judge every run of a test; return the text of its failure, "" where it passes.

    All verdicts of the test are told together, the failing ones first.
    """
    settings, runs = item.config.stash[SETTINGS], item.stash.get(RUNS, [])
    if settings.disable:
        return ""
    measured = [run for run in runs if run.samples]
    if not measured and item.stash[MARKERS].budgets and not item.stash.get(SKIPS, []):
        measured = [_nothing_measured(item)]
    again = cache(lambda: repeat_runs(item))  # once for all labels of a test
    judgements, errors = list[Judgement](), list[str]()
    for run in measured:
        judgement, error = _judged(item, run, measured, again)
        judgements.append(judgement)
        errors.extend(filter(None, [error]))
    policy = Policy(undecided=settings.undecided, strict=settings.strict)
    for run, comparisons, _ in item.stash.get(COMPARED, []):
        judgements.append(Judgement(run=run, figures=(), verdicts=judge(run, (), comparisons, (), policy)))
    for judgement in judgements:
        item.user_properties.extend(properties(judgement))
    item.stash[RESULT] = plain_result(item, judgements)
    return "\n".join(filter(None, [*dict.fromkeys(errors), _failure(judgements), *lines_of_sites(item, judgements)]))


def plain_result(item: pytest.Item, judgements: Sequence[Judgement]) -> str:
    """Return what goes onto the report of a test: text, which crosses from worker to controller."""
    skips, compared = item.stash.get(SKIPS, []), item.stash.get(COMPARED, [])
    gates = tuple(gate for _, _, gate in compared)
    return to_json(ReportPart(judgements=tuple(judgements), skips=tuple(skips), gates=gates)).decode()


def check_resources(config: pytest.Config, settings: "Settings") -> None:
    """Refuse what would only fail after a long run: a store, a source of energy or a folder that cannot be used.

    Raises:
        pytest.UsageError: says what is wrong with it and what to do.
    """
    shared = session_state(config)
    try:
        registry.check("stores", settings.store)
        if settings.save or settings.compare:
            shared.store.check(settings.baseline, writing=settings.save)
        if settings.energy not in ("auto", "off"):
            registry.check("energy_meters", settings.energy)
    except HwperfError as error:
        raise pytest.UsageError(str(error)) from error
    if settings.against:
        from pytest_hwperf.plugin.gate import check_against

        check_against(config)
    folder = config.invocation_params.dir
    if settings.artifacts and (folder / settings.artifacts).is_file():
        raise pytest.UsageError(f"--hwperf-artifacts={settings.artifacts!r} is a file; give a folder")
    if settings.json and (folder / settings.json).is_dir():
        raise pytest.UsageError(f"--hwperf-json={settings.json!r} is a folder; give a file in it")


def check_energy(config: pytest.Config) -> None:
    """Open the source of energy that was asked for, before anything is measured.

    Raises:
        pytest.UsageError: it is not there; says why and what to do.
    """
    settings = config.stash[SETTINGS]
    if settings.disable or config.option.collectonly:
        return
    try:
        if settings.energy not in ("auto", "off"):
            _ = session_state(config).energy
        if settings.watts:
            watts_here({WATTS_VARIABLE: settings.watts})
    except HwperfError as error:
        raise pytest.UsageError(str(error)) from error


def header(config: pytest.Config, settings: "Settings") -> str:
    """Say in one line what is compared with what, on which machine."""
    doing = " and ".join(filter(None, ["comparing with" * settings.compare, "saving to" * settings.save]))
    parts = [f"rerunning {settings.against} in pairs"] if settings.against else []
    parts += [f"{doing} baseline {settings.baseline} in {settings.location}"] if doing else []
    machine = session_state(config).machine
    return (
        f"hwperf: {', '.join(parts)}, machine {machine.fingerprint} ({machine.cpu_model}, {machine.cores} cores), "
        f"alpha {settings.alpha:.3g}, energy {settings.energy}"
    )


def _nothing_measured(item: pytest.Item) -> Run:
    """Return the run of a test that has budgets and never measured: they are unmeasured, never passed."""
    reason = "the test never called hwperf(...)"
    return replace(empty_run(item), unmeasured={budget.metric: reason for budget in item.stash[MARKERS].budgets})


def _judged(
    item: pytest.Item, run: Run, all_runs: Sequence[Run], again: Callable[[], list[list[Run]]]
) -> tuple[Judgement, str]:
    """Judge one run; return why it could not be compared too, for budgets hold whatever became of the baseline."""
    settings, markers = item.config.stash[SETTINGS], item.stash[MARKERS]
    found, compared, trouble = figures(run), tuple[Comparison, ...](), ""
    if settings.compare or settings.against:
        try:
            compared = _compared(item, run, found, again)
        except HwperfError as error:
            trouble = str(error)
            compared = not_compared(found, _terms(item, run), trouble.partition("\n")[0])
    policy = Policy(undecided=settings.undecided, strict=settings.strict)
    budgets = _budgets_of(run, all_runs, markers.budgets)
    return Judgement(run=run, figures=found, verdicts=judge(run, found, compared, budgets, policy)), trouble


def _budgets_of(run: Run, all_runs: Sequence[Run], budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """Budgets speak of measured calls; a run that only holds the test's own metrics answers for none of them."""
    timed = [other for other in all_runs if other.sample("latency")]
    return budgets if run in timed or not timed else ()


def _compared(
    item: pytest.Item, run: Run, found: Sequence[Figure], again: Callable[[], list[list[Run]]]
) -> tuple[Comparison, ...]:
    """Compare with what was rerun and with what is stored; each margin is answered by the better of both."""
    terms = _terms(item, run)
    paired = _paired(item, run, terms)
    if not item.config.stash[SETTINGS].compare:
        return tuple(paired.values())
    blind = RERUN in item.config.stash and item.config.stash[RERUN].is_blind_to(item.path)
    decided = set[tuple[str, str]]() if blind else {*paired}
    stored = {_key(one): one for one in _stored(item, run, found, terms, again, decided)}
    answers = []
    for margin in terms.margins:
        key = (margin.metric, margin.statistic)
        old, new = stored.get(key), paired.get(key)
        # what is stored of exact metrics is fully valid; of all others the rerun decides
        keep_old = new is None or (old is not None and run.metric(margin.metric).exact and old.change is not None)
        if old is not None and blind and old.outcome == "regressed":
            keep_old = True  # the work of a changed test is the same on both sides of the rerun
        answers.append(old if keep_old else new)
    return tuple(answer for answer in answers if answer is not None)


def _paired(item: pytest.Item, run: Run, terms: Terms) -> dict[tuple[str, str], Comparison]:
    """Return what the pairs say of a run: (metric, statistic) → comparison."""
    rerun = item.config.stash.get(RERUN, None)
    if rerun is None:
        return {}
    measurement = Measurement(test=run.test, label=run.label)
    shown = {(figure.metric, figure.statistic) for figure in figures(run)}
    found = {
        key: rerun.compare(measurement, margin, measured=key in shown, named=key in terms.required)
        for margin in terms.margins
        for key in [(margin.metric, margin.statistic)]
    }
    for metric, statistic in terms.required:
        if found[metric, statistic] is None:
            margin = next(m for m in terms.margins if (m.metric, m.statistic) == (metric, statistic))
            why = run.unmeasured.get(metric, "the pairs cannot tell")
            found[metric, statistic] = without(margin, "not comparable", why)
    return {key: comparison for key, comparison in found.items() if comparison is not None}


def _stored(
    item: pytest.Item,
    run: Run,
    found: Sequence[Figure],
    terms: Terms,
    again: Callable[[], list[list[Run]]],
    decided: set[tuple[str, str]],
) -> tuple[Comparison, ...]:
    """Compare with the stored sessions; an alarm on a timing is repeated in two further fresh processes."""
    shared, settings = session_state(item.config), item.config.stash[SETTINGS]
    where: dict[str, Any] = {"baseline": settings.baseline, "test": run.test, "label": run.label}
    sessions = shared.store.load(machine=run.machine, **where)
    elsewhere = shared.store.machines(**where) if not sessions else ()  # told only where there is nothing here
    stored = Stored(sessions=sessions, elsewhere=elsewhere)
    first = compare_with_sessions(run, found, stored, terms)
    if not any(needs_repeats(comparison) and _key(comparison) not in decided for comparison in first):
        return first
    repeats = [figures(other) for runs in again() for other in runs if other.label == run.label]
    return compare_with_sessions(run, found, stored, terms, repeats)


def _key(comparison: Comparison) -> tuple[str, str]:
    return comparison.metric, comparison.statistic


def _terms(item: pytest.Item, run: Run) -> Terms:
    """Return what is compared: everything with a margin, the test's own metrics among it."""
    markers = item.stash[MARKERS]
    own = [margin for margin in item.stash.get(OWN_MARGINS, []) if margin.metric in run.directions]
    return Terms(
        margins=[*markers.margins, *own],
        required={(margin.metric, margin.statistic) for margin in markers.named},
        alpha=item.config.stash[SETTINGS].alpha,
    )


def _failure(judgements: Sequence[Judgement]) -> str:
    if not any(judgement.fails for judgement in judgements):
        return ""
    failing, others = list[str](), list[str]()
    for judgement in judgements:
        label = f"[{judgement.run.label}] " if judgement.run.label else ""
        for verdict in judgement.verdicts:
            (failing if verdict.fails else others).append(f"{label}{explain(verdict)}")
    return "\n".join([*failing, *others])
