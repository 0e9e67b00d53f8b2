"""A process of a pair, seen from its conductor's end of a real socket."""

import socket
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import records as fake

from pytest_hwperf.gate.pair.channel import (
    AskEnergy,
    AskExact,
    BlockTimes,
    Bye,
    Collected,
    Ended,
    EnergyResult,
    ExactSamples,
    Finish,
    Frame,
    Hello,
    Message,
    Pinned,
    PinTo,
    Ready,
    Select,
    TimeBlock,
    decode_frame,
    encode_frame,
)
from pytest_hwperf.gate.pair.turns import Turns
from pytest_hwperf.host.memory import Resident
from pytest_hwperf.host.pinning import CpuPin, processors
from pytest_hwperf.host.worker_protocol import PROTOCOL, WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import EnergyWindow
from pytest_hwperf.records.run import Sample, replace
from pytest_hwperf.stats.pairs.hypotheses import Facts, SideOutcome

TASK = WorkerTask(role="pair", side="baseline", reply_to="0")
HERE = Ready(node="t.py::test", index=0, label="", facts=Facts(scenario="onnx_fp32"))
SIZES = fake.sample("model_size", [5e6], per="model")
BLOCK = TimeBlock(calls=1, batch=1, rest=False)


class Left(Exception):  # noqa: N818 - no error: what `os._exit` does to a real process
    pass


def leave(code: int) -> None:
    raise Left(code)


class FakeSubject:
    """Takes five nanoseconds for each call."""

    pace_s = 0.0
    cpu_ns = None

    def prepare(self) -> None:
        pass

    def block(self, calls: int, batch: int) -> "array[int]":
        return array("q", [5 * batch] * calls)

    def parts(self) -> Mapping[str, float]:
        return {"item": 0.25}

    def exact(self) -> Sequence[Sample]:
        return [SIZES]

    def energy(self, calls: int, seconds: float) -> EnergyWindow:
        return EnergyWindow(joules=0.25 * calls, needed_s=seconds)


class Computing(FakeSubject):
    """Takes two milliseconds of CPU time in the thread that answers."""

    def block(self, calls: int, batch: int) -> "array[int]":
        until = time.thread_time_ns() + 2_000_000
        while time.thread_time_ns() < until:
            pass
        return super().block(calls, batch)


@pytest.fixture
def line() -> Iterator[tuple[Turns, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield Turns(theirs, leave), ours
    ours.close()
    theirs.close()


def receive(end: socket.socket) -> Frame:
    return decode_frame(lambda count: end.recv(count, socket.MSG_WAITALL))


def send(end: socket.socket, *messages: Message) -> None:
    for message in messages:
        end.sendall(encode_frame(Frame(message=message)))


def test_it_greets_over_the_socket_that_it_inherits() -> None:
    ours, theirs = socket.socketpair()
    theirs.set_inheritable(True)
    with ours, Turns.connect(replace(TASK, reply_to=str(theirs.detach()))).connection as inherited:
        assert Hello(protocol=PROTOCOL, side="baseline") == receive(ours).message
        assert not inherited.get_inheritable()  # by what the tests start


def test_a_conductor_that_is_gone_is_a_clear_error(tmp_path: Path) -> None:
    """Another file is none."""
    with (tmp_path / "file").open("wb") as file:
        for reply_to in ("987654", "-1", "9" * 30, "no number", str(file.fileno())):
            with pytest.raises(WorkerError, match=f"cannot be reached by its descriptor '{reply_to}'"):
                Turns.connect(replace(TASK, reply_to=reply_to))


def test_it_runs_what_was_selected_and_refuses_anything_else(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    send(end, Select(nodes=("b", "a")), BLOCK)
    assert turns.chosen(["a", "b", "c"], {"x.py": "ImportError"}) == ("b", "a")
    assert Collected(nodes=("a", "b", "c"), errors={"x.py": "ImportError"}) == receive(end).message
    with pytest.raises(WorkerError, match="the conductor sent 'TimeBlock', which is not expected here"):
        turns.chosen([], {})


def served(line: tuple[Turns, socket.socket], subject: object, *asked: Message, answers: int) -> list[Frame]:
    """Serve a measurement until it is told to go on; return its answers to what was asked."""
    turns, end = line
    send(end, *asked, Finish())
    turns.serve(HERE, cast("Any", subject))
    ready, *found = (receive(end) for _ in range(1 + answers))
    assert HERE == ready.message
    return found


def times_of(line: tuple[Turns, socket.socket], subject: object) -> BlockTimes:
    """Return what a block of three batches of two calls took."""
    (found,) = served(line, subject, TimeBlock(calls=3, batch=2, rest=False), answers=1)
    assert isinstance(found.message, BlockTimes)
    return found.message


def test_it_measures_until_it_is_told_to_go_on(line: tuple[Turns, socket.socket]) -> None:
    asked = TimeBlock(calls=3, batch=2, rest=True), AskExact(), AskEnergy(calls=4, seconds=0.6)
    times, exact, energy = served(line, FakeSubject(), *asked, answers=3)
    assert [10, 10, 10] == list(times.numbers)
    assert isinstance(times.message, BlockTimes)
    assert times.message.parts == {"item": 0.25}
    assert ExactSamples(samples=(SIZES,)) == exact.message
    assert EnergyResult(window=EnergyWindow(joules=1.0, needed_s=0.6)) == energy.message


def set_cpu_clock(monkeypatch: pytest.MonkeyPatch, read: Callable[[], int]) -> None:
    monkeypatch.setattr("pytest_hwperf.gate.pair.turns.cpu_ns", read)
    monkeypatch.setattr("pytest_hwperf.gate.pair.turns.cpu_ns_since", lambda began: read() - began)


def test_what_is_prepared_belongs_to_no_call(
    line: tuple[Turns, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]

    class Preparing(FakeSubject):
        def prepare(self) -> None:
            now[0] += 80_000_000

        def block(self, calls: int, batch: int) -> "array[int]":
            now[0] += 5 * batch * calls
            return super().block(calls, batch)

    set_cpu_clock(monkeypatch, lambda: now[0])
    monkeypatch.setattr("pytest_hwperf.gate.pair.turns.clock_of", lambda _: lambda: now[0])
    times = times_of(line, Preparing())
    assert (30, 30) == (times.cpu_ns, times.thread_ns)


def test_the_cpu_time_of_children_belongs_to_the_calls(
    line: tuple[Turns, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    children_s = iter([6.0, 7.0, 10.0])
    monkeypatch.setattr("pytest_hwperf.gate.pair.turns.cpu_seconds_of_children", lambda: next(children_s))
    assert times_of(line, FakeSubject()).cpu_ns >= 3_000_000_000


def test_it_stays_on_a_processor_until_it_is_told_to_go_on(line: tuple[Turns, socket.socket]) -> None:
    allowed = [{0, 1, 2}]  # the latest is the present
    seen: list[set[int]] = []

    class Watched(FakeSubject):
        def block(self, calls: int, batch: int) -> "array[int]":
            seen.append(allowed[-1])
            return super().block(calls, batch)

    line[0].pin = lambda: CpuPin(lambda _: allowed[-1], lambda _, numbers: allowed.append({*numbers}), lambda: ())
    asked = [one for number in (1, 2, 7) for one in (PinTo(processors=(number,)), BLOCK)]
    answers = served(line, Watched(), *asked, PinTo(processors=(1,)), answers=7)
    assert seen == [{1}, {2}, {0, 1, 2}]
    reasons = [one.message.reason for one in answers if isinstance(one.message, Pinned)]
    assert ["", "", "may run on processors 0, 1, 2 only", ""] == reasons
    assert allowed[-1] == {0, 1, 2}


MS = 1_000_000


@pytest.mark.parametrize(
    ("process_ms", "threads_ms", "kept"),
    [
        (200, {1: 100, 7: 98, 8: 1}, {1: {3}, 7: {4}}),
        (200, {1: 100, 8: 1}, {}),
        (200, {1: 100, 7: 50}, {}),
        (100, {1: 100}, {}),
    ],
    ids=["a pool beside an idle thread", "threads that have ended", "some of which have ended", "no thread"],
)
def test_a_pool_is_kept_where_its_threads_last(
    line: tuple[Turns, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    process_ms: int,
    threads_ms: dict[int, int],
    kept: dict[int, set[int]],
) -> None:
    """By CPU times since its measurement began, when the process had used 5 s and its threads 1 s each."""
    now, of = [5000 * MS], dict[int, set[int]]()
    times = iter([dict.fromkeys((1, 7, 8, 9), 1000 * MS), {one: (1000 + ms) * MS for one, ms in threads_ms.items()}])
    monkeypatch.setattr("pytest_hwperf.gate.pair.turns.get_native_id", lambda: 1)
    set_cpu_clock(monkeypatch, lambda: now[0])
    monkeypatch.setattr("pytest_hwperf.gate.pair.turns.ns_of_threads", lambda: next(times))

    class Computing(FakeSubject):
        def block(self, calls: int, batch: int) -> "array[int]":
            now[0] += process_ms * MS
            return super().block(calls, batch)

    line[0].pin = lambda: CpuPin(
        lambda _: {3, 4}, lambda thread, numbers: of.update({thread or 1: {*numbers}}), lambda: threads_ms
    )
    _, answer = served(line, Computing(), BLOCK, PinTo(processors=(3, 4)), answers=2)
    assert Pinned(reason="" if kept else "it has no pool of threads that last") == answer.message
    assert kept == of


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="this system tells no thread's CPU time")
def test_the_thread_that_makes_the_calls_is_the_one_that_is_kept_and_timed(line: tuple[Turns, socket.socket]) -> None:
    """As the loop's thread of an async test, for which another one answers the conductor."""
    kept, over = list[tuple[int, set[int]]](), threading.Event()
    caller = threading.Thread(target=over.wait)
    caller.start()
    turns, end = line
    turns.pin = lambda: CpuPin(lambda _: {0, 1}, lambda thread, numbers: kept.append((thread, {*numbers})), lambda: ())
    send(end, PinTo(processors=(1,)), BLOCK, Finish())
    turns.serve(HERE, cast("Any", Computing()), caller)
    over.set()
    times = next(message for _ in range(3) if isinstance(message := receive(end).message, BlockTimes))
    assert [(caller.native_id, {1})] == kept[:1]
    assert times.thread_ns < 1_000_000 < times.cpu_ns
    caller.join()


def test_a_call_that_fails_frees_its_thread(line: tuple[Turns, socket.socket]) -> None:
    class Failing(FakeSubject):
        def block(self, calls: int, batch: int) -> "array[int]":
            raise ZeroDivisionError(f"{calls} calls in {batch}")

    before = processors()
    turns, end = line
    send(end, PinTo(processors=before[:1]), BLOCK)
    with pytest.raises(ZeroDivisionError):
        turns.serve(HERE, cast("Any", Failing()))
    assert processors() == before


def test_what_it_does_not_know_it_refuses(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    send(end, Select(nodes=()))
    with pytest.raises(WorkerError, match="the conductor sent 'Select', which is not expected here"):
        turns.serve(HERE, cast("Any", FakeSubject()))


@pytest.mark.parametrize(
    ("busy_ms", "rest", "waited_ms"),
    [(0, True, 0), (40, True, 36), (1000, True, 50), (1000, False, 0)],
    ids=["no other thread", "a pool that spins on for a while", "one that never stops", "no hand-over"],
)
def test_it_waits_for_its_own_threads_before_it_gives_the_turn_away(
    line: tuple[Turns, socket.socket], monkeypatch: pytest.MonkeyPatch, busy_ms: int, *, rest: bool, waited_ms: int
) -> None:
    """By a clock that only sleeping moves, as a call does for 5 ms: other threads compute for the first `busy_ms`."""
    slept = [0]  # milliseconds

    def sleep(seconds: float) -> None:
        slept[0] += round(seconds * 1000)

    class Sleeping(FakeSubject):
        def block(self, calls: int, batch: int) -> "array[int]":
            sleep(0.005)
            return super().block(calls, batch)

    clock = SimpleNamespace(sleep=sleep, perf_counter=lambda: slept[0] / 1000, thread_time_ns=lambda: 0)
    set_cpu_clock(monkeypatch, lambda: min(slept[0], busy_ms) * 1_000_000)
    monkeypatch.setattr("pytest_hwperf.gate.pair.turns.time", clock)
    (found,) = served(line, Sleeping(), TimeBlock(calls=1, batch=1, rest=rest), answers=1)
    assert [5 + waited_ms] == slept
    assert isinstance(found.message, BlockTimes)
    assert (rest and busy_ms > 5 + waited_ms) == found.message.is_busy


def test_a_conductor_that_is_gone_ends_the_process(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    end.close()
    with pytest.raises(Left):
        turns.receive()
    with pytest.raises(Left):
        turns.send(Ended(node="t.py::test", ended=SideOutcome(outcome="passed")))


def test_it_leaves_at_once_when_it_has_said_farewell(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    turns.memory = Resident(source="", high=lambda: 5_000_000, now=lambda: (0, ""), clear=str, warnings=())
    with pytest.raises(Left):
        turns.bye(["a.py"])
    message = receive(end).message
    assert isinstance(message, Bye)
    assert ("a.py",) == message.files
    assert 5e6 == message.peak_bytes
