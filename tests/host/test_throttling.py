"""How often a quota stopped the groups of a process."""

from pathlib import Path

import pytest

from pytest_hwperf.host.throttling import Stops, stops_of

V2 = "usage_usec 9\nnr_periods 50\nnr_throttled 7\nthrottled_usec 250000\n"
V1 = "nr_periods 50\nnr_throttled 3\nthrottled_time 1500000000\n"


def group(root: Path, name: str, stat: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "cpu.stat").write_text(stat)
    return folder


@pytest.mark.parametrize(("stat", "stops"), [(V2, Stops(7, 0.25)), (V1, Stops(3, 1.5))], ids=["v2", "v1"])
def test_both_versions_are_told_in_seconds(tmp_path: Path, stat: str, stops: Stops) -> None:
    """Version 2 counts microseconds, version 1 nanoseconds."""
    assert stops == stops_of([group(tmp_path, "one", stat)])


def test_a_group_and_those_above_are_added_up(tmp_path: Path) -> None:
    """Each has a quota of its own, and may stop the process."""
    assert Stops(10, 1.75) == stops_of([group(tmp_path, "one", V2), group(tmp_path, "two", V1)])


def test_a_group_with_two_names_counts_once(tmp_path: Path) -> None:
    """Version 1 links `cpu` to `cpu,cpuacct`."""
    real = group(tmp_path, "cpu,cpuacct", V1)
    link = tmp_path / "cpu"
    link.symlink_to(real)

    assert Stops(3, 1.5) == stops_of([real, link])


def test_groups_that_count_nothing_tell_nothing(tmp_path: Path) -> None:
    """The topmost group has no quota, and a hidden one no file: unknown is not 0."""
    assert stops_of([group(tmp_path, "top", "usage_usec 9\n"), tmp_path / "hidden"]) is None
    assert stops_of([]) is None
