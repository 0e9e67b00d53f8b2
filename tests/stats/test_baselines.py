"""A run against stored runs: which comparison fits, and what forbids one."""

from array import array
from collections.abc import Iterable, Mapping

import pytest
from fakes.records import estimate, figure, machine, run, sample

from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.run import Figure, Machine, Run, Sample, StoredRun, replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Judgement, Margin, uncompared
from pytest_hwperf.stats.estimates import figures
from pytest_hwperf.stats.stored import (
    Criteria,
    Stored,
    choose,
    compare_with_stored,
    measured_margins,
    named_too,
    not_compared,
    required_of,
    stored_run_of,
)

LATENCY, ACCURACY, MEMORY = (DEFAULT_MARGINS[name] for name in ("latency_p50", "accuracy", "memory"))
ENERGY, COLD, FLIPS = (DEFAULT_MARGINS[name] for name in ("energy", "cold_start", "flip_rate"))


def measured(*samples: Sample, conditions: Mapping[str, str] | None = None) -> Run:
    made = run(samples=samples or (sample(values=[0.006] * 9),))
    return made if conditions is None else replace(made, conditions=conditions)


def stored(*runs: Run, elsewhere: Iterable[Machine] = ()) -> Stored:
    sessions = [stored_run_of(Judgement(run=r, figures=figures(r), verdicts=())) for r in runs]
    return Stored(runs=sessions, elsewhere=list(elsewhere))


def compared(now: Run, base: Stored, criteria: Criteria, *repeats: Run) -> Comparison:
    (found,) = compare_with_stored(now, figures(now), base, criteria, [figures(again) for again in repeats])
    return found


def latency(seconds: float) -> Run:
    return measured(sample(values=[seconds] * 9))


def processes(metric: str, *values: float) -> Run:
    return measured(sample(metric, values, per="fresh process", source="VmHWM"))


def test_a_session_keeps_figures_and_exact_values_only() -> None:
    """Raw latencies would fill a repository; correctness per example is what makes accuracy comparable."""
    both = measured(sample(values=[0.006] * 9), sample("accuracy", [1, 0, 1], per="example"))
    session = stored_run_of(Judgement(run=both.with_result("big"), figures=figures(both), verdicts=()))
    assert [kept.metric for kept in session.run.samples] == ["accuracy"]
    assert ("latency", "p50") in {(figure.metric, figure.statistic) for figure in session.figures}
    assert session.run.result is None


def test_a_first_run_has_no_baseline() -> None:
    found = compared(measured(), stored(), Criteria(margins=[LATENCY]))
    assert (found.outcome, found.change) == ("no baseline", None)
    assert found.reason == "no baseline: save one with --hwperf-save"


def test_a_baseline_of_another_machine_is_not_comparable() -> None:
    """The nearest machine's difference is named."""
    far = replace(machine(cores=64), cpu_model="other", python="other")
    found = compared(measured(), stored(elsewhere=[far, machine(cores=8), machine()]), Criteria(margins=[LATENCY]))
    assert found.outcome == "not comparable"
    assert found.reason == ("the baseline is of another machine (cores: 8, 4): save one here with --hwperf-save")


def test_other_conditions_are_not_comparable() -> None:
    now = measured(conditions={"batch_size": "1", "load": "single_stream"})
    before = measured(conditions={"batch_size": "32", "load": "single_stream", "threads": "1"})
    found = compared(now, stored(before), Criteria(margins=[LATENCY]))
    assert found.outcome == "not comparable"
    assert found.reason == "batch_size: 32, 1; threads: 1, absent (baseline, now): save a new baseline"


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ("arm", "x86", "machine kind: arm, x86 (baseline, now): save a new baseline"),
        ("arm", "arm", ""),
        ("", "arm", ""),
        ("arm", "", ""),
    ],
)
def test_another_kind_of_machine_is_not_comparable(before: str, now: str, reason: str) -> None:
    """Even where the machines cannot be told apart; a run that does not say its kind is compared as before."""
    kept = stored(*[replace(latency(0.006), kind=before)] * 2)
    found = compared(replace(latency(0.006), kind=now), kept, Criteria(margins=[LATENCY]))
    assert (found.outcome == "not comparable") == bool(reason)
    assert found.reason == reason or not reason


def test_another_source_is_not_comparable() -> None:
    now, before = (measured(sample("energy", [0.1] * 5, source=source)) for source in ("rapl:package-0", "rapl:psys"))
    found = compared(now, stored(before), Criteria(margins=[ENERGY]))
    assert (found.outcome, found.reason) == (
        "not comparable",
        "source: rapl:psys, rapl:package-0 (baseline, now): save a new baseline",
    )


def test_sessions_that_agree_are_used_and_others_left_aside() -> None:
    base = stored(*[measured(conditions={"batch_size": "32"})] * 3, latency(0.006), latency(0.006))
    assert compared(latency(0.006), base, Criteria(margins=[LATENCY])).pairs == 2


@pytest.mark.parametrize(
    ("repeats", "outcome"), [((0.018, 0.018), "regressed"), ((0.018, 0.006), "inconclusive"), ((), "inconclusive")]
)
def test_a_timing_alarm_counts_only_when_it_is_repeated(repeats: tuple[float, ...], outcome: str) -> None:
    """Three times the latency of one stored run."""
    found = compared(latency(0.018), stored(latency(0.006)), Criteria(margins=[LATENCY]), *map(latency, repeats))
    assert found.outcome == outcome


def test_a_repeat_that_did_not_measure_it_repeats_nothing() -> None:
    other = measured(sample("accuracy", [1.0], per="example"))
    found = compared(latency(0.018), stored(latency(0.006)), Criteria(margins=[LATENCY]), other, other)
    assert found.outcome == "inconclusive"


def test_fresh_processes_repeat_each_other() -> None:
    """Each value of a cold start is a fresh process already."""
    base = stored(*[processes("cold_start", 0.1, 0.1, 0.1)] * 8)
    assert compared(processes("cold_start", 0.3, 0.3, 0.3), base, Criteria(margins=[COLD])).outcome == "regressed"
    assert compared(processes("cold_start", 0.3, 0.1, 0.1), base, Criteria(margins=[COLD])).outcome == "inconclusive"


def test_memory_is_compared_exactly_with_the_newest_session() -> None:
    base = stored(processes("memory", 90e6, 90e6, 90e6), processes("memory", 60e6, 60e6, 60e6))
    assert compared(processes("memory", 70e6, 70e6, 70e6), base, Criteria(margins=[MEMORY])).outcome == "regressed"
    assert compared(processes("memory", 60.5e6, 60e6, 60e6), base, Criteria(margins=[MEMORY])).outcome == "equivalent"


@pytest.mark.parametrize(("margin", "name"), [(ACCURACY, "accuracy"), (FLIPS, "flip_rate")])
def test_examples_are_compared_in_pairs(margin: object, name: str) -> None:
    """30 of 200 examples newly wrong (or newly flipped): exact McNemar."""
    good, bad = (1.0, 0.0) if name == "accuracy" else (0.0, 1.0)
    before = measured(Sample(metric=name, values=array("d", [good] * 200), per="example", source="model"))
    after = measured(Sample(metric=name, values=array("d", [good] * 170 + [bad] * 30), per="example", source="model"))
    found = compared(after, stored(before), Criteria(margins=[margin]))  # type: ignore[list-item] # a Margin
    assert (found.outcome, found.pairs) == ("regressed", 200)
    assert found.p_value == pytest.approx(0.5**30)


def test_an_estimate_is_never_compared() -> None:
    """It holds nothing beyond CPU time; left out unless the user named energy: then it says why."""
    now = measured(replace(sample("energy", [0.1] * 5, source="estimate:cpu-time"), estimated=True))
    unnamed = compare_with_stored(now, figures(now), stored(now), Criteria(margins=[ENERGY]))
    named = compared(now, stored(now), Criteria(margins=[ENERGY], required={("energy", "mean")}))
    assert unnamed == ()
    assert named.outcome == "not comparable"
    assert "holds nothing beyond CPU time" in named.reason


def test_what_was_named_and_not_measured_is_said() -> None:
    now = replace(measured(), unmeasured={"energy": said("the counter is stuck")})
    criteria = Criteria(margins=[ENERGY, MEMORY], required={("energy", "mean"), ("memory", "p50")})
    found = compare_with_stored(now, figures(now), stored(now), criteria)
    assert [comparison.reason for comparison in found] == [
        "not measured: the counter is stuck",
        "not measured: this measurement does not give it",
    ]


def test_what_nobody_measured_and_nobody_named_is_left_out() -> None:
    assert compare_with_stored(measured(), figures(measured()), stored(), Criteria(margins=[MEMORY])) == ()


def verdictless(margin: Margin, outcome: ComparisonOutcome, change: float | None = None) -> Comparison:
    """A comparison of which only the outcome and the change count."""
    found = uncompared(margin, outcome, said(outcome))
    return found if change is None else replace(found, change=estimate(change, None, None, 1), cause=None)


@pytest.mark.parametrize(
    ("margin", "old", "new", "blind", "chosen"),
    [
        (LATENCY, verdictless(LATENCY, "regressed", 0.5), verdictless(LATENCY, "equivalent", 0.0), False, "equivalent"),
        (LATENCY, verdictless(LATENCY, "regressed", 0.5), verdictless(LATENCY, "equivalent", 0.0), True, "regressed"),
        (LATENCY, verdictless(LATENCY, "improved", -0.5), verdictless(LATENCY, "equivalent", 0.0), True, "equivalent"),
        (LATENCY, verdictless(LATENCY, "inconclusive", 0.1), None, False, "inconclusive"),
        (LATENCY, None, verdictless(LATENCY, "equivalent", 0.0), False, "equivalent"),
        (MEMORY, verdictless(MEMORY, "equivalent", 0.0), verdictless(MEMORY, "regressed", 0.5), False, "equivalent"),
        (MEMORY, verdictless(MEMORY, "no baseline"), verdictless(MEMORY, "regressed", 0.5), False, "regressed"),
    ],
    ids=["pairs", "blind pairs", "blind to no alarm", "no pairs", "nothing stored", "exact", "exact without values"],
)
def test_each_margin_is_answered_by_the_better_comparison(
    margin: Margin, old: Comparison | None, new: Comparison | None, *, blind: bool, chosen: str
) -> None:
    """What is stored of exact metrics stays valid; pairs decide about timings, unless the test itself has changed."""
    stored_ones = [old] if old else []
    paired = {(margin.metric, margin.statistic): new} if new else {}
    (found,) = choose(run(), [margin], stored_ones, paired, blind=blind)
    assert chosen == found.outcome


def test_a_margin_that_nothing_answers_is_left_out() -> None:
    assert choose(run(), [LATENCY], [], {}, blind=False) == ()


def test_what_the_user_named_says_why_the_pairs_say_nothing() -> None:
    here = run(unmeasured={"energy": "no counter"})
    named = {(margin.metric, margin.statistic) for margin in (LATENCY, ENERGY, COLD)}
    known = {("latency", "p50"): verdictless(LATENCY, "equivalent", 0.0)}
    found = named_too(here, figures(here), Criteria(margins=[LATENCY, ENERGY, COLD, FLIPS], required=named), known)
    assert {"equivalent", "not comparable"} == {one.outcome for one in found.values()}
    assert ["", "no counter", "not measured: this measurement does not give it"] == [
        one.reason for one in found.values()
    ]


def test_what_was_measured_and_named_and_not_decided_is_said() -> None:
    here = latency(0.006)
    (found,) = named_too(here, figures(here), Criteria(margins=[LATENCY], required={LATENCY.key}), {}).values()
    assert "the pairs cannot tell" == found.reason


def test_margins_of_every_test_ask_only_for_what_a_test_has() -> None:
    """Energy could not be measured, or was estimated; accuracy without labels is no metric of the test."""
    plain, estimated = sample(), replace(sample("energy", source="estimate:cpu-time"), estimated=True)
    runs = (run(), run(unmeasured={"energy": "no counter"}), run(samples=(plain, estimated)))
    assert [frozenset(), {ENERGY.key}, {ENERGY.key}] == [required_of(one, (), [ACCURACY, ENERGY]) for one in runs]
    assert {ACCURACY.key} == required_of(run(), [ACCURACY], [ACCURACY, ENERGY])


def estimated_energy(measured: Run) -> tuple[Figure, ...]:
    """Its figures, and an energy that nothing has measured."""
    return (*figures(measured), figure("energy", "mean", source="estimate:cpu-time", per="window"))


def test_an_estimate_is_never_compared_whatever_there_is_to_compare_with() -> None:
    """Named, it says so; else it has no comparison, which would be counted."""
    here = latency(0.006)
    found, margins = estimated_energy(here), [LATENCY, ENERGY]
    named = named_too(here, found, Criteria(margins=margins, required={ENERGY.key}), {})
    assert [LATENCY] == measured_margins(margins, found)
    assert margins == measured_margins(margins, figures(here))
    assert ["latency"] == [one.metric for one in not_compared(found, Criteria(margins=margins), said("damaged"))]
    assert [True] == [
        one.reason.startswith("estimate:cpu-time holds nothing beyond CPU time") for one in named.values()
    ]


def test_what_kept_a_comparison_from_being_made_stands_beside_each_measured_margin() -> None:
    now = latency(0.006)
    (found,) = not_compared(figures(now), Criteria(margins=[LATENCY, ENERGY]), said("the store is damaged"))
    assert ("latency", "not comparable", "the store is damaged") == (found.metric, found.outcome, found.reason)


def test_an_update_of_a_library_is_named_with_the_way_on() -> None:
    updated = machine(libraries={"numpy": "1.0"}), machine(libraries={"numpy": "2.0"})
    found = compared(
        replace(measured(), machine=updated[1]), stored(elsewhere=updated[:1]), Criteria(margins=[LATENCY])
    )
    assert found.reason == (
        "this machine saved its baseline with other versions or settings (numpy: 1.0, 2.0; baseline, now): save a new "
        "one with pytest --hwperf-save, then remove the old one with hwperf baseline prune"
    )


def test_a_stored_run_without_the_values_of_its_figure_is_not_compared_with() -> None:
    """As one that was thinned to keep its file small, or forged."""
    now = processes("memory", 1e6, 1e6)
    bare = replace(processes("memory", 1e6, 1e6), samples=())
    kept = Stored(runs=[StoredRun(run=bare, figures=figures(now))])
    (found,) = compare_with_stored(now, figures(now), kept, Criteria(margins=[MEMORY]))
    assert (found.outcome, found.reason) == (
        "not comparable",
        "the stored run that fits holds no values of it: save a new baseline",
    )


def test_values_that_nothing_is_compared_with_are_not_kept() -> None:
    """A difference for each row would fill the baseline; its figures are kept."""
    now = measured(
        sample("flip_rate", [0.0, 1.0], per="example"),
        sample("probability_diff", [0.1, 0.2], per="example"),
    )
    kept = stored_run_of(Judgement(run=now, figures=figures(now), verdicts=()))
    assert ["flip_rate"] == [sample.metric for sample in kept.run.samples]
    assert {"max", "mean"} == {figure.statistic for figure in kept.figures if figure.metric == "probability_diff"}
