"""Peaks of a machine: measured by a clock that a test moves, and kept by its fingerprint."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from fakes import records as fake

from pytest_hwperf.host import machine as module
from pytest_hwperf.host.machine import measure_peaks, read_peaks, save_peaks
from pytest_hwperf.records.profiles import PeakRate, Peaks
from pytest_hwperf.records.run import replace

PEAKS = Peaks(rates=(PeakRate(threads=1, flops_per_s=1e11, bytes_per_s=1e10),))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_PRODUCT", 8)
    monkeypatch.setattr(module, "_ELEMENTS", 100)
    monkeypatch.setattr(module, "_BLOCK", 16)
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))


def test_the_best_repeat_counts_with_each_number_of_threads() -> None:
    """A reading of the clock takes a second: 2·8³ operations, and three arrays of 100 numbers."""
    limits = list[int]()

    @contextmanager
    def limit(threads: int) -> Iterator[None]:
        limits.append(threads)
        yield

    ticks = count()
    found = measure_peaks([1, 2, 2], limit, lambda: float(next(ticks)))
    assert [PeakRate(threads=n, flops_per_s=1024.0, bytes_per_s=1200.0) for n in (1, 2)] == [*found.rates]
    assert [1, 2] == limits


@pytest.mark.parametrize("threads", [1, 7])
def test_the_triad_computes_every_element_once(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()

    def note(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        assert len(a) == len(b) == len(c)
        module_add(a, b, c)
        assert (a == 7.0).all()
        seen.append(len(a))

    module_add = module._add_scaled
    monkeypatch.setattr(module, "_add_scaled", note)
    with ThreadPoolExecutor(threads) as pool:
        module._triad(threads, pool)()
    assert 100 == sum(seen)


def test_peaks_are_kept_by_machine_whatever_its_variables() -> None:
    machine = fake.machine()
    save_peaks(machine, PEAKS)
    assert PEAKS == read_peaks(replace(machine, threads={"OMP_NUM_THREADS": "4"}))
    assert read_peaks(fake.machine(cores=8)) is None


def test_a_damaged_file_is_as_none() -> None:
    save_peaks(fake.machine(), PEAKS).write_text('{"rates": 3}')
    assert read_peaks(fake.machine()) is None
