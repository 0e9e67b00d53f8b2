"""The table of metrics is the only place that knows one by name: another metric is one row and one meter."""

import runpy
from array import array

import pytest
from fakes import records as fake
from fakes.streams import FakeMeter

from pytest_hwperf.measure.samples import samples_of
from pytest_hwperf.measure.sampling import RawSamples, Window
from pytest_hwperf.records import markers
from pytest_hwperf.records.metrics import METRICS, BudgetKeyword, DefaultMargin, Metric, metric_of, taken_by
from pytest_hwperf.records.run import Reading, replace
from pytest_hwperf.records.verdict import Judgement, Margin
from pytest_hwperf.reports.table import Line, rows
from pytest_hwperf.stats.figures.estimates import figures

BYTES_READ = Metric(
    name="bytes_read",
    title="bytes that a row reads from the disk",
    unit="B",
    better="lower",
    taken="windows",
    spread="row",
    statistics=("mean", "max"),
    shown=("max",),
    budgets=(BudgetKeyword(keyword="bytes_read_max_kb", statistic="max", factor=1e3),),
    margins=(DefaultMargin(statistic="mean", size=0.1, floor=512.0, always=True),),
)


def test_a_new_row_has_a_budget_and_a_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "bytes_read", BYTES_READ)
    found = runpy.run_path(markers.__file__)
    margin = Margin(metric="bytes_read", statistic="mean", size=0.1, floor=512.0)
    assert (BYTES_READ, BYTES_READ.budgets[0]) == found["BUDGET_KEYWORDS"]["bytes_read_max_kb"]
    assert margin == found["DEFAULT_MARGINS"]["bytes_read_mean"] == found["ALWAYS_COMPARED"][-1]


def test_a_new_row_and_its_meter_are_measured_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two windows of ten calls, four rows each, read 4 and 8 kB: 100 and 200 B a row."""
    monkeypatch.setitem(METRICS, "bytes_read", BYTES_READ)
    meter = FakeMeter("bytes_read", iter(()))
    windows = [Window(calls=10, wall_s=0.5, readings=(Reading(value=value),)) for value in (4e3, 8e3)]
    measured = RawSamples(
        result=None,
        first_call_s=0.5,
        calls_per_value=1,
        latency_s=array("d", [0.05] * 20),
        windows=windows,
        warnings=[],
    )
    samples, unmeasured = samples_of(measured, [meter], rows=4, cores=2)
    run = replace(fake.run(), samples=samples)
    judgement = Judgement(run=run, figures=figures(run), verdicts=())
    table, _ = rows(replace(fake.report(), judgements=(judgement,), gates=()))
    shown = {row.cells[0]: row.cells[1] for row in table if isinstance(row, Line)}
    assert not unmeasured
    assert [100.0, 200.0] == [*samples[-1].values]
    assert ["mean", "max"] == [figure.statistic for figure in figures(run) if figure.metric == "bytes_read"]
    assert "200 B" == shown["bytes_read max"]
    assert "bytes_read mean" not in shown


def test_rows_agree_with_each_other() -> None:
    """What names a statistic names one that is shown; what names a metric names one of the table."""
    for metric in METRICS.values():
        budgets, margins = ({one.statistic for one in each} for each in (metric.budgets, metric.margins))
        statistics = {*metric.shown, *budgets, *margins}
        others = {*filter(None, [metric.counter, metric.reciprocal])}
        assert set() == statistics - set(metric.statistics), metric.name
        assert set() == others - set(METRICS), metric.name
        assert metric.title, metric.name
    keywords = [one.keyword for metric in METRICS.values() for one in metric.budgets]
    assert len(keywords) == len(set(keywords))


def test_a_metric_of_the_users_own_is_a_plain_number() -> None:
    own = metric_of("rouge_l", "higher")
    assert ("1", "higher", ("p50",), False) == (own.unit, own.better, own.statistics, own.exact)
    assert METRICS["latency"] is metric_of("latency", "higher")


def test_a_statistic_is_called_by_its_metric_where_it_is_the_only_one() -> None:
    assert ("latency p95", "throughput") == (METRICS["latency"].called("p95"), METRICS["throughput"].called("mean"))


def test_metrics_are_found_by_how_they_are_taken() -> None:
    assert ("accuracy", "flip_rate", "probability_diff", "model_size") == taken_by("examples", "file")
