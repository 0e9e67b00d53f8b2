"""Thread pools: how many threads a scenario may use, and how the pools of numerical libraries are held to it."""

from contextlib import AbstractContextManager

from pytest_hwperf.core.errors import UsageProblem


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
