"""What numpy reaches on this machine, measured and kept: what `--hwperf-operators` judges a call by."""

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_hwperf.core.records import Machine
from pytest_hwperf.core.roofline import PeakRate
from pytest_hwperf.core.units import counted, show_amount
from pytest_hwperf.host.peaks import measure_peaks, save_peaks
from pytest_hwperf.scenarios.threads import limit_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPeaks:
    """What was measured, and where it is kept."""

    rates: tuple[PeakRate, ...]  # by threads
    kept: str  # path of the file, "" where it could not be written
    reason: str = ""  # why not


def keep_peaks(machine: Machine) -> KeptPeaks:
    """Measure with one thread, with all allotted cores and with the powers of two between, and keep the result."""
    peaks = measure_peaks(thread_counts(machine.cores), limit_threads)
    try:
        return KeptPeaks(rates=peaks.rates, kept=str(save_peaks(machine, peaks)))
    except OSError as error:
        return KeptPeaks(rates=peaks.rates, kept="", reason=f"{error.strerror} ({error.filename})")


def thread_counts(cores: int) -> list[int]:
    """Return 1, 2, 4 … and the number of cores."""
    return sorted({*(1 << power for power in range(cores.bit_length()) if 1 << power <= cores), max(1, cores)})


def render_peaks(found: KeptPeaks) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line."""
    for rate in found.rates:
        product, triad = show_amount(rate.flops_per_s, "FLOP/s"), show_amount(rate.bytes_per_s, "B/s")
        yield counted(rate.threads, "thread"), f"{product} by a float32 matrix product, {triad} by a triad in memory"
    yield "kept", found.kept or f"no: {found.reason}"
