"""What a session keeps and shows: runs in the baseline, files of reports, and the table in the terminal."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hwperf.host.extras import missing
from pytest_hwperf.host.files import create_file, leads_out, replace_files
from pytest_hwperf.plugin.reporting.report import test_names
from pytest_hwperf.plugin.session.parsers import REPORTS
from pytest_hwperf.plugin.session.state import session_of, without_collection
from pytest_hwperf.records.errors import StoreError, install
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import StoredRun
from pytest_hwperf.records.text import shell_line, shell_word
from pytest_hwperf.records.units import counted
from pytest_hwperf.reports import csv_files, explained, json_file, markdown, plots, tradeoff_files
from pytest_hwperf.reports import sweeps as sweep_report
from pytest_hwperf.reports import terminal as terminal_report
from pytest_hwperf.reports.document import StyledLine, as_text
from pytest_hwperf.stats.pairs.hypotheses import why_not_rerun
from pytest_hwperf.stats.stored.compare import may_hide_a_change, stored_run_of
from pytest_hwperf.stats.stored.history import Annotation, Series

if TYPE_CHECKING:
    from pytest_hwperf.plugin.session.settings import Settings
    from pytest_hwperf.reports.table import Detail
    from pytest_hwperf.stores.store import Store


_OFFERED = 5  # commands that accept one test each
_LAST_LINE, _ROWS, _ALL_FIGURES = -2, 1, 2  # verbosity: the counts alone with -qq, every row with -v, all with -vv

Notices = tuple[list[str], list[str]]  # what was done, and what went wrong


def save(config: pytest.Config, report: Report, accepted: Collection[str]) -> Notices:
    """Save the sound runs of accepted tests to the baseline; keep the others aside until they are accepted."""
    settings = session_of(config).settings
    if not settings.save:
        return [], []
    store = session_of(config).store
    # A run without figures, such as that of a comparison of models, holds nothing to compare with later.
    measured = [judgement for judgement in report.judgements if judgement.figures]
    sound = {one.run.test for one in measured} & test_names(accepted)
    sound -= {one.run.test for one in measured if may_hide_a_change(one.comparisons)}
    passed = [stored_run_of(judgement) for judgement in measured if judgement.run.test in sound]
    failed = [stored_run_of(judgement) for judgement in measured if judgement.run.test not in sound]
    saved, unsaved = _stored(store.save, settings.baseline, passed)
    held, unheld = _stored(store.hold, settings.baseline, failed)
    unkept = list[str]()
    try:
        store.keep(settings.baseline, report)
    except StoreError as error:
        unkept.append(f"verdicts not kept: {error}")
    lines = [f"{counted(len(saved), 'run')} saved to baseline {settings.baseline} in {settings.location}"]
    if refused := session_of(config).revision.refused:
        lines.append(f"warning: saved without a revision, so that --hwperf-compare cannot rerun it: {refused}")
    elif saved and (reason := why_not_rerun(passed[0].run, known=True, crowded=False)):
        lines.append(
            f"--hwperf-compare cannot rerun this revision, since {reason}, and compares later timings with the stored "
            "ones: commit and save again"
        )
    lines += _to_accept(settings, held)
    return lines, [*unsaved, *unheld, *unkept]


def _to_accept(settings: "Settings", held: Sequence[str]) -> list[str]:
    """Return what to type to accept the runs of `held`: a command for each of some tests, and one for all."""
    url, tests = f"{settings.store}:{settings.location}", list(dict.fromkeys(held))
    command = shell_line(["hwperf", "baseline", "accept", "--baseline", settings.baseline, "--store", url])
    commands = [f"{command} {'-- ' * test.startswith('-')}{shell_word(test)}" for test in tests[:_OFFERED]]
    if len(tests) > 1:
        commands.append(f"for every run that waits there: {command} '*'")
    said = f"{counted(len(held), 'run')} not saved to the baseline: failed, or perhaps worse. "
    return [f"{said}Where this is the new normal: {commands[0]}", *commands[1:]] if held else []


def _stored(
    keep: Callable[[str, Sequence[StoredRun]], Sequence[str | StoreError]], baseline: str, runs: Sequence[StoredRun]
) -> Notices:
    """Return the tests whose runs were stored, and what kept the others from it."""
    try:
        answers = keep(baseline, runs)
    except StoreError as error:
        return [], [f"not saved: {error}"]
    tests = [run.run.test for run, answer in zip(runs, answers, strict=True) if isinstance(answer, str)]
    return tests, [f"not saved: {answer}" for answer in answers if isinstance(answer, StoreError)]


def show(terminal: pytest.TerminalReporter, report: Report) -> None:
    writer, verbosity = terminal.config.get_terminal_writer(), terminal.config.get_verbosity()
    gate = session_of(terminal.config).gate
    if verbosity > _LAST_LINE:
        terminal.write_sep("=", "hwperf")
    if gate and gate.completeness.shortfall:
        terminal.write_line(gate.completeness.shortfall, yellow=True, bold=True)
    with without_collection():
        lines = _lines(report, verbosity, writer.fullwidth)
    for line, style in lines or [("nothing was measured: tests measure by calling their fixture, hwperf(...)", {})]:
        terminal.write_line(line, **style)
    if verbosity <= _LAST_LINE:
        return
    for sweep in report.sweeps:
        for line in as_text(sweep_report.document_of(sweep), writer.fullwidth):
            terminal.write_line(line)
    for line in as_text(sweep_report.notes_of(report.sweeps), writer.fullwidth):
        terminal.write_line(line, yellow=True)


def _lines(report: Report, verbosity: int, width: int) -> list[StyledLine]:
    """Draw as much of a report as the verbosity asks for: its counts, what is not well, a line a test, every row."""
    if verbosity <= _LAST_LINE:
        return terminal_report.render_counts(report, width=width)
    if verbosity < _ROWS:
        return terminal_report.render_summary(report, width=width, quiet=verbosity < 0)
    detail: Detail = "verbose" if verbosity >= _ALL_FIGURES else "normal"
    return terminal_report.render(report, width=width, detail=detail)


def write(config: pytest.Config, report: Report) -> Notices:
    settings, files = session_of(config).settings, dict[Path, bytes]()
    places = [config.invocation_params.dir / name for name in settings.reports]
    folders = [place for place in places if not place.name.endswith(REPORTS)]
    for place in places:
        files |= {path: content for path, content in _made(config, report, place) if path not in files}
    out = [path for path in files if leads_out(path, config.rootpath)]
    trouble = [f"{path} not written: a link in {config.rootpath} leads out of it; give another path" for path in out]
    failed = replace_files({path: content for path, content in files.items() if path not in out}, create_file)
    trouble += [
        f"{path} not written: {error.strerror}; give another path or free some space" for path, error in failed.items()
    ]
    written = [path for path in files if path not in out and path not in failed]
    own = [path for path in written if path in places]
    lines = [f"wrote {path}" for path in own]
    for folder in folders:
        within = [path for path in written if path not in own and path.is_relative_to(folder)]
        lines += [f"wrote {counted(len(within), 'file')} to {folder}"] if within else []
    if folders and missing("matplotlib"):
        lines.append(f"no pictures drawn: {install('plot')}")
    return lines, trouble


def _made(config: pytest.Config, report: Report, place: Path) -> Iterator[tuple[Path, bytes]]:
    if place.suffix == ".json":
        yield place, json_file.render(report, judgements_read=True)
    elif place.suffix == ".html":
        yield place, _page(config, report)
    elif place.suffix == ".md":
        yield place, markdown.render(report)
    else:
        yield from ((place / name, content) for name, content in _artifacts(report).items())


def _artifacts(report: Report) -> dict[str, bytes]:
    found = {**csv_files.render(report), **tradeoff_files.render(report), **explained.render(report)}
    if not missing("matplotlib"):
        drawn = [sweep for sweep in report.sweeps if any(row.is_measured for row in sweep.rows)]
        found |= {f"sweep-{place}.png": plots.render_sweep(sweep) for place, sweep in enumerate(drawn, 1)}
        found |= plots.render_tradeoffs(report)
    return found


def _page(config: pytest.Config, report: Report) -> bytes:
    from pytest_hwperf.reports.html import page

    settings, store = session_of(config).settings, session_of(config).store
    asked = settings.keeps_runs or settings.is_anchored
    read = partial(_history, store, settings.baseline) if asked else None
    return page.render(report, history=read)


def _history(
    store: "Store", baseline: str, measured: Sequence[tuple[str, str]], newest: int
) -> tuple[Sequence[Series], Sequence[Annotation]]:
    """Read the history of some tests; a store that cannot be read has none here: the comparison has said so."""
    with suppress(StoreError):
        return store.history_of(baseline, measured, newest=newest), store.annotations()
    return (), ()
