"""The markers as functions: an editor completes their keywords, and a type checker refuses a misspelt one."""

from typing import TypedDict, Unpack

import pytest


class BudgetLimits(TypedDict, total=False):
    """The keywords of `hwbudget`, in the order of the table of metrics; a test compares both."""

    latency_mean_ms: float
    latency_p50_ms: float
    latency_p90_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    latency_p99_9_ms: float
    latency_max_ms: float
    latency_iqr_ms: float
    first_item_mean_ms: float
    first_item_p50_ms: float
    first_item_p90_ms: float
    first_item_p95_ms: float
    first_item_p99_ms: float
    first_item_max_ms: float
    item_mean_ms: float
    item_p50_ms: float
    item_p90_ms: float
    item_p95_ms: float
    item_p99_ms: float
    item_max_ms: float
    throughput_min_ips: float
    cold_start_ms: float
    throughput_min_qps: float
    throughput_min_sps: float
    goodput_min_qps: float
    accuracy_min: float
    accuracy_worst_class_min: float
    balanced_accuracy_min: float
    flip_rate_max: float
    probability_diff_max: float
    probability_diff_mean: float
    memory_max_mb: float
    memory_call_max_mb: float
    memory_pressure_max: float
    memory_leak_max_kb: float
    gpu_memory_max_mb: float
    model_size_max_mb: float
    cpu_time_max_ms: float
    cpu_max_percent: float
    gpu_max_percent: float
    instructions_max: float
    energy_budget_mj: float


class RegressionMargins(TypedDict, total=False):
    """The keywords of `hwregression`, likewise: "2%", or "0.5pp" of a share."""

    latency_mean: str
    latency_p50: str
    latency_p90: str
    latency_p95: str
    latency_p99: str
    latency_p99_9: str
    latency_iqr: str
    first_item_p50: str
    item_p50: str
    cold_start: str
    throughput: str
    accuracy: str
    flip_rate: str
    memory: str
    memory_call: str
    gpu_memory: str
    arena_in_use: str
    arena_held: str
    model_size: str
    cpu_time: str
    instructions: str
    energy: str


def budget(**limits: Unpack[BudgetLimits]) -> pytest.MarkDecorator:
    """Limit what the test may take: `@budget(latency_p95_ms=5)` is `@pytest.mark.hwbudget(latency_p95_ms=5)`."""
    return pytest.mark.hwbudget(**limits)


def regression(**margins: Unpack[RegressionMargins]) -> pytest.MarkDecorator:
    """Set the smallest changes that matter: `@regression(latency_p50="2%")` is `@pytest.mark.hwregression(...)`."""
    return pytest.mark.hwregression(**margins)


def scenarios(*names: str) -> pytest.MarkDecorator:
    """Run the test once in each scenario: `@scenarios("onnx_fp32")` is `@pytest.mark.hwscenarios("onnx_fp32")`."""
    return pytest.mark.hwscenarios(*names)
