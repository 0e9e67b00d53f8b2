"""Builders of realistic records: a session of a classifier in three scenarios in which every outcome occurs."""

from array import array
from collections.abc import Iterable, Mapping

from pytest_hwperf.records.messages import Remark, Statement, said, state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Machine, Run, Sample, StoredRun, replace
from pytest_hwperf.records.verdict import (
    Budget,
    BudgetOutcome,
    Comparison,
    ComparisonOutcome,
    Judgement,
    Margin,
    Skip,
    Verdict,
    uncompared,
)

TEST = "tests/test_iris.py::test_classifier"
STARTED = "2026-03-02T09:30:00+00:00"
NO_COUNTER = "no readable energy counter: /sys/class/powercap/intel-rapl:0/energy_uj is readable by root only"


def machine(*, cpu_model: str = "AMD EPYC 7B13", cores: int = 4, libraries: Mapping[str, str] | None = None) -> Machine:
    return Machine(
        cpu_model=cpu_model,
        architecture="x86_64",
        cores=cores,
        memory_gb=17,
        system="Linux 6.8, glibc 2.39",
        python="CPython 3.12.4",
        libraries=libraries or {"numpy": "2.1.0", "onnxruntime": "1.20.1", "scikit-learn": "1.6.0"},
        threads={"OMP_NUM_THREADS": "1"},
    )


def sample(
    metric: str = "latency",
    values: Iterable[float] = (0.0063, 0.0061, 0.0064),
    *,
    per: str = "call",
    source: str = "perf_counter",
    warnings: tuple[Remark, ...] = (),
) -> Sample:
    return Sample(metric=metric, values=array("d", values), per=per, source=source, warnings=warnings)


def run(  # noqa: PLR0913 - a run has as many independent facts
    *,
    test: str = TEST,
    scenario: str = "",
    label: str = "",
    samples: tuple[Sample, ...] | None = None,
    unmeasured: Mapping[str, str] | None = None,
    at: Machine | None = None,
    revision: str = "4f2c1e9",
) -> Run:
    return Run(
        test=test,
        label=label,
        scenario=scenario,
        machine=at or machine(),
        revision=revision,
        started_at=STARTED,
        samples=samples or (sample(),),
        conditions={"batch_size": "16", "load": "single_stream", "precision": "fp32", "threads": "1"},
        context={"model": "sha256:9d1f", "steal": "0.1 %"},
        unmeasured={metric: said(why) for metric, why in (unmeasured or {}).items()},
    )


def estimate(
    value: float, low: float | None, high: float | None, n: int, *, warnings: tuple[str, ...] = ()
) -> Estimate:
    return Estimate(value=value, low=low, high=high, confidence=0.98, n=n, method="order statistics", warnings=warnings)


def figure(
    metric: str = "latency",
    statistic: str = "p50",
    at: Estimate | None = None,
    *,
    source: str = "perf_counter",
    per: str = "call",
) -> Figure:
    return Figure(
        metric=metric,
        statistic=statistic,
        estimate=at or estimate(0.00631, 0.0062, 0.00645, 412),
        source=source,
        per=per,
        estimated=source.startswith("estimate:"),
    )


def session(
    *,
    test: str = TEST,
    label: str = "",
    median_s: float = 0.00631,
    at: Machine | None = None,
    revision: str = "4f2c1e9",
) -> StoredRun:
    """A stored run: its median tells sessions apart."""
    return StoredRun(
        run=run(
            test=test,
            label=label,
            at=at,
            revision=revision,
            samples=(sample("accuracy", [1.0, 1.0, 0.0, 1.0], per="example", source="labels"),),
        ),
        figures=(figure(at=estimate(median_s, median_s * 0.98, median_s * 1.02, 412)),),
    )


def budget_verdict(
    keyword: str, metric: str, statistic: str, limit: float, outcome: BudgetOutcome, *, reason: str = ""
) -> Verdict:
    return Verdict(
        subject=Budget(keyword=keyword, metric=metric, statistic=statistic, limit=limit),
        outcome=outcome,
        reason=reason or f"{keyword}: {outcome}",
        fails=outcome in {"failed", "unmeasured"},
    )


def comparison_verdict(  # noqa: PLR0913 - a comparison has as many independent facts
    metric: str,
    statistic: str,
    outcome: ComparisonOutcome,
    change: tuple[float, float, float] | None = None,
    *,
    margin: float = 0.02,
    pairs: int = 12,
    p_value: float | None = None,
    baseline: float | None = None,
    detectable: float | None = None,
    reason: str = "",
    warnings: tuple[str, ...] = (),
) -> Verdict:
    return Verdict(
        subject=Comparison(
            metric=metric,
            statistic=statistic,
            outcome=outcome,
            change=None if change is None else replace(estimate(*change, pairs), method="Walsh averages"),
            scale="absolute" if metric in {"accuracy", "flip_rate"} else "relative",
            margin=margin,
            p_value=p_value,
            pairs=pairs if change else 0,
            method=_method(metric, pairs) if change else said("none"),
            detectable=detectable,
            baseline=baseline,
            cause=said(reason) if reason else None,
            warnings=warnings,
        ),
        outcome=outcome,
        reason=reason or f"{metric} {statistic}: {outcome}",
        fails=outcome == "regressed",
    )


def of_subject(verdict: Verdict, **changes: object) -> Verdict:
    """Return a verdict on a budget or comparison of which some fields are others."""
    return replace(verdict, subject=replace(verdict.subject, **changes))


def left_out_verdict() -> Verdict:
    """A verdict on the median latency of a test that a change cannot reach."""
    margin = Margin(metric="latency", statistic="p50", size=0.02)
    subject = uncompared(margin, "equivalent", state("untouched"))
    return Verdict(subject=subject, outcome="equivalent", reason=f"latency p50: {subject.reason}", fails=False)


def _method(metric: str, pairs: int) -> Statement:
    return state("mcnemar", examples=pairs) if metric == "accuracy" else said("signed-rank, pairs of processes")


def sklearn_judgement() -> Judgement:
    """The slowest scenario: a failed and an inconclusive budget, a regression, energy that nobody could read."""
    latencies = [0.0062 + 0.00001 * (i % 40) for i in range(412)]
    return Judgement(
        run=run(
            test=f"{TEST}[sklearn_fp32]",
            scenario="sklearn_fp32",
            samples=(
                sample("latency", latencies, warnings=("11 context switches during the run",)),
                sample("throughput", [161.0], per="window", source="perf_counter"),
                sample("accuracy", [1.0] * 145 + [0.0] * 5, per="example", source="labels"),
                sample("memory", [4.2e6] * 3, per="fresh process", source="/proc/self/status VmHWM"),
            ),
            unmeasured={"energy": NO_COUNTER},
        ),
        figures=(
            figure(),
            figure("latency", "p95", estimate(0.0079, 0.0076, 0.00845, 412)),
            figure(
                "latency",
                "p99",
                estimate(0.0098, 0.0091, None, 412, warnings=("p99 needs 459 calls for an upper bound at 98 %",)),
            ),
            figure("throughput", "mean", estimate(161.0, 158.0, 164.0, 24), per="window"),
            figure("accuracy", "mean", estimate(0.9667, 0.9245, 0.9857, 150), source="labels", per="example"),
            figure(
                "memory", "max", estimate(4.2e6, None, None, 3), source="/proc/self/status VmHWM", per="fresh process"
            ),
            figure("cpu_time", "mean", estimate(0.0064, 0.0063, 0.0066, 24), source="getrusage", per="window"),
        ),
        verdicts=(
            budget_verdict("latency_p95_ms", "latency", "p95", 0.005, "failed"),
            budget_verdict("throughput_min_qps", "throughput", "mean", 160.0, "inconclusive"),
            budget_verdict("memory_max_mb", "memory", "max", 10e6, "passed"),
            budget_verdict("energy_budget_mj", "energy", "mean", 0.002, "unmeasured", reason=NO_COUNTER),
            comparison_verdict(
                "latency", "p50", "regressed", (0.048, 0.031, 0.065), p_value=0.0002, baseline=0.00602, detectable=0.011
            ),
            comparison_verdict(
                "latency", "p95", "inconclusive", (0.021, -0.04, 0.13), margin=0.1, p_value=0.21, baseline=0.00774,
                detectable=0.14,
            ),
        ),
    )  # fmt: skip


def onnx_judgement() -> Judgement:
    """The fastest scenario: better, unchanged, or measured by something else than its baseline."""
    return Judgement(
        run=run(
            test=f"{TEST}[onnx_fp32]",
            scenario="onnx_fp32",
            samples=(sample("latency", [0.000041, 0.000043, 0.000042] * 700, per="batch of 16 calls"),),
        ),
        figures=(
            figure("latency", "mean", estimate(43e-6, 42.1e-6, 44e-6, 24), per="block"),
            figure("latency", "p50", estimate(42e-6, 41.5e-6, 42.8e-6, 2100), per="batch of 16 calls"),
            figure("accuracy", "mean", estimate(0.9667, 0.9245, 0.9857, 150), source="labels", per="example"),
            figure(
                "energy", "mean", estimate(0.00031, 0.00028, 0.00035, 30), source="estimate:cpu-time", per="window"
            ),
        ),
        verdicts=(
            budget_verdict("latency_mean_ms", "latency", "mean", 0.1, "passed"),
            budget_verdict("accuracy_min", "accuracy", "mean", 0.85, "passed"),
            comparison_verdict(
                "latency", "p50", "improved", (-0.12, -0.15, -0.09), p_value=0.0005, baseline=47.7e-6, detectable=0.01
            ),
            comparison_verdict(
                "accuracy", "mean", "equivalent", (0.0, -0.003, 0.003), margin=0.005, pairs=150, p_value=1.0,
                baseline=0.9667,
            ),
            comparison_verdict(
                "energy", "mean", "not comparable",
                reason="measured by estimate:cpu-time, the baseline by rapl:package-0+dram",
                baseline=0.00027,
            ),
        ),
    )  # fmt: skip


def plain_judgement() -> Judgement:
    """A plain callable on its first run."""
    return Judgement(
        run=run(test="tests/test_text.py::test_tokenise", label="long text"),
        figures=(figure("latency", "p50", estimate(0.00118, 0.00117, 0.0012, 1)),),
        verdicts=(
            comparison_verdict("latency", "p50", "no baseline", reason="the baseline 'main' has no run of this test"),
        ),
    )


def report() -> Report:
    """Every outcome of budgets and comparisons, a skip, and warnings at every level."""
    return Report(
        machine=machine(),
        revision="4f2c1e9",
        started_at=STARTED,
        baseline="main",
        judgements=(sklearn_judgement(), onnx_judgement(), plain_judgement()),
        skips=(
            Skip(
                test=f"{TEST}[onnx_int8]",
                scenario="onnx_int8",
                cause=said("no INT8 form: the graph has only TreeEnsembleClassifier, which has no integer kernel"),
            ),
        ),
        warnings=("the machine was 14 % slower at the end of the session than at its start",),
    )


def empty_report() -> Report:
    """A session that measured nothing."""
    return replace(report(), judgements=(), skips=(), warnings=(), baseline="")
