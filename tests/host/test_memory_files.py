"""Files in memory count as memory of the process, once, as long as they end with it."""

import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_hwperf.host.memory import resident
from pytest_hwperf.meters.memory import PeakRss

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create") or sys.platform != "linux", reason="Linux only")

_SHARED = Path("/dev/shm")  # noqa: S108 - the kernel's own
_TMPFS = pytest.mark.skipif(not _SHARED.is_dir(), reason="no tmpfs")
_SIZE = 50_000_000  # bytes
_NEAR = 6_000_000  # bytes by which the rest of this process may change meanwhile, and the kernel count late


@pytest.fixture
def memfd() -> Iterator[int]:
    descriptor = os.memfd_create("tests")
    yield descriptor
    os.close(descriptor)


def fill(descriptor: int) -> None:
    part = b"x" * 1_000_000
    for _ in range(_SIZE // len(part)):
        os.write(descriptor, part)


def near(size: int) -> object:
    return pytest.approx(size, abs=_NEAR)


def test_what_is_written_to_a_memfd_counts_until_it_is_closed() -> None:
    meter = PeakRss(resident())
    mark = meter.begin()
    descriptor = os.memfd_create("tests")
    fill(descriptor)
    assert [near(_SIZE)] * 2 == [meter.peak(mark), meter.held.now()[0] - mark.start]
    os.close(descriptor)
    assert near(0) == meter.held.now()[0] - mark.start
    assert near(_SIZE) == meter.peak(mark)


def test_pages_that_are_mapped_too_count_once(memfd: int) -> None:
    """Before it is mapped, while it is, and afterwards."""
    meter = PeakRss(resident())
    mark = meter.begin()
    fill(memfd)
    with mmap.mmap(memfd, _SIZE) as mapped:
        assert _SIZE // mmap.PAGESIZE <= sum(mapped[place] > 0 for place in range(0, _SIZE, mmap.PAGESIZE))
        assert near(_SIZE) == meter.held.now()[0] - mark.start
    assert near(_SIZE) == meter.held.now()[0] - mark.start
    assert near(_SIZE) == meter.peak(mark)


def test_a_memfd_that_stays_as_it_is_adds_to_no_later_peak(memfd: int) -> None:
    """It is in what was held before, and a peak of other memory is seen above it."""
    fill(memfd)
    meter = PeakRss(resident())
    mark = meter.begin()
    assert near(0) == meter.peak(mark)
    kept = b"y" * _SIZE
    del kept
    assert near(_SIZE) == meter.peak(mark)


@_TMPFS
def test_shared_memory_counts_where_it_is_mapped() -> None:
    """It has a name: unmapped, it goes on without this process."""
    meter = PeakRss(resident())
    mark = meter.begin()
    with tempfile.NamedTemporaryFile(dir=_SHARED) as file:
        file.truncate(_SIZE)
        with mmap.mmap(file.fileno(), _SIZE) as mapped:
            mapped[:] = bytes(_SIZE)
            assert near(_SIZE) == meter.held.now()[0] - mark.start
        assert near(0) == meter.held.now()[0] - mark.start


@_TMPFS
def test_a_file_without_a_name_counts_where_it_lies_in_memory(tmp_path: Path) -> None:
    """On a disk it takes the page cache, which nobody has to hold."""
    meter = PeakRss(resident())
    on_disk = tmp_path.stat().st_dev != _SHARED.stat().st_dev
    for folder, size in ((_SHARED, _SIZE), *([(tmp_path, 0)] if on_disk else [])):
        mark = meter.begin()
        with tempfile.TemporaryFile(dir=folder) as file:
            fill(file.fileno())
            assert near(size) == meter.held.now()[0] - mark.start
