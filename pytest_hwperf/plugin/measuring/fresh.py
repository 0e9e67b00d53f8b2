"""What a test asks of fresh processes: memory, cold starts and instructions."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import pytest

from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.progress import LONG_S
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.host.worker_protocol import Role, WorkerResult, WorkerTask
from pytest_hwperf.measure.samples import cold_samples, memory_samples
from pytest_hwperf.meters.callgrind import SOURCE, slopes, under_callgrind
from pytest_hwperf.plugin.measuring.meters import INSTRUCTIONS
from pytest_hwperf.plugin.session.command import command_for, timeout_paused
from pytest_hwperf.plugin.session.state import node_of, session_of, test_of
from pytest_hwperf.plugin.session.terminal import SHORT_S, line_of, time_told
from pytest_hwperf.plugin.session.training import say_what_trains
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import taken_by
from pytest_hwperf.records.run import Sample
from pytest_hwperf.records.units import show
from pytest_hwperf.stats.pairs.hypotheses import PROCESSES

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
