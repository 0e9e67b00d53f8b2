"""Signals that end a run: what is made and removed is whole, whenever they come."""

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from pytest_hwperf.host.interruption import Interruption, interruptible, uninterrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    signal.getsignal(number)  # a call, at which Python handles what has come


@pytest.fixture(autouse=True)
def _usual() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ALL}
    for number in ALL:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_each_interrupts_as_ctrl_c_does() -> None:
    before = [signal.getsignal(one) for one in ALL]
    for number in ALL:
        with pytest.raises(KeyboardInterrupt), interruptible(), interruptible():
            send(number)
        assert before == [signal.getsignal(one) for one in ALL]


def test_what_is_being_made_is_made_whole() -> None:
    made = list[object]()

    def make(number: signal.Signals) -> None:
        with uninterrupted(), uninterrupted():
            send(number)
            made.append(number)
        made.append("what is never reached")

    for number in ALL:
        with pytest.raises(KeyboardInterrupt), interruptible():
            make(number)
    assert ALL == made


def test_several_signals_in_a_row_interrupt_once() -> None:
    """CI systems send SIGTERM after SIGINT; the second must not cut short what the first has begun to end."""
    ended = []

    def run() -> None:
        try:
            send(signal.SIGINT)
        finally:
            send(signal.SIGTERM)
            send(signal.SIGHUP)
            ended.append("process")

    with pytest.raises(KeyboardInterrupt), interruptible():
        run()
    assert ["process"] == ended


def test_ctrl_c_interrupts_again() -> None:
    """The user may lose patience; what is being removed is removed first."""
    ended = []

    def run() -> None:
        try:
            send(signal.SIGTERM)
        except KeyboardInterrupt:
            with uninterrupted():
                send(signal.SIGINT)
                ended.append("tree")
            ended.append("what is never reached")

    with pytest.raises(KeyboardInterrupt), interruptible():
        run()
    assert ["tree"] == ended


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_a_signal_that_is_ignored_or_handled_stays_so(handler: signal.Handlers) -> None:
    """Under nohup, or with a handler of the user's."""
    signal.signal(signal.SIGHUP, handler)
    with interruptible():
        send(signal.SIGHUP)
        assert handler == signal.getsignal(signal.SIGHUP)
        assert isinstance(signal.getsignal(signal.SIGTERM), Interruption)


def test_elsewhere_than_in_the_main_thread_nothing_is_handled() -> None:
    seen = []

    def work() -> None:
        with interruptible(), uninterrupted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [signal.SIG_DFL] == seen
