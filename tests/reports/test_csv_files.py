"""Spreadsheets and pandas read the files: units in names, reasons where a cell is empty, no formula."""

import csv
import io
import math
from array import array
from collections.abc import Callable

import pandas as pd
from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.evidence import Evidence, Measurement
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import EXPORT_UNITS
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.csv_files import render

RUNS, SUMMARY, COMPARISONS = "stat_benchmark_runs.csv", "stat_benchmark_summary.csv", "statistical_comparisons.csv"


def table(report: Report, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(report)[name].decode("utf-8"))))


def report_of(*judgements: Judgement) -> Report:
    return replace(fake.report(), judgements=judgements)


def test_files_are_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    """Of an empty report, the headers only."""
    for name, content in render(fake.report()).items():
        golden(f"csv/{name}", content)
    assert {RUNS: 1, SUMMARY: 1, COMPARISONS: 1} == {
        name: content.count(b"\n") for name, content in render(fake.empty_report()).items()
    }


def test_sample_is_summarised_in_its_unit() -> None:
    """2, 4, 4, 4, 5, 5, 7, 9 ms: the sum is 40, squared deviations from 5 sum to 32, and √(32 ÷ 7) = 2.1380899353.

    The median is p50: the fourth of eight values.
    """
    run = fake.run(samples=(fake.sample(values=[0.002, 0.004, 0.004, 0.004, 0.005, 0.005, 0.007, 0.009]),))
    row = table(report_of(replace(fake.plain_judgement(), run=run)), RUNS)[0]
    assert {"unit": "ms", "n": "8", "mean": "5", "median": "4", "sd": "2.1380899353", "min": "2", "max": "9"} == {
        name: row[name] for name in ("unit", "n", "mean", "median", "sd", "min", "max")
    }
    assert (row["per"], row["source"], row["reason"]) == ("call", "perf_counter", "")


def test_sample_without_readings_is_empty_and_says_why() -> None:
    run = fake.run(samples=(replace(fake.sample(), values=array("d")),))
    row = table(report_of(replace(fake.plain_judgement(), run=run)), RUNS)[0]
    assert ("0", "", "", "no reading") == (row["n"], row["mean"], row["max"], row["reason"])


def test_every_empty_number_of_the_summary_has_its_reason() -> None:
    for row in table(fake.report(), SUMMARY):
        for name, reason in row.items():
            if name.endswith("_reason"):
                figure = name.removesuffix("_reason")
                complete = all(row[figure + end] for end in ("", "_ci_low", "_ci_high"))
                assert complete == (reason == "")


def test_every_number_has_unit_n_and_source() -> None:
    """Those of a run and of a comparison in their row; those of the summary behind the name of their column."""
    report = fake.report()
    for row in table(report, RUNS) + table(report, COMPARISONS):
        number = row.get("mean") or row.get("candidate_value")
        assert not number or (row["unit"] and int(row["n"]) > 0 and row["source"])
    for row in table(report, SUMMARY):
        for name in [name.removesuffix("_source") for name in row if name.endswith("_source")]:
            metric = next(metric for metric in METRICS if name.startswith(f"{metric}_"))
            assert name.endswith(EXPORT_UNITS[METRICS[metric].unit][0])
            assert not row[name] or (int(row[f"{name}_n"]) > 0 and row[f"{name}_source"])


def paired(*changes: float) -> Report:
    """A latency that was compared by these log ratios, one a pair."""
    judgement, whole = fake.plain_judgement(), gates.report(1)
    (drawn, *_), measured = whole.gates[0].evidence.pairs, Measurement(test=judgement.run.test, label="long text")
    seen = [replace(drawn.observations[0], measurement=measured, change=change) for change in changes]
    pairs = tuple(replace(drawn, stage="screen", observations=(one,)) for one in seen)
    gate = replace(whole.gates[0], evidence=Evidence(alpha=0.01, hypotheses=(), pairs=pairs))
    value = math.expm1(sorted(changes)[len(changes) // 2])
    verdict = fake.comparison_verdict("latency", "p50", "inconclusive", (value, -0.1, 0.1), pairs=len(changes))
    return replace(report_of(replace(judgement, verdicts=(verdict,))), gates=(gate,))


EFFECTS: list[tuple[tuple[float, ...], str, str]] = [
    ((0.02, 0.04, 0.06), "2", ""),  # a mean of 0.04 over a deviation of 0.02
    ((0.02,), "", "1 pair without a deviation; see change and its interval"),
    ((0.02, 0.02, 0.02), "", "3 pairs without a deviation; see change and its interval"),
]


def test_pairs_give_a_standardised_effect() -> None:
    for changes, effect, reason in EFFECTS:
        (row,) = table(paired(*changes), COMPARISONS)
        assert (effect, reason) == (row["cohens_d_paired"], row["cohens_d_paired_reason"])


def test_what_rests_on_no_pairs_has_no_standardised_effect() -> None:
    """Of a whole build: latencies are compared in pairs, memory and accuracy are not."""
    rows = table(gates.report(3), COMPARISONS)
    assert {("latency", True), ("memory", False), ("accuracy", False)} == {
        (row["metric"], row["cohens_d_paired"] != "") for row in rows
    }
    assert all((row["cohens_d_paired"] == "") == (row["cohens_d_paired_reason"] != "") for row in rows)


def test_a_comparison_without_a_figure_has_the_value_of_its_pairs() -> None:
    """So does that of two models; a baseline without a value leaves it open."""
    judgement = replace(fake.sklearn_judgement(), figures=())
    absent = fake.comparison_verdict("latency", "p50", "regressed", (0.1, 0.05, 0.2))
    first, second = (
        table(report_of(replace(judgement, verdicts=(v,))), COMPARISONS)[0] for v in (judgement.verdicts[4], absent)
    )
    assert ("6.30896", "12", "pairs of fresh processes") == (first["candidate_value"], first["n"], first["source"])
    assert ("", "", "") == (second["candidate_value"], second["n"], second["source"])


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", " =1", "＝1", "-test[x]", ";=1", '"=1', 'a;"=1', "; -1", '";"@A1')


def test_text_never_starts_a_formula() -> None:
    """A test id is the work of strangers in a pull request; a spreadsheet would run it.

    Half of Europe parts cells by semicolons.
    """
    for text in FORMULAS:
        run = replace(fake.run(), test=text, label=text, scenario=text, unmeasured={text: text})
        run = replace(run, conditions={text: text}, directions={text: "lower"})
        figures = (fake.figure(text, "mean", source=text, per=text),)
        contents = render(report_of(Judgement(run=run, figures=figures, verdicts=()))).values()
        cells = [cell for content in contents for row in csv.reader(io.StringIO(content.decode())) for cell in row]
        parts = [part.lstrip(' "') for cell in cells for part in cell.split(";")]
        assert [] == [part for part in parts if part.startswith(("=", "+", "-", "@", "＝"))]


def test_pandas_reads_numbers_as_numbers() -> None:
    frame = pd.read_csv(io.BytesIO(render(fake.report())[SUMMARY]))
    assert frame["latency_p50_ms"].tolist() == [6.31, 0.042, 1.18]
    assert frame["latency_p95_ms"].isna().tolist() == [False, True, True]
