"""Simulate whole builds: how often one of fifty tests alarms where nothing changed, and whether a slow one is found.

Every build goes the way of a live one: `next_step` says what the next pairs measure, `decide` what they have shown.
What is simulated is one log ratio a pair. The coin decides which side is first, so that whatever a pair's two places
differ by comes with a random sign.

    python -m benchmarks builds [BUILDS] [shards|prove|beside|parent]

Half an hour on one core; a smaller number is quicker. With a second word only builds in shards are simulated, those
whose pairs go on until tests are equivalent, those of pairs side by side, or those of pairs with one parent whose
turns end early.
"""

import argparse
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from benchmarks.projects import RECORDING
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Observation, Pair, Stage
from pytest_hwperf.records.report import shard_of
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.figures.exact import share_interval
from pytest_hwperf.stats.figures.ranks import signed_rank_p
from pytest_hwperf.stats.pairs.paired import MOST_PAIRS
from pytest_hwperf.stats.pairs.sequence import FIRST_PAIRS, SCREEN_PAIRS, decide, next_step
from pytest_hwperf.stats.pairs.timetable import FINE, PAIR_PLAN

BUILDS, TESTS, MOST = 2000, 50, 40  # pairs that a build of fifty tests can take at most
SHARDS = 4
BURSTS = 0.1  # share of the values
ONE_IN_TWO = 0.5
ONCE = array("d", [1.0])
interval = partial(share_interval, confidence=0.99)  # Clopper-Pearson

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Draw = Callable[[np.random.Generator, tuple[int, int]], Values]  # log ratios: shape test, pair


def coins(rng: np.random.Generator, shape: tuple[int, int]) -> Values:
    """Toss +1 or -1."""
    return np.asarray(rng.integers(0, 2, size=shape) * 2.0 - 1)


def drift(rng: np.random.Generator, pairs: int, turns: int) -> Values:
    """Return what the machine's load adds to each turn of each pair: AR(1) over the whole build."""
    steps = rng.normal(0, 0.02, size=pairs * turns)
    for i in range(1, len(steps)):
        steps[i] += 0.95 * steps[i - 1]
    return steps.reshape(pairs, turns)


@lru_cache
def recorded(arm: str) -> Values:
    """Return the pair values of an arm against A: shape workload, round."""
    with np.load(RECORDING, allow_pickle=False) as recording:
        medians = np.log(np.median(recording["duet_ns"], axis=-1))
        arms = list(recording["arms"])
    return np.asarray(np.median(medians[:, :, arms.index(arm)] - medians[:, :, arms.index("A")], axis=-1).T)


def resampled(rng: np.random.Generator, shape: tuple[int, int], arm: str, workload: int) -> Values:
    """Draw pair values of the recording with replacement."""
    return np.asarray(rng.choice(recorded(arm)[workload], size=shape))


def bursts(rng: np.random.Generator, shape: tuple[int, int]) -> Values:
    """Hit about every tenth value with a burst of a neighbour, on one side or the other."""
    hit = rng.random(shape) < BURSTS
    return np.asarray(rng.normal(0, 0.005, shape) + hit * coins(rng, shape) * rng.exponential(0.3, shape))


def beside(rng: np.random.Generator, shape: tuple[int, int], pairs: int = 2) -> Values:
    """Let so many pairs run side by side: they share what disturbs all of their tests, and each disturbs the next.

    How far both places of a pair differ is theirs in common; and half of it more or less, as the coin of the neighbour
    fell. The coin of the pair itself says which side was in which place.
    """
    rounds = math.ceil(shape[1] / pairs)
    shared = np.repeat(rng.exponential(0.02, (1, rounds)), pairs, axis=1)[:, : shape[1]]
    own = coins(rng, shape)
    return np.asarray(rng.normal(0, 0.005, shape) + own * shared * (1 + 0.5 * np.roll(own, 1, axis=1)))


def of_one_parent(rng: np.random.Generator, shape: tuple[int, int], margin: float) -> Values:
    """Fork both sides from one parent and let their turns end where the blocks agree, as `BlockPlan.is_enough` does.

    The two children differ by 0.5 % on average, one always in the same direction: the coin says which side is which.
    What is common to both cancels. Every tenth block is hit by a burst, of either child, that lasts for all the blocks
    after it in half of the cases.
    """
    blocks = 2 * FINE
    hit = (rng.random((*shape, blocks)) < BURSTS) * rng.normal(0, 0.1, (*shape, blocks))
    lasting = np.cumsum(hit, axis=2) * (rng.random((*shape, 1)) < ONE_IN_TWO)
    own = 0.001 + rng.exponential(0.004, shape)
    ratios = rng.standard_t(3, (*shape, blocks)) * 0.006 + hit + lasting + own[:, :, None]
    return np.asarray(coins(rng, shape) * ended_early(ratios, margin))


def ended_early(ratios: Values, margin: float) -> Values:
    """Return the value of each pair from the ratios of its blocks, of which it takes no more than it needs."""
    found = np.median(ratios, axis=2)
    for count in range(ratios.shape[2] - 2, 2 * PAIR_PLAN.least - 1, -2):
        spread = np.std(ratios[:, :, :count], axis=2, ddof=1)
        is_enough = spread <= PAIR_PLAN.agree * math.log1p(margin) * math.sqrt(count)
        found = np.where(is_enough & (margin > 0), np.median(ratios[:, :, :count], axis=2), found)
    return np.asarray(found)


def drifting(rng: np.random.Generator, shape: tuple[int, int]) -> Values:
    """One side has the first turn of a pair and the other the second: the drift between them stays, for all tests."""
    first, second = drift(rng, shape[1], 2).T
    return np.asarray(rng.normal(0, 0.005, shape) + coins(rng, (1, shape[1])) * (second - first))


def drifting_abba(rng: np.random.Generator, shape: tuple[int, int]) -> Values:
    """Turns as ABBA or BAAB: a steady drift cancels, its bends stay."""
    one, two, three, four = drift(rng, shape[1], 4).T
    return np.asarray(rng.normal(0, 0.005, shape) + coins(rng, (1, shape[1])) * (two + three - one - four) / 2)


NOISES: dict[str, Draw] = {
    "normal, sd 1 %": lambda rng, shape: rng.normal(0, 0.01, shape),
    "t with 2 df": lambda rng, shape: 0.005 * rng.standard_t(2, shape),
    "bursts in every tenth pair": bursts,
    "bimodal, +-2 %": lambda rng, shape: 0.02 * coins(rng, shape) + rng.normal(0, 0.003, shape),
    "AR(1) drift, turns AB": drifting,
    "AR(1) drift, turns ABBA": drifting_abba,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What one build said."""

    regressed: frozenset[int]  # numbers of the tests
    equivalent: frozenset[int]
    values: int  # pair values that it took, over all tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Haste:
    """How a build is cut where the time is short."""

    group: int = 0  # tests that are screened and confirmed together; 0: all of them
    prove_equal: bool = False  # whether pairs go on until what is undecided is equivalent


def build(values: Values, margin: float, alpha: float, haste: Haste | None = None) -> Built:
    """Run one build whose pair n gives test t the log ratio `values[t, n]`."""
    haste = haste or Haste()
    hypotheses = [
        Hypothesis(
            measurement=Measurement(test=str(number), label=""),
            margin=Margin(metric="latency", statistic="p50", size=margin),
            better="lower",
        )
        for number in range(len(values))
    ]
    ratios = np.exp(values)
    evidence, taken = Evidence(alpha=alpha, hypotheses=tuple(hypotheses), pairs=()), 0
    evidence = replace(
        evidence,
        groups=(haste.group,) * bool(haste.group),
        until_equivalent=haste.prove_equal,
    )
    while True:
        step = next_step(evidence)
        if step.stage is None and not evidence.unreached:
            break
        if step.stage is None:
            evidence = replace(evidence, groups=(*evidence.groups, min(haste.group, len(evidence.unreached))))
            continue
        done, pairs = len(evidence.pairs), min(step.pairs, FIRST_PAIRS) if step.stage == "screen" else step.pairs
        more = [_pair(done + i, step.stage, step.measurements, ratios) for i in range(pairs)]
        evidence = replace(evidence, pairs=(*evidence.pairs, *more))
        taken += pairs * len(step.measurements)
    found = decide(evidence)
    outcomes = [found[hypothesis].outcome for hypothesis in hypotheses]
    return Built(
        regressed=frozenset(number for number, outcome in enumerate(outcomes) if outcome == "regressed"),
        equivalent=frozenset(number for number, outcome in enumerate(outcomes) if outcome == "equivalent"),
        values=taken,
    )


def _pair(number: int, stage: Stage, measurements: Sequence[Measurement], ratios: Values) -> Pair:
    observations = tuple(
        Observation(
            measurement=one,
            metric="latency",
            statistic="p50",
            baseline=ONCE,
            candidate=array("d", [ratios[int(one.test), number]]),
        )
        for one in measurements
    )
    return Pair(
        number=number + 1, stage=stage, first="baseline", hash_seeds={}, assignments=(), observations=observations
    )


def false_alarms(
    draw: Draw, builds: int, *, change: float, margin: float, alpha: float, haste: Haste | None = None
) -> int:
    """Count builds in which a test regressed though none is slower than its margin."""
    rng = np.random.default_rng(1)
    return sum(
        bool(build(math.log1p(change) + draw(rng, (TESTS, most_pairs(haste))), margin, alpha, haste).regressed)
        for _ in range(builds)
    )


def sharded(values: Values, shards: int, margin: float, alpha: float) -> frozenset[int]:
    """Run one build in shards, each with its part of alpha; return the tests that regressed in any of them."""
    found = set[int]()
    for number in range(1, shards + 1):
        own = [test for test in range(len(values)) if shard_of(f"test_model.py::test_{test}", shards) == number]
        found |= {own[place] for place in build(values[own], margin, alpha / shards).regressed} if own else set()
    return frozenset(found)


def shard_alarms(draw: Draw, builds: int, *, change: float, margin: float, alpha: float, seed: int = 2) -> int:
    """Count builds of four shards, each on a machine of its own, in which a test regressed falsely."""
    rng, count = np.random.default_rng(seed), 0
    for _ in range(builds):
        values = np.empty((TESTS, MOST + 8))  # a smaller rate takes more pairs
        for number in range(1, SHARDS + 1):
            own = [test for test in range(TESTS) if shard_of(f"test_model.py::test_{test}", SHARDS) == number]
            values[own] = draw(rng, (len(own), MOST + 8))
        count += bool(sharded(math.log1p(change) + values, SHARDS, margin, alpha))
    return count


def planted_in_shards(workload: int, builds: int, *, seed: int = 2) -> tuple[int, int]:
    """Plant +5 % in one of fifty tests in four shards: builds that find it, and that alarm falsely."""
    rng, found, false = np.random.default_rng(seed), 0, 0
    for _ in range(builds):
        values = resampled(rng, (TESTS, MOST + 8), "A_prime", workload)
        values[0] = resampled(rng, (1, MOST + 8), "B_5pct", workload)
        regressed = sharded(values, SHARDS, 0.02, 0.01)
        found += 0 in regressed
        false += bool(regressed - {0})
    return found, false


def most_pairs(haste: Haste | None) -> int:
    """Return how many pairs a build can take at most: each group has pairs of its own."""
    most = SCREEN_PAIRS + 2 * MOST_PAIRS if haste and haste.prove_equal else MOST
    return most * (TESTS // haste.group if haste and haste.group else 1)


def planted(workload: int, builds: int, *, margin: float = 0.02, alpha: float = 0.01, seed: int = 1) -> tuple[int, ...]:
    """Plant +5 % in one of fifty tests with recorded noise: builds that find it, that alarm falsely, values taken."""
    rng, found, false, taken = np.random.default_rng(seed), 0, 0, 0
    for _ in range(builds):
        values = resampled(rng, (TESTS, MOST), "A_prime", workload)
        values[0] = resampled(rng, (1, MOST), "B_5pct", workload)
        built = build(values, margin, alpha)
        found += 0 in built.regressed
        false += bool(built.regressed - {0})
        taken += built.values
    return found, false, taken


def peeking(draw: Draw, runs: int, *, level: float = 0.05, seed: int = 1) -> int:
    """Count single tests that alarm when looked at after every pair from the fifth to the twentieth."""
    values = draw(np.random.default_rng(seed), (runs, 20)).tolist()
    return sum(any(signed_rank_p(row[:n]) <= level for n in range(5, 21)) for row in values)


def each_for_itself(draw: Draw, builds: int, *, pairs: int = 12, level: float = 0.05, seed: int = 1) -> int:
    """Count builds in which a test alarms when each of fifty is tested at its own level."""
    rng = np.random.default_rng(seed)
    return sum(any(signed_rank_p(row) <= level for row in draw(rng, (TESTS, pairs)).tolist()) for _ in range(builds))


def share(found: int, of: int) -> str:
    """Write `12 of 2000  0.60 % [0.24, 1.21]`."""
    low, high = interval(found, of)
    return f"{found:5} of {of} {100 * found / of:6.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def alarm_table(builds: int) -> Iterator[str]:
    """Yield false alarms per build by noise."""
    for title, change, margin, alpha in (
        ("equal code, margin 2 %, alpha 1 %", 0.0, 0.02, 0.01),
        ("equal code, margin 0, alpha 5 %", 0.0, 0.0, 0.05),
        ("all fifty on their margin of 2 %, alpha 1 %", 0.02, 0.02, 0.01),
    ):
        yield title
        for name, draw in NOISES.items():
            yield f"{name:28}{share(false_alarms(draw, builds, change=change, margin=margin, alpha=alpha), builds)}"


def haste_table(builds: int) -> Iterator[str]:
    """Yield false alarms per build in groups."""
    for title, change in (
        ("equal code, margin 2 %, alpha 1 %", 0.0),
        ("all fifty on their margin of 2 %, alpha 1 %", 0.02),
    ):
        yield f"{title}, groups of ten"
        for name in ("normal, sd 1 %", "bursts in every tenth pair", "bimodal, +-2 %"):
            alarms = false_alarms(NOISES[name], builds, change=change, margin=0.02, alpha=0.01, haste=Haste(group=10))
            yield f"{name:28}{share(alarms, builds)}"
    yield "equal code, margin 0, alpha 5 %, groups of ten"
    for name in ("normal, sd 1 %", "bursts in every tenth pair", "bimodal, +-2 %"):
        alarms = false_alarms(NOISES[name], builds, change=0.0, margin=0.0, alpha=0.05, haste=Haste(group=10))
        yield f"{name:28}{share(alarms, builds)}"


def beside_table(builds: int) -> Iterator[str]:
    """Yield false alarms per build of pairs that disturb each other."""
    for title, change, margin, alpha in (
        ("two pairs side by side: equal code, margin 2 %, alpha 1 %", 0.0, 0.02, 0.01),
        ("two pairs side by side: equal code, margin 0, alpha 5 %", 0.0, 0.0, 0.05),
        ("two pairs side by side: all fifty on their margin of 2 %, alpha 1 %", 0.02, 0.02, 0.01),
    ):
        yield title
        alarms = false_alarms(beside, builds, change=change, margin=margin, alpha=alpha)
        yield f"{'noise of both neighbours':28}{share(alarms, builds)}"


def parent_table(builds: int) -> Iterator[str]:
    """Yield false alarms per build of pairs with one parent whose turns end early."""
    for title, change, margin, alpha in (
        ("one parent a pair, turns that end early: equal code, margin 2 %, alpha 1 %", 0.0, 0.02, 0.01),
        ("one parent a pair, all turns: equal code, margin 0, alpha 5 %", 0.0, 0.0, 0.05),
        ("one parent a pair, turns that end early: all fifty on their margin of 2 %, alpha 1 %", 0.02, 0.02, 0.01),
        ("one parent a pair, turns that end early: all fifty on their margin of 5 %, alpha 1 %", 0.05, 0.05, 0.01),
    ):
        yield title
        draw = partial(of_one_parent, margin=margin)
        alarms = false_alarms(draw, builds, change=change, margin=margin, alpha=alpha)
        yield f"{'bursts that last':28}{share(alarms, builds)}"


def power_table(builds: int) -> Iterator[str]:
    """Yield how often +5 % in one of fifty tests is found."""
    yield "one of fifty at +5 %, recorded noise, margin 2 %, alpha 1 %"
    for workload, name in enumerate(("np", "ort")):
        found, false, taken = planted(workload, builds)
        yield f"{name:4} found      {share(found, builds)}, {taken / builds:.0f} pair values a build"
        yield f"     also false {share(false, builds)}"


def proof_table(builds: int, tests: int = 3) -> Iterator[str]:
    """Yield false alarms, and what is called equivalent, where pairs go on until it is."""
    haste = Haste(prove_equal=True)
    for title, change in (("equal code", 0.0), ("all three on their margin", 0.02)):
        yield f"--hwperf-prove-equal: {title}, margin 2 %, alpha 1 %"
        for name in ("normal, sd 1 %", "bursts in every tenth pair", "bimodal, +-2 %"):
            rng, alarms, equal = np.random.default_rng(3), 0, 0
            for _ in range(builds):
                values = math.log1p(change) + NOISES[name](rng, (tests, most_pairs(haste)))
                built = build(values, 0.02, 0.01, haste)
                alarms += bool(built.regressed)
                equal += len(built.equivalent)
            yield f"{name:28}{share(alarms, builds)}; {100 * equal / tests / builds:5.1f} % of the tests equivalent"


def shard_table(builds: int) -> Iterator[str]:
    """Yield the same of builds that four machines share."""
    for title, change, margin, alpha in (
        ("four shards: equal code, margin 2 %, alpha 1 %", 0.0, 0.02, 0.01),
        ("four shards: equal code, margin 0, alpha 5 %", 0.0, 0.0, 0.05),
        ("four shards: all fifty on their margin of 2 %, alpha 1 %", 0.02, 0.02, 0.01),
    ):
        yield title
        for name in ("normal, sd 1 %", "bursts in every tenth pair", "AR(1) drift, turns ABBA"):
            alarms = shard_alarms(NOISES[name], builds, change=change, margin=margin, alpha=alpha)
            yield f"{name:28}{share(alarms, builds)}"
    yield "four shards: one of fifty at +5 %, recorded noise, margin 2 %, alpha 1 %"
    for workload, name in enumerate(("np", "ort")):
        found, false = planted_in_shards(workload, builds)
        yield f"{name:4} found      {share(found, builds)}"
        yield f"     also false {share(false, builds)}"


def naive_table(builds: int) -> Iterator[str]:
    """Yield what happens without the rules."""
    draw, runs = NOISES["normal, sd 1 %"], 10 * builds
    yield "without the rules, normal noise, equal code"
    yield f"one test, looked at after every pair 5..20 at 5 %   {share(peeking(draw, runs), runs)}"
    yield f"fifty tests, 12 pairs, each at 5 % for itself       {share(each_for_itself(draw, builds), builds)}"


ALONE = {"shards": shard_table, "prove": proof_table, "beside": beside_table, "parent": parent_table}


def main() -> None:
    """Print the tables, with 99 % Clopper-Pearson intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="?", type=int, default=BUILDS, help=f"of each row (default: {BUILDS})")
    parser.add_argument("alone", nargs="?", choices=ALONE, help="one table alone")
    asked = parser.parse_args()
    tables = (naive_table, power_table, alarm_table, shard_table, haste_table, proof_table, beside_table, parent_table)
    for table in (ALONE[asked.alone],) if asked.alone else tables:
        for line in table(asked.builds):
            print(line, flush=True)
