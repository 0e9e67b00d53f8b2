"""What a comparison of two revisions of a test suite is asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.core.evidence import Hypothesis
from pytest_hwperf.core.hypotheses import EnergySource, MeasuredTest
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.records import Comparison
from pytest_hwperf.core.units import show_change
from pytest_hwperf.gate.environments import Policy
from pytest_hwperf.gate.explaining import Explain
from pytest_hwperf.host.command_line import PytestCommand
from pytest_hwperf.pairs.conductor import Progress
from pytest_hwperf.trees.interpreter import Interpreter
from pytest_hwperf.trees.own_builds import Built


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What is compared with what, and how."""

    tests: Sequence[MeasuredTest]
    files: Sequence[Path]  # of these tests
    command: PytestCommand  # as this user started pytest
    against: Path | str  # a folder, or a git revision
    name: str  # of the baseline, as it is shown
    alpha: float  # false-alarm rate of the build
    time_s: float  # for all of it; what runs then is cut off
    silence_s: float = 60.0  # that a process may be silent in the rehearsal next to the other side
    logs: Path  # the logs of lost pairs are kept here
    energy: EnergySource | None = None  # by which energy can be compared
    share: Sequence[str] = ()  # globs of files that the baseline is given, "auto" and "none"
    build: Sequence[str] = ()  # commands that build the baseline's tree, as they have built the present one
    built: Built = field(default_factory=Built)  # what building the present tree took, and what is to be said of it
    base_python: Interpreter | None = None  # of the baseline, None for this one
    base_env: Policy = "auto"  # whether its project is built in an environment of its own
    base_with: Sequence[str] = ()  # requirements of packages that the baseline alone is given
    parallel: int = 1  # pairs side by side
    plant: float = 0.0  # share of work that is added to the candidate's calls, to see it found
    explain: Explain = "auto"  # whether regressions are explained, or every comparison, or none
    prove_equal: bool = False  # whether what is inconclusive is measured further, until it is equivalent
    affected: bool = False  # whether tests are left out that nothing reaches of what differs
    operators: bool = False  # whether both sides' operators are asked for, and not of regressions alone
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)  # one line that stays

    def tell(self, hypothesis: Hypothesis, comparison: Comparison) -> None:
        """Say what is decided while pairs go on."""
        what = metric_of(hypothesis.margin.metric).called(hypothesis.margin.statistic)
        change = show_change(comparison.change.value, comparison.scale) if comparison.change else ""
        self.say(f"{comparison.outcome}: {hypothesis.measurement.test}, {what} {change}")
