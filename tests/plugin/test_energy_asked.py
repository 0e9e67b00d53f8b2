"""Which margins of energy the pairs are asked for: none that the meter could not tell from its own steps."""

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.core.evidence import Measurement
from pytest_hwperf.core.records import Budget, Margin, Reading
from pytest_hwperf.plugin.hypotheses import Findings, examine
from pytest_hwperf.plugin.markers import Markers
from pytest_hwperf.plugin.state import MARKERS


class Simple:
    """A meter without steps."""

    metric = "energy"
    shortest_window_s = 0.5
    warnings: tuple[str, ...] = ()

    def __init__(self, source: str = "bench:supply") -> None:
        self.source = source

    def start(self) -> object:
        return None

    def end(self, started: object) -> Reading:
        return Reading(value=None, reason=str(started))

    def close(self) -> None:
        """Hold nothing open."""


class Stepping(Simple):
    """Its counter moves every `tick_s`."""

    domains = ("package-0",)
    longest_window_s = 60.0

    def __init__(self, tick_s: float) -> None:
        super().__init__("rapl:package-0")
        self.tick_s = tick_s

    def attended(self) -> AbstractContextManager[None]:
        return nullcontext()


def found(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, meter: object, size: float, *, asked: bool = True
) -> Findings:
    """Examine a rehearsal in which both sides measured one test with that margin of energy."""
    monkeypatch.setattr("pytest_hwperf.plugin.session.session_state", lambda _: SimpleNamespace(energy=meter))
    item = pytester.getitem("def test_it(): pass", "test_it")
    margin = Margin(metric="energy", statistic="mean", size=size)
    budget = Budget(keyword="energy_budget_mj", metric="energy", statistic="mean", limit=1.0)
    item.stash[MARKERS] = Markers(budgets=(budget,) * asked, margins=(margin,), named=())
    sides: dict[str, Any] = {"baseline": {}, "candidate": {}}
    passed = {"outcome": "passed", "recorded": {}}
    met = SimpleNamespace(
        collected={side: [item.nodeid] for side in sides},
        outcomes={item.nodeid: dict.fromkeys(sides, passed)},
        facts={Measurement(test=item.nodeid, label=""): sides},
        exact={},
        uneven={},
    )
    return examine([item], met, {}, "HEAD")  # type: ignore[arg-type] # what of a meeting is read


@pytest.mark.parametrize(("tick_s", "size"), [(0.001, 0.05), (0.03, 0.12), (None, 0.05)])
def test_a_margin_that_the_meter_can_tell_is_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tick_s: float | None, size: float
) -> None:
    findings = found(pytester, monkeypatch, Stepping(tick_s) if tick_s else Simple(), size)

    assert [("energy", size)] == [
        (hypothesis.margin.metric, hypothesis.margin.size) for hypothesis in findings.hypotheses
    ]
    assert {} == findings.parts


@pytest.mark.parametrize(
    ("tick_s", "size", "why"),
    [
        (0.001, 0.04, "meter too coarse: rapl:package-0 can tell margins of 5 % or more, not 4 %"),
        (0.03, 0.11, "meter too coarse: rapl:package-0 can tell margins of 12 % or more, not 11 %"),
    ],
)
def test_a_smaller_one_is_undecided_and_says_why(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tick_s: float, size: float, why: str
) -> None:
    """Below 5 %, or below twice the step within the shortest window."""
    findings = found(pytester, monkeypatch, Stepping(tick_s), size)

    assert [] == findings.hypotheses
    assert [("inconclusive", why)] == [*findings.parts.values()]


@pytest.mark.parametrize("meter", [None, Simple("estimate:cpu-time")])
def test_what_does_not_measure_is_not_asked(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, meter: object
) -> None:
    findings = found(pytester, monkeypatch, meter, 0.05)

    assert ([], {}) == (findings.hypotheses, findings.parts)


def test_energy_that_nobody_names_takes_no_windows(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = found(pytester, monkeypatch, Simple(), 0.05, asked=False)

    assert ([], {}) == (findings.hypotheses, findings.parts)
