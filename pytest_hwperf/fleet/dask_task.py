"""What dask runs on a host: one gate, whose signs of life and answer are events of plain msgpack, never pickled."""

import zlib

from pytest_hwperf.fleet.on_host import ReturnLine, answer
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.fleet import HostAnswer, Order

_AT_WORK = ("running", "paused")  # states of a worker that is not being closed
PART = 1 << 22  # bytes of an answer in one message


def carry_out(order: bytes, parcel: bytes, topic: str) -> None:
    """Run a gate on this host and send its answer."""
    from distributed import get_worker

    worker, given = get_worker(), from_json(Order, order)
    key = worker.get_current_task()

    def is_wanted() -> bool:
        """Whether the task has not been cancelled, nor its client or the scheduler gone: dask forgets it, or closes."""
        known = worker.state.tasks.get(key)
        return known is not None and known.state == "executing" and worker.status.name in _AT_WORK

    line = ReturnLine(tell=lambda text: worker.log_event(topic, {"job": given.job, "sign": text}), is_wanted=is_wanted)
    for part in parts_of(answer(given, parcel, line)):
        worker.log_event(topic, {"job": given.job, **part})


def parts_of(given: HostAnswer) -> list[dict[str, object]]:
    """Return an answer as messages, each with its number and how many there are."""
    packed = zlib.compress(to_json(given))
    pieces = [packed[start : start + PART] for start in range(0, len(packed), PART)]
    return [{"part": number, "of": len(pieces), "bytes": piece} for number, piece in enumerate(pieces)]
