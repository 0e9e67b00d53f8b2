"""What the pairs can be asked after a rehearsal, and the reason of everything that they cannot."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from fakes import records as fake

from pytest_hwperf.records.evidence import Hypothesis, Measurement, Side
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.messages import said as words
from pytest_hwperf.records.metrics import CALL_FAILURES, METRICS
from pytest_hwperf.records.run import Sample, replace
from pytest_hwperf.records.verdict import Margin, uncompared
from pytest_hwperf.stats.pairs.hypotheses import (
    SIDES,
    EnergySource,
    Facts,
    MeasuredTest,
    PairedAnswers,
    Questions,
    Reason,
    Recorded,
    Rehearsal,
    SideOutcome,
    collection_error,
    is_open,
    other_parameters,
    processes_needed,
    questions_of,
    unseeded_sizes,
    why_not_rerun,
)

NODE = "tests/test_a.py::test_one"
HERE = Measurement(test=NODE, label="")
LATENCY = Margin(metric="latency", statistic="p50", size=0.02)
MEAN = Margin(metric="latency", statistic="mean", size=0.02)
RATE = Margin(metric="throughput", statistic="mean", size=0.02)
ACCURACY = Margin(metric="accuracy", statistic="mean", size=0.0, scale="absolute")
SIZE = Margin(metric="model_size", statistic="p50", size=0.05)
MEMORY = Margin(metric="memory", statistic="p50", size=0.01, floor=1e6)
ENERGY = Margin(metric="energy", statistic="mean", size=0.05)
RAPL = EnergySource(source="rapl:package-0", step=0.002)
PASSED = SideOutcome(outcome="passed")


def asking(*margins: Margin, named: Sequence[Margin] = (), budgeted: Sequence[str] = ()) -> MeasuredTest:
    statistics = frozenset((margin.metric, margin.statistic) for margin in named)
    return MeasuredTest(node=NODE, margins=margins, named=statistics, budgeted=frozenset(budgeted))


def rehearsal(
    outcomes: Mapping[Side, SideOutcome] | None = None,
    facts: Mapping[Side, Facts] | None = None,
    exact: Mapping[Side, Sequence[Sample]] | None = None,
) -> Rehearsal:
    """Both sides collect, pass and measure the one test, unless something else is said."""
    return Rehearsal(
        collected={side: [NODE] for side in SIDES},
        errors={side: {} for side in SIDES},
        facts={HERE: dict(facts or dict.fromkeys(SIDES, Facts()))},
        exact={HERE: dict(exact or {})},
        outcomes={NODE: dict(outcomes or dict.fromkeys(SIDES, PASSED))},
    )


def asked(test: MeasuredTest, seen: Rehearsal | None = None, energy: EnergySource | None = None) -> Questions:
    return questions_of([test], seen or rehearsal(), {}, "origin/main", energy)


def test_what_is_too_short_on_both_sides_is_not_compared() -> None:
    """What has become long enough, or is so no more, may have regressed or improved."""
    short, shorter = Facts(short_s=2e-6, least_s=1e-4), Facts(short_s=1e-6, least_s=1e-4)

    found = asked(asking(LATENCY), rehearsal(facts={"baseline": shorter, "candidate": short}))
    assert [] == found.hypotheses
    outcome, why = found.parts[HERE, "", ""]
    assert "not comparable" == outcome
    assert (
        "a call takes 2.00 µs, and --hwperf-all measures calls of 100 µs or more: add -o hwperf_shortest=1e-06"
    ) == str(why)
    assert 1 == len(asked(asking(LATENCY), rehearsal(facts={"baseline": short, "candidate": Facts()})).hypotheses)


def test_timings_become_hypotheses() -> None:
    found = asked(asking(LATENCY))
    assert [Hypothesis(measurement=HERE, margin=LATENCY, better="lower")] == found.hypotheses
    assert ({}, {}, 1) == (found.tests, found.parts, found.family)


def test_items_are_asked_for_where_both_sides_have_them() -> None:
    table: list[tuple[tuple[str, ...], int]] = [(("first_item", "item"), 2), (("first_item",), 1), ((), 0)]
    for then, count in table:
        margins = [DEFAULT_MARGINS[name] for name in ("first_item_p50", "item_p50")]
        seen = rehearsal(facts=dict(zip(SIDES, [Facts(parts=then), Facts(parts=("first_item", "item"))], strict=True)))
        assert count == len(asked(asking(*margins, named=margins), seen).hypotheses)


def test_an_alarm_takes_as_many_processes_as_its_level() -> None:
    """2^-7 = 0.0078 is the first below 1 %; three are the fewest. Alpha is divided by a family of one at least."""
    counts = {(1, 0.01): 7, (100, 0.01): 14, (0, 0.01): 7, (1, 0.2): 3}
    assert counts == {(family, alpha): processes_needed(family, alpha) for family, alpha in counts}
    assert 1 == Questions().family
    (one,) = asked(asking(LATENCY)).hypotheses
    assert 2 + 1 == Questions(hypotheses=[one] * 2, processes=[one]).family


def test_values_that_need_no_clock_are_compared_where_both_sides_have_them() -> None:
    right = fake.sample("accuracy", [1.0, 0.0], per="example")
    wrong = fake.sample("accuracy", [0.0, 0.0], per="example")
    size = fake.sample("model_size", [5e6], per="model")
    found = asked(asking(ACCURACY, SIZE), rehearsal(exact={"baseline": [right, size], "candidate": [wrong]}))
    both = asked(asking(SIZE), rehearsal(exact={side: [size] for side in SIDES})).fixed_samples
    (one,) = found.fixed_samples
    assert ["file"] == [two.per for two in both]
    assert (ACCURACY, "example") == (one.hypothesis.margin, one.per)
    assert (array("d", [1.0, 0.0]), array("d", [0.0, 0.0])) == (one.baseline, one.candidate)


def worded(reason: Reason) -> tuple[str, str]:
    outcome, cause = reason
    return outcome, str(cause)


def in_words(reasons: Mapping[Any, Reason]) -> dict[Any, tuple[str, str]]:
    return {about: worded(reason) for about, reason in reasons.items()}


def test_fresh_processes_are_asked_for_by_name_only() -> None:
    table: list[tuple[MeasuredTest, int]] = [
        (asking(MEMORY), 0),
        (asking(MEMORY, named=[MEMORY]), 1),
        (asking(MEMORY, budgeted=["memory"]), 1),
    ]
    assert [] == [(test, count) for test, count in table if count != len(asked(test).processes)]


def test_mean_latency_and_throughput_are_one_question() -> None:
    found = asked(asking(MEAN, RATE, named=[MEAN, RATE]))
    assert [MEAN] == [one.margin for one in found.hypotheses]
    assert (
        "not comparable",
        "latency mean, its reciprocal, is compared: both would be one question asked twice",
    ) == worded(found.parts[HERE, "throughput", "mean"])


def test_what_does_not_answer_for_throughput_is_a_question_of_its_own() -> None:
    """A tail takes calls per second and leaves the median where it is; under a load the rate is its own.

    So it is where the margin of the mean allows more.
    """
    table: list[tuple[Margin, str]] = [(LATENCY, "single_stream"), (MEAN, "server qps=200 seconds=2 seed=1")]
    for latency, load in [*table, (replace(MEAN, size=0.1), "single_stream")]:
        facts = Facts(conditions={"load": load})
        found = asked(asking(latency, RATE, named=[latency, RATE]), rehearsal(facts=dict.fromkeys(SIDES, facts)))
        assert [latency, RATE] == [one.margin for one in found.hypotheses]


def test_a_margin_of_energy_needs_a_counter_that_can_tell_it() -> None:
    """Below 5 %, or below twice the step within the shortest window, nothing is decided."""
    table: list[tuple[EnergySource, float, str]] = [
        (RAPL, 0.05, ""),
        (RAPL, 0.04, "meter too coarse: rapl:package-0 can tell margins of 5 % or more, not 4 %"),
        (EnergySource(source="rapl:package-0", step=0.06), 0.12, ""),
        (
            EnergySource(source="rapl:package-0", step=0.06),
            0.11,
            "meter too coarse: rapl:package-0 can tell margins of 12 % or more, not 11 %",
        ),
    ]
    for energy, size, why in table:
        margin = Margin(metric="energy", statistic="mean", size=size)
        found = asked(asking(margin, budgeted=["energy"]), energy=energy)
        assert [margin] * (not why) == [one.margin for one in found.hypotheses]
        assert [("inconclusive", why)] * bool(why) == [*map(worded, found.parts.values())]


def test_energy_that_nobody_names_or_counts_is_not_asked() -> None:
    table: list[tuple[MeasuredTest, EnergySource | None]] = [
        (asking(ENERGY), RAPL),
        (asking(ENERGY, named=[ENERGY]), None),
    ]
    for test, energy in table:
        found = asked(test, energy=energy)
        assert ([], {}) == (found.hypotheses, found.parts), (test, energy)


def test_what_no_turn_and_no_process_tells_is_not_asked() -> None:
    rows = Margin(metric="sample_throughput", statistic="mean", size=0.05)
    found = asked(asking(rows, named=[rows]))
    assert ([], [], [], {}) == (found.hypotheses, found.fixed_samples, found.processes, found.parts)


def test_another_quantity_is_not_compared() -> None:
    table: list[tuple[Facts, Facts, str]] = [
        (
            Facts(conditions={"data": "a1"}),
            Facts(conditions={"data": "b2"}),
            "data: a1, b2 (baseline, now): other rows, or rows drawn without a seed",
        ),
        (
            Facts(conditions={"data": "a1", "lengths": "9 (p95 4)"}),
            Facts(conditions={"data": "b2", "lengths": "9 (p95 7)"}),
            "data: a1, b2; lengths: 9 (p95 4), 9 (p95 7) (baseline, now): other rows, or rows drawn without a seed",
        ),
        (
            Facts(conditions={"batch_size": "1", "data": "a1"}, scenario="onnx_fp32"),
            Facts(conditions={"batch_size": "1"}, scenario="onnx_int8"),
            "data: a1, absent; scenario: onnx_fp32, onnx_int8 (baseline, now)",
        ),
    ]
    for then, now, why in table:
        found = asked(asking(LATENCY), rehearsal(facts={"baseline": then, "candidate": now}))
        assert [] == found.hypotheses, (then, now, why)
        assert {(HERE, "latency", "p50"): ("not comparable", why)} == in_words(found.parts)


def test_the_times_of_calls_are_compared_on_other_data_of_the_same_shape() -> None:
    """What examples show is not."""
    table = [("f4 (4,)", "f4 (4,)", True), ("f4 (4,)", "f4 (5,)", False), ("", "", False)]
    for then, now, alike in table:
        sides = Facts(conditions={"data": "a1"}, shapes=then), Facts(conditions={"data": "b2"}, shapes=now)
        found = asked(asking(LATENCY, ACCURACY), rehearsal(facts={"baseline": sides[0], "candidate": sides[1]}))
        assert ([LATENCY] if alike else []) == [one.margin for one in found.hypotheses]
        assert "not comparable" == found.parts[HERE, "accuracy", "mean"][0], (then, now, alike)


def test_a_test_that_one_side_does_not_collect_is_not_compared() -> None:
    table: list[tuple[dict[Side, Sequence[str]], Mapping[str, str], tuple[str, str]]] = [
        (
            {"candidate": [], "baseline": [NODE]},
            {},
            ("not comparable", "a fresh process of the candidate does not collect this test"),
        ),
        ({"candidate": [NODE], "baseline": []}, {}, ("no baseline", "origin/main does not have this test")),
        (
            {"candidate": [NODE], "baseline": []},
            {"tests/test_a.py": "ImportError: x"},
            ("no baseline", "origin/main cannot run this test: ImportError: x"),
        ),
        (
            {"candidate": [NODE], "baseline": []},
            {"tests": "ImportError: x"},
            ("no baseline", "origin/main cannot run this test: ImportError: x"),
        ),
    ]
    for collected, errors, why in table:
        seen = rehearsal()
        seen.collected = collected
        seen.errors = {"baseline": errors, "candidate": {}}
        assert {NODE: why} == in_words(asked(asking(LATENCY), seen).tests)


def test_a_test_that_one_side_does_not_pass_is_not_compared() -> None:
    table: list[tuple[Mapping[Side, SideOutcome], tuple[str, str]]] = [
        (
            {"candidate": PASSED, "baseline": SideOutcome(outcome="failed", reason="no x")},
            ("no baseline", "failed in origin/main: no x"),
        ),
        (
            {"candidate": SideOutcome(outcome="skipped", reason="gpu"), "baseline": PASSED},
            ("not comparable", "skipped in a fresh process of the candidate: gpu"),
        ),
        ({"baseline": PASSED}, ("not comparable", "lost in a fresh process of the candidate")),
    ]
    assert [] == [
        (outcomes, why)
        for outcomes, why in table
        if {NODE: why} != in_words(asked(asking(LATENCY), rehearsal(outcomes)).tests)
    ]


def test_a_test_that_was_lost_before_keeps_its_reason() -> None:
    lost: Reason = ("no baseline", words("baseline: ended with code -9"))
    found = questions_of([asking(LATENCY)], rehearsal(), {NODE: lost}, "origin/main", None)
    assert ({NODE: lost}, []) == (found.tests, found.hypotheses)


def test_a_measurement_of_one_side_only_has_nothing_beside_it() -> None:
    seen = rehearsal()
    seen.uneven = {Measurement(test=NODE, label="extra"): "candidate", Measurement(test="other", label=""): "baseline"}
    seen.facts[Measurement(test="other", label="")] = dict.fromkeys(SIDES, Facts())
    seen.uneven[Measurement(test=NODE, label="")] = "baseline"
    found = asked(asking(), seen)
    assert {
        (Measurement(test=NODE, label="extra"), "", ""): (
            "no baseline",
            "only the candidate makes the measurement 'extra'",
        ),
        (HERE, "", ""): ("no baseline", "only the baseline makes the measurement"),
    } == in_words(found.parts)


def test_a_users_own_metric_is_asked_where_both_sides_record_it() -> None:
    own = Recorded(value=0.4, better="higher", margin=0.05, label="x")
    now = SideOutcome(outcome="passed", recorded={"rouge": own, "fresh": own})
    then = SideOutcome(outcome="passed", recorded={"rouge": own})
    found = asked(asking(), rehearsal({"candidate": now, "baseline": then}))

    there = Measurement(test=NODE, label="x")
    margin = Margin(metric="rouge", statistic="p50", size=0.05)
    assert [Hypothesis(measurement=there, margin=margin, better="higher")] == found.hypotheses
    assert {(there, "fresh", "p50"): ("no baseline", "the baseline does not record it")} == in_words(found.parts)


def test_processes_leave_a_question_open_unless_none_is_worse() -> None:
    table: list[tuple[Sequence[float], bool]] = [
        ([64e6] * 3, False),
        ([70e6] * 3, True),
        ([64e6, 70e6, 64e6], True),
        ([50e6] * 3, False),
    ]
    for now, suspect in table:
        hypothesis = Hypothesis(measurement=HERE, margin=MEMORY, better=METRICS["memory"].better)
        assert suspect is is_open(hypothesis, {"baseline": [64e6] * 3, "candidate": now})


COMPARED = uncompared(LATENCY, "inconclusive", words("decided"))


def answers(questions: Questions, *, met: bool = True, compared: bool = False) -> PairedAnswers:
    hypothesis = Hypothesis(measurement=HERE, margin=LATENCY, better="lower")
    return PairedAnswers(
        comparisons={hypothesis.key: COMPARED} if compared else {},
        questions=questions,
        met=frozenset([HERE] if met else []),
    )


def said(found: PairedAnswers, *, measured: bool = True, named: bool = False) -> str | None:
    statistic = [("latency", "p50")]
    one = found.of(HERE, [LATENCY], statistic if measured else [], statistic if named else [])
    return one[statistic[0]].reason if one else None


def test_the_reason_that_speaks_of_a_statistic_comes_first() -> None:
    whole = Questions(
        tests={NODE: ("no baseline", words("of the test"))},
        parts={
            (HERE, "", ""): ("no baseline", words("of the measurement")),
            (HERE, "latency", "p50"): ("not comparable", words("its own")),
        },
    )
    assert said(answers(whole, compared=True)) == "decided"
    assert said(answers(whole)) == "its own"
    del whole.parts[HERE, "latency", "p50"]
    assert said(answers(whole)) == "of the test"
    assert said(answers(whole), measured=False) is None
    assert said(answers(whole), measured=False, named=True) == "of the test"
    whole.tests.clear()
    assert said(answers(whole)) == "of the measurement"


def test_a_measurement_that_the_pairs_did_not_meet_says_so() -> None:
    assert said(answers(Questions())) is None
    assert said(answers(Questions(), met=False)) == (
        "the pairs did not meet this measurement: its label differs between processes"
    )
    assert said(answers(Questions(), met=False), measured=False, named=True) is None


def test_what_one_side_has_no_values_of_is_not_compared() -> None:
    """A worker may send an empty sample: there is nothing in it to test."""
    some, none = (fake.sample("accuracy", values, per="example") for values in ([1.0, 0.0], []))
    assert asked(asking(ACCURACY), rehearsal(exact={"baseline": [some], "candidate": [none]})).fixed_samples == []


def test_a_stored_run_is_rerun_where_its_code_can_be_had() -> None:
    table: list[tuple[dict[str, Any], bool, bool, str]] = [
        ({"revision": ""}, False, False, "it was saved outside of git, or before the first commit"),
        ({"revision": "c" * 40, "changed": True}, True, False, "it was saved with changes that were not committed"),
        ({"revision": "c" * 40}, False, True, "this repository does not have its revision cccccccccc"),
        ({"revision": "c" * 40}, True, True, "test workers run side by side (-n)"),
        ({"revision": "c" * 40}, True, False, ""),
    ]
    for stored, known, crowded, why in table:
        found = why_not_rerun(replace(fake.run(), **stored), known=known, crowded=crowded)
        assert (why in found, bool(why)) == (True, bool(found))


def test_an_error_of_a_class_a_file_or_a_folder_is_one_of_the_tests_in_it() -> None:
    errors = {"t.py::TestX": "class", "tests": "folder", "a/t.py": "file"}
    found = {
        "t.py::TestX::test_a": "class",
        "t.py::test_a": "",
        "tests/t.py::test_a": "folder",
        "tests_perf/t.py::test_a": "",
        "a/t.py::test_a[t.py::b]": "file",
    }
    assert found == {node: collection_error(node, errors) for node in found}
    assert "all" == collection_error("t.py::test_a", {"": "all"})


def test_a_test_whose_parameters_differ_between_the_sides_is_named_once() -> None:
    """A path of the baseline's tree stands for that of the candidate's."""
    sides = [Facts(parameters={"file": "'/base/a'", "f": f"work.{name}"}) for name in ("old", "new")]
    facts = dict(zip(SIDES, sides, strict=True))
    seen = rehearsal(facts=facts)
    seen.facts[Measurement(test=HERE.test, label="twice")] = facts
    seen.facts[Measurement(test="other", label="")] = {"candidate": sides[1]}  # which the baseline does not make
    said = other_parameters(seen, {"/base": "/here"})
    assert f"each side: {HERE.test} (f is work.old in the baseline, work.new now). They" in said
    same = dict.fromkeys(SIDES, Facts(parameters={"file": "'/here/a'"}))
    same["baseline"] = Facts(parameters={"file": "'/base/a'"})
    assert "" == other_parameters(rehearsal(facts=same), {"/base": "/here"})


def test_inputs_of_other_sizes_in_processes_of_one_side_are_told() -> None:
    """Sizes that only differ between the sides are each side's own, and no chance."""
    met: list[Mapping[Measurement, Mapping[Side, Facts]]] = [
        {HERE: {"baseline": Facts(sizes={"fixture 'rows'": f"{size} items"}), "candidate": Facts()}}
        for size in (5, 7, 9)
    ]
    assert f"other sizes: {HERE.test} (fixture 'rows' had 5 items and 7 items). Their" in unseeded_sizes(met)
    own: Mapping[Side, Facts] = {
        "baseline": Facts(sizes={"argument 1": "5 items"}),
        "candidate": Facts(sizes={"argument 1": "7 items"}),
    }
    assert unseeded_sizes([{HERE: own}, {HERE: own}, {}]) == ""


def test_failing_calls_are_asked_about_where_they_were_found() -> None:
    margin = Margin(metric=CALL_FAILURES, statistic="p50", size=0.0)
    found = {(HERE, *margin.key): uncompared(margin, "regressed")}
    answers = PairedAnswers(comparisons=found, questions=Questions(), met=frozenset())
    assert (margin,) == answers.failing(HERE)
    assert () == answers.failing(Measurement(test="other", label=""))
