"""Profiles of both sides, each in a fresh process: of measurements that got slower, or that were asked about."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic

from pytest_hwperf.core.errors import HwperfError
from pytest_hwperf.core.evidence import Evidence, Measurement, PairedProfiles, Side
from pytest_hwperf.core.hypotheses import SIDES, Facts
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.operators import ProfiledCalls
from pytest_hwperf.core.sequence import decide
from pytest_hwperf.core.statements import state
from pytest_hwperf.gate.asking import BothSides
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.pairs.conductor import Progress

_MOST = 5  # measurements that are profiled without being asked about: each takes two processes


@dataclass(slots=True, kw_only=True)
class SideProfiler:
    """Asks fresh processes of both sides where the time of a call goes."""

    sides: BothSides
    asked: bool  # whether the operators of every measurement were asked for, and not of regressions alone
    repeats: int = 1  # profiles of each side
    progress: Callable[[Progress], None] = lambda _: None
    seconds: float = 0.0  # spent so far
    lost: list[str] = field(default_factory=list)  # why a side was asked and its operators are not known

    def profiles(self, evidence: Evidence, facts: Mapping[Measurement, Mapping[Side, Facts]]) -> list[PairedProfiles]:
        """Return the profiles of all measurements that are to be explained, as long as there is time."""
        began, found = monotonic(), list[PairedProfiles]()
        chosen = list(self._chosen(evidence, facts))
        number = len(chosen) if self.asked else min(len(chosen), _MOST)
        for place, measurement in enumerate(chosen):
            if monotonic() >= self.sides.until or (len({one.measurement for one in found}) == _MOST and not self.asked):
                break
            left_s = (number - place) * (monotonic() - began) / place if place else None
            self.progress(Progress(stage="operators", pair=place + 1, of=number, test=measurement.test, left_s=left_s))
            found.extend(self._repeated(measurement))
        self.seconds = monotonic() - began
        return found

    def _repeated(self, measurement: Measurement) -> Iterator[PairedProfiles]:
        """Yield the profiles of both sides, as often as there is time; a side that gives none is asked no more."""
        for _ in range(self.repeats):
            task = WorkerTask(role="operators", node=measurement.test, label=measurement.label)
            answers = self.sides.ask(task, SIDES)
            found = {side: self._operators(measurement, side, answer) for side, answer in answers.items()}
            baseline, candidate = (found.get(side) for side in SIDES)
            if baseline is None or candidate is None:
                break
            yield PairedProfiles(measurement=measurement, baseline=baseline, candidate=candidate)
            if monotonic() >= self.sides.until:
                break

    def _chosen(self, evidence: Evidence, facts: Mapping[Measurement, Mapping[Side, Facts]]) -> Iterator[Measurement]:
        """Yield the measurements whose calls were compared, and whose runtime knows operators on both sides."""
        found = dict[Measurement, None]()
        for hypothesis, comparison in decide(evidence).items():
            metric, statistic = hypothesis.margin.key
            known = metric_of(metric).is_profiled(statistic) and comparison.change is not None
            if known and (self.asked or comparison.outcome == "regressed"):
                found[hypothesis.measurement] = None
        for here in found:
            sides = facts.get(here, {})
            if len(sides) == len(SIDES) and all(one.has_operators for one in sides.values()):
                yield here

    def _operators(
        self, measurement: Measurement, side: Side, answer: WorkerResult | HwperfError
    ) -> ProfiledCalls | None:
        """Return the profile of one side; None where its process gives none: the verdict stands without it."""
        if isinstance(answer, HwperfError):
            why = answer.sentence
        elif answer.operators is not None:
            return answer.operators
        else:
            why = "; ".join(answer.reasons.values())
        self.lost.append(f"{measurement.test}: {state('operators unknown', side=side, why=why)}")
        return None
