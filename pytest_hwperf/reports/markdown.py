"""The report for a pull request: Markdown with the verdict first and what is well last, collapsed; and annotations.

The Markdown stays below the length at which GitHub cuts or refuses a comment, however many tests there are: what has
no room is counted. GitHub's runner obeys any line that begins with `::`. Each annotation is one line whose foreign text
cannot end it: control characters are visible, and what would end a property is written as the runner asks.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import shell_line, visible
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.reports.document import code, fenced, prose, table_row
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.rows import GROUPS, Row, Tone, grouped
from pytest_hwperf.reports.summary import skip_counts

MARKER = "<!-- pytest-hwperf -->"  # the first line: a comment is found by it and written again
LARGEST = 60_000  # bytes; GitHub takes 65,536 characters

_SIGNS: Mapping[Tone, str] = {"bad": "❌", "doubtful": "⚠️", "good": "✅", "plain": "ℹ️"}
_MOST_ROWS = 30  # of a table that is not collapsed
_MOST_NAMED = 3  # tests that share a reason
_MOST_REPEATED = 5  # tests in the command that repeats the run
_LONGEST_ID = 300  # of a test in that command
_BELOW, _IN_JSON = "among all rows below, or in the JSON report", "in the JSON report"
_USUAL_ALPHA = 0.01
_COMMIT = re.compile(r"[0-9a-f]{7,64}")

_REMEDIES: Mapping[str, str] = {
    "no baseline": "To have a baseline, run `pytest --hwperf-save` on the target branch once and commit the folder "
    "`.hwperf`; or compare with `--hwperf-against=origin/main...`, which reruns that code and needs none.",
    "no such test": "A test that is new has nothing to be compared with yet: its next change will.",
    "another machine": "Stored timings hold for the machine that stored them: compare with "
    "`--hwperf-against=origin/main...`, which runs both sides on the same one.",
    "other versions": "`--hwperf-against=origin/main...` compares under the versions that are installed now.",
}

Groups = Mapping[str, Sequence[Row]]


class MarkdownTable(Record, frozen=True, kw_only=True):
    """A table below its heading, of which as much is written as there is room for."""

    heading: str
    columns: Sequence[str] = ()  # () where the rows are items of a list
    rows: Sequence[str]
    most: int = _MOST_ROWS
    below: Sequence[str] = ()
    collapsed: bool = False
    elsewhere: str = _BELOW  # where rows are that are left out

    @property
    def head(self) -> list[str]:
        """The lines above the rows."""
        heading = f"#### {self.heading} ({len(self.rows)})"
        lines = [f"<details><summary>{self.heading}</summary>" if self.collapsed else heading, ""]
        return lines + [table_row(cells) for cells in (self.columns, ["---"] * len(self.columns)) if cells]

    @property
    def frame(self) -> int:
        """The size of all that is written around the rows."""
        left_out = f"{len(self.rows)} more {self.elsewhere}."
        return sum(map(_size, (*self.head, *self.below, left_out, "</details>"))) if self.rows else 0

    def draw(self, room: int) -> tuple[list[str], int]:
        """Return the paragraphs with as many rows as there is room for, and the room behind them."""
        if not self.rows:
            return [], room
        kept = list[str]()
        for line in self.rows[: self.most]:
            if _size(line) > room:
                break
            kept.append(line)
            room -= _size(line)
        left = len(self.rows) - len(kept)
        left_out, closing = f"{left} more {self.elsewhere}." if left else "", "</details>" if self.collapsed else ""
        return ["\n".join([*self.head, *kept]), *filter(None, (left_out, *self.below, closing))], room


def _size(lines: str) -> int:
    """Return the bytes of a paragraph with the line ends behind it."""
    return len(lines.encode()) + 2


def render(report: Report) -> bytes:
    """Write a report as Markdown of less than `LARGEST` bytes."""
    headline, groups = headline_of(report), grouped(report)
    sign = f"### {_SIGNS[headline.state]} {prose(headline.sentence, most=600)}"
    head = [f"{MARKER}\n<!-- state: {headline.state} -->", sign, "<br>\n".join(_compared(report))]
    tables = list[MarkdownTable]()
    for name, (heading, columns, most) in _TABLES.items():  # what a reader has to know something of
        rows = [_row(one, columns) for one in groups[name]]
        tables.append(MarkdownTable(heading=heading, columns=columns, rows=rows, most=most))
    tables += [_unanswered(report, groups["unanswered"]), _all_rows(report, groups)]
    tail = _repeated(report, groups)
    room = LARGEST - 1 - sum(map(_size, (*head, *tail))) - sum(table.frame for table in tables)
    drawn = list[str]()
    for table in tables:
        lines, room = table.draw(room)
        drawn += lines
    return ("\n\n".join([*head, *drawn, *tail]) + "\n").encode()


def _compared(report: Report) -> Iterator[str]:
    """Say what was compared, and where it was measured."""
    present, others = code(report.present_code), report.compared_with
    if others:
        measured = ""
        for gate in report.gates[:1]:
            alike = [one for one in report.gates if one.against == gate.against]  # those of all shards
            pairs = counted(sum(len(one.evidence.pairs) for one in alike), "pair") + gate.beside
            spent = [seconds for one in alike for seconds in one.seconds.values()]
            took = f", {show(sum(spent), 's')}" if spent else ""
            measured = f": {pairs} of fresh processes{took}"
        yield f"{present} against {code(others[0])}{measured}."
    where = "; ".join(f"{code(kind)}: {_machine(report.of_kind(kind))}" for kind in report.kinds) or _machine(report)
    yield f"Measured on {where}{'' if others else f': {present}'}."


def _machine(report: Report) -> str:
    """Name the machine; of several kinds that of each."""
    machines = {one.run.machine.fingerprint: one.run.machine for one in report.judgements}
    if report.kinds and not machines:
        return "nothing measured"
    machine = next(iter(machines.values())) if report.kinds else report.machine
    at = f"{machine.cpu_model}, {counted(machine.cores, 'core')}, {machine.system}, {machine.python}"
    others = {*machines} - {machine.fingerprint}
    return f"{prose(at)} and {counted(len(others), 'other machine')}" if others else prose(at)


def _row(row: Row, columns: Sequence[str]) -> str:
    return table_row([_CELLS[column](row) for column in columns])


def _bold(text: str) -> str:
    return f"**{text}**" if text else ""


def _tied(cell: str) -> str:
    """Keep a cell of numbers on one line."""
    return cell.replace(" ", "&nbsp;")


def _named(row: Row) -> str:
    """Write the test and, below it, the metric with what is known of the cause."""
    told = "; ".join(filter(None, ["**fails**" if row.outcome.endswith("(fails)") else "", prose(row.cause)]))
    return f"{code(row.test)}<br>{prose(row.name)}{': ' if told else ''}{told}"


# Numbers first, which a long test id must not push away.
_CELLS: Mapping[str, Callable[[Row], str]] = {
    "change": lambda row: _tied(row.change) if row.verdict.outcome == "inconclusive" else _bold(_tied(row.change)),
    "measured": lambda row: _tied(row.values),
    "old → new": lambda row: _tied(row.values),
    "value": lambda row: _tied(row.values),
    "limit": lambda row: _tied(row.allowed),
    "margin": lambda row: _tied(row.allowed),
    "margin or limit": lambda row: _tied(row.allowed),
    "smallest detectable change": lambda row: _tied(row.detectable),
    "n": lambda row: prose(row.n),
    "p": lambda row: row.p,
    "source": lambda row: prose(row.source),
    "test and metric": _named,
}
_CHANGED = ("change", "old → new", "margin", "n", "p", "test and metric")
_OPEN = ("change", "value", "margin or limit", "smallest detectable change", "n", "test and metric")
_TABLES: Mapping[str, tuple[str, Sequence[str], int]] = {  # group → heading, columns and most rows
    "regressed": ("Regressed", _CHANGED, _MOST_ROWS),
    "failed": ("Missed budgets", ("measured", "limit", "n", "source", "test and metric"), _MOST_ROWS),
    "inconclusive": ("Inconclusive", _OPEN, _MOST_ROWS // 2),
    "improved": ("Improved", _CHANGED, _MOST_ROWS),
}


def _unanswered(report: Report, unanswered: Sequence[Row]) -> MarkdownTable:
    """Write what was not compared or not measured, by its reason, and what else has to be known of the run.

    An item is `no baseline: … (latency p50 and memory of 3 tests: …)`.
    """
    reasons: dict[tuple[str, str, bool], list[Row]] = {}
    for row in unanswered:
        reasons.setdefault((row.outcome, row.cause, row.fails), []).append(row)
    items = list[str]()
    for (outcome, why, _), rows in reasons.items():
        tests = list(dict.fromkeys(row.test for row in rows))
        names = list(dict.fromkeys(row.name for row in rows))
        more = f" and {len(tests) - _MOST_NAMED} more" if len(tests) > _MOST_NAMED else ""
        others = f" and {counted(len(names) - _MOST_NAMED, 'other')}" if len(names) > _MOST_NAMED else ""
        of = f"{prose(', '.join(names[:_MOST_NAMED]))}{others} of {counted(len(tests), 'test')}"
        said = "" if why.startswith(outcome) else f"**{outcome}**: "
        items.append(f"- {said}{prose(why)}<br>{of}: {', '.join(map(code, tests[:_MOST_NAMED]))}{more}")
    items += [f"- {prose(one)}" for one in skip_counts(report)]
    warnings = [*report.warnings, *(one for gate in report.gates for one in gate.warnings)]
    ends = [str(gate.evidence.stopped) for gate in report.gates if gate.evidence.stopped]
    items += [f"- ⚠️ {prose(one)}" for one in (*ends, *dict.fromkeys(warnings))]
    items += ["- ⚠️ interrupted: what is shown is complete, but not all tests ran"] if report.partial else []
    kinds = [row.comparison.cause.kind for row in unanswered if row.comparison and row.comparison.cause]
    return MarkdownTable(
        heading="Not compared, and what differs" if reasons else "To be known",
        rows=items,
        below=[_REMEDIES[kind] for kind in dict.fromkeys(kinds) if kind in _REMEDIES],
        elsewhere=_IN_JSON,
    )


def _all_rows(report: Report, groups: Groups) -> MarkdownTable:
    """Write every answer, those that matter first, and of tests without one their usual figures."""
    rows = list[str]()
    for row in (row for name in GROUPS for row in groups[name]):
        if row.verdicts or not row.judgement.verdicts:
            left_out = row.comparison is not None and row.comparison.is_left_out
            outcome = f"{row.outcome}: {prose(row.cause)}" if left_out else row.outcome
            cells = [row.values, row.change, row.allowed, prose(row.n), prose(row.source), outcome]
            rows.append(table_row([code(row.test), prose(row.name), *cells]))
    tests = len({judgement.run.test for judgement in report.judgements})
    return MarkdownTable(
        heading=f"All {counted(len(rows), 'row')} of {counted(tests, 'test')}",
        columns=("test", "metric", "value", "change", "margin or limit", "n", "source", "outcome"),
        rows=rows,
        most=len(rows),
        collapsed=True,
        elsewhere=_IN_JSON,
    )


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
    wanted = [*groups["regressed"], *groups["failed"], *groups["inconclusive"]]
    tests = list(dict.fromkeys(row.run.test for row in wanted))
    usable = [one for one in tests if one == visible(one) and one[:1] != "-" and len(one) <= _LONGEST_ID]
    usable = usable if len(tests) <= _MOST_REPEATED else []  # else the whole suite is shorter
    command = shell_line(["python", "-m", "pytest", *options, *report.options, *usable])
    return ["**Repeat it**", fenced(command)]


_LEVELS: Mapping[Tone, str] = {"bad": "error", "doubtful": "warning", "good": "notice", "plain": "notice"}
_MOST_ANNOTATIONS = 10  # of a kind: GitHub shows no more of a step
_LONGEST = 1000  # characters of one
_LONGEST_PATH = 300


def annotations(report: Report) -> Iterator[str]:
    """Yield the headline, then an error for each verdict that fails and a warning for others that are not well.

    Each says `latency p50 +4.8 % (+3.1 .. +6.5), 310 → 325 µs, margin 2 %, 12 pairs: what moved`.
    """
    headline, groups = headline_of(report), grouped(report)
    yield _command(_LEVELS[headline.state], headline.sentence, title="Performance")
    told = [row for name in ("regressed", "failed", "inconclusive", "unanswered") for row in groups[name]]
    failing = [row for row in told if row.fails]
    for level, rows in (("error", failing), ("warning", [row for row in groups["inconclusive"] if not row.fails])):
        for row in rows[: _MOST_ANNOTATIONS - 1]:
            allowed = f"{'margin' if row.comparison else 'limit'} {row.allowed}" if row.allowed else ""
            smallest = f"smallest detectable change {row.detectable}" if row.detectable else ""
            parts = (f"{row.name} {row.change or row.outcome}", row.values, allowed, row.n, smallest)
            said, file = ", ".join(filter(None, parts)), visible(row.run.test.partition("::")[0])
            message = f"{said}: {row.cause}" if row.cause else said
            yield _command(level, message, title=row.test, file=file if len(file) <= _LONGEST_PATH else "")


def _command(level: str, message: str, **properties: str) -> str:
    escaped = {
        name: _data(value).replace(":", "%3A").replace(",", "%2C") for name, value in properties.items() if value
    }
    return f"::{level} {','.join(f'{name}={value}' for name, value in escaped.items())}::{_data(message)}"


def _data(message: str) -> str:
    return visible(message)[:_LONGEST].replace("%", "%25")
