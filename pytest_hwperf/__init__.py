"""Performance regression testing of machine-learning models for pytest.

PYTEST_DONT_REWRITE: it may be loaded before pytest starts, and its assertions are none of a test.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hwperf.core.errors import HwperfError, ScenarioUnavailable, UsageProblem
    from pytest_hwperf.core.records import Comparison, Estimate, Run, Sample, Verdict

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "Estimate",
    "HwperfError",
    "Run",
    "Sample",
    "ScenarioUnavailable",
    "UsageProblem",
    "Verdict",
    "__version__",
]

_ERRORS = ("HwperfError", "ScenarioUnavailable", "UsageProblem")


def __getattr__(name: str) -> object:
    """Load public names on first use: making the records takes milliseconds that an unused plugin must not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ERRORS:
        from pytest_hwperf.core import errors as home
    else:
        from pytest_hwperf.core import records as home  # type: ignore[no-redef]
    return getattr(home, name)
