"""A sweep in rounds: drawn orders, what is left out, and what an interruption keeps; the calls are scripted."""

from array import array
from collections.abc import Sequence
from typing import Any

from fakes import records as fake

from pytest_hwperf.gate.models.sweeps import ROUNDS, SweepTools, Swept, sweep_model
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import SweepPoint
from pytest_hwperf.records.run import Figure, replace
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.choice.sweeps import Round

P50 = Budget(keyword="latency_p50_ms", metric="latency", statistic="p50", limit=0.010)
P95 = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.010)
P99 = Budget(keyword="latency_p99_ms", metric="latency", statistic="p99", limit=1.0)
MEMORY = Budget(keyword="memory_max_mb", metric="memory", statistic="p50", limit=64e6)


def points(*limits: Budget, batches: Sequence[int] = (1, 8, 32), threads: Sequence[int] = (1,)) -> list[SweepPoint]:
    return [
        SweepPoint(sweep="m", values={"batch_size": rows, "threads": n}, limits=limits)
        for rows in batches
        for n in threads
    ]


class Model:
    """Takes a millisecond and a millisecond a row; notes which point was called when."""

    def __init__(self, interrupt_at: int = 0) -> None:
        self.called: list[str] = []
        self._interrupt_at = interrupt_at

    def measure(self, point: SweepPoint, seconds: float) -> Round:
        del seconds
        self.called.append(point.named)
        if len(self.called) == self._interrupt_at:
            raise KeyboardInterrupt
        rows = int(point.values["batch_size"])
        taken = array("d", [1e-3 * (1 + rows)] * 100)
        return Round(latency_s=taken, calls=100, wall_s=sum(taken), rows=rows)


def swept(model: Model, of: list[SweepPoint], seed: int = 1, **tools: Any) -> Swept:
    return sweep_model("m", of, SweepTools(measure=model.measure, **tools), seed=seed, round_s=0.1)


def megabytes_of_rows(point: SweepPoint) -> list[Figure]:
    size = 10e6 * int(point.values["batch_size"])
    return [fake.figure("memory", "p50", fake.estimate(size, size, size, 3), source="VmHWM", per="fresh process")]


def test_every_round_has_all_points_in_an_order_of_its_own() -> None:
    model = Model()
    found = swept(model, points(threads=(1, 2)))
    rehearsal, rounds = model.called[:6], [model.called[n : n + 6] for n in range(6, 42, 6)]
    assert sorted(rehearsal, key=lambda name: int(name.split()[1].rstrip(","))) == rehearsal
    assert all(sorted(rehearsal) == sorted(one) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1
    assert [ROUNDS] * 6 == [row.figures[0].estimate.n for row in found.sweep.rows]
    assert "6 rounds over all points, each in an order drawn from seed 1" == str(found.sweep.notes[0])


def test_a_seed_gives_the_same_orders_again() -> None:
    orders = []
    for seed in (1, 1, 2):
        model = Model()
        swept(model, points(), seed)
        orders.append(model.called)
    assert orders[0] == orders[1] != orders[2]


def test_larger_batches_than_one_that_misses_are_left_out() -> None:
    """8 rows take 9 ms, 32 rows 33 ms; the one that misses is measured all the same."""
    model = Model()
    found = swept(model, points(P95, P99, batches=(64, 8, 1, 32)))
    assert {"batch_size 8, threads 1", "batch_size 1, threads 1", "batch_size 32, threads 1"} == {*model.called}
    why = "batch_size 32, threads 1 misses latency p95 <= 10 ms (33.0 ms), and a larger batch takes more"
    assert [why, None, None, None] == [
        str(row.point.skipped) if row.point.skipped else None for row in found.sweep.rows
    ]
    assert {"latency": (2,), "throughput": (1,)} == {best.goal: best.rows for best in found.sweep.best}


def test_a_limit_on_the_median_stops_too() -> None:
    """One rehearsal is one round, over which a median has no interval: that of its calls decides."""
    found = swept(model := Model(), points(P50, batches=(1, 32, 64)))
    assert "batch_size 64, threads 1" not in model.called
    assert "misses latency p50 <= 10 ms (33.0 ms)" in str(found.sweep.rows[2].point.skipped)


def test_memory_comes_first_and_stops_before_anything_is_called() -> None:
    """80 MB at 8 rows are more than 64 MB."""
    found = swept(model := Model(), points(MEMORY), memory=megabytes_of_rows)
    assert "batch_size 32, threads 1" not in model.called
    assert ["passed", "failed", None] == [row.outcome for row in found.sweep.rows]


def test_a_lost_process_of_the_memory_ends_the_larger_batches() -> None:
    def memory(point: SweepPoint) -> list[Figure]:
        if point.values["batch_size"] == 8:
            raise WorkerError("a fresh process ended with code -9 and gave no answer.")
        return megabytes_of_rows(point)

    found = swept(Model(), points(MEMORY), memory=memory)
    assert [False, True, True] == [row.point.skipped is not None for row in found.sweep.rows]
    assert "the memory at batch_size 8, threads 1 was lost (a fresh process ended" in str(
        found.sweep.rows[2].point.skipped
    )


LARGEST = [
    (64, 100, [1, 2, 4, 6, 7, 8], "is batch_size 6, threads 1: memory p50 <= 64 MB (60.0 MB); 7 rows are not known"),
    (64, 3, [1, 2, 3], "all rows of the data fit in one call, batch_size 3, threads 1: memory p50 <= 64 MB (30.0"),
    (5, 100, [1], "no batch is known to fit; the smallest is batch_size 1, threads 1: memory p50 <= 5 MB (10.0 MB)"),
    (990, 500, [1, 2, 4, 8, 16, 32, 64, 91, 99, 103, 108, 128], "is batch_size 99, threads 1: "),
]


def test_the_largest_batch_that_fits_is_searched() -> None:
    """Ten megabytes a row: doubled, then bisected; larger ones than one that misses are not called."""
    for limit_mb, rows, tried, note in LARGEST:
        limit, model = replace(MEMORY, limit=1e6 * limit_mb), Model()
        found = swept(model, points(limit, batches=(1,)), memory=megabytes_of_rows, most_rows=rows)
        said = "\n".join(map(str, found.sweep.notes))
        assert note in said
        assert bool(model.called) == ("6 rounds over all points" in said)
        assert tried == [row.point.values["batch_size"] for row in found.sweep.rows]
        assert {f"batch_size {count}, threads 1" for count in tried if 10 * count <= limit_mb} == {*model.called}


def test_the_largest_batch_is_searched_for_each_number_of_threads() -> None:
    """A process that is lost does not fit."""

    def memory(point: SweepPoint) -> list[Figure]:
        if point.values == {"batch_size": 2, "threads": 2}:
            raise WorkerError("out of memory")
        return megabytes_of_rows(point)

    found = swept(Model(), points(MEMORY, batches=(1,), threads=(1, 2)), memory=memory, most_rows=100)

    _, first, second = map(str, found.sweep.notes)
    assert "is batch_size 6, threads 1: " in first
    assert "is batch_size 1, threads 2: memory p50 <= 64 MB (10.0 MB); 2 rows are not known to fit" in second


def test_ctrl_c_keeps_what_was_measured_and_nothing_of_the_rehearsal() -> None:
    """Three rehearsals, three points of the first round, and one of the second."""
    found, early = (swept(Model(interrupt_at=number), points()) for number in (8, 2))
    assert (1, True) == (found.rounds, found.is_interrupted)
    assert [1, 1, 2] == sorted(row.figures[0].estimate.n for row in found.sweep.rows)
    assert "interrupted: 1 whole round of 6 before it" in [str(note) for note in found.sweep.notes]
    assert [(), (), ()] == [row.figures for row in early.sweep.rows]
    assert ["interrupted: 0 whole rounds of 6 before it"] == [str(note) for note in early.sweep.notes]


def test_progress_and_what_disturbed_the_machine_are_told() -> None:
    told = list[tuple[str, str, float]]()
    found = swept(
        Model(),
        points(batches=(1, 8)),
        progress=lambda *shown: told.append(shown),
        watch=lambda: lambda: (state("said", text="a neighbour"),),
    )
    assert ("rehearsal", "batch_size 1, threads 1", 0.0) == told[0]
    assert ("round 6 of 6", 11 / 12) == (told[-1][0], told[-1][2])
    assert "a neighbour" == str(found.sweep.notes[-1])
