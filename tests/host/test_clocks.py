"""What a clock is good for, by its readings."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from pytest_hwperf.host.clocks import clock_source, cpu_time_step, observe_clock


def ticking(step: int, every: int = 1) -> Callable[[], int]:
    """A clock that moves by `step` at each reading, or at every so-many-th."""
    readings = count()
    return lambda: next(readings) // every * step


def test_step_and_cost_are_those_of_neighbouring_readings() -> None:
    """A clock read every 52 ns that shows each of them."""
    seen = observe_clock(ticking(52))
    assert 52e-9 == pytest.approx(seen.step_s)
    assert 52e-9 == pytest.approx(seen.cost_s)


def test_a_coarse_clock_costs_what_its_readings_cost_on_average() -> None:
    """It moves by 1 µs at every twentieth reading: 50 ns each, though most gaps are 0."""
    seen = observe_clock(ticking(1000, every=20))
    assert 1e-6 == pytest.approx(seen.step_s)
    assert 50e-9 == pytest.approx(seen.cost_s, rel=0.01)


def test_a_clock_that_stands_still_has_no_step() -> None:
    assert observe_clock(lambda: 7).step_s is None


def test_cpu_time_grows_by_its_smallest_step() -> None:
    """Steps of 2 and 3 µs, each shown for three readings."""
    readings = count()

    def grown() -> float:
        steps, rest = divmod(next(readings) // 3, 2)
        return 5e-6 * steps + 2e-6 * rest

    assert 2e-6 == cpu_time_step(grown)


def test_cpu_time_that_never_grows_has_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.host.clocks._MOST_SPINS", 1000)
    assert cpu_time_step(lambda: 1.0) is None


@pytest.mark.parametrize(("text", "source"), [("tsc\n", "tsc"), ("\n", None), (None, None)])
def test_the_kernel_names_its_clock_or_does_not(tmp_path: Path, text: str | None, source: str | None) -> None:
    if text is not None:
        folder = tmp_path / "sys/devices/system/clocksource/clocksource0"
        folder.mkdir(parents=True)
        (folder / "current_clocksource").write_text(text)
    assert source == clock_source(tmp_path)


def test_this_machine_has_a_clock_that_moves() -> None:
    seen, step_s = observe_clock(), cpu_time_step()
    assert seen.step_s is not None
    assert seen.step_s > 0
    assert seen.cost_s > 0
    assert step_s is not None
    assert step_s > 0
