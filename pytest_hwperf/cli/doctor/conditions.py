"""What makes this machine noisy: facts as the system shows them, each judged where it matters."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from pytest_hwperf.host.disturbance import (
    ClockRate,
    SystemState,
    Throttling,
    control_groups,
    cpu_quota,
    memory_limit,
    read_clock_rate,
    read_throttling,
)
from pytest_hwperf.meters.access import Access
from pytest_hwperf.records.units import counted, show, show_number

_STEADY = {"performance"}  # governors that leave the clock rate alone
_BUSY_LOAD = 0.5  # running processes per core
_HIGH_STEAL = 0.02  # share of all CPU time
_GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Threads that the libraries of this process would use."""

    blas_threads: Mapping[str, int]  # pool → threads, as "openblas 0.3.31" → 8; {} = none loaded
    onnxruntime_version: str
    onnxruntime_default_threads: int  # intra-op threads of a session that sets none; 0 = one for each core
    onnxruntime_scenario_threads: int  # those of a scenario without threads=
    thread_settings: Mapping[str, str]  # of the environment, as OMP_NUM_THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """All conditions; None where the system does not show one."""

    virtual: bool | None  # whether this is a virtual machine
    rate: ClockRate
    cores_online: int
    cores_usable: int  # by affinity
    cores_allotted: int  # by affinity and quota
    quota_cores: float | None  # of CPU time, None = no quota
    throttling: Throttling | None  # by that quota
    memory_limit_bytes: int | None  # None = no limit
    system: SystemState
    threads: Threads


@dataclass(frozen=True, slots=True)
class Fact:
    """One condition as it is shown."""

    key: str  # stable, for judgements in JSON
    label: str
    value: str
    judgement: str = ""  # "" where it does not matter


def read_conditions(
    access: Access, *, usable: int, online: int, allotted: int, threads: Threads, system: SystemState
) -> Conditions:
    """Read the conditions of a machine with the given cores, threads and state; nothing is waited for."""
    flags = access.flags
    return Conditions(
        virtual="hypervisor" in flags if flags else None,
        rate=read_clock_rate(access.root),
        cores_online=online,
        cores_usable=usable,
        cores_allotted=allotted,
        quota_cores=cpu_quota(access.root),
        throttling=read_throttling(control_groups(access.root)),
        memory_limit_bytes=memory_limit(access.root),
        system=system,
        threads=threads,
    )


def read_threads(settings: Mapping[str, str]) -> Threads:
    """Ask the libraries, which are imported for it."""
    import numpy as np  # noqa: F401 - loads its BLAS, which is asked next
    import onnxruntime
    import threadpoolctl

    from pytest_hwperf.scenarios.ort import session_conditions

    pools = threadpoolctl.threadpool_info()
    return Threads(
        blas_threads={f"{pool['internal_api']} {pool['version'] or ''}".strip(): pool["num_threads"] for pool in pools},
        onnxruntime_version=version("onnxruntime"),
        onnxruntime_default_threads=onnxruntime.SessionOptions().intra_op_num_threads,
        onnxruntime_scenario_threads=int(session_conditions(1)["threads"]),
        thread_settings=settings,
    )


def facts_of(found: Conditions) -> list[Fact]:
    """Return every condition as it is shown, with its judgement."""
    return [*_processor(found), *_allotted(found), *_state(found.system, found.cores_online), *_libraries(found)]


def _processor(found: Conditions) -> list[Fact]:
    rate = found.rate
    hz = "unknown" if rate.clock_rate_hz is None else f"{rate.clock_rate_hz / _GIGA:.2f} GHz"
    if rate.highest_clock_rate_hz is not None:
        hz += f" now, at most {rate.highest_clock_rate_hz / _GIGA:.2f} GHz"
    virtual = "the host's clock rate, heat, sibling threads and neighbours are not shown here"
    governor = (
        "the clock rate follows the load, so that short calls may run slower than long ones; "
        "sudo cpupower frequency-set -g performance holds it"
    )
    turbo = (
        "the clock rate depends on heat and neighbours; off, timings are longer and steadier: "
        f"echo {rate.turbo_off} | sudo tee {rate.turbo_switch}"
    )
    smt = (
        "a busy sibling takes a part of the core; "
        "keep one thread of each core by taskset, or echo off | sudo tee /sys/devices/system/cpu/smt/control"
    )
    heat = "it has happened since the machine started: mind the cooling, and warnings beside timings"
    heated = "unknown" if rate.heat_throttle_count is None else f"counters at {rate.heat_throttle_count}"
    return [
        Fact("virtual", "virtual machine", _word(found.virtual, "yes", "no"), virtual if found.virtual else ""),
        Fact(
            "governor",
            "governor",
            ", ".join(rate.governors) or "unknown",
            governor if set(rate.governors) - _STEADY else "",
        ),
        Fact("turbo", "turbo", _word(rate.turbo, "on", "off"), turbo if rate.turbo else ""),
        Fact("smt", "sibling threads", _word(rate.sibling_threads, "on", "off"), smt if rate.sibling_threads else ""),
        Fact("clock_rate", "clock rate", hz),
        Fact("heat_throttles", "slowed for heat", heated, heat if rate.heat_throttle_count else ""),
    ]


def _allotted(found: Conditions) -> list[Fact]:
    quota, throttling, limit = found.quota_cores, found.throttling, found.memory_limit_bytes
    stopped = ""
    if throttling is not None and throttling.periods:
        stopped = (
            f"it has stopped these groups in {counted(throttling.periods, 'period')} so far, for "
            f"{show(throttling.seconds, 's')} of CPU time: use fewer threads, or raise it"
        )
    elif quota is not None and quota < found.cores_usable:
        stopped = f"more than {show_number(quota, 2)} busy threads are stopped until the next period begins"
    alone = "whatever else runs interrupts the measurement" if found.cores_usable == 1 else ""
    return [
        Fact("cores", "cores", f"{found.cores_usable} usable of {found.cores_online}, by affinity", alone),
        Fact("quota", "quota of CPU time", "none" if quota is None else f"{show_number(quota)} cores", stopped),
        Fact("memory_limit", "memory limit", "none" if limit is None else show(limit, "B")),
    ]


def _state(state: SystemState, online: int) -> list[Fact]:
    load, steal, total, used = state.load_1min, state.steal_share, state.swap_bytes, state.swap_used_bytes
    shown_load = "unknown" if load is None else f"{load:.2f} on {counted(online, 'core')}"
    shown_steal = "unknown" if steal is None else f"{100 * steal:.2f} % of the CPU time since the start"
    swap = "unknown" if total is None or used is None else f"{show(used, 'B')} of {show(total, 'B')} used"
    busy = "other work is running: it disturbs timings, and CPU time a little"
    stolen = "the host gives this time to others: trust comparisons in pairs only"
    swapped = "pages on disc are missing from peaks, and slow when they come back"
    huge = "memory grows in steps of up to 2 MiB, and peaks with it"
    return [
        Fact("load", "load", shown_load, busy if load is not None and load > _BUSY_LOAD * online else ""),
        Fact("steal", "steal", shown_steal, stolen if steal is not None and steal > _HIGH_STEAL else ""),
        Fact("swap", "swap", "none" if total == 0 else swap, swapped if used else ""),
        Fact("huge_pages", "huge pages", state.huge_pages or "unknown", huge if state.huge_pages == "always" else ""),
    ]


def _libraries(found: Conditions) -> list[Fact]:
    threads, cores = found.threads, found.cores_allotted
    crowded = ""
    if max(threads.blas_threads.values(), default=0) > cores:
        crowded = (
            f"more than the {counted(cores, 'allotted core')}: a callable of your own waits for itself; "
            f"set OMP_NUM_THREADS={cores} and OPENBLAS_NUM_THREADS={cores} before Python starts"
        )
    pools = ", ".join(f"{name}: {counted(count, 'thread')}" for name, count in threads.blas_threads.items())
    settings = ", ".join(f"{name}={value}" for name, value in threads.thread_settings.items())
    default = threads.onnxruntime_default_threads
    alone = "one thread for each core" if default == 0 else counted(default, "thread")
    own = counted(threads.onnxruntime_scenario_threads, "thread")
    shown = f"{threads.onnxruntime_version}: by itself {alone}; a scenario {own} that does not spin, or its threads="
    return [
        Fact("blas", "BLAS", pools or "none", crowded),
        Fact("onnxruntime", "ONNX Runtime", shown),
        Fact("thread_settings", "thread settings", settings or "none"),
    ]


def _word(fact: bool | None, yes: str, no: str) -> str:  # noqa: FBT001 - a fact, not a switch
    return "unknown" if fact is None else yes if fact else no
