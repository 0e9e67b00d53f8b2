"""Gates on real changes of projects of others: what was found, what alarmed falsely, and whose function was named.

    python -m benchmarks.corpus --mirror FOLDER --out idle.jsonl
    python -m benchmarks.corpus --only "packaging requirement" --tool timing

A row that became slower or faster is gated in the direction in which it is slower; this package also gates the faster
direction. A row without a change is gated as it is. Rows come from `rows/`; the first build of a row gets its
commits, by git from the address or from a mirror, and the packages that it needs, by pip. Nothing of a project is
built: its tree is what is imported.
"""

import argparse
import platform
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import arms
from benchmarks.corpus import rows, timing
from benchmarks.corpus.checkouts import FUNCTION, TESTS, Checkout
from benchmarks.corpus.rows import Row
from benchmarks.corpus.tables import whole
from benchmarks.gate import tools
from benchmarks.gate.tools import Answer
from pytest_hwperf.host.machine import count_usable_cores, name_processor, read_processor
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.report import ReportFile

TOOLS = ("ours", "pytest-benchmark", "pyperf", "asv", "timing")


def turns(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the builds: every row once with each tool, and rows without a change as often as they are asked for.

    The faster direction comes last: it can show false alarms alone.
    """
    drawn = [row for row in rows.read() if asked.draw in (None, row.draw)]
    chosen = [row for row in drawn if not asked.only or any(part in row.name for part in asked.only)]
    if asked.sample:
        pairs = [row for row in chosen if row.repository and row.draw == 1]
        chosen = Random(0).sample(pairs, min(asked.sample, len(pairs)))
    if not chosen:
        raise SystemExit("no row has such a name, or is of that draw")
    made = [
        {"row": row.name, "digest": row.digest, "tool": tool, "way": way, "round": round_}
        for round_ in range(max(asked.equal, 1))
        for row in (chosen if round_ == 0 else (row for row in chosen if row.expected == "equal"))
        for tool in asked.tool
        for way in ways(row, tool)
    ]
    yield from sorted(made, key=lambda turn: turn["way"] == "faster")


def ways(row: Row, tool: str) -> Sequence[str]:
    """Return the directions in which a tool judges a row: "slower", "faster", "equal", or "" where nobody knows.

    Other versions of packages are a question to this package alone.
    """
    if row.base_with and tool != "ours":
        return ()
    if not row.is_changed or tool == "timing":
        return (row.expected,)
    return ("slower", "faster") if tool == "ours" else ("slower",)


def built(row: Row, turn: Mapping[str, Any], folder: Path, mirror: Path | None) -> dict[str, Any]:
    """Make one build; what went wrong is part of what it says."""
    place = folder / re.sub(r"\W+", "-", row.name)
    backwards = row.is_changed and turn["way"] not in ("", row.expected)
    try:
        checkout = _checkout(row, place, mirror, backwards=backwards)
        checkout.restore("candidate")
        if turn["tool"] == "timing":
            return {"seconds": 0.0, **timing.measured(checkout)}
        if row.base_with:
            return _upgraded(row, checkout)
        answer = _answer(turn["tool"], checkout)
        said = {"alarms": answer.alarms, "seconds": round(answer.seconds, 1), "error": _end(answer.error)}
        return said if answer.error or turn["tool"] != "ours" else {**said, **_told(checkout.root / "report.json")}
    except (subprocess.SubprocessError, OSError, HwperfError) as error:
        return {"error": _end(f"{error} {getattr(error, 'stderr', '') or ''}"), "seconds": 0.0}


def _end(text: str) -> str:
    return " ".join(text.split())[-300:].replace("|", "/")


@cache
def _checkout(row: Row, place: Path, mirror: Path | None, *, backwards: bool) -> Checkout:
    return Checkout(row, place, mirror, backwards=backwards)


@cache
def _prepared(tool: str, checkout: Checkout) -> str:
    return tools.prepare(tool, checkout)


def _answer(tool: str, checkout: Checkout) -> Answer:
    if said := _prepared(tool, checkout):
        return Answer(error=said)
    return tools.build(tool, checkout)


def _upgraded(row: Row, checkout: Checkout) -> dict[str, Any]:
    """Compare the packages of a row with others of them."""
    options = [f"--hwperf-base-with={one}" for one in row.base_with]
    began = time.monotonic()
    words = ["-m", "pytest", "-q", "-p", "no:benchmark", *checkout.options, f"{TESTS}/test_work.py", *options]
    done = subprocess.run(
        [checkout.python, *words, "--hwperf-report=report.json"],
        cwd=checkout.root,
        env=checkout.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    seconds = round(time.monotonic() - began, 1)
    if done.returncode not in (0, 1):
        return {"error": _end(f"exit code {done.returncode}: {done.stdout} {done.stderr}"), "seconds": seconds}
    return {"error": "", "seconds": seconds, **_told(checkout.root / "report.json")}


def _told(report: Path) -> dict[str, Any]:
    """Return the outcome of the median latency, its change with both ends, and the function that is named as cause.

    Of the call itself, which no commit changes, it is the one that most of it is in.
    """
    if not report.exists():
        return {}
    judgements = from_json(ReportFile, report.read_bytes()).report.judgements
    for found in (comparison for judgement in judgements for comparison in judgement.comparisons):
        if (found.metric, found.statistic) == MEDIAN_LATENCY:
            change = found.change
            return {
                "outcome": found.outcome,
                "change": [change.value, change.low, change.high] if change else None,
                "pairs": found.pairs,
                "named": _named(found.moved.texts) if found.moved else "",
                "said": str(found.moved or found.cause or ""),
            }
    return {}


def _named(texts: Mapping[str, str]) -> str:
    inner = texts.get("where", "").partition("most of it in ")[2].rpartition(" (")[0]
    return inner if inner and texts.get("name") == FUNCTION else texts.get("name", "")


def main() -> None:
    """Make the builds that are asked for, and print the table of all that the file holds."""
    parser = arms.parser(__doc__, "corpus.jsonl")
    parser.add_argument("--only", action="append", default=[], help="rows whose name has this part; repeatable")
    parser.add_argument("--draw", type=int, metavar="N", help="rows of the first draw, 1, or of the second, 2, alone")
    parser.add_argument("--sample", type=int, metavar="N", help="so many pairs of the first draw, always the same")
    parser.add_argument("--tool", action="append", default=[], choices=TOOLS, help="default: ours; repeatable")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="beside so many processes that compute")
    parser.add_argument("--equal", type=int, default=1, help="builds of each row without a change")
    parser.add_argument("--mirror", type=Path, help="folder with OWNER+NAME/repo, git directories for the addresses")
    parser.add_argument("--folder", type=Path, default=Path("corpus-work"), help="of checkouts and environments")
    asked = parser.parse_args()
    asked.tool = asked.tool or ["ours"]
    every = {row.name: row for row in rows.read()}
    folder, mirror = asked.folder.absolute(), asked.mirror and asked.mirror.absolute()
    setting = {"beside": f"{asked.busy} busy processes"} if asked.busy else {"beside": "nothing"}
    machine = f"{name_processor(read_processor())}, {count_usable_cores()} cores, Python {platform.python_version()}"
    made = {"machine": machine, "date": datetime.now(UTC).date().isoformat()}
    with arms.busy(asked.busy) if asked.busy else nullcontext():
        records = arms.run(
            asked,
            turns(asked),
            lambda turn: {**built(every[turn["row"]], turn, folder, mirror), **made},
            setting,
        )
    if asked.tool != ["timing"]:
        print(whole(every, records))


if __name__ == "__main__":
    main()
