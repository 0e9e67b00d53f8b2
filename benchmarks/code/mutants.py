"""Of changes that make a decision wrong, how many does a test notice? A seeded sample of mutants, tested one by one.

    pip install -e . cosmic-ray pytest-cov pytest-xdist
    python -m benchmarks mutants --out mutants.jsonl

A mutant is the tree of HEAD with one operator, number or keyword changed by cosmic-ray, in what judges or ends a build.
The tests that are not live run once to learn which of them runs which line; each mutant is then judged by those that
run its line. A mutant is caught if one of them fails or runs out of time. What only live tests run counts as missed.
An hour on two cores; `--resume` goes on after a run that was stopped.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import Queue
from random import Random
from time import perf_counter
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

from benchmarks import arms, tables
from benchmarks.projects import ROOT

JUDGED = (
    "records/*.py",
    "stats/*.py",
    "gate/processes.py",
    "gate/rehearsal.py",
    "gate/schedule.py",
    "gate/gate.py",
    "gate/conductor.py",
    "gate/pair/lockstep.py",
    "plugin/reporting/collector.py",
    "plugin/judging/judge.py",
    "plugin/judging/unjudged.py",
)
_FIRST = 40  # tests that are tried before all others that run the line, those of the file's own name first
_LONGEST_S = 300
_PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-m",
    "not live or simulation",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
)

Tests = Mapping[str, Mapping[int, Sequence[str]]]  # file → line → tests that run it


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one line."""

    path: str
    line: int
    operator: str
    occurrence: int
    before: str
    after: str


def main() -> None:
    """Test the mutants of the sample that are not in the file yet, and print what share was caught."""
    parser = arms.parser(__doc__, "mutants.jsonl")
    parser.add_argument("--sample", type=int, default=300, help="mutants that are tested (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="tested at once (default: all cores)")
    asked = parser.parse_args()
    records = {json.dumps(record["mutant"]): record for record in arms.read(asked)}
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copies = [_copy(Path(name) / str(number)) for number in range(asked.jobs)]
        sample = _sample(copies[0], asked.sample, asked.seed)
        left = [one for one in sample if json.dumps(asdict(one)) not in records]
        if left and not asked.only_table:
            tests = _tests_by_line(copies[0], asked.jobs)
            records |= {json.dumps(one["mutant"]): one for one in _test(left, copies, tests, asked.out)}
    names = [json.dumps(asdict(one)) for one in sample]
    _show([records[name] for name in names if name in records])


def _copy(folder: Path) -> Path:
    subprocess.run(("git", "clone", "-q", "--shared", str(ROOT), str(folder)), check=True)
    return folder


def _sample(root: Path, number: int, seed: int) -> list[Mutant]:
    """Draw mutants of the files that judge, each as likely as every other."""
    package = root / "pytest_hwperf"
    paths = [str(path.relative_to(root)) for pattern in JUDGED for path in sorted(package.glob(pattern))]
    every = [
        (path, operator, occurrence)
        for path in paths
        for operator in operator_names()
        if not get_operator(operator).arguments() and "NoOp" not in operator
        for occurrence in range(_positions(root / path, operator))
    ]
    Random(seed).shuffle(every)
    drawn: list[Mutant] = []
    for path, operator, occurrence in every:
        if len(drawn) == number:
            break
        drawn.extend(_mutant(root / path, path, operator, occurrence))
    return drawn


def _positions(file: Path, operator: str) -> int:
    change = get_operator(operator)()
    return sum(len(list(change.mutation_positions(node))) for node in ast_nodes(_tree(file)))


@cache
def _tree(file: Path) -> Any:
    return get_ast(file.read_text())


def _mutant(file: Path, path: str, operator: str, occurrence: int) -> Iterator[Mutant]:
    """Yield the mutant if it is a program that differs in more than a type that is written beside a name."""
    text = file.read_text()
    mutated = mutate_code(text, get_operator(operator)(), occurrence)
    before, after = text.splitlines(), mutated.splitlines()
    line = next(number for number, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    try:
        differs = _meaning(mutated) != _meaning(text)
    except SyntaxError:
        return
    if differs:
        yield Mutant(
            path=path,
            line=line + 1,
            operator=operator.removeprefix("core/"),
            occurrence=occurrence,
            before=before[line].strip(),
            after=after[line].strip(),
        )


def _meaning(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(value=None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
    return ast.dump(tree)


def _tests_by_line(copy: Path, jobs: int) -> Tests:
    """Run the tests once, all of which must pass, and return which of them run which line."""
    command = (*_PYTEST, "-n", str(jobs), "--cov=pytest_hwperf", "--cov-context=test", "--cov-report=")
    done = subprocess.run(command, cwd=copy, env=_environment(copy), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the tests fail without a mutant:\n{done.stdout[-3000:]}")
    data = CoverageData(str(copy / ".coverage"))
    data.read()
    return {
        str(Path(file).relative_to(copy)): {
            line: sorted({one.partition("|")[0] for one in contexts if one})
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
        if Path(file).is_relative_to(copy)
    }


def _environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}


def _test(mutants: Sequence[Mutant], copies: Sequence[Path], tests: Tests, out: Path) -> Iterator[arms.Record]:
    """Test mutants, one at a time in each copy, and write down and yield each as soon as it is judged."""
    free: Queue[Path] = Queue()
    for copy in copies:
        free.put(copy)

    def judged(mutant: Mutant) -> dict[str, Any]:
        copy = free.get()
        try:
            return _judged(mutant, copy, tests)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as threads:
        for record in threads.map(judged, mutants):
            arms.append(out, record)
            print(f"{record['outcome']}: {record['mutant']['path']}:{record['mutant']['line']}", flush=True)
            yield record


def _judged(mutant: Mutant, copy: Path, tests: Tests) -> dict[str, Any]:
    file, began = copy / mutant.path, perf_counter()
    text = file.read_text()
    own = f"test_{Path(mutant.path).name}"
    found = sorted(tests.get(mutant.path, {}).get(mutant.line, ()), key=lambda test: (f"/{own}::" not in test, test))
    outcome = "caught" if found else "runs in no such test"
    try:
        file.write_text(mutate_code(text, get_operator(f"core/{mutant.operator}")(), mutant.occurrence))
        for some in filter(None, (found[:_FIRST], found[_FIRST:])):
            outcome = _outcome(copy, some)
            if outcome != "missed":
                break
    finally:
        file.write_text(text)
    return {"mutant": asdict(mutant), "outcome": outcome, "tests": len(found), "s": round(perf_counter() - began, 1)}


def _outcome(copy: Path, tests: Sequence[str]) -> str:
    listed = copy / ".mutant-tests"
    listed.write_text("\n".join(tests))
    command = (*_PYTEST, "-x", "-n0", "--no-cov", f"@{listed}")
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, cwd=copy, env=_environment(copy), stdout=quiet, stderr=quiet, timeout=_LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "out of time"
    return "caught" if done.returncode else "missed"


def _show(records: Sequence[Mapping[str, Any]]) -> None:
    """Print each mutant that was missed, and the share that was caught, of each folder and of all."""
    for record in records:
        if record["outcome"] not in {"caught", "out of time"}:
            mutant = record["mutant"]
            print(f"{mutant['path']}:{mutant['line']} {record['outcome']}\n-{mutant['before']}\n+{mutant['after']}")
    print(dict(Counter(record["outcome"] for record in records)))
    rows = []
    for folder in (*dict.fromkeys(_folder(record) for record in records), "all"):
        some = [record for record in records if folder in {"all", _folder(record)}]
        caught = sum(record["outcome"] in {"caught", "out of time"} for record in some)
        rows.append((folder, tables.share(caught, len(some))))
    print(tables.markdown(("folder", "caught"), rows))


def _folder(record: Mapping[str, Any]) -> str:
    return Path(record["mutant"]["path"]).parts[1]
