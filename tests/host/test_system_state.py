"""The state of the system, as /proc and /sys tell it."""

from pathlib import Path

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host.system_state import SystemState, read_system_state


def test_what_is_told_is_read(tmp_path: Path) -> None:
    """30 of 1000 ticks were stolen; 1500 kB of 1024 bytes are in use."""
    expected = SystemState(
        load_1min=3.5, steal=0.03, swap_bytes=2_048_000, swap_used_bytes=1_536_000, huge_pages="always"
    )

    assert expected == read_system_state(settle_in(tmp_path))


def test_what_is_not_told_is_unknown(tmp_path: Path) -> None:
    expected = SystemState(load_1min=None, steal=None, swap_bytes=None, swap_used_bytes=None, huge_pages=None)

    assert expected == read_system_state(tmp_path)


def test_swap_without_its_free_part_is_not_called_unused(tmp_path: Path) -> None:
    assert read_system_state(settle_in(tmp_path, {"proc/meminfo": "SwapTotal: 2000 kB"})).swap_used_bytes is None


@pytest.mark.parametrize("chosen", ["madvise", "never"])
def test_the_chosen_way_of_huge_pages_stands_in_brackets(tmp_path: Path, chosen: str) -> None:
    text = "always madvise never".replace(chosen, f"[{chosen}]")

    assert (
        chosen
        == read_system_state(settle_in(tmp_path, {"sys/kernel/mm/transparent_hugepage/enabled": text})).huge_pages
    )
