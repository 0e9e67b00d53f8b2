"""HTML reports of many tests: their size and the seconds that rendering takes, of builds that never ran.

    python -m benchmarks.html_report                      500 tests of 5 metrics, 12 pairs of 24 blocks
    python -m benchmarks.html_report --tests=5000 --out=large.html
    python -m benchmarks.html_report --tests=12 --out=small.html      small enough to read, and with every chart

The outcomes are made up: one test in ten got slower. Blocks are drawn from a seed; the comparisons are computed from
them as those of any build are.
"""

import argparse
import math
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from time import perf_counter

from pytest_hwperf.core.evidence import (
    Assignment,
    Evidence,
    Explanation,
    Gate,
    Hypothesis,
    Measurement,
    Observation,
    Pair,
)
from pytest_hwperf.core.history import series_of
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.movers import Mover, Operator, OperatorProfile
from pytest_hwperf.core.paired import compare_observations, pair_value
from pytest_hwperf.core.records import (
    Budget,
    Comparison,
    Estimate,
    Figure,
    Judgement,
    Machine,
    Margin,
    Policy,
    Run,
    Sample,
    StoredRun,
    replace,
)
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.roofline import PeakRate, Work, roofline_of
from pytest_hwperf.core.statements import state
from pytest_hwperf.core.verdicts import judge
from pytest_hwperf.reports.html import page

KEYS = (("latency", "p50"), ("latency", "p95"), ("throughput", "mean"), ("cpu_time", "mean"), ("memory", "p50"))
BASE = {"latency": 1.2e-3, "throughput": 800.0, "cpu_time": 1.1e-3, "memory": 64e6}
SCENARIOS = ("sklearn_fp32", "onnx_fp32", "onnx_int8", "torch_fp32")
PEAK = PeakRate(threads=1, flops_per_s=9e10, bytes_per_s=1.2e10)
SLOWER = 0.1  # share of the tests
SCREENED = 4  # pairs
WITH_OPERATORS = 8  # tests
STARTED = "2026-03-02T09:30:00+00:00"
MACHINE = Machine(
    cpu_model="AMD EPYC 7B13",
    architecture="x86_64",
    cores=4,
    memory_gb=17,
    system="Linux 6.8, glibc 2.39",
    python="CPython 3.12.4",
    libraries={"numpy": "2.1.0", "onnxruntime": "1.20.1"},
    threads={"OMP_NUM_THREADS": "1"},
)


def main() -> None:
    """Make one report and say what it took."""
    options = _options()
    report, history = report_of(options.tests, options.pairs, options.blocks, Random(options.seed))
    page.render(report_of(1, 1, 2, Random(0))[0])  # the library is packed and the template is compiled once
    begin = perf_counter()
    series = [one for runs in history.values() for one in series_of(runs)]
    content = page.render(
        report, history=lambda measured, _: ([one for one in series if (one.test, one.label) in measured], ())
    )
    seconds = perf_counter() - begin
    verdicts = sum(len(judgement.verdicts) for judgement in report.judgements)
    print(
        f"{options.tests} tests, {verdicts} verdicts, {options.pairs} pairs of {options.blocks} blocks: "
        f"{len(content) / 1e6:.1f} MB in {seconds:.1f} s"
    )
    if options.out:
        Path(options.out).write_bytes(content)
        print(f"wrote {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("tests", 500), ("pairs", 12), ("blocks", 24), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--out", help="where to write it")
    return parser.parse_args()


def report_of(
    tests: int, pairs: int, blocks: int, random: Random
) -> tuple[Report, dict[tuple[str, str], list[StoredRun]]]:
    """Return a report of so many tests, four scenarios of a model in a row, and the history of the first ones."""
    measurements = [_measurement(number) for number in range(tests)]
    truths = {one: random.uniform(0.04, 0.12) if random.random() < SLOWER else 0.0 for one in measurements}
    observed = [_pair(number, measurements, truths, blocks, random) for number in range(1, pairs + 1)]
    by_key: dict[object, list[Observation]] = {}
    for pair in observed:
        for one in pair.observations:
            by_key.setdefault(one.key, []).append(one)
    hypotheses = [_hypothesis(one, *key) for one in measurements for key in KEYS]
    compared = {one: _decided(one, by_key[one.key], len(hypotheses)) for one in hypotheses}
    judgements = [_judgement(number, measurements[number], compared, random) for number in range(tests)]
    gate = Gate(
        against="origin/main",
        revision="4f2c1e9d6b8a7c5e3f1d2b4a6c8e0f1a3b5c7d9e",
        seed=1,
        evidence=Evidence(alpha=0.01, hypotheses=tuple(hypotheses), pairs=tuple(observed)),
        shared={},
        seconds={"screen": 12.5},
        explanations=tuple(_explanations(compared)),
    )
    report = Report(
        machine=MACHINE,
        revision="9d6b8a7",
        started_at=STARTED,
        baseline="main",
        judgements=tuple(judgements),
        warnings=("the machine was 3 % slower at the end of the session than at its start",),
        gates=(gate,),
    )
    return report, {(one.run.test, one.run.label): [*_stored(one, random)] for one in judgements[:20]}


def _scenario(number: int) -> str:
    return SCENARIOS[number % len(SCENARIOS)]


def _measurement(number: int) -> Measurement:
    model = number // len(SCENARIOS)
    return Measurement(test=f"tests/models/test_model_{model}.py::test_classifier[{_scenario(number)}]", label="")


def _hypothesis(measurement: Measurement, metric: str, statistic: str) -> Hypothesis:
    size = next((one.size for one in METRICS[metric].margins if one.statistic == statistic), 0.02)
    margin = Margin(metric=metric, statistic=statistic, size=size)
    return Hypothesis(measurement=measurement, margin=margin, better=METRICS[metric].better)


def _pair(
    number: int, measurements: Sequence[Measurement], truths: dict[Measurement, float], blocks: int, random: Random
) -> Pair:
    turns = "".join(random.choice(("BCCB", "CBBC")) for _ in range(blocks // 2))
    found = [_observation(one, *key, truths[one], blocks, random) for one in measurements for key in KEYS]
    return Pair(
        number=number,
        stage="screen" if number <= SCREENED else "confirm",
        first=random.choice(("baseline", "candidate")),
        hash_seeds={"baseline": number, "candidate": number + 1},
        assignments=tuple(Assignment(measurement=one, turns=turns, processor=1) for one in measurements),
        observations=tuple(found),
    )


def _observation(
    measurement: Measurement, metric: str, statistic: str, change: float, blocks: int, random: Random
) -> Observation:
    sign = 1 if METRICS[metric].better == "lower" else -1
    centre = sign * math.log1p(change if metric != "memory" else 0.0) + random.gauss(0, 0.004)
    level = BASE[metric] * (1.2 if statistic == "p95" else 1.0)
    baseline = array("d", (level * math.exp(random.gauss(0, 0.01)) for _ in range(blocks)))
    candidate = array("d", (level * math.exp(centre + random.gauss(0, 0.01)) for _ in range(blocks)))
    found = Observation(
        measurement=measurement, metric=metric, statistic=statistic, baseline=baseline, candidate=candidate
    )
    preempted = random.choice((0.0, 0.0, 0.04, 0.25))
    return replace(found, change=pair_value(found), preempted=preempted)


def _decided(hypothesis: Hypothesis, observations: list[Observation], family: int) -> Comparison:
    fresh = observations[SCREENED:] or observations
    found = compare_observations(hypothesis, fresh, 0.01)
    return replace(found, promise=state("error rate", alpha=1.0, screened=family // 8, asked=family))


def _judgement(number: int, one: Measurement, compared: dict[Hypothesis, Comparison], random: Random) -> Judgement:
    latencies = array("d", (1.2e-3 * math.exp(random.gauss(0, 0.03)) for _ in range(200)))
    slower = 1 + number % 4
    run = Run(
        test=one.test,
        label="",
        scenario=_scenario(number),
        machine=MACHINE,
        revision="9d6b8a7",
        started_at=STARTED,
        samples=(Sample(metric="latency", values=latencies, per="call", source="perf_counter"),),
        conditions={"batch_size": "16", "load": "single_stream", "threads": "1"},
        context={},
        roofline=roofline_of(Work(flops=4e6 * slower, moved_bytes=2e5, nodes=4), 1.2e-3, PEAK, 1),
        operators=_operators() if number < WITH_OPERATORS else None,
    )
    figures = tuple(_figures(slower, random))
    budgets = [Budget(keyword="latency_p50_ms", metric="latency", statistic="p50", limit=random.choice((2e-3, 4.5e-3)))]
    of_this = [compared[_hypothesis(one, *key)] for key in KEYS]
    return Judgement(run=run, figures=figures, verdicts=judge(run, figures, of_this, budgets, Policy()))


def _figures(slower: int, random: Random) -> Iterator[Figure]:
    for metric, statistic, value in (
        ("latency", "p50", 1.2e-3 * slower),
        ("latency", "p95", 1.5e-3 * slower),
        ("accuracy", "mean", 0.9 + 0.01 * slower),
        ("memory", "p50", 64e6 / slower),
    ):
        low, high = value * (1 - 0.01 * random.random()), value * (1 + 0.01 * random.random())
        at = Estimate(value=value, low=low, high=high, confidence=0.98, n=200, method="order statistics")
        yield Figure(metric=metric, statistic=statistic, estimate=at, source="perf_counter", per="call")


def _operators() -> OperatorProfile:
    shares = (("FusedGemm", "dense_1", 0.6), ("Softmax", "softmax", 0.2), ("Relu", "relu_1", 0.1))
    return OperatorProfile(
        source="onnxruntime profile",
        calls=200,
        latency_s=1.2e-3,
        coverage=0.9,
        operators=tuple(
            Operator(name=name, kind=kind, calls=1, share=share, seconds=share * 1.2e-3) for kind, name, share in shares
        ),
    )


def _explanations(compared: dict[Hypothesis, Comparison]) -> Iterator[Explanation]:
    """Explain each slower median: one function has most of the change."""
    for hypothesis, found in compared.items():
        if found.outcome != "regressed" or hypothesis.margin.key != ("latency", "p50") or found.candidate is None:
            continue
        old, new = found.baseline or 0.0, found.candidate
        stacks = {
            "predict (model.py);tokenize (text.py)": 0.3,
            "predict (model.py);forward (net.py);relu (net.py)": 0.2,
        }
        before = {stack: (share * old,) * 3 for stack, share in stacks.items()}
        before["predict (model.py);forward (net.py);dense (net.py)"] = (0.5 * old,) * 3
        grown = 0.3 * old + new - old
        yield Explanation(
            measurement=hypothesis.measurement,
            metric="latency",
            statistic="p50",
            kind="function",
            baseline=old,
            candidate=new,
            movers=(_mover(0.3 * old, grown, new - old),),
            covered=0.91,
            repeats=3,
            method="stacks sampled every 0.5 ms",
            overhead=0.08,
            baseline_stacks=before,
            candidate_stacks={**before, "predict (model.py);tokenize (text.py)": (grown,) * 3},
        )


def _mover(old: float, new: float, change: float) -> Mover:
    return Mover(
        kind="function", name="tokenize", where="text.py:41", baseline=old, candidate=new, low=0.8 * change,
        high=change, share=0.91, baseline_calls=1, candidate_calls=3,
    )  # fmt: skip


def _stored(judgement: Judgement, random: Random) -> Iterator[StoredRun]:
    for day in range(1, 13):
        figures = tuple(
            replace(one, estimate=replace(one.estimate, value=value, low=value * 0.99, high=value * 1.01))
            for one in judgement.figures
            for value in [one.estimate.value * math.exp(random.gauss(0, 0.01))]
        )
        run = replace(judgement.run, started_at=f"2026-02-{day:02}T09:30:00+00:00", revision=f"{day:07x}", samples=())
        yield StoredRun(run=run, figures=figures)


if __name__ == "__main__":
    main()
