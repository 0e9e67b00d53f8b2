"""Performance regression testing of machine-learning models for pytest.

PYTEST_DONT_REWRITE: it may be loaded before pytest starts, and its assertions are none of a test.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hwperf.records.contracts import Predictor, Scenario
    from pytest_hwperf.records.errors import HwperfError, ScenarioUnavailable, UsageProblem
    from pytest_hwperf.records.run import Estimate, Run, Sample
    from pytest_hwperf.records.verdict import Comparison, Verdict

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "Estimate",
    "HwperfError",
    "Predictor",
    "Run",
    "Sample",
    "Scenario",
    "ScenarioUnavailable",
    "UsageProblem",
    "Verdict",
    "__version__",
]

_HOMES = {
    **dict.fromkeys(("Predictor", "Scenario"), "contracts"),
    **dict.fromkeys(("Comparison", "Verdict"), "verdict"),
    **dict.fromkeys(("Estimate", "Run", "Sample"), "run"),
}


def __getattr__(name: str) -> object:
    """Load public names on first use: making the records takes milliseconds that an unused plugin must not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"pytest_hwperf.records.{_HOMES.get(name, 'errors')}"), name)
