"""`hwperf calibrate`: the watts of this processor, for machines with the same processor that hide their energy."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pytest_hwperf import registry
from pytest_hwperf.cli.arguments import explained_if_unwritable
from pytest_hwperf.cli.output import say
from pytest_hwperf.core.contracts import Meter
from pytest_hwperf.core.errors import MeasurementError, MeterUnavailable, UsageProblem
from pytest_hwperf.host.files import check_writable, is_folder
from pytest_hwperf.host.machine import describe_machine, name_processor, read_processor
from pytest_hwperf.meters.energy.calibration import Calibration, Processors, calibrate_watts, write_calibration

OK = 0
_SOURCES = ("rapl", "perf")  # counters of the processor alone

# Computes until its input ends, which it also does when the process that has started it ends.
WORK = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
while True: sum(range(10000))
"""


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    calibrate = commands.add_parser(
        "calibrate",
        help="measure the watts of this processor, for the estimate on machines that hide their energy",
        description="Measure the power of the idle machine, and with all cores busy, by RAPL or the perf power PMU; "
        "write the watts of one vCPU to FILE, for pytest --hwperf-watts=FILE on machines with the same processor. It "
        "takes about 8 seconds; leave the machine alone meanwhile. Exit code 4: no counter can be read here, or the "
        "machine was not quiet.",
    )
    calibrate.add_argument("file", metavar="FILE", help="to write, such as watts.json")
    calibrate.add_argument("--energy", choices=_SOURCES, help="the counter to use; default: the first that can be read")
    calibrate.set_defaults(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationTools:
    """Means of a calibration; a test replaces any part."""

    find: Callable[[str], Callable[[Mapping[str, str]], Meter]]  # name of a source → its factory
    processors: Callable[[], Processors]
    work: Callable[[int], AbstractContextManager[Callable[[], float]]]  # keeps so many processors busy
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def run(options: argparse.Namespace, tools: CalibrationTools | None = None) -> int:
    """Calibrate, write the file and print its content."""
    path = Path(options.file)
    if is_folder(path) or not is_folder(path.parent):
        raise UsageProblem(f"{options.file}: give a file in a folder that exists, such as watts.json")
    with explained_if_unwritable(path):
        check_writable(path)  # before the time is spent
    if tools is None:
        tools = CalibrationTools(
            find=partial(registry.find, "energy_meters"), processors=processors_of_machine, work=keep_busy
        )
    meter = open_counter((options.energy,) if options.energy else _SOURCES, tools)
    try:
        found = calibrate(meter, tools)
    finally:
        meter.close()
    with explained_if_unwritable(path):
        write_calibration(path, found)
    for line in render(found, options.file):
        say(line)
    return OK


def processors_of_machine(root: str | Path = "/") -> Processors:
    """Describe the processors of this machine.

    Raises:
        UsageProblem: they have no name by which another machine could be known to have the same.
    """
    model = name_processor(read_processor(root))
    if not model:
        raise UsageProblem("this system does not name its processor, so that its watts could be used nowhere else")
    return Processors(model=model, online=os.cpu_count() or 1, allotted=describe_machine().cores)


def open_counter(names: tuple[str, ...], tools: CalibrationTools) -> Meter:
    """Open the first source that can be read.

    Raises:
        UsageProblem: none can; says why for each, and what to do.
    """
    refused = list[str]()
    for name in names:
        try:
            return tools.find(name)(os.environ)
        except MeterUnavailable as reason:
            refused.append(f"{name}: {reason}")
    raise UsageProblem("watts can only be calibrated where a counter of energy can be read.\n" + "\n".join(refused))


def calibrate(meter: Meter, tools: CalibrationTools) -> Calibration:
    """Measure, and refuse what cannot be trusted.

    Raises:
        UsageProblem: says why and what to do.
    """
    processors = tools.processors()
    try:
        return calibrate_watts(
            meter,
            processors,
            work=partial(tools.work, processors.allotted),
            clock=tools.clock,
            sleep=tools.sleep,
            now=lambda: datetime.now(UTC).isoformat(timespec="seconds"),
        )
    except MeasurementError as error:
        raise UsageProblem(f"not calibrated: {error}") from error


@contextmanager
def keep_busy(count: int) -> Iterator[Callable[[], float]]:
    """Keep `count` processors busy with as many processes; yield a function that returns their CPU seconds so far.

    They have sessions of their own, so that Ctrl-C reaches only this process, which ends them.
    """
    import psutil

    command = [sys.executable, "-I", "-S", "-c", WORK]

    with ExitStack() as ending:
        workers = []
        for _ in range(count):
            worker = ending.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603 - our interpreter
            )
            ending.callback(worker.kill)
            workers.append(psutil.Process(worker.pid))
        yield lambda: sum(sum(worker.cpu_times()[:2]) for worker in workers)


def render(found: Calibration, file: str) -> list[str]:
    """Describe the result and what to type next."""
    return [
        f"{found.cpu_model}: {found.idle_w:.4g} W idle, {found.busy_w:.4g} W busy per vCPU",
        f"measured by {found.source}, {found.window_s:g} s each idle, with {found.cpus:.3g} CPUs busy, and idle again",
        f"wrote {file}; on machines with this processor: pytest --hwperf-watts={file}",
    ]
