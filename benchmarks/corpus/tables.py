"""What the recorded builds of the corpus come to: a row for each tool and its rule, and one for each row."""

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks import tables
from benchmarks.arms import Record
from benchmarks.corpus.rows import SMALLEST, Row

_OURS = "pytest-hwperf"
HEAD = ("tool and rule", "alarms without a change", "changes of 5 % or more found", "function named right", "median s")


def summary(rows: Mapping[str, Row], records: Iterable[Record]) -> str:
    """Return the table of tools: alarms and finds out of the builds that gave a verdict."""
    return tables.markdown(HEAD, _by_rule(rows, [one for one in records if one["tool"] != "timing"]))


def whole(rows: Mapping[str, Row], records: Sequence[Record]) -> str:
    """Return both tables, and what gave no verdict."""
    errors = [f"no verdict: {one['row']}, {one['tool']}, {one['way']}: {one['error']}" for one in records if _of(one)]
    return "\n\n".join([summary(rows, records), each(rows, records), "\n".join(errors)]).rstrip()


def each(rows: Mapping[str, Row], records: Sequence[Record]) -> str:
    """Return the table of rows: what is known of each, and what this package says of it."""
    head = ("row", "commits", "known", "gated as", "outcome", "change of the median", "names")
    ours = [one for one in records if one["tool"] == "ours" and one["row"] in rows]
    return tables.markdown(head, (_line(rows[one["row"]], one) for one in ours))


def _line(row: Row, one: Record) -> tuple[object, ...]:
    known = f"×{row.ratio:.2f}" if row.is_changed else row.expected or "not known"
    commits = f"{row.base[:8]}..{row.head[:8]}" if row.base else f"{' '.join(row.base_with)} → {' '.join(row.needs)}"
    value, low, high = ("" if end is None else f"{100 * end:+.1f}" for end in one.get("change") or (None,) * 3)
    change = f"{value} % ({low or '?'} .. {high or '?'})" if value else one.get("error") or one.get("said", "")
    return row.name, commits, known, one["way"], one.get("outcome", "no verdict"), change, one.get("named", "")


def _of(one: Record) -> str:
    return str(one.get("error", ""))


def _by_rule(rows: Mapping[str, Row], records: Sequence[Record]) -> Iterator[tuple[object, ...]]:
    judged = [one for one in records if one["row"] in rows and not one.get("error") and one["way"]]
    rules = dict.fromkeys((one["tool"], rule) for one in judged for rule in one.get("alarms", {}))
    for tool, rule in rules:
        mine = [one for one in judged if one["tool"] == tool]
        equal = [one for one in mine if one["way"] == "equal"]
        worse = [one for one in mine if one["way"] == "slower" and rows[one["row"]].change >= SMALLEST]
        found = [one for one in worse if one["alarms"][rule]]
        named = [one for one in found if one.get("named")]
        right = [one for one in named if is_right(rows[one["row"]], one["named"])]
        yield (
            f"**{_OURS}**" if tool == "ours" else f"{tool} `{rule}`",
            tables.share(sum(bool(one["alarms"][rule]) for one in equal), len(equal)),
            tables.share(len(found), len(worse)),
            f"{len(right)} of {len(found)}" if tool == "ours" else "",
            f"{statistics.median(one['seconds'] for one in mine):.0f}",
        )


def is_right(row: Row, named: str) -> bool:
    """Say whether the named function is one of those that the row expects, or a part of it."""
    return any(re.search(rf"(^|\.){re.escape(name)}($|\.)", named) for name in row.functions)
