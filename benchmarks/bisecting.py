"""How often `hwperf bisect` finds a planted commit among 32, in how many steps, and how long it takes.

Each run makes a repository whose history has one commit with 10 % more work at a random place, and searches it:

    python -m benchmarks.bisecting --runs 10
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
_NEUTRAL = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *words: str) -> str:
    """Run git there and return what it prints."""
    identity = ["-c", "user.name=bisecting", "-c", "user.email=bisecting@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(folder), *words]
    environment = {**os.environ, **_NEUTRAL}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def make_history(folder: Path, commits: int, planted: int, share: float) -> list[str]:
    """Make a good commit and `commits` after it, of which one is slower; return all of them."""
    git(folder, "init", "-q", "-b", "main")
    (folder / "test_work.py").write_text(_TEST)
    (folder / "pytest.ini").write_text(_INI)
    names = []
    for number in range(commits + 1):
        units = round(UNITS * (1 + share)) if number >= planted else UNITS
        (folder / "work.py").write_text(_WORK.format(units=units) + f"\n\n# Remark {number}.\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"Change {number}")
        names.append(git(folder, "rev-parse", "HEAD"))
    return names


def search(folder: Path, names: list[str], planted: int) -> bool:
    """Run the command, print a line, and return whether it has found the planted commit."""
    result = folder.parent / "result.json"
    command = [sys.executable, "-m", "pytest_hwperf.cli", "bisect", names[0], names[-1], f"--json={result}"]
    began = time.monotonic()
    command += ["--", "test_work.py::test_call"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    seconds = time.monotonic() - began
    if not result.exists():
        print(f"exit code {done.returncode}, no result:\n{done.stdout}{done.stderr}", flush=True)
        return False
    found = json.loads(result.read_text())
    suspects = [one["commit"] for one in found["suspects"]]
    right = done.returncode == 0 and suspects == [names[planted]]
    confidence = found["confidence"] or 0.0
    answer = "found" if right else f"NOT found, {found['outcome']}: {suspects}"
    figures = f"{len(found['steps'])} steps, {seconds:.0f} s, confidence {confidence:.1%}"
    print(f"planted at {planted}: {answer}; {figures}", flush=True)
    return right


def main() -> None:
    """Search several histories, and print how many planted commits were found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--commits", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.10, help="of work that the planted commit adds")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    draw, found = random.Random(options.seed), 0
    for _ in range(options.runs):
        place = Path(tempfile.mkdtemp(prefix="bisecting-"))
        try:
            planted = draw.randint(1, options.commits)
            (place / "project").mkdir()
            names = make_history(place / "project", options.commits, planted, options.share)
            found += search(place / "project", names, planted)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    print(f"found in {found} of {options.runs} runs")


if __name__ == "__main__":
    main()
