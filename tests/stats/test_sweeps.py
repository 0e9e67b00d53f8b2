"""Sweeps and rounds: which points keep the limits, which is best, and what drifts between rounds."""

from array import array
from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf.records.report import Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.run import Figure, replace
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.choice.sweeps import Round, Stats, figures_of, is_beyond, missed, over_rounds, row_of, sweep_of

P95 = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.010)
MEMORY = Budget(keyword="memory_max_mb", metric="memory", statistic="p50", limit=1e6)
RATE = Budget(keyword="throughput_min_sps", metric="sample_throughput", statistic="mean", limit=100.0)
DEFAULT = Budget(keyword="accuracy_min", metric="accuracy", statistic="mean", limit=0.9, default=True)


def point(batch: int | None = 1, threads: int = 1, *limits: Budget, **others: Any) -> SweepPoint:
    values: dict[str, Any] = {} if batch is None else {"batch_size": batch}
    return SweepPoint(sweep="t.py::t", values={**values, "threads": threads}, limits=limits, **others)


def figure(metric: str, statistic: str, value: float, *, apart: float = 0.01, source: str = "clock") -> Figure:
    """A figure whose interval reaches 1 % to either side."""
    low, high = value * (1 - apart), value * (1 + apart)
    return fake.figure(metric, statistic, fake.estimate(value, low, high, 400), source=source)


def row(of: SweepPoint, p95: float, p50: float | None = None, rows_s: float | None = None) -> SweepRow:
    found = [figure("latency", "p95", p95), figure("latency", "p50", p50 or p95 / 2)]
    return row_of(of, found + ([figure("sample_throughput", "mean", rows_s)] if rows_s else []))


def best(sweep: Sweep) -> dict[str, tuple[int, ...]]:
    return {one.goal: one.rows for one in sweep.best}


def test_a_limit_is_answered_by_the_whole_interval() -> None:
    """1 % to either side: 9.9 ms reaches 9.999 ms, 9.95 ms reaches 10.05 ms, 10.2 ms begins at 10.1 ms."""
    outcomes = {0.0098: "passed", 0.0099: "passed", 0.00995: "inconclusive", 0.0102: "failed"}
    assert outcomes == {p95: row(point(1, 1, P95), p95).outcome for p95 in outcomes}


def test_the_worst_answer_is_that_of_the_point() -> None:
    both = row(point(1, 1, P95, MEMORY), 0.005)
    assert ["passed", "unmeasured"] == [answer.outcome for answer in both.answers]
    assert "unmeasured" == both.outcome
    assert "memory p50 <= 1 MB (unmeasured)" == str(both.answers[1])
    assert not both.is_eligible


def test_a_default_of_every_test_asks_nothing_where_its_metric_is_not_there() -> None:
    assert () == row(point(1, 1, DEFAULT), 0.005).answers
    assert None is row(point(1, 1, DEFAULT), 0.005).outcome


def test_the_best_batch_has_the_highest_throughput_within_the_limits_not_the_most_rows() -> None:
    """256 rows miss the limit, and of those that keep it, 32 rows are faster than 64."""
    rows = [
        row(point(1, 1, P95), 0.001, rows_s=1000),
        row(point(32, 1, P95), 0.004, rows_s=9000),
        row(point(64, 1, P95), 0.009, rows_s=8000),
        row(point(256, 1, P95), 0.03, rows_s=12_000),
    ]
    assert {"latency": (0,), "throughput": (1,)} == best(sweep_of("t", rows))


def test_an_inconclusive_point_is_never_the_best() -> None:
    rows = [row(point(1, 1, P95), 0.001, rows_s=1000), row(point(32, 1, P95), 0.01, rows_s=9000)]
    assert "inconclusive" == rows[1].outcome
    assert (0,) == best(sweep_of("t", rows))["throughput"]


def test_without_a_point_within_the_limits_there_is_no_best() -> None:
    """Nor among values of different sources."""
    rows = [row_of(point(n), [figure("energy", "mean", 0.1, source=source)]) for n, source in ((1, "rapl"), (2, "x"))]
    assert [()] * 3 == [sweep_of("t", of).best for of in ([row(point(1, 1, P95), 0.02)], [], rows)]


def test_points_are_told_apart_by_intervals_and_margin() -> None:
    """1 % to either side and a margin of 2 %: 1000 reaches 1010, and 1038 begins at 1027.6 <= 1030.2."""
    for other, tied in [(1038, True), (1042, False)]:
        rows = [row(point(1), 0.001, rows_s=1000), row(point(8), 0.001, rows_s=other)]
        assert ((1, 0) if tied else (1,)) == best(sweep_of("t", rows))["throughput"]


def test_an_open_interval_tells_nothing_apart() -> None:
    unsure = replace(figure("latency", "p50", 0.001), estimate=fake.estimate(0.001, None, None, 1))
    assert (0, 1) == best(sweep_of("t", [row_of(point(1), [unsure]), row(point(8), 1.0)]))["latency"]


def test_calls_are_taken_where_rows_are_not_known() -> None:
    calls = [row_of(point(None, n), [figure("throughput", "mean", 100.0 * n)]) for n in (1, 2)]
    assert {"throughput": (1,)} == best(sweep_of("t", calls))
    assert {"throughput"} == {one.metric for one in sweep_of("t", calls).best}


def test_the_fill_delay_is_part_of_a_latency_that_has_a_limit() -> None:
    """255 rows at 8000/s take 31.9 ms before the call of the batch begins."""
    filled = row(point(256, 1, P95, rate=8000.0), 0.001)
    assert 255 / 8000 == filled.point.fill_s
    assert "failed" == filled.outcome
    assert "latency p95 <= 10 ms (32.9 ms)" == str(filled.answers[0])
    assert None is point(256).fill_s


def test_an_open_bound_stays_open_with_the_fill_delay() -> None:
    unsure = replace(figure("latency", "p95", 0.001), estimate=fake.estimate(0.001, 0.001, None, 9))
    assert "inconclusive" == row_of(point(2, 1, P95, rate=8000.0), [unsure]).outcome


def test_a_miss_of_the_latency_speaks_of_larger_batches() -> None:
    said = missed(row(point(32, 1, P95), 0.012))
    assert "batch_size 32, threads 1 misses latency p95 <= 10 ms (12.0 ms), and a larger batch takes more" == str(said)


def test_other_answers_say_nothing_about_larger_batches() -> None:
    table: list[SweepRow] = [
        row(point(32, 1, P95), 0.001),
        row(point(32, 1, RATE), 0.001, rows_s=50),
        row(point(None, 1, P95), 0.02),
    ]
    assert [] == [quiet for quiet in table if None is not missed(quiet)]


def test_only_a_larger_batch_of_the_same_kind_lies_beyond() -> None:
    table: list[tuple[SweepPoint, bool]] = [
        (point(64), True),
        (point(8), False),
        (point(64, 2), False),
        (point(64, scenario="x"), False),
        (point(None), False),
    ]
    assert [] == [(one, beyond) for one, beyond in table if beyond != is_beyond(one, point(32))]


def test_a_batch_that_is_served_and_not_swept_is_said() -> None:
    for served, said in [(8, True), (32, False), (0, False)]:
        rows = [row(point(size, serving_batch=served), 0.001) for size in (1, 32)]
        text = "batches of 8 are served, and batches of 1, 32 were measured: sweep the one that is served too"
        assert ([text] if said else []) == [str(note) for note in sweep_of("t", rows).notes]


def test_a_sweep_of_other_things_says_nothing_about_batches() -> None:
    assert () == sweep_of("t", [row(point(None, serving_batch=8), 0.001)]).notes


def round_of(*latency_s: float, **others: Any) -> Round:
    return Round(latency_s=array("d", latency_s), calls=len(latency_s), wall_s=sum(latency_s), **others)


def found(rounds: list[Round], *statistics: str) -> dict[tuple[str, str], Figure]:
    return {figure.key: figure for figure in figures_of(rounds, statistics)}


def test_the_range_of_six_rounds_holds_the_median_with_97_percent() -> None:
    """1 - 2 / 2^6 = 0.969."""
    seen = over_rounds([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    assert (3.5, 1.0, 9.0, 6) == (seen.value, seen.low, seen.high, seen.n)
    assert 0.96875 == seen.confidence
    assert (None, None) == (over_rounds([2.0]).low, over_rounds([2.0]).high)


def test_medians_and_rates_have_one_value_a_round() -> None:
    """Medians 2 and 6 s; 3 calls of 8 rows in 6 s, and in 18 s."""
    figures = found([round_of(1.0, 2.0, 3.0, rows=8), round_of(5.0, 6.0, 7.0, rows=8)], "p50")
    assert {("latency", "p50"), ("throughput", "mean"), ("sample_throughput", "mean")} == figures.keys()
    assert (4.0, 2.0, 6.0) == ((p50 := figures["latency", "p50"].estimate).value, p50.low, p50.high)
    assert (1 / 6, 1 / 2) == ((rate := figures["throughput", "mean"].estimate).low, rate.high)
    assert 4.0 == figures["sample_throughput", "mean"].estimate.high


def test_a_tail_is_of_all_calls() -> None:
    """The 190th of 200 calls."""
    p95 = found([round_of(*range(1, 101)), round_of(*range(101, 201))], "p95")["latency", "p95"]
    assert (190.0, 200, "call") == (p95.estimate.value, p95.estimate.n, p95.per)


def test_energy_is_that_of_a_row_and_without_rows_that_of_a_call() -> None:
    for rows, expected in [(4, 0.25), (0, 1.0)]:
        one = round_of(1.0, 1.0, rows=rows, joules=2.0, energy_source="estimate:cpu-time", energy_estimated=True)
        energy = found([one, one])["energy", "mean"]
        assert (expected, "estimate:cpu-time", True) == (energy.estimate.value, energy.source, energy.estimated)


def test_what_a_round_lacks_is_left_out() -> None:
    assert ("energy", "mean") not in found([round_of(1.0, joules=2.0), round_of(1.0)])
    assert () == figures_of([], ["p95"])


def test_quartiles() -> None:
    table: list[tuple[list[float], float, float]] = [
        ([5.0], 5.0, 5.0),
        ([1.0, 2.0], 1.0, 2.0),
        ([6, 7, 15, 36, 39, 40, 41, 42, 43, 47, 49], 20.25, 42.75),  # the example of Wikipedia, third method: 4 n + 3
        ([7, 15, 36, 39, 40, 41], 15, 40),  # the same, second method
        ([1, 2, 6], 1.25, 5),  # 3/4 of the first value and a quarter of the second
        ([1, 2, 3, 4, 5], 1.75, 4.25),  # 4 n + 1: a quarter of the first value and three of the second
    ]
    assert [] == [(data, q1, q3) for data, q1, q3 in table if (q1, q3) != (Stats(data).q1, Stats(data).q3)]


def test_every_statistic_of_ten_times() -> None:
    """1 … 9 and 100: mean 14.5; halves 1 … 5 and 6 … 100, so that the fences are at -4.5 and 15.5."""
    found = Stats([100.0, *map(float, range(1, 10))])
    assert (1, 100, 145, 14.5, 5.5, 10) == (found.min, found.max, found.total, found.mean, found.median, found.rounds)
    assert 30.1524 == pytest.approx(found.stddev, abs=1e-4)
    assert (3, 8, 5, 1, 9) == (found.q1, found.q3, found.iqr, found.ld15iqr, found.hd15iqr)
    assert "1;1" == found.outliers
    assert 10 / 145 == found.ops
    assert 0.0 == Stats([0.0]).ops


def test_one_time_has_no_spread() -> None:
    found = Stats([2.0])
    assert (2, 2, 0, 0, "0;0", 0.5) == (found.min, found.hd15iqr, found.stddev, found.iqr, found.outliers, found.ops)
