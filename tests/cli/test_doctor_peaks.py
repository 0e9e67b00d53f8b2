"""Peaks in the findings: with which threads they are measured, and where they are kept."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes import records as fake

from pytest_hwperf.cli import doctor
from pytest_hwperf.cli.doctor import keep_peaks, thread_counts
from pytest_hwperf.host.peaks import read_peaks
from pytest_hwperf.records.profiles import PeakRate, Peaks


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found = list[int]()

    def measure(threads: Sequence[int], _: object) -> Peaks:
        found.extend(threads)
        return Peaks(rates=tuple(PeakRate(threads=n, flops_per_s=1e11 * n, bytes_per_s=1e10) for n in threads))

    monkeypatch.setattr(doctor, "measure_peaks", measure)
    return found


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (0, [1])])
def test_one_thread_all_cores_and_powers_of_two(cores: int, counts: list[int]) -> None:
    assert counts == thread_counts(cores)


def test_peaks_are_kept_for_later_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]) -> None:
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    *rates, file = keep_peaks(fake.machine(cores=4))
    kept = read_peaks(fake.machine(cores=4))
    assert [1, 2, 4] == asked
    assert kept is not None
    assert [one.flops_per_s for one in kept.rates] == [one.value["flops_per_s"] for one in rates]
    assert Path(file.text).is_relative_to(tmp_path)
    assert ("2 threads", "200 GFLOP/s by a float32 matrix product, 10.0 GB/s by a triad in memory") == (
        rates[1].label,
        rates[1].text,
    )


def test_what_cannot_be_kept_is_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(file))
    found = keep_peaks(fake.machine(cores=1))
    assert [1] == asked
    assert ["1 thread", "kept"] == [one.label for one in found]
    assert found[1].value["file"] is None
    assert found[1].text == f"no: {found[1].value['reason']}"
