"""Annotations of a pull request, as the commands that GitHub's runner reads from the output of a step.

The runner obeys any line that begins with `::`. Each annotation is one line whose foreign text cannot end it: control
characters are visible, and what the runner would take for the end of a property is written as it asks.
"""

from collections.abc import Iterator

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.text import visible
from pytest_hwperf.reports.groups import VerdictRow, groups_of
from pytest_hwperf.reports.headline import headline_of

_MOST = 10  # annotations of a kind: GitHub shows no more of a step
_LONGEST = 1000  # characters of one
_LONGEST_PATH = 300

_LEVELS = {"bad": "error", "doubtful": "warning", "good": "notice", "plain": "notice"}


def lines_of(report: Report) -> Iterator[str]:
    """Yield the headline, then an error for each verdict that fails and a warning for others that are not well."""
    headline, groups = headline_of(report), groups_of(report)
    yield _command(_LEVELS[headline.state], headline.sentence, title="Performance")
    told = (*groups.regressed, *groups.failed, *groups.inconclusive, *groups.unanswered)
    failing = [row for row in told if row.verdict.fails]
    for level, rows in (("error", failing), ("warning", [row for row in groups.inconclusive if not row.verdict.fails])):
        for row in rows[: _MOST - 1]:
            file = visible(row.judgement.run.test.partition("::")[0])
            yield _command(level, _sentence(row), title=row.test, file=file if len(file) <= _LONGEST_PATH else "")


def _sentence(row: VerdictRow) -> str:
    """Write `latency p50 +4.8 % (+3.1 .. +6.5), 310 → 325 µs, margin 2 %, 12 pairs: what moved`."""
    allowed = f"{'limit' if row.is_budget else 'margin'} {row.allowed}" if row.allowed else ""
    head = f"{row.metric} {row.change or row.outcome}"
    smallest = f"smallest detectable change {row.detectable}" if row.detectable else ""
    said = ", ".join(filter(None, [head, row.values, allowed, row.n, smallest]))
    return f"{said}: {row.cause}" if row.cause else said


def _command(level: str, message: str, **properties: str) -> str:
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{level} {given}::{_data(message)}"


def _data(message: str) -> str:
    return visible(message)[:_LONGEST].replace("%", "%25")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
