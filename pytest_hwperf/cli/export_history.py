"""`hwperf export --store`: the history of a store for another program."""

import argparse
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from pytest_hwperf.cli.arguments import write_file
from pytest_hwperf.cli.output import complain, say, say_lines
from pytest_hwperf.cli.stores import open_store
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.history import HistoryStore, Series
from pytest_hwperf.core.units import counted
from pytest_hwperf.reports import history_files

OK = 0
FORMATS = ("parquet", "otava")
ALL = 10**9  # values of a series: more than any store has

_NAMED = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that a store needs beside its format."""
    parser.add_argument("--store", metavar="URL", help="take the history of this store, and no report")
    parser.add_argument("--baseline", default="main", metavar="NAME", help="of the store; default: main")
    parser.add_argument("--test", default="*", metavar="GLOB", help="tests of the store; default: all")
    parser.add_argument("--machine", metavar="DIGITS", help="machine of the store, by the first of its digits")


def run(options: argparse.Namespace) -> int:
    """Write the history of a store, and return the exit code."""
    if options.form not in FORMATS:
        raise UsageProblem(f"--as={options.form} takes a report: a history is written as {' or '.join(FORMATS)}")
    if options.form == "parquet":
        _check_parquet(options)
    store, place = open_store(options.store)
    if not isinstance(store, HistoryStore):
        raise UsageProblem(f"--store={options.store} keeps no history: give json:… or sql:…")
    return (_parquet if options.form == "parquet" else _otava)(options, store, place)


def _check_parquet(options: argparse.Namespace) -> None:
    if not options.output:
        raise UsageProblem("--as=parquet is no text: give --output=FILE")
    if find_spec("pyarrow") is None:
        raise UsageProblem("--as=parquet needs pyarrow: pip install 'pytest-hwperf[parquet]'")


def _parquet(options: argparse.Namespace, store: HistoryStore, place: str) -> int:
    """Write one test after the other, so that the memory for one of them is enough."""
    content, rows = history_files.parquet(_series(options, store))
    if not rows:
        raise _nothing(options, place)
    write_file(options.output, content)
    say(f"{counted(rows, 'value')} written to {options.output}")
    return OK


def _otava(options: argparse.Namespace, store: HistoryStore, place: str) -> int:
    """Write one measurement on one machine: rows of others are other runs, and Otava takes no empty cell."""
    found = [one for series in _series(options, store) for one in series]
    if not found:
        raise _nothing(options, place)
    named = {(one.test, one.label, one.machine.fingerprint) for one in found}
    if len(named) > 1:
        names = [visible(" ".join(filter(None, one))) for one in sorted(named)[:_NAMED]]
        listed = "; ".join(names) + "; …" * (len(named) > _NAMED)
        raise UsageProblem(
            f"--as=otava writes one test on one machine, and {len(named)} match: {listed}. Choose "
            "one with --test=GLOB and --machine=DIGITS"
        )
    content, lacking = history_files.otava(found)
    if options.output:
        write_file(options.output, content)
    else:
        say_lines(content.decode().removesuffix("\n"))
    for line in lacking:
        complain(f"left out: {visible(line)}")
    return OK


def _series(options: argparse.Namespace, store: HistoryStore) -> Iterator[Sequence[Series]]:
    for test in store.tests(options.baseline, options.test):
        series = [one for one in store.history(options.baseline, test, newest=ALL) if one.test == test]
        yield [one for one in series if one.machine.fingerprint.startswith(options.machine or "")]


def _nothing(options: argparse.Namespace, place: str) -> UsageProblem:
    return UsageProblem(
        f"no run matches --test={options.test} in baseline {options.baseline} of {place}; list them with hwperf "
        "baseline list"
    )
