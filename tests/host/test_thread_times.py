"""Shares of threads: of this process, by CPU time."""

from pathlib import Path

import pytest

from pytest_hwperf.host import thread_times
from pytest_hwperf.host.thread_times import shares_of_threads


def test_one_thread_has_all_of_its_own_work() -> None:
    assert max(shares_of_threads(lambda: sum(range(1000)))) > 0.8


def test_where_threads_are_not_told_apart_there_is_no_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_times, "_THREADS", tmp_path)

    assert () == shares_of_threads(lambda: None)
