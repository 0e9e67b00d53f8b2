"""Thread pools: how many threads a scenario may use, and how the pools of numerical libraries are held to it."""

import sys
from collections.abc import Container, Mapping
from contextlib import AbstractContextManager
from typing import Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.units import counted


def check_threads(threads: object) -> None:
    """Refuse what is no number of threads.

    Raises:
        UsageProblem: not a whole number from 1 on.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise UsageProblem(f"threads={threads!r}: give a whole number of threads from 1 on")


def hold(threads: int) -> AbstractContextManager[object]:
    """Limit every BLAS and OpenMP pool of this process: the environment is read only when a library loads."""
    import threadpoolctl

    limits: AbstractContextManager[object] = threadpoolctl.threadpool_limits(limits=threads)
    return limits


def pools() -> str:
    """Name the pools loaded into this process, as `openblas 0.3.31, openmp`."""
    import threadpoolctl

    found = {f"{pool['internal_api']} {pool['version'] or ''}".strip() for pool in threadpoolctl.threadpool_info()}
    return ", ".join(sorted(found))


def crowding(threads: str | None, cores: int, loaded: Container[str] = sys.modules) -> str:
    """Return a warning where more threads work than there are cores, "" where none do or nobody can tell.

    Args:
        threads: that a scenario holds its runtime and every pool to; None for a plain callable, whose pools are as
            they are.
        cores: allotted to this process. Pools are made for all cores of the affinity, whatever the quota is.
        loaded: modules; threadpoolctl is asked only where it is one of them.
    """
    allotted = counted(cores, "allotted core")
    if threads is not None:
        if not threads.isdecimal() or int(threads) <= cores:  # a runtime's own word for "by itself" is no number
            return ""
        return f"{threads} threads on {allotted} wait for each other: set threads={cores}, or allot more cores"
    if "threadpoolctl" not in loaded:
        return ""
    import threadpoolctl

    most = max(threadpoolctl.threadpool_info(), key=lambda pool: pool["num_threads"], default=None)
    if most is None or most["num_threads"] <= cores:
        return ""
    return (
        f"{most['internal_api']} may use {most['num_threads']} threads on {allotted}: set {_variable(most)}={cores} "
        f"before Python starts, or call it under threadpoolctl.threadpool_limits({cores})"
    )


def _variable(pool: Mapping[str, Any]) -> str:
    """Return the variable of the environment that a pool reads when it is loaded."""
    return {"openblas": "OPENBLAS_NUM_THREADS", "mkl": "MKL_NUM_THREADS", "blis": "BLIS_NUM_THREADS"}.get(
        pool["internal_api"], "OMP_NUM_THREADS"
    )
