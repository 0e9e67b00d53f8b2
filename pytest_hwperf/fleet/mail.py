"""Messages of hosts, which may come from anyone who reaches the scheduler: taken apart strictly, put together."""

import zlib
from collections.abc import Mapping
from typing import Any

from pytest_hwperf.fleet.dispatch import News

_LARGEST = 1 << 29  # bytes of an answer, unpacked: as of any report
_LARGEST_PACKED = 1 << 27
_MOST_PARTS = 1 << 12
_LONGEST_SIGN = 1000  # characters


class Mail:
    """The messages of all jobs."""

    def __init__(self) -> None:
        """Begin with none."""
        self._parts: dict[str, dict[int, bytes]] = {}

    def open(self, message: object) -> News | None:
        """Return what a message tells, None where it tells nothing yet or is none of ours."""
        if not isinstance(message, Mapping) or not isinstance(job := message.get("job"), str):
            return None
        if isinstance(sign := message.get("sign"), str):
            return News(job=job, sign=sign[:_LONGEST_SIGN])
        return self._part(job, message)

    def _part(self, job: str, message: Mapping[Any, Any]) -> News | None:
        """Keep a part of an answer; return the answer where it was the last one."""
        number, of, piece = message.get("part"), message.get("of"), message.get("bytes")
        if type(number) is not int or type(of) is not int or not isinstance(piece, bytes):
            return None
        parts = self._parts.setdefault(job, {})
        parts[number] = piece
        if not 0 <= number < of <= _MOST_PARTS or sum(map(len, parts.values())) > _LARGEST_PACKED:
            del self._parts[job]
            return News(job=job, died="its answer is larger than any report")
        if len(parts) < of:
            return News(job=job, sign=f"sending its answer, part {len(parts)} of {of}")
        del self._parts[job]
        return _unpacked(job, b"".join(parts[one] for one in sorted(parts)))


def _unpacked(job: str, packed: bytes) -> News:
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, _LARGEST)
    except zlib.error as error:
        return News(job=job, died=f"its answer is damaged ({error})")
    if not unpacker.eof:
        return News(job=job, died="its answer is cut off, or larger than any report")
    return News(job=job, answer=content)
