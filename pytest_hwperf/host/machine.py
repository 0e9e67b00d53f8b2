"""This machine: its stable facts, which must agree before timings are compared, and what numpy reaches on it.

The peaks of a matrix product and a triad are measured once and kept for later runs.
"""

import math
import os
import platform
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from pytest_hwperf.host.disturbance import cpu_quota
from pytest_hwperf.host.files import cache_folder, read_file, read_text, replace_file
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.profiles import PeakRate, Peaks
from pytest_hwperf.records.run import Machine, replace

# Runtimes whose version decides speed; read from their metadata, which imports nothing.
_LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "onnx", "onnxruntime", "skl2onnx", "threadpoolctl"),
    *("torch", "openvino", "xgboost", "xgboost-cpu", "lightgbm", "onnxruntime-gpu", "ai-edge-litert"),
)
_MODULES = {
    "scikit-learn": "sklearn",
    "xgboost-cpu": "xgboost",
    "onnxruntime-gpu": "onnxruntime",
    "ai-edge-litert": "ai_edge_litert",
}
_THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY"),
)


_NOT_ELSEWHERE = (
    "threads are not pinned: the scheduler may move what is measured",
    "interruptions by other work are not counted",
    "a process that has left the group of its test outlives it",
    "pairs are started one by one: no parent imports once for both sides",
    "instructions are not counted, and the energy of processors is estimated",
    "--hwperf-affected skips no test once a file other than Python code has changed",
)
_NOT_ON_WINDOWS = (
    "CPU time and memory of child processes that have ended are not counted",
    "the load is not known, and functions are sampled by a thread, which sees fewer of them",
    "what a killed run has started or stored in the temporary folder stays: end and remove it by hand",
    "loads cannot be made by several processes: leave carriers= out",
)


def lacking(platform: str) -> Sequence[str]:
    """Return what this plugin can do on Linux and not on another platform (as `sys.platform`), each in one line."""
    return () if platform == "linux" else (*_NOT_ELSEWHERE, *(_NOT_ON_WINDOWS if platform == "win32" else ()))


def count_usable_cores() -> int:
    """Return on how many cores this process may run: its affinity, where the system has one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def loaded_libraries(modules: Container[str] | None = None) -> frozenset[str]:
    """Return the runtimes that this process has loaded: the versions of others cannot have decided its speed."""
    there = sys.modules if modules is None else modules
    return frozenset(library for library in _LIBRARIES if _MODULES.get(library, library) in there)


def installed_memory() -> int:
    """Return the machine's memory in B."""
    import psutil

    total: int = psutil.virtual_memory().total
    return total


def describe_machine(
    root: str | Path = "/",
    environment: Mapping[str, str] | None = None,
    *,
    usable: Callable[[], int] = count_usable_cores,
    memory: Callable[[], int] = installed_memory,
    version_of: Callable[[str], str] = version,
) -> Machine:
    """Describe the machine as this process may use it; no process is started for it."""
    given = os.environ if environment is None else environment
    cores, quota = usable(), cpu_quota(root)
    return Machine(
        cpu_model=name_processor(read_processor(root)) or platform.machine() or "unknown",
        architecture=platform.machine(),
        cores=cores if quota is None else min(cores, max(1, math.ceil(quota))),  # a part of a core counts as one
        memory_gb=round(memory() / 1e9),
        system=" ".join(filter(None, [platform.system(), *platform.libc_ver()])),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libraries=_versions(version_of),
        threads={name: given[name] for name in _THREADS if name in given},
    )


def read_processor(root: str | Path = "/") -> dict[str, str]:
    """Return field → text of the first processor in /proc/cpuinfo, {} on systems without it."""
    lines = read_text(Path(root, "proc/cpuinfo")).partition("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def name_processor(processor: Mapping[str, str]) -> str:
    """Name a processor with its family and model, since clouds call several generations by one name, as `AMD EPYC`.

    The name is "" where /proc/cpuinfo has none, as on ARM servers and on other systems.
    """
    name = processor.get("model name", "")
    if name and "cpu family" in processor and "model" in processor:
        return f"{name} (family {processor['cpu family']} model {processor['model']})"
    return name


def saturates_bytes(processor: Mapping[str, str], architecture: str = platform.machine()) -> bool:
    """Whether sums of products of 8 bits may saturate at 16: on x86 processors that are not known to have VNNI."""
    has_vnni = not {"avx512_vnni", "avx_vnni"}.isdisjoint(processor.get("flags", "").split())
    return architecture in ("x86_64", "AMD64") and not has_vnni


def _versions(lookup: Callable[[str], str]) -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = lookup(library)
    return found


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
