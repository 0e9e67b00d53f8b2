"""Typed keys of what the plugin keeps on pytest's objects, and the cheap questions about a test."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_hwperf.core.evidence import Gate
    from pytest_hwperf.core.records import Comparison, Margin, Run, Skip
    from pytest_hwperf.plugin.gate import Rerun
    from pytest_hwperf.plugin.markers import Markers
    from pytest_hwperf.plugin.options import Settings
    from pytest_hwperf.plugin.pair_worker import Summoned
    from pytest_hwperf.plugin.session import SessionState
    from pytest_hwperf.plugin.worker import Obeying

SETTINGS: "pytest.StashKey[Settings]" = pytest.StashKey()
PROBLEMS: "pytest.StashKey[list[str]]" = pytest.StashKey()  # bad markers, told together at the end of the collection
OBEYING: "pytest.StashKey[Obeying | Summoned]" = pytest.StashKey()  # there in a fresh process only
RERUN: "pytest.StashKey[Rerun]" = pytest.StashKey()  # what the pairs found, for all tests; there where pairs ran
SESSION_STATE: "pytest.StashKey[SessionState]" = pytest.StashKey()
MARKERS: "pytest.StashKey[Markers]" = pytest.StashKey()  # of one test
RUNS: "pytest.StashKey[list[Run]]" = pytest.StashKey()  # what one test measured
OWN_MARGINS: "pytest.StashKey[list[Margin]]" = pytest.StashKey()  # of metrics that the test itself recorded
COMPARED: "pytest.StashKey[list[tuple[Run, tuple[Comparison, ...], Gate]]]" = pytest.StashKey()  # by hwperf.compare
SKIPS: "pytest.StashKey[list[Skip]]" = pytest.StashKey()  # scenarios without a form for this model
RESULT: "pytest.StashKey[str]" = pytest.StashKey()  # what goes onto the report, as JSON

_MARKS = ("hwbudget", "hwregression", "hwscenarios")


def is_marked(item: pytest.Item) -> bool:
    """Whether a test carries one of the plugin's markers or uses its fixture."""
    return any(item.get_closest_marker(name) for name in _MARKS) or is_measured(item)


def is_measured(item: pytest.Item) -> bool:
    """Whether a test is measured: it uses the fixture `hwperf`, or has a budget and is measured itself."""
    return "hwperf" in getattr(item, "fixturenames", ()) or item.get_closest_marker("hwbudget") is not None
