"""Describe this machine by its stable facts: what must agree before timings are compared."""

import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_hwperf.core.records import Machine

# Runtimes whose version decides speed; read from their metadata, which imports nothing.
_LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "onnx", "onnxruntime", "skl2onnx", "threadpoolctl"),
    *("torch", "openvino", "xgboost", "lightgbm"),
)
_THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY"),
)
_NO_LIMIT = 2**60  # bytes; version 1 writes the largest number of whole pages


def count_usable() -> int:
    """Return on how many cores this process may run: its affinity, where the system has one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(
    root: str | Path = "/",
    environment: Mapping[str, str] | None = None,
    *,
    usable: Callable[[], int] = count_usable,
    version_of: Callable[[str], str] = version,
) -> Machine:
    """Describe the machine as this process may use it; no process is started and no library imported for it.

    Args:
        root: where /proc and /sys are looked for.
        environment: whose thread settings count; None takes this process's.
        usable: cores that the affinity allows.
        version_of: version of an installed distribution; raises PackageNotFoundError for others.
    """
    place = Path(root)
    given = os.environ if environment is None else environment
    return Machine(
        cpu_model=_cpu_model(place),
        architecture=platform.machine(),
        cores=_allotted(place, usable()),
        memory_gb=_memory_gb(place),
        system=" ".join(filter(None, [platform.system(), *platform.libc_ver()])),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libraries=_versions(version_of),
        threads={name: given[name] for name in _THREADS if name in given},
    )


def control_groups(root: str | Path = "/", controller: str = "cpu") -> Iterator[Path]:
    """Yield the folders of the process's control groups and of all above them, whether or not they are there.

    Source: cgroups(7) for /proc/self/cgroup; version 1 mounts each controller apart.
    """
    mounts = Path(root) / "sys/fs/cgroup"
    for line in _text(Path(root) / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        places = [mounts / controllers, mounts / controller] if controllers else [mounts, mounts / "unified"]
        # In a container the path may be the host's: then only the top is there, and it is the container's own group.
        inner = Path(group.lstrip("/"))
        for place in dict.fromkeys(places):
            for folder in (inner, *inner.parents):
                yield place / folder


def quota_of(root: str | Path = "/") -> float | None:
    """Return the CPU time that the tightest control group grants, in cores; None where none has a limit.

    Source: cgroup v2 cpu.max, cgroup v1 cpu.cfs_quota_us and cpu.cfs_period_us.
    """
    return min((quota for group in control_groups(root) for quota in _quota(group)), default=None)


def memory_limit_of(root: str | Path = "/") -> int | None:
    """Return the bytes that the tightest control group grants; None where none has a limit.

    Source: cgroup v2 memory.max, cgroup v1 memory.limit_in_bytes, which has a number near 2^63 for no limit.
    """
    found = (
        _text(group / name).strip()
        for group in control_groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    )
    return min((int(text) for text in found if text.isdecimal() and int(text) < _NO_LIMIT), default=None)


def _allotted(root: Path, usable: int) -> int:
    """Return the cores that the tightest quota of CPU time leaves; a part of a core counts as one."""
    quota = quota_of(root)
    return usable if quota is None else min(usable, max(1, math.ceil(quota)))


def _quota(group: Path) -> Iterator[float]:
    """Yield the cores that one control group grants, nothing where it has no limit (`max`, or -1 in version 1)."""
    words = _text(group / "cpu.max").split()
    if not words:  # version 1 keeps the two numbers in two files
        words = [_text(group / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    if all(word.isdecimal() and int(word) for word in words):
        quota, period = map(int, words)
        yield quota / period


def _cpu_model(root: Path) -> str:
    """Name the processor, with its family and model: clouds call several generations by one name, as `AMD EPYC`."""
    processor = _text(root / "proc/cpuinfo").partition("\n\n")[0]
    pairs = (line.partition(":") for line in processor.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    if "model name" not in fields:  # ARM, and systems without /proc; platform.processor() would start a process
        return platform.machine() or "unknown"
    if "cpu family" in fields and "model" in fields:
        return f"{fields['model name']} (family {fields['cpu family']} model {fields['model']})"
    return fields["model name"]


def _memory_gb(root: Path) -> int:
    """Return installed memory in 10^9 bytes, rounded: the kernel's own share differs by a few pages between boots."""
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return round(int(line.split()[1]) * 1024 / 1e9)
    import psutil

    installed: int = psutil.virtual_memory().total
    return round(installed / 1e9)


def _versions(lookup: Callable[[str], str]) -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = lookup(library)
        except PackageNotFoundError:
            continue
    return found


def _text(path: Path) -> str:
    """Read a small system file; "" where the system has none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
