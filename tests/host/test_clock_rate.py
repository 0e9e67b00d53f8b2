"""What decides the clock rate, where Linux shows it."""

from pathlib import Path

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host.disturbance import ClockRate, current_hz, heat_events, read_clock_rate

CPU = "sys/devices/system/cpu"
NO_TURBO, BOOST = f"{CPU}/intel_pstate/no_turbo", f"{CPU}/cpufreq/boost"
NOTHING = ClockRate(
    governors=(),
    turbo=None,
    turbo_switch="",
    turbo_off="",
    sibling_threads=None,
    clock_rate_hz=None,
    highest_clock_rate_hz=None,
    heat_throttle_count=None,
)


def test_a_laptop_is_read_whole(tmp_path: Path) -> None:
    """The fastest CPU counts; 2 + 0 + 5 throttle events."""
    expected = ClockRate(
        governors=("powersave",),
        turbo=True,
        turbo_switch=f"/{NO_TURBO}",
        turbo_off="1",
        sibling_threads=True,
        clock_rate_hz=3.4e9,
        highest_clock_rate_hz=4.7e9,
        heat_throttle_count=7,
    )
    assert expected == read_clock_rate(settle_in(tmp_path))


@pytest.mark.parametrize("made", [False, True], ids=["no folder", "a virtual machine's bare folder"])
def test_what_is_not_shown_is_unknown(tmp_path: Path, made: bool) -> None:
    """Never 0, off or a guess."""
    if made:
        (tmp_path / CPU / "cpu0/topology").mkdir(parents=True)
    assert NOTHING == read_clock_rate(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "turbo", "off"),
    [(NO_TURBO, "0", True, "1"), (NO_TURBO, "1", False, "1"), (BOOST, "1", True, "0"), (BOOST, "0", False, "0")],
)
def test_turbo_is_reported_by_either_driver(tmp_path: Path, file: str, text: str, turbo: bool, off: str) -> None:
    """One of them says when it is on, the other when it is off."""
    seen = read_clock_rate(settle_in(tmp_path, {file: text}))
    assert (turbo, f"/{file}", off) == (seen.turbo, seen.turbo_switch, seen.turbo_off)


def test_different_governors_are_all_named(tmp_path: Path) -> None:
    files = {f"{CPU}/cpu{n}/cpufreq/scaling_governor": name for n, name in enumerate(["schedutil", "performance"])}
    assert ("performance", "schedutil") == read_clock_rate(settle_in(tmp_path, files)).governors


def test_a_driver_that_does_not_know_the_rate_tells_none(tmp_path: Path) -> None:
    settle_in(tmp_path, {f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "<unknown>"})
    assert current_hz(tmp_path) is None


def test_folders_that_are_no_cpu_are_left_out(tmp_path: Path) -> None:
    """`cpufreq` and `cpuidle` lie beside them."""
    settle_in(tmp_path, {f"{CPU}/cpufreq/thermal_throttle/core_throttle_count": "9"})
    assert heat_events(tmp_path) is None
