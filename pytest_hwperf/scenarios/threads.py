"""Thread pools: the number of threads of a scenario, and the pools of numerical libraries."""

import sys
from collections.abc import Container
from contextlib import AbstractContextManager

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.units import counted

# Read by a pool when it is loaded.
_VARIABLES = {"openblas": "OPENBLAS_NUM_THREADS", "mkl": "MKL_NUM_THREADS", "blis": "BLIS_NUM_THREADS"}


def check_threads(threads: object) -> None:
    """Refuse an invalid number of threads.

    Raises:
        UsageProblem: not a whole number from 1 on.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise UsageProblem(f"threads={threads!r}: give a whole number of threads from 1 on")


def limit_threads(threads: int) -> AbstractContextManager[object]:
    """Limit every BLAS and OpenMP pool of this process; environment variables only count before a library loads."""
    import threadpoolctl

    limits: AbstractContextManager[object] = threadpoolctl.threadpool_limits(limits=threads)
    return limits


def describe_pools() -> str:
    """Name the pools loaded into this process, as `openblas 0.3.31, openmp`."""
    import threadpoolctl

    found = {f"{pool['internal_api']} {pool['version'] or ''}".strip() for pool in threadpoolctl.threadpool_info()}
    return ", ".join(sorted(found))


def oversubscription(threads: str | None, cores: int, loaded: Container[str] = sys.modules) -> str:
    """Return a warning where there are more threads than cores, "" where there are not or it is not known.

    Args:
        threads: of a scenario, which limits its runtime and every pool; None for a plain callable, which does not.
        cores: allotted to this process. Pools are made for all cores of the affinity, whatever the quota is.
        loaded: modules; pools are looked at only where threadpoolctl is one of them.
    """
    allotted = counted(cores, "allotted core")
    if threads is not None:
        if not threads.isdecimal() or int(threads) <= cores:  # such as "automatic", a runtime's own choice
            return ""
        return f"{threads} threads on {allotted} wait for each other: set threads={cores}, or allot more cores"
    if "threadpoolctl" not in loaded:
        return ""
    import threadpoolctl

    most = max(threadpoolctl.threadpool_info(), key=lambda pool: pool["num_threads"], default=None)
    if most is None or most["num_threads"] <= cores:
        return ""
    variable = _VARIABLES.get(most["internal_api"], "OMP_NUM_THREADS")
    return (
        f"{most['internal_api']} may use {most['num_threads']} threads on {allotted}: set {variable}={cores} "
        f"before Python starts, or call it under threadpoolctl.threadpool_limits({cores})"
    )
