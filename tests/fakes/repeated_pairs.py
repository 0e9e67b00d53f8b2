"""A plugin for runs of pytest within tests: one rehearsal, whose times are those of every pair.

`-pfakes.repeated_pairs`, as one word. Screening and confirming a slowdown takes fourteen pairs, which are fourteen
times the same work: here both processes, their turns and their values are real, but there is one pair of them.
"""

from typing import Any

import pytest

from pytest_hwperf.core.evidence import Evidence, Pair
from pytest_hwperf.core.paired import pair_value
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.sequence import next_step
from pytest_hwperf.pairs.conductor import Conductor
from pytest_hwperf.pairs.lockstep import PairTrace


def pytest_configure(config: pytest.Config) -> None:
    rehearse, traces = Conductor.rehearse, list[PairTrace]()

    def rehearse_once(self: Conductor, *arguments: Any, **named: Any) -> PairTrace:
        if not traces:
            traces.append(rehearse(self, *arguments, **named))
        return traces[0]

    def conduct(_: Conductor, evidence: Evidence, *__: object) -> Evidence:
        interleavings = traces[0].interleavings.values()
        observations = [one for interleaving in interleavings for one in interleaving.observations]
        while (step := next_step(evidence)).stage is not None:
            pair = Pair(
                number=len(evidence.pairs) + 1,
                stage=step.stage,
                first=traces[0].first,
                hash_seeds=traces[0].hash_seeds,
                assignments=tuple(interleaving.assignment for interleaving in interleavings),
                observations=tuple(replace(one, change=pair_value(one)) for one in observations),
            )
            evidence = replace(evidence, pairs=(*evidence.pairs, pair))
        return evidence

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(Conductor, "rehearse", rehearse_once)
    patch.setattr(Conductor, "conduct", conduct)
