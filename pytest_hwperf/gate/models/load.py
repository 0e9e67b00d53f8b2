"""A load on the calls of a stream: in this thread, in several, or as tasks of their event loop."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

from pytest_hwperf.host.launch import Command, undisturbed
from pytest_hwperf.host.one_shot import NUMBERS_ARE_UNIQUE, ask, numbers, ready
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerResult, WorkerTask, decode_task
from pytest_hwperf.loads.local import Times, drive, drive_share, drive_tasks
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.meters.process import CpuTimeMeter
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import LONGEST_S, Load
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import Served, replace
from pytest_hwperf.records.units import counted
from pytest_hwperf.stats.figures.ranks import early_stopping, fewest_calls
from pytest_hwperf.stats.service.loads import next_rate, why_not_served, why_unsure


def run_load(load: Load, stream: Stream, times: Times) -> None:
    """Make the calls of a load, of which a first one was made, and note their times."""
    call = stream.numbered()
    stream.run_here(drive_tasks(load, call, times) if stream.awaits else partial(drive, load, call, times))


def served_by(load: Load, stream: Stream, *, elsewhere: bool = False) -> Served:
    """Return what became of the calls of a load."""
    times = Times()
    run_load(load, stream, times)
    if times.error is not None and not (elsewhere and times.made > times.failed):
        times.error.add_note(f"hwperf: {times.failed} of {times.made} calls failed under the load {load}")
        raise times.error
    return times.served()


def carrier_of(load: Load, stream: Stream) -> str:
    """Say what makes the calls of a load: "one thread", "4 threads", "4 processes", "tasks, at most 256 at once"."""
    at_once = load.at_once(waiting=stream.awaits)
    if load.processes:
        return counted(at_once, "process")
    if stream.awaits:
        return f"tasks, at most {at_once} at once"
    return "one thread" if at_once == 1 else f"{at_once} threads"


_COLUMNS, _INTERRUPTED = ("due", "issued", "ended"), "interrupted"


def check_processes(load: Load, stream: Stream) -> None:
    """Check that processes can make the calls of a load, if it is theirs; a first one was made."""
    if not load.processes:
        return
    if stream.awaits:
        raise UsageProblem(
            "hwload(carriers='processes'): async calls only wait, and are tasks of one loop: leave carriers= out"
        )
    if not NUMBERS_ARE_UNIQUE:
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


_MORE = 1.5  # times the calls that the percentile takes at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One rate that was tried."""

    load: Load
    served: Served
    bound_s: float | None  # that the percentile keeps by early stopping
    kept: bool
    confirms: bool  # whether it repeats a rate that was kept, by a fresh schedule
    doubt: Statement | None  # whether the generator, and not what it calls, may have made the latency


@dataclass(slots=True, kw_only=True)
class PeakSearch:
    """A search for the highest rate, a try at a time, so that what was tried is kept where it is interrupted."""

    load: Load  # its rate is the first to be tried
    q: float  # 0.95 for p95
    within_s: float
    run: Callable[[Load], Served]
    tries: list[Try] = field(default_factory=list)

    def search(self) -> Try | None:
        """Return the try that confirms the highest rate, None where none is kept."""
        tried = dict[float, bool]()
        while True:
            while (rate := next_rate(tried, self.load.qps)) is not None:
                tried[rate] = self._tried(rate, confirms=False).kept
            best = max((rate for rate, kept in tried.items() if kept), default=None)
            if best is None:
                return None
            again = self._tried(best, confirms=True)
            if again.kept:
                return again
            tried[best] = False

    def _tried(self, rate: float, *, confirms: bool) -> Try:
        seconds = max(self.load.seconds, _MORE * fewest_calls(self.q) / rate)
        if seconds > LONGEST_S:
            raise UsageProblem(f"nothing is served within {1e3 * self.within_s:g} ms even at {rate:g} calls a second")
        load = replace(self.load, qps=rate, seconds=seconds, seed=self.load.seed + len(self.tries))
        served = self.run(load)
        bound_s = early_stopping(served.latencies, self.q)
        fits = bound_s is not None and bound_s <= self.within_s
        kept = fits and why_not_served(replace(load, within_ms=0.0), served) is None
        doubt = why_unsure(served, self.within_s)
        self.tries.append(Try(load=load, served=served, bound_s=bound_s, kept=kept, confirms=confirms, doubt=doubt))
        return self.tries[-1]
