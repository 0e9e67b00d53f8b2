"""How many pairs of a build run side by side: as many as was asked for, or as many as pays and the machine bears."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hwperf.core.evidence import Hypothesis
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.host.memory import available_bytes, largest_child_bytes
from pytest_hwperf.pairs.lockstep import PairTrace

# Processors → pairs side by side that were measured to pay there, by benchmarks/side_by_side.py. On two processors
# two are not shown to, and more have not been measured: docs/decisions/0035-pairs-side-by-side.md.
MEASURED_TO_PAY: Mapping[int, int] = {}
_MEMORY = 0.8  # of what is available, that the processes of all pairs may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a machine bears side by side."""

    processors: Sequence[int]  # on which sides may take their turns; none where the scheduler chooses
    paying: Mapping[int, int] = field(default_factory=lambda: MEASURED_TO_PAY)  # processors → pairs that pay there
    available: Callable[[], int | None] = available_bytes  # returns free memory, None where it is not known
    largest: Callable[[], int | None] = largest_child_bytes  # returns what the largest process so far took, the same


def pairs_at_once(
    given: int | None,
    trace: PairTrace,
    hypotheses: Sequence[Hypothesis],
    machine: Machine,
) -> tuple[int, str]:
    """Return how many pairs run side by side, and why only one where more would have paid; "" where it is no loss.

    Args:
        given: by the user; None: as many as pays.
        trace: of the rehearsal.
        hypotheses: that the pairs are asked.
        machine: on which they run.
    """
    if given is not None:
        return given, ""
    pays = max((pairs for least, pairs in machine.paying.items() if least <= len(machine.processors)), default=1)
    why = _why_one(trace, hypotheses) if pays > 1 else ""
    if pays == 1 or why:
        return 1, why
    free, taken = machine.available(), machine.largest()
    if not free or not taken:
        return 1, "it is not known what memory they would take"
    fitting = math.floor(_MEMORY * free / (len(SIDES) * taken))
    return max(1, min(pays, fitting)), "more would not fit into memory" if fitting <= 1 else ""


def _why_one(trace: PairTrace, hypotheses: Sequence[Hypothesis]) -> str:
    """Say what in a rehearsal another pair would disturb, "" where there is nothing."""
    if any(metric_of(one.margin.metric).in_turns == "window" for one in hypotheses):
        return "energy is compared, of which the counter has that of all processes"
    for measurement, interleaving in trace.interleavings.items():
        if interleaving.assignment.processor is None:
            return f"{measurement.test} does not keep to one processor"
    return ""
