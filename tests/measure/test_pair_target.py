"""A measurement in a process of a pair: what belongs to its calls, and what is done before them."""

import asyncio
import gc
from array import array
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest

from pytest_hwperf.measure.pair_target import PairTarget, exact_samples, planted, ready_target
from pytest_hwperf.measure.stream import OwnLoop, Stream
from pytest_hwperf.measure.subjects import LoadedSubject, subject_of_callable
from pytest_hwperf.records.contracts import Predictions
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.evidence import EnergyWindow
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import Served


def on_turn(function: Callable[[], object], plant: float = 0.0, *, held: bool = False) -> PairTarget:
    subject = subject_of_callable(function, (), {}, y_true=None, batch_size=None)
    return PairTarget(
        subject, LoadedSubject(function=function, inputs=None), Stream(function, None), lambda: None, plant, held
    )


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts collections."""
    seen = list[int]()
    monkeypatch.setattr(gc, "collect", lambda: seen.append(1))
    return seen


def test_garbage_is_swept_before_a_block_and_not_in_it(swept: list[int]) -> None:
    turn = on_turn(lambda: None, held=True)
    turn.prepare()
    assert swept == [1]
    turn.block(3, 1)
    turn.block(3, 5)
    assert swept == [1]


def test_a_collector_that_runs_by_itself_is_not_helped(swept: list[int]) -> None:
    """A sweep before each block would take collections out of the calls."""
    turn = on_turn(lambda: None)
    turn.prepare()
    turn.block(3, 1)
    assert not swept


@pytest.mark.parametrize("held", [False, True])
def test_the_collector_runs_in_the_turns_of_a_pair_unless_it_is_held(*, held: bool) -> None:
    states = list[bool]()
    subject = subject_of_callable(lambda: states.append(gc.isenabled()), (), {}, y_true=None, batch_size=None)
    with ready_target(subject, lambda: None, hold_collector=held) as (turn, _):
        turn.block(3, 1)
    assert [True, *[not held] * 3] == states


def under(times: Served) -> PairTarget:
    """A target whose load has these times."""
    turn = on_turn(lambda: None)
    turn.under = lambda _stream, calls: served_first(times, calls)
    return turn


def served_first(times: Served, calls: int) -> Served:
    return Served(due=times.due[:calls], issued=times.issued[:calls], ended=times.ended[:calls])


def test_a_turn_under_a_load_gives_its_latencies_from_the_schedule_and_its_rate() -> None:
    due, ended = array("d", [0.0, 1.0, 2.0, 4.0]), array("d", [0.5, 1.25, 3.0, 4.5])
    turn = under(Served(due=due, issued=due, ended=ended))
    assert [500_000_000, 250_000_000, 1_000_000_000, 500_000_000] == list(turn.block(4, 1))
    assert {"throughput": 4 / 4.5} == turn.parts()
    assert [750_000_000, 1_500_000_000] == list(turn.block(2, 2))
    assert turn.energy(5, 10.0).reason.startswith("energy is not compared under a load")


def test_of_calls_that_are_due_at_once_the_times_between_two_ends_are_compared() -> None:
    due = array("d", [0.0] * 3)
    turn = under(Served(due=due, issued=due, ended=array("d", [0.75, 0.25, 1.5])))
    assert [250_000_000, 500_000_000, 750_000_000] == list(turn.block(3, 1))


def test_calls_are_timed_one_by_one_or_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves by 7 ns whenever it is read."""
    ticks, made = count(step=7), list[int]()
    monkeypatch.setattr("pytest_hwperf.measure.pair_target.perf_counter_ns", lambda: next(ticks))
    turn = on_turn(lambda: made.append(1))
    assert list(turn.block(3, 1)) == [7, 7, 7]
    assert len(made) == 3
    assert list(turn.block(2, 5)) == [7, 7]
    assert len(made) == 3 + 2 * 5


def test_work_is_planted_once_and_before_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    made, shares = list[str](), list[float]()

    def plant(stream: Stream, share: float) -> Callable[[], object]:
        shares.append(share)
        assert stream.function() is None
        return lambda: made.append("planted")

    monkeypatch.setattr("pytest_hwperf.measure.pair_target.planted", plant)
    turn = on_turn(lambda: made.append("call"), plant=0.05)
    assert made == []
    turn.prepare()
    turn.block(2, 1)
    turn.prepare()
    turn.block(1, 1)
    assert shares == [0.05]
    assert made == ["call", "planted", "planted", "planted"]


def test_what_is_planted_makes_the_call_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real planting, by a clock that moves by 7 ns: it times 45 calls, and a planted call is one."""
    ticks, made = count(step=7), list[str]()
    monkeypatch.setattr("pytest_hwperf.measure.pair_target.planted", partial(planted, clock_ns=lambda: next(ticks)))
    turn = on_turn(lambda: made.append("call"), plant=0.05)
    turn.prepare()
    assert made == ["call"] * 45
    turn.block(2, 1)
    assert made == ["call"] * 47


def test_energy_that_is_not_measured_is_no_figure() -> None:
    assert EnergyWindow(reason="energy is not measured here") == on_turn(lambda: None).energy(10, 0.6)


def compared(
    ours: Predictions, reference: Predictions | Exception
) -> tuple[dict[str, list[float]], Mapping[str, Statement]]:
    """Return the values of what is taken against the reference, and what is not, with its cause."""

    def predict() -> Predictions:
        if isinstance(reference, Exception):
            raise reference
        return reference

    subject = subject_of_callable(len, ([1, 2],), {}, y_true=[0, 1], batch_size=2)
    subject = replace(
        subject, scenario="onnx_int8", reference="onnx_fp32", reference_predictions=predict, model_bytes=None
    )
    samples, missing, _ = exact_samples(subject, ours)
    return {sample.metric: [*sample.values] for sample in samples}, missing


def of(labels: list[int], probabilities: list[list[float]] | None = None) -> Predictions:
    return Predictions(labels=np.array(labels), probabilities=probabilities and np.array(probabilities))


def test_labels_and_probabilities_are_compared_with_the_reference() -> None:
    found, missing = compared(of([0, 1], [[0.75, 0.25], [0.5, 0.5]]), of([0, 0], [[0.5, 0.5], [0.5, 0.5]]))
    assert {"accuracy": [1.0, 1.0], "flip_rate": [0.0, 1.0], "probability_diff": [0.25, 0.0]} == found
    assert not missing


@pytest.mark.parametrize(
    ("ours", "reference", "named"),
    [(None, [[1.0, 0.0]] * 2, "onnx_int8"), ([[1.0, 0.0]] * 2, None, "onnx_fp32"), (None, None, "onnx_int8")],
)
def test_without_probabilities_on_both_sides_the_cause_is_given(
    ours: list[list[float]] | None, reference: list[list[float]] | None, named: str
) -> None:
    found, missing = compared(of([0, 1], ours), of([0, 1], reference))
    assert [0.0, 0.0] == found["flip_rate"]
    assert f"{named} gives no probabilities" == str(missing["probability_diff"])


def test_without_a_reference_neither_is_compared() -> None:
    """The reason is the converter's own."""
    found, missing = compared(of([0, 1]), ScenarioUnavailable("HistGradientBoosting does not convert: Missing…"))
    assert ["accuracy"] == [*found]
    assert ["flip_rate", "probability_diff"] == [*missing]
    assert "no reference scenario onnx_fp32: HistGradientBoosting does not convert: Missing…" == str(
        missing["probability_diff"]
    )


def test_async_calls_and_streams_take_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one loop for all blocks; planted work is awaited like the call, and no item of an earlier block is kept."""
    loops = set[int]()

    async def tokens() -> AsyncIterator[int]:
        loops.add(id(asyncio.get_running_loop()))
        yield 1
        yield 2

    ticks = count(step=7)
    monkeypatch.setattr("pytest_hwperf.measure.pair_target.planted", partial(planted, clock_ns=lambda: next(ticks)))
    with closing(OwnLoop()) as loop:
        subject = subject_of_callable(tokens, (), {}, y_true=None, batch_size=None, loop=loop)
        with ready_target(subject, lambda: None, plant=0.05) as (turn, first):
            for batch in (1, 5):
                turn.prepare()
                taken = turn.block(3, batch)
                assert len(taken) == 3
                assert min(taken) > 0
            turn.prepare()
            assert first.value == [1, 2]
            assert len(loops) == 1
            assert turn.stream.items is not None
            assert turn.stream.items.settle() == 0


@pytest.mark.parametrize(("share", "turns"), [(0.05, 5), (0.10, 10), (0.0, 0)])
def test_the_loop_takes_its_share_of_the_call(share: float, turns: int) -> None:
    """A call takes 2000 ns and an iteration of the loop 20 ns: 5 % are five iterations."""
    calls: list[object] = []

    def function(row: object) -> object:
        calls.append(row)
        return row

    rounds = [(2300, 2000 + 300 * (number > 0), 2300, 2000 * 20 + 900 * (number > 0)) for number in range(15)]
    ticks = iter([moment for taken in rounds for ns in taken for moment in (0, ns)])
    slower = planted(Stream(function, [1, 2]), share, lambda: next(ticks))
    assert slower("x") == "x"
    extra = next(cell.cell_contents for cell in slower.__closure__ or () if isinstance(cell.cell_contents, range))
    assert len(extra) == turns
    assert calls[:3] == [1, 2, 1]


def test_a_call_without_arguments_is_made_without() -> None:
    assert planted(Stream(lambda: 7, None), 0.05)() == 7
