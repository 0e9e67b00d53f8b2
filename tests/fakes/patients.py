"""Whole machines as the doctor looks at them, under a temporary folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fakes.powercap import calm

from pytest_hwperf.cli.doctor import Probes
from pytest_hwperf.cli.doctor_noise import Fact
from pytest_hwperf.host.clocks import ClockPrecision
from pytest_hwperf.host.disturbance import SystemState, read_system_state
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.estimate import estimate_meter
from pytest_hwperf.meters.perf import perf_meter
from pytest_hwperf.meters.rapl import rapl_meter
from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.errors import MeterUnavailable

ONE_THREAD: Mapping[str, Any] = {
    "blas_threads": {"openblas 0.3": 1},
    "onnxruntime_version": "1.31",
    "onnxruntime_default_threads": 0,
    "onnxruntime_scenario_threads": 1,
    "thread_settings": {},
}


class Sources:
    """Opens the plugin's own energy meters on a machine; other names are not there."""

    def __init__(self, access: Access, environ: Mapping[str, str]) -> None:
        self._access = access
        self._environ = environ

    def __call__(self, name: str) -> Meter:
        if name == "rapl":
            return rapl_meter(self._environ, access=replace(self._access, check=calm))
        if name == "perf":
            return perf_meter(self._environ, access=replace(self._access, check=calm))
        if name == "estimate":
            return estimate_meter(self._environ)
        raise MeterUnavailable(f"There is no {name} here.")


PEAKS = [
    Fact("rates", "1 thread", {"threads": 1, "flops_per_s": 104e9, "bytes_per_s": 11.9e9}, "104 GFLOP/s"),
    Fact("rates", "2 threads", {"threads": 2, "flops_per_s": 146e9, "bytes_per_s": 13.4e9}, "146 GFLOP/s"),
    Fact("kept", "kept", {"file": "/home/user/peaks/0123456789abcdef.json", "reason": ""}, "/home/user/peaks"),
]


def patient(access: Access, *, environ: Mapping[str, str] | None = None) -> Probes:
    """A machine of two cores, with a clock that takes 50 ns, whose state psutil cannot read."""
    given = environ or {}
    return Probes(
        access=access,
        environ=given,
        open_one=Sources(access, given),
        usable=lambda: 2,
        online=lambda: 2,
        clock=lambda: ClockPrecision(step_s=40e-9, cost_s=50e-9),
        cpu_step=lambda: 1e-6,
        system=bare_state,
        threads=lambda _: ONE_THREAD,
        peaks=lambda _: PEAKS,
    )


def bare_state(root: str) -> SystemState:
    """Tell what files show, and nothing that psutil would."""
    return replace(read_system_state(root), load_1min=None, steal_share=None, swap_bytes=None, swap_used_bytes=None)


def measurable_memory(root: Path) -> None:
    """Let memory be measured under `root`."""
    folder = root / "proc/self"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text("VmHWM:\t100 kB\nVmRSS:\t90 kB\n")
    (folder / "fd").mkdir(exist_ok=True)
    (folder / "smaps_rollup").write_text("Rss:\t88 kB\n")
