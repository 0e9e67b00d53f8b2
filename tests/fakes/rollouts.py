"""Versions of a model and how they compare, for decisions that nothing was measured for."""

from fakes import records as fake

from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import Estimate, Figure
from pytest_hwperf.records.verdict import Budget, Comparison, ComparisonOutcome, Margin
from pytest_hwperf.stats.choice.rollout import Contender, Requests, decide, requirements_of
from pytest_hwperf.stats.choice.rollout_plan import RolloutFile, Rows, VersionRecord, plan_of
from pytest_hwperf.stats.figures.exact import compare_accuracy

ACCURACY = ("accuracy", "mean")
SHA = {"old.onnx": "1" * 64, "new.onnx": "2" * 64}


def limit(keyword: str, metric: str, statistic: str, value: float) -> Budget:
    return Budget(keyword=keyword, metric=metric, statistic=statistic, limit=value)


def figure(metric: str, statistic: str, value: float, low: float | None, high: float | None, n: int = 14) -> Figure:
    return fake.figure(metric, statistic, fake.estimate(value, low, high, n), per="pair")


def version(target: str, p95_ms: float, right: float = 0.98, requests: Requests | None = None) -> Contender:
    """Return a version whose p95 is known within 2 % and whose accuracy within 1.2 points."""
    return Contender(
        target=target,
        kind="ONNX file" if requests is None else "address",
        sha256=SHA.get(target, ""),
        size=1.5e6 if requests is None else None,
        figures=(
            figure("latency", "p50", p95_ms / 1.2e3, p95_ms / 1.25e3, p95_ms / 1.15e3),
            figure("latency", "p95", p95_ms / 1e3, p95_ms * 0.98 / 1e3, p95_ms * 1.02 / 1e3),
            figure("accuracy", "mean", right, right - 0.012, right + 0.008, 540),
        ),
        requests=requests,
    )


def latency(
    outcome: ComparisonOutcome,
    value: float = 0.0,
    low: float | None = -0.01,
    high: float | None = 0.01,
    pairs: int = 8,
    metric: str = "latency",
) -> Comparison:
    change = Estimate(value=value, low=low, high=high, confidence=0.99, n=pairs, method="Walsh averages")
    return Comparison(
        metric=metric, statistic="p50", outcome=outcome, change=change, scale="relative", margin=0.02, pairs=pairs,
        baseline=0.001, method=state("signed-rank", pairs=pairs),
    )  # fmt: skip


def accuracy(n: int, lost: int, won: int = 0, margin: float = 0.0, alpha: float = 0.005) -> Comparison:
    """Compare n examples of which the new version gets `lost` wrong that were right, and `won` right that were not."""
    rest = [1.0] * (n - lost - won)
    old, new = [1.0] * lost + [0.0] * won + rest, [0.0] * lost + [1.0] * won + rest
    asked = Margin(metric="accuracy", statistic="mean", size=margin, scale="absolute")
    return compare_accuracy(old, new, asked, alpha)


def file(
    old: Contender, new: Contender, comparisons: tuple[Comparison, ...], budgets: tuple[Budget, ...] = ()
) -> RolloutFile:
    """Return what `hwperf compare` makes of two versions."""
    requirements = requirements_of(new, budgets)
    decision = decide(comparisons, requirements, old, new)
    record = VersionRecord(
        decided_at=fake.STARTED,
        decision=decision,
        old=old,
        new=new,
        rows=Rows(file="rows.npz", sha256="3" * 64, count=540, labelled=True),
        batch_size=1,
        threads=1,
        machine=fake.machine(),
        hwperf="0.1.0",
        alpha=0.01,
        margins=(Margin(metric="latency", statistic="p50", size=0.02),),
        pairs=14,
        requirements=requirements,
        command=("hwperf", "compare", old.target, new.target, "--data=rows.npz"),
    )
    evidence = Evidence(alpha=0.01, hypotheses=(), pairs=())
    return RolloutFile(
        record=record,
        comparisons=comparisons,
        plan=plan_of(old, new, budgets, 0.10, 0.01) if decision.outcome == "go" else None,
        gate=Gate(against=old.target, revision="", seed=1, evidence=evidence, shared={}, seconds={}),
    )
