"""Values of the rehearsal that would fail a test, taken again in fresh processes: models may be trained without a seed.

Where each process trains its model again, one process of each side says nothing about the code. An alarm counts only if
the candidate is worse in every process than the baseline in any. If all come from one distribution, k processes a side
are so divided with a probability of 1 / C(2k, k) at most.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from pytest_hwperf.core.comparisons import can_part, compare_accuracy, compare_exact, is_worse_in_all
from pytest_hwperf.core.evidence import FixedSample, Side
from pytest_hwperf.core.hypotheses import SIDES, Questions
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.records import Values, replace
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.pairs.lockstep import PairTrace


def processes_to_part(level: float) -> int:
    """Return the smallest number of processes a side that `can_part`: 5 for 0.01."""
    return next(k for k in count(1) if can_part(k, k, level))


def repeat_alarms(
    questions: Questions,
    alpha: float,
    rehearse: Callable[[Sequence[str]], PairTrace],
    *,
    in_time: Callable[[], bool],
    why_late: Statement,
) -> None:
    """Take the values of each alarm again; one that does not hold in every process becomes inconclusive."""
    alarms = [_Alarm(fixed) for fixed in questions.fixed_samples if _is_alarm(fixed, alpha)]
    for _ in range(1, processes_to_part(alpha / questions.family)):
        if not alarms:
            return
        tests = dict.fromkeys(one.first.hypothesis.measurement.test for one in alarms)
        trace = rehearse(list(tests)) if in_time() else None
        for alarm in list(alarms):
            why = why_late if trace is None else alarm.why_not(trace)
            if why is not None:
                alarms.remove(alarm)
                questions.fixed_samples.remove(alarm.first)
                questions.parts[alarm.first.hypothesis.key] = ("inconclusive", why)
    noted = {id(one.first): one.noted() for one in alarms}
    questions.fixed_samples[:] = [noted.get(id(fixed), fixed) for fixed in questions.fixed_samples]


def _is_alarm(fixed: FixedSample, alpha: float) -> bool:
    """Whether the values of one process of each side would fail their test, were they those of any process."""
    margin, sides = fixed.hypothesis.margin, (fixed.baseline, fixed.candidate)
    if fixed.per == "example":
        return compare_accuracy(*sides, margin, alpha).outcome == "regressed"
    return compare_exact(METRICS[margin.metric], *sides, margin).outcome == "regressed"


class _Alarm:
    """A value for the worse, and what all processes have given of it."""

    def __init__(self, first: FixedSample) -> None:
        self.first = first
        self._values: dict[Side, list[Values]] = {"baseline": [first.baseline], "candidate": [first.candidate]}

    def why_not(self, trace: PairTrace) -> Statement | None:
        """Return why a further pair of processes does not confirm the alarm; None where it does."""
        if trace.lost:
            return trace.lost
        metric, exact = self.first.hypothesis.margin.metric, trace.exact.get(self.first.hypothesis.measurement, {})
        for side in SIDES:
            again = next((one.values for one in exact.get(side, ()) if one.metric == metric), None)
            if again is None:
                return state("processes disagree", what=self._what, side=side)
            self._values[side].append(again)
        differing = next(self._differing(), None)
        margin, per = self.first.hypothesis.margin, self.first.per
        if differing is None or is_worse_in_all(self._values["baseline"], self._values["candidate"], margin, per):
            return None
        return state("processes disagree", what=self._what, side=differing)

    def noted(self) -> FixedSample:
        """Return the values of the first processes, with a note where others have given other ones."""
        if next(self._differing(), None) is None:
            return self.first
        note = state("processes apart", what=self._what, count=len(self._values["candidate"]))
        return replace(self.first, warnings=(*self.first.warnings, str(note)))

    @property
    def _what(self) -> str:
        metric = self.first.hypothesis.margin.metric
        return "predictions differ" if self.first.per == "example" else f"{metric} differs"

    def _differing(self) -> Iterator[Side]:
        """Yield the sides that disagree with themselves."""
        return (side for side in SIDES if any(one != self._values[side][0] for one in self._values[side]))
