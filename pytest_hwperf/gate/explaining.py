"""Why something got slower: fresh processes of both sides profile what changed, several times and in turns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Literal

from pytest_hwperf.gate.processes import BothSides
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.worker_protocol import Role, WorkerResult, WorkerTask
from pytest_hwperf.records.errors import HwperfError, MeasurementError
from pytest_hwperf.records.evidence import Evidence, Explanation, Hypothesis, Measurement, PairedProfiles, Side
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.profiles import ProfiledCalls, SampledCalls
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.causes.explanations import (
    MOST_OF_IT,
    explain_functions,
    explain_memory,
    explain_nothing,
    explain_operators,
    has_changed,
    unexplained,
)
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Facts
from pytest_hwperf.stats.pairs.sequence import decide

REPEATS = 3  # profiles of each side, for their spread
Explain = Literal["auto", "always", "never"]

_CLEAR, _CLEAR_S = 0.2, 0.5  # a change from which on functions are told apart in so many seconds of samples
_MORE_MAY_SHOW = {"nothing moved", "profiles unlike pairs"}
_PROFILE_S = 1.5  # of the others, by default, beside the start of the processes
_MOST = 5  # comparisons that are explained without being asked about: each takes several processes


@dataclass(slots=True, kw_only=True)
class Explainer:
    """Asks fresh processes of both sides what has moved in the comparisons that changed."""

    sides: BothSides
    wanted: Explain  # regressions alone, every comparison, or none
    operators: bool = False  # whether the operators of every measurement were asked for, and not of regressions alone
    progress: Callable[[Progress], None] = lambda _: None
    seconds: float = 0.0  # spent so far, without the profiles of operators
    profiling_s: float = 0.0  # spent on these
    lost: list[str] = field(default_factory=list)  # why a side was asked and its operators are not known
    _asked: int = 0  # repeats so far, in all comparisons
    _answered: Callable[[int], None] = lambda _: None  # is told of the repeats in the comparison at hand

    def about_s(self, start_s: float) -> float:
        """Return about how many seconds the explanation of one comparison takes, of sides that start in `start_s`."""
        groups = REPEATS * len(SIDES) / self.sides.at_once
        return 0.0 if self.wanted == "never" else groups * (start_s + _PROFILE_S)

    def explanations(self, evidence: Evidence, profiles: Sequence[PairedProfiles]) -> list[Explanation]:
        """Return what moved in each comparison that is to be explained, or why that is not known."""
        began, found = monotonic(), list[Explanation]()
        asked = dict(self._asked_about(evidence))
        chosen = _profiled(asked)
        number = len(chosen) if self.wanted == "always" else min(len(chosen), _MOST)
        for place, hypothesis in enumerate(chosen):
            comparison = asked[hypothesis]
            if place >= number:
                found.append(_withheld(hypothesis, comparison, state("explained enough", most=_MOST)))
            elif self._is_late():
                found.append(_withheld(hypothesis, comparison, state("no time to explain")))
            else:
                here = Progress(stage="explain", pair=place + 1, of=number, test=hypothesis.measurement.test)
                self._answered = partial(self._show, here, began)
                self._answered(0)
                found.extend(self._explain(hypothesis, comparison, profiles))
        self.seconds = monotonic() - began
        return [*found, *_not_profiled(asked, chosen)]

    def _show(self, here: Progress, began: float, repeats: int) -> None:
        """Show how far it is; repeats that are left take as long as those so far."""
        if repeats:
            self._asked += 1
        left = (here.of - here.pair + 1) * REPEATS - repeats
        pace = (monotonic() - began) / self._asked if self._asked else None
        self.progress(replace(here, left_s=None if pace is None else pace * left))

    def _asked_about(self, evidence: Evidence) -> Iterator[tuple[Hypothesis, Comparison]]:
        """Yield the comparisons that are to be explained."""
        for hypothesis, comparison in decide(evidence).items() if self.wanted != "never" else ():
            if comparison.outcome == "regressed" or (self.wanted == "always" and comparison.change is not None):
                yield hypothesis, comparison

    def _explain(
        self, hypothesis: Hypothesis, comparison: Comparison, profiles: Sequence[PairedProfiles]
    ) -> Iterator[Explanation]:
        if metric_of(hypothesis.margin.metric).has_sites:
            yield self._by_sites(hypothesis, comparison)
            return
        alike = [one for one in profiles if one.measurement == hypothesis.measurement]
        if alike:
            operators = explain_operators(hypothesis, comparison, alike)
            yield operators
            if operators.movers and operators.movers[0].share >= MOST_OF_IT:
                return  # a function could only say which one calls the runtime
        yield self._by_functions(hypothesis, comparison)

    def _by_functions(self, hypothesis: Hypothesis, comparison: Comparison) -> Explanation:
        """Return which functions hold a change; where the profiles do not show it, as many are taken once more."""
        clear = comparison.change is not None and abs(comparison.change.value) >= _CLEAR
        try:
            first = self._sampled(hypothesis, _CLEAR_S if clear else 0.0)
        except HwperfError as error:
            return explain_nothing(hypothesis, comparison, "function", said(error.sentence))
        found = explain_functions(hypothesis, comparison, *first)
        if found.withheld is None or found.withheld.kind not in _MORE_MAY_SHOW or self._is_late():
            return found
        with suppress(HwperfError):  # what the first ones have shown is still true
            second = self._sampled(hypothesis, 0.0)
            both = [before + after for before, after in zip(first, second, strict=True)]
            found = explain_functions(hypothesis, comparison, *second)
            found = found if found.movers else explain_functions(hypothesis, comparison, *both)
        return found

    def _sampled(self, hypothesis: Hypothesis, seconds: float) -> list[list[SampledCalls]]:
        """Return the profiles of both sides."""
        results = self._repeats(hypothesis.measurement, "functions", seconds)
        found = [[one.functions for one in results[side] if one.functions and one.functions.stacks] for side in SIDES]
        if not all(found):
            raise MeasurementError(str(state("not sampled")))
        return found

    def _is_late(self) -> bool:
        return monotonic() >= self.sides.until

    def _by_sites(self, hypothesis: Hypothesis, comparison: Comparison) -> Explanation:
        try:
            results = self._repeats(hypothesis.measurement, "sites")
        except HwperfError as error:
            return explain_nothing(hypothesis, comparison, "allocation", said(error.sentence))
        baseline, candidate = ([one.sites for one in results[side]] for side in SIDES)
        return explain_memory(hypothesis, comparison, baseline, candidate)

    def _repeats(self, measurement: Measurement, role: Role, seconds: float = 0.0) -> Mapping[Side, list[WorkerResult]]:
        """Return what fresh processes of both sides have found, which are started in turns: B C, C B, B C."""
        results: dict[Side, list[WorkerResult]] = {side: [] for side in SIDES}
        task = WorkerTask(role=role, node=measurement.test, label=measurement.label, seconds=seconds)
        for repeat in range(REPEATS):
            for side, result in self.sides.ask(task, SIDES[:: -1 if repeat % 2 else 1]).items():
                if isinstance(result, HwperfError):
                    raise MeasurementError(str(state("unexplained", side=side, why=result.sentence))) from result
                if role in result.reasons:
                    raise MeasurementError(str(state("unexplained", side=side, why=result.reasons[role])))
                results[side].append(result)
            self._answered(repeat + 1)
        return results

    def profiles(self, evidence: Evidence, facts: Mapping[Measurement, Mapping[Side, Facts]]) -> list[PairedProfiles]:
        """Return the profiles of all measurements that are to be explained, as long as there is time."""
        began, found, every = monotonic(), list[PairedProfiles](), self.operators or self.wanted == "always"
        chosen = list(self._of_operators(evidence, facts, every=every)) if every or self.wanted != "never" else []
        number = len(chosen) if every else min(len(chosen), _MOST)
        for place, measurement in enumerate(chosen):
            if monotonic() >= self.sides.until or (len({one.measurement for one in found}) == _MOST and not every):
                break
            left_s = (number - place) * (monotonic() - began) / place if place else None
            self.progress(Progress(stage="operators", pair=place + 1, of=number, test=measurement.test, left_s=left_s))
            found.extend(self._repeated(measurement))
        self.profiling_s = monotonic() - began
        return found

    def _repeated(self, measurement: Measurement) -> Iterator[PairedProfiles]:
        """Yield the profiles of both sides, as often as there is time; a side that gives none is asked no more."""
        for _ in range(1 if self.wanted == "never" else REPEATS):
            task = WorkerTask(role="operators", node=measurement.test, label=measurement.label)
            answers = self.sides.ask(task, SIDES)
            found = {side: self._operators(measurement, side, answer) for side, answer in answers.items()}
            baseline, candidate = (found.get(side) for side in SIDES)
            if baseline is None or candidate is None:
                break
            yield PairedProfiles(measurement=measurement, baseline=baseline, candidate=candidate)
            if monotonic() >= self.sides.until:
                break

    def _of_operators(
        self, evidence: Evidence, facts: Mapping[Measurement, Mapping[Side, Facts]], *, every: bool
    ) -> Iterator[Measurement]:
        """Yield the measurements whose calls were compared, and whose runtime knows operators on both sides."""
        found = dict[Measurement, None]()
        for hypothesis, comparison in decide(evidence).items():
            metric, statistic = hypothesis.margin.key
            known = metric_of(metric).is_profiled(statistic) and comparison.change is not None
            if known and (every or comparison.outcome == "regressed"):
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


def _profiled(asked: Mapping[Hypothesis, Comparison]) -> list[Hypothesis]:
    """Return what profiles can explain: memory, and of the calls of a measurement one statistic that moved so."""
    found = dict[object, Hypothesis]()
    for hypothesis, comparison in asked.items():
        metric = metric_of(hypothesis.margin.metric)
        if metric.has_sites:
            found[hypothesis] = hypothesis
        elif metric.is_profiled(hypothesis.margin.statistic):
            found.setdefault((hypothesis.measurement, comparison.outcome), hypothesis)
    return list(found.values())


def _not_profiled(asked: Mapping[Hypothesis, Comparison], chosen: Sequence[Hypothesis]) -> Iterator[Explanation]:
    """Yield why each other change is not explained; what moved with the calls of its measurement shares their cause."""
    led = {(one.measurement, asked[one].outcome) for one in chosen if metric_of(one.margin.metric).goes_with_calls}
    for hypothesis, comparison in asked.items():
        shared = metric_of(hypothesis.margin.metric).goes_with_calls
        shared = shared and (hypothesis.measurement, comparison.outcome) in led
        if hypothesis not in chosen and has_changed(comparison) and not shared:
            yield _withheld(hypothesis, comparison, unexplained(hypothesis))


def _withheld(hypothesis: Hypothesis, comparison: Comparison, why: Statement) -> Explanation:
    of_memory = metric_of(hypothesis.margin.metric).has_sites
    return explain_nothing(hypothesis, comparison, "allocation" if of_memory else "function", why)
