"""Raw readings → samples."""

from array import array

import pytest
from fakes.streams import FakeMeter

from pytest_hwperf.core.records import Reading, Sample
from pytest_hwperf.measure.samples import samples_of
from pytest_hwperf.measure.sampling import Measured, Window


def measured(*windows: Window, calls_per_value: int = 1) -> Measured:
    return Measured(
        result=None,
        first_call_s=0.5,
        calls_per_value=calls_per_value,
        latency_s=array("d", [0.001, 0.002]),
        windows=list(windows),
        warnings=["no steady state"],
    )


def window(*values: float | None, calls: int = 10, wall_s: float = 0.5) -> Window:
    return Window(
        calls=calls,
        wall_s=wall_s,
        readings=tuple(Reading(value=value, reason="" if value is not None else "EIO") for value in values),
    )


def find(samples: tuple[Sample, ...], metric: str) -> Sample:
    return next(sample for sample in samples if sample.metric == metric)


def test_latency_is_a_value_per_call() -> None:
    samples, unmeasured = samples_of(measured(window()), [], rows=None, cores=2, warnings=["neighbours"])

    assert unmeasured == {}
    assert find(samples, "latency") == Sample(
        metric="latency",
        values=array("d", [0.001, 0.002]),
        per="call",
        source="perf_counter",
        warnings=("neighbours", "no steady state"),
    )


def test_batched_latency_says_what_its_percentiles_are_of() -> None:
    samples, _ = samples_of(measured(window(), calls_per_value=16), [], rows=None, cores=2)
    latency = find(samples, "latency")

    assert latency.per == "batch of 16 calls"
    assert (
        latency.warnings[-1] == "calls under 20 µs are timed in batches: percentiles are of batch means, not of calls"
    )


def test_the_first_call_is_a_sample_of_one() -> None:
    samples, _ = samples_of(measured(window()), [], rows=None, cores=2)

    assert list(find(samples, "first_call").values) == [0.5]


def test_throughput_is_completed_over_wall() -> None:
    """10 calls in 0.5 s are 20 a second; of 4 rows each, 80 rows a second."""
    samples, _ = samples_of(measured(window(), window(wall_s=1.0)), [], rows=4, cores=2)

    assert list(find(samples, "throughput").values) == [20.0, 10.0]
    assert list(find(samples, "sample_throughput").values) == [80.0, 40.0]


def test_rows_that_are_unknown_give_no_sample_throughput() -> None:
    samples, _ = samples_of(measured(window()), [], rows=None, cores=2)

    assert "sample_throughput" not in {sample.metric for sample in samples}


def test_cpu_time_is_per_call_and_utilisation_of_the_cores() -> None:
    """0.4 CPU seconds over 10 calls, 0.5 s and 2 cores: 40 ms a call, 40 % of the cores."""
    samples, _ = samples_of(measured(window(0.4)), [FakeMeter("cpu_time")], rows=4, cores=2)

    assert list(find(samples, "cpu_time").values) == pytest.approx([0.04])
    assert list(find(samples, "cpu_utilisation").values) == pytest.approx([0.4])
    assert find(samples, "cpu_time").source == "fake"


def test_energy_is_per_row() -> None:
    """2 J over 10 calls of 4 rows: 50 mJ a row; the meter's warnings travel with it."""
    samples, _ = samples_of(measured(window(2.0)), [FakeMeter("energy")], rows=4, cores=2)

    assert list(find(samples, "energy").values) == pytest.approx([0.05])
    assert find(samples, "energy").warnings == ("played back",)


def test_energy_of_a_plain_call_is_per_call() -> None:
    samples, _ = samples_of(measured(window(2.0)), [FakeMeter("energy")], rows=None, cores=2)

    assert list(find(samples, "energy").values) == pytest.approx([0.2])


def test_one_refused_window_voids_the_metric() -> None:
    """What is left of an interrupted counter would be half the truth: unmeasured, with the reason."""
    samples, unmeasured = samples_of(measured(window(2.0), window(None)), [FakeMeter("energy")], rows=None, cores=2)

    assert unmeasured == {"energy": "EIO"}
    assert "energy" not in {sample.metric for sample in samples}
