"""What all scenarios on an NVIDIA GPU have in common: without one they are skipped."""

from pytest_hwperf.core.errors import ScenarioUnavailable
from pytest_hwperf.host.nvidia import NvidiaGpus


def require_gpu(gpus: NvidiaGpus) -> None:
    """Refuse a scenario of a GPU where this process has none.

    Whatever a runtime lacks on a machine that has one is an error of the scenario itself, and no skip.
    """
    if not gpus.models:
        raise ScenarioUnavailable(f"no NVIDIA GPU: {gpus.why_none}")
