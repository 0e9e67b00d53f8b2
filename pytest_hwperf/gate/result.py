"""How far a gate is, what it has found, and the line that sums it up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pytest_hwperf.records.evidence import Gate, Measurement, Stage
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import baseline_code
from pytest_hwperf.stats.causes.changed_code import Xfails, is_expected
from pytest_hwperf.stats.pairs.hypotheses import PairedAnswers
from pytest_hwperf.stats.pairs.timetable import Completeness


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the pairs are, or what is done beside them."""

    stage: Stage | Literal["checkout", "failures", "processes", "operators", "explain"]
    pair: int  # of this stage, from 1; of what is explained and the like, its number
    beside: int = 0  # pairs that run at the same time, which have the numbers after it
    of: int  # pairs until the next decision
    test: str  # being measured, "" between tests
    decided: int = 0  # tests
    tests: int = 0
    left_s: float | None = None  # until the next decision, from the pairs so far; None: not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What the pairs found."""

    gate: Gate
    answers: PairedAnswers
    changed: frozenset[Path]  # test files whose own work the pairs cannot compare
    completeness: Completeness
    gone: frozenset[Measurement]  # that only the baseline makes; of a test that is skipped now without a label
    xfails: Mapping[Path, Xfails] = field(default_factory=dict)  # test file or conftest → what has an `xfail`

    @property
    def is_interrupted(self) -> bool:
        """Whether the pairs ended by Ctrl-C or the like; what they had decided before counts."""
        stopped = self.gate.evidence.stopped
        return stopped is not None and stopped.kind == "interrupted"

    def has_new_xfail(self, path: Path, test: str) -> bool:
        """Whether the candidate has added an `xfail` around a test, named as in its node id after the file.

        One that no file of the baseline shows is new too, whatever adds it.
        """
        own = self.xfails.get(path, Xfails())
        near = [self.xfails.get(folder / "conftest.py", Xfails()) for folder in path.parents]
        is_old = is_expected(test, own.kept) or any(one.kept for one in near)
        return not is_old or is_expected(test, own.added) or any(one.added for one in near)

    def is_blind_to(self, path: Path) -> bool:
        """Whether a test of this file, or what its conftest files give it, may have changed unseen."""
        return path in self.changed or any(folder / "conftest.py" in self.changed for folder in path.parents)


def summary(result: GateResult, tests: int, present: str) -> str:
    """Say in one line what was rerun, how often and how long, and how many of `tests` could be compared."""
    gate, complete = result.gate, result.completeness
    stages = ("screen", "confirm", "equivalence")
    counts = {stage: sum(pair.stage == stage for pair in gate.evidence.pairs) for stage in stages}
    pairs = " + ".join(f"{count} {stage}" for stage, count in counts.items() if count) or "no"
    noun = ("pair" if sum(counts.values()) == 1 else "pairs") + gate.beside
    spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in gate.seconds.items())
    decided = f" ({complete.shortfall})" if complete.shortfall else ""
    left_out = f", {len(complete.untouched)} left out since {state('untouched')}" if complete.untouched else ""
    return (
        f"{present} against {baseline_code(gate)}: {pairs} {noun} of fresh processes, "
        f"{len(complete.compared)} of {tests} tests compared{decided}{left_out}: {spent}"
        + (f"; {gate.imports}" if gate.imports else "")
    )
