"""Whose work the machine did."""

from pathlib import Path

import pytest

from pytest_hwperf.meters.energy.share import Share, busy_seconds


class Played:
    """CPU seconds that a test moves."""

    def __init__(self) -> None:
        self.own_s = 5.0
        self.machine_s: float | None = 100.0

    def share(self) -> Share:
        return Share(own=lambda: self.own_s, machine=lambda: self.machine_s)


@pytest.mark.parametrize(("own_s", "machine_s", "expected"), [(0.9, 1.0, 0.9), (0.3, 1.2, 0.25), (0.0, 1.0, 0.0)])
def test_it_is_our_part_of_the_busy_seconds(own_s: float, machine_s: float, expected: float) -> None:
    played = Played()
    share = played.share()
    started = share.start()
    played.own_s += own_s
    played.machine_s = 100.0 + machine_s

    assert expected == pytest.approx(share.end(started))


def test_rounding_of_the_kernels_ticks_makes_it_no_more_than_all() -> None:
    played = Played()
    share = played.share()
    started = share.start()
    played.own_s += 1.01
    played.machine_s = 101.0

    assert 1.0 == share.end(started)


def test_of_a_machine_that_hardly_worked_there_is_no_share() -> None:
    """Below 20 ticks of 10 ms it would be mostly rounding."""
    played = Played()
    share = played.share()
    started = share.start()
    played.machine_s = 100.19

    assert share.end(started) is None


@pytest.mark.parametrize("known_at_first", [True, False])
def test_a_system_that_does_not_tell_gives_none(*, known_at_first: bool) -> None:
    played = Played()
    played.machine_s = 100.0 if known_at_first else None
    share = played.share()
    started = share.start()
    played.machine_s = None if known_at_first else 200.0

    assert share.end(started) is None


def test_idle_waiting_and_stolen_time_is_not_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """User, nice, system and both kinds of interrupt: 1+2+3+6+7 ticks of 10 ms."""
    monkeypatch.setattr("os.sysconf", lambda _name: 100)
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3 400 500 6 7 800 900 1000\ncpu0 1 1 1 1 1 1 1 1 1 1\n")

    assert 0.19 == pytest.approx(busy_seconds(stat))


@pytest.mark.parametrize("content", [None, "", "cpu 1 2 3\n"])
def test_without_the_kernels_line_nothing_is_told(tmp_path: Path, content: str | None) -> None:
    stat = tmp_path / "stat"
    if content is not None:
        stat.write_text(content)

    assert busy_seconds(stat) is None


def test_real_work_is_ours() -> None:
    """The first reading of this machine lies before the second."""
    share = Share()
    started = share.start()
    sum(range(100_000))
    ended = share.start()

    assert started.own_s < ended.own_s
