"""The report as Markdown for a pull request or the summary of a job: the verdict first, what is well last, collapsed.

It stays below the length at which GitHub cuts or refuses a comment, however many tests there are: what has no room
is counted.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from pytest_hwperf.records.messages import Kind
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.reports.groups import Groups, VerdictRow, groups_of
from pytest_hwperf.reports.headline import State, headline_of
from pytest_hwperf.reports.markdown_text import MOST_ROWS, MarkdownTable, code, draw, fenced, fixed, row, size, text
from pytest_hwperf.reports.rows import RowEntry, cells_of, metric_of, title_of
from pytest_hwperf.reports.summary import skip_counts

MARKER = "<!-- pytest-hwperf -->"  # the first line: a comment is found by it and written again
LARGEST = 60_000  # bytes; GitHub takes 65,536 characters

_SIGNS: Mapping[State, str] = {"bad": "❌", "doubtful": "⚠️", "good": "✅", "plain": "ℹ️"}
_MOST_NAMED = 3  # tests that share a reason
_MOST_REPEATED = 5  # tests in the command that repeats the run
_LONGEST_ID = 300  # of a test in that command
_BELOW = "among all rows below, or in the JSON report"
_USUAL_ALPHA = 0.01
_COMMIT = re.compile(r"[0-9a-f]{7,64}")

_REMEDIES: Mapping[Kind, str] = {
    "no baseline": "To have a baseline, run `pytest --hwperf-save` on the target branch once and commit the folder "
    "`.hwperf`; or compare with `--hwperf-against=origin/main...`, which reruns that code and needs none.",
    "no such test": "A test that is new has nothing to be compared with yet: its next change will.",
    "another machine": "Stored timings hold for the machine that stored them: compare with "
    "`--hwperf-against=origin/main...`, which runs both sides on the same one.",
    "other versions": "`--hwperf-against=origin/main...` compares under the versions that are installed now.",
}


def render(report: Report) -> bytes:
    """Write a report as Markdown of less than `LARGEST` bytes."""
    headline, groups = headline_of(report), groups_of(report)
    sign = f"### {_SIGNS[headline.state]} {text(headline.sentence, most=600)}"
    head = [f"{MARKER}\n<!-- state: {headline.state} -->", sign, *_compared(report)]
    tables = [
        _changes("Regressed", groups.regressed),
        _missed(groups),
        _inconclusive(groups),
        _changes("Improved", groups.improved),
        _unanswered(report, groups),
        _all_rows(report, groups),
    ]
    tail = _repeated(report, groups)
    room = LARGEST - 1 - sum(size(one) for one in (*head, *tail)) - sum(map(fixed, tables))
    drawn = []
    for table in tables:
        lines, room = draw(table, room)
        drawn += lines
    return ("\n\n".join([*head, *drawn, *tail]) + "\n").encode()


def _compared(report: Report) -> list[str]:
    """Say what was compared, and where it was measured."""
    present, others = code(report.present_code), report.compared_with
    lines = [f"Measured on {_where(report)}{'' if others else f': {present}'}."]
    for gate in report.gates[:1]:
        alike = [one for one in report.gates if one.against == gate.against]  # those of all shards
        pairs = counted(sum(len(one.evidence.pairs) for one in alike), "pair") + gate.beside
        spent = [seconds for one in alike for seconds in one.seconds.values()]
        took = show(sum(spent), "s") if spent else ""
        said = f"{present} against {code(others[0])}: {pairs} of fresh processes"
        lines.insert(0, f"{said}, {took}." if took else f"{said}.")
    if others and not report.gates:
        lines.insert(0, f"{present} against {code(others[0])}.")
    return ["<br>\n".join(lines)]


def _where(report: Report) -> str:
    """Name the machine; of several kinds that of each."""
    if report.kinds:
        return "; ".join(f"{code(kind)}: {_machine(report.of_kind(kind))}" for kind in report.kinds)
    return _machine(report)


def _machine(report: Report) -> str:
    machines = {one.run.machine.fingerprint: one.run.machine for one in report.judgements}
    machine = next(iter(machines.values()), report.machine) if report.kinds else report.machine
    at = f"{machine.cpu_model}, {counted(machine.cores, 'core')}, {machine.system}, {machine.python}"
    others = {*machines} - {machine.fingerprint}
    return f"{text(at)} and {counted(len(others), 'other machine')}" if others else text(at)


def _changes(heading: str, rows: Sequence[VerdictRow]) -> MarkdownTable:
    """Write what became worse or better, with what moved; numbers first, which a long test id must not push away."""
    columns = ("change", "old → new", "margin", "n", "p", "test and metric")
    cells = ([f"**{_tied(r.change)}**", _tied(r.values), _tied(r.allowed), text(r.n), r.p, _named(r)] for r in rows)
    return MarkdownTable(heading=heading, columns=columns, rows=list(map(row, cells)), elsewhere=_BELOW)


def _missed(groups: Groups) -> MarkdownTable:
    """Write the budgets that are not kept."""
    columns = ("measured", "limit", "n", "source", "test and metric")
    cells = ([_tied(r.values), _tied(r.allowed), text(r.n), text(r.source), _named(r)] for r in groups.failed)
    return MarkdownTable(heading="Missed budgets", columns=columns, rows=list(map(row, cells)), elsewhere=_BELOW)


def _inconclusive(groups: Groups) -> MarkdownTable:
    """Write what could not be told, with the smallest change that could have been."""
    columns = ("change", "value", "margin or limit", "smallest detectable change", "n", "test and metric")
    cells = (
        [_tied(r.change), _tied(r.values), _tied(r.allowed), _tied(r.detectable), text(r.n), _named(r)]
        for r in groups.inconclusive
    )
    rows = list(map(row, cells))
    return MarkdownTable(heading="Inconclusive", columns=columns, rows=rows, most=MOST_ROWS // 2, elsewhere=_BELOW)


def _named(r: VerdictRow) -> str:
    """Write the test and, below it, the metric with what is known of the cause."""
    told = "; ".join(filter(None, ["**fails**" if r.outcome.endswith("(fails)") else "", text(r.cause)]))
    return f"{code(r.test)}<br>{text(r.metric)}{': ' if told else ''}{told}"


def _tied(cell: str) -> str:
    """Keep a cell of numbers on one line."""
    return cell.replace(" ", "&nbsp;")


def _unanswered(report: Report, groups: Groups) -> MarkdownTable:
    """Write what was not compared or not measured, by its reason, and what else has to be known of the run."""
    reasons: dict[tuple[str, str, bool], list[VerdictRow]] = {}
    for one in groups.unanswered:
        reasons.setdefault((one.outcome, one.cause, one.verdict.fails), []).append(one)
    items = [_reason(outcome, why, rows) for (outcome, why, _), rows in reasons.items()]
    items += [f"- {text(one)}" for one in skip_counts(report, listed=False)]
    items += [f"- ⚠️ {text(str(gate.evidence.stopped))}" for gate in report.gates if gate.evidence.stopped]
    warnings = dict.fromkeys([*report.warnings, *(one for gate in report.gates for one in gate.warnings)])
    items += [f"- ⚠️ {text(one)}" for one in warnings]
    items += ["- ⚠️ interrupted: what is shown is complete, but not all tests ran"] if report.partial else []
    return MarkdownTable(
        heading="Not compared, and what differs" if reasons else "To be known",
        columns=(),
        rows=items,
        below=_remedies(groups.unanswered),
        elsewhere="in the JSON report",
    )


def _reason(outcome: str, why: str, rows: Sequence[VerdictRow]) -> str:
    """Write `no baseline: … (latency p50 and memory of 3 tests: …)`."""
    tests = list(dict.fromkeys(row.test for row in rows))
    metrics = list(dict.fromkeys(row.metric for row in rows))
    more = f" and {len(tests) - _MOST_NAMED} more" if len(tests) > _MOST_NAMED else ""
    named = ", ".join(map(code, tests[:_MOST_NAMED]))
    others = f" and {counted(len(metrics) - _MOST_NAMED, 'other')}" if len(metrics) > _MOST_NAMED else ""
    of = text(", ".join(metrics[:_MOST_NAMED])) + others
    said = "" if why.startswith(outcome) else f"**{outcome}**: "
    return f"- {said}{text(why)}<br>{of} of {counted(len(tests), 'test')}: {named}{more}"


def _remedies(rows: Sequence[VerdictRow]) -> list[str]:
    """Say what to do about what was not compared, each thing once."""
    causes = (getattr(row.verdict.subject, "cause", None) for row in rows)
    kinds = dict.fromkeys(cause.kind for cause in causes if cause is not None)
    return [_REMEDIES[kind] for kind in kinds if kind in _REMEDIES]


def _all_rows(report: Report, groups: Groups) -> MarkdownTable:
    """Write every answer, those that matter first, and of tests without one their usual figures."""
    answers = (*groups.changed, *groups.unanswered, *groups.settled)
    rows = [*map(_answer, answers), *(line for judgement in report.judgements for line in _unjudged(judgement))]
    tests = len({judgement.run.test for judgement in report.judgements})
    return MarkdownTable(
        heading=f"All {counted(len(rows), 'row')} of {counted(tests, 'test')}",
        columns=("test", "metric", "value", "change", "margin or limit", "n", "source", "outcome"),
        rows=rows,
        most=len(rows),
        collapsed=True,
        elsewhere="in the JSON report",
    )


def _answer(r: VerdictRow) -> str:
    subject = r.verdict.subject
    left_out = isinstance(subject, Comparison) and subject.is_left_out
    outcome = f"{r.outcome}: {text(r.cause)}" if left_out else r.outcome
    return row([code(r.test), text(r.metric), r.values, r.change, r.allowed, text(r.n), text(r.source), outcome])


def _unjudged(judgement: Judgement) -> Iterator[str]:
    """Yield the usual figures of a measurement that has nothing to be judged by."""
    for figure in () if judgement.verdicts else judgement.figures:
        metric = metric_of(judgement.run, figure.metric)
        if figure.statistic in metric.shown or figure.metric in judgement.run.directions:
            name = metric.called(figure.statistic)
            cells = cells_of(judgement.run, RowEntry(key=figure.key, name=name, figure=figure))
            test, n = code(title_of(judgement.run)), text(cells["n"])
            yield row([test, text(name), cells["value"], "", "", n, text(figure.source), ""])


def _repeated(report: Report, groups: Groups) -> list[str]:
    """Write the command that repeats the comparison, for the tests that are not well."""
    options = ["--hwperf-only"]
    gate = next((gate for gate in report.gates if _COMMIT.fullmatch(gate.revision)), None)
    if gate is not None:
        options.append(f"--hwperf-against={gate.revision}")
        alpha = report.shards[0].alpha if report.shards else gate.evidence.alpha
        if alpha != _USUAL_ALPHA:
            options.append(f"--hwperf-alpha={100 * alpha:g}%")
    elif report.baseline and len(report.baseline) <= _LONGEST_ID:
        options += ["--hwperf-compare", f"--hwperf-baseline={report.baseline}"]
    wanted = [*groups.regressed, *groups.failed, *groups.inconclusive]
    tests = list(dict.fromkeys(row.judgement.run.test for row in wanted))
    usable = [one for one in tests if one == visible(one) and one[:1] != "-" and len(one) <= _LONGEST_ID]
    usable = usable if len(tests) <= _MOST_REPEATED else []  # else the whole suite is shorter
    command = shlex.join(["python", "-m", "pytest", *options, *report.options, *usable])
    return ["**Repeat it**", fenced(visible(command))]
