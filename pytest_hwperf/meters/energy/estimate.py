"""Energy estimated from CPU time, where no counter can be read."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.core.contracts import Covered, Meter
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Reading
from pytest_hwperf.host.cpuinfo import read_processor
from pytest_hwperf.meters.cpu.cpu_time import CpuTimeMeter
from pytest_hwperf.meters.energy.watts import model_of, read_calibration

WATTS_VARIABLE = "HWPERF_WATTS"  # IDLE..BUSY in W per vCPU, or the path of a calibration file

_CPUINFO = "/proc/cpuinfo"
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_GIVEN = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*")
_FORMS = "Give IDLE..BUSY in W per vCPU, such as 0.5..2.1, or a file that hwperf calibrate has made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watts:
    """What one vCPU draws when idle and when busy."""

    processor: str  # whose watts they are: a microarchitecture, or why it is the generic one
    idle_w: float
    busy_w: float
    origin: str = "Cloud Carbon Footprint"

    @property
    def per_cpu_second(self) -> float:
        """Joules that one second of CPU time adds to the idle machine."""
        return self.busy_w - self.idle_w

    def __str__(self) -> str:
        return f"{self.idle_w:.4g} W idle to {self.busy_w:.4g} W busy per vCPU ({self.processor}; {self.origin})"


_EPYC_1 = Watts(processor="EPYC 1st generation", idle_w=0.82, busy_w=2.55)
_EPYC_2 = Watts(processor="EPYC 2nd generation", idle_w=0.474, busy_w=1.693)
_EPYC_3 = Watts(processor="EPYC 3rd generation", idle_w=0.445, busy_w=2.019)
_SANDY_BRIDGE = Watts(processor="Sandy Bridge", idle_w=2.17, busy_w=8.58)
_IVY_BRIDGE = Watts(processor="Ivy Bridge", idle_w=3.04, busy_w=8.25)
_HASWELL = Watts(processor="Haswell", idle_w=1.90, busy_w=6.01)
_BROADWELL = Watts(processor="Broadwell", idle_w=0.713, busy_w=3.69)
_SKYLAKE = Watts(processor="Skylake", idle_w=0.645, busy_w=4.19)
_CASCADE_LAKE = Watts(processor="Cascade Lake", idle_w=0.639, busy_w=3.97)
_COFFEE_LAKE = Watts(processor="Coffee Lake", idle_w=1.14, busy_w=5.42)
_GENERIC = Watts(processor="no known microarchitecture", idle_w=0.74, busy_w=3.5)

# (brand, family, model) as /proc/cpuinfo gives them. The watts come from SPECpower results of servers (Cloud Carbon
# Footprint, per vCPU), so the brand is asked too: a Ryzen of the same family and model is no EPYC.
_SERVERS: Mapping[tuple[str, str, str], Watts] = {
    ("EPYC", "23", "1"): _EPYC_1,
    ("EPYC", "23", "49"): _EPYC_2,
    ("EPYC", "25", "1"): _EPYC_3,
    ("Xeon", "6", "42"): _SANDY_BRIDGE,
    ("Xeon", "6", "45"): _SANDY_BRIDGE,
    ("Xeon", "6", "58"): _IVY_BRIDGE,
    ("Xeon", "6", "62"): _IVY_BRIDGE,
    ("Xeon", "6", "60"): _HASWELL,
    ("Xeon", "6", "63"): _HASWELL,
    ("Xeon", "6", "71"): _BROADWELL,
    ("Xeon", "6", "79"): _BROADWELL,
    ("Xeon", "6", "86"): _BROADWELL,
    ("Xeon", "6", "94"): _SKYLAKE,
}
# Here the stepping tells the generations apart; what is not named (Kaby Lake, Cooper Lake) has no figures.
_BY_STEPPING: Mapping[tuple[str, str, str], tuple[tuple[range, Watts], ...]] = {
    ("Xeon", "6", "85"): ((range(5), _SKYLAKE), (range(5, 8), _CASCADE_LAKE)),
    ("Xeon", "6", "158"): ((range(10, 14), _COFFEE_LAKE),),
}


def watts_of(processor: Mapping[str, str]) -> Watts:
    """Return the watts of a processor as /proc/cpuinfo describes it, the generic pair where it is not in the table."""
    name = processor.get("model name", "")
    for brand in ("EPYC", "Xeon"):
        key = (brand, processor.get("cpu family", ""), processor.get("model", ""))
        if brand in name and key in _SERVERS:
            return _SERVERS[key]
        for steppings, watts in _BY_STEPPING.get(key, ()):
            if brand in name and processor.get("stepping", "") in map(str, steppings):
                return watts
    return _GENERIC


def given_watts(text: str, processor: Mapping[str, str]) -> Watts:
    """Return the watts that the user gave: `0.5..2.1`, or the path of a calibration file of this processor.

    Raises:
        UsageProblem: what was given, what is allowed and what to type.
    """
    match = _GIVEN.fullmatch(text)
    if match is None:
        return _calibrated(text, processor)
    idle_w, busy_w = map(float, match.groups())
    if not 0 <= idle_w < busy_w < math.inf:
        raise UsageProblem(
            f"{_given(text)}: watts are never negative, and a busy vCPU draws more than an idle one. {_FORMS}"
        )
    return Watts(processor="as given", idle_w=idle_w, busy_w=busy_w, origin="--hwperf-watts")


def _given(text: str) -> str:
    """Name what was given; both ways, since either may have been taken."""
    return f"--hwperf-watts={text} (or {WATTS_VARIABLE})"


def _calibrated(text: str, processor: Mapping[str, str]) -> Watts:
    try:
        found = read_calibration(Path(text), model_of(processor))
    except UsageProblem as problem:
        raise UsageProblem(f"{_given(text)}: {problem}. {_FORMS}") from problem
    origin = f"calibrated by {found.source} at {found.measured_at}"
    return Watts(processor=found.cpu_model, idle_w=found.idle_w, busy_w=found.busy_w, origin=origin)


class EstimateMeter:
    """Joules that the CPU time of a window would take on a typical server: it holds nothing beyond CPU time."""

    metric = "energy"
    covers: Covered = "estimate"
    source = "estimate:cpu-time"
    shortest_window_s = 0.0
    tick_s = None
    domains: tuple[str, ...] = ()

    def __init__(self, cpu_time: Meter, watts: Watts, *, refused: tuple[str, ...] = ()) -> None:
        """Multiply what `cpu_time` counts by `watts`; `refused` says why better sources are not used."""
        self._cpu_time = cpu_time
        self.watts = watts
        self.warnings = (
            (
                "estimate: not a measurement; such estimators err up to 40 % (arXiv 2509.22092) and see neither clock "
                "rate, vector units, memory nor GPU"
            ),
            f"estimate: {watts}, so {watts.per_cpu_second:.4g} J per CPU second",
            # A remedy may have more lines; a footnote has one.
            *(f"better source refused: {reason.splitlines()[0]}" for reason in refused),
        )

    def start(self) -> object:
        """Read the CPU time."""
        return self._cpu_time.start()

    def end(self, started: object) -> Reading:
        """Return the joules estimated since `started`."""
        counted = self._cpu_time.end(started)
        if counted.value is None:
            return counted
        return Reading(value=counted.value * self.watts.per_cpu_second)

    def close(self) -> None:
        """Close the meter of CPU time."""
        self._cpu_time.close()


def estimate_meter(
    environ: Mapping[str, str], *, refused: tuple[str, ...] = (), cpuinfo: str = _CPUINFO
) -> EstimateMeter:
    """Return the estimate for this machine; without watts of the user's own it always works.

    Args:
        environ: HWPERF_WATTS replaces the watts of the table.
        refused: why better sources are not used; shown with every figure.
        cpuinfo: the file that tells the processor; absent on other systems, which get the generic watts.

    Raises:
        UsageProblem: HWPERF_WATTS cannot be meant.
    """
    return EstimateMeter(CpuTimeMeter(), watts_here(environ, cpuinfo=cpuinfo), refused=refused)


def watts_here(environ: Mapping[str, str], *, cpuinfo: str = _CPUINFO) -> Watts:
    """Return the watts of the user's own, else those of this machine's processor.

    Raises:
        UsageProblem: HWPERF_WATTS cannot be meant.
    """
    processor = read_processor(Path(cpuinfo))
    text = environ.get(WATTS_VARIABLE, "")
    return given_watts(text, processor) if text else watts_of(processor)
