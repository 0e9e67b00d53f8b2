"""What makes this machine noisy: facts as the system shows them, each judged where it matters."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

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
_YES: Mapping[bool | None, str] = {True: "yes", False: "no", None: "unknown"}
_ON: Mapping[bool | None, str] = {True: "on", False: "off", None: "unknown"}


class Fact(NamedTuple):
    """One thing that was found."""

    key: str  # stable, for judgements and abilities in JSON
    label: str
    value: Mapping[str, Any]  # as JSON has it, by name, in base units; None where the system does not show it
    text: str
    judgement: str = ""  # "" where it does not matter

    @property
    def notes(self) -> list[str]:
        """What stands below the text."""
        return [*self.value.get("warnings", ()), *filter(None, [self.judgement])]


def read_threads(settings: Mapping[str, str]) -> dict[str, Any]:
    """Ask the libraries, which are imported for it, how many threads they would use."""
    import numpy as np  # noqa: F401 - loads its BLAS, which is asked next
    import onnxruntime
    import threadpoolctl

    from pytest_hwperf.scenarios.ort import session_conditions

    pools = threadpoolctl.threadpool_info()
    return {
        "blas_threads": {
            f"{pool['internal_api']} {pool['version'] or ''}".strip(): pool["num_threads"] for pool in pools
        },
        "onnxruntime_version": version("onnxruntime"),
        "onnxruntime_default_threads": onnxruntime.SessionOptions().intra_op_num_threads,  # 0 = one for each core
        "onnxruntime_scenario_threads": int(session_conditions(1)["threads"]),
        "thread_settings": settings,
    }


def read_conditions(
    access: Access, *, usable: int, online: int, allotted: int, threads: Mapping[str, Any], system: SystemState
) -> list[Fact]:
    """Read the conditions of a machine with the given cores, threads and state; nothing is waited for."""
    root, flags = access.root, access.flags
    return [
        *processor(read_clock_rate(root), virtual="hypervisor" in flags if flags else None),
        *allotment(usable, online, allotted, cpu_quota(root), read_throttling(control_groups(root))),
        *memory_and_load(memory_limit(root), system, online),
        *libraries(threads, allotted),
    ]


def processor(rate: ClockRate, *, virtual: bool | None) -> list[Fact]:
    """Return what decides the clock rate, and what this processor shares."""
    now, most, heated = rate.clock_rate_hz, rate.highest_clock_rate_hz, rate.heat_throttle_count
    hz = "unknown" if now is None else f"{now / _GIGA:.2f} GHz"
    if most is not None:
        hz += f" now, at most {most / _GIGA:.2f} GHz"
    hidden = "the host's clock rate, heat, sibling threads and neighbours are not shown here"
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
    counters = "unknown" if heated is None else f"counters at {heated}"
    siblings = {"sibling_threads": rate.sibling_threads}
    rates = {"clock_rate_hz": now, "highest_clock_rate_hz": most}
    governors = {"governors": rate.governors or None}
    varies = governor if set(rate.governors) - _STEADY else ""
    return [
        Fact("virtual", "virtual machine", {"virtual_machine": virtual}, _YES[virtual], hidden if virtual else ""),
        Fact("governor", "governor", governors, ", ".join(rate.governors) or "unknown", varies),
        Fact("turbo", "turbo", {"turbo": rate.turbo}, _ON[rate.turbo], turbo if rate.turbo else ""),
        Fact("smt", "sibling threads", siblings, _ON[rate.sibling_threads], smt if rate.sibling_threads else ""),
        Fact("clock_rate", "clock rate", rates, hz),
        Fact("heat_throttles", "slowed for heat", {"heat_throttle_count": heated}, counters, heat if heated else ""),
    ]


def allotment(
    usable: int, online: int, allotted: int, quota: float | None, throttling: Throttling | None
) -> list[Fact]:
    """Return the cores of this process, and the quota of CPU time with what it has stopped so far."""
    stopped = ""
    if throttling is not None and throttling.periods:
        stopped = (
            f"it has stopped these groups in {counted(throttling.periods, 'period')} so far, for "
            f"{show(throttling.seconds, 's')} of CPU time: use fewer threads, or raise it"
        )
    elif quota is not None and quota < usable:
        stopped = f"more than {show_number(quota, 2)} busy threads are stopped until the next period begins"
    alone = "whatever else runs interrupts the measurement" if usable == 1 else ""
    cores = {"cores_online": online, "cores_usable": usable, "cores_allotted": allotted}
    periods, seconds = (throttling.periods, throttling.seconds) if throttling else (None, None)
    quotas = {"quota_cores": quota, "quota_stopped_periods": periods, "quota_stopped_s": seconds}
    return [
        Fact("cores", "cores", cores, f"{usable} usable of {online}, by affinity", alone),
        Fact("quota", "quota of CPU time", quotas, "none" if quota is None else f"{show_number(quota)} cores", stopped),
    ]


def memory_and_load(limit: int | None, state: SystemState, online: int) -> list[Fact]:
    """Return the limit of memory, and how busy the machine is."""
    load, steal, total, used = state.load_1min, state.steal_share, state.swap_bytes, state.swap_used_bytes
    shown_load = "unknown" if load is None else f"{load:.2f} on {counted(online, 'core')}"
    shown_steal = "unknown" if steal is None else f"{100 * steal:.2f} % of the CPU time since the start"
    swap = "unknown" if total is None or used is None else f"{show(used, 'B')} of {show(total, 'B')} used"
    is_busy = load is not None and load > _BUSY_LOAD * online
    busy = "other work is running: it disturbs timings, and CPU time a little" if is_busy else ""
    stolen = "the host gives this time to others: trust comparisons in pairs only" if (steal or 0) > _HIGH_STEAL else ""
    swapped = "pages on disc are missing from peaks, and slow when they come back" if used else ""
    huge = "memory grows in steps of up to 2 MiB, and peaks with it" if state.huge_pages == "always" else ""
    swaps, pages = {"swap_bytes": total, "swap_used_bytes": used}, {"huge_pages": state.huge_pages}
    shown_limit = "none" if limit is None else show(limit, "B")
    return [
        Fact("memory_limit", "memory limit", {"memory_limit_bytes": limit}, shown_limit),
        Fact("load", "load", {"load_1min": load}, shown_load, busy),
        Fact("steal", "steal", {"steal_share": steal}, shown_steal, stolen),
        Fact("swap", "swap", swaps, "none" if total == 0 else swap, swapped),
        Fact("huge_pages", "huge pages", pages, state.huge_pages or "unknown", huge),
    ]


def libraries(threads: Mapping[str, Any], cores: int) -> list[Fact]:
    """Return the threads that the libraries of this process would use, beside the allotted cores."""
    pools, settings = threads["blas_threads"], threads["thread_settings"]
    crowded = ""
    if max(pools.values(), default=0) > cores:
        crowded = (
            f"more than the {counted(cores, 'allotted core')}: a callable of your own waits for itself; "
            f"set OMP_NUM_THREADS={cores} and OPENBLAS_NUM_THREADS={cores} before Python starts"
        )
    default = threads["onnxruntime_default_threads"]
    alone = "one thread for each core" if default == 0 else counted(default, "thread")
    own = counted(threads["onnxruntime_scenario_threads"], "thread")
    shown = f"{threads['onnxruntime_version']}: by itself {alone}; a scenario {own} that does not spin, or its threads="
    onnx = {key: value for key, value in threads.items() if key.startswith("onnxruntime")}
    in_use = ", ".join(f"{name}: {counted(count, 'thread')}" for name, count in pools.items())
    given = ", ".join(f"{name}={value}" for name, value in settings.items())
    return [
        Fact("blas", "BLAS", {"blas_threads": pools}, in_use or "none", crowded),
        Fact("onnxruntime", "ONNX Runtime", onnx, shown),
        Fact("thread_settings", "thread settings", {"thread_settings": settings}, given or "none"),
    ]
