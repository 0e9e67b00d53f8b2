"""The paired gate beside pytest-benchmark, pyperf and asv: false alarms, real slowdowns found, and time.

Run from the root of the repository, with the package, pytest-benchmark, pyperf, asv and virtualenv installed:

    python -m benchmarks.gate --rounds 20 --out gate.jsonl

`--judged packaging` takes two releases of a public package instead, from an index of packages in reach.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.busy import busy
from benchmarks.gate_projects import SUBJECTS, Project, Subject
from benchmarks.gate_table import Record, table, undecided
from benchmarks.gate_tools import TOOLS, build, prepare

_REQUIRED = ("numpy", "onnx", "onnxruntime")  # what the judged functions need
_NAMED = ("pytest-hwperf", "pytest", "pytest-benchmark", "pyperf", "asv", *_REQUIRED)
_BEFORE = "ours before"  # takes an environment of its own
_EVERYBODYS = [name for name in TOOLS if name != _BEFORE]

Build = tuple[int, str, str]  # round, tool, condition


def main() -> None:
    """Run the builds that are not in the file yet, one at a time, and print the table of all that are."""
    asked = _arguments()
    if asked.out.exists() and not asked.resume and not asked.only_table:
        raise SystemExit(f"{asked.out} exists: give --resume to go on, or another --out")
    records = _read(asked.out)
    if not asked.only_table:
        _refuse_mixture(records, _setting(asked))
        asked.out.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        with busy(asked.busy):
            records += _measure(asked, {(record["round"], record["tool"], record["condition"]) for record in records})
    _show(records, SUBJECTS[asked.judged])


def _show(records: Sequence[Record], subject: Subject) -> None:
    """Print the setting, the table and every error."""
    for setting in {json.dumps(record["setting"]): record["setting"] for record in records}.values():
        print("; ".join(f"{name} {found}" for name, found in setting.items()))
    print(f"revisions of this repository: {', '.join(dict.fromkeys(record['revision'] for record in records))}")
    loads = sorted(record["load"] for record in records)
    if loads:
        print(f"load average before a build: median {median(loads)}, from {loads[0]} to {loads[-1]}")
    print(table(records, subject))
    print("\n".join(undecided(records)))
    for record in records:
        if record["error"]:
            print(f"round {record['round']}, {record['tool']}, {record['condition']}: {record['error']}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tools", default="", help=f"separated by commas (default: {','.join(_EVERYBODYS)})")
    parser.add_argument("--before", default="", help="Python with an earlier version of this package: one more arm")
    parser.add_argument("--judged", choices=SUBJECTS, default="units", help="code that is judged (default: units)")
    parser.add_argument(
        "--busy", type=int, default=0, help="processes that keep the machine busy meanwhile (default: 0)"
    )
    parser.add_argument("--rounds", type=int, default=20, help="builds of every tool and condition (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the order within each round (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("gate.jsonl"), help="one line for each build")
    parser.add_argument("--resume", action="store_true", help="go on with what --out holds")
    parser.add_argument("--only-table", action="store_true", help="print the table of --out")
    asked = parser.parse_args()
    asked.before = asked.before and str(Path(asked.before).absolute())
    asked.tools = [*(asked.tools.split(",") if asked.tools else _EVERYBODYS), *([_BEFORE] if asked.before else [])]
    unknown = set(asked.tools) - {*_EVERYBODYS, *([_BEFORE] if asked.before else [])}
    if unknown:
        parser.error(f"--tools: unknown {', '.join(sorted(unknown))}; allowed: {', '.join(_EVERYBODYS)}")
    return asked


def _refuse_mixture(records: Sequence[Record], here: Mapping[str, str]) -> None:
    """End the run where the builds so far were made on another machine or with other versions."""
    for record in records:
        if record["setting"] != here:
            raise SystemExit(f"--out holds builds of another setting: {record['setting']}; here: {here}")


def _measure(asked: argparse.Namespace, done: set[Build]) -> list[Record]:
    """Run what is not done yet, and write down each build as soon as it has ended."""
    records = list[Record]()
    with tempfile.TemporaryDirectory(prefix="gate-") as name:
        folder, setting, revision = Path(name), _setting(asked), _revision()
        (folder / "kept").mkdir()
        subject = SUBJECTS[asked.judged]
        project = Project(folder / "project", folder / "kept", subject, setting, asked.before)
        project.restore(project.branch("unchanged"))
        for tool in asked.tools:
            unready = prepare(tool, project)
            if unready:
                raise SystemExit(f"{tool} cannot be prepared: {unready}")
        for number, tool, condition in _order(asked.tools, subject.conditions, asked.rounds, asked.seed):
            if (number, tool, condition) in done:
                continue
            record = {**_one(project, number, tool, condition), "revision": revision, "setting": setting}
            records.append(record)
            with asked.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
    return records


def _order(tools: Sequence[str], conditions: Sequence[str], rounds: int, seed: int) -> Iterable[Build]:
    """Yield every build; within a round the machine's drift is as likely to hit one as another.

    Leaving a tool out changes nothing in the order of the others.
    """
    for number in range(rounds):
        builds = [(number, tool, condition) for tool in TOOLS for condition in conditions]
        Random(f"{seed} {number}").shuffle(builds)
        yield from (one for one in builds if one[1] in tools)


def _one(project: Project, number: int, tool: str, condition: str) -> Record:
    project.restore(project.branch(condition))
    load = os.getloadavg()[0]
    answer = build(tool, project)
    record = {"round": number, "tool": tool, "condition": condition, "load": round(load, 2), **asdict(answer)}
    print(f"{number} {tool} {condition}: {answer.error or answer.alarms} in {answer.seconds:.1f} s", flush=True)
    return record


def _read(out: Path) -> list[Record]:
    """Return the builds that a file holds, without a last line that is only half written."""
    whole = out.read_text().rpartition("\n")[0] if out.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


def _revision() -> str:
    """Return the revision of this repository, with -dirty where files were changed since."""
    words = ("git", "describe", "--always", "--dirty", "--match=")
    done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


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


if __name__ == "__main__":
    main()
