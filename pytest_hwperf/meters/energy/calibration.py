"""Watts of a processor, measured once where its energy can be read, for machines of its kind where it cannot."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_hwperf.core.contracts import Meter
from pytest_hwperf.core.errors import MeasurementError, SerialisationError, UsageProblem
from pytest_hwperf.core.serialisation import from_file, to_json
from pytest_hwperf.core.structs import Record
from pytest_hwperf.core.units import show_number
from pytest_hwperf.host.files import read_file, replace_file

# Keeps processors busy while it is open; yields a function that returns the CPU seconds that this has taken so far.
Work = Callable[[], AbstractContextManager[Callable[[], float]]]

_LARGEST = 10_000  # bytes: what is written has 300
_WINDOW_S = 2.0
_SETTLE_S = 0.5  # until all processors are busy, or idle
_RESTLESS = 0.05  # of the power that work adds: a larger difference of two idle windows was other processes' work
_MOST_W = 2000.0  # per vCPU: not even a whole package draws it
_COUNTERS = ("rapl:", "perf:")  # sources that measure the processor alone
_BUSY = 0.9  # of the cores: less means that other processes used them
_AGAIN = "make one with hwperf calibrate FILE where RAPL can be read"


class Calibration(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf watts"):
    """Watts of one vCPU as a counter has measured them, and how."""

    schema: int = 1
    cpu_model: str  # with family and model: clouds call several generations by one name
    idle_w: float  # of the idle machine, W per vCPU
    busy_w: float  # the same and what one busy vCPU adds, W
    source: str  # of the energy, as `rapl:package-0+dram`
    cpus: float  # kept busy, in the mean
    window_s: float  # of each of the three windows: idle, busy, idle
    measured_at: str  # ISO 8601, UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """Processors of the machine to calibrate."""

    model: str  # as by `name_processor`
    online: int  # of which a counter shows the idle power
    allotted: int  # to this process, to be kept busy


def calibrate_watts(
    meter: Meter,
    processors: Processors,
    *,
    work: Work,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    now: Callable[[], str],
) -> Calibration:
    """Measure the idle machine, then with all its cores busy, then idle again: the power that work adds, per busy CPU.

    The estimate multiplies CPU seconds by busy minus idle watts. So the power that work has added is divided by the
    CPUs that it kept busy, whatever part of the machine this process may use.

    Args:
        meter: of energy, read from a counter.
        processors: to calibrate.
        work: keeps all allotted ones busy.
        clock: seconds, monotonic.
        sleep: waits so many seconds.
        now: ISO 8601, UTC.

    Raises:
        MeasurementError: the source is no counter of the processor, a window gave no value, the machine was not quiet,
            or the result is not plausible.
    """
    if meter.covers != "processors":
        raise MeasurementError(
            f"{meter.source} is no measurement of the processor alone: watts can be calibrated by RAPL or perf only"
        )
    window_s = max(_WINDOW_S, 1.25 * meter.shortest_window_s)
    window = partial(_window, meter, window_s, clock, sleep)
    before_w, _ = window(lambda: 0.0)
    with work() as cpu_seconds:
        busy_w, cpus = window(cpu_seconds)
    after_w, _ = window(lambda: 0.0)
    idle_w = (before_w + after_w) / 2
    _check_quiet(processors, cpus=cpus, added_w=busy_w - idle_w, restless_w=abs(after_w - before_w))
    idle_each_w = idle_w / processors.online
    found = Calibration(
        cpu_model=processors.model,
        idle_w=idle_each_w,
        busy_w=idle_each_w + (busy_w - idle_w) / cpus,
        source=meter.source,
        cpus=cpus,
        window_s=window_s,
        measured_at=now(),
    )
    if wrong := _wrong(found):
        raise MeasurementError(f"the result has {wrong}")
    return found


def _window(
    meter: Meter,
    window_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    cpu_seconds: Callable[[], float],
) -> tuple[float, float]:
    """Return the mean power of a window in W, and how many processors `cpu_seconds` kept busy meanwhile.

    The power settles before the window begins.

    Raises:
        MeasurementError: the meter refused it; says why.
    """
    sleep(_SETTLE_S)
    started, began_s, spent_s = meter.start(), clock(), cpu_seconds()
    sleep(window_s)
    reading, seconds, spent_s = meter.end(started), clock() - began_s, cpu_seconds() - spent_s
    if reading.value is None:
        raise MeasurementError(f"{meter.source} gave no value: {reading.reason}")
    return reading.value / seconds, spent_s / seconds


def _check_quiet(processors: Processors, *, cpus: float, added_w: float, restless_w: float) -> None:
    """Refuse figures that include the work of other processes."""
    if cpus < _BUSY * processors.allotted:
        raise MeasurementError(
            f"only {show_number(cpus)} of {processors.allotted} cores could be kept busy: other work, or a quota, took "
            "the rest. Calibrate on a quiet machine, without a quota"
        )
    if added_w <= 0 or restless_w > _RESTLESS * added_w:
        raise MeasurementError(
            f"work added {show_number(added_w)} W, and the idle machine changed by {show_number(restless_w)} W without "
            "it: calibrate on a quiet machine"
        )


def _wrong(found: Calibration) -> str:
    """Return what is not plausible, "" where all is. Texts are checked too: they are shown, whoever wrote them."""
    if not (found.source + found.measured_at).isprintable():
        return f"more than plain text in its source, {found.source!r}, or its time, {found.measured_at!r}"
    if not found.source.startswith(_COUNTERS):
        return f"watts by {found.source!r}, which is no counter of the processor alone"
    if not 0 <= found.idle_w < found.busy_w <= _MOST_W:
        return f"{found.idle_w:g} W idle and {found.busy_w:g} W busy"
    if found.cpus <= 0 or found.window_s < _WINDOW_S:
        return f"{found.cpus:g} CPUs busy in windows of {found.window_s:g} s"
    return ""


def write_calibration(path: Path, found: Calibration) -> None:
    """Write a calibration as JSON; the file is replaced atomically.

    Raises:
        OSError: it cannot be written there.
    """
    text = json.dumps(json.loads(to_json(found)), indent=1)
    replace_file(path, f"{text}\n".encode())


def read_calibration(path: Path, cpu_model: str) -> Calibration:
    """Read a file of `write_calibration`, strictly: it may come from anyone.

    Args:
        path: the file.
        cpu_model: of this machine, as by `name_processor`.

    Raises:
        UsageProblem: no such file, something else in it, or the watts of another processor; says what to do.
    """
    try:
        found = from_file(Calibration, read_file(path, _LARGEST), other=_AGAIN, older=_AGAIN)
    except OSError as error:
        raise UsageProblem(f"the file cannot be read ({error.strerror}): {_AGAIN}") from error
    except SerialisationError as error:
        raise UsageProblem(f"the file {error}") from error
    if wrong := _wrong(found):
        raise UsageProblem(f"the file has {wrong}: {_AGAIN}")
    if not cpu_model or found.cpu_model != cpu_model:
        here = repr(cpu_model) if cpu_model else "without a name"
        raise UsageProblem(
            f"the file has the watts of {found.cpu_model!r}, the processor here is {here}: {_AGAIN} on such a processor"
        )
    return found
