"""The page: a report rendered to one HTML file that needs nothing else."""

from collections import Counter
from collections.abc import Mapping

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Machine
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.html.assets import as_json, embedded, written
from pytest_hwperf.reports.html.content import content_of, differences_of, rooflines_of, tradeoffs_of
from pytest_hwperf.reports.html.histories import Reader
from pytest_hwperf.reports.rows import GROUPS, Tone, grouped
from pytest_hwperf.reports.table import rows

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
