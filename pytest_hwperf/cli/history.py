"""`hwperf history`: the values of tests over time, where they changed, and the team's notes."""

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from pytest_hwperf.checkout.revision import resolve
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.output import OK, USAGE, complain, say, show_document, write_export, write_file, write_record
from pytest_hwperf.host.extras import require
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import DEFAULT_MARGINS, nearest
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Estimate
from pytest_hwperf.records.text import shell_line, shell_word, shortened, visible
from pytest_hwperf.records.units import counted, show_change_interval, show_interval, show_share
from pytest_hwperf.reports import exports
from pytest_hwperf.reports.document import Block, Code, Paragraph
from pytest_hwperf.reports.html.page import check_installed, render_history
from pytest_hwperf.stats.stored.change_points import LevelChange
from pytest_hwperf.stats.stored.history import ALPHA, Annotation, Series, Trend, TrendFile, trend_of
from pytest_hwperf.stores.store import Store

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDEST = 60  # values of a sparkline: the newest
_DIGITS = 10  # of a commit


def document_of(trends: Sequence[Trend]) -> Iterator[Block]:
    """Yield what is shown of some series; those of a test follow each other."""
    for (test, label), group in groupby(trends, lambda one: (one.series.test, one.series.label)):
        yield Paragraph(" ".join(filter(None, [test, label and f"[{label}]"])))
        for trend in group:
            yield from _shown(trend)
    if any(not trend.is_too_short for trend in trends):
        yield Paragraph(
            f"changes: normal scores, largest t of two means, simulated at the estimated autocorrelation; "
            f"{show_share(ALPHA)} false ones a series, and more where autocorrelation is strong and values are few"
        )


def sparkline(values: Sequence[float]) -> str:
    """Draw the newest values as bars from the smallest to the largest of them."""
    shown = values[-_WIDEST:]
    low, high = min(shown), max(shown)
    step = (high - low) / (len(_LEVELS) - 1)
    return "".join(_LEVELS[round((value - low) / step)] if step else _LEVELS[0] for value in shown)


def _shown(trend: Trend) -> Iterator[Block]:
    series = trend.series
    what = metric_of(series.metric, series.better).called(series.statistic)
    against = f", change from {series.anchor[:_DIGITS]}" if series.anchor else ""
    machine = f"machine {series.machine.fingerprint} ({series.machine.cpu_model})"
    runs = counted(len(series.values), "run")
    yield Paragraph(f"{what}{against}, {series.source or 'pairs'}, {machine}: {runs}", 1)
    newest = series.values[-1]
    code = f"{newest.revision[:_DIGITS]}{'+changes' * newest.changed}" if newest.revision else "no commit"
    drawn, last = sparkline([value.estimate.value for value in series.values]), newest.estimate
    unit = metric_of(series.metric, series.better).unit
    value = _interval(last, trend.scale) if series.anchor else show_interval(last.value, last.low, last.high, unit)
    yield Paragraph(f"{drawn} {value}, {newest.started_at}, {code}", 2)
    for change in trend.changes:
        yield Paragraph(f"changed {_changed(trend, change)}", 2)
        if change.before and change.revision and change.before != change.revision:
            words = ("hwperf", "bisect", change.before[:_DIGITS], change.revision[:_DIGITS], "--", series.test)
            yield Code(shell_line(words), 3)
    if trend.is_too_short:
        yield Paragraph("too few runs to look for changes", 2)
    yield from (Paragraph(f"noted at {note.revision[:_DIGITS]}: {shortened(note.text)}", 2) for note in trend.notes)


def _changed(trend: Trend, change: LevelChange) -> str:
    before, after = (revision[:_DIGITS] or "no commit" for revision in (change.before, change.revision))
    between = f"between {before} and {after}"
    if change.earliest < change.latest:
        between += f" (95 %: run {change.earliest + 1} to {change.latest + 1} of {len(trend.series.values)})"
    allowed = f", autocorrelation {change.autocorrelation:.2f} allowed for" if change.autocorrelation else ""
    return f"{_interval(change.shift, trend.scale)} {between}; p={change.p_value:.2g}, n={change.shift.n} runs{allowed}"


def _interval(estimate: Estimate, scale: str) -> str:
    return show_change_interval(estimate.value, estimate.low, estimate.high, scale)


_MOST = 200  # series that are looked at, unless a file gets all of them
_NEWEST = 1000  # runs of a test that are shown
_ALL = 10**9  # more than any store has
_NAMED = 5
_KEYS = frozenset(margin.key for margin in DEFAULT_MARGINS.values())
_SHOWN = frozenset(
    (metric, statistic)
    for metric, statistic in _KEYS
    if statistic == "p50" or (statistic == "mean" and (metric, "p50") not in _KEYS)
)


def run(options: argparse.Namespace) -> int:
    """Show the series of some tests, or export them."""
    if options.newest is not None and options.newest < 1:
        raise UsageProblem(f"--newest={options.newest}: at least 1 run")
    if options.form and len(options.output) > 1:
        raise UsageProblem(f"--as={options.form} writes one file: give --output once")
    if options.form == "parquet":
        if not options.output:
            raise UsageProblem("--as=parquet is no text: give --output=FILE")
        require("parquet", "--as=parquet needs {}", "pyarrow")
    for file in options.output if not options.form else ():
        if Path(file).suffix not in (".json", ".html"):
            raise UsageProblem(f"--output={file}: the name has to end in .json, .html")
    if any(Path(file).suffix == ".html" for file in options.output):
        check_installed()
    store, _ = arg.open_store(options.store)
    shown = (_export if options.form else _show)(store, options)
    if not shown:
        complain(why_none(store, options))
    return OK if shown else USAGE


def _show(store: Store, options: argparse.Namespace) -> bool:
    """Show series and write them to files; return whether there are any."""
    found = list(_chosen(store.history(options.baseline, options.test, newest=options.newest or _NEWEST), options))
    if len(found) > _MOST and not options.output:
        raise UsageProblem(
            f"{options.test!r} matches {len(found)} series, and {_MOST} are shown at most: name fewer "
            "tests or a --metric, or write them all with --output=FILE.json"
        )
    notes = store.annotations()
    trends = tuple(trend_of(one, notes) for one in found)
    for file in options.output if found else ():
        if Path(file).suffix == ".json":
            write_record(file, TrendFile(baseline=options.baseline, alpha=ALPHA, trends=trends))
        else:
            write_file(file, render_history(trends, options.baseline))
    show_document(document_of(trends[:_MOST]))
    return bool(found)


def _export(store: Store, options: argparse.Namespace) -> bool:
    """Export series; return whether there are any."""
    if options.form == "parquet":
        content, rows = exports.history_parquet(_by_test(store, options))
        if rows:
            write_file(options.output[0], content)
            say(f"{counted(rows, 'value')} written to {options.output[0]}")
        return bool(rows)
    found = [one for series in _by_test(store, options) for one in series]
    named = sorted({(one.test, one.label, one.machine.fingerprint) for one in found})
    if len(named) > 1:  # rows of another measurement or machine are other runs, and Otava takes no empty cell
        names = [visible(" ".join(filter(None, one))) for one in named[:_NAMED]]
        listed = "; ".join(names) + "; …" * (len(named) > _NAMED)
        raise UsageProblem(
            f"--as=otava writes one test on one machine, and {len(named)} match: {listed}. Choose "
            "one by its TEST and --machine=DIGITS"
        )
    if found:
        write_export(*exports.history_otava(found), options.output)
    return bool(found)


def _by_test(store: Store, options: argparse.Namespace) -> Iterator[Sequence[Series]]:
    """Yield the series of one test after the other, so that the memory for one of them is enough."""
    for test in store.tests(options.baseline, options.test):
        series = store.history(options.baseline, test, newest=options.newest or _ALL)
        yield list(_chosen([one for one in series if one.test == test], options))


def keep_note(options: argparse.Namespace) -> int:
    """Keep a note at a commit."""
    if not options.text.strip():
        raise UsageProblem("the note is empty: give a text, such as 'new runner'")
    commit = resolve(Path.cwd(), options.revision)
    noted_at = datetime.now(UTC).isoformat(timespec="seconds")
    store, _ = arg.open_store(options.store)
    store.annotate(Annotation(revision=commit, text=options.text.strip(), noted_at=noted_at))
    say(f"noted at {commit[:10]}: {options.text.strip()}")
    return OK


def why_none(store: Store, options: argparse.Namespace) -> str:
    """Say what the store has in place of a test that is not there."""
    tests = store.tests(options.baseline)
    if not tests:
        return (
            f"baseline {options.baseline} of {options.store} has no runs yet: pytest --hwperf-save stores them, or "
            "give another --baseline or --store"
        )
    found = _on_machine(store.history(options.baseline, options.test), options) if options.metric else []
    if names := sorted({f"{one.metric}_{one.statistic}" for one in found}):
        hint = nearest(options.metric, names)
        return f"--metric={options.metric}: not among these runs.{hint} There are: {', '.join(names)}"
    machine = f" on machine {options.machine}…" if options.machine else ""
    return visible(
        f"no run matches {options.test!r}{machine} in baseline {options.baseline} of {options.store}."
        f"{nearest(options.test, tests)} It has {counted(len(tests), 'test')}: list them with hwperf baseline list "
        f"--store={shell_word(options.store)}"
    )


def _chosen(series: Sequence[Series], options: argparse.Namespace) -> Iterator[Series]:
    """Yield the series that were asked for; without a metric one of each, and in exports all."""
    for one in _on_machine(series, options):
        is_named = options.metric in (one.metric, f"{one.metric}_{one.statistic}")
        # a metric that a test records itself, or a stage of its call
        is_own = one.statistic == "p50" and all(one.metric != metric for metric, _ in _SHOWN)
        if is_named if options.metric else options.form or one.key in _SHOWN or is_own:
            yield one


def _on_machine(series: Sequence[Series], options: argparse.Namespace) -> list[Series]:
    return [one for one in series if one.machine.fingerprint.startswith(options.machine)]


_ARGUMENTS = (
    arg.option("test", "TEST", "show tests by id; * and ? are wildcards"),
    arg.option("--metric", "NAME", "show this one, e.g. latency_p95; default: medians or means, in exports all"),
    arg.option("--machine", "DIGITS", "show machines by the first digits of their fingerprint", default=""),
    *(arg.STORE, arg.BASELINE),
    arg.option("--newest", "N", "show the newest runs of each test; default: 1000, in exports all", type=int),
    arg.option("--as", None, "export the values into the --output", dest="form", choices=["parquet", "otava"]),
    arg.several("--output", "FILE", "write FILE.json with values, or FILE.html with charts"),
)
COMMAND = arg.Subcommand(
    "history",
    run,
    "show how tests changed over time, and at which commits",
    _ARGUMENTS,
    "Show the stored values of tests, the commits with a change of level, and your notes. Add notes with "
    "`hwperf history note REV TEXT`.",
    answers={0: "shown or exported", 4: "usage, or unknown tests"},
)
NOTE = arg.Subcommand(
    "history note",  # as `hwperf history` is typed with a test, it has no commands below it
    keep_note,
    "",
    (
        arg.option("revision", "REV", "attach the note to this revision, e.g. HEAD"),
        arg.option("text", "TEXT", "keep this text, e.g. 'new runner'"),
        arg.STORE,
    ),
    "Keep a note on a revision, for hwperf history to show.",
)
