"""The table of the gates: how many builds each alarmed on, with Clopper-Pearson intervals, and what a build took."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from scipy.special import betaincinv

from benchmarks.gate_projects import Subject

_ANY = "build"  # at least one of its functions

Record = Mapping[str, Any]


def table(records: Sequence[Record], subject: Subject) -> str:
    """Return a Markdown table: for each tool, rule and function the builds that alarmed, of those that gave a verdict.

    Builds with errors stand in their own column and count nowhere else.
    """
    head = (
        "tool and rule",
        "of",
        *(f"{name}: alarms" for name in subject.conditions),
        "errors",
        f"median seconds of a build: {', '.join(subject.conditions)}",
    )
    rows = [head, *_rows(records, subject)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |".rstrip() for row in rows
    ]
    lines.insert(1, f"| {' | '.join('-' * width for width in widths)} |")
    return "\n".join(lines)


def undecided(records: Sequence[Record]) -> Iterator[str]:
    """Yield a line for each tool that says so where it could not decide: in how many builds, and on what."""
    for tool in dict.fromkeys(record["tool"] for record in records if record["undecided"]):
        for condition in dict.fromkeys(record["condition"] for record in records):
            mine = [record for record in records if (record["tool"], record["condition"]) == (tool, condition)]
            what = Counter(line for record in mine for line in record["undecided"])
            shown = "; ".join(f"{line} in {count}" for line, count in what.most_common())
            builds = sum(bool(record["undecided"]) for record in mine)
            yield f"{tool}, {condition}: something undecided in {builds} of {len(mine)} builds ({shown or 'nothing'})"


def clopper_pearson(found: int, tried: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a rate, each end with half of the remaining probability.

    Valid for independent hypotheses. 0 of 20 gives 0 .. 0.168. Clopper & Pearson, Biometrika 26, 1934.
    """
    tail = (1 - confidence) / 2
    low = float(betaincinv(found, tried - found + 1, tail)) if found else 0.0
    high = float(betaincinv(found + 1, tried - found, 1 - tail)) if found < tried else 1.0
    return low, high


def _rows(records: Sequence[Record], subject: Subject) -> Iterator[tuple[str, ...]]:
    for tool in dict.fromkeys(record["tool"] for record in records):
        mine = [record for record in records if record["tool"] == tool]
        judged = [record for record in mine if not record["error"]]
        errors = f"{len(mine) - len(judged)} of {len(mine)}"
        seconds = ", ".join(_seconds(judged, condition) for condition in subject.conditions)
        rules = list(dict.fromkeys(rule for record in judged for rule in record["alarms"]))
        for rule in rules or ["-"]:
            for what in (_ANY, *subject.functions):
                rates = (_rate(judged, condition, rule, what) for condition in subject.conditions)
                first = what == _ANY
                yield (
                    f"{tool} {rule}" if first else "",
                    what,
                    *rates,
                    errors if first else "",
                    seconds if first else "",
                )


def _rate(judged: Sequence[Record], condition: str, rule: str, what: str) -> str:
    alarms = [record["alarms"][rule] for record in judged if record["condition"] == condition]
    if not alarms:
        return "-"
    found = sum(bool(names) if what == _ANY else what in names for names in alarms)
    low, high = clopper_pearson(found, len(alarms))
    return f"{found}/{len(alarms)} ({100 * low:.0f} .. {100 * high:.0f} %)"


def _seconds(judged: Sequence[Record], condition: str) -> str:
    seconds = [record["seconds"] for record in judged if record["condition"] == condition]
    return f"{median(seconds):.1f}" if seconds else "-"
