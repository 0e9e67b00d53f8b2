"""How often `hwperf bisect` finds a planted commit among 32, in how many steps, and how long it takes.

    python -m benchmarks bisecting --runs 10

Each run makes a repository whose history has one commit with 10 % more work at a random place, and searches it.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import arms, tables
from benchmarks.projects import commit

UNITS = 200  # of work of a call; a planted commit adds a share of them
_WORK = """
UNITS = {units}


def call():
    total = 0
    for number in range(UNITS):
        for other in range(100):
            total += number * other
    return total
"""
_TEST = "import work\n\n\ndef test_call(hwperf):\n    hwperf(work.call)\n"
_INI = "[pytest]\npythonpath = .\n"


def make_history(folder: Path, commits: int, planted: int, share: float) -> list[str]:
    """Make a good commit and `commits` after it, of which one is slower; return all of them."""
    folder.mkdir()
    names = []
    for number in range(commits + 1):
        units = round(UNITS * (1 + share)) if number >= planted else UNITS
        work = _WORK.format(units=units) + f"\n\n# Remark {number}.\n"
        names.append(commit(folder, {"work.py": work, "test_work.py": _TEST, "pytest.ini": _INI}))
    return names


def search(folder: Path, names: list[str], planted: int) -> dict[str, Any]:
    """Run the command; return whether it has found the planted commit, and what it took."""
    result = folder.parent / "result.json"
    command = [sys.executable, "-m", "pytest_hwperf.cli", "bisect", names[0], names[-1], f"--json={result}"]
    began = time.monotonic()
    command += ["--", "test_work.py::test_call"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    seconds = round(time.monotonic() - began)
    if not result.exists():
        return {"found": False, "seconds": seconds, "error": f"exit code {done.returncode}: {done.stdout}{done.stderr}"}
    said = json.loads(result.read_text())
    suspects = [one["commit"] for one in said["suspects"]]
    return {
        "found": done.returncode == 0 and suspects == [names[planted]],
        "seconds": seconds,
        "planted": planted,
        "outcome": said["outcome"],
        "suspects": [names.index(one) for one in suspects if one in names],
        "steps": len(said["steps"]),
        "confidence": said["confidence"] or 0.0,
    }


def main() -> None:
    """Search several histories, and print how many planted commits were found."""
    parser = arms.parser(__doc__, "bisecting.jsonl")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--commits", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.10, help="of work that the planted commit adds")
    parser.add_argument("--seed", type=int, help="of the places; default: none")
    asked = parser.parse_args()

    def build(turn: arms.Turn) -> dict[str, Any]:
        draw = random.Random() if asked.seed is None else random.Random(f"{asked.seed} {turn['round']}")
        planted = draw.randint(1, asked.commits)
        with tempfile.TemporaryDirectory(prefix="bisecting-") as name:
            project = Path(name) / "project"
            return search(project, make_history(project, asked.commits, planted, asked.share), planted)

    records = arms.run(asked, ({"round": number} for number in range(asked.runs)), build)
    seconds, steps = ([one[key] for one in records if key in one] for key in ("seconds", "steps"))
    row = tables.share(sum(one["found"] for one in records), len(records)), *map(_ends, (steps, seconds))
    print(tables.markdown(("found", "steps", "s"), [row]))


def _ends(values: list[int]) -> str:
    return f"{min(values)} to {max(values)}" if values else "-"
