"""The marker `benchmark` of pytest-benchmark and pytest-codspeed: its keywords, and what is wrong with them."""

import pytest

from pytest_hwperf.plugin.session.state import BENCHMARK_MARKS
from pytest_hwperf.records.markers import nearest_or_all

MEANT = frozenset({"group", "max_time", "disable_gc"})  # keywords that mean something here
_TIMING = frozenset(
    {
        "min_rounds",
        "max_rounds",
        "min_time",
        "timer",
        "precision",
        "calibration_precision",
        "warmup",
        "warmup_iterations",
    }
)
_KEYWORDS = MEANT | _TIMING | {"confidence", "cprofile"}


def marker_problems(item: pytest.Item) -> list[str]:
    """Return what is wrong with these markers of a test, a sentence each."""
    found = list[str]()
    for mark in (mark for name in BENCHMARK_MARKS for mark in item.iter_markers(name)):
        if mark.args:
            given = ", ".join(map(repr, mark.args))
            found.append(f"{mark.name}({given}): only keywords are taken, such as {mark.name}(group='predict')")
        for name in mark.kwargs.keys() - _KEYWORDS:
            found.append(f"{mark.name}({name}=…): unknown keyword.{nearest_or_all(name, _KEYWORDS)}")
        seconds = mark.kwargs.get("max_time", 1)
        if not isinstance(seconds, int | float) or not 0 < seconds <= 3600:  # noqa: PLR2004 - as of --hwperf-sample-time
            found.append(f"{mark.name}(max_time={seconds!r}): a number of seconds above 0 up to 3600, such as 2")
    return found
