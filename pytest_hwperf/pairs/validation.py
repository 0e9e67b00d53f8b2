"""What a process of a pair says, checked before it is believed: the baseline's code may be a stranger's."""

import math
from typing import Any

from pytest_hwperf.core.serialisation import from_plain
from pytest_hwperf.core.errors import SerialisationError
from pytest_hwperf.core.records import Sample
from pytest_hwperf.pairs.channel import WorkerLostError
from pytest_hwperf.pairs.frames import Frame


def texts(side: str, frame: Frame, name: str) -> list[str]:
    """Return a list of texts.

    Raises:
        WorkerLostError: something else.
    """
    found = frame.fields.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _refused(side, frame, name)
    return found


def mapping(side: str, frame: Frame, name: str) -> dict[str, Any]:
    """Return a mapping from text.

    Raises:
        WorkerLostError: something else.
    """
    found = frame.fields.get(name, {})
    if not isinstance(found, dict):
        raise _refused(side, frame, name)
    return found


def whole(side: str, frame: Frame, name: str) -> int:
    """Return a whole number from 0 on.

    Raises:
        WorkerLostError: something else.
    """
    found = frame.fields.get(name)
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise _refused(side, frame, name)
    return found


def samples(side: str, frame: Frame, name: str) -> list[Sample]:
    """Return a list of samples.

    Raises:
        WorkerLostError: something else.
    """
    found = frame.fields.get(name)
    try:
        return [from_plain(Sample, plain) for plain in found or ()]
    except (SerialisationError, TypeError) as error:
        raise _refused(side, frame, name) from error


def number(value: object) -> float | None:
    """Return a finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _refused(side: str, frame: Frame, name: str) -> WorkerLostError:
    return WorkerLostError(f"{side}: its {frame.kind!r} message has no valid {name!r}: is it the same pytest-hwperf?")
