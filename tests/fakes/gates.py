"""Builds that never ran: evidence drawn from a seed, with everything that a real one would keep."""

import math
from array import array
from collections.abc import Iterable
from random import Random

from fakes import records as fake

from pytest_hwperf.records.evidence import (
    Assignment,
    Evidence,
    FixedSample,
    Gate,
    Hypothesis,
    Measurement,
    Observation,
    Pair,
    Stage,
)
from pytest_hwperf.records.metrics import METRICS, Better, Scale
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Budget, Judgement, Margin, Policy
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.pairs.paired import pair_value
from pytest_hwperf.stats.pairs.sequence import decide, next_step
from pytest_hwperf.stats.verdicts import judge

LATENCY = Margin(metric="latency", statistic="p50", size=0.02)
ACCURACY = Margin(metric="accuracy", statistic="mean", size=0.0, scale="absolute")
MEMORY = Margin(metric="memory", statistic="p50", size=0.01, floor=1e6)
_BLOCKS = 12


def hypothesis(
    number: int, margin: Margin = LATENCY, better: Better | None = None, *, folder: str = "tests"
) -> Hypothesis:
    measurement = Measurement(test=f"{folder}/test_models.py::test_{number}", label="")
    return Hypothesis(measurement=measurement, margin=margin, better=better or METRICS[margin.metric].better)


def asked(  # noqa: PLR0913 - a question has as many independent facts
    metric: str = "latency",
    size: float = 0.02,
    *,
    test: str = "a",
    better: Better = "lower",
    floor: float = 0.0,
    statistic: str = "p50",
    scale: Scale = "relative",
) -> Hypothesis:
    """A question about one test, by its metric and margin."""
    margin = Margin(metric=metric, statistic=statistic, size=size, floor=floor, scale=scale)
    return Hypothesis(measurement=Measurement(test=test, label=""), margin=margin, better=better)


def observed(
    one: Hypothesis, baseline: Iterable[float], candidate: Iterable[float], *, preempted: float | None = None
) -> Observation:
    """What a pair has observed of it."""
    return Observation(
        measurement=one.measurement,
        metric=one.margin.metric,
        statistic=one.margin.statistic,
        baseline=array("d", baseline),
        candidate=array("d", candidate),
        preempted=preempted,
    )


def pair(stage: Stage, observations: Iterable[Observation], number: int = 1) -> Pair:
    return Pair(
        number=number, stage=stage, first="baseline", hash_seeds={}, assignments=(), observations=tuple(observations)
    )


def observation(one: Hypothesis, change: float, random: Random, spread: float = 0.006) -> Observation:
    """Blocks around 1 ms whose pair value lies near `change`; pairs differ by `spread`, blocks by some more."""
    centre = math.log1p(change) + random.gauss(0, spread)
    baseline = array("d", (1e-3 * math.exp(random.gauss(0, 0.01)) for _ in range(_BLOCKS)))
    candidate = array("d", (value * math.exp(centre + random.gauss(0, 1.6 * spread)) for value in baseline))
    found = observed(one, baseline, candidate, preempted=random.random())
    return replace(found, change=pair_value(found))


def build(
    changes: list[float],
    random: Random,
    fixed_samples: tuple[FixedSample, ...] = (),
    *,
    alpha: float = 0.01,
    spread: float = 0.006,
    folder: str = "tests",
) -> Evidence:
    """Run the pairs that the sequence asks for, of tests that changed by `changes`."""
    truths = {hypothesis(number, folder=folder): change for number, change in enumerate(changes)}
    evidence = Evidence(alpha=alpha, hypotheses=tuple(truths), pairs=(), fixed_samples=fixed_samples)
    while (step := next_step(evidence)).stage is not None:
        asked = [one for one in truths if one.measurement in step.measurements]
        evidence = replace(
            evidence, pairs=(*evidence.pairs, _pair(len(evidence.pairs) + 1, step.stage, asked, truths, random, spread))
        )
    return evidence


def report(seed: int) -> Report:
    """A session of four tests, of which one may have got slower, with memory and accuracy beside the latency."""
    random = Random(seed)
    changes = [0.0, 0.0, random.choice([0.0, 0.05]), random.uniform(-0.05, 0.05)]
    evidence = build(changes, random, (_memory_sample(0, random), _labelled(1, random)))
    settled = decide(evidence)
    judgements = []
    for number in range(len(changes)):
        run = fake.run(test=hypothesis(number).measurement.test)
        compared = [found for one, found in settled.items() if one.measurement.test == run.test]
        budgets = [Budget(keyword="latency_p50_ms", metric="latency", statistic="p50", limit=0.0062)]
        found = figures(run)
        verdicts = judge(run, found, compared, budgets, Policy())
        judgements.append(Judgement(run=run, figures=found, verdicts=verdicts))
    gate = Gate(
        against="origin/main", revision="4f2c1e9", seed=seed, evidence=evidence, shared={}, seconds={"screen": 9.5}
    )
    return replace(fake.empty_report(), judgements=tuple(judgements), gates=(gate,))


def _pair(
    number: int, stage: Stage, asked: list[Hypothesis], truths: dict[Hypothesis, float], random: Random, spread: float
) -> Pair:
    return Pair(
        number=number,
        stage=stage,
        first=random.choice(("baseline", "candidate")),
        hash_seeds={"baseline": random.randrange(2**32), "candidate": random.randrange(2**32)},
        assignments=tuple(
            Assignment(measurement=one.measurement, turns=random.choice(("BCCB", "CBBC"))) for one in asked
        ),
        observations=tuple(observation(one, truths[one], random, spread) for one in asked),
    )


def _memory_sample(number: int, random: Random) -> FixedSample:
    values = [array("d", (64e6 + random.choice((0, 4096, 8192)) for _ in range(10))) for _ in range(2)]
    return FixedSample(
        hypothesis=hypothesis(number, MEMORY), per="fresh process", baseline=values[0], candidate=values[1]
    )


def _labelled(number: int, random: Random) -> FixedSample:
    baseline = array("d", (float(random.random() < 0.9) for _ in range(400)))
    candidate = array("d", (value if random.random() < 0.97 else 1 - value for value in baseline))
    return FixedSample(hypothesis=hypothesis(number, ACCURACY), per="example", baseline=baseline, candidate=candidate)
