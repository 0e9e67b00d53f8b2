"""The page: a report rendered to one HTML file that needs nothing else."""

from collections.abc import Mapping
from typing import Any

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Machine
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.reports.groups import Groups, VerdictRow, groups_of
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.html.assets import PageScript, as_json, embedded, written
from pytest_hwperf.reports.html.content import GROUPS, Content, content_of
from pytest_hwperf.reports.html.histories import Reader
from pytest_hwperf.reports.html.scenarios import differences_of, rooflines_of, tradeoffs_of
from pytest_hwperf.reports.table import rows

_MOST_LISTED = 20  # regressions in the summary: the table has them all
_STATES: Mapping[str, str] = {"bad": "Failed", "doubtful": "Open questions", "good": "Passed", "plain": "Measured"}


def render(report: Report, *, history: Reader | None = None, library: PageScript | None = None) -> bytes:
    """Render a report: the same bytes for the same report."""
    groups = groups_of(report)
    content = content_of(report, groups, history)
    across = {"tradeoffs": tradeoffs_of(report), "rooflines": rooflines_of(report)}
    return written(
        "report",
        library,
        rows=embedded(content.rows),
        details=[*map(embedded, content.details)],
        overview=embedded(as_json(across)),
        across=across,
        **_summary(report, groups, content),
    )


def _summary(report: Report, groups: Groups, content: Content) -> dict[str, Any]:
    headline = headline_of(report)
    bad = (*groups.regressed, *groups.failed)
    return {
        "headline": headline,
        "result": _STATES[headline.state],
        "counts": [(name, GROUPS[name], count) for name, count in content.counts.items()],
        "bad": [_line(place, row) for place, row in enumerate(bad[:_MOST_LISTED])],
        "more_bad": len(bad) - len(bad[:_MOST_LISTED]),
        "run": _run_facts(report),
        "machine": _machine_facts(report),
        "differences": [*differences_of(report)],
        "warnings": _warnings(report),
        "unanswered": _unanswered(groups),
        "skips": [(visible(skip.test), visible(skip.scenario), visible(skip.reason)) for skip in report.skips],
        "footnotes": rows(report).footnotes,
        "left_out": content.left_out,
        "metrics": [*dict.fromkeys(_metrics(groups))],
    }


def _line(place: int, row: VerdictRow) -> Mapping[str, str | int | bool]:
    """Return one regression as the summary says it; its place is that of its row in the table."""
    return {
        "row": place,
        "test": row.test,
        "scenario": "" if row.scenario in row.test else row.scenario,
        "metric": row.metric,
        "figures": row.values,
        "change": row.change,
        "allowed": row.allowed,
        "budget": row.is_budget,
        "n": row.n,
        "cause": row.cause,
    }


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
        parts = ((kind, report.of_kind(kind)) for kind in report.kinds)
        found = ((kind, next((one.run.machine for one in part.judgements), None)) for kind, part in parts)
        return [
            (visible(kind), visible(_machine(machine)) if machine else "nothing measured") for kind, machine in found
        ]
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


def _unanswered(groups: Groups) -> list[tuple[str, str, int]]:
    """Return what has no answer, each outcome with its reason once, and how often it occurs."""
    found: dict[tuple[str, str], int] = {}
    for row in groups.unanswered:
        key = (row.verdict.outcome, row.cause)
        found[key] = found.get(key, 0) + 1
    return [(outcome, cause, count) for (outcome, cause), count in sorted(found.items(), key=lambda item: -item[1])]


def _metrics(groups: Groups) -> list[str]:
    return [row.metric for name in type(groups).__struct_fields__ for row in getattr(groups, name)]
