"""What makes the timings of this machine noisy, each fact judged where it matters, and how noisy it is now."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import expm1
from statistics import median
from typing import Any, NamedTuple

from pytest_hwperf.cli.output import clear_progress, progress_line
from pytest_hwperf.gate.models.compare import CompareSettings, SelfComparison, compare_with_itself
from pytest_hwperf.gate.models.targets import MODEL, ROWS, rows
from pytest_hwperf.host import disturbance
from pytest_hwperf.host.disturbance import Snapshot
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.units import counted, show, show_number
from pytest_hwperf.stats.figures.ranks import fewest_pairs
from pytest_hwperf.stats.pairs.paired import MOST_PAIRS, pairs_needed
from pytest_hwperf.stats.pairs.sequence import SCREEN_PAIRS, SHARES

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

    from pytest_hwperf.runtimes.ort import session_conditions

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


def processor(rate: disturbance.ClockRate, *, virtual: bool | None) -> list[Fact]:
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
    usable: int, online: int, allotted: int, quota: float | None, throttling: disturbance.Throttling | None
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


def memory_and_load(limit: int | None, state: disturbance.SystemState, online: int) -> list[Fact]:
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


ALPHA = 0.01  # the gate's default, per build
MARGIN = DEFAULT_MARGINS["latency_p50"].size
CHANGES = (0.02, 0.05, 0.10)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsNeeded:
    """Pairs that finding one slowdown takes."""

    change: float  # relative
    pairs: int | None  # of fresh processes, None with a reason
    reason: str  # "" with a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Results of pairs of equal processes."""

    pairs: int
    seconds: float  # wall time of all pairs
    latency_s: float | None  # median call
    differences: tuple[float, ...]  # relative, of the two sides' median latency, one a pair
    alpha: float  # per build
    level: float  # one-sided, of the first look
    margin: float  # relative
    needs: tuple[PairsNeeded, ...]
    disturbances: tuple[str, ...]  # meanwhile, as the system shows them
    reason: str  # why there is no figure, or fewer pairs than there might be; "" otherwise


def listen(seconds: float) -> Noise:
    """Compare the built-in model with itself for so long, with a line that shows how far it is."""
    line, margins = progress_line(), (DEFAULT_MARGINS["latency_p50"],)
    settings = CompareSettings(
        margins=margins,
        alpha=ALPHA,
        batch_size=ROWS,
        time_s=seconds,
        progress=lambda progress: line.show(f"equal processes take turns: {progress.stage}"),
    )
    noise = read_noise(lambda: compare_with_itself(MODEL, rows(), settings))
    clear_progress()
    return noise


def read_noise(read: Callable[[], SelfComparison], snapshot: Callable[[], Snapshot] | None = None) -> Noise:
    """Run the pairs and return their noise; an error that kept them from running becomes its reason."""
    watch = disturbance.Interference(snapshot)
    try:
        seen = read()
    except HwperfError as error:
        return noise_of(SelfComparison(changes=(), latency_s=None, seconds=0.0, lost=str(error)))
    return noise_of(seen, tuple(map(str, watch.end()[1])))


def noise_of(seen: SelfComparison, disturbances: tuple[str, ...] = ()) -> Noise:
    """Return the noise of equal sides, judged by the gate's own test at its first look."""
    level = SHARES[0] * ALPHA
    return Noise(
        pairs=len(seen.changes),
        seconds=seen.seconds,
        latency_s=seen.latency_s,
        differences=tuple(map(expm1, seen.changes)),
        alpha=ALPHA,
        level=level,
        margin=MARGIN,
        needs=tuple(pairs_for(change, seen.changes, level) for change in CHANGES),
        disturbances=disturbances,
        reason=seen.lost,
    )


def pairs_for(change: float, changes: Sequence[float], level: float) -> PairsNeeded:
    """Return the pairs that finding a change takes at `level`, in the noise of `changes` (log ratios)."""
    pairs, reason = None, "within the margin" if change <= MARGIN else "too few pairs to say"
    if change > MARGIN and len(changes) >= fewest_pairs(level):
        pairs = pairs_needed(changes, change, level, MARGIN)
        reason = "" if pairs else f"more than {MOST_PAIRS} pairs"
    return PairsNeeded(change=change, pairs=pairs, reason=reason)


def render_noise(noise: Noise) -> list[str]:
    """Describe the noise, a paragraph each."""
    if not noise.pairs or noise.latency_s is None:
        return [f"No pair of equal processes gave a value: {noise.reason or 'the time was too short; give more'}."]
    shown = (min(noise.differences), median(noise.differences), max(noise.differences))
    low, middle, high = (f"{100 * change:+.2f} %" for change in shown)
    lines = [
        (
            f"{counted(noise.pairs, 'pair')} of equal fresh processes took {show(noise.seconds, 's')}: the two sides' "
            f"median latency differed by {low} .. {high}, by {middle} in the median pair (a built-in model, "
            f"{show(noise.latency_s, 's')} a call)."
        )
    ]
    if noise.reason:
        lines.append(f"It ended early: {noise.reason}.")
    fewest, each_s, found = fewest_pairs(noise.level), noise.seconds / noise.pairs, list[str]()
    for need in sorted(noise.needs, key=lambda need: need.change <= noise.margin):
        told = f"needs {need.reason}"
        if need.pairs is not None:
            pairs = f"{counted(need.pairs, 'pair')} of fresh processes"
            told = f"needs about {pairs} ({need.pairs * each_s:.0f} s)"
        elif need.change <= MARGIN:
            told = "is never called, as it lies within the default margin"
        found.append(f"a {100 * need.change:g} % slowdown {told}")
    if noise.pairs < fewest:
        few = f"That is too few to say what a slowdown needs: the gate's test takes {fewest} pairs at least."
        lines.append(f"{few} Give more --seconds.")
    else:
        lines += [
            f"On this machine now {', '.join(found[:-1])}, and {found[-1]}.",
            (
                f"By the gate's test: exact signed ranks beyond a margin of {100 * noise.margin:g} %, at "
                f"{100 * noise.level:g} %, the first look of {100 * noise.alpha:g} % false alarms per build. With so "
                f"many pairs about half of all builds find it; {SCREEN_PAIRS} pairs of the screen come before. Your "
                "tests may be noisier: hwperf selfcheck asks them."
            ),
        ]
    return [*lines, *(f"Meanwhile {disturbance}." for disturbance in noise.disturbances)]
