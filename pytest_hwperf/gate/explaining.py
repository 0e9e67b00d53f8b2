"""Why something got slower: fresh processes of both sides profile what changed, several times and in turns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Literal

from pytest_hwperf.core.errors import HwperfError, MeasurementError
from pytest_hwperf.core.evidence import Evidence, Explanation, Hypothesis, Measurement, PairedProfiles, Side
from pytest_hwperf.core.explanations import (
    MOST_OF_IT,
    explain_functions,
    explain_memory,
    explain_nothing,
    explain_operators,
)
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.core.metrics import MEDIAN_LATENCY, METRICS
from pytest_hwperf.core.records import Comparison
from pytest_hwperf.core.sequence import decide
from pytest_hwperf.core.statements import said, state
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import Role, WorkerResult, WorkerTask
from pytest_hwperf.pairs.conductor import Progress

REPEATS = 3  # profiles of each side, for their spread
Explain = Literal["auto", "always", "never"]

_MOST = 5  # comparisons that are explained without being asked about: each takes several processes


@dataclass(slots=True, kw_only=True)
class Explainer:
    """Asks fresh processes of both sides what has moved in the comparisons that changed."""

    commands: Callable[[str], Mapping[Side, Command]]  # node id → how each side runs the file of that test
    until: float  # instant of `monotonic` at which the process is ended that runs then
    wanted: Explain  # regressions alone, every comparison, or none
    progress: Callable[[Progress], None] = lambda _: None
    seconds: float = 0.0  # spent so far
    _asked: int = 0  # processes so far, in all comparisons
    _answered: Callable[[int], None] = lambda _: None  # is told how many have answered in the comparison at hand

    def explanations(self, evidence: Evidence, profiles: Sequence[PairedProfiles]) -> list[Explanation]:
        """Return what moved in each comparison that is to be explained, as long as there is time."""
        began, found = monotonic(), list[Explanation]()
        chosen = list(self._chosen(evidence))[: None if self.wanted == "always" else _MOST]
        for number, (hypothesis, comparison) in enumerate(chosen, 1):
            if monotonic() >= self.until:
                break
            here = Progress(stage="explain", pair=number, of=len(chosen), test=hypothesis.measurement.test)
            self._answered = partial(self._show, here, began)
            self._answered(0)
            found.extend(self._explain(hypothesis, comparison, profiles))
        self.seconds = monotonic() - began
        return found

    def _show(self, here: Progress, began: float, answers: int) -> None:
        """Show how far it is; processes that are left take as long as those so far."""
        if answers:
            self._asked += 1
        left = (here.of - here.pair + 1) * len(SIDES) * REPEATS - answers
        pace = (monotonic() - began) / self._asked if self._asked else None
        self.progress(replace(here, left_s=None if pace is None else pace * left))

    def _chosen(self, evidence: Evidence) -> Iterator[tuple[Hypothesis, Comparison]]:
        """Yield comparisons of the median latency and of the memory of a process."""
        for hypothesis, comparison in decide(evidence).items() if self.wanted != "never" else ():
            asked = comparison.outcome == "regressed" or (self.wanted == "always" and comparison.change is not None)
            if asked and (hypothesis.margin.key == MEDIAN_LATENCY or METRICS[hypothesis.margin.metric].has_sites):
                yield hypothesis, comparison

    def _explain(
        self, hypothesis: Hypothesis, comparison: Comparison, profiles: Sequence[PairedProfiles]
    ) -> Iterator[Explanation]:
        if hypothesis.margin.key != MEDIAN_LATENCY:
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
        try:
            results = self._repeats(hypothesis.measurement, "functions")
        except HwperfError as error:
            return explain_nothing(hypothesis, comparison, "function", said(error.sentence))
        baseline, candidate = ([one.functions for one in results[side] if one.functions] for side in SIDES)
        return explain_functions(hypothesis, comparison, baseline, candidate)

    def _by_sites(self, hypothesis: Hypothesis, comparison: Comparison) -> Explanation:
        try:
            results = self._repeats(hypothesis.measurement, "sites")
        except HwperfError as error:
            return explain_nothing(hypothesis, comparison, "allocation", said(error.sentence))
        baseline, candidate = ([one.sites for one in results[side]] for side in SIDES)
        return explain_memory(hypothesis, comparison, baseline, candidate)

    def _repeats(self, measurement: Measurement, role: Role) -> Mapping[Side, list[WorkerResult]]:
        """Return what fresh processes of both sides have found, which take turns: B C, C B, B C.

        Raises:
            HwperfError: one of them has found nothing; says why.
        """
        results: dict[Side, list[WorkerResult]] = {side: [] for side in SIDES}
        for repeat in range(REPEATS):
            for side in SIDES[:: -1 if repeat % 2 else 1]:
                results[side].append(self._ask(measurement, role, side))
                self._answered(sum(map(len, results.values())))
        return results

    def _ask(self, measurement: Measurement, role: Role, side: Side) -> WorkerResult:
        task = WorkerTask(role=role, node=measurement.test, label=measurement.label)
        try:
            (result,) = ask(task, [self.commands(measurement.test)[side]], until=self.until)
        except HwperfError as error:
            raise MeasurementError(str(state("unexplained", side=side, why=error.sentence))) from error
        if role in result.reasons:
            raise MeasurementError(str(state("unexplained", side=side, why=result.reasons[role])))
        return result
