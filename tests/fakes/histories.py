"""Series over time, as a store has them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from fakes import records as fake

from pytest_hwperf.records.metrics import Better
from pytest_hwperf.stats.stored.history import Annotation, PastValue, Series

STEP = 20  # runs before and after the change


def revision(place: int) -> str:
    return f"{place:040x}"


def series(  # noqa: PLR0913 - what tells series apart
    values: Sequence[float],
    metric: str = "latency",
    statistic: str = "p50",
    *,
    test: str = fake.TEST,
    anchor: str = "",
    better: Better = "lower",
    half: float = 0.01,
) -> Series:
    """A run a day, each with an interval of so much on both sides."""
    begin = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    return Series(
        test=test,
        label="",
        machine=fake.machine(),
        metric=metric,
        statistic=statistic,
        source="perf_counter",
        better=better,
        anchor=anchor,
        values=tuple(
            PastValue(
                started_at=(begin + timedelta(days=place)).isoformat(),
                revision=revision(place),
                estimate=fake.estimate(value, value - half * abs(value), value + half * abs(value), 400),
                accepted=True,
            )
            for place, value in enumerate(values)
        ),
    )


def slower(factor: float = 1.1) -> list[float]:
    """Medians in seconds, of which the later half is slower; they vary by a tenth of a percent."""
    return [0.01 * (1 + 0.001 * (place * 7 % 5 - 2)) * (factor if place >= STEP else 1) for place in range(2 * STEP)]


def note(place: int, text: str) -> Annotation:
    return Annotation(revision=revision(place), text=text, noted_at="2026-04-01T00:00:00+00:00")
