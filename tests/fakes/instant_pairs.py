"""A plugin for runs of pytest within tests: pairs take no time and find both sides equal; the rehearsal stays real.

`-pfakes.instant_pairs`, as one word. What can be compared is `equivalent` then, and has no reason beside its method.
"""

import math
from array import array

import pytest

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.records.evidence import Evidence, Observation, Pair
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.pairs.sequence import Step, next_step


def conduct(self: Conductor, evidence: Evidence, until: float, why_late: Statement | None) -> Evidence:
    """Stand for `Conductor.conduct`."""
    del until, why_late
    self.seconds["screen"] = 0.0
    while (step := next_step(evidence)).stage is not None:
        evidence = replace(evidence, pairs=(*evidence.pairs, played_pair(evidence, step)))
    return evidence


def played_pair(evidence: Evidence, step: Step, slower: str = "no such test") -> Pair:
    """Return the next pair: equal sides, but of tests whose ids end so."""
    return Pair(
        number=len(evidence.pairs) + 1,
        stage=step.stage or "screen",
        first="baseline",
        hash_seeds={"baseline": 1, "candidate": 2},
        assignments=(),
        observations=tuple(
            Observation(
                measurement=one.measurement,
                metric=one.margin.metric,
                statistic=one.margin.statistic,
                baseline=array("d", [1.0, 1.0]),
                candidate=array("d", [times, times]),
                change=math.log(times),
            )
            for one in evidence.hypotheses
            for times in (1.5 if one.measurement.test.endswith(slower) else 1.0,)
            if one.measurement in step.measurements
        ),
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Stand for the pairs also where `fakes.repeated_pairs` does."""
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(Conductor, "conduct", conduct)
