"""Pages, each one HTML file that needs nothing else: that of a report, and that of a history of runs.

All that they show is embedded as plain data, and drawn by their script.
"""

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Key, Machine
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, scale_for
from pytest_hwperf.records.verdict import Budget, Judgement
from pytest_hwperf.reports.explained import operator_tables
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.html.details import PairData, Plain, chart_of, detail_of, rounded, seen_of, shared_of
from pytest_hwperf.reports.rows import GROUPS, Row, Tone, benchmark_of, grouped, title_of, unnamed_scenario
from pytest_hwperf.reports.table import rows
from pytest_hwperf.stats.choice.candidates import per_row
from pytest_hwperf.stats.choice.tradeoffs import measured_together
from pytest_hwperf.stats.stored.history import FEWEST_DRAWN, Annotation, Series, Trend, trend_of, with_run

if TYPE_CHECKING:
    from markupsafe import Markup

Measured = tuple[str, str]  # test and label
# Reads the series of some tests, of so many of their newest runs, and all notes.
Reader = Callable[[Sequence[Measured], int], tuple[Sequence[Series], Sequence[Annotation]]]

_SCRIPTS = {  # of each page, in the order in which they need each other
    "report": ("dom.js", "charts.js", "details.js", "table.js"),
    "history": ("dom.js", "charts.js", "history.js"),
}
_MOST_LISTED = 20  # regressions in the summary: the table has them all
_STATES: Mapping[Tone, str] = {"bad": "Failed", "doubtful": "Open questions", "good": "Passed", "plain": "Measured"}
_NAMES: Mapping[str, str] = {  # of the groups as readers see them, where it is another one
    "failed": "budget missed",
    "unanswered": "not answered",
    "settled": "equivalent or passed",
    "plain": "measured only",
}


def check_installed() -> None:
    """Refuse before anything is measured."""
    require("report", "an HTML report needs {}", "jinja2", "plotly")


def text_of(name: str) -> str:
    """Return a file that lies beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def script(page: str) -> str:
    """Return a page's own script."""
    parts = "\n".join(text_of(name) for name in _SCRIPTS[page])
    return f'"use strict";\n(function () {{\n{parts}\n}})();\n'


@lru_cache(maxsize=1)
def plotly() -> tuple[str, str]:
    """Return plotly.js, which the package plotly brings with it, packed, and its hash.

    It is packed to the same bytes always; the page unpacks it when its first chart is opened.
    """
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    packed = gzip.compress(source.encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii"), hash_of(source)


def hash_of(source: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode("ascii")


def embedded(plain: object) -> "Markup":
    """Write JSON that no parser of HTML takes for markup, whatever it quotes."""
    from markupsafe import Markup

    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    escaped = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(escaped)  # noqa: S704 - nothing in it is markup


def _written(page: str, **values: Any) -> bytes:
    """Fill the template of a page, which escapes each value that is not `embedded`.

    Its Content-Security-Policy allows nothing from elsewhere, and no script but those of these hashes. Styles cannot be
    told by their hash: the library sets them on the elements that it draws.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    own, (library, allowed) = script(page), plotly()
    policy = (
        f"default-src 'none'; script-src '{hash_of(own)}' '{allowed}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=FunctionLoader(text_of), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, code = Markup(text_of("style.css")), Markup(own)  # noqa: S704 - this package's own files
    template = environment.get_template(f"{page}.html.jinja")
    text: str = template.render(policy=policy, style=style, script=code, library=library, **values)
    return text.encode("utf-8", errors="backslashreplace")


def render(report: Report, *, history: Reader | None = None) -> bytes:
    """Render a report: the same bytes for the same report."""
    check_installed()
    groups, headline = grouped(report), headline_of(report)
    table, details, left_out = content_of(report, groups, history)
    across = {"tradeoffs": [*tradeoffs_of(report)], "rooflines": rooflines_of(report)}
    bad = [*groups["regressed"], *groups["failed"]]
    warnings = [*report.warnings, *(warning for gate in report.gates for warning in gate.warnings)]
    warnings += [f"The pairs ended early: {gate.evidence.stopped}" for gate in report.gates if gate.evidence.stopped]
    if report.partial:
        warnings.append("The run was interrupted: the tests that are here are complete, others are missing.")
    return _written(
        "report",
        rows=embedded(table),
        details=[*map(embedded, details)],
        overview=embedded(across),
        across=across,
        headline=headline,
        result=_STATES[headline.state] if report.judgements or headline.state != "plain" else "Empty",
        counts=[(name, _NAMES.get(name, name), len(groups[name])) for name in GROUPS if groups[name]],
        bad=bad[:_MOST_LISTED],
        more_bad=len(bad) - len(bad[:_MOST_LISTED]),
        run=[(name, visible(value)) for name, value in _run_facts(report).items() if value],
        machine=[(visible(name), visible(value)) for name, value in _machine_facts(report).items()],
        differences=[*differences_of(report)],
        warnings=[visible(one) for one in dict.fromkeys(warnings)],
        unanswered=Counter((row.verdict.outcome, row.cause) for row in groups["unanswered"]).most_common(),
        skips=[(visible(skip.test), visible(skip.scenario), visible(skip.reason)) for skip in report.skips],
        footnotes=rows(report)[1],
        left_out=left_out,
        metrics=[*dict.fromkeys(row.name for name in GROUPS for row in groups[name] if row.verdicts)],
    )


def _run_facts(report: Report) -> Mapping[str, str]:
    return {
        "Started": report.started_at,
        "Tests": str(len({judgement.run.test for judgement in report.judgements})),
        "Revision": report.present_code if report.revision else "",
        "Compared with": ", ".join(report.compared_with),
        "Kinds of machine": ", ".join(report.kinds),
        "Pairs": ", ".join(f"{counted(len(gate.evidence.pairs), 'pair')}{gate.beside}" for gate in report.gates),
    }


def _machine_facts(report: Report) -> Mapping[str, str]:
    """Return the facts of the machine; of several kinds each in one line: the JSON report has every fact."""
    if len(report.kinds) > 1:
        machines = {one.run.kind: one.run.machine for one in reversed(report.judgements)}
        boards = dict.fromkeys(report.kinds, "nothing measured")
        for kind, one in machines.items():
            board = f"{one.cpu_model}, {counted(one.cores, 'core')}, {one.memory_gb} GB"
            boards |= {kind: f"{board}, {one.system}, {one.python}"} if kind in boards else {}
        return boards
    machine = report.machine
    return {
        "Processor": machine.cpu_model,
        "Architecture": machine.architecture,
        "Cores allotted": str(machine.cores),
        "Memory": f"{machine.memory_gb} GB",
        "System": machine.system,
        "Python": machine.python,
        "Fingerprint": machine.fingerprint,
        **machine.libraries,
        **machine.threads,
    }


_MOST_BLOCKS = 1_500_000  # values of blocks that a page holds: some 10 MB
_MOST_DETAILS = 5_000  # verdicts of which all are explained in full


def content_of(
    report: Report, groups: Mapping[str, Sequence[Row]], history: Reader | None
) -> tuple[Plain, list[Plain], list[str]]:
    """Return the table and what opens of each measurement, and sentences on what the page does not hold.

    A report of usual size is embedded whole, of a larger one what needs a look: what is well is left out first.
    """
    observed, runs = seen_of(report), [judgement.run for judgement in report.judgements]
    answers = [row for name in GROUPS for row in groups[name] if row.verdicts]
    telling = [row for row in answers if row.verdict.outcome not in GROUPS["settled"]]
    detailed = answers if len(answers) <= _MOST_DETAILS else telling[:_MOST_DETAILS]
    details, total, blocks = {id(row) for row in detailed}, 0, 0
    found = [shared_of(report, judgement) for judgement in report.judgements]
    asked = (shared for shared, run in zip(found, runs, strict=True) if run.operators is not None)
    for shared, table in zip(asked, operator_tables(report, every=False), strict=True):
        shared["operators"] = {"setting": table.setting, "rows": table.rows, "work": table.work}
    places = {id(judgement): place for place, judgement in enumerate(report.judgements)}
    lines, keys = list[Plain](), dict[int, set[Key]]()
    for group, row in ((name, row) for name in GROUPS for row in groups[name]):
        place, detail = places[id(row.judgement)], None
        if id(row) in details:
            measurement = Measurement(test=row.run.test, label=row.run.label)
            seen = observed.get((row.run.kind, measurement, *row.key), PairData())
            total += 0 if row.budget else seen.blocks
            blocks += total <= _MOST_BLOCKS
            own = found[place]["verdicts"]
            own.append(detail_of(row, seen, blocks=total <= _MOST_BLOCKS))
            detail = len(own) - 1
        lines.append(_line(group, row, place, detail))
        keys.setdefault(place, set()).add(row.key)
    left_out = list[str]()
    if len(detailed) < len(answers):
        left_out.append(
            f"How it was decided is shown of {counted(len(detailed), 'verdict')} of {len(answers)}, in the order of "
            "the table and of none that is equivalent or passed. The JSON report holds all."
        )
    if blocks < len(detailed):
        left_out.append(
            f"Blocks within pairs are shown of {counted(blocks, 'verdict')} of {len(detailed)}, in the order of the "
            "table: more would make the page slow. The JSON report holds all."
        )
    tests = [[visible(title_of(run)), visible(unnamed_scenario(run))] for run in runs]
    left_out += _add_histories(report, keys, found, history) if history else []
    return {"tests": tests, "rows": lines}, found, left_out


def _line(group: str, row: Row, place: int, detail: int | None) -> Plain:
    """Return a row by short names, which the table's script reads; it is sorted by a value, and bars need numbers."""
    found: Plain = {"g": group, "j": place, "m": row.name, "v": row.values, "o": row.outcome or "measured only"}
    found |= {"n": row.n, "a": row.allowed, "x": row.change, "w": row.cause, "d": detail}
    at, sign = row.figure.estimate if row.figure else None, 1 if row.metric.better == "lower" else -1
    found["r"] = rounded(row.comparison.candidate if row.comparison else at.value if at else None)
    subject = row.verdict.subject if row.verdicts else None
    if isinstance(subject, Budget):
        found["k"] = 1
        if at:
            found["b"] = [*map(rounded, (at.value, at.low, at.high, subject.limit)), sign]
    elif subject is not None and subject.change is not None:
        change = subject.change
        found["c"] = [*map(rounded, (change.value, change.low, change.high, subject.margin)), sign]
    return {name: value for name, value in found.items() if value not in ("", None)}


_FEWEST = 2  # candidates to choose from, and dimensions of a plane


def tradeoffs_of(report: Report) -> Iterator[Plain]:
    """Yield a scatter for each test and operating point: its candidates by what all of them have.

    An axis has the values of all candidates with their intervals, in the unit in which the largest reads well.
    """
    for measured in measured_together(report.judgements):
        candidates, front, dimensions = measured.candidates, measured.front, measured.dimensions
        if min(len(candidates), len(dimensions)) < _FEWEST or MEDIAN_LATENCY not in dimensions.values():
            continue
        axes = dict[str, Plain]()
        for name, key in dimensions.items():
            metric, values = metric_of(key[0]), [per_row(one, key) for one in candidates]
            factor, unit = scale_for(metric.unit, max(abs(one.value) for one in values))
            ends = ((one.value, one.low, one.high) for one in values)
            points = [[None if end is None else rounded(end / factor) for end in of_one] for of_one in ends]
            of_row = " of a row" if name == "latency" and any(one.rows > 1 for one in candidates) else ""
            axes[name] = {"unit": unit, "better": metric.better, "points": points, "of": of_row}
        yield {
            "title": visible(f"{measured.test}{f' at {measured.point}' if measured.point else ''}"),
            "axes": axes,
            "names": [visible(one.name) for one in candidates],
            "front": [one in front for one in candidates],
            "lacking": [
                visible(f"{name}, not measured" + (f" of {', '.join(names)}" if len(names) < len(candidates) else ""))
                for name, names in measured.lacking.items()
            ],
        }


def rooflines_of(report: Report) -> list[Plain]:
    """Return a chart for each set of rates that numpy reaches: the measurements whose work is known, beside them."""
    charts: dict[tuple[float, float, int], list[list[Any]]] = {}
    for run in (judgement.run for judgement in report.judgements):
        found = run.roofline
        if found is None or found.peak is None or not found.intensity or not found.flops_per_s:
            continue
        peak = (found.peak.flops_per_s, found.peak.bytes_per_s, found.peak.threads)
        name, numbers = visible(benchmark_of(run)), map(rounded, (found.intensity, found.flops_per_s))
        charts.setdefault(peak, []).append([name, *numbers, found.bound or ""])
    return [
        {"flops": rounded(flops), "bytes": rounded(bandwidth), "threads": threads, "points": points}
        for (flops, bandwidth, threads), points in charts.items()
    ]


def differences_of(report: Report) -> Iterator[Mapping[str, str | int]]:
    """Yield each fact in which a baseline and this run differ, once, with the number of tests that it concerns."""
    found: dict[tuple[str, str, str], set[str]] = {}
    usual: dict[str, Machine] = {}  # kind of machine → that of its first run: kinds are not compared
    for judgement in report.judgements:
        run, causes = judgement.run, [one.cause for one in judgement.comparisons if one.cause]
        machine = usual.setdefault(run.kind, run.machine) if run.kind else report.machine
        for one in (*(one for cause in causes for one in cause.differences), *machine.differences(run.machine)):
            found.setdefault((one.name, one.baseline, one.candidate), set()).add(run.test)
    for (name, baseline, candidate), tests in found.items():
        yield {"name": visible(name), "baseline": visible(baseline), "now": visible(candidate), "tests": len(tests)}


_MOST_READ = 200  # measurements whose history is read
_MOST_RUNS = 60  # of a chart, the newest
_MOST_BYTES = 4_000_000  # of all charts
_LEGEND = (
    "A point is the value of a run with its interval; an empty one was not accepted. Dashed: a change of level, with "
    "the runs at which it may have begun (95 %). Triangle: a note."
)


def render_history(trends: Sequence[Trend], baseline: str) -> bytes:
    """Write the page of `hwperf history`; series of a test follow each other."""
    check_installed()
    tests, charts = list[str](), list[list[Plain]]()
    for (test, label), group in groupby(trends, lambda one: (one.series.test, one.series.label)):
        tests.append(visible(f"{test} {label}".rstrip()))
        charts.append([chart_of(trend) for trend in group])
    return _written("history", charts=embedded(charts), baseline=visible(baseline), legend=_LEGEND, tests=tests)


def _add_histories(
    report: Report, keys: Mapping[int, Collection[Key]], found: Sequence[Plain], read: Reader
) -> list[str]:
    """Add the charts of each measurement, in the order of the table; return a sentence on those that were left out.

    A statistic of the table has one chart for each machine with at least three earlier runs, and one for its changes
    from a release.
    """
    order = [*keys][:_MOST_READ]
    chosen = [report.judgements[place] for place in order]
    series, notes = read([(one.run.test, one.run.label) for one in chosen], _MOST_RUNS)
    by_test: dict[Measured, list[Series]] = {}
    for one in series:
        by_test.setdefault((one.test, one.label), []).append(one)
    room, left_out = _MOST_BYTES, len(keys) - len(order) if series else 0
    for place, judgement in zip(order, chosen, strict=True):
        past = by_test.get((judgement.run.test, judgement.run.label), [])
        charts = [*_charts(report, judgement, [one for one in past if one.key in keys[place]], notes)]
        room -= len(json.dumps(charts)) if charts else 0
        if charts and room >= 0:
            found[place]["history"] = charts
        left_out += bool(charts) and room < 0
    measurements = counted(left_out, "measurement")
    said = f"The history of {measurements} is not shown, in the order of the table from its end: hwperf history TEST"
    return [f"{said} shows it."] if left_out else []


def _charts(
    report: Report, judgement: Judgement, past: Sequence[Series], notes: Sequence[Annotation]
) -> Iterator[Plain]:
    run = judgement.run
    for series in sorted(past, key=lambda one: (one.machine.fingerprint != run.machine.fingerprint, one.anchor)):
        if sum(one.started_at != run.started_at for one in series.values) < FEWEST_DRAWN:
            continue
        line = with_run(series, judgement, report.gates)
        is_now = line.values[-1].started_at == run.started_at
        where = "this machine" if series.machine.fingerprint == run.machine.fingerprint else "another machine"
        chart = chart_of(trend_of(line, notes))
        says = f"{chart['says']} {'The last one, larger, is this run. ' * is_now}{_LEGEND}"
        yield {**chart, "title": f"History: {chart['title']}, {where}", "says": says, "now": is_now}
