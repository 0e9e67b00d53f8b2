"""What the recorded builds of the corpus come to: a row for each tool and its rule, and one for each row."""

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.arms import Record
from benchmarks.corpus.rows import Row

_OURS = "pytest-hwperf"
_HERE = Path(__file__).parent
RECORDED = {"idle": _HERE / "idle.jsonl", "next to four busy processes": _HERE / "busy.jsonl"}
_IN_SHORT = (
    f"**{_OURS}**",
    "pytest-benchmark `median:2%`",
    "pyperf `compare_to`",
    "asv `compare --factor 1.02`",
)
HEAD = ("tool and rule", "false alarms", "slowdowns found", "function named right", "no verdict", "median s")


def recorded() -> dict[str, list[Record]]:
    """Return the builds that are kept with the repository, by the condition of the machine."""
    there = {name: path for name, path in RECORDED.items() if path.exists()}
    return {name: [json.loads(line) for line in path.read_text("utf-8").splitlines()] for name, path in there.items()}


def page(rows: Mapping[str, Row], builds: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Yield the lines of the page that shows all recorded builds."""
    for name, records in builds.items():
        made = sorted({(one["date"], one["revision"], one["machine"]) for one in records})
        yield from ("", f"## {name[0].upper()}{name[1:]}", "")
        yield f"{len(records)} builds: " + "; ".join(" ".join(one) for one in made) + "."
        yield from ("", *summary(rows, records).splitlines())
        if later := [one for one in records if one["row"] in rows and rows[one["row"]].draw > 1]:
            yield from ("", "Of these, the rows that no gate had judged when hwperf's rules were written:", "")
            yield from summary(rows, later).splitlines()
    for name, records in builds.items():
        changed = [one for one in records if one["row"] in rows and not rows[one["row"]].base_with]
        yield from ("", f"## Each row, {name}", "", *each(rows, changed).splitlines())
    upgraded = [one for one in builds["idle"] if one["row"] in rows and rows[one["row"]].base_with]
    yield from ("", "## Upgrades of packages", "", *upgrades(rows, upgraded).splitlines())


def upgrades(rows: Mapping[str, Row], records: Iterable[Record]) -> str:
    """Return the table of upgrades: what changed, and what the project says of it."""
    head = ("call", "from", "to", "outcome", "change of the median", "the project says")
    return tables.markdown(head, (_upgrade(rows[one["row"]], one) for one in records))


def _upgrade(row: Row, one: Record) -> tuple[object, ...]:
    packages = " ".join(row.base_with), " ".join(row.needs)
    return row.name, *packages, one.get("outcome", "no verdict"), _change(one), row.claim


def summary(rows: Mapping[str, Row], records: Iterable[Record]) -> str:
    """Return the table of tools: alarms and finds out of the builds that gave a verdict."""
    return tables.markdown(HEAD, by_rule(rows, [one for one in records if one["tool"] != "timing"]))


def in_short(rows: Mapping[str, Row], builds: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Yield the lines of the README's table: false alarms and finds of each tool, in each condition of the machine."""
    said = [{rule: cells for rule, *cells in by_rule(rows, records)} for records in builds.values()]
    for rule in _IN_SHORT:
        cells = [one.get(rule, ["not run"] * 2)[:2] for one in said]
        yield f"| {rule} | {' | '.join(cell.partition(' (')[0] for pair in cells for cell in pair)} |"


def whole(rows: Mapping[str, Row], records: Sequence[Record]) -> str:
    """Return the table of tools and that of rows, and what gave no verdict."""
    failed = (one for one in records if one.get("error"))
    errors = (f"no verdict: {one['row']}, {one['tool']}, {one['way']}: {one['error']}" for one in failed)
    return "\n\n".join([summary(rows, records), each(rows, records), "\n".join(errors)]).rstrip()


def each(rows: Mapping[str, Row], records: Sequence[Record]) -> str:
    """Return the table of rows: what is known of each, and what this package says of it."""
    head = ("row", "commits", "head/base", "gated as", "outcome", "change of the median", "names")
    ours = [one for one in records if one["tool"] == "ours" and one["row"] in rows]
    return tables.markdown(head, (_line(rows[one["row"]], one) for one in ours))


def _line(row: Row, one: Record) -> tuple[object, ...]:
    commits = f"{row.base[:8]}..{row.head[:8]}" if row.base else f"{' '.join(row.base_with)} to {' '.join(row.needs)}"
    known = f"×{row.ratio:.2f}" if row.is_changed else row.expected or "not known"
    wrong = "" if not one.get("named") or is_right(row, one["named"]) else " (not expected)"
    named = f"`{one['named']}`{wrong}" if one.get("named") else ""
    return row.name, commits, known, one["way"], one.get("outcome", "no verdict"), _change(one), named


def _change(one: Record) -> str:
    value, low, high = ("" if end is None else f"{100 * end:+.1f}" for end in one.get("change") or (None,) * 3)
    return f"{value} % ({low or '?'} .. {high or '?'})" if value else one.get("error", "")[:60] or one.get("said", "")


def by_rule(rows: Mapping[str, Row], records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    """Yield a row of the summary for each tool and rule: false alarms are those where nothing got slower."""
    judged = [one for one in records if one["row"] in rows and one["way"]]
    for tool in dict.fromkeys(one["tool"] for one in judged):
        all_of = [one for one in judged if one["tool"] == tool]
        mine = [one for one in all_of if not one.get("error")]
        for rule in dict.fromkeys(rule for one in mine for rule in one["alarms"]):
            worse = [one for one in mine if one["way"] == "slower"]
            others = [one for one in mine if one["way"] != "slower"]
            found = [one for one in worse if one["alarms"][rule]]
            right = [one for one in found if is_right(rows[one["row"]], one.get("named", ""))]
            yield (
                f"**{_OURS}**" if tool == "ours" else f"{tool} `{rule}`",
                tables.share(sum(bool(one["alarms"][rule]) for one in others), len(others)),
                tables.share(len(found), len(worse)),
                f"{len(right)} of {len(found)}" if tool == "ours" else "",
                str(len(all_of) - len(mine)),
                f"{statistics.median(one['seconds'] for one in mine):.0f}",
            )


def is_right(row: Row, named: str) -> bool:
    """Say whether a named function is one of those that the row expects, or a part of it.

    Named are `f`, or `f (file:3), g (file:9), changed, within h`.
    """
    shown = named.partition(", changed")[0]
    names = [one.partition(" (")[0].strip() for one in shown.split("), ")]
    return any(re.search(rf"(^|\.){re.escape(name)}($|\.)", one) for name in row.functions for one in names)
