"""A load whose calls are made by several processes: for models that hold the interpreter's lock.

Each process is fresh, and prepares what it calls as this one has. All begin together, and of an open load the next call
falls to whoever is free. What became of the calls is put together here.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.loads import LONGEST_S, Load
from pytest_hwperf.host.command_line import Command, undisturbed
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.rendezvous import numbers, ready
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerResult, WorkerTask, decode_task
from pytest_hwperf.loads.threads import drive_share
from pytest_hwperf.loads.times import Times
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.meters.cpu.cpu_time import CpuTimeMeter

_COLUMNS, _INTERRUPTED = ("due", "issued", "ended"), "interrupted"


def check_processes(load: Load, stream: Stream) -> None:
    """Check that processes can make the calls of a load, if it is theirs; a first one was made."""
    if not load.processes:
        return
    if stream.awaits:
        raise UsageProblem(
            "hwload(carriers='processes'): async calls only wait, and are tasks of one loop: leave carriers= out"
        )
    if os.name != "posix":
        raise UsageProblem("hwload(carriers='processes') takes a POSIX system: leave carriers= out")


def run_by_processes(load: Load, task: WorkerTask, command: Command, times: Times) -> float:
    """Let fresh processes make the calls of a load; return the CPU seconds of all of them."""
    # Of an open load nobody knows how long what waits takes.
    longest_s = LONGEST_S if load.is_open else load.seconds
    until = monotonic() + longest_s + 2 * command.deadline_s
    results = ask(task, [command] * load.processes, at_once=load.processes, until=until)
    calls = sorted(row for one in results for row in zip(*(one.series[name] for name in _COLUMNS), strict=True))
    for number, row in enumerate(calls):
        times.note(number, *row)
    if any(_INTERRUPTED in one.notes for one in results):
        raise KeyboardInterrupt
    return sum(one.values["cpu_time"] for one in results)


def reply_share(load: Load, stream: Stream, task: WorkerTask) -> WorkerResult:
    """Make the share of this process, which is warm, when all processes are ready; return what became of it."""
    place, times, meter = Path(task.reply_to).parent, Times(), CpuTimeMeter()
    began = ready(place)
    before, notes = meter.start(), list[str]()
    try:
        stream.run_here(lambda: drive_share(load, stream.numbered(), times, began, numbers(place)))
    except KeyboardInterrupt:
        notes.append(_INTERRUPTED)
    spent_s = meter.end(before).value or 0.0
    if times.error is not None:
        times.error.add_note(f"hwperf: {times.failed} of {times.made} calls failed under the load {load}")
        raise times.error
    served = times.served()
    series = {"due": [*served.due], "issued": [*served.issued], "ended": [*served.ended]}
    return WorkerResult(values={"cpu_time": spent_s}, reasons={}, notes=notes, runs=[], series=series)


def command_again(given: Sequence[str], load: Load) -> Command:
    """Return what starts a process that makes a share of the load of `hwperf load`: the same command."""
    drawn = [f"--qps={load.qps!r}", f"--seconds={load.seconds!r}", f"--seed={load.seed}"]
    return Command(
        arguments=[*given, *(drawn if load.kind == "server" else [])],
        directory=Path.cwd(),
        environment=undisturbed(os.environ),
        module="pytest_hwperf.cli",
    )


def asked_share() -> WorkerTask | None:
    """Return the task of this process where it is to make a share of a load; a process that it starts has none."""
    text = os.environ.get(ENVIRONMENT)
    if text is None or (task := decode_task(text)).role != "load":
        return None
    del os.environ[ENVIRONMENT]
    return task
