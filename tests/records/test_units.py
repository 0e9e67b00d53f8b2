"""How quantities are written."""

import pytest

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.false_alarms import parse_rate
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.units import (
    EXPORT_UNITS,
    counted,
    exported_name,
    scale_for,
    show,
    show_amount,
    show_change,
    show_change_interval,
    show_excess,
    show_interval,
    show_limit,
    show_measured,
    show_move,
    show_number,
    show_share,
    show_size,
)

WRITTEN = [
    # a quantity is shown in the unit that reads well, by its rounded value
    (show(6.31e-3, "s"), "6.31 ms"),
    (show(123.4e-6, "s"), "123 µs"),
    (show(1.5, "s"), "1.50 s"),
    (show(2e-10, "s"), "0.200 ns"),
    (show(0.0, "s"), "0 s"),
    (show(2**26, "B"), "67.1 MB"),  # 64 MiB; MB = 10^6 bytes
    (show(512.0, "B"), "512 B"),
    (show(0.002, "J"), "2.00 mJ"),
    (show(14706.0, "1/s"), "14.7 k/s"),
    (show(0.9737, "1"), "0.974"),
    (show(0.9, "share"), "90.0 %"),
    (show(0.0, "share"), "0 %"),
    (show(0.9996, "s"), "1.00 s"),
    (show(0.9994, "s"), "999 ms"),
    (show(999.6e6, "B"), "1.00 GB"),
    (show(-999.6e-9, "J"), "-1.00 µJ"),
    (show(999.6e3, "1/s"), "1.00 M/s"),
    # no measured time is nothing: a call may be shorter than a step of its clock; a leak or a size may really be 0
    (show_measured(0.0, "s"), "< clock step"),
    (show_measured(0.0, "B"), "0 B"),
    (show_measured(2e-8, "s"), "20.0 ns"),
    (show_interval(0.0, 0.0, 0.0, "s"), "< clock step"),
    (show_interval(0.0, 0.0, 0.0, "B"), "0 B (0 .. 0)"),
    (show_interval(0.0, 0.0, 49152.0, "B"), "0 kB (0 .. 49.2)"),
    (show_interval(1.2e-3, 9e-4, 1.5e-3, "s"), "1.20 ms (0.900 .. 1.50)"),
    (show_interval(1.2e-3, None, None, "s"), "1.20 ms (? .. ?)"),
    # significant digits are kept, and whole ones never rounded away
    (show_number(12345.6), "12346"),
    (show_number(0.9996), "1.00"),
    (show_number(9.996), "10.0"),
    (show_number(0.9994), "0.999"),
    (show_number(-99.96), "-100"),
    (show_number(float("inf")), "inf"),
    # a change says its scale, and an interval its unit once
    (show_change(0.048, "relative"), "+4.8 %"),
    (show_change(-0.02, "relative"), "-2.0 %"),
    (show_change(1.9, "relative"), "×2.9"),
    (show_change(-0.1, "relative", 1.2), "×0.90"),  # an end is written like its value
    (show_change(1.3, "relative", 0.5), "+130.0 %"),
    (show_change(-0.005, "absolute"), "-0.50 pp"),
    (show_change(-0.0004, "relative"), "0.0 %"),
    (show_change(0.00004, "absolute"), "0.00 pp"),
    (show_change_interval(0.048, 0.031, 0.065, "relative"), "+4.8 % (+3.1 .. +6.5)"),
    (show_change_interval(32.0, 32.0, 32.0, "relative"), "×33"),
    (show_change_interval(0.0, 0.0, 0.0, "absolute"), "0.00 pp"),
    (show_change_interval(1.2, None, 1.3, "relative"), "×2.2 (? .. ×2.3)"),
    (show_change_interval(1.2, 0.998, 1.3, "relative"), "×2.2 (×2.0 .. ×2.3)"),
    # a size has no direction
    (show_size(0.02, "relative"), "2 %"),
    (show_size(0.0755, "relative"), "7.55 %"),
    (show_size(0.0756, "relative", digits=1), "7.6 %"),
    (show_size(-0.05, "relative"), "5 %"),
    (show_size(1.9, "relative"), "×2.9"),
    (show_size(0.005, "absolute"), "0.5 pp"),
    (show_size(-1.0, "absolute"), "100 pp"),
    (show_size(0.0, "relative"), "0 %"),
    (show_share(0.86), "86 %"),
    (show_share(-0.001), "0 %"),
    (show_share(-0.01), "-1 %"),
    # a limit that is missed many times over is no percentage
    (show_excess(1 / 3), "33.3 %"),
    (show_excess(8.0), "800 %"),
    (show_excess(8.999), "900 %"),
    (show_excess(9.0), "×10"),
    (show_excess(18.083), "×19"),
    (show_excess(998.4), "×999"),
    (show_excess(555_558.0), "×556,000"),
    # a limit has the digits that were given
    (show_limit(0.010, "s", "lower"), "<= 10 ms"),
    (show_limit(1.25e-5, "s", "lower"), "<= 12.5 µs"),
    (show_limit(0.85, "1", "higher"), ">= 0.85"),
    (show_limit(5000.0, "1/s", "higher"), ">= 5 k/s"),
    (show_limit(0.0, "1", "lower"), "<= 0"),
    # a move names its unit once where both values have it
    (show_move(310e-6, 325e-6, "s"), "310 → 325 µs"),
    (show_move(900e-6, 1.2e-3, "s"), "900 µs → 1.20 ms"),
    (show_move(0.0, 2e-6, "s"), "< clock step → 2.00 µs"),
    (show_move(0.0, 0.0, "B"), "0 → 0 B"),
    (show_move(0.967, 0.95, "1"), "0.967 → 0.950"),
    (show_amount(93.2e9, "FLOP/s"), "93.2 GFLOP/s"),
    (show_amount(1.27e6, "B"), "1.27 MB"),
    (show_amount(12.0, "B"), "12.0 B"),
    (show_amount(2e12, "B/s"), "2.00 TB/s"),
    # things are counted in words
    (counted(1, "session"), "1 session"),
    (counted(2, "session"), "2 sessions"),
    (counted(3, "fresh process"), "3 fresh processes"),
    (counted(5, "batch of 16 calls"), "5 batches of 16 calls"),
    (counted(2, "query"), "2 queries"),
    (counted(2, "day"), "2 days"),
    (counted(2, "battery of 3 tests"), "2 batteries of 3 tests"),
    # an exported name ends with its unit
    (exported_name("latency_p95", "s"), "latency_p95_ms"),
    (exported_name("memory_p50", "B"), "memory_p50_mb"),
    (exported_name("energy_mean", "J"), "energy_mean_mj"),
    (exported_name("throughput_mean", "1/s"), "throughput_mean_per_s"),
    (exported_name("accuracy_mean", "1"), "accuracy_mean"),
]


def test_how_it_is_written() -> None:
    assert [] == [(words, written) for written, words in WRITTEN if words != written]


def test_the_scale_of_a_negative_quantity_is_that_of_its_size() -> None:
    assert scale_for("s", -0.005) == (1e-3, "ms")


def test_every_metric_can_be_exported() -> None:
    """6.31e-3 s = 6.31 ms, 67.1e6 B = 67.1 MB, 2e-3 J = 2 mJ."""
    assert {metric.unit for metric in METRICS.values()} == set(EXPORT_UNITS)
    assert [6.31, 67.1, 2.0, 161.0] == pytest.approx(
        [value * EXPORT_UNITS[unit][1] for value, unit in [(6.31e-3, "s"), (67.1e6, "B"), (2e-3, "J"), (161.0, "1/s")]]
    )


def test_a_rate_is_a_share_or_a_percentage_up_to_20() -> None:
    assert [0.01, 0.01, 0.2] == [parse_rate("--alpha", text) for text in ("1%", "0.01", " 20 % ")]
    for text in ("0", "21%", "1", "x", "-1%", "nan"):
        with pytest.raises(UsageProblem, match=r"--alpha=.*: a rate above 0 up to 20 %"):
            parse_rate("--alpha", text)
