"""`hwperf history`: the values of a test over time, and since when they are others."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pytest_hwperf.cli.arguments import check_files, write_file, write_record
from pytest_hwperf.cli.history_text import lines_of
from pytest_hwperf.cli.output import complain, say, width
from pytest_hwperf.cli.stores import HELP, open_history
from pytest_hwperf.core.budgets import DEFAULT_MARGINS, nearest
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.history import Annotation, HistoryStore, Series
from pytest_hwperf.core.trends import ALPHA, TrendFile, trend_of
from pytest_hwperf.core.units import counted
from pytest_hwperf.reports.wrapping import wrapped
from pytest_hwperf.trees.revision import resolve

OK, NOTHING = 0, 4
_MOST = 200  # series that are looked at, unless a file gets all of them
_KEYS = frozenset(margin.key for margin in DEFAULT_MARGINS.values())
_SHOWN = frozenset(
    (metric, statistic)
    for metric, statistic in _KEYS
    if statistic == "p50" or (statistic == "mean" and (metric, "p50") not in _KEYS)
)


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both commands and their options."""
    history = commands.add_parser(
        "history",
        help="show the values of tests over time, and where their level changed",
        description="Show what a store remembers of tests: a line for each statistic and machine, where its level "
        "changed and between which revisions, and the team's notes. Exit code 0: shown; 4: usage, or nothing matches.",
    )
    history.add_argument("test", metavar="TEST", help="id of a test, with * and ? as wildcards")
    history.add_argument(
        "--metric", metavar="NAME", help="such as latency, or latency_p95; default: of each the median"
    )
    history.add_argument("--store", default="json:.hwperf", metavar="URL", help=HELP)
    history.add_argument("--baseline", default="main", metavar="NAME", help="default: main")
    history.add_argument("--newest", type=int, default=1000, metavar="N", help="runs of each test; default: 1000")
    history.add_argument("--json", metavar="FILE", help="write values and changes as JSON")
    history.add_argument("--html", metavar="FILE", help="write one HTML file with a chart of each series")
    history.set_defaults(run=show)
    note = commands.add_parser(
        "annotate",
        help="note something at a revision, for the history",
        description="Keep a note that hwperf history shows at a revision: a new runner, an accepted slowdown.",
    )
    note.add_argument("revision", metavar="REV", help="as git knows it")
    note.add_argument("text", metavar="TEXT", help="the note")
    note.add_argument("--store", default="json:.hwperf", metavar="URL", help=HELP)
    note.set_defaults(run=annotate)


def show(options: argparse.Namespace) -> int:
    """Show the series of some tests, and write them to files."""
    if options.newest < 1:
        raise UsageProblem(f"--newest={options.newest}: at least 1 run")
    check_files(json=options.json, html=options.html)
    store = open_history(options.store)
    found = list(_chosen(store, options))
    if not found:
        complain(_why_none(store, options))
        return NOTHING
    if len(found) > _MOST and not (options.json or options.html):
        raise UsageProblem(
            f"{options.test!r} matches {len(found)} series, and {_MOST} are shown at most: name fewer "
            "tests or a --metric, or write them all with --json=FILE"
        )
    notes = store.annotations()
    trends = tuple(trend_of(one, notes) for one in found)
    if options.json:
        write_record(options.json, TrendFile(baseline=options.baseline, alpha=ALPHA, trends=trends))
    if options.html:
        from pytest_hwperf.reports import history_page

        write_file(options.html, history_page.render(trends, options.baseline))
    for line in lines_of(trends[:_MOST]):
        text = line.lstrip()
        whole = text.startswith("hwperf ")  # a command, to be copied
        for part in [line] if whole else wrapped(text, width(), " " * (len(line) - len(text))):
            say(part)
    return OK


def annotate(options: argparse.Namespace) -> int:
    """Keep a note at a commit."""
    if not options.text.strip():
        raise UsageProblem("the note is empty: give a text, such as 'new runner'")
    commit = resolve(Path.cwd(), options.revision)
    noted_at = datetime.now(UTC).isoformat(timespec="seconds")
    open_history(options.store).annotate(Annotation(revision=commit, text=options.text.strip(), noted_at=noted_at))
    say(f"noted at {commit[:10]}: {options.text.strip()}")
    return OK


def _why_none(store: HistoryStore, options: argparse.Namespace) -> str:
    """Say what the store has in place of a test that is not there."""
    tests = store.tests(options.baseline)
    if not tests:
        return (
            f"baseline {options.baseline} of {options.store} has no runs yet: pytest --hwperf-save stores them, or "
            "give another --baseline or --store"
        )
    return visible(
        f"no run matches {options.test!r} in baseline {options.baseline} of {options.store}."
        f"{nearest(options.test, tests)} It has {counted(len(tests), 'test')}: list them with hwperf baseline list "
        f"--store={shlex.quote(options.store)}"
    )


def _chosen(store: HistoryStore, options: argparse.Namespace) -> Iterator[Series]:
    """Yield the series that were asked for.

    Raises:
        UsageProblem: no series has this metric.
    """
    series = store.history(options.baseline, options.test, newest=options.newest)
    if options.metric is None:
        yield from (one for one in series if one.key in _SHOWN or _is_own(one))
        return
    wanted = [one for one in series if options.metric in (one.metric, f"{one.metric}_{one.statistic}")]
    if series and not wanted:
        names = _names(series)
        hint = nearest(options.metric, names)
        raise UsageProblem(f"--metric={options.metric}: not among these runs.{hint} There are: {', '.join(names)}")
    yield from wanted


def _is_own(one: Series) -> bool:
    """Whether it is of a metric that a test records itself, or a stage of its call."""
    return all(one.metric != metric for metric, _ in _SHOWN) and one.statistic == "p50"


def _names(series: Sequence[Series]) -> list[str]:
    return sorted({f"{one.metric}_{one.statistic}" for one in series})
