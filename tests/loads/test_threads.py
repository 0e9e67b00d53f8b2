"""A load of threads makes the calls that it was asked for; how long they take is left to the machine."""

import threading
from time import perf_counter

import pytest

from pytest_hwperf.loads.local import Times, drive, drive_share, schedule
from pytest_hwperf.records.markers import Load
from pytest_hwperf.stats.service.loads import piece_of


def test_a_faked_generator_draws_no_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn while calls of a test run, whose fakes are in place."""
    load = Load(kind="server", qps=100, seconds=1, seed=1)
    real = schedule(load)
    monkeypatch.setattr("random.Random", lambda seed: seed)
    assert real == schedule(load)


def test_every_call_of_a_schedule_is_made_in_its_order() -> None:
    load, times, made = Load(kind="server", qps=2000, seconds=0.05, seed=1), Times(), list[int]()
    drive(load, made.append, times)
    served = times.served()
    assert schedule(load) == served.due
    assert [*range(len(served.due))] == made
    assert all(
        due <= issued <= ended for due, issued, ended in zip(served.due, served.issued, served.ended, strict=True)
    )


def test_at_most_so_many_calls_run_at_once() -> None:
    """Each waits for the other one, so that two have to run at once, and a third would be seen."""
    both, running, most = threading.Barrier(2, timeout=30), list[int](), list[int]()

    def call(number: int) -> None:
        running.append(number)
        both.wait()
        most.append(len(running))
        both.wait()
        running.remove(number)

    times = Times()
    drive(Load(kind="offline", calls=20, in_flight=2), call, times)
    assert len(times.served().due) == 20
    assert {2} == set(most)


def test_a_closed_loop_calls_until_its_time_is_up() -> None:
    for kind in ("single_stream", "concurrency"):
        load, times = Load(kind=kind, seconds=0.02, in_flight=1), Times()
        drive(load, lambda _: None, times)
        served = times.served()
        assert served.due == served.issued
        assert all(due < load.seconds for due in served.due)
        assert all(before <= after for before, after in zip(served.ended, served.due[1:], strict=False))


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("kind", ["offline", "concurrency"])
def test_what_ends_a_test_ends_its_load(kind: str, in_flight: int) -> None:
    """In whichever thread it is raised."""

    def call(number: int) -> None:
        if number == 1:
            pytest.fail("a wrong answer")

    calls = {"calls": 10} if kind == "offline" else {"seconds": 0.05}
    load = Load(kind=kind, in_flight=in_flight, **calls)  # type: ignore[arg-type] # a kind
    with pytest.raises(pytest.fail.Exception, match="a wrong answer"):
        drive(load, call, Times())


def test_a_failed_call_is_counted_and_does_not_end_the_load() -> None:
    def call(number: int) -> None:
        if number == 3:
            raise KeyError(number)

    times = Times()
    drive(Load(kind="offline", calls=10), call, times)
    assert times.failed == times.served().failed == 1
    assert len(times.served().due) == 9
    assert isinstance(times.error, KeyError)


@pytest.mark.parametrize(
    ("load", "waits"),
    [
        (Load(kind="server", qps=1000, seconds=60), "local.RealClock.sleep"),
        (Load(kind="server", qps=1000, seconds=60, in_flight=2), "local.RealClock.sleep"),
        (Load(kind="concurrency", in_flight=2, seconds=600), "local.Future.result"),
    ],
)
def test_an_interrupt_ends_it_and_keeps_what_was_measured(
    load: Load, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C reaches the main thread: here while it waits for a call to be due, or for the loop to end."""
    times, called = Times(), threading.Event()

    def interrupt(*_: object) -> None:
        if called.wait(0.001 if load.at_once(waiting=False) == 1 else 30):
            raise KeyboardInterrupt

    def call(number: int) -> None:
        if number == 1:
            called.set()

    monkeypatch.setattr(f"pytest_hwperf.loads.{waits}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        drive(load, call, times)
    assert times.served().due


def test_what_waits_behind_another_call_is_no_lag_of_the_generator() -> None:
    """Of calls due at once in one thread, each but the first waits for the one before."""
    times = Times()
    drive(Load(kind="offline", calls=50), lambda _: sum(range(20_000)), times)
    served = times.served()
    assert 0.0 == served.due[-1]
    assert served.issued[-1] < served.ended[-1] / 2


def test_a_piece_of_a_closed_loop_ends_after_its_calls() -> None:
    made, times = list[int](), Times()
    drive(piece_of(Load(kind="concurrency", in_flight=2, seconds=600), 11), made.append, times)
    assert [*range(11)] == sorted(made)
    assert 11 == times.made


def test_a_process_makes_the_calls_that_fall_to_it() -> None:
    """Others have taken the rest; their times count from the beginning that all have."""
    load, times, made = Load(kind="server", qps=5000, in_flight=2, seconds=0.01, seed=1), Times(), list[int]()
    drive_share(load, made.append, times, perf_counter() - 1.0, iter([0, 3, 4, 1000, 1001]))
    served, dues = times.served(), schedule(load)
    assert [0, 3, 4] == made
    assert [dues[0], dues[3], dues[4]] == list(served.due)
    assert all(ended > 1.0 for ended in served.ended)


def test_in_a_closed_loop_of_processes_each_calls_until_the_time_is_up() -> None:
    times = Times()
    drive_share(Load(kind="concurrency", in_flight=2, seconds=0.01), lambda _: None, times, perf_counter(), iter([]))
    assert times.made
    assert times.served().due == times.served().issued
