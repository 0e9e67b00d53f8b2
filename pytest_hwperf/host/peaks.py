"""What numpy reaches on this machine with a matrix product and a triad, measured once and kept for later runs."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import Any

from pytest_hwperf.host.files import cache_folder, read_file, replace_file
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.profiles import PeakRate, Peaks
from pytest_hwperf.records.run import Machine, replace

_PRODUCT = 512  # rows and columns of the matrices: larger ones run into the limits of shared caches
_ELEMENTS = 16 * 1024 * 1024  # float32 of each array of the triad, 64 MB: no cache holds three
_BLOCK = 32 * 1024  # elements whose second pass finds them in the cache, so that memory is read once
_PRODUCTS, _TRIADS = 40, 5  # repeats, of which the best one counts
_LARGEST_FILE = 1 << 16  # bytes
_ARRAYS, _WIDTH = 3, 4  # of the triad, and bytes of a float32

Limit = Callable[[int], AbstractContextManager[object]]  # holds the threads of numerical libraries


def measure_peaks(threads: Sequence[int], limit: Limit, clock: Callable[[], float] = perf_counter) -> Peaks:
    """Measure a float32 matrix product and a triad with each number of threads; takes a second or two."""
    return Peaks(rates=tuple(_rate(count, limit, clock) for count in dict.fromkeys(threads)))


def save_peaks(machine: Machine, peaks: Peaks) -> Path:
    """Keep what numpy reaches on a machine; return the file."""
    path = _path(machine)
    replace_file(path, to_json(peaks))
    return path


def read_peaks(machine: Machine) -> Peaks | None:
    """Return what was measured on this machine, None where nothing was or its file is damaged."""
    try:
        return from_json(Peaks, read_file(_path(machine), _LARGEST_FILE))
    except (OSError, SerialisationError):
        return None


def _path(machine: Machine) -> Path:
    """Return the file of a machine, whatever its variables say about threads: they are given by number."""
    return cache_folder() / "peaks" / f"{replace(machine, threads={}).fingerprint}.json"


def _rate(threads: int, limit: Limit, clock: Callable[[], float]) -> PeakRate:
    with limit(threads):
        product_s = _best(_product(), _PRODUCTS, clock)
    with ThreadPoolExecutor(threads) as pool:
        triad_s = _best(_triad(threads, pool), _TRIADS, clock)
    return PeakRate(
        threads=threads,
        flops_per_s=2.0 * _PRODUCT**3 / product_s,
        bytes_per_s=float(_ARRAYS * _WIDTH * _ELEMENTS) / triad_s,
    )


def _best(run: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Return the seconds of the fastest run after a first one."""
    run()
    taken = []
    for _ in range(repeats):
        began = clock()
        run()
        taken.append(clock() - began)
    return min(taken)


def _product() -> Callable[[], object]:
    import numpy as np

    left, right, made = (np.full((_PRODUCT, _PRODUCT), value, dtype=np.float32) for value in (0.5, 0.25, 0.0))
    return lambda: np.matmul(left, right, out=made)


def _triad(threads: int, pool: ThreadPoolExecutor) -> Callable[[], object]:
    """Return a = b + s·c over arrays that no cache holds, cut into equal parts for so many threads."""
    import numpy as np

    a, b, c = (np.full(_ELEMENTS, value, dtype=np.float32) for value in (0.0, 1.0, 2.0))
    share = -(-_ELEMENTS // (threads * _BLOCK)) * _BLOCK  # whole blocks, so that no two threads write the same one

    def part(start: int) -> None:
        for first in range(start, min(start + share, _ELEMENTS), _BLOCK):
            _add_scaled(a[first : first + _BLOCK], b[first : first + _BLOCK], c[first : first + _BLOCK])

    def run() -> None:
        list(pool.map(part, range(0, _ELEMENTS, share)))

    return run


def _add_scaled(a: Any, b: Any, c: Any) -> None:
    import numpy as np

    np.multiply(c, np.float32(3.0), out=a)
    np.add(a, b, out=a)
