"""The page: a report rendered to one HTML file that needs nothing else; all that it shows is embedded as plain data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Key, Machine
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, scale_for
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.reports.explained import operator_tables
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.html.assets import as_json, embedded, written
from pytest_hwperf.reports.html.details import Plain, detail_of, rounded, seen_by, seen_of, shared_of
from pytest_hwperf.reports.html.histories import Reader, add_histories
from pytest_hwperf.reports.rows import GROUPS, Row, Tone, benchmark_of, grouped, title_of, unnamed_scenario
from pytest_hwperf.reports.table import rows
from pytest_hwperf.stats.candidates import measured_together
from pytest_hwperf.stats.rivals import Candidate, per_row
from pytest_hwperf.stats.tradeoffs import dimensions_of

_MOST_LISTED = 20  # regressions in the summary: the table has them all
_STATES: Mapping[Tone, str] = {"bad": "Failed", "doubtful": "Open questions", "good": "Passed", "plain": "Measured"}
_NAMES: Mapping[str, str] = {  # of the groups as readers see them, where it is another one
    "failed": "budget missed",
    "unanswered": "not answered",
    "settled": "equivalent or passed",
    "plain": "measured only",
}


def render(report: Report, *, history: Reader | None = None) -> bytes:
    """Render a report: the same bytes for the same report."""
    groups, headline = grouped(report), headline_of(report)
    table, details, left_out = content_of(report, groups, history)
    across = {"tradeoffs": [*tradeoffs_of(report)], "rooflines": rooflines_of(report)}
    bad = [*groups["regressed"], *groups["failed"]]
    answers = [row for name in GROUPS for row in groups[name] if row.verdicts]
    return written(
        "report",
        rows=embedded(table),
        details=[*map(embedded, details)],
        overview=embedded(as_json(across)),
        across=across,
        headline=headline,
        result=_STATES[headline.state],
        counts=[(name, _NAMES.get(name, name), len(groups[name])) for name in GROUPS if groups[name]],
        bad=bad[:_MOST_LISTED],
        more_bad=len(bad) - len(bad[:_MOST_LISTED]),
        run=_run_facts(report),
        machine=_machine_facts(report),
        differences=[*differences_of(report)],
        warnings=_warnings(report),
        unanswered=Counter((row.verdict.outcome, row.cause) for row in groups["unanswered"]).most_common(),
        skips=[(visible(skip.test), visible(skip.scenario), visible(skip.reason)) for skip in report.skips],
        footnotes=rows(report).footnotes,
        left_out=left_out,
        metrics=[*dict.fromkeys(row.name for row in answers)],
    )


def _run_facts(report: Report) -> list[tuple[str, str]]:
    tests = len({judgement.run.test for judgement in report.judgements})
    facts = {
        "Started": report.started_at,
        "Tests": str(tests),
        "Revision": report.present_code if report.revision else "",
        "Compared with": ", ".join(report.compared_with),
        "Kinds of machine": ", ".join(report.kinds),
        "Pairs": ", ".join(f"{counted(len(gate.evidence.pairs), 'pair')}{gate.beside}" for gate in report.gates),
    }
    return [(name, visible(value)) for name, value in facts.items() if value]


def _machine_facts(report: Report) -> list[tuple[str, str]]:
    if len(report.kinds) > 1:
        machines = {one.run.kind: one.run.machine for one in reversed(report.judgements)}
        boards = [_machine(machines[kind]) if kind in machines else "nothing measured" for kind in report.kinds]
        return [(visible(kind), visible(board)) for kind, board in zip(report.kinds, boards, strict=True)]
    machine = report.machine
    facts = {
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
    return [(visible(name), visible(value)) for name, value in facts.items()]


def _machine(machine: Machine) -> str:
    """Say in one line what a kind of machine is; the JSON report has every fact."""
    board = f"{machine.cpu_model}, {counted(machine.cores, 'core')}, {machine.memory_gb} GB"
    return f"{board}, {machine.system}, {machine.python}"


def _warnings(report: Report) -> list[str]:
    found = [*report.warnings, *(warning for gate in report.gates for warning in gate.warnings)]
    found += [f"The pairs ended early: {gate.evidence.stopped}" for gate in report.gates if gate.evidence.stopped]
    if report.partial:
        found.append("The run was interrupted: the tests that are here are complete, others are missing.")
    return [visible(one) for one in dict.fromkeys(found)]


_MOST_BLOCKS = 1_500_000  # values of blocks that a page holds: some 10 MB
_MOST_DETAILS = 5_000  # verdicts of which all are explained in full


def content_of(
    report: Report, groups: Mapping[str, Sequence[Row]], history: Reader | None
) -> tuple[bytes, list[bytes], list[str]]:
    """Return as JSON the table and what opens of each measurement, and sentences on what the page does not hold.

    A report of usual size is embedded whole, of a larger one what needs a look.
    """
    observed = seen_of(report)
    answers = [row for name in GROUPS for row in groups[name] if row.verdicts]
    seen = {id(row): seen_by(row, observed) for row in answers}
    places = {id(judgement): place for place, judgement in enumerate(report.judgements)}
    details, blocks, left_out = _selection(answers, {place: one.blocks for place, one in seen.items()})
    found = [shared_of(report, judgement) for judgement in report.judgements]
    asked = (shared for shared, one in zip(found, report.judgements, strict=True) if one.run.operators is not None)
    for shared, table in zip(asked, operator_tables(report, every=False), strict=True):
        shared["operators"] = {"setting": table.setting, "rows": table.rows, "work": table.work}
    rows, keys = list[Plain](), dict[int, set[Key]]()
    for name in GROUPS:
        for row in groups[name]:
            place, detail = places[id(row.judgement)], None
            if id(row) in details:
                own = found[place]["verdicts"]
                own.append(detail_of(row, seen[id(row)], blocks=id(row) in blocks))
                detail = len(own) - 1
            rows.append(_row(name, row, place, detail))
            keys.setdefault(place, set()).add(row.key)
    runs = [judgement.run for judgement in report.judgements]
    tests = [[visible(title_of(run)), visible(unnamed_scenario(run))] for run in runs]
    unshown = add_histories(report, [*keys], keys, found, history) if history else ""
    return as_json({"tests": tests, "rows": rows}), [*map(as_json, found)], [*left_out, *filter(None, [unshown])]


def _selection(every: Sequence[Row], values: Mapping[int, int]) -> tuple[frozenset[int], frozenset[int], Sequence[str]]:
    """Choose by identity which rows have details, and which have their blocks, of so many values; say what is left out.

    Rows are chosen in the order of the table, so that what is well is left out first.
    """
    telling = [row for row in every if row.verdict.outcome not in GROUPS["settled"]]
    detailed = every if len(every) <= _MOST_DETAILS else telling[:_MOST_DETAILS]
    left_out = []
    if len(detailed) < len(every):
        left_out.append(
            f"How it was decided is shown of {counted(len(detailed), 'verdict')} of {len(every)}, in the order of the "
            "table and of none that is equivalent or passed. The JSON report holds all."
        )
    blocks, total = set[int](), 0
    for row in detailed:
        total += 0 if row.budget else values[id(row)]
        if total <= _MOST_BLOCKS:
            blocks.add(id(row))
    if len(blocks) < len(detailed):
        left_out.append(
            f"Blocks within pairs are shown of {counted(len(blocks), 'verdict')} of {len(detailed)}, in the order of "
            "the table: more would make the page slow. The JSON report holds all."
        )
    return frozenset(map(id, detailed)), frozenset(blocks), left_out


def _row(group: str, row: Row, place: int, detail: int | None) -> Plain:
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
    """Yield a scatter for each test and operating point: its candidates by what all of them have."""
    for measured in measured_together(report.judgements):
        candidates, front = measured.candidates, measured.front
        dimensions, lacking = dimensions_of(candidates)
        if min(len(candidates), len(dimensions)) < _FEWEST or MEDIAN_LATENCY not in dimensions.values():
            continue
        yield {
            "title": visible(f"{measured.test}{f' at {measured.point}' if measured.point else ''}"),
            "axes": {name: _axis(candidates, name, key) for name, key in dimensions.items()},
            "names": [visible(one.name) for one in candidates],
            "front": [one in front for one in candidates],
            "lacking": [
                visible(f"{name}, not measured" + (f" of {', '.join(names)}" if len(names) < len(candidates) else ""))
                for name, names in lacking.items()
            ],
        }


def _axis(candidates: Sequence[Candidate], name: str, key: Key) -> Plain:
    """Return the values of all candidates with their intervals, in the unit in which the largest reads well."""
    metric, values = metric_of(key[0]), [per_row(one, key) for one in candidates]
    factor, unit = scale_for(metric.unit, max(abs(one.value) for one in values))
    points = [
        [None if end is None else rounded(end / factor) for end in (one.value, one.low, one.high)] for one in values
    ]
    of_row = " of a row" if name == "latency" and any(one.rows > 1 for one in candidates) else ""
    return {"unit": unit, "better": metric.better, "points": points, "of": of_row}


def rooflines_of(report: Report) -> list[Plain]:
    """Return a chart for each set of rates that numpy reaches: the measurements whose work is known, beside them."""
    charts: dict[tuple[float, float, int], list[list[Any]]] = {}
    for judgement in report.judgements:
        found = judgement.run.roofline
        if found is None or found.peak is None or not found.intensity or not found.flops_per_s:
            continue
        peak = (found.peak.flops_per_s, found.peak.bytes_per_s, found.peak.threads)
        point = [
            visible(benchmark_of(judgement.run)),
            rounded(found.intensity),
            rounded(found.flops_per_s),
            found.bound or "",
        ]
        charts.setdefault(peak, []).append(point)
    return [
        {"flops": rounded(flops), "bytes": rounded(bandwidth), "threads": threads, "points": points}
        for (flops, bandwidth, threads), points in charts.items()
    ]


def differences_of(report: Report) -> Iterator[Mapping[str, str | int]]:
    """Yield each fact in which a baseline and this run differ, once, with the number of tests that it concerns."""
    found: dict[tuple[str, str, str], set[str]] = {}
    usual: dict[str, Machine] = {}  # kind of machine → that of its first run: kinds are not compared
    for judgement in report.judgements:
        for comparison in judgement.comparisons:
            for one in comparison.cause.differences if comparison.cause else ():
                found.setdefault((one.name, one.baseline, one.candidate), set()).add(judgement.run.test)
        run = judgement.run
        machine = usual.setdefault(run.kind, run.machine) if run.kind else report.machine
        for one in machine.differences(run.machine):
            found.setdefault((one.name, one.baseline, one.candidate), set()).add(run.test)
    for (name, baseline, candidate), tests in found.items():
        yield {"name": visible(name), "baseline": visible(baseline), "now": visible(candidate), "tests": len(tests)}
