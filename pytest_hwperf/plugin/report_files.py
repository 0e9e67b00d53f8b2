"""The files of a report: made by the formats that were asked for, and written."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from pytest_hwperf.core.errors import StoreError
from pytest_hwperf.core.history import Annotation, HistoryStore, Series
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.units import counted
from pytest_hwperf.host.files import create_file, leads_out, replace_files
from pytest_hwperf.plugin.options import REPORTS
from pytest_hwperf.plugin.reporting import Notices
from pytest_hwperf.plugin.session import session_of
from pytest_hwperf.reports import csv_files, json_file, markdown, stacks, sweep_plot, tradeoff_files, tradeoff_plot
from pytest_hwperf.reports.sweep_plot import is_matplotlib_there


def write(config: pytest.Config, report: Report) -> Notices:
    """Write the files that were asked for."""
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
    if folders and not is_matplotlib_there():
        lines.append("no pictures drawn: pip install 'pytest-hwperf[plot]'")
    return lines, trouble


def _made(config: pytest.Config, report: Report, place: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the files of one report, in the format that its name says."""
    if place.suffix == ".json":
        yield place, json_file.render(report, judgements_read=True)
    elif place.suffix == ".html":
        yield place, _page(config, report)
    elif place.suffix == ".md":
        yield place, markdown.render(report)
    else:
        yield from ((place / name, content) for name, content in _artifacts(report).items())


def _artifacts(report: Report) -> dict[str, bytes]:
    """Return the files of a folder of artifacts; pictures only where matplotlib is installed."""
    found = {**csv_files.render(report), **tradeoff_files.render(report), **stacks.render(report)}
    if is_matplotlib_there():
        drawn = [sweep for sweep in report.sweeps if any(row.is_measured for row in sweep.rows)]
        found |= {f"sweep-{place}.png": sweep_plot.render(sweep) for place, sweep in enumerate(drawn, 1)}
        found |= {"benchmark_tradeoff.png": tradeoff_plot.render(report)} if tradeoff_plot.is_drawn(report) else {}
    return found


def _page(config: pytest.Config, report: Report) -> bytes:
    from pytest_hwperf.reports.html import page

    settings, store = session_of(config).settings, session_of(config).store
    asked = settings.save or settings.compare or settings.is_anchored
    read = partial(_history, store, settings.baseline) if asked and isinstance(store, HistoryStore) else None
    return page.render(report, history=read)


def _history(
    store: HistoryStore, baseline: str, measured: Sequence[tuple[str, str]], newest: int
) -> tuple[Sequence[Series], Sequence[Annotation]]:
    """Read the history of some tests; a store that cannot be read has none here: the comparison has said so."""
    with suppress(StoreError):
        return store.history_of(baseline, measured, newest=newest), store.annotations()
    return (), ()
