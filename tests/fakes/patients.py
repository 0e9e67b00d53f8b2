"""Whole machines as the doctor looks at them, under a temporary folder."""

from collections.abc import Mapping
from pathlib import Path

from fakes.powercap import calm

from pytest_hwperf.cli.doctor.conditions import Threads
from pytest_hwperf.cli.doctor.findings import Place
from pytest_hwperf.core.contracts import Meter
from pytest_hwperf.core.errors import MeterUnavailable
from pytest_hwperf.host.clocks import Clock
from pytest_hwperf.meters.energy.diagnosis import Host
from pytest_hwperf.meters.energy.estimate import estimate_meter
from pytest_hwperf.meters.energy.perf import perf_meter
from pytest_hwperf.meters.energy.rapl import rapl_meter

ONE_THREAD = Threads(
    blas={"openblas 0.3": 1},
    onnxruntime_version="1.31",
    onnxruntime_default=0,
    onnxruntime_scenario=1,
    settings={},
)


class Sources:
    """Opens the plugin's own energy meters on the machine of a host; other names are not there."""

    def __init__(self, host: Host, environ: Mapping[str, str]) -> None:
        self._host = host
        self._environ = environ

    def __call__(self, name: str) -> Meter:
        if name == "rapl":
            return rapl_meter(self._environ, host=self._host, calibrated=calm)
        if name == "perf":
            return perf_meter(self._environ, host=self._host, calibrated=calm)
        if name == "estimate":
            return estimate_meter(self._environ)
        raise MeterUnavailable(f"There is no {name} here.")


def patient(host: Host, *, threads: Threads = ONE_THREAD, environ: Mapping[str, str] | None = None) -> Place:
    """The machine of a host: two cores, and a clock that takes 50 ns."""
    given = environ or {}
    return Place(
        host=host,
        environ=given,
        open_one=Sources(host, given),
        usable=lambda: 2,
        online=lambda: 2,
        clock=lambda: Clock(step_s=40e-9, cost_s=50e-9),
        cpu_step=lambda: 1e-6,
        threads=lambda _: threads,
    )


def weighable(root: Path) -> None:
    """Let memory be weighed under `root`."""
    folder = root / "proc/self"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text("VmHWM:\t100 kB\nVmRSS:\t90 kB\n")
    (folder / "smaps_rollup").write_text("Rss:\t88 kB\n")
