"""The table and the summary choose what is shown: nothing that was decided or left inconclusive is missing from it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from fakes import records as fake

from pytest_hwperf.records.messages import Remark, Statement, said, state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import _SCALES
from pytest_hwperf.records.verdict import BudgetOutcome, ComparisonOutcome, Judgement, Skip, Verdict
from pytest_hwperf.reports.summary import counts_of, summary_of
from pytest_hwperf.reports.table import COLUMNS, Line, TableHeading, rows
from pytest_hwperf.reports.terminal import render

Table = tuple[list[TableHeading | Line], tuple[str, ...]]


def report_of(*judgements: Judgement) -> Report:
    return replace(fake.report(), judgements=judgements)


def lines_of(table: Table) -> list[Line]:
    return [one for one in table[0] if isinstance(one, Line)]


def metrics(table: Table) -> list[str]:
    return [line.cells[0] for line in lines_of(table)]


def headings(table: Table) -> list[tuple[str, ...]]:
    """Return the texts of each test, of what its scenarios have in common where there is any, and of each scenario."""
    found = [tuple(filter(None, one.texts)) for one in table[0] if isinstance(one, TableHeading)]
    return [texts for texts in found if texts]


def slower_in_pairs(*budgets: Verdict) -> Judgement:
    """This process was quicker than the baseline in the pairs, in which the candidate was slower: 324 µs + 4.8 %."""
    figure = fake.figure(at=fake.estimate(314e-6, 312e-6, 316e-6, 900))
    verdict = fake.comparison_verdict(
        "latency", "p50", "regressed", (0.048, 0.031, 0.065), pairs=8, p_value=0.0039, baseline=324e-6
    )
    return replace(fake.plain_judgement(), figures=(figure,), verdicts=(*budgets, verdict))


def test_value_and_baseline_of_a_compared_row_are_of_the_same_pairs() -> None:
    """The value of this process would contradict the verdict; verbose, which shows every figure, has it apart."""
    table, verbose = (rows(report_of(slower_in_pairs()), detail=detail) for detail in ("normal", "verbose"))
    (line,) = lines_of(table)
    assert ("latency p50", "340 µs", "8 pairs", "", "324 µs") == line.cells[:5]
    assert headings(table)[1][0].endswith("sources: perf_counter (latency)")
    assert ["latency p50", "  this run"] == metrics(verbose)


def test_a_budget_has_the_figure_of_this_run_in_a_row_of_its_own() -> None:
    budget = fake.budget_verdict("latency_p50_ms", "latency", "p50", 0.00033, "passed")
    assert [("latency p50", "340 µs", "bad"), ("  this run", "314 µs (312 .. 316)", "plain")] == [
        (*line.cells[:2], line.tone) for line in lines_of(rows(report_of(slower_in_pairs(budget))))
    ]


def test_the_parts_of_memory_stand_below_it() -> None:
    """A limit that a fixture exceeds is told apart from one that calls exceed, without all figures."""
    named = ("memory", "memory_import", "memory_fixtures", "memory_call", "memory_steady")
    figures = tuple(fake.figure(name, "p50", at=fake.estimate(5e7, 5e7, 5e7, 3)) for name in named)
    assert [*named[:-1]] == metrics(rows(report_of(replace(fake.plain_judgement(), figures=figures, verdicts=()))))


def test_a_figure_without_its_comparison_above_is_named_by_its_metric() -> None:
    """A quiet table shows the budget that failed, and not the comparison that found nothing."""
    budget = fake.budget_verdict("latency_p50_ms", "latency", "p50", 0.0003, "failed")
    nothing = fake.comparison_verdict("latency", "p50", "equivalent", (0.001, -0.01, 0.01), pairs=6, baseline=330e-6)
    table = rows(report_of(replace(slower_in_pairs(), verdicts=(budget, nothing))), detail="quiet")
    assert [("latency p50", "314 µs (312 .. 316)")] == [line.cells[:2] for line in lines_of(table)]


def test_two_models_that_were_compared_have_values_without_a_run_of_their_own() -> None:
    """What was measured in the pairs is never called unmeasured."""
    run = replace(fake.run(), samples=(), conditions={})
    verdicts = (
        fake.comparison_verdict("latency", "p50", "regressed", (0.5, 0.4, 0.6), pairs=8, baseline=0.002),
        fake.comparison_verdict("accuracy", "mean", "equivalent", (-0.01, -0.03, 0.01), pairs=300, baseline=0.9),
        fake.comparison_verdict("cpu_time", "mean", "not comparable", reason="no ratio"),
    )
    table = rows(report_of(Judgement(run=run, figures=(), verdicts=verdicts)))
    assert [("3.00 ms", "8 pairs"), ("0.890", "300 examples"), ("", "")] == [
        line.cells[1:3] for line in lines_of(table)
    ]
    assert ("sources: pairs of fresh processes (latency, accuracy)",) == headings(table)[1]


def placed(test: str, scenario: str, median: float | None, label: str = "", **conditions: str) -> Judgement:
    run = fake.run(test=test, scenario=scenario, label=label)
    figures = () if median is None else (fake.figure(at=fake.estimate(median, None, None, 9)),)
    return Judgement(run=replace(run, conditions=conditions), figures=figures, verdicts=())


SKIPS = (Skip(test="t.py::t[int8]", scenario="int8", cause=said("no such form")),)
ALONE = {"precision": "fp32", "threads": "1", "batch_size": "16"}
SLOW, FAST = {**ALONE, "precision": "float64", "load": "offline"}, {**ALONE, "load": "single_stream"}
ONE = placed("t.py::t[a]", "a", 1.0)
SHOWN: Mapping[str, tuple[Sequence[Judgement], tuple[Skip, ...]]] = {
    "a scenario that stands alone has its conditions beside its name": ([placed("t[onnx]", "onnx", 1.0, **ALONE)], ()),
    "each scenario has its full id and what only it has": (
        [placed("t.py::t[slow]", "slow", 4.0, **SLOW), placed("t.py::t[fast]", "fast", 2.0, **FAST)],
        (),
    ),
    "they are ranked within the other parameters of a test, and `a` is no part of `data`": (
        [
            placed(f"t.py::t[data-{name}]", name[0], median)
            for name, median in (("a-1", 4.0), ("a-8", 1.0), ("b-1", 2.0))
        ],
        (),
    ),
    "those that are told apart by label stand together": ([placed("t", n, 1.0, f"{n} batch 8") for n in "ab"], ()),
    "one without a median is last and unranked": ([placed("t.py::t[b]", "b", None), ONE], ()),
    "a test of which everything was skipped is named": ([], SKIPS),
    "a skip stands with its test, named in its id or not": ([ONE], (*SKIPS, replace(SKIPS[0], test="t.py::t"))),
}


def test_tests_and_their_scenarios_look_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    text = ""
    for name, (judgements, skips) in SHOWN.items():
        lines = render(replace(fake.empty_report(), judgements=tuple(judgements), skips=skips), width=100)
        text += "".join(f"{line}\n" for line in (f"# {name}", *(line for line, _ in lines)))
    golden("text/scenarios_100.txt", text.encode())


def test_sources_of_one_metric_are_reported_apart_by_scenario() -> None:
    """Where a scenario is its own source it is not named again."""

    def sized(scenario: str, source: str) -> Judgement:
        figures = (
            fake.figure("accuracy", "mean", source=scenario, per="example"),
            fake.figure("model_size", "p50", source=source, per="model"),
        )
        return Judgement(run=fake.run(test=f"t.py::t[{scenario}]", scenario=scenario), figures=figures, verdicts=())

    judgements = (sized("onnx", "onnx file"), sized("sklearn", "joblib"), sized("int8", "onnx file"))
    assert headings(rows(report_of(*judgements), detail="verbose"))[1][0].endswith(
        "; sources: the scenario (accuracy); onnx file (model_size of onnx, int8); joblib (model_size of sklearn)"
    )


def test_a_verdict_that_fails_is_shown_quietly_whatever_its_outcome() -> None:
    verdict = replace(fake.budget_verdict("latency_p50_ms", "latency", "p50", 1.0, "passed"), fails=True)
    table = rows(report_of(replace(fake.plain_judgement(), verdicts=(verdict,))), detail="quiet")
    assert "passed (fails)" == lines_of(table)[0].cells[-1]


def test_what_has_decided_a_budget_near_its_limit_is_a_footnote_of_its_row() -> None:
    """Rows of one decision share it; the numbers of fresh processes are never put together as a range."""
    toss, text = state("timed point"), "decided by the point estimate, near a limit a coin toss"
    two, five = (state("fresh processes", kept=kept, processes=of) for kept, of in ((2, 3), (5, 5)))
    verdicts = tuple(
        replace(fake.budget_verdict("k", "latency", statistic, 1.0, "inconclusive"), decided_by=by)
        for statistic, by in (("p50", (toss,)), ("p95", (toss, two)), ("p99", (five,)))
    )
    for detail in ("normal", "verbose"):
        table = rows(report_of(replace(fake.sklearn_judgement(), verdicts=verdicts)), detail=detail)
        notes = {line.cells[0]: [table[1][n - 1] for n in line.notes] for line in lines_of(table)}
        assert [text] == notes["latency p50"][-1:]
        assert [text, "2 of 3 fresh processes kept the limit"] == notes["latency p95"][-2:]
        assert ["5 of 5 fresh processes kept the limit"] == notes["latency p99"][-1:]
        assert 1 == table[1].count(text)


def test_without_a_recorded_reason_the_verdict_gives_it() -> None:
    judgement = fake.sklearn_judgement()
    assert fake.NO_COUNTER in rows(report_of(replace(judgement, run=replace(judgement.run, unmeasured={}))))[1]


def test_a_footnote_does_not_repeat_what_its_row_says() -> None:
    line = "energy mean: unmeasured, budget <= 2.00 mJ: no counter: it is hidden"
    verdict = fake.budget_verdict("energy_budget_mj", "energy", "mean", 0.002, "unmeasured", reason=line)
    verdict = replace(verdict, cause=said("no counter: it is hidden"))
    table = rows(report_of(replace(fake.plain_judgement(), verdicts=(verdict,))))
    assert ("no counter: it is hidden",) == table[1]


def test_notes_that_differ_in_numbers_only_are_one_footnote_with_their_range() -> None:
    def disturbed(scenario: str, load: float) -> Judgement:
        sample = fake.sample(warnings=(state("load", load=load, cores=2),))
        run = fake.run(test=f"t.py::t[{scenario}]", scenario=scenario, samples=(sample,))
        return Judgement(run=run, figures=(fake.figure(),), verdicts=())

    table = rows(report_of(disturbed("a", 15.4), disturbed("b", 9.5), disturbed("c", 10.4)))
    assert ("load 9.5 .. 15.4 on 2 cores: other work disturbed the timings",) == table[1]
    assert [(1,), (1,), (1,)] == [line.notes for line in lines_of(table)]


def historical(limit: float, stored: int) -> Verdict:
    verdict = fake.comparison_verdict("latency", "p50", "inconclusive", (0.01, -0.4, 0.6), detectable=limit)
    return fake.of_subject(verdict, method=state("historical limit", limit=limit, sessions=stored), pairs=stored)


def test_comparisons_by_one_method_share_a_footnote_that_is_reported_exactly_in_verbose() -> None:
    """The method names its n and its limit already: neither is said twice."""
    plain = fake.plain_judgement()
    other = replace(plain, run=replace(plain.run, test="t.py::other"), verdicts=(historical(0.901, 1),))
    report = report_of(replace(plain, verdicts=(historical(0.532, 3),)), other)
    how = "change by historical; false-alarm rate not guaranteed: limit"
    assert (f"{how} +53.2 .. 90.1 %, stored runs: 1 .. 3",) == rows(report)[1]
    assert (f"{how} +53.2 %, stored runs: 3", f"{how} +90.1 %, stored runs: 1") == rows(report, detail="verbose")[1]


def test_warnings_of_comparisons_are_footnotes_too() -> None:
    verdict = fake.comparison_verdict(
        "throughput", "mean", "inconclusive", (-0.03, -0.08, 0.02), detectable=-0.07, warnings=("only 6 pairs",)
    )
    judgement = replace(fake.plain_judgement(), verdicts=(fake.of_subject(verdict, interference=0.54),))
    assert {"only 6 pairs", "smallest detectable change 7 %", "54 % of turns were interrupted by other work"} <= {
        *rows(report_of(judgement))[1]
    }


def test_doubts_of_several_comparisons_are_one_footnote_each() -> None:
    """With the range of their numbers; verbose keeps them apart."""

    def doubtful(test: str, share: float, detectable: float) -> Judgement:
        verdict = fake.comparison_verdict("latency", "p50", "inconclusive", (0.0, -0.1, 0.1), detectable=detectable)
        verdicts = (fake.of_subject(verdict, interference=share),)
        return Judgement(run=fake.run(test=test), figures=(fake.figure(),), verdicts=verdicts)

    report = report_of(doubtful("t.py::a", 0.66, 0.042), doubtful("t.py::b", 0.75, 0.045))
    said = ("66 .. 75 % of turns were interrupted by other work", "smallest detectable change 4.2 .. 4.5 %")
    assert said == rows(report)[1][1:]
    assert 5 == len(rows(report, detail="verbose")[1])


def test_budget_and_comparison_of_what_was_not_measured_share_a_footnote() -> None:
    """The reason is the same; one that says something else is kept."""
    why = said("give y_true=, or a y in hwperf_data")
    budget = replace(fake.budget_verdict("accuracy_min", "accuracy", "mean", 0.9, "unmeasured"), cause=why)
    named = fake.comparison_verdict("accuracy", "mean", "not comparable")

    def footnotes(cause: Statement) -> tuple[str, ...]:
        verdicts = (budget, fake.of_subject(named, cause=cause))
        return rows(report_of(replace(fake.plain_judgement(), figures=(), verdicts=verdicts)))[1]

    assert (str(why),) == footnotes(state("not measured", why=str(why)))
    assert (str(why), "other") == footnotes(said("other"))


def test_shown_numbers_have_unit_n_and_source() -> None:
    """Every row with a figure, at every detail; the source of its metric stands above it.

    The CSV files and JUnit's properties are held to the same in their own tests.
    """
    for detail in ("quiet", "normal", "verbose"):
        sources = ""
        for one in rows(fake.report(), detail=detail)[0]:
            if isinstance(one, TableHeading):
                sources = sources if one.is_bold else one.texts[0]
                continue
            row = dict(zip(COLUMNS, one.cells, strict=True))
            metric = "latency" if one.cells[0] == "  this run" else one.cells[0].split()[0]
            measured = row["n"] and re.search(rf"\(.*\b{metric}\b.*\)", sources)
            assert row["value"] == "unmeasured" or (measured and has_unit(row["value"], metric))


def has_unit(value: str, metric: str) -> bool:
    """Say whether behind the number stands one of the units of its metric; nothing where it is a share."""
    units = "|".join(re.escape(f" {name}".rstrip()) for _, name in _SCALES[METRICS[metric].unit])
    return re.match(rf"[\d.]+({units})( \(|$)", value) is not None


def test_a_number_without_its_unit_is_noticed() -> None:
    latency, accuracy = "7.90 ms (7.60 .. 8.45)", "0.967 (0.924 .. 0.986)"
    assert [True, False] == [has_unit(value, "latency") for value in (latency, latency.replace(" ms", ""))]
    assert [True, False] == [has_unit(value, "accuracy") for value in (accuracy, "0.967 ms")]


def test_counts_name_every_outcome() -> None:
    verdicts = [
        *(fake.budget_verdict("k", "latency", "p50", 1.0, outcome) for outcome in get_args(BudgetOutcome)),
        *(fake.comparison_verdict("latency", "p50", outcome) for outcome in get_args(ComparisonOutcome)),
    ]
    report = report_of(replace(fake.plain_judgement(), verdicts=(*verdicts, verdicts[0])))
    assert [*counts_of(report, listed=True)] == [
        "budgets: 2 passed, 1 failed, 1 inconclusive, 1 unmeasured",
        "comparisons: 1 regressed, 1 improved, 1 equivalent, 1 inconclusive, 1 no baseline, 1 not comparable",
        "1 skipped",
    ]
    nothing = replace(report, judgements=())
    assert [*counts_of(nothing, listed=False)] == [f"1 skipped: {report.skips[0].reason}"]
    unjudged = report_of(replace(fake.plain_judgement(), verdicts=()))  # a silent table would look like a pass
    assert "1 measured only, no budget or baseline" in counts_of(unjudged, listed=True)


def test_a_statistic_is_named_where_it_is_not_the_usual_or_not_the_only_one() -> None:
    kinds = [("throughput", "mean"), ("memory", "max"), ("energy", "mean"), ("energy", "p50"), ("latency", "p50")]
    figures = tuple(fake.figure(metric, statistic) for metric, statistic in kinds)
    verdicts = (
        fake.budget_verdict("energy_budget_mj", "energy", "p50", 1.0, "passed"),
        fake.budget_verdict("memory_max_mb", "memory", "max", 1.0, "passed"),
    )
    table = rows(report_of(Judgement(run=fake.run(), figures=figures, verdicts=verdicts)))
    assert ["latency p50", "throughput", "memory max", "energy p50"] == metrics(table)


HEAT = state("heat", rises=3)
CONSTANT = state("constant input", rows=1)
CROWD = state("crowded threads", threads=8, cores=2, fitting=2, workers="")


def measured(*remarks: Remark) -> Judgement:
    """A test that passes, with remarks on its latency."""
    sample = replace(fake.run().samples[0], warnings=remarks)
    run = replace(fake.run(), samples=(sample, *fake.run().samples[1:]))
    return replace(fake.plain_judgement(), run=run, verdicts=(), figures=(fake.figure(),))


DOUBTS: list[tuple[tuple[Remark, ...], list[str]]] = [
    ((HEAT, CONSTANT, CROWD), ["3 remarks with -v"]),
    ((HEAT, state("heat", rises=8)), ["1 remark with -v"]),  # one footnote, with a range
    (("the meter was reset",), ["1 remark with -v"]),  # a meter's own words
    ((state("mean of one"), state("maximum", statistic="p99", n=40, needed=459)), []),
    ((), []),
]


def test_what_puts_a_passed_value_in_doubt_is_counted() -> None:
    """Once for several tests; all of it is in the table."""
    for remarks, told in DOUBTS:
        report = report_of(measured(*remarks), measured(*remarks))
        assert told == [count for count in summary_of(report).counts if "remark" in count]
    notes = rows(report_of(measured(HEAT, CONSTANT, CROWD)))[1]
    assert {str(HEAT), str(CONSTANT), str(CROWD)} <= set(notes)


def test_what_is_a_footnote_already_is_not_counted() -> None:
    shown = summary_of(fake.report())
    assert {*rows(fake.report())[1]} & {*shown.footnotes}
    assert "1 remark with -v" in shown.counts  # context switches
