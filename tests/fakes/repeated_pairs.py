"""A plugin for runs of pytest within tests: one rehearsal and one pair, repeated as often as is asked.

`-pfakes.repeated_pairs`, as one word. Screening and confirming a slowdown takes fourteen pairs, which are fourteen
times the same work: here both processes, their turns and their values are real, but there is one pair of them.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.records.evidence import Evidence
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.pairs.sequence import next_step


def conduct(self: Conductor, evidence: Evidence, until: float, why_late: Statement | None) -> Evidence:
    """Stand for `Conductor.conduct`."""
    del why_late
    while (step := next_step(evidence)).stage is not None:
        if not evidence.pairs:
            whole = next_step(replace(evidence, suspects=()))  # of all tests, also those that need no screen
            pair, _ = self._side_by_side(evidence, whole, until)[0]
            assert pair.lost is None, pair.lost  # its log is named
        repeated = replace(pair, number=len(evidence.pairs) + 1, stage=step.stage)
        evidence = replace(evidence, pairs=(*evidence.pairs, repeated))
    return evidence


def pytest_configure(config: pytest.Config) -> None:
    rehearse, traces = Conductor.rehearse, list[PairTrace]()

    def rehearse_once(self: Conductor, nodes: Sequence[str], *limits: float, **named: Any) -> PairTrace:
        if not traces:
            traces.append(rehearse(self, nodes, *limits, **named))
        return traces[0]

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(Conductor, "rehearse", rehearse_once)
    patch.setattr(Conductor, "conduct", conduct)
