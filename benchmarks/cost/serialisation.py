"""msgspec beside cattrs: CPU time to import each, and to write and to read strictly a report of 1,000 results.

pip install cattrs
python -m benchmarks serialisation
"""

import argparse
import base64
import dataclasses
import operator
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping
from functools import cache, reduce
from statistics import median
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from benchmarks import tables
from benchmarks.cost.judging_many import judged_report
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.structs import Record

RESULTS, STORED, SEED, REPEATS = 1000, 5, 1, 7
IMPORT = """
import dataclasses, json, time, typing  # which every session has loaded
started = time.process_time()
import {}
print(time.process_time() - started)
"""

T = TypeVar("T")


def seconds_to_import(module: str) -> float:
    """Return the median CPU time of an import in fresh processes, s."""
    command = [sys.executable, "-I", "-c", IMPORT.format(module)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(REPEATS)]
    return median(float(run.stdout) for run in runs)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the median CPU time, s, and what came out."""
    taken = []
    for _ in range(REPEATS):
        started = time.process_time()
        done = work()
        taken.append(time.process_time() - started)
    return median(taken), done


@cache
def dataclass_of(cls: Any) -> Any:
    """Return a frozen dataclass with the fields of a record."""
    hints = get_type_hints(cls)
    fields = [(name, _hint(hints[name])) for name in cls.__struct_fields__]
    return dataclasses.make_dataclass(cls.__name__, fields, frozen=True, slots=True, kw_only=True)


def _hint(hint: Any) -> Any:
    """Return a type with dataclasses in place of records."""
    origin, arguments = get_origin(hint), [_hint(argument) for argument in get_args(hint)]
    if isinstance(hint, type) and issubclass(hint, Record):
        return dataclass_of(hint)
    if origin is tuple:
        return tuple.__class_getitem__(tuple(arguments))
    if origin is Mapping:
        return dict.__class_getitem__(tuple(arguments))
    return reduce(operator.or_, arguments) if origin in (Union, UnionType) else hint


def as_dataclass(value: Any) -> Any:
    """Return what a record holds in dataclasses."""
    if isinstance(value, Record):
        return dataclass_of(type(value))(**{n: as_dataclass(getattr(value, n)) for n in value.__struct_fields__})
    if isinstance(value, Mapping):
        return {key: as_dataclass(one) for key, one in value.items()}
    return tuple(map(as_dataclass, value)) if isinstance(value, tuple) else value


def strict_converter() -> Any:
    """Return a converter of cattrs that refuses unknown fields and packs arrays."""
    from cattrs.preconf.json import make_converter

    found = make_converter(forbid_extra_keys=True)
    found.register_unstructure_hook(array, lambda values: base64.b64encode(values.tobytes()).decode())
    found.register_structure_hook(array, lambda text, _: array("d", base64.b64decode(text)))
    return found


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    report = judged_report(RESULTS, STORED, SEED)
    ours, theirs, converter = report, as_dataclass(report), strict_converter()
    write, text = timed(lambda: to_json(ours))
    read, back = timed(lambda: from_json(Report, text))
    write_theirs, text_theirs = timed(lambda: converter.dumps(theirs))
    read_theirs, back_theirs = timed(lambda: converter.loads(text_theirs, dataclass_of(Report)))
    assert (back, back_theirs) == (ours, theirs)  # noqa: S101 - both did the whole work
    rows = (
        ("import in a fresh process", seconds_to_import("msgspec"), seconds_to_import("cattrs.preconf.json")),
        (f"write {RESULTS} results, {len(text) / 1e6:.1f} MB", write, write_theirs),
        ("read them", read, read_theirs),
    )
    cells = ((what, f"{1e3 * one:.0f} ms", f"{1e3 * other:.0f} ms") for what, one, other in rows)
    print(tables.markdown((f"CPU time, median of {REPEATS}", "msgspec", "cattrs"), cells))
