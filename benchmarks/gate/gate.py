"""The gate beside pytest-benchmark, pyperf and asv: false alarms, real slowdowns found, and time.

    pip install -e . pytest-benchmark pyperf asv virtualenv
    python -m benchmarks gate --rounds 20 --out gate.jsonl

`--judged packaging` takes two releases of a public package instead, from an index of packages in reach.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from statistics import median

from benchmarks import arms, tables
from benchmarks.arms import Record, Turn
from benchmarks.gate.subjects import SUBJECTS, Project, Subject
from benchmarks.gate.tools import TOOLS, build, prepare

_REQUIRED = ("numpy", "onnx", "onnxruntime")  # what the judged functions need
_NAMED = ("pytest-hwperf", "pytest", "pytest-benchmark", "pyperf", "asv", *_REQUIRED)
_BEFORE = "ours before"  # takes an environment of its own
_EVERYBODYS = [name for name in TOOLS if name != _BEFORE]
_ANY = "build"  # at least one of its functions


def main() -> None:
    """Run the builds that are not in the file yet, one at a time, and print the table of all that are."""
    asked = _arguments()
    subject, setting = SUBJECTS[asked.judged], _setting(asked)
    # Over all tools: leaving one out changes nothing in the order of the others.
    every = [(tool, condition) for tool in TOOLS for condition in subject.conditions]
    turns = (
        {"round": number, "tool": tool, "condition": condition}
        for number, (tool, condition) in arms.drawn(every, asked.rounds, asked.seed)
        if tool in asked.tools
    )
    with tempfile.TemporaryDirectory(prefix="gate-") as name, arms.busy(asked.busy):
        project = cache(lambda: _prepared(Path(name), asked, setting))  # by the first build
        records = arms.run(asked, turns, lambda turn: _built(project(), turn), setting, _said)
    _show(records, subject)


def _arguments() -> argparse.Namespace:
    parser = arms.parser(__doc__, "gate.jsonl")
    parser.add_argument("--tools", default="", help=f"separated by commas (default: {','.join(_EVERYBODYS)})")
    parser.add_argument("--before", default="", help="Python with an earlier version of this package: one more arm")
    parser.add_argument("--judged", choices=SUBJECTS, default="units", help="code that is judged (default: units)")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile (default: 0)")
    parser.add_argument("--rounds", type=int, default=20, help="builds of every tool and condition (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the order within each round (default: 0)")
    asked = parser.parse_args()
    asked.before = asked.before and str(Path(asked.before).absolute())
    known = [*_EVERYBODYS, *([_BEFORE] if asked.before else [])]
    asked.tools = [*(asked.tools.split(",") if asked.tools else _EVERYBODYS), *([_BEFORE] if asked.before else [])]
    unknown = {*asked.tools} - {*known}
    if unknown:
        parser.error(f"--tools: unknown {', '.join(sorted(unknown))}; allowed: {', '.join(_EVERYBODYS)}")
    return asked


def _setting(asked: argparse.Namespace) -> dict[str, str]:
    found = {
        "judged": asked.judged,
        "busy processes": str(asked.busy),
        "before": asked.before,
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
    }
    for name in _NAMED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _prepared(folder: Path, asked: argparse.Namespace, setting: dict[str, str]) -> Project:
    """Make the repository, and what each tool needs before its first build."""
    (folder / "kept").mkdir()
    project = Project(folder / "project", folder / "kept", SUBJECTS[asked.judged], setting, asked.before)
    project.restore(project.branch("unchanged"))
    for tool in asked.tools:
        unready = prepare(tool, project)
        if unready:
            raise SystemExit(f"{tool} cannot be prepared: {unready}")
    return project


def _built(project: Project, turn: Turn) -> dict[str, object]:
    project.restore(project.branch(turn["condition"]))
    return asdict(build(turn["tool"], project))


def _said(one: Record) -> str:
    found = one["error"] or one["alarms"]
    return f"{one['round']} {one['tool']} {one['condition']}: {found} in {one['seconds']:.1f} s"


def _show(records: Sequence[Record], subject: Subject) -> None:
    """Print the setting, the table and every error."""
    for setting in {json.dumps(record["setting"]): record["setting"] for record in records}.values():
        print("; ".join(f"{name} {found}" for name, found in setting.items()))
    print(f"revisions of this repository: {', '.join(dict.fromkeys(record['revision'] for record in records))}")
    loads = sorted(record["load"] for record in records)
    if loads:
        print(f"load average before a build: median {median(loads)}, from {loads[0]} to {loads[-1]}")
    alarms = (f"{name}: alarms" for name in subject.conditions)
    seconds = f"median seconds of a build: {', '.join(subject.conditions)}"
    print(tables.markdown(("tool and rule", "of", *alarms, "errors", seconds), _rows(records, subject)))
    print(*_undecided(records), sep="\n")
    for record in records:
        if record["error"]:
            print(f"round {record['round']}, {record['tool']}, {record['condition']}: {record['error']}")


def _rows(records: Sequence[Record], subject: Subject) -> Iterator[tuple[str, ...]]:
    """Yield for each tool, rule and function the builds that alarmed, of those that gave a verdict.

    Builds with errors stand in their own column and count nowhere else.
    """
    for tool in dict.fromkeys(record["tool"] for record in records):
        mine = [record for record in records if record["tool"] == tool]
        judged = [record for record in mine if not record["error"]]
        errors = f"{len(mine) - len(judged)} of {len(mine)}"
        seconds = ", ".join(_seconds(judged, condition) for condition in subject.conditions)
        rules = list(dict.fromkeys(rule for record in judged for rule in record["alarms"]))
        for rule in rules or ["-"]:
            for what in (_ANY, *subject.functions):
                rates = (_rate(judged, condition, rule, what) for condition in subject.conditions)
                once = (f"{tool} {rule}", errors, seconds) if what == _ANY else ("", "", "")
                yield once[0], what, *rates, *once[1:]


def _rate(judged: Sequence[Record], condition: str, rule: str, what: str) -> str:
    alarms = [record["alarms"][rule] for record in judged if record["condition"] == condition]
    return tables.share(sum(bool(names) if what == _ANY else what in names for names in alarms), len(alarms), digits=0)


def _seconds(judged: Sequence[Record], condition: str) -> str:
    seconds = [record["seconds"] for record in judged if record["condition"] == condition]
    return f"{median(seconds):.1f}" if seconds else "-"


def _undecided(records: Sequence[Record]) -> Iterator[str]:
    """Yield a line for each tool that says so where it could not decide: in how many builds, and on what."""
    for tool in dict.fromkeys(record["tool"] for record in records if record["undecided"]):
        for condition in dict.fromkeys(record["condition"] for record in records):
            mine = [record for record in records if (record["tool"], record["condition"]) == (tool, condition)]
            what = Counter(line for record in mine for line in record["undecided"])
            shown = "; ".join(f"{line} in {count}" for line, count in what.most_common())
            builds = sum(bool(record["undecided"]) for record in mine)
            yield f"{tool}, {condition}: something undecided in {builds} of {len(mine)} builds ({shown or 'nothing'})"
