"""Energy estimated from CPU time, where no counter can be read."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.host.machine import read_processor
from pytest_hwperf.meters.counters import refusal_warnings
from pytest_hwperf.meters.process import CpuTimeMeter
from pytest_hwperf.records.contracts import Covered, Meter
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Reading

WATTS_VARIABLE = "HWPERF_WATTS"  # IDLE..BUSY in W per vCPU

_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_GIVEN = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watts:
    """Power of one vCPU, idle and busy."""

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


# Brand and family as in /proc/cpuinfo; model → steppings, None = all. The watts come from SPECpower results of servers
# (Cloud Carbon Footprint, per vCPU), so the brand counts too: a Ryzen of the same family and model is no EPYC. What is
# not named (Kaby Lake, Cooper Lake) has no figures.
_SERVERS: tuple[tuple[str, str, Mapping[str, range | None], Watts], ...] = (
    ("EPYC", "23", {"1": None}, Watts(processor="EPYC 1st generation", idle_w=0.82, busy_w=2.55)),
    ("EPYC", "23", {"49": None}, Watts(processor="EPYC 2nd generation", idle_w=0.474, busy_w=1.693)),
    ("EPYC", "25", {"1": None}, Watts(processor="EPYC 3rd generation", idle_w=0.445, busy_w=2.019)),
    ("Xeon", "6", {"42": None, "45": None}, Watts(processor="Sandy Bridge", idle_w=2.17, busy_w=8.58)),
    ("Xeon", "6", {"58": None, "62": None}, Watts(processor="Ivy Bridge", idle_w=3.04, busy_w=8.25)),
    ("Xeon", "6", {"60": None, "63": None}, Watts(processor="Haswell", idle_w=1.90, busy_w=6.01)),
    ("Xeon", "6", {"71": None, "79": None, "86": None}, Watts(processor="Broadwell", idle_w=0.713, busy_w=3.69)),
    ("Xeon", "6", {"94": None, "85": range(5)}, Watts(processor="Skylake", idle_w=0.645, busy_w=4.19)),
    ("Xeon", "6", {"85": range(5, 8)}, Watts(processor="Cascade Lake", idle_w=0.639, busy_w=3.97)),
    ("Xeon", "6", {"158": range(10, 14)}, Watts(processor="Coffee Lake", idle_w=1.14, busy_w=5.42)),
)
_GENERIC = Watts(processor="no known microarchitecture", idle_w=0.74, busy_w=3.5)


def watts_of(processor: Mapping[str, str]) -> Watts:
    """Return the watts of a processor described by /proc/cpuinfo, the generic pair where it is not in the table."""
    name, model = processor.get("model name", ""), processor.get("model", "")
    for brand, family, models, watts in _SERVERS:
        if brand in name and processor.get("cpu family", "") == family and model in models:
            steppings = models[model]
            if steppings is None or processor.get("stepping", "") in map(str, steppings):
                return watts
    return _GENERIC


def given_watts(text: str) -> Watts:
    """Return the watts that the user gave as `0.5..2.1`."""
    match = _GIVEN.fullmatch(text)
    idle_w, busy_w = map(float, match.groups()) if match else (0.0, 0.0)
    if not 0 <= idle_w < busy_w < math.inf:
        raise UsageProblem(
            f"-o hwperf_watts={text} (or {WATTS_VARIABLE}): give IDLE..BUSY in W per vCPU, such as 0.5..2.1. Watts are "
            "never negative, and a busy vCPU draws more than an idle one"
        )
    return Watts(processor="as given", idle_w=idle_w, busy_w=busy_w, origin="hwperf_watts")


class EstimateMeter:
    """Joules that the CPU time of a window would take on a typical server: nothing but CPU time enters it."""

    metric = "energy"
    covers: Covered = "estimate"
    source = "estimate:cpu-time"
    shortest_window_s = 0.0

    def __init__(self, cpu_time: Meter, watts: Watts, *, refused: tuple[str, ...] = ()) -> None:
        """Multiply what `cpu_time` counts by `watts`; `refused` says why better sources are not used."""
        self._cpu_time = cpu_time
        self.watts = watts
        self.warnings = (
            (
                f"estimate: not a measurement, but {watts.per_cpu_second:.4g} J per CPU second, from {watts}; such "
                "estimators err up to 40 % (arXiv 2509.22092) and see neither clock rate, vector units, memory nor GPU"
            ),
            *refusal_warnings(refused),
        )

    def start(self) -> object:
        return self._cpu_time.start()

    def end(self, started: object) -> Reading:
        return self.derive(self._cpu_time.end(started))

    def derive(self, cpu_time: Reading) -> Reading:
        if cpu_time.value is None:
            return cpu_time
        return Reading(value=cpu_time.value * self.watts.per_cpu_second)

    def close(self) -> None:
        self._cpu_time.close()


def estimate_meter(
    environ: Mapping[str, str], *, refused: tuple[str, ...] = (), root: str | Path = "/"
) -> EstimateMeter:
    """Return the estimate for this machine; `refused` is a warning. Without watts given by the user it always works.

    HWPERF_WATTS in `environ` replaces the watts of the table, which are those of the processor that /proc under `root`
    describes; other systems get the generic ones.
    """
    return EstimateMeter(CpuTimeMeter(), watts_here(environ, root=root), refused=refused)


def watts_here(environ: Mapping[str, str], *, root: str | Path = "/") -> Watts:
    """Return the watts given by the user, else those of this machine's processor."""
    text = environ.get(WATTS_VARIABLE, "")
    return given_watts(text) if text else watts_of(read_processor(root))
