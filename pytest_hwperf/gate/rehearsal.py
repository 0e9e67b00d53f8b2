"""The rehearsal of a build: a test that fails next to the other side is tried alone before anything is said about it.

A fixed port, a lock or a device can belong to one process only. Which of two processes gets it is a matter of chance,
and what is said about their test must not be. One side at a time goes through such a test from then on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import FixedSample, Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import Values, replace
from pytest_hwperf.stats.figures.exact import can_part, compare_accuracy, compare_exact, is_worse_in_all
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Questions, Reason, SideOutcome, collection_error
from pytest_hwperf.stats.pairs.timetable import more_time, seconds_needed_from_rehearsal

_SLOWER = 6  # times: two processes that only share the processors do not slow each other down as much
_NAMED = 3  # tests that are named in a sentence about all of them
_LOST = 5  # tests in which a pair may be lost for good, before the build is given up


@dataclass(slots=True, kw_only=True)
class Rehearser:
    """Finds what both sides of a build can do next to each other."""

    conductor: Conductor
    name: str  # of the baseline, as it is shown
    alpha: float  # false-alarm rate of the build
    time_s: float  # of the whole build
    until: float  # instant of the conductor's clock at which it is up
    silence_s: float = 60.0  # that a process may be silent in a first pair before it is tried alone
    afresh: Callable[[], None] = lambda: None  # called where the baseline has changed since a rehearsal
    lost: dict[str, Reason] = field(default_factory=dict)  # node id → why the test was left out
    apart: dict[str, str] = field(default_factory=dict)  # node id → why one side at a time goes through the test now
    _once: set[str] = field(default_factory=set)  # tests that were lost in a pair, and passed alone
    _has_slow: bool = False  # whether a process takes long to reach its test, also alone
    _losses: int = 0  # tests in which a pair was lost, and that are not tried so again
    _parted: list[str] = field(default_factory=list)  # tests that the latest pair has shown not to bear both sides
    used: dict[Side, Opened] = field(default_factory=dict)  # in all tries but lost ones: the next finds what was made
    _died: list[str] = field(default_factory=list)  # tests in which a process ended before its time, or was ended
    _is_repeated: bool = False  # whether a pair was repeated for what failed in it: in each some may fail by chance

    @property
    def left_s(self) -> float:
        """The time that is left of the build's."""
        return self.until - self.conductor.clock()

    def forget(self) -> None:
        """Try again what the baseline could not do, since it has been given more."""
        self.lost = {node: reason for node, reason in self.lost.items() if reason[0] != "no baseline"}
        self._once, self._is_repeated = set(), False
        # What was read for lack of something is not read any more; what was made is still there.
        self.used = {side: Opened(uses=used.uses) for side, used in self.used.items()}
        self.afresh()

    def rehearse(self, nodes: Sequence[str]) -> PairTrace:
        """Rehearse until a pair goes through all tests that are left."""
        while True:
            left = [node for node in nodes if node not in self.lost]
            half_s = self.left_s / 2  # one that hangs is tried alone in what remains
            patience_s = half_s if self._has_slow else min(half_s, self.silence_s)
            trace = self.noted(self.conductor.rehearse(left, self.until, patience_s))
            if trace.lost is not None:
                self._leave_out(trace, trace.lost, left, patience_s)
            elif not self._try_failed(trace, left):
                trace.opened = dict(self.used)  # also by what one side has tried alone
                if not self._parted:
                    return trace
                self.conductor.rehearse(self._parted, self.until, patience_s, trace=trace)
                self.used = {}
                self.noted(trace)
                if trace.lost is None:
                    return trace
                self._leave_out(trace, trace.lost, self._parted, patience_s)

    def noted(self, trace: PairTrace) -> PairTrace:
        """Return a try, having noted what it has used, and in which test a process was lost."""
        for side, opened in trace.opened.items():
            self.used[side] = self.used.get(side, Opened()).joined(opened)
        if trace.lost:
            self._died.append(trace.unfinished or "between tests")
        return trace

    def _leave_out(self, trace: PairTrace, why: Statement, nodes: Sequence[str], patience_s: float) -> None:
        """Leave the test out in which a pair was lost, unless its process may have died by chance, or is only slow.

        The system kills a process when memory is short, and does so next to the other side first.
        """
        self._check_time(trace, why, len(nodes))
        if trace.is_cut_short:
            raise UsageProblem(self._failed_by(why))
        began = self.conductor.clock()
        node, reason = trace.unfinished, self._own_loss(trace, why, nodes)
        if reason is None and trace.is_silent and not self._has_slow:
            self._has_slow = (self.conductor.clock() - began) * _SLOWER > patience_s
            if self._has_slow:
                return
        if reason is None and not trace.is_silent and node not in self._once:
            self._once.add(node)
            return
        is_serial = node in self.conductor.serial
        if not node or self._losses == _LOST:
            at_once = why if is_serial else state("not at once", side=why.texts["side"], how=_how(why))
            raise UsageProblem(self._failed_by(reason[1] if reason else at_once))
        self._losses += 1
        if reason is None and not is_serial:
            self.conductor.serial.add(node)
            self.apart[node] = f"the {why.texts['side']} {_how(why)}"
        else:
            self.apart.pop(node, None)
            self.lost[node] = reason or ("not comparable", why)

    @property
    def said(self) -> str:
        """Say what is measured with one side at a time without having been marked, and what to type; or ""."""
        if not self.apart:
            return ""
        few = [f"{node} ({how})" for node, how in list(self.apart.items())[:_NAMED]]
        more = [f"and {len(self.apart) - _NAMED} more"] if len(self.apart) > _NAMED else []
        return (
            "measured with one side at a time, since they failed next to the other side and passed alone: "
            f"{', '.join([*few, *more])}. @pytest.mark.hwserial says so beforehand and saves these tries; a port, a "
            "file or a lock for each process, such as port 0 or tmp_path, lets both sides take turns, which tells more"
        )

    @property
    def untold(self) -> str:
        """Say what no check has seen, since a process ended before it could tell; or ""."""
        if not self._died:
            return ""
        return (
            f"a process of the trial run ended early, in {', '.join(dict.fromkeys(self._died))}, and hwperf repeated "
            "the trial run. It does not know which files that process made: if your tests keep some outside temporary "
            "folders, delete these files and compare again"
        )

    def _own_loss(self, trace: PairTrace, why: Statement, nodes: Sequence[str]) -> Reason | None:
        """Return why a process was lost through no fault of the other side; None where it passes alone."""
        node, blamed = trace.unfinished, [side for side in SIDES if side == why.texts["side"]]
        for side in blamed:
            asked = nodes[: nodes.index(node) + 1] if node else nodes
            alone = self.noted(self.conductor.alone(side, asked, self.until))
            if alone.lost:
                self._check_time(trace, alone.lost, len(nodes), alone.unfinished)
            if not alone.lost or (node and alone.unfinished != node):
                return None
        if not blamed and node not in self._once:
            return None
        return ("not comparable" if "candidate" in blamed else "no baseline", why)

    def _alone(self, side: Side, nodes: Sequence[str]) -> Mapping[str, Mapping[Side, SideOutcome]]:
        """Return how tests end on a side alone; without those in which it was lost, which the others may survive."""
        found, left = dict[str, Mapping[Side, SideOutcome]](), list(nodes)
        for _ in range(_LOST):
            trace = self.noted(self.conductor.alone(side, left, self.until))
            found |= trace.outcomes
            if not trace.lost or not trace.unfinished:
                break
            self._check_time(trace, trace.lost, len(nodes))
            left.remove(trace.unfinished)
        return found

    def _failed_by(self, why: Statement | None) -> str:
        return f"the rehearsal of {self.name} with the present code failed: {why}"

    def _check_time(self, trace: PairTrace, why: Statement, tests: int, last: str = "") -> None:
        """Raise where the time is up: how far it has come with so many tests, how long all would take, what to type."""
        if self.conductor.clock() < self.until:
            return
        needed = seconds_needed_from_rehearsal(
            tests, len(trace.outcomes), self.alpha, self.conductor.seconds, trace.wall_s, trace.start_s
        )
        last = last or trace.unfinished
        where = f", in {last}" if last else ""
        raise UsageProblem(
            f"the time of {self.time_s:g} s was up in the rehearsal of {self.name} with the present code{where}: "
            f"{why}; {more_time(self.time_s, needed, least=trace.start_s is None)}"
        )

    def _try_failed(self, trace: PairTrace, nodes: Sequence[str]) -> bool:
        """Try alone what failed on a side; of what fails then too, the failures alone count.

        What passes then may have failed by chance: it has one more pair. All that fails so after that is rehearsed,
        and measured, with one side alive at a time.
        """
        takes_another, self._parted = False, []
        together = [node for node in nodes if node not in self.conductor.serial]  # what fails alone has done so
        failed = {side: dict(_failed(trace, together, side)) for side in SIDES}
        alone = dict[Side, Mapping[str, Mapping[Side, SideOutcome]]]()
        for side, tests in failed.items():
            if tests and self.conductor.clock() < self.until:
                last = max((nodes.index(node) for node in tests if node in trace.outcomes), default=-1)
                asked = [node for at, node in enumerate(nodes) if at <= last or node in tests]
                alone[side] = self._alone(side, asked)
        repeats = not self._is_repeated and self.conductor.clock() < self.until
        for node in together:
            sides = [side for side in SIDES if node in failed[side]]
            again = {side: alone.get(side, {}).get(node, {}) for side in sides}
            if sides and all(_passed(again[side], side) for side in sides):
                if repeats and node not in self._once:
                    self._once.add(node)
                    self._is_repeated = takes_another = True
                    continue
                self.conductor.serial.add(node)
                self.apart[node] = f"the {sides[0]} {failed[sides[0]][node]}"
                self._parted.append(node)
            elif node in trace.outcomes:
                for one in again.values():
                    trace.outcomes[node].update(one)
        return takes_another


def _failed(trace: PairTrace, nodes: Sequence[str], side: Side) -> Iterator[tuple[str, str]]:
    """Yield what failed on a side, or was skipped there alone, and how."""
    for node in nodes:
        ended = trace.outcomes.get(node, {})
        uncollected = "" if node in trace.collected[side] else collection_error(node, trace.errors[side])
        everywhere = all(one.outcome == "skipped" for one in ended.values())
        if uncollected:
            yield node, f"could not collect it: {uncollected}"
        elif side in ended and ended[side].outcome != "passed" and not everywhere:
            yield node, f"{ended[side].outcome}: {ended[side].reason}"


def _passed(outcomes: Mapping[Side, SideOutcome], side: Side) -> bool:
    return side in outcomes and outcomes[side].outcome == "passed"


def _how(why: Statement) -> str:
    """Return what a side did when it was lost, without its name."""
    return why.texts["why"].removeprefix(f"{why.texts['side']}: ")


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
    if fixed.per == "fresh process":  # each of its values is that of another one
        return False
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
