"""Thread pools: the number of threads of a scenario, and the pools of numerical libraries."""

import sys
from collections.abc import Callable, Collection, Container
from contextlib import AbstractContextManager
from typing import Any

from pytest_hwperf.records.contracts import Scenario, ScenarioFactory
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.messages import Statement, state

# Read by a pool when it is loaded.
_VARIABLES = {"openblas": "OPENBLAS_NUM_THREADS", "mkl": "MKL_NUM_THREADS", "blis": "BLIS_NUM_THREADS"}
_COMPUTES = 0.25  # of the CPU time of the busiest thread: a thread with less does something beside the calls
_WAITS = 0.25  # of the time of threads that are ready: with less, another number of threads would change little


def check_threads(threads: object) -> None:
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise UsageProblem(f"threads={threads!r}: give a whole number of threads from 1 on")


def uncalibrated(prepare: Callable[..., Scenario], *given: object) -> ScenarioFactory:
    """Return the factory of a scenario that uses no calibration rows: `prepare(*given, model, X, threads)`."""

    def factory(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
        del X_calibration
        check_threads(threads)
        return prepare(*given, model, X, threads)

    return factory


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


def waiting_threads(
    threads: str | None, spent: Collection[tuple[int, int]], loaded: Container[str] = sys.modules
) -> Statement | None:
    """Return a warning where several threads computed for the calls and often waited for a processor."""
    busiest = max((computed for computed, _ in spent), default=0)
    busy = [one for one in spent if one[0] and one[0] >= _COMPUTES * busiest]
    computed, waited = (sum(times) for times in zip(*busy, strict=True)) if busy else (0, 0)
    if len(busy) < 2 or waited < _WAITS * (computed + waited):  # noqa: PLR2004 - one thread cannot be in its own way
        return None
    share = computed / (computed + waited)
    fitting = min(len(busy) - 1, max(1, round(len(busy) * share)))
    return state("waiting threads", threads=len(busy), waited=1 - share, remedy=_remedy(threads, fitting, loaded))


def _remedy(threads: str | None, fitting: int, loaded: Container[str]) -> str:
    """Return what gives the calls so many threads."""
    if threads is not None:
        return f"threads={fitting}"
    variable = f"OMP_NUM_THREADS={fitting} before Python starts"
    return f"{variable}, or call torch.set_num_threads({fitting})" if "torch" in loaded else variable


def oversubscription(
    threads: str | None, cores: int, loaded: Container[str] = sys.modules, *, workers: int = 1
) -> Statement | None:
    """Return a warning where there are more threads than cores, None where there are not or it is not known."""
    crowd = {"cores": cores, "fitting": max(1, cores // workers)}
    others = f" in each of {workers} workers" if workers > 1 else ""
    if threads is not None:
        if not threads.isdecimal() or int(threads) <= crowd["fitting"]:  # "automatic": a runtime's own choice
            return None
        return state("crowded threads", threads=int(threads), workers=others, **crowd)
    if "threadpoolctl" not in loaded:
        return None
    import threadpoolctl

    most = max(threadpoolctl.threadpool_info(), key=lambda pool: pool["num_threads"], default=None)
    if most is None or most["num_threads"] <= crowd["fitting"]:
        return None
    pool, variable = most["internal_api"], _VARIABLES.get(most["internal_api"], "OMP_NUM_THREADS")
    return state("crowded pool", pool=pool, threads=most["num_threads"], workers=others, variable=variable, **crowd)
