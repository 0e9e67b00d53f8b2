"""A load on the calls of a stream: in this thread, in several, or as tasks of their event loop."""

from functools import partial

from pytest_hwperf.core.loads import Load, Served
from pytest_hwperf.core.units import counted
from pytest_hwperf.loads.tasks import drive_tasks
from pytest_hwperf.loads.threads import drive
from pytest_hwperf.loads.times import Times
from pytest_hwperf.measure.stream import Stream


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
