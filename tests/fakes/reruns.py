"""A project in a real repository, and the paired gate on it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.pairs.timetable import BlockPlan

QUICK = BlockPlan(doubles=2, calls=10, block_s=0.002, warm_blocks=3)
REHEARSED = "-pfakes.instant_pairs"  # no pair is begun: only what the rehearsal has found is said
REPEATED = "-pfakes.repeated_pairs"  # one rehearsal and one pair, which counts as often as is asked
COMPARED = ""  # the reason of a test then that can be compared
WORK = "from fakes.simulated_time import spend\n\n\ndef call():\n    spend(300)\n"
INI = "[pytest]\npythonpath = .\n"

SIMULATED = ("-p", "fakes.simulated_time")

QUICKLY = ("--hwperf-energy=off", "--hwperf-sample-time=0.2", "--hwperf-explain=never")  # profiles take seconds

_TIMES = count(1_700_000_000)  # each file that is written has its own: byte code is known by that time and the size

_ALWAYS = (*SIMULATED, *QUICKLY, "--hwperf-report=report.json")


@dataclass(frozen=True, slots=True)
class Project:
    """A repository in the folder of `pytester`."""

    pytester: pytest.Pytester

    @property
    def path(self) -> Path:
        """Its root."""
        return self.pytester.path

    def write(self, files: Mapping[str, str]) -> None:
        """Write files by their paths."""
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            os.utime(path, (at := next(_TIMES), at))

    def commit(self, files: Mapping[str, str]) -> None:
        """Write files, and commit all there is."""
        self.write(files)
        commit(self.path)

    def git(self, *arguments: str) -> str:
        """Run git there."""
        return git(self.path, *arguments)

    def run(self, *options: str, against: str = "HEAD") -> pytest.RunResult:
        """Run pytest in this process, so that what a test has patched holds."""
        chosen = [f"--hwperf-against={against}"] if against else []
        return self.pytester.runpytest_inprocess(*chosen, *_ALWAYS, *options)

    def report(self, folder: str = ".") -> Report:
        """Return the report of the last run that was started in `folder`."""
        text = (self.path / folder / "report.json").read_text(encoding="utf-8")
        return from_json(ReportFile, text).report

    def gate(self) -> Gate:
        """Return what the pairs of the last run were."""
        (gate,) = self.report().gates
        return gate

    def compared(self, test: str, metric: str = "latency", statistic: str = "p50") -> Comparison:
        """Return the comparison of one statistic of the test whose id ends so."""
        (found,) = (
            comparison
            for judgement in self.report().judgements
            if judgement.run.test.endswith(test)
            for comparison in judgement.comparisons
            if (comparison.metric, comparison.statistic) == (metric, statistic)
        )
        return found


def repository(pytester: pytest.Pytester, files: Mapping[str, str]) -> Project:
    """Make one with a single commit of these files."""
    found = Project(pytester)
    found.git("init")
    found.commit(files)
    return found


def measured(name: str, call: str, *before: str) -> str:
    """Return the text of a module with one measured test; `before` are lines of its body."""
    body = "".join(f"    {line}\n" for line in (*before, f"hwperf({call})"))
    base = "BASE = 'hwperf-base-' in os.getcwd()"
    return f"import os, pathlib, time\nimport work\n\n{base}\n\n\ndef test_{name}(hwperf):\n{body}"
