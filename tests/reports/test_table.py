"""The table and the summary choose what is shown: nothing that was decided or left inconclusive is missing from it."""

import re
from typing import get_args

import pytest
from fakes import records as fake

from pytest_hwperf.records.messages import Remark, Statement, said, state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import _SCALES
from pytest_hwperf.records.verdict import BudgetOutcome, ComparisonOutcome, Judgement, Skip, Verdict
from pytest_hwperf.reports.summary import counts_of, summary_of
from pytest_hwperf.reports.table import COLUMNS, Section, Table, rows


def report_of(*judgements: Judgement) -> Report:
    return replace(fake.report(), judgements=judgements)


def cells(section: Section, metric: str) -> dict[str, str]:
    """Return a row by the names of its columns."""
    row = next(row for row in section.rows if row.cells[0] == metric)
    return dict(zip(COLUMNS, row.cells, strict=True))


def sections(table: Table) -> list[Section]:
    return [section for group in table.groups for section in group.sections]


def metrics(section: Section) -> list[str]:
    return [row.cells[0] for row in section.rows]


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
    row = cells(sections(table)[0], "latency p50")
    assert ("340 µs", "8 pairs", "324 µs") == (row["value"], row["n"], row["baseline"])
    assert ["latency p50"] == metrics(sections(table)[0])
    assert "perf_counter (latency)" == table.groups[0].sources
    assert ["latency p50", "  this run"] == metrics(sections(verbose)[0])


def test_a_budget_has_the_figure_of_this_run_in_a_row_of_its_own() -> None:
    budget = fake.budget_verdict("latency_p50_ms", "latency", "p50", 0.00033, "passed")
    section = sections(rows(report_of(slower_in_pairs(budget))))[0]
    assert [("latency p50", "340 µs", "bad"), ("  this run", "314 µs (312 .. 316)", "plain")] == [
        (row.cells[0], row.cells[1], row.tone) for row in section.rows
    ]


def test_the_parts_of_memory_stand_below_it() -> None:
    """A limit that a fixture exceeds is told apart from one that calls exceed, without all figures."""
    named = ("memory", "memory_import", "memory_fixtures", "memory_call", "memory_steady")
    figures = tuple(fake.figure(name, "p50", at=fake.estimate(5e7, 5e7, 5e7, 3)) for name in named)
    section = sections(rows(report_of(replace(fake.plain_judgement(), figures=figures, verdicts=()))))[0]
    assert [*named[:-1]] == metrics(section)


def test_a_figure_without_its_comparison_above_is_named_by_its_metric() -> None:
    """A quiet table shows the budget that failed, and not the comparison that found nothing."""
    budget = fake.budget_verdict("latency_p50_ms", "latency", "p50", 0.0003, "failed")
    nothing = fake.comparison_verdict("latency", "p50", "equivalent", (0.001, -0.01, 0.01), pairs=6, baseline=330e-6)
    section = sections(rows(report_of(replace(slower_in_pairs(), verdicts=(budget, nothing))), detail="quiet"))[0]
    assert [("latency p50", "314 µs (312 .. 316)")] == [row.cells[:2] for row in section.rows]


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
        row.cells[1:3] for row in sections(table)[0].rows
    ]
    assert "pairs of fresh processes (latency, accuracy)" == table.groups[0].sources


def test_a_scenario_that_stands_alone_has_its_conditions_beside_its_name() -> None:
    (group,) = rows(replace(report_of(fake.onnx_judgement()), skips=())).groups
    assert (f"{fake.TEST}[onnx_fp32]", "") == (group.title, group.setting)
    assert ("onnx_fp32", "fp32, threads 1, batch size 16") == (group.sections[0].name, group.sections[0].setting)


def test_each_scenario_has_its_full_test_id_and_what_only_it_has() -> None:
    slow, fast = fake.sklearn_judgement(), fake.onnx_judgement()
    other = {**slow.run.conditions, "precision": "float64", "load": "offline"}
    report = report_of(replace(slow, run=replace(slow.run, conditions=other)), fast)
    table = rows(replace(report, skips=()))
    assert [("onnx_fp32", "fp32"), ("sklearn_fp32", "float64, load offline")] == [
        (section.name, section.setting) for section in sections(table)
    ]
    assert [f"{fake.TEST}[onnx_fp32]", f"{fake.TEST}[sklearn_fp32]"] == [section.test for section in sections(table)]
    assert "threads 1, batch size 16" == table.groups[0].setting


def test_sources_of_one_metric_are_reported_apart_by_scenario() -> None:
    """Where a scenario is its own source it is not named again."""

    def sized(scenario: str, source: str) -> Judgement:
        figures = (
            fake.figure("accuracy", "mean", source=scenario, per="example"),
            fake.figure("model_size", "p50", source=source, per="model"),
        )
        return Judgement(run=fake.run(test=f"t.py::t[{scenario}]", scenario=scenario), figures=figures, verdicts=())

    judgements = (sized("onnx", "onnx file"), sized("sklearn", "joblib"), sized("int8", "onnx file"))
    table = rows(report_of(*judgements), detail="verbose")
    assert "the scenario (accuracy); onnx file (model_size of onnx, int8); joblib (model_size of sklearn)" == (
        table.groups[0].sources
    )


def test_scenarios_are_ranked_within_the_other_parameters_of_a_test() -> None:
    """A scenario's name is looked for as a whole: `a` is no part of `data`."""

    def placed(test: str, scenario: str, median: float) -> Judgement:
        run = fake.run(test=test, scenario=scenario)
        return Judgement(run=run, figures=(fake.figure(at=fake.estimate(median, None, None, 9)),), verdicts=())

    ids = [("data-a-1", "a", 4.0), ("data-a-8", "a", 1.0), ("data-b-1", "b", 2.0)]
    table = rows(replace(report_of(*(placed(f"t.py::t[{i}]", name, median) for i, name, median in ids)), skips=()))
    assert ["t.py::t[data-…-1]", "t.py::t[data-a-8]"] == [group.title for group in table.groups]
    assert [
        ("t.py::t[data-b-1]", "1.00× the fastest"),
        ("t.py::t[data-a-1]", "2.00× the fastest"),
        ("t.py::t[data-a-8]", ""),
    ] == [(section.test, section.ratio) for section in sections(table)]


def test_scenarios_that_are_reported_apart_by_label_stand_together() -> None:
    runs = [fake.run(test="t.py::t", scenario=name, label=f"{name} batch 8") for name in ("a", "b")]
    table = rows(report_of(*(Judgement(run=run, figures=(fake.figure(),), verdicts=()) for run in runs)))
    assert ["t.py::t batch 8", f"{fake.TEST}[onnx_int8]"] == [group.title for group in table.groups]
    assert ["a", "b"] == [section.name for section in table.groups[0].sections]


def test_a_scenario_without_a_median_is_last_and_unranked() -> None:
    unmeasured = replace(fake.onnx_judgement(), figures=())
    table = rows(replace(report_of(unmeasured, fake.sklearn_judgement()), skips=()))
    assert [("sklearn_fp32", "1.00× the fastest"), ("onnx_fp32", "")] == [(s.name, s.ratio) for s in sections(table)]


def test_a_skip_stands_with_its_test_whether_or_not_its_id_names_the_scenario() -> None:
    report = fake.report()
    by_hand = replace(report.skips[0], test=fake.TEST)
    groups = rows(replace(report, skips=(*report.skips, by_hand))).groups
    assert [["onnx_fp32", "sklearn_fp32", "onnx_int8", "onnx_int8"], [""]] == [
        [section.name for section in group.sections] for group in groups
    ]


def test_a_test_of_which_everything_was_skipped_is_still_named() -> None:
    skip = Skip(test="t.py::t[int8]", scenario="int8", cause=said("no such form"))
    table = rows(replace(fake.empty_report(), skips=(skip,)))
    assert ["t.py::t[int8]"] == [group.title for group in table.groups]
    assert [("int8", "skipped: no such form")] == [(s.name, s.setting) for s in sections(table)]


def test_a_verdict_that_fails_is_shown_quietly_whatever_its_outcome() -> None:
    verdict = replace(fake.budget_verdict("latency_p50_ms", "latency", "p50", 1.0, "passed"), fails=True)
    table = rows(report_of(replace(fake.plain_judgement(), verdicts=(verdict,))), detail="quiet")
    assert sections(table)[0].rows[0].cells[-1] == "passed (fails)"


def test_what_has_decided_a_budget_near_its_limit_is_a_footnote_of_its_row() -> None:
    """Rows of one decision share it; the numbers of fresh processes are never put together as a range."""
    toss, text = state("timed point"), "decided by the point estimate, near a limit a coin toss"
    verdicts = (
        replace(fake.budget_verdict("latency_p50_ms", "latency", "p50", 1.0, "inconclusive"), decided_by=(toss,)),
        replace(
            fake.budget_verdict("latency_p95_ms", "latency", "p95", 1.0, "inconclusive"),
            decided_by=(toss, state("fresh processes", kept=2, processes=3)),
        ),
        replace(
            fake.budget_verdict("latency_p99_ms", "latency", "p99", 1.0, "passed"),
            decided_by=(state("fresh processes", kept=5, processes=5),),
        ),
    )
    judgement = replace(fake.sklearn_judgement(), verdicts=verdicts)
    for detail in ("normal", "verbose"):
        table = rows(report_of(judgement), detail=detail)
        notes = {row.cells[0]: [table.footnotes[n - 1] for n in row.notes] for row in sections(table)[0].rows}
        assert [text] == notes["latency p50"][-1:]
        assert [text, "2 of 3 fresh processes kept the limit"] == notes["latency p95"][-2:]
        assert ["5 of 5 fresh processes kept the limit"] == notes["latency p99"][-1:]
        assert 1 == table.footnotes.count(text)


def test_without_a_recorded_reason_the_verdict_gives_it() -> None:
    judgement = fake.sklearn_judgement()
    table = rows(report_of(replace(judgement, run=replace(judgement.run, unmeasured={}))))
    assert fake.NO_COUNTER in table.footnotes


def test_a_footnote_does_not_repeat_what_its_row_says() -> None:
    line = "energy mean: unmeasured, budget <= 2.00 mJ: no counter: it is hidden"
    verdict = fake.budget_verdict("energy_budget_mj", "energy", "mean", 0.002, "unmeasured", reason=line)
    verdict = replace(verdict, cause=said("no counter: it is hidden"))
    table = rows(report_of(replace(fake.plain_judgement(), verdicts=(verdict,))))
    assert ("no counter: it is hidden",) == table.footnotes


def test_notes_that_differ_in_numbers_only_are_one_footnote_with_their_range() -> None:
    def disturbed(scenario: str, load: float) -> Judgement:
        sample = fake.sample(warnings=(state("load", load=load, cores=2),))
        run = fake.run(test=f"t.py::t[{scenario}]", scenario=scenario, samples=(sample,))
        return Judgement(run=run, figures=(fake.figure(),), verdicts=())

    table = rows(report_of(disturbed("a", 15.4), disturbed("b", 9.5), disturbed("c", 10.4)))
    assert ("load 9.5 .. 15.4 on 2 cores: other work disturbed the timings",) == table.footnotes
    assert [(1,), (1,), (1,)] == [row.notes for section in sections(table) for row in section.rows]


def historical(limit: float, stored: int) -> Verdict:
    verdict = fake.comparison_verdict("latency", "p50", "inconclusive", (0.01, -0.4, 0.6), detectable=limit)
    return fake.of_subject(verdict, method=state("historical limit", limit=limit, sessions=stored), pairs=stored)


def test_comparisons_by_one_method_share_a_footnote_that_is_reported_exactly_in_verbose() -> None:
    """The method names its n and its limit already: neither is said twice."""
    plain = fake.plain_judgement()
    other = replace(plain, run=replace(plain.run, test="t.py::other"), verdicts=(historical(0.901, 1),))
    report = report_of(replace(plain, verdicts=(historical(0.532, 3),)), other)
    how = "change by historical; false-alarm rate not guaranteed: limit"
    assert (f"{how} +53.2 .. 90.1 %, stored runs: 1 .. 3",) == rows(report).footnotes
    assert (f"{how} +53.2 %, stored runs: 3", f"{how} +90.1 %, stored runs: 1") == rows(
        report, detail="verbose"
    ).footnotes


def test_warnings_of_comparisons_are_footnotes_too() -> None:
    verdict = fake.comparison_verdict(
        "throughput", "mean", "inconclusive", (-0.03, -0.08, 0.02), detectable=-0.07, warnings=("only 6 pairs",)
    )
    verdict = fake.of_subject(verdict, interference=0.54)
    table = rows(report_of(replace(fake.plain_judgement(), verdicts=(verdict,))))
    assert {"only 6 pairs", "smallest detectable change 7 %", "54 % of turns were interrupted by other work"} <= set(
        table.footnotes
    )


def test_doubts_of_several_comparisons_are_one_footnote_each() -> None:
    """With the range of their numbers; verbose keeps them apart."""

    def doubtful(test: str, share: float, detectable: float) -> Judgement:
        verdict = fake.comparison_verdict("latency", "p50", "inconclusive", (0.0, -0.1, 0.1), detectable=detectable)
        verdicts = (fake.of_subject(verdict, interference=share),)
        return Judgement(run=fake.run(test=test), figures=(fake.figure(),), verdicts=verdicts)

    report = report_of(doubtful("t.py::a", 0.66, 0.042), doubtful("t.py::b", 0.75, 0.045))
    said = ("66 .. 75 % of turns were interrupted by other work", "smallest detectable change 4.2 .. 4.5 %")
    assert said == rows(report).footnotes[1:]
    assert 5 == len(rows(report, detail="verbose").footnotes)


def test_budget_and_comparison_of_what_was_not_measured_share_a_footnote() -> None:
    """The reason is the same; one that says something else is kept."""
    why = said("give y_true=, or a y in hwperf_data")
    budget = replace(fake.budget_verdict("accuracy_min", "accuracy", "mean", 0.9, "unmeasured"), cause=why)
    named = fake.comparison_verdict("accuracy", "mean", "not comparable")

    def footnotes(cause: Statement) -> tuple[str, ...]:
        verdicts = (budget, fake.of_subject(named, cause=cause))
        return rows(report_of(replace(fake.plain_judgement(), figures=(), verdicts=verdicts))).footnotes

    assert (str(why),) == footnotes(state("not measured", why=str(why)))
    assert (str(why), "other") == footnotes(said("other"))


def test_shown_numbers_have_unit_n_and_source() -> None:
    """Every row with a figure, at every detail; the source of its metric stands above it.

    The CSV files and JUnit's properties are held to the same in their own tests.
    """
    for detail in ("quiet", "normal", "verbose"):
        table = rows(fake.report(), detail=detail)
        for group in table.groups:
            for section in group.sections:
                for name, measured_row in zip(metrics(section), section.rows, strict=True):
                    row = dict(zip(COLUMNS, measured_row.cells, strict=True))
                    metric = "latency" if name == "  this run" else name.split()[0]
                    measured = row["n"] and re.search(rf"\(.*\b{metric}\b.*\)", group.sources)
                    assert row["value"] == "unmeasured" or (measured and has_unit(row["value"], metric))


def has_unit(value: str, metric: str) -> bool:
    """Say whether behind the number stands one of the units of its metric; nothing where it is a share."""
    units = "|".join(re.escape(f" {name}".rstrip()) for _, name in _SCALES[METRICS[metric].unit])
    return re.match(rf"[\d.]+({units})( \(|$)", value) is not None


@pytest.mark.parametrize(
    ("value", "metric", "answer"),
    [
        ("7.90 ms (7.60 .. 8.45)", "latency", True),
        ("7.90 (7.60 .. 8.45)", "latency", False),
        ("0.967 (0.924 .. 0.986)", "accuracy", True),
        ("0.967 ms", "accuracy", False),
    ],
)
def test_a_number_without_its_unit_is_noticed(value: str, metric: str, answer: bool) -> None:
    assert answer == has_unit(value, metric)


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
    assert ["latency p50", "throughput", "memory max", "energy p50"] == metrics(sections(table)[0])


HEAT = state("heat", rises=3)
CONSTANT = state("constant input", rows=1)
CROWD = state("crowded threads", threads=8, cores=2, fitting=2, workers="")


def measured(*remarks: Remark) -> Judgement:
    """A test that passes, with remarks on its latency."""
    sample = replace(fake.run().samples[0], warnings=remarks)
    run = replace(fake.run(), samples=(sample, *fake.run().samples[1:]))
    return replace(fake.plain_judgement(), run=run, verdicts=(), figures=(fake.figure(),))


@pytest.mark.parametrize(
    ("remarks", "told"),
    [
        ((HEAT, CONSTANT, CROWD), ["3 remarks with -v"]),
        ((HEAT, state("heat", rises=8)), ["1 remark with -v"]),  # one footnote, with a range
        (("the meter was reset",), ["1 remark with -v"]),  # a meter's own words
        ((state("mean of one"), state("maximum", statistic="p99", n=40, needed=459)), []),
        ((), []),
    ],
)
def test_what_puts_a_passed_value_in_doubt_is_counted(remarks: tuple[Remark, ...], told: list[str]) -> None:
    """Once for several tests."""
    report = report_of(measured(*remarks), measured(*remarks))
    assert told == [count for count in summary_of(report).counts if "remark" in count]


def test_all_that_is_counted_is_in_the_table() -> None:
    notes = rows(report_of(measured(HEAT, CONSTANT, CROWD))).footnotes
    assert {str(HEAT), str(CONSTANT), str(CROWD)} <= set(notes)


def test_what_is_a_footnote_already_is_not_counted() -> None:
    shown = summary_of(fake.report())
    assert {*rows(fake.report()).footnotes} & {*shown.footnotes}
    assert "1 remark with -v" in shown.counts  # context switches
