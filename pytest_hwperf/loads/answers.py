"""Answers to requests, which may come from anyone: the labels in their JSON, or why there are none."""

import json
from collections.abc import Sequence
from typing import NoReturn

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.foreign_text import shortened

NAMES = ("predictions", "outputs")
_FORMS = 'a list with a label for each row, or an object with such a list as "predictions" or "outputs"'
Label = str | int | float | bool


def labels_of(answer: bytes, rows: int) -> Sequence[Label]:
    """Return the labels of an answer, one for each row of the request."""
    try:
        plain = json.loads(answer, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _other(answer, "is no JSON") from error
    if isinstance(plain, dict):
        named = [name for name in NAMES if name in plain]
        if len(named) != 1:
            raise _other(answer, "names none of them" if not named else "names both")
        plain = plain[named[0]]
    if not isinstance(plain, list):
        raise _other(answer, "has no list")
    if len(plain) != rows:
        raise _other(answer, f"has {len(plain)} entries for {rows} rows")
    if not all(isinstance(one, str | int | float) for one in plain):
        raise _other(answer, "has entries that are no labels")
    if len({isinstance(one, str) for one in plain}) > 1:
        raise _other(answer, "mixes texts and numbers")
    return plain


def _other(answer: bytes, why: str) -> MeasurementError:
    given = shortened(answer.decode(errors="replace"))
    return MeasurementError(f"the answer {given} {why}: predictions are read from {_FORMS}; or leave the labels out")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")
