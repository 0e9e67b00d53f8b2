"""The headline counts verdicts, states the false-alarm rate, and never calls well what is open."""

from array import array
from collections.abc import Sequence

from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.messages import differing, state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import ComparisonOutcome, Judgement, Verdict
from pytest_hwperf.reports.headline import headline_of


def gate(*, alpha: float = 0.01, stopped: bool = False) -> Gate:
    evidence = Evidence(
        alpha=alpha, hypotheses=(), pairs=(), stopped=state("out of time", limit=60) if stopped else None
    )
    return Gate(against="origin/main", revision="4f2c1e9", seed=1, evidence=evidence, shared={}, seconds={})


def unreached(tests: int) -> Gate:
    """A gate that had time for the first of its tests."""
    whole = gate(stopped=True)
    hypotheses = tuple(gates.hypothesis(number) for number in range(tests))
    return replace(whole, evidence=replace(whole.evidence, hypotheses=hypotheses, groups=(1,)))


def compared(outcome: ComparisonOutcome, why: str = "") -> Verdict:
    change = None if outcome in ("no baseline", "not comparable") else (0.05, 0.03, 0.07)
    return fake.comparison_verdict("latency", "p50", outcome, change, baseline=0.001, p_value=0.001, reason=why)


def judged(test: str, *verdicts: Verdict) -> Judgement:
    run = replace(fake.run(test=test), samples=(fake.sample(values=array("d", [0.001])),))
    return Judgement(run=run, figures=(fake.figure(),), verdicts=verdicts)


def report(judgements: Sequence[Judgement], *gates: Gate, partial: bool = False) -> Report:
    return replace(fake.empty_report(), judgements=tuple(judgements), gates=gates, partial=partial)


def each(*outcomes: ComparisonOutcome) -> list[Judgement]:
    return [judged(f"t.py::t{place}", compared(outcome)) for place, outcome in enumerate(outcomes)]


_OTHER = state("other data", differing({"data": "a"}, {"data": "b"}))
OTHER_DATA = fake.of_subject(compared("not comparable"), cause=_OTHER)
PASSED = fake.budget_verdict("latency_p95_ms", "latency", "p95", 0.1, "passed")
MISSED = fake.budget_verdict("latency_p95_ms", "latency", "p95", 0.1, "failed")
OPEN = fake.budget_verdict("latency_p99_ms", "latency", "p99", 0.1, "inconclusive")
ABSENT = fake.budget_verdict("energy_budget_mj", "energy", "mean", 0.1, "unmeasured")


BY_DATA = "2 tests not comparable (1 in part), data or conditions changed: b, c"
NO_BASELINE = compared("no baseline", "no baseline: save one")
HERE = "tests/test_models.py::test"
LATE = f"{HERE}_1, {HERE}_2, {HERE}_3 and 1 other"
RATE = "(at most 1 % false alarms per build)"
WELL = f"No regression found in 1 test: 1 equivalent {RATE}"


LEFT_OUT = "2 tests left out, since nothing that they run has changed"
UNCHANGED = "No regression is possible in 2 tests: nothing that they run has changed"
A, B, C = (judged(name, compared("equivalent")) for name in "abc")


def beside_left_out(*verdicts: Verdict) -> Report:
    """Tests that are left out are equivalent, and nothing was measured to find that."""
    left_out = [judged(name, fake.left_out_verdict()) for name in ("x", "y")]
    return report([*left_out, *(judged("t.py::t0", one) for one in verdicts)], gate())


HEADLINES: list[tuple[str, Report, str]] = [
    ("good", report(each("equivalent"), gate()), WELL),
    ("good", report([judged("a", PASSED), judged("b", PASSED)]), "2 budgets kept"),
    ("good", beside_left_out(compared("equivalent")), f"{WELL}; {LEFT_OUT}"),
    ("good", beside_left_out(), UNCHANGED),
    ("good", beside_left_out(PASSED), f"{UNCHANGED}; 1 budget kept"),
    (
        "bad",
        report([*each("regressed", "regressed", "equivalent", "improved", "inconclusive")], gate()),
        f"2 of 5 tests regressed {RATE}; 1 inconclusive; 1 improved",
    ),
    (
        "bad",
        report([*each("regressed", "equivalent"), judged("b", PASSED, MISSED)], gate()),
        f"1 of 2 tests regressed {RATE}; 1 of 2 budgets missed",
    ),
    (
        "bad",
        report([judged("a", PASSED, OPEN, ABSENT)]),
        "1 of 3 budgets kept; 1 inconclusive; 1 budget unmeasured",
    ),
    (
        "doubtful",
        report(each("equivalent", "improved", "inconclusive", "not comparable"), gate()),
        f"No regression found in 3 tests: 1 equivalent, 1 improved {RATE}; 1 inconclusive; 1 comparison not made",
    ),
    (
        "doubtful",
        report([A, replace(B, verdicts=(*B.verdicts, OTHER_DATA)), replace(C, verdicts=(OTHER_DATA,))]),
        f"No regression found in 2 tests: 2 equivalent; {BY_DATA}; 2 comparisons not made",
    ),
    (
        "doubtful",
        report(each("inconclusive", "inconclusive"), gate()),
        "Nothing was decided in 2 tests; 2 inconclusive",
    ),
    (
        "doubtful",
        report([judged("a", NO_BASELINE), judged("b", NO_BASELINE)]),
        "Nothing was compared: no baseline: save one (2 tests)",
    ),
    (
        "bad",
        replace(report([judged("a", MISSED), judged("b", PASSED)]), failed=("a", "b", "c")),
        "2 tests failed without a verdict (b, c); 1 of 2 budgets missed",
    ),
    ("bad", replace(report([]), failed=("a",)), "1 test failed without a verdict (a); Nothing was measured"),
    ("doubtful", report([], partial=True), "Nothing was measured"),
    (
        "doubtful",
        report([judged("a", PASSED)], partial=True),
        "1 budget kept; interrupted, so that tests are missing",
    ),
    ("doubtful", report(each("equivalent"), gate(stopped=True)), f"{WELL}; the pairs ended early"),
    (
        "doubtful",
        report(each("equivalent"), unreached(5)),
        f"{WELL}; 4 tests not compared, since the time was too short ({LATE})",
    ),
    ("plain", report([judged("a"), judged("b")]), "2 tests measured only, no budget or baseline"),
    ("plain", report([]), "Nothing was measured"),
]


def test_the_headline_says_what_is_well_what_fails_and_what_is_open() -> None:
    found = [(headline_of(made).state, headline_of(made).sentence) for _, made, _ in HEADLINES]
    assert [(state, sentence) for state, _, sentence in HEADLINES] == found


def test_a_test_of_many_comparisons_regresses_once() -> None:
    both = (compared("regressed"), fake.comparison_verdict("memory", "max", "regressed", (0.1, 0.1, 0.1)))
    assert headline_of(report([judged("a", *both)], gate())).sentence.startswith("1 of 1 test regressed (")


def test_the_rate_is_that_which_the_comparisons_promise() -> None:
    promise = state("error rate split", alpha=2, family=3)
    [judgement] = each("equivalent")
    told = fake.of_subject(judgement.verdicts[0], promise=promise)
    text = headline_of(report([replace(judgement, verdicts=(told,))])).sentence
    assert text == "No regression found in 1 test: 1 equivalent (at most 2 % false alarms per build)"


RATES: list[tuple[list[Gate], str]] = [
    ([], "false-alarm rate not guaranteed"),
    ([gate()], "at most 1 % false alarms per build, not guaranteed for stored timings"),
    (
        [gate(), gate()],
        "at most 1 % false alarms in each of 2 comparisons in pairs, 2 % in all, not guaranteed for stored timings",
    ),
]


def test_a_rate_that_does_not_hold_for_all_is_not_stated_of_all() -> None:
    [judgement] = each("regressed")
    told = fake.of_subject(judgement.verdicts[0], method=state("historical"))
    found = [headline_of(report([replace(judgement, verdicts=(told,))], *made)).sentence for made, _ in RATES]
    assert [f"1 of 1 test regressed ({rate})" for _, rate in RATES] == found


def test_foreign_reasons_are_visible_and_short() -> None:
    text = headline_of(report([judged("a", compared("not comparable", "\x1b[2J\u202e" + "x" * 1000))])).sentence
    assert text.startswith(r"Nothing was compared: \x1b[2J\u202exxx")
    assert text.isprintable()
    assert len(text) < 350
