"""A worker of this machine lives on when a terminal interrupts all: the fleet ends it, after its gate."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_hwperf.fleet.local_worker import dask_setup, deaf

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STATE = "import signal as s; print(s.SIGINT in s.pthread_sigmask(s.SIG_BLOCK, []), s.getsignal(s.SIGTERM))"


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ALL}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def state_of_a_program() -> str:
    done = subprocess.run([sys.executable, "-c", STATE], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.usefixtures("handlers")
def test_signals_that_come_while_workers_are_started_wait() -> None:
    taken: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    with deaf():
        signal.raise_signal(signal.SIGINT)
        assert "True 0" == state_of_a_program().replace("Handlers.SIG_DFL", "0")
        assert [] == taken
    assert [signal.SIGINT] == taken


@pytest.mark.usefixtures("handlers")
def test_a_worker_lives_on_and_its_programs_are_as_ever() -> None:
    with deaf():
        dask_setup(None)
        for number in ALL:
            signal.raise_signal(number)
        assert "False 0" == state_of_a_program().replace("Handlers.SIG_DFL", "0")
