"""How quantities are written."""

import pytest

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.units import (
    EXPORT_UNITS,
    counted,
    exported_name,
    parse_rate,
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


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (6.31e-3, "s", "6.31 ms"),
        (123.4e-6, "s", "123 µs"),
        (1.5, "s", "1.50 s"),
        (2e-10, "s", "0.200 ns"),
        (0.0, "s", "0 s"),
        (2**26, "B", "67.1 MB"),  # 64 MiB; MB = 10^6 bytes
        (512.0, "B", "512 B"),
        (0.002, "J", "2.00 mJ"),
        (14706.0, "1/s", "14.7 k/s"),
        (0.9737, "1", "0.974"),
    ],
)
def test_a_quantity_is_shown_in_the_unit_that_reads_well(value: float, unit: str, shown: str) -> None:
    assert shown == show(value, unit)


def test_an_interval_is_shown_in_the_unit_of_its_value() -> None:
    assert show_interval(1.2e-3, 9e-4, 1.5e-3, "s") == "1.20 ms (0.900 .. 1.50)"


@pytest.mark.parametrize(
    ("value", "unit", "shown"), [(0.0, "s", "< clock step"), (0.0, "B", "0 B"), (2e-8, "s", "20.0 ns")]
)
def test_no_measured_time_is_shown_as_nothing(value: float, unit: str, shown: str) -> None:
    """A call that is shorter than a step of its clock reads as 0; a leak or a size may really be 0."""
    assert shown == show_measured(value, unit)
    assert (shown if unit == "s" and not value else f"{shown} (") in show_interval(value, value, value, unit)


def test_an_open_end_is_a_question_mark() -> None:
    assert show_interval(1.2e-3, None, None, "s") == "1.20 ms (? .. ?)"


def test_whole_digits_are_never_rounded_away() -> None:
    assert show_number(12345.6) == "12346"


@pytest.mark.parametrize(("value", "shown"), [(0.9996, "1.00"), (9.996, "10.0"), (0.9994, "0.999"), (-99.96, "-100")])
def test_a_number_that_is_rounded_up_keeps_its_significant_digits(value: float, shown: str) -> None:
    assert shown == show_number(value)


def test_a_number_that_is_not_finite_is_written_as_such() -> None:
    assert show_number(float("inf")) == "inf"


@pytest.mark.parametrize(
    ("change", "scale", "shown"),
    [
        (0.048, "relative", "+4.8 %"),
        (-0.02, "relative", "-2.0 %"),
        (1.9, "relative", "×2.9"),
        (-0.005, "absolute", "-0.50 pp"),
        (-0.0004, "relative", "0.0 %"),
        (0.00004, "absolute", "0.00 pp"),
    ],
)
def test_a_change_says_its_scale(change: float, scale: str, shown: str) -> None:
    assert shown == show_change(change, scale)


@pytest.mark.parametrize(
    ("ends", "scale", "shown"),
    [
        ((0.048, 0.031, 0.065), "relative", "+4.8 % (+3.1 .. +6.5)"),
        ((32.0, 32.0, 32.0), "relative", "×33"),
        ((0.0, 0.0, 0.0), "absolute", "0.00 pp"),
        ((1.2, None, 1.3), "relative", "×2.2 (? .. ×2.3)"),
        ((1.2, 0.998, 1.3), "relative", "×2.2 (×2.0 .. ×2.3)"),
    ],
)
def test_an_interval_has_its_unit_once_and_an_exact_change_has_none(
    ends: tuple[float, float | None, float | None], scale: str, shown: str
) -> None:
    assert shown == show_change_interval(*ends, scale)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.9996, "s", "1.00 s"),
        (0.9994, "s", "999 ms"),
        (999.6e6, "B", "1.00 GB"),
        (-999.6e-9, "J", "-1.00 µJ"),
        (999.6e3, "1/s", "1.00 M/s"),
    ],
)
def test_the_unit_is_that_of_the_rounded_value(value: float, unit: str, shown: str) -> None:
    assert shown == show(value, unit)


@pytest.mark.parametrize(("share", "shown"), [(0.86, "86 %"), (-0.001, "0 %"), (-0.01, "-1 %")])
def test_a_share_of_nothing_has_no_sign(share: float, shown: str) -> None:
    assert shown == show_share(share)


@pytest.mark.parametrize(
    ("share", "shown"), [(1 / 3, "33.3 %"), (8.0, "800 %"), (18.083, "×19"), (998.4, "×999"), (555_558.0, "×556,000")]
)
def test_a_limit_that_is_missed_many_times_over_is_no_percentage(share: float, shown: str) -> None:
    assert shown == show_excess(share)


@pytest.mark.parametrize(
    ("noun", "shown"), [("query", "2 queries"), ("day", "2 days"), ("battery of 3 tests", "2 batteries of 3 tests")]
)
def test_nouns_in_y_have_their_plural(noun: str, shown: str) -> None:
    assert shown == counted(2, noun)


def test_the_scale_of_a_negative_quantity_is_that_of_its_size() -> None:
    assert scale_for("s", -0.005) == (1e-3, "ms")


@pytest.mark.parametrize(
    ("name", "unit", "exported"),
    [
        ("latency_p95", "s", "latency_p95_ms"),
        ("memory_p50", "B", "memory_p50_mb"),
        ("energy_mean", "J", "energy_mean_mj"),
        ("throughput_mean", "1/s", "throughput_mean_per_s"),
        ("accuracy_mean", "1", "accuracy_mean"),
    ],
)
def test_an_exported_name_ends_with_its_unit(name: str, unit: str, exported: str) -> None:
    assert exported == exported_name(name, unit)


def test_every_metric_can_be_exported() -> None:
    """6.31e-3 s = 6.31 ms, 67.1e6 B = 67.1 MB, 2e-3 J = 2 mJ."""
    assert {metric.unit for metric in METRICS.values()} == set(EXPORT_UNITS)
    assert [6.31, 67.1, 2.0, 161.0] == pytest.approx(
        [value * EXPORT_UNITS[unit][1] for value, unit in [(6.31e-3, "s"), (67.1e6, "B"), (2e-3, "J"), (161.0, "1/s")]]
    )


@pytest.mark.parametrize(
    ("limit", "unit", "better", "shown"),
    [
        (0.010, "s", "lower", "<= 10 ms"),
        (1.25e-5, "s", "lower", "<= 12.5 µs"),
        (0.85, "1", "higher", ">= 0.85"),
        (5000.0, "1/s", "higher", ">= 5 k/s"),
        (0.0, "1", "lower", "<= 0"),
    ],
)
def test_a_limit_has_the_digits_that_were_given(limit: float, unit: str, better: str, shown: str) -> None:
    assert shown == show_limit(limit, unit, better)


@pytest.mark.parametrize(
    ("n", "noun", "shown"),
    [
        (1, "session", "1 session"),
        (2, "session", "2 sessions"),
        (3, "fresh process", "3 fresh processes"),
        (5, "batch of 16 calls", "5 batches of 16 calls"),
    ],
)
def test_things_are_counted_in_words(n: int, noun: str, shown: str) -> None:
    assert shown == counted(n, noun)


@pytest.mark.parametrize(("text", "rate"), [("1%", 0.01), ("0.01", 0.01), (" 20 % ", 0.2)])
def test_a_rate_is_a_share_or_a_percentage(text: str, rate: float) -> None:
    assert rate == parse_rate("--alpha", text)


@pytest.mark.parametrize("text", ["0", "21%", "1", "x", "-1%", "nan"])
def test_a_rate_that_is_no_gate_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"--alpha=.*: a rate above 0 up to 20 %"):
        parse_rate("--alpha", text)


@pytest.mark.parametrize(
    ("size", "scale", "shown"),
    [
        (0.02, "relative", "2 %"),
        (0.0755, "relative", "7.55 %"),
        (-0.05, "relative", "5 %"),  # a size has no direction
        (1.9, "relative", "×2.9"),
        (0.005, "absolute", "0.5 pp"),
        (-1.0, "absolute", "100 pp"),
        (0.0, "relative", "0 %"),
    ],
)
def test_the_size_of_a_change_is_shown_without_its_direction(size: float, scale: str, shown: str) -> None:
    assert shown == show_size(size, scale)


def test_the_size_of_a_change_has_as_many_digits_as_are_asked_for() -> None:
    assert "7.6 %" == show_size(0.0756, "relative", digits=1)


@pytest.mark.parametrize(
    ("then", "now", "unit", "shown"),
    [
        (310e-6, 325e-6, "s", "310 → 325 µs"),
        (900e-6, 1.2e-3, "s", "900 µs → 1.20 ms"),
        (0.0, 2e-6, "s", "< clock step → 2.00 µs"),
        (0.0, 0.0, "B", "0 → 0 B"),
        (0.967, 0.95, "1", "0.967 → 0.950"),
    ],
)
def test_a_move_names_its_unit_once_where_both_values_have_it(then: float, now: float, unit: str, shown: str) -> None:
    assert shown == show_move(then, now, unit)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(93.2e9, "FLOP/s", "93.2 GFLOP/s"), (1.27e6, "B", "1.27 MB"), (12.0, "B", "12.0 B"), (2e12, "B/s", "2.00 TB/s")],
)
def test_a_large_amount_is_shown_with_a_prefix(value: float, unit: str, shown: str) -> None:
    assert shown == show_amount(value, unit)
