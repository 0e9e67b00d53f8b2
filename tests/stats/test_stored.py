"""A run against stored runs: which comparison fits, what forbids one, limits of timings, and rates of whole builds."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from random import Random

import pytest
from fakes.records import estimate, figure, machine, run, sample
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import Figure, Machine, Run, Sample, StoredRun, replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Judgement, Margin, uncompared
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.stored.compare import (
    Criteria,
    Stored,
    choose,
    compare_with_history,
    compare_with_stored,
    family_of,
    gone_from,
    history_limit,
    is_exact_alarm,
    machine_drift,
    may_hide_a_change,
    measured_margins,
    named_too,
    needs_repeats,
    not_compared,
    prediction_limit,
    required_of,
    rerun_of,
    stored_run_of,
    unless_agreed,
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
    """Raw latencies, and a difference for each row, would fill a repository; of examples correctness is compared."""
    per_example: dict[str, list[float]] = {
        "accuracy": [1, 0, 1],
        "flip_rate": [0, 1, 0],
        "probability_diff": [0.1, 0.2, 0.1],
    }
    both = measured(sample(values=[0.006] * 9), *(sample(one, of, per="example") for one, of in per_example.items()))
    session = stored_run_of(Judgement(run=both.with_result("big"), figures=figures(both), verdicts=()))
    assert ["accuracy", "flip_rate"] == [kept.metric for kept in session.run.samples]
    shown = {("latency", "p50"), ("probability_diff", "max"), ("probability_diff", "mean")}
    assert shown <= {(figure.metric, figure.statistic) for figure in session.figures}
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


def test_another_kind_of_machine_is_not_comparable() -> None:
    """Even where the machines cannot be told apart; a run that does not say its kind is compared as before."""
    table = [
        ("arm", "x86", "machine kind: arm, x86 (baseline, now): save a new baseline"),
        ("arm", "arm", ""),
        ("", "arm", ""),
        ("arm", "", ""),
    ]
    for before, now, reason in table:
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


def test_a_repeat_that_did_not_measure_it_repeats_nothing() -> None:
    other = measured(sample("accuracy", [1.0], per="example"))
    found = compared(latency(0.018), stored(latency(0.006)), Criteria(margins=[LATENCY]), other, other)
    assert found.outcome == "inconclusive"


def test_fresh_processes_are_compared_exactly_with_the_newest_session_or_repeat_each_other() -> None:
    """Each value of a cold start is a fresh process already."""
    base = stored(processes("memory", 90e6, 90e6, 90e6), processes("memory", 60e6, 60e6, 60e6))
    cold = stored(*[processes("cold_start", 0.1, 0.1, 0.1)] * 8)
    table = [
        (processes("memory", 70e6, 70e6, 70e6), base, MEMORY, "regressed"),
        (processes("memory", 60.5e6, 60e6, 60e6), base, MEMORY, "equivalent"),
        (processes("cold_start", 0.3, 0.3, 0.3), cold, COLD, "regressed"),
        (processes("cold_start", 0.3, 0.1, 0.1), cold, COLD, "inconclusive"),
    ]
    assert [one[-1] for one in table] == [
        compared(now, old, Criteria(margins=[of])).outcome for now, old, of, _ in table
    ]


def test_examples_are_compared_in_pairs() -> None:
    """30 of 200 examples newly wrong (or newly flipped): exact McNemar."""
    table: list[tuple[object, str]] = [(ACCURACY, "accuracy"), (FLIPS, "flip_rate")]
    for margin, name in table:
        good, bad = (1.0, 0.0) if name == "accuracy" else (0.0, 1.0)
        before = measured(Sample(metric=name, values=array("d", [good] * 200), per="example", source="model"))
        after = measured(
            Sample(metric=name, values=array("d", [good] * 170 + [bad] * 30), per="example", source="model")
        )
        found = compared(after, stored(before), Criteria(margins=[margin]))  # type: ignore[list-item] # a Margin
        assert (found.outcome, found.pairs) == ("regressed", 200), (margin, name)
        assert found.p_value == pytest.approx(0.5**30), (margin, name)


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


def verdictless(margin: Margin, outcome: ComparisonOutcome, change: float | None = None) -> Comparison:
    """A comparison of which only the outcome and the change count."""
    found = uncompared(margin, outcome, said(outcome))
    return found if change is None else replace(found, change=estimate(change, None, None, 1), cause=None)


def test_each_margin_is_answered_by_the_better_comparison() -> None:
    """What is stored of exact metrics stays valid; pairs decide about timings, unless the test itself has changed."""
    table: list[tuple[Margin, Comparison | None, Comparison | None, bool, str]] = [
        (LATENCY, verdictless(LATENCY, "regressed", 0.5), verdictless(LATENCY, "equivalent", 0.0), False, "equivalent"),
        (LATENCY, verdictless(LATENCY, "regressed", 0.5), verdictless(LATENCY, "equivalent", 0.0), True, "regressed"),
        (LATENCY, verdictless(LATENCY, "improved", -0.5), verdictless(LATENCY, "equivalent", 0.0), True, "equivalent"),
        (LATENCY, verdictless(LATENCY, "inconclusive", 0.1), None, False, "inconclusive"),
        (LATENCY, None, verdictless(LATENCY, "equivalent", 0.0), False, "equivalent"),
        (MEMORY, verdictless(MEMORY, "equivalent", 0.0), verdictless(MEMORY, "regressed", 0.5), False, "equivalent"),
        (MEMORY, verdictless(MEMORY, "no baseline"), verdictless(MEMORY, "regressed", 0.5), False, "regressed"),
    ]
    for margin, old, new, blind, chosen in table:
        stored_ones = [old] if old else []
        paired = {(margin.metric, margin.statistic): new} if new else {}
        (found,) = choose(run(), [margin], stored_ones, paired, blind=blind)
        assert chosen == found.outcome


def test_the_revision_that_most_tests_share_is_rerun_and_the_newest_of_equally_many() -> None:
    """Of each test its newest run counts, and one with changes is of another revision; the others are left out."""

    def saved(test: str, revision: str, *, changed: bool = False) -> Run:
        started = f"2026-03-0{revision[-1]}T00:00:00+00:00"
        return replace(run(test=test, revision=revision), changed=changed, started_at=started)

    table: list[tuple[list[Run], str, tuple[str, ...]]] = [
        ([saved("a", "r1")], "r1", ()),
        ([saved("b", "r2"), saved("a", "r1")], "r2", ("a",)),
        ([saved("a", "r1"), saved("b", "r1"), saved("c", "r2")], "r1", ("c",)),
        ([saved("a", "r2"), saved("a", "r1"), saved("b", "r1"), saved("b", "r2"), saved("c", "r3")], "r2", ("c",)),
        ([saved("a", "r1"), saved("b", "r1", changed=True), saved("c", "r1", changed=True)], "r1+changes", ("a",)),
    ]
    for runs, revision, others in table:
        chosen, left_out = rerun_of(runs)
        assert (revision, others) == (chosen.shown_revision, left_out)


def test_what_the_newest_stored_revision_of_a_test_has_and_nothing_measures_is_gone() -> None:
    """Of tests that ran; on several machines it is one measurement, and an older revision counts no more."""

    def saved(test: str, label: str, revision: str) -> Run:
        started = f"2026-03-0{revision[-1]}T00:00:00+00:00"
        return replace(run(test=test, label=label, revision=revision), started_at=started)

    runs = [saved("a", "x", "r2"), saved("a", "x", "r2"), saved("a", "y", "r2"), saved("a", "old", "r1")]
    runs += [saved("b", "", "r1"), saved("c", "", "r2")]
    measured = [Measurement(test="a", label="y")]
    gone = [Measurement(test="b", label=""), Measurement(test="a", label="x")]
    assert gone == gone_from(runs, {"a", "b"}, measured)
    assert [] == gone_from(runs, {"a", "b"}, [*gone, *measured])


HISTORICAL = state("historical limit", limit=0.9, sessions=1)
SPREAD, EQUAL = (state(kind, baseline=3, candidate=3) for kind in ("stored, spread", "stored, equal"))
FROM_STORED: Mapping[str, tuple[Margin, Statement, float | None]] = {
    "historical": (LATENCY, HISTORICAL, None),
    "spread": (MEMORY, SPREAD, None),  # errs once in 20
    "equal": (MEMORY, EQUAL, None),
    "p-value": (ACCURACY, state("mcnemar", examples=1000), 0.001),
    "examples": (ACCURACY, state("equal examples", examples=1000), None),
}
FROM_PAIRS: Mapping[str, tuple[tuple[ComparisonOutcome, float | None], ...]] = {
    "compared": (("regressed", 0.5), ("improved", -0.5), ("equivalent", 0.0), ("inconclusive", 0.1)),
    "answered": (("regressed", None), ("equivalent", None)),  # a baseline of nothing; nothing that it runs has changed
    "silent": (("no baseline", None), ("not comparable", None), ("inconclusive", None)),
}
FIRST, SECOND = "stored", "pairs"
CHOSEN: Sequence[tuple[str, str, str, str, str]] = [
    # stored runs, whose answer counts where the pairs: have compared, have answered without a change, are silent, none
    ("historical", SECOND, SECOND, FIRST, FIRST),
    ("spread", SECOND, SECOND, FIRST, FIRST),
    ("equal", FIRST, FIRST, FIRST, FIRST),
    ("p-value", SECOND, FIRST, FIRST, FIRST),
    ("examples", FIRST, FIRST, FIRST, FIRST),
]


def chosen_of(margin: Margin, old: Comparison, new: Comparison | None, *, blind: bool = False) -> str:
    """Say whose answer was chosen; an outcome may be the same in both."""
    marked = {margin.key: replace(new, interference=0.0)} if new else {}  # which stored runs never have
    (found,) = choose(run(), [margin], [old], marked, blind=blind)
    return FIRST if found.interference is None else SECOND


@pytest.mark.parametrize(("kind", *FROM_PAIRS, "none"), CHOSEN)
def test_stored_runs_answer_where_pairs_do_not_and_where_values_leave_nothing_to_chance(
    kind: str, compared: str, answered: str, silent: str, none: str
) -> None:
    """Whatever the stored runs say; where the test itself has changed, their alarm counts in any case."""
    margin, method, p_value = FROM_STORED[kind]
    expected = {"compared": compared, "answered": answered, "silent": silent}
    for outcome, change in FROM_PAIRS["compared"]:
        old = replace(verdictless(margin, outcome, change), method=method, p_value=p_value)
        for name, ways in FROM_PAIRS.items():
            for way in ways:
                new = verdictless(margin, *way)
                assert expected[name] == chosen_of(margin, old, new)
                is_alarm = outcome == "regressed"
                assert (FIRST if is_alarm else expected[name]) == chosen_of(margin, old, new, blind=True)
        assert none == chosen_of(margin, old, None)


@pytest.mark.parametrize("outcome", ["no baseline", "not comparable"])
def test_the_pairs_say_why_there_is_no_answer_where_stored_runs_have_none_either(outcome: ComparisonOutcome) -> None:
    old = verdictless(MEMORY, outcome)
    for way in (one for ways in FROM_PAIRS.values() for one in ways):
        assert SECOND == chosen_of(MEMORY, old, verdictless(MEMORY, *way))
    assert FIRST == chosen_of(MEMORY, old, None)


def test_an_alarm_of_stored_runs_says_why_the_pairs_gave_no_answer() -> None:
    old = replace(verdictless(LATENCY, "regressed", 11.0), method=HISTORICAL)
    ended = state("test ended", outcome="failed", where="baseline main", why=": no file")
    new = uncompared(LATENCY, "no baseline", ended)
    (found,) = choose(run(), [LATENCY], [old], {LATENCY.key: new}, blind=False)
    said = "compared with stored runs, since the pairs gave no answer: failed in baseline main: no file"
    assert ("regressed", (said,)) == (found.outcome, found.warnings)


def test_what_another_statistic_of_the_pairs_answers_is_not_asked_of_stored_runs() -> None:
    margin = Margin(metric="throughput", statistic="mean", size=0.02)
    old = replace(verdictless(margin, "regressed", -0.5), method=HISTORICAL)
    new = uncompared(margin, "not comparable", state("reciprocal", other="latency mean"))
    assert (new,) == choose(run(), [margin], [old], {margin.key: new}, blind=False)


def test_a_margin_that_nothing_answers_is_left_out() -> None:
    assert choose(run(), [LATENCY], [], {}, blind=False) == ()
    assert compare_with_stored(measured(), figures(measured()), stored(), Criteria(margins=[MEMORY])) == ()


def test_what_the_user_named_says_why_the_pairs_say_nothing() -> None:
    here, plain = run(unmeasured={"energy": "no counter"}), latency(0.006)
    named = {margin.key for margin in (LATENCY, ENERGY, COLD)}
    known = {LATENCY.key: verdictless(LATENCY, "equivalent", 0.0)}
    found = named_too(here, figures(here), Criteria(margins=[LATENCY, ENERGY, COLD, FLIPS], required=named), known)
    assert {"equivalent", "not comparable"} == {one.outcome for one in found.values()}
    assert ["", "no counter", "not measured: this measurement does not give it"] == [
        one.reason for one in found.values()
    ]
    (one,) = named_too(plain, figures(plain), Criteria(margins=[LATENCY], required={LATENCY.key}), {}).values()
    assert "the pairs cannot tell" == one.reason


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


SESSIONS = (0.00100, 0.00101, 0.00099, 0.00100, 0.00102, 0.00098, 0.00100, 0.00100)  # seconds

times = st.floats(1e-6, 10.0)


def against(
    value: float,
    repeats: Sequence[float] = (),
    *,
    metric: str = "latency",
    history: Sequence[float] = SESSIONS,
    margin: float = 0.02,
    floor: float = 0.0,
) -> Comparison:
    asked = Margin(metric=metric, statistic="p50", size=margin, floor=floor)
    return compare_with_history(METRICS[metric], history, value, asked, 0.01, repeats)


def test_limits_by_number_of_sessions() -> None:
    """In % over the mean of K sessions with a spread of 2 %, prior 10 % worth three sessions."""
    table: list[tuple[float, tuple[float, ...]]] = [
        (0.01, (90.1, 49.2, 35.7, 24.7, 18.3, 14.5, 11.2)),
        (0.05, (39.5, 25.6, 20.0, 15.0, 11.6, 9.5, 7.5)),
    ]
    for alpha, limits in table:
        found = [prediction_limit(0.02, sessions, 1.0, alpha) for sessions in (1, 2, 3, 5, 8, 12, 20)]
        assert limits == pytest.approx([100 * math.expm1(limit) for limit in found], abs=0.051)


def test_limit_of_few_stored_runs() -> None:
    table: list[tuple[list[float], float, float]] = [
        ([1.5], 1.5, 0.6421523),  # the prior alone: t(.99, 3) = 4.540703, times 0.10 times sqrt(2)
        # spread 0.2/sqrt(2) = .141421: s^2 = (3 * .01 + .02)/4 = .0125; t(.99, 4) = 3.746947; sqrt(1.5)
        ([1.0, 1.2], 1.1, 3.746947 * math.sqrt(0.0125 * 1.5)),
        # median .1, MAD .1, spread .14826; s^2 = (.03 + 2 * .02198)/5; t(.99, 5); 1 + pi/6
        ([0.0, 0.1, 0.3], 0.1, stats.t.ppf(0.99, 5) * math.sqrt((3 * 0.01 + 2 * 0.14826**2) / 5 * (1 + math.pi / 6))),
    ]
    assert [] == [
        (history, centre, limit)
        for history, centre, limit in table
        if pytest.approx((centre, limit), rel=1e-6) != history_limit(history, 0.01)
    ]


def test_from_three_sessions_on_one_burst_moves_nothing() -> None:
    """Median and MAD: a session at e^5 counts as one that is a little high."""
    calm, burst = history_limit([0.0, 0.1, -0.1, 0.05, 0.06], 0.01), history_limit([0.0, 0.1, -0.1, 0.05, 5.0], 0.01)
    assert calm[0] == burst[0] == 0.05
    assert pytest.approx(burst[1], rel=0.1) == calm[1]


def test_within_the_limit_is_inconclusive_and_tells_the_limit() -> None:
    """Ten percent above eight calm sessions is nothing that this rule can see."""
    found = against(0.00110)
    assert found.change is not None
    assert found.detectable is not None
    assert ("inconclusive", "", 8) == (found.outcome, found.reason, found.pairs)
    assert not needs_repeats(found)
    assert pytest.approx(0.10) == found.change.value
    assert pytest.approx(0.98) == found.change.confidence  # 1 % on either side
    assert pytest.approx(0.00100) == found.baseline
    assert 0.15 < found.detectable < 0.20
    assert (
        f"historical; false-alarm rate not guaranteed: limit {100 * found.detectable:+.1f} %, stored runs: 8"
        == found.how
    )


def test_an_alarm_asks_for_two_repeats_first() -> None:
    table: list[list[float]] = [[], [0.00131]]
    for repeats in table:
        found = against(0.00130, repeats)
        assert "inconclusive" == found.outcome, repeats
        assert needs_repeats(found), repeats
        assert "beyond the limit, not repeated: 2 further fresh processes decide" == found.reason, repeats


def test_repeats_decide() -> None:
    table: list[tuple[str, float, tuple[float, ...], ComparisonOutcome, str]] = [
        ("latency", 0.0013, (0.0013, 0.0014), "regressed", "3 of 3"),
        ("latency", 0.0013, (0.0010, 0.0014), "inconclusive", "2 of 3"),  # the burst passed
        ("latency", 0.0013, (0.0007, 0.0014), "inconclusive", "2 of 3"),  # the other side does not count
        ("latency", 0.0013, (0.0013, 0.0013, 0.0010), "regressed", "3 of 3"),  # a third is not looked at
        ("latency", 0.0007, (0.0007, 0.0006), "improved", "3 of 3"),
        ("throughput", 0.0007, (0.0007, 0.0006), "regressed", "3 of 3"),
        ("throughput", 0.0013, (0.0013, 0.0014), "improved", "3 of 3"),
    ]
    for metric, value, repeats, outcome, counted in table:
        found = against(value, repeats, metric=metric)
        assert (outcome, "") == (found.outcome, found.reason)
        assert found.how.endswith(f", {counted} processes beyond it")
        assert not needs_repeats(found), (metric, value, repeats, outcome, counted)


def test_a_wide_margin_stands_above_the_limit() -> None:
    """+30 % is beyond the limit of eight sessions and within a margin of 50 %."""
    found = against(0.0013, [0.0013, 0.0013], margin=0.5)
    assert ("inconclusive", 0.5) == (found.outcome, found.margin)
    assert pytest.approx(1.0) == against(0.0013, floor=0.001).margin
    assert pytest.approx(0.5) == found.detectable


def test_what_is_higher_better_is_detectable_downwards() -> None:
    found, seconds = against(0.0010, metric="throughput"), against(0.0010)
    assert found.detectable is not None
    assert seconds.detectable is not None
    assert pytest.approx(1.0) == (1 + found.detectable) * (1 + seconds.detectable)


def test_ratios_need_positive_values() -> None:
    table: list[tuple[tuple[float, ...], float, tuple[float, ...]]] = [
        ((0.0, 1.0), 1.0, ()),
        ((1.0,), -1.0, ()),
        ((1.0,), math.inf, ()),
        ((1.0,), 1.0, (0.0,)),
    ]
    for history, value, repeats in table:
        found = against(value, repeats, history=history)
        assert ("not comparable", None) == (found.outcome, found.change), (history, value, repeats)
        assert "not every value is positive: the ratio to stored runs needs that" == found.reason, (
            history,
            value,
            repeats,
        )


def test_an_absurd_ratio_is_still_a_number() -> None:
    """Logs apart by more than 709 overflow a float, which no store could hold."""
    found = against(1e300, history=[1e-300])
    assert found.change is not None
    assert found.change.high is not None
    assert math.isfinite(found.change.high)


@given(
    history=st.lists(times, min_size=1, max_size=9),
    new=st.lists(times, min_size=1, max_size=3),
    factor=st.sampled_from([1e-3, 0.125, 64.0, 1e3]),
)
def test_another_unit_changes_no_outcome(history: list[float], new: list[float], factor: float) -> None:
    value, *repeats = new
    once = against(value, repeats, history=history)
    scaled = against(value * factor, [r * factor for r in repeats], history=[h * factor for h in history])
    assert (once.outcome, once.reason) == (scaled.outcome, scaled.reason)


@given(history=st.lists(times, min_size=1, max_size=9), new=st.lists(times, min_size=1, max_size=3))
def test_a_rate_gets_the_answer_of_its_seconds(history: list[float], new: list[float]) -> None:
    """Serial throughput is the reciprocal of latency, and its regression is the same one."""
    value, *repeats = new
    seconds = against(value, repeats, history=history)
    rate = against(1 / value, [1 / r for r in repeats], history=[1 / h for h in history], metric="throughput")
    assert (seconds.outcome, seconds.reason) == (rate.outcome, rate.reason)


def moved(by: float, metric: str = "latency") -> Comparison:
    return against(0.001 * (1 + by), metric=metric)


def test_most_timings_slower_is_the_machine() -> None:
    """Of a rate, a lower one is slower. Four timings are too few, and what is within the margin has not moved."""
    assert (
        "machine drift: 4 of 5 timings are slower than in their stored runs, +12.0 % in the middle: "
        "suspect the machine before the code, and rerun on a quiet one"
    ) == machine_drift([moved(0.12), moved(0.10), moved(0.14), moved(0.12), moved(0.01)])
    slower = [moved(0.12), moved(0.12), moved(-0.2, "throughput"), moved(-0.2, "throughput"), moved(0.12)]
    faster = [moved(-0.12), moved(0.2, "throughput"), moved(-0.12), moved(-0.12), moved(-0.12)]
    assert "5 of 5 timings are slower" in str(machine_drift(slower))
    assert "5 of 5 timings are faster" in str(machine_drift(faster))
    calm: list[tuple[float, ...]] = [(0.12,) * 4, (0.12, 0.12, 0.12, -0.12, -0.12), (0.01,) * 5, ()]
    assert [None] * 4 == [machine_drift([moved(change) for change in changes]) for changes in calm]


def test_only_timings_held_against_history_speak_of_the_machine() -> None:
    """Energy, metrics of the user's own, interleaved reruns, and comparisons without a change say nothing."""
    slower = moved(0.12)
    others = [
        moved(0.12, "energy"),
        replace(slower, metric="bleu"),
        replace(slower, method=state("signed-rank", pairs=8)),
        replace(slower, change=None),
    ]
    assert machine_drift([slower, slower, slower, slower, *others]) is None


SIZE, INSTRUCTIONS = DEFAULT_MARGINS["model_size"], DEFAULT_MARGINS["instructions"]
EXAMPLES, FLIPPED, TESTS = 500, 0.06, 50


def labelled(values: Sequence[float], test: str = "tests/test_a.py::test_a") -> Run:
    return run(test=test, samples=(sample("accuracy", values, per="example"),))


def kept_of(kept: Run) -> StoredRun:
    return stored_run_of(Judgement(run=kept, figures=figures(kept), verdicts=()))


def by_example(before: Run, now: Run, family: int) -> Comparison:
    criteria = Criteria(margins=[ACCURACY], alpha=0.01, family=family)
    (found,) = compare_with_stored(now, figures(now), Stored(runs=[kept_of(before)]), criteria)
    return found


@pytest.mark.simulation
@pytest.mark.parametrize(("family", "least", "most"), [(1, 0.20, 0.45), (TESTS, 0.0, 0.012)])
def test_a_build_of_fifty_tests_with_flips_fails_as_rarely_as_one(family: int, least: float, most: float) -> None:
    """6 % of the answers flip, half of them for the worse: with alpha for each test every third build would fail."""
    random, builds, flipped = Random(50), 4000, round(FLIPPED * EXAMPLES)
    alarms = 0
    for _ in range(builds):
        losses = [random.getrandbits(flipped).bit_count() for _ in range(TESTS)]
        alarms += any(_alarm(lost, flipped, family) for lost in losses)
    assert least <= alarms / builds <= most


_CALLED: dict[tuple[int, int, int], bool] = {}


def _alarm(lost: int, flipped: int, family: int) -> bool:
    if (lost, flipped, family) not in _CALLED:
        won = flipped - lost
        before = [1.0] * lost + [0.0] * won + [1.0] * (EXAMPLES - flipped)
        now = [0.0] * lost + [1.0] * won + [1.0] * (EXAMPLES - flipped)
        found = by_example(labelled(before), labelled(now), family)
        _CALLED[lost, flipped, family] = found.outcome == "regressed"
    return _CALLED[lost, flipped, family]


def test_a_comparison_says_among_how_many_the_rate_is_split() -> None:
    found = by_example(labelled([1.0] * 20), labelled([0.0] * 14 + [1.0] * 6), 50)
    assert "regressed" == found.outcome
    assert found.how.endswith("at most 1 % false alarms per build (split over 50 stored comparisons)")
    assert by_example(labelled([1.0]), labelled([1.0, 1.0]), 50).promise is None


def test_the_family_is_what_the_stored_runs_of_these_tests_hold_by_example() -> None:
    others = replace(labelled([1.0], "c"), machine=machine(cores=64))
    kept = [kept_of(one) for one in (labelled([1.0], "a"), labelled([1.0], "b"), labelled([1.0], "gone"), others)]
    updated = kept_of(replace(labelled([1.0], "a"), machine=machine(libraries={"numpy": "1.0"})))
    assert 2 == family_of(kept, {"a", "b", "c", "d"}, machine())
    assert 2 == family_of([*kept, updated], {"a", "b"}, machine())  # it may be compared with either
    assert 1 == family_of([updated], {"a"}, machine())
    assert 1 == family_of([], {"a"}, machine())


def test_predictions_that_differ_between_processes_raise_no_alarm() -> None:
    """Trained without a seed, the model of each process is another one."""
    before, now = labelled([1.0] * 20), labelled([0.0] * 12 + [1.0] * 8)
    alarm = by_example(before, now, 1)
    kept, criteria = Stored(runs=[kept_of(before)] * 9), Criteria(margins=[ACCURACY])
    (same,) = unless_agreed(now, [alarm], [now, now], kept, criteria)
    (other,) = unless_agreed(now, [alarm], [now, before], kept, criteria)
    (gone,) = unless_agreed(now, [alarm], [run(samples=(sample(),))], kept, criteria)
    assert alarm == same
    assert ("inconclusive", None) == (other.outcome, other.p_value)
    assert other.reason.startswith("predictions differ between processes of the candidate, ")
    assert "inconclusive" == gone.outcome


def test_a_size_that_differs_between_processes_raises_no_alarm() -> None:
    small, large, larger = (run(samples=(sample("model_size", [size], per="model"),)) for size in (1e6, 2e6, 2.1e6))
    criteria = Criteria(margins=[SIZE])
    kept = Stored(runs=[kept_of(small)] * 7)
    (alarm,) = compare_with_stored(large, figures(large), kept, criteria)
    (found,) = unless_agreed(large, [alarm], [larger, small], kept, criteria)
    (worse,) = unless_agreed(large, [alarm], [larger, larger], kept, criteria)
    assert is_exact_alarm(large, alarm)
    assert "model_size differs between processes" in found.reason
    assert "regressed" == worse.outcome


def unseeded(count: int, least: int) -> list[Run]:
    """Return runs of models trained without a seed: of 40 examples each has one more right than the one before."""
    return [labelled([1.0] * (least + i) + [0.0] * (40 - least - i)) for i in range(count)]


def test_a_model_without_a_seed_regresses_if_each_process_is_worse_than_all_stored_runs() -> None:
    """Three processes and so many stored runs that equal ones are divided like this at most once in a hundred."""
    table = [
        (7, 1, "regressed", "the candidate is worse in each of its 3"),  # C(10, 3) = 120 >= 100
        (6, 1, "inconclusive", "may be chance with 6 of 7 stored runs: save more runs, or train"),
        (7, 2, "inconclusive", "may be chance with 7 of 9 stored runs"),  # C(12, 3) = 220 >= 200
        (1, 1, "inconclusive", "may be chance with 1 of 7 stored runs"),
    ]
    for kept, family, outcome, told in table:
        now, *again = unseeded(3, least=8)
        stored_runs, criteria = (
            Stored(runs=[*map(kept_of, unseeded(kept, 30))]),
            Criteria(margins=[ACCURACY], family=family),
        )
        (alarm,) = compare_with_stored(now, figures(now), stored_runs, criteria)
        (found,) = unless_agreed(now, [alarm], again, stored_runs, criteria)
        assert outcome == found.outcome
        assert told in "; ".join([found.reason, *found.warnings])


def test_one_stored_run_that_is_as_bad_or_of_other_data_proves_nothing_worse() -> None:
    now, *again = unseeded(3, least=8)
    criteria = Criteria(margins=[ACCURACY])
    others = [kept_of(replace(one, conditions={"data": "other"})) for one in unseeded(7, 30)]
    for more in ([kept_of(again[0])], others):
        kept = Stored(runs=[*more, *map(kept_of, unseeded(6, 30))])
        (alarm,) = compare_with_stored(now, figures(now), kept, criteria)
        (found,) = unless_agreed(now, [alarm], again, kept, criteria)
        assert "inconclusive" == found.outcome


def test_instructions_of_another_number_of_windows_are_compared() -> None:
    """How many windows fit into a run is chance, and no condition."""
    before, now, again = (
        run(samples=(sample("instructions", values, per="window"),)) for values in ([1e6] * 5, [2e6] * 3, [2.1e6] * 4)
    )
    criteria = Criteria(margins=[INSTRUCTIONS])
    kept = Stored(runs=[kept_of(before)] * 7)
    (alarm,) = compare_with_stored(now, figures(now), kept, criteria)
    (few,) = unless_agreed(now, [alarm], [again, again], Stored(runs=[kept_of(before)]), criteria)
    (found,) = unless_agreed(now, [alarm], [again, again], kept, criteria)
    assert ("regressed", "regressed") == (alarm.outcome, found.outcome)
    assert ("inconclusive", True) == (few.outcome, may_hide_a_change([found, few]))
    assert not may_hide_a_change([alarm, found])


def test_memory_comes_from_several_processes_already() -> None:
    made = run(samples=(sample("memory", [2e8] * 3, per="fresh process"),))
    alarm = replace(by_example(labelled([1.0] * 20), labelled([0.0] * 20), 1), metric="memory")
    assert not is_exact_alarm(made, alarm)
    assert (alarm,) == unless_agreed(made, [alarm], [], Stored(runs=()), Criteria(margins=[ACCURACY]))


def test_of_two_answers_with_an_error_rate_that_of_the_pairs_counts() -> None:
    here = labelled([1.0] * 20)
    old = by_example(labelled([1.0] * 20), labelled([0.0] * 12 + [1.0] * 8), 1)
    new = by_example(here, here, 1)
    (found,) = choose(here, [ACCURACY], [old], {ACCURACY.key: new}, blind=False)
    (blind,) = choose(here, [ACCURACY], [old], {ACCURACY.key: new}, blind=True)
    assert new == found
    assert old == blind
