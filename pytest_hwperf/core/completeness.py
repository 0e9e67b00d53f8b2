"""How much of a build its pairs have decided, why nothing was, and how long they would have needed."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pytest_hwperf.core.evidence import Evidence, Hypothesis
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.records import Comparison, replace
from pytest_hwperf.core.screen import SCREEN_P, SCREEN_PAIRS
from pytest_hwperf.core.sequence import decide, looks
from pytest_hwperf.core.statements import Statement
from pytest_hwperf.core.units import counted, some_of

LONGEST_GATE_S = 24 * 3600  # that --hwperf-time-limit takes

_PAIR = 2.0  # what a pair takes, in rehearsals of the same tests: its warm-up and its turns are longer
_RESERVE = 1.25  # pairs differ, and one may have to be repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """What became of the measured tests of a build."""

    tests: int  # all of them
    compared: frozenset[str]  # node ids of those of which at least one statistic was compared
    unfinished: frozenset[str]  # of those about which the pairs ended before something was decided
    regressed: bool  # whether any statistic was found to be worse
    stopped: Statement | None  # why the pairs ended early
    untouched: frozenset[str] = frozenset()  # of those that nothing reaches of what has changed: no pair is needed
    unreached: frozenset[str] = frozenset()  # of the unfinished ones: in no group that was begun

    @property
    def decided(self) -> int:
        """Number of tests that were compared, and of which no early end left anything open."""
        return len(self.compared - self.unfinished)

    @property
    def is_empty(self) -> bool:
        """Whether no test was decided and none was found to be worse, so that passing would mean nothing."""
        return not self.decided and not self.regressed and not self.untouched

    @property
    def shortfall(self) -> str:
        """Say how many tests were decided, where the pairs ended before they all were; "" elsewhere."""
        if not self.unfinished:
            return ""
        tests, late = counted(self.tests, "test"), len(self.unfinished - self.unreached)
        names = some_of(sorted(map(visible, self.unreached)))
        parts = [f"{self.decided} of {tests} decided"]
        parts += [f"{late} not"] if late or not self.unreached else []
        parts += [f"{len(self.unreached)} not reached ({names})"] if self.unreached else []
        return f"{', '.join(parts)}: {self.stopped}"


def completeness(
    tests: Collection[str],
    evidence: Evidence,
    comparisons: Mapping[Hypothesis, Comparison],
    untouched: Collection[str] = (),
) -> Completeness:
    """Sort the tests of a build by what its pairs have decided."""
    compared = {one.measurement.test for one, found in comparisons.items() if found.outcome != "not comparable"}
    waiting = [one for one in evidence.hypotheses if one not in comparisons and one not in evidence.dropped]
    if evidence.stopped is not None:
        # Further pairs are for equivalence alone: whether something is slower had been answered before them.
        asked = decide(replace(evidence, until_equivalent=False)) if evidence.until_equivalent else comparisons
        waiting += [one for one, found in asked.items() if found.cause == evidence.stopped]
    return Completeness(
        tests=len(tests),
        compared=frozenset(compared),
        unfinished=frozenset(one.measurement.test for one in waiting),
        unreached=evidence.unreached_tests,
        regressed=any(found.outcome == "regressed" for found in comparisons.values()),
        stopped=evidence.stopped,
        untouched=frozenset(untouched),
    )


def seconds_needed(evidence: Evidence, seconds: Mapping[str, float], rehearsed_s: float) -> float:
    """Return about how long the build would take: its screen, and fresh pairs for what chance lets look slower.

    A pair takes as long as those of the screen took or, where there was none, twice a rehearsal.
    """
    apart = [any(one.apart for one in pair.observations) for pair in evidence.pairs if pair.stage == "screen"]
    screened = max(apart.count(False), apart.count(True))  # tests that cannot bear both sides have pairs of their own
    a_pair = seconds["screen"] / screened if screened else _PAIR * rehearsed_s
    before = sum(seconds.get(stage, 0.0) for stage in ("checkout", "rehearsal", "processes"))
    return before + _pairs_needed(len(evidence.hypotheses), len(evidence.fixed_samples), evidence.alpha) * a_pair


def seconds_needed_from_rehearsal(
    tests: int, rehearsed: int, alpha: float, seconds: Mapping[str, float], pair_s: float, start_s: float | None
) -> float:
    """Return the same of a build whose rehearsal was cut off: at least that, where no test was reached."""
    whole, before = pair_s, seconds.get("checkout", 0.0) + seconds["rehearsal"] - pair_s
    if start_s is not None:
        whole = start_s + (pair_s - start_s) * max(1.0, tests / (rehearsed + 1))
    return before + whole * (1 + _PAIR * _pairs_needed(tests, 0, alpha))


def _pairs_needed(hypotheses: int, fixed_samples: int, alpha: float) -> float:
    """Return how many pairs of all tests a build takes, with a reserve; a pair of some of them counts as a part."""
    asked = max(1, hypotheses)
    suspects = 1 + math.floor(SCREEN_P * asked)
    confirming = looks(suspects + fixed_samples, alpha)[-1] * suspects / asked
    return _RESERVE * (SCREEN_PAIRS + confirming)


def more_time(limit_s: float, seconds: float, *, least: bool = False) -> str:
    """Say how long a build takes that has exceeded its limit, and what to type."""
    needed = rounded_up(max(seconds, limit_s + 1))
    option = f"Give --hwperf-time-limit={needed}, or select" if needed <= LONGEST_GATE_S else "Select"
    return f"{'at least' if least else 'about'} {needed} s are needed. {option} fewer tests with -k"


def rounded_up(seconds: float) -> int:
    """Return whole seconds, rounded up to two digits: 1260 becomes 1300."""
    whole = max(1, math.ceil(seconds))
    step = int(10 ** max(0, len(str(whole)) - 2))
    return math.ceil(whole / step) * step
