"""The gates: how each tool's own users would judge the last commit against the one before, and what it answered."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

BASELINE = "HEAD~1"
_LONGEST = 900  # seconds of one command
_SHOWN = 600  # characters of an output that could not be read
# pytest-benchmark takes whole percents only.
_BENCHMARK_RULES = ("mean:5%", "median:5%", "min:5%", "median:2%", "min:2%")
_PYPERF_PROCESSES = 6
_PYPERF_RULES = {
    "compare_to": (),
    "compare_to --min-speed 2": ("--min-speed=2",),
    "compare_to --min-speed 5": ("--min-speed=5",),
}
_ASV_FACTOR, _ASV_SMALLER_FACTOR = "1.05", "1.02"


class GateError(Exception):
    """A tool gave no verdict; says what it did instead."""


@dataclass(slots=True, kw_only=True)
class Answer:
    """What one build of one tool said."""

    alarms: dict[str, list[str]] = field(default_factory=dict)  # by rule: functions that it called slower
    seconds: float = 0.0  # wall time of the commands that a build needs
    details: list[str] = field(default_factory=list)  # what it alarmed on, where it says so
    undecided: list[str] = field(default_factory=list)  # what it says it could not decide
    error: str = ""  # why there is no verdict at all; "" if there is one


class Judged(Protocol):
    """A repository whose last commit is judged against the one before."""

    root: Path
    kept: Path  # where asv's environment stays from build to build
    before: str  # the Python that has an earlier version of this package
    functions: Sequence[str]  # that are judged
    tests: str  # folder of their tests
    options: Sequence[str]  # of pytest

    @property
    def python(self) -> str:
        """The interpreter that runs the tools."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of every process."""

    def git(self, *words: str) -> str:
        """Run git in the repository and return what it prints."""

    def restore(self, revision: str) -> None:
        """Check out a revision, without anything that an earlier build left."""


Tool = Callable[[Judged, Answer], None]


def build(tool: str, project: Judged) -> Answer:
    """Judge what is checked out against the commit before; errors are returned, not raised."""
    answer = Answer()
    try:
        TOOLS[tool](project, answer)
    except (GateError, subprocess.SubprocessError, OSError, ValueError, LookupError) as error:
        answer.error = f"{type(error).__name__}: {error}"
        answer.alarms.clear()
    return answer


def _ours(project: Judged, answer: Answer, python: str = "") -> None:
    report = project.root / "report.json"
    asked = (f"--hwperf-against={BASELINE}", "--hwperf-only", f"--hwperf-report={report.name}")
    words = _pytest(project, "hwperf", f"{project.tests}/test_work.py", *asked)
    said = _run(project, answer, words, allowed=(0, 1), python=python)
    failed = set[str]()
    judged = set[str]()
    for judgement in json.loads(report.read_text())["report"]["judgements"]:
        name = judgement["run"]["test"].rpartition("test_")[2]
        for verdict in judgement["verdicts"]:
            comparison = verdict["subject"]
            what = f"{name} {comparison['metric']} {comparison['statistic']}: {verdict['outcome']}"
            if verdict["fails"]:
                failed.add(name)
                answer.details.append(what)
            elif verdict["outcome"] not in ("improved", "equivalent"):
                answer.undecided.append(what)
            if comparison["pairs"] and (comparison["metric"], comparison["statistic"]) == ("latency", "p50"):
                judged.add(name)
    if judged != {*project.functions} or bool(said.code) != bool(failed):
        raise GateError(f"exit {said.code}, pairs for {sorted(judged)}, failed {sorted(failed)}: {_end(said.text)}")
    answer.alarms["default"] = [name for name in project.functions if name in failed]


def _ours_before(project: Judged, answer: Answer) -> None:
    _ours(project, answer, project.before)


def _pytest_benchmark(project: Judged, answer: Answer) -> None:
    candidate = project.git("rev-parse", "--abbrev-ref", "HEAD")
    path = f"{project.tests}/test_work_benchmark.py"
    project.restore(BASELINE)
    _run(project, answer, _pytest(project, "benchmark", path, "--benchmark-only", "--benchmark-save=baseline"))
    project.git("checkout", "-q", "-f", candidate)  # what was saved stays
    asked = ("--benchmark-only", "--benchmark-compare", "--benchmark-compare-fail", *_BENCHMARK_RULES)
    said = _run(project, answer, _pytest(project, "benchmark", path, *asked), allowed=(0, 1))
    fails = re.findall(r"^\s*test_(\w+) \(.*Field '(\w+)' has failed \w+: [\d.]+ > (\d+)\.", said.text, re.MULTILINE)
    if bool(said.code) != bool(fails) or "Comparing against benchmarks from" not in said.text:
        raise GateError(f"exit {said.code} with {len(fails)} regressions: {_end(said.text)}")
    for rule in _BENCHMARK_RULES:
        answer.alarms[rule] = [name for name, statistic, percent in fails if f"{statistic}:{percent}%" == rule]


def _pyperf(project: Judged, answer: Answer) -> None:
    candidate = project.git("rev-parse", "--abbrev-ref", "HEAD")
    for revision, file in ((BASELINE, "baseline.json"), (candidate, "candidate.json")):
        project.git("checkout", "-q", "-f", revision)
        measure = ("perf_work.py", "-q", f"--processes={_PYPERF_PROCESSES}", "-o", file)
        _run(project, answer, (*measure, "--inherit-environ=OPENBLAS_NUM_THREADS,OMP_NUM_THREADS,PYTHONPATH"))
    for rule, extra in _PYPERF_RULES.items():
        counted = answer if not extra else Answer()  # a second look at the same figures is no part of a build
        words = ("-m", "pyperf", "compare_to", "--table", "--table-format=md", *extra)
        said = _run(project, counted, (*words, "baseline.json", "candidate.json"))
        answer.alarms[rule] = _slower(said.text, project.functions)


def _slower(text: str, functions: Sequence[str]) -> list[str]:
    """Read pyperf's table; every function must be in it or be called not significant."""
    rows = dict(re.findall(r"^\| (\w+)\s*\|.*: (\d\S+x slower|\d\S+x faster|no change)", text, re.MULTILINE))
    hidden = re.search(r"^Benchmark hidden because not significant \(\d+\): (.*)$", text, re.MULTILINE)
    silent = hidden[1].split(", ") if hidden else []
    if {*rows, *silent} - {"Geometric"} != {*functions}:
        raise GateError(f"pyperf's table cannot be read: {_end(text)}")
    return [name for name in functions if "slower" in rows.get(name, "")]


def _asv(project: Judged, answer: Answer) -> None:
    for wheels in project.kept.glob("asv-env/*/asv-build-cache"):
        shutil.rmtree(wheels)  # a candidate is new in every build
    words = ("-m", "asv", "continuous", f"--factor={_ASV_FACTOR}", BASELINE, "HEAD")
    said = _run(project, answer, words, allowed=(0, 1))
    worse = _worse(said.text, project.functions)
    decreased = "PERFORMANCE DECREASED" in said.text
    finished = decreased or "PERFORMANCE INCREASED" in said.text or "NOT SIGNIFICANTLY CHANGED" in said.text
    if not finished or not (bool(said.code) == decreased == bool(worse)) or "failed" in said.text:
        raise GateError(f"exit {said.code}: {_end(said.text)}")
    answer.alarms[f"continuous --factor {_ASV_FACTOR}"] = worse
    # A second look at the same figures is no part of a build.
    words = ("-m", "asv", "compare", f"--factor={_ASV_SMALLER_FACTOR}", BASELINE, "HEAD")
    again = _run(project, Answer(), words)
    missing = [name for name in project.functions if f".time_{name}" not in again.text]
    if missing:
        raise GateError(f"asv compare names no {', '.join(missing)}: {_end(again.text)}")
    answer.alarms[f"compare --factor {_ASV_SMALLER_FACTOR}"] = _worse(again.text, project.functions)


def _worse(text: str, functions: Sequence[str]) -> list[str]:
    return [name for name in functions if re.search(rf"^\| \+ .*\.time_{name}\b", text, re.MULTILINE)]


TOOLS: dict[str, Tool] = {
    "ours": _ours,
    "ours before": _ours_before,
    "pytest-benchmark": _pytest_benchmark,
    "pyperf": _pyperf,
    "asv": _asv,
}


def prepare(tool: str, project: Judged) -> str:
    """Do once what a build finds done, and return "" or why it failed: asv needs an environment and a machine file."""
    if tool != "asv":
        return ""
    try:
        _run(project, Answer(), ("-m", "asv", "machine", "--yes"))
        _run(project, Answer(), ("-m", "asv", "setup"), allowed=(0, 1))  # 1 where it made an environment
    except (GateError, subprocess.SubprocessError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if any(project.kept.glob("asv-env/*/bin/python")) else "asv setup made no environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    code: int
    text: str


def _pytest(project: Judged, plugin: str, *words: str) -> tuple[str, ...]:
    """Return pytest with one of the two plugins: users have one."""
    other = {"hwperf": "benchmark", "benchmark": "hwperf"}[plugin]
    return ("-m", "pytest", "-q", "-p", f"no:{other}", *project.options, *words)


def _run(
    project: Judged,
    answer: Answer,
    words: Sequence[str],
    allowed: Sequence[int] = (0,),
    python: str = "",
) -> _Said:
    """Run Python with these words in the project and add its wall time to the answer."""
    began = time.perf_counter()
    done = subprocess.run(
        [python or project.python, *words],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    answer.seconds += time.perf_counter() - began
    text = done.stdout + done.stderr
    if done.returncode not in allowed:
        raise GateError(f"{' '.join(words[:4])}: exit {done.returncode}: {_end(text)}")
    return _Said(code=done.returncode, text=text)


def _end(text: str) -> str:
    return " / ".join(text.split("\n"))[-_SHOWN:]
