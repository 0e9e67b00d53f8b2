"""How a marked process is killed: by a descriptor, or by its number where the system gives no descriptors."""

import errno
import os
import signal

import pytest

from pytest_hwperf.host import guard


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Processes that were killed by their numbers; all are marked."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(guard, "_environment", lambda _: b"mark=")
    monkeypatch.setattr(os, "kill", lambda process, number: found.append((process, number)))
    return found


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the system refuse descriptors with this error."""

    def refused(_: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")
def test_without_descriptors_it_is_killed_by_its_number(
    monkeypatch: pytest.MonkeyPatch, killed: list[tuple[int, int]]
) -> None:
    """In a sandbox, with an old kernel, with an old Python."""
    for number in (errno.EPERM, errno.ENOSYS):
        refuse(monkeypatch, number)
        assert guard._kill(7, b"mark=")
    monkeypatch.delattr(os, "pidfd_open")
    assert guard._kill(7, b"mark=")
    assert [(7, signal.SIGKILL)] * 3 == killed


def test_the_number_of_one_that_is_gone_may_be_that_of_another(
    monkeypatch: pytest.MonkeyPatch, killed: list[tuple[int, int]]
) -> None:
    refuse(monkeypatch, errno.ESRCH)
    assert not guard._kill(7, b"mark=")
    assert [] == killed
