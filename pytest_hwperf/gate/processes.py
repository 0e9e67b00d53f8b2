"""Memory and cold starts of both sides: each value comes from a fresh process, and both sides take turns."""

import math
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from time import monotonic

from pytest_hwperf.core.completeness import rounded_up
from pytest_hwperf.core.errors import HwperfError, UsageProblem
from pytest_hwperf.core.evidence import FixedSample, Hypothesis, Side
from pytest_hwperf.core.hypotheses import FEWEST_PROCESSES, SIDES, Questions, is_open, processes_needed
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.statements import Statement, said, state
from pytest_hwperf.core.units import counted
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import Role, WorkerTask
from pytest_hwperf.pairs.conductor import Progress

_SHARE = 0.5  # of the time that is left, where pairs follow
_LONGEST_REASON = 500  # characters that are kept of what a process says


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """How long the fresh processes of a build may take."""

    until: float  # instant of `monotonic`
    why_late: Statement  # reason of what is not measured then
    said: str  # in a line


def time_limit(questions: Questions, until: float, why_late: Statement) -> TimeLimit:
    """Return how long fresh processes may take: all of the time, or half of it where pairs follow."""
    tests = counted(len({one.measurement.test for one in questions.processes}), "test")
    left_s = max(0.0, until - monotonic())
    if questions.hypotheses:
        until -= _SHARE * left_s
        left_s *= 1 - _SHARE
        why_late = state("out of part", limit=round(left_s))
    text = f"memory and cold starts of {tests} come from fresh processes, in at most {rounded_up(left_s)} s"
    return TimeLimit(until=until, why_late=why_late, said=text)


@dataclass(slots=True)
class ProcessSampler:
    """Measures fresh processes of both sides; which begins is drawn for each pair of them."""

    commands: Callable[[str], Mapping[Side, Command]]  # node id → how each side runs the file of that test
    random: Random
    until: float = math.inf  # instant of `monotonic` at which the process is ended that runs then
    why_late: Statement | None = None  # reason of what is not measured then
    progress: Callable[[Progress], None] = lambda _: None
    serial: Collection[str] = ()  # node ids of tests that cannot bear both sides at once
    seconds: float = 0.0  # spent so far
    _asked: int = 0  # pairs of processes so far

    def samples(self, questions: Questions, alpha: float) -> Iterator[FixedSample]:
        """Yield a sample for each hypothesis about processes; one that cannot be had becomes a part not compared."""
        needed = processes_needed(questions.family, alpha)
        for number, hypothesis in enumerate(questions.processes, 1):
            here = Progress(
                stage="processes", pair=number, of=len(questions.processes), test=hypothesis.measurement.test
            )
            notes: dict[Side, dict[str, None]] = {side: {} for side in SIDES}
            try:
                values = self._values(hypothesis, FEWEST_PROCESSES, here, notes)
                if is_open(hypothesis, values):  # fresh values: those that raised the question cannot decide it
                    values = self._values(hypothesis, needed, here, notes)
            except HwperfError as error:
                if monotonic() >= self.until:
                    questions.parts[hypothesis.key] = ("inconclusive", self.why_late)
                    continue
                questions.parts[hypothesis.key] = ("not comparable", said(error.sentence))
                continue
            yield FixedSample(
                hypothesis=hypothesis,
                per="fresh process",
                baseline=array("d", values["baseline"]),
                candidate=array("d", values["candidate"]),
                warnings=_of_both(notes),
            )

    def _values(
        self, hypothesis: Hypothesis, count: int, shown: Progress, notes: Mapping[Side, dict[str, None]]
    ) -> dict[Side, list[float]]:
        """Ask pairs of processes until each side has `count` values."""
        here, metric, began = hypothesis.measurement, hypothesis.margin.metric, monotonic()
        role: Role = "memory" if METRICS[metric].taken == "memory" else "cold"
        task = WorkerTask(role=role, node=here.test, label=here.label, growth=False)  # it is not compared
        bears_both = role == "memory" and here.test not in self.serial  # peaks do not depend on neighbours, times do
        at_once = len(SIDES) if bears_both else 1
        values: dict[Side, list[float]] = {side: [] for side in SIDES}
        commands = self.commands(here.test)
        while len(values["baseline"]) < count:
            self._show(shown, count - len(values["baseline"]), monotonic() - began)
            sides = list(SIDES)
            self.random.shuffle(sides)
            results = ask(task, [commands[side] for side in sides], at_once=at_once, until=self.until)
            for side, result in zip(sides, results, strict=True):
                if metric not in result.values:
                    reason = result.reasons.get(metric, "not measured").partition("\n")[0]
                    raise UsageProblem(f"{side}: {reason[:_LONGEST_REASON]}")
                values[side].append(result.values[metric])
                notes[side].update(dict.fromkeys(result.notes))
            self._asked += 1
        self.seconds += monotonic() - began
        return values

    def _show(self, here: Progress, left: int, spent_s: float) -> None:
        """Show between the processes how far it is: pairs of them that are left take as long as those so far."""
        left += (here.of - here.pair) * FEWEST_PROCESSES
        pace = (self.seconds + spent_s) / self._asked if self._asked else None
        self.progress(replace(here, left_s=None if pace is None else pace * left))


def _of_both(notes: Mapping[Side, Mapping[str, None]]) -> tuple[str, ...]:
    """Return what the processes noted about their values; of which side, where the other one did not."""
    both = [text for text in notes["baseline"] if text in notes["candidate"]]
    return (*both, *(f"{side}: {text}" for side in SIDES for text in notes[side] if text not in both))
