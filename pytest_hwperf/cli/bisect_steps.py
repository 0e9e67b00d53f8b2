"""The steps of `hwperf bisect`: sessions of pytest that compare BAD with another commit."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pytest_hwperf.cli.inputs import read_own
from pytest_hwperf.cli.pytest_session import Session, run_pytest
from pytest_hwperf.gate.bisection import BadTree
from pytest_hwperf.host.files import replace_file
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import visible
from pytest_hwperf.stats.bisection import Bisection, BisectionQuestion, BisectionStep, History, KnownChange, pair_values

_LEAST_S = 1.0  # of a session: less is no time
_LONGEST_REASON = 300  # characters
# No change is beyond it, so that a step has the pairs of the screen and no others.
_BEYOND_ALL = "100000%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """Starts pytest in the tree of BAD, against another commit."""

    tree: BadTree
    arguments: Sequence[str]  # of pytest, as the user gave them
    until: float  # instant of `clock`
    run: Callable[..., Session] = run_pytest
    clock: Callable[[], float] = monotonic

    def in_time(self) -> bool:
        """Whether another session can be begun."""
        return self.clock() < self.until - _LEAST_S

    def ends(self, good: str) -> Evidence:
        """Compare BAD with GOOD as a gate does."""
        session = self._session(good)
        if session.report is None or not session.report.gates:
            late = "" if self.in_time() else "the time was up; give a larger --time: "
            raise UsageProblem(f"{late}BAD cannot be compared with GOOD ({good[:10]}):\n{session.output}")
        evidence = session.report.gates[0].evidence
        if not any(pair.observations for pair in evidence.pairs):
            reason = _reason(session.report, None) or "pairs have measured nothing"
            raise UsageProblem(f"BAD cannot be compared with GOOD ({good[:10]}): {reason}")
        return evidence

    def step(self, commit: str, known: KnownChange) -> BisectionStep:
        """Compare BAD with a commit by the pairs of a screen alone."""
        keyword = next((word for word, one in DEFAULT_MARGINS.items() if one.key == known.key[1:]), "")
        margin = [f"--hwperf-margin={keyword}={_BEYOND_ALL}"] if keyword else []
        energy = [] if known.metric == "energy" else ["--hwperf-energy=off"]
        session = self._session(commit, *margin, *energy, "--hwperf-sample-time=0.1")
        gates = session.report.gates if session.report else ()
        values = pair_values(gates[0].evidence, known.key, known.better) if gates else ()
        if values:
            return BisectionStep(commit=commit, values=values)
        reason = _reason(session.report, known) if session.report else _last_line(session.output)
        return BisectionStep(commit=commit, reason=(reason or "the pairs have measured nothing")[:_LONGEST_REASON])

    def _session(self, commit: str, *options: str) -> Session:
        left = max(_LEAST_S, self.until - self.clock())
        against = [f"--hwperf-against={commit}", f"--hwperf-time-limit={left:.0f}", "--hwperf-explain=never"]
        against += ["-o", "hwperf_affected=false"]  # each step needs the values of pairs
        return self.run(
            ["-p", "no:cacheprovider", *self.arguments, *options, *against],
            directory=self.tree.folder,
            environment=self.tree.environment,
        )


def _reason(report: Report, known: KnownChange | None) -> str:
    """Return why a comparison could not be made; "" where nothing is said."""
    reasons = (
        one.reason
        for judgement in report.judgements
        for one in judgement.comparisons
        if known is None or (judgement.run.test == known.measurement.test and one.key == known.key[1:])
    )
    return next(filter(None, reasons), "")


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return visible(lines[-1].strip()) if lines else "pytest has said nothing"


_LARGEST = 64 * 2**20  # bytes
_AGAIN = "start again with --restart"
_DIGITS = 16


class BisectionState:
    """The file of one question; the same command finds it again."""

    def __init__(self, git_folder: Path, question: BisectionQuestion) -> None:
        digest = hashlib.sha256(to_json(question)).hexdigest()[:_DIGITS]
        self.question, self.path = question, git_folder / "hwperf-bisect" / f"{digest}.json"

    def read(self, history: History) -> Bisection | None:
        """Return what is known so far; None: nothing."""
        if not os.path.lexists(self.path):
            return None
        found = read_own(Bisection, self.path, _LARGEST, other=_AGAIN, older=_AGAIN)
        if found.question != self.question and replace(found.question, laid=self.question.laid) == self.question:
            raise UsageProblem(f"{self.path} is of a search with other content of your test files: {_AGAIN}")
        if found.question != self.question or any(step.commit not in history.reach for step in found.steps):
            raise UsageProblem(f"{self.path} is about other commits: {_AGAIN}")
        return found

    def keep(self, bisection: Bisection) -> None:
        """Replace the file atomically."""
        try:
            replace_file(self.path, to_json(bisection) + b"\n")
        except OSError as error:
            raise UsageProblem(f"{self.path} cannot be written ({error.strerror}): free it, then go on") from error

    def forget(self) -> None:
        """Remove the file: what it led to is known."""
        self.path.unlink(missing_ok=True)
