"""Performance regression testing of machine-learning models for pytest.

PYTEST_DONT_REWRITE: it may be loaded before pytest starts, and its assertions are none of a test.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hwperf.cli.frames import read_history, read_report
    from pytest_hwperf.meters.energy_window import EnergyMeter
    from pytest_hwperf.meters.memory import MemoryWindows as MemoryMeter
    from pytest_hwperf.plugin.fixture.hwperf import Hwperf
    from pytest_hwperf.plugin.fixture.targets import ReadyScenario
    from pytest_hwperf.plugin.marks import budget, regression, scenarios
    from pytest_hwperf.records.contracts import Meter, Predictor, Scenario, ScenarioFactory
    from pytest_hwperf.records.errors import (
        HwperfError,
        MeterUnavailable,
        ScenarioUnavailable,
        StoreError,
        UsageProblem,
    )
    from pytest_hwperf.records.run import Estimate, Reading, Run, Sample
    from pytest_hwperf.records.verdict import Comparison, Verdict

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "EnergyMeter",
    "Estimate",
    "Hwperf",
    "HwperfError",
    "MemoryMeter",
    "Meter",
    "MeterUnavailable",
    "Predictor",
    "Reading",
    "ReadyScenario",
    "Run",
    "Sample",
    "Scenario",
    "ScenarioFactory",
    "ScenarioUnavailable",
    "StoreError",
    "UsageProblem",
    "Verdict",
    "__version__",
    "budget",
    "read_history",
    "read_report",
    "regression",
    "scenarios",
]

_HOMES = {
    **dict.fromkeys(("Meter", "Predictor", "Scenario", "ScenarioFactory"), "records.contracts"),
    **dict.fromkeys(("Comparison", "Verdict"), "records.verdict"),
    **dict.fromkeys(("Estimate", "Reading", "Run", "Sample"), "records.run"),
    **dict.fromkeys(("budget", "regression", "scenarios"), "plugin.marks"),
    **dict.fromkeys(("read_history", "read_report"), "cli.frames"),
    "EnergyMeter": "meters.energy_window",
    "Hwperf": "plugin.fixture.hwperf",
    "MemoryMeter": "meters.memory",
    "ReadyScenario": "plugin.fixture.targets",
}
_THERE = {"MemoryMeter": "MemoryWindows"}  # public name → that in its home, where `MemoryMeter` is of whole processes


def __getattr__(name: str) -> object:
    """Load public names on first use: making the records takes milliseconds that an unused plugin must not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"pytest_hwperf.{_HOMES.get(name, 'records.errors')}")
    return getattr(home, _THERE.get(name, name))
