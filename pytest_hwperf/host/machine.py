"""Describe this machine by its stable facts: what must agree before timings are compared."""

import math
import os
import platform
import sys
from collections.abc import Callable, Container, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_hwperf.host.disturbance import cpu_quota
from pytest_hwperf.host.files import read_text
from pytest_hwperf.records.run import Machine

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
        try:
            found[library] = lookup(library)
        except PackageNotFoundError:
            continue
    return found
