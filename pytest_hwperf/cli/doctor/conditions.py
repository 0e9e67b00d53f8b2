"""What makes this machine noisy: each fact as the system shows it, with a judgement where it matters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from pytest_hwperf.core.units import counted, show, show_number
from pytest_hwperf.host.clock_rate import ClockRate, read_clock_rate
from pytest_hwperf.host.machine import control_groups, memory_limit_of, quota_of
from pytest_hwperf.host.system_state import SystemState, read_system_state
from pytest_hwperf.host.throttling import Stops, stops_of
from pytest_hwperf.meters.energy.diagnosis import Host

_STEADY = {"performance"}  # governors that leave the clock rate alone
_BUSY_LOAD = 0.5  # running processes per core
_HIGH_STEAL = 0.02  # share of all CPU time
_GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """How many threads the libraries of this process would use."""

    blas: Mapping[str, int]  # pool → threads, as "openblas 0.3.31" → 8; {} = none loaded
    onnxruntime_version: str
    onnxruntime_default: int  # intra-op threads of a session that sets none; 0 = one for each core
    onnxruntime_scenario: int  # those of a scenario without threads=
    settings: Mapping[str, str]  # of the environment, as OMP_NUM_THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Everything that was looked at; None where the system does not show it."""

    virtual: bool | None  # whether this is a virtual machine
    rate: ClockRate
    cores_online: int
    cores_usable: int  # by affinity
    cores_allotted: int  # by affinity and quota
    quota_cores: float | None  # of CPU time, None = no quota
    quota_stops: Stops | None
    memory_limit_bytes: int | None  # None = no limit
    system: SystemState
    threads: Threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of what is told."""

    key: str  # stable, for judgements in JSON
    label: str
    value: str
    judgement: str = ""  # in plain words, "" where it does not matter


def read_conditions(host: Host, *, usable: int, online: int, allotted: int, threads: Threads) -> Conditions:
    """Look at the machine under `host.root`; nothing is waited for.

    Args:
        host: the machine.
        usable: cores that the affinity allows.
        online: cores of the machine.
        allotted: cores that affinity and quota leave.
        threads: what the libraries would use.
    """
    flags = host.flags
    return Conditions(
        virtual="hypervisor" in flags if flags else None,
        rate=read_clock_rate(host.root),
        cores_online=online,
        cores_usable=usable,
        cores_allotted=allotted,
        quota_cores=quota_of(host.root),
        quota_stops=stops_of(control_groups(host.root)),
        memory_limit_bytes=memory_limit_of(host.root),
        system=read_system_state(host.root),
        threads=threads,
    )


def read_threads(settings: Mapping[str, str]) -> Threads:
    """Ask the libraries, which are imported for it."""
    import numpy as np  # noqa: F401 - loads its BLAS, which is asked next
    import onnxruntime
    import threadpoolctl

    from pytest_hwperf.scenarios.ort import conditions

    pools = threadpoolctl.threadpool_info()
    return Threads(
        blas={f"{pool['internal_api']} {pool['version'] or ''}".strip(): pool["num_threads"] for pool in pools},
        onnxruntime_version=version("onnxruntime"),
        onnxruntime_default=onnxruntime.SessionOptions().intra_op_num_threads,
        onnxruntime_scenario=int(conditions(1)["threads"]),
        settings=settings,
    )


def rows_of(found: Conditions) -> list[Row]:
    """Say what was found, and what follows from it."""
    return [row for make in _ROWS for row in make(found)]


def _processor(found: Conditions) -> list[Row]:
    rate = found.rate
    hz = "unknown" if rate.now_hz is None else f"{rate.now_hz / _GIGA:.2f} GHz"
    if rate.most_hz is not None:
        hz += f" now, at most {rate.most_hz / _GIGA:.2f} GHz"
    virtual = "the host's clock rate, heat, sibling threads and neighbours are not shown here" if found.virtual else ""
    return [
        Row(key="virtual", label="virtual machine", value=_yes(found.virtual), judgement=virtual),
        Row(
            key="governor",
            label="governor",
            value=", ".join(rate.governors) or "unknown",
            judgement=_of_governor(rate),
        ),
        Row(key="turbo", label="turbo", value=_on(rate.turbo), judgement=_of_turbo(rate)),
        Row(key="smt", label="sibling threads", value=_on(rate.smt), judgement=_of_smt(rate)),
        Row(key="clock_rate", label="clock rate", value=hz),
        Row(
            key="heat_throttles",
            label="slowed for heat",
            value="unknown" if rate.throttled is None else f"counters at {rate.throttled}",
            judgement="it has happened since the machine started: mind the cooling, and warnings beside timings"
            if rate.throttled
            else "",
        ),
    ]


def _of_governor(rate: ClockRate) -> str:
    if not rate.governors or set(rate.governors) <= _STEADY:
        return ""
    return (
        "the clock rate follows the load, so that short calls may run slower than long ones; "
        "sudo cpupower frequency-set -g performance holds it"
    )


def _of_turbo(rate: ClockRate) -> str:
    if not rate.turbo:
        return ""
    return (
        "the clock rate depends on heat and neighbours; off, timings are longer and steadier: "
        f"echo {rate.turbo_off} | sudo tee {rate.turbo_switch}"
    )


def _of_smt(rate: ClockRate) -> str:
    if not rate.smt:
        return ""
    return (
        "a busy sibling takes a part of the core; "
        "keep one thread of each core by taskset, or echo off | sudo tee /sys/devices/system/cpu/smt/control"
    )


def _allotted(found: Conditions) -> list[Row]:
    quota, stops, limit = found.quota_cores, found.quota_stops, found.memory_limit_bytes
    cores = f"{found.cores_usable} usable of {found.cores_online}, by affinity"
    stopped = ""
    if stops is not None and stops.periods:
        stopped = (
            f"it has stopped these groups in {counted(stops.periods, 'period')} so far, for {show(stops.seconds, 's')} "
            "of CPU time: use fewer threads, or raise it"
        )
    elif quota is not None and quota < found.cores_usable:
        stopped = f"more than {show_number(quota, 2)} busy threads are stopped until the next period begins"
    return [
        Row(
            key="cores",
            label="cores",
            value=cores,
            judgement="whatever else runs interrupts the measurement" if found.cores_usable == 1 else "",
        ),
        Row(
            key="quota",
            label="quota of CPU time",
            value="none" if quota is None else f"{show_number(quota)} cores",
            judgement=stopped,
        ),
        Row(key="memory_limit", label="memory limit", value="none" if limit is None else show(limit, "B")),
    ]


def _state(found: Conditions) -> list[Row]:
    state, online = found.system, found.cores_online
    busy = state.load_1min is not None and state.load_1min > _BUSY_LOAD * online
    stolen = state.steal is not None and state.steal > _HIGH_STEAL
    used = state.swap_used_bytes
    return [
        Row(
            key="load",
            label="load",
            value="unknown" if state.load_1min is None else f"{state.load_1min:.2f} on {counted(online, 'core')}",
            judgement="other work is running: it disturbs timings, and CPU time a little" if busy else "",
        ),
        Row(
            key="steal",
            label="steal",
            value="unknown" if state.steal is None else f"{100 * state.steal:.2f} % of the CPU time since the start",
            judgement="the host gives this time to others: trust comparisons in pairs only" if stolen else "",
        ),
        Row(
            key="swap",
            label="swap",
            value=_swap(state),
            judgement="pages on disc are missing from peaks, and slow when they come back" if used else "",
        ),
        Row(
            key="huge_pages",
            label="huge pages",
            value=state.huge_pages or "unknown",
            judgement="memory grows in steps of up to 2 MiB, and peaks with it" if state.huge_pages == "always" else "",
        ),
    ]


def _libraries(found: Conditions) -> list[Row]:
    threads, cores = found.threads, found.cores_allotted
    most = max(threads.blas.values(), default=0)
    crowded = ""
    if most > cores:
        crowded = (
            f"more than the {counted(cores, 'allotted core')}: a callable of your own waits for itself; "
            f"set OMP_NUM_THREADS={cores} and OPENBLAS_NUM_THREADS={cores} before Python starts"
        )
    pools = ", ".join(f"{name}: {counted(count, 'thread')}" for name, count in threads.blas.items())
    settings = ", ".join(f"{name}={value}" for name, value in threads.settings.items())
    default = threads.onnxruntime_default
    alone = "one thread for each core" if default == 0 else counted(default, "thread")
    return [
        Row(key="blas", label="BLAS", value=pools or "none", judgement=crowded),
        Row(
            key="onnxruntime",
            label="ONNX Runtime",
            value=f"{threads.onnxruntime_version}: by itself {alone}; a scenario "
            f"{counted(threads.onnxruntime_scenario, 'thread')} that does not spin, or its threads=",
        ),
        Row(key="thread_settings", label="thread settings", value=settings or "none"),
    ]


def _swap(state: SystemState) -> str:
    if state.swap_bytes is None or state.swap_used_bytes is None:
        return "unknown"
    return f"{show(state.swap_used_bytes, 'B')} of {show(state.swap_bytes, 'B')} used" if state.swap_bytes else "none"


def _yes(fact: bool | None) -> str:  # noqa: FBT001 - a fact, not a switch
    return "unknown" if fact is None else "yes" if fact else "no"


def _on(fact: bool | None) -> str:  # noqa: FBT001 - a fact, not a switch
    return "unknown" if fact is None else "on" if fact else "off"


_ROWS: tuple[Callable[[Conditions], list[Row]], ...] = (_processor, _allotted, _state, _libraries)
