"""Limits of the control groups of a process, and how often a quota throttled them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host.disturbance import Throttling, control_groups, cpu_quota, memory_limit, read_throttling

V2 = "usage_usec 9\nnr_periods 50\nnr_throttled 7\nthrottled_usec 250000\n"
V1 = "nr_periods 50\nnr_throttled 3\nthrottled_time 1500000000\n"


def group(root: Path, name: str, stat: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "cpu.stat").write_text(stat)
    return folder


@pytest.mark.parametrize(("stat", "throttling"), [(V2, Throttling(7, 0.25)), (V1, Throttling(3, 1.5))])
def test_both_versions_are_read_in_seconds(tmp_path: Path, stat: str, throttling: Throttling) -> None:
    """Version 2 counts microseconds, version 1 nanoseconds."""
    assert throttling == read_throttling([group(tmp_path, "one", stat)])


def test_a_group_and_those_above_are_added_up(tmp_path: Path) -> None:
    """Each has a quota of its own, and may stop the process."""
    assert Throttling(10, 1.75) == read_throttling([group(tmp_path, "one", V2), group(tmp_path, "two", V1)])


def test_a_group_with_two_names_counts_once(tmp_path: Path) -> None:
    """Version 1 links `cpu` to `cpu,cpuacct`."""
    real = group(tmp_path, "cpu,cpuacct", V1)
    link = tmp_path / "cpu"
    link.symlink_to(real)
    assert Throttling(3, 1.5) == read_throttling([real, link])


def test_groups_that_count_nothing_tell_nothing(tmp_path: Path) -> None:
    """The topmost group has no quota, and a hidden one no file: unknown is not 0."""
    assert read_throttling([group(tmp_path, "top", "usage_usec 9\n"), tmp_path / "hidden"]) is None
    assert read_throttling([]) is None


def test_a_quota_is_reported_as_it_is(tmp_path: Path) -> None:
    """One and a half cores, of the tightest group; None is no quota."""
    assert cpu_quota(tmp_path) is None
    settle_in(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b",
            "sys/fs/cgroup/a/cpu.max": "150000 100000",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000",
        },
    )
    assert 1.5 == cpu_quota(tmp_path)


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        pytest.param("0::/a/b", {"a/memory.max": "2000", "a/b/memory.max": "max"}, 2000, id="v2: a group above"),
        pytest.param("0::/", {"memory.max": "max"}, None, id="v2: no limit"),
        pytest.param("4:memory:/x", {"memory/x/memory.limit_in_bytes": "3000"}, 3000, id="v1"),
        pytest.param(
            "4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, None, id="v1: no limit"
        ),
        pytest.param("3:cpu:/x", {"cpu/x/memory.limit_in_bytes": "3000"}, None, id="another controller"),
        pytest.param("", {}, None, id="not Linux"),
    ],
)
def test_the_tightest_memory_limit_counts(
    tmp_path: Path, membership: str, files: Mapping[str, str], limit: int | None
) -> None:
    named = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    settle_in(tmp_path, {"proc/self/cgroup": membership, **named})
    assert limit == memory_limit(tmp_path)


def test_groups_are_those_of_the_process_and_all_above(tmp_path: Path) -> None:
    settle_in(tmp_path, {"proc/self/cgroup": "0::/a/b"})
    groups = [str(group.relative_to(tmp_path / "sys/fs/cgroup")) for group in control_groups(tmp_path)]
    assert ["a/b", "a", ".", "unified/a/b", "unified/a", "unified"] == groups
