"""Raw readings → samples."""

from array import array
from contextlib import AbstractContextManager, nullcontext

import pytest
from fakes.streams import FakeMeter

from pytest_hwperf.measure.samples import net_energy, samples_of
from pytest_hwperf.measure.sampling import RawSamples, Window
from pytest_hwperf.records.messages import Statement, said
from pytest_hwperf.records.run import Reading, Sample


def measured(*windows: Window, calls_per_value: int = 1) -> RawSamples:
    return RawSamples(
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


def test_latency_is_a_value_per_call_and_the_first_call_a_sample_of_one() -> None:
    samples, unmeasured = samples_of(measured(window()), [], rows=None, cores=2, warnings=["neighbours"])
    assert unmeasured == {}
    assert find(samples, "latency") == Sample(
        metric="latency",
        values=array("d", [0.001, 0.002]),
        per="call",
        source="perf_counter",
        warnings=("neighbours", "no steady state"),
    )
    assert list(find(samples, "first_call").values) == [0.5]


def test_batched_latency_says_what_its_percentiles_are_of() -> None:
    samples, _ = samples_of(measured(window(), calls_per_value=16), [], rows=None, cores=2)
    latency = find(samples, "latency")
    assert latency.per == "batch of 16 calls"
    assert (
        latency.warnings[-1] == "calls under 20 µs are timed in batches: percentiles are of batch means, not of calls"
    )


def test_throughput_is_completed_over_wall() -> None:
    """10 calls in 0.5 s are 20 a second; of 4 rows each, 80 rows a second; of unknown rows nothing is said."""
    samples, unknown = (
        samples_of(measured(window(), window(wall_s=1.0)), [], rows=rows, cores=2)[0] for rows in (4, None)
    )
    assert list(find(samples, "throughput").values) == [20.0, 10.0]
    assert list(find(samples, "sample_throughput").values) == [80.0, 40.0]
    assert "sample_throughput" not in {sample.metric for sample in unknown}


def test_cpu_time_is_per_call_and_utilisation_of_the_cores() -> None:
    """0.4 CPU seconds over 10 calls, 0.5 s and 2 cores: 40 ms a call, 40 % of the cores."""
    samples, _ = samples_of(measured(window(0.4)), [FakeMeter("cpu_time")], rows=4, cores=2)
    assert list(find(samples, "cpu_time").values) == pytest.approx([0.04])
    assert list(find(samples, "cpu_utilisation").values) == pytest.approx([0.4])
    assert find(samples, "cpu_time").source == "fake"


def test_the_utilisation_of_a_gpu_is_the_share_that_was_read() -> None:
    """Neither calls nor cores divide it; a longer window counts by its length."""
    meter = FakeMeter("gpu_utilisation", covers="boards")
    samples, _ = samples_of(measured(window(0.4), window(0.8, calls=30, wall_s=1.5)), [meter], rows=4, cores=2)
    share = find(samples, "gpu_utilisation")
    assert ([0.4, 0.8], [0.5, 1.5]) == (list(share.values), list(share.weights or ()))


def test_energy_is_per_row_and_per_call() -> None:
    """2 J over 10 calls of 4 rows: 50 mJ a row, 0.2 J a call, which is said once where both are the same."""
    samples, of_one, plain = (
        samples_of(measured(window(2.0)), [FakeMeter("energy")], rows=rows, cores=2)[0] for rows in (4, 1, None)
    )
    assert list(find(samples, "energy").values) == pytest.approx([0.05])
    assert find(samples, "energy").warnings == ("played back",)
    assert list(find(samples, "energy_per_call").values) == pytest.approx([0.2])
    for one in (of_one, plain):
        assert list(find(one, "energy").values) == pytest.approx([0.2])
        assert "energy_per_call" not in {sample.metric for sample in one}


def test_one_refused_window_voids_the_metric() -> None:
    """What is left of an interrupted counter would be half the truth: unmeasured, with the reason."""
    samples, unmeasured = samples_of(measured(window(2.0), window(None)), [FakeMeter("energy")], rows=None, cores=2)
    assert unmeasured == {"energy": said("EIO")}
    assert "energy" not in {sample.metric for sample in samples}


class Counting(FakeMeter):
    """A meter of real counters, which move every millisecond."""

    tick_s = 0.001
    domains = ("package-0",)
    longest_window_s = 100.0

    def attended(self) -> AbstractContextManager[None]:
        return nullcontext()


def windows_of(*joules: float, share: float | None = None) -> list[Window]:
    """Windows of 10 calls in 0.5 s."""
    return [Window(calls=10, wall_s=0.5, readings=(Reading(value=value, share=share),)) for value in joules]


COUNTER = Counting("energy", source="rapl:package-0", shortest_window_s=0.5)


def test_windows_of_a_counter_say_how_exact_they_are() -> None:
    """One step of 1 ms in 0.5 s is 0.2 %."""
    samples, _ = samples_of(measured(*windows_of(*[10.0] * 5)), [COUNTER], rows=None, cores=2)
    expected = "windows of 500 ms or more, each exact within 0.20 %: the counter moves every 1.00 ms"
    assert tuple(map(str, find(samples, "energy").warnings)) == ("played back", expected)


def test_energy_that_is_mostly_others_is_marked() -> None:
    """RAPL counts the whole machine; nothing is scaled."""
    for share, marked in ((0.89, True), (0.90, False), (None, False)):
        samples, _ = samples_of(measured(*windows_of(*[10.0] * 5, share=share)), [COUNTER], rows=None, cores=2)
        energy = find(samples, "energy")
        assert marked == ("89 % of the machine's busy CPU time" in str(energy.warnings[-1]))
        assert marked == any("contaminated" in str(warning) for warning in energy.warnings)
        assert list(energy.values) == [1.0] * 5


def test_fewer_than_five_windows_of_a_counter_are_no_measurement() -> None:
    samples, unmeasured = samples_of(measured(*windows_of(*[10.0] * 4)), [COUNTER], rows=None, cores=2)
    assert "energy" not in {sample.metric for sample in samples}
    assert str(unmeasured["energy"]).endswith("of 500 ms or more fitted, 5 needed: raise --hwperf-sample-time")


def taken_off(*idle_w: float | None, rows: int | None = None) -> tuple[list[Sample], dict[str, Statement]]:
    found = measured(*windows_of(*[10.0] * 5))
    samples, _ = samples_of(found, [COUNTER], rows=rows, cores=2)
    idle = [Reading(value=watts, reason="" if watts else "EIO") for watts in idle_w]
    return net_energy(found, find(samples, "energy"), idle, rows=rows)


def test_net_energy_is_above_the_idle_machine() -> None:
    """10 J in 0.5 s at 12 W idle: 4 J over 10 calls, or 40 rows; the total stays what it was."""
    ((net,), withheld), ((per_row,), _) = (taken_off(11.8, 12.2, rows=rows) for rows in (None, 4))
    assert ("energy_net", {}) == (net.metric, withheld)
    assert pytest.approx([0.4] * 5) == [*net.values]
    assert pytest.approx([0.1] * 5) == [*per_row.values]
    assert str(net.warnings[-1]).startswith("above the idle machine's 12.0 W")


def test_idle_powers_that_disagree_or_were_not_read_give_no_net_energy() -> None:
    apart = "the idle machine drew 10.0 and 10.6 W before and after: more than 5 % apart"
    for other, why in ((10.6, apart), (None, "no idle power: EIO")):
        samples, withheld = taken_off(10.0, other)
        assert samples == []
        assert why == str(withheld["energy_net"])
