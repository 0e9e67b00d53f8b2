"""The steps of `hwperf bisect`: sessions of pytest that compare BAD with another commit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from pytest_hwperf.cli.pytest_session import Session, run_pytest
from pytest_hwperf.core.bisection import BisectionStep, KnownChange, pair_values
from pytest_hwperf.core.budgets import DEFAULT_MARGINS
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Evidence
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.report import Report
from pytest_hwperf.gate.bisection import BadTree

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
