"""Which margins of energy the pairs are asked for: none that the meter could not tell from its own steps."""

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import pytest

from pytest_hwperf.plugin.gate import _energy
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.run import Reading
from pytest_hwperf.stats.hypotheses import EnergySource


class Simple:
    """A meter without steps."""

    metric = "energy"
    shortest_window_s = 0.5
    warnings: tuple[str, ...] = ()

    def __init__(self, source: str = "bench:supply", covers: Covered = "processors") -> None:
        self.source = source
        self.covers = covers

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


@pytest.mark.parametrize(
    ("meter", "asked"),
    [
        (Stepping(0.03), EnergySource(source="rapl:package-0", step=0.03 / Stepping.shortest_window_s)),
        (Simple(), EnergySource(source="bench:supply", step=0.0)),
        (None, None),
        (Simple("estimate:cpu-time", "estimate"), None),
    ],
)
def test_a_counter_is_known_by_the_share_of_its_step_and_what_does_not_measure_is_not_asked(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, meter: object, asked: EnergySource | None
) -> None:
    monkeypatch.setattr("pytest_hwperf.plugin.gate.session_of", lambda _: SimpleNamespace(energy=meter))
    assert asked == _energy(pytester.parseconfig())
