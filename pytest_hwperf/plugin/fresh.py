"""What a test asks of fresh processes: memory, cold starts, instructions, lines that allocate, and all of it again."""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Literal

import pytest

from pytest_hwperf.host.extras import exists_here, missing
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.progress import LONG_S
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.host.worker_protocol import Role, WorkerResult, WorkerTask
from pytest_hwperf.measure.samples import cold_samples, memory_samples
from pytest_hwperf.meters.callgrind import SOURCE, slopes, under_callgrind
from pytest_hwperf.meters.memory import MISSING
from pytest_hwperf.plugin.command import command_for, timeout_paused
from pytest_hwperf.plugin.meters import INSTRUCTIONS
from pytest_hwperf.plugin.progress import SHORT_S, countdown_of, line_of, time_told
from pytest_hwperf.plugin.session import node_of, session_of, test_of
from pytest_hwperf.plugin.watching import say_what_trains
from pytest_hwperf.records.errors import HwperfError, WorkerError
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import METRICS, taken_by
from pytest_hwperf.records.profiles import HeldMemory
from pytest_hwperf.records.run import Key, Run, Sample, figure_of
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.records.verdict import Budget, Judgement, Verdict
from pytest_hwperf.stats.estimates import figures
from pytest_hwperf.stats.hypotheses import PROCESSES
from pytest_hwperf.stats.stored import REPEATS
from pytest_hwperf.stats.verdicts import MOST_RETRIES, keeps

_MEASURED: Mapping[Role, str] = {  # by processes in each role, where there are several
    "cold": "cold start",
    "memory": "peak RSS in fresh process",
    "run": "measurement in fresh process",
}


def ask_fresh(
    item: pytest.Item, role: Role, count: int = 1, *, label: str = "", at_once: int = 1, command: Command | None = None
) -> list[WorkerResult]:
    """Carry out one task of a test in fresh processes, and show how many have answered; its timer stands still."""
    task = WorkerTask(role=role, node=node_of(item), label=label)
    with timeout_paused(item), waiting(item, role, count) as answered:
        return ask(task, [command or command_for(item)] * count, at_once=at_once, answered=answered)


@contextmanager
def waiting(item: pytest.Item, role: Role, total: int) -> Iterator[Callable[[int, float], None]]:
    """Wait for `total` fresh processes; give what is told how many have answered, each in how many seconds.

    It shows what is left: in the line, or without a terminal where it takes long.
    """
    with line_of(item.config) as line:
        shortest_s = SHORT_S if line.screen.is_live else LONG_S

        def answered(answers: int, seconds: float) -> None:
            if (left_s := (total - answers) * seconds) >= shortest_s:
                took = f"{_MEASURED[role]} {answers} of {total} took {show(seconds, 's')}"
                line.show(f"hwperf: {took}, up to {show(left_s, 's')} left, {item.nodeid}")

        yield answered


def in_fresh_processes(
    item: pytest.Item, role: Literal["memory", "cold"], label: str
) -> tuple[list[Sample], dict[str, Statement]]:
    """Measure the memory or cold starts of one measurement of a test."""
    say_what_trains(item, PROCESSES[role])
    # Peaks do not depend on neighbours, so that processes run side by side; times do.
    at_once = session_of(item.config).machine.cores if role == "memory" else 1
    results = ask_fresh(item, role, PROCESSES[role], label=label, at_once=at_once)
    if role == "cold":
        return cold_samples(taken_by(role), results)
    limits = {budget.metric: budget.limit for budget in test_of(item).markers.budgets}
    return memory_samples(taken_by(role), results, limits=limits)


def counted_by_callgrind(item: pytest.Item, label: str) -> tuple[list[Sample], dict[str, Statement]]:
    """Count the instructions of a call under Valgrind, where that is asked for."""
    if session_of(item.config).settings.instructions != SOURCE:
        return [], {}
    try:
        with workdir() as folder, time_told(item, "counting instructions under Valgrind"):
            command = under_callgrind(command_for(item), folder)
            (result,) = ask_fresh(item, "instructions", label=label, command=command)
            if INSTRUCTIONS in result.reasons:
                return [], {INSTRUCTIONS: said(result.reasons[INSTRUCTIONS])}
            found = slopes(folder, [round(count) for count in result.series["calls"]])
    except HwperfError as error:
        return [], {INSTRUCTIONS: said(error.sentence)}
    least, most = min(found), max(found)
    note = state("slopes", apart=(most - least) / most if most else 0.0)
    sample = Sample(
        metric=INSTRUCTIONS, values=array("d", found), per="difference of two lengths", source=SOURCE, warnings=(note,)
    )
    return [sample], {}


@dataclass
class Again:
    """Further measurements of a whole test, each in a fresh process, made when they are first asked for."""

    item: pytest.Item
    _made: list[Sequence[Run]] = field(default_factory=list)
    _took_s: float = 0.0  # of the last of them

    @cached_property
    def repeats(self) -> list[Sequence[Run]]:
        """The runs of the processes that an alarm is repeated in; once for all labels of the test."""
        return [result.runs for result in ask_fresh(self.item, "run", REPEATS)]

    def retried(self, run: Run, verdicts: Sequence[Verdict]) -> Mapping[Key, Sequence[float]]:
        """Return the values of every inconclusive budget in up to five processes: as long as all lie on one side."""
        inconclusive = [verdict.subject for verdict in verdicts if verdict.outcome == "inconclusive"]
        budgets = [one for one in inconclusive if isinstance(one, Budget) and run.metric(one.metric).is_timed]
        found = {budget.key: list[float]() for budget in budgets}
        for number in range(MOST_RETRIES):
            going_on = [one for one in budgets if len({keeps(run, one, value) for value in found[one.key]}) <= 1]
            if not going_on:
                break
            again = figures(_labelled(self._nth(number), run.label))
            for budget in going_on:
                figure = figure_of(again, budget.key)
                found[budget.key].extend([figure.estimate.value] if figure else [])
        return found

    def _nth(self, number: int) -> Sequence[Run]:
        while len(self._made) <= number:
            shown, began = countdown_of(self.item), monotonic()
            with closing(shown):  # nothing is written while the process measures
                shown.announce(f"measurement {len(self._made) + 1} of up to {MOST_RETRIES} more", self._took_s)
                (result,) = ask_fresh(self.item, "run")
            self._took_s = monotonic() - began
            self._made.append(result.runs)
        return self._made[number]


def _labelled(runs: Sequence[Run], label: str) -> Run:
    found = next((run for run in runs if run.label == label), None)
    if found is None:
        raise WorkerError(
            f"a fresh process of this test did not measure label={label!r}: give label= a fixed name, "
            "without process numbers, times or random values"
        )
    return found


_MOST = 5  # lines that are shown
_LEAST_SHARE = 0.01  # of all that is held: less explains nothing


def lines_of_sites(item: pytest.Item, judgements: Sequence[Judgement]) -> list[str]:
    """Name what holds the memory of each run that misses its memory budget; nothing where none does.

    Each takes one more fresh process, and memray: without it one line says what would name them.
    """
    missed = [judgement.run.label for judgement in judgements if any(map(_misses_memory, judgement.verdicts))]
    if not missed or not exists_here("memray"):
        return []
    return [MISSING] if missing("memray") else [line for label in missed for line in _sites(item, label)]


def _misses_memory(verdict: Verdict) -> bool:
    budget = verdict.subject
    return isinstance(budget, Budget) and METRICS[budget.metric].has_sites and verdict.outcome == "failed"


def _sites(item: pytest.Item, label: str) -> Iterator[str]:
    try:
        (result,) = ask_fresh(item, "sites", label=label)
    except WorkerError as error:
        yield f"memray named no lines: {visible(error.sentence)}"
        return
    yield from (f"memray named no lines: {visible(reason)}" for reason in result.reasons.values())
    if result.sites:
        of = f"[{visible(label)}] " if label else ""
        yield f"{of}allocated at the peak of load and calls, in a process of its own, by memray:"
        least = _LEAST_SHARE * sum(one.size for one in result.sites)
        yield from (_line(one) for one in result.sites[:_MOST] if one.size >= least)


def _line(held: HeldMemory) -> str:
    """Write `  64.0 MB in 1 allocation: work, test_it.py:5`."""
    where = f"{held.function}, {held.file}:{held.line}" if held.function else "outside Python"
    called = f", called at {held.called_at}" if held.called_at else ""
    return visible(f"  {show(held.size, 'B')} in {counted(held.allocations, 'allocation')}: {where}{called}")
