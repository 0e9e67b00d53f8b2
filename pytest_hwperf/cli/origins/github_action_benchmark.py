"""Input files of github-action-benchmark's custom tools: a number with a unit for each name."""

import re

from pytest_hwperf.cli.origins.foreign import (
    Named,
    decode,
    foreign_run,
    judgement_of,
    of_unknown_direction,
    plain_figure,
    report_of,
    what_is,
)
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import ForeignRecord, Number

_PROGRAM = "github-action-benchmark"
_ENDINGS = {"ms": "_ms", "MB": "_mb", "mJ": "_mj", "mg": "_mg", "1/s": "_per_s", "1": ""}  # of the names of exports


class _Entry(ForeignRecord, frozen=True, kw_only=True):
    name: str
    unit: str
    value: Number


def read(text: bytes) -> Report:
    """Read the entries of a file; those of `hwperf export` are the figures again that they were.

    Raises:
        UsageProblem: it is none of the custom tools, or empty.
    """
    entries = decode(list[_Entry], text, f"{_PROGRAM}'s custom tools")
    if not entries:
        raise UsageProblem(f"this file of {_PROGRAM} is empty")
    tests: dict[str, list[tuple[Named, _Entry]]] = {}
    for entry in entries:
        test, named = _named(entry)
        tests.setdefault(test, []).append((named, entry))
    source = f"{_PROGRAM}: value"
    judgements = [
        judgement_of(foreign_run(test), [(named, plain_figure(named, one.value, source)) for named, one in found])
        for test, found in tests.items()
    ]
    return report_of(judgements, *of_unknown_direction(judgements, _PROGRAM))


def _named(entry: _Entry) -> tuple[str, Named]:
    """Split the name of an entry into that of its test and what was measured; of others' the unit is in the name."""
    test, _, last = entry.name.rpartition(" ")
    known = what_is(f"{last}{_ENDINGS.get(entry.unit, '?')}", _PROGRAM)
    if test and known.known:
        return test, known
    return entry.name, what_is(f"value_{re.sub(r'[^A-Za-z0-9]+', '_', entry.unit)}".strip("_"), _PROGRAM)
