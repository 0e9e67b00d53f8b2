"""JSON of pytest-benchmark: rounds of each test, as values where they were saved, else as their statistics."""

from array import array
from collections.abc import Iterator

from pytest_hwperf.cli.origins.foreign import UNKNOWN_TIME, decode, foreign_run, report_of
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.estimates import REPORTED_CONFIDENCE, figures, mean_of_rounds
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.records import Estimate, Figure, Judgement, Sample
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import Count, ForeignRecord, Size

_PROGRAM = "pytest-benchmark"
_LATENCY = MEDIAN_LATENCY[0]


class _Stats(ForeignRecord, frozen=True, kw_only=True):
    mean: Size  # s, as all of them
    median: Size
    stddev: Size
    max: Size
    rounds: Count
    iterations: Count = 1
    data: tuple[Size, ...] = ()  # of each round, with --benchmark-save-data


class _Benchmark(ForeignRecord, frozen=True, kw_only=True):
    fullname: str
    stats: _Stats


class _Commit(ForeignRecord, frozen=True, kw_only=True):
    id: str = ""
    dirty: bool = False


class _File(ForeignRecord, frozen=True, kw_only=True):
    benchmarks: list[_Benchmark]
    commit_info: _Commit = _Commit()
    datetime: str = UNKNOWN_TIME


def read(text: bytes) -> Report:
    """Read the benchmarks of a file.

    Raises:
        UsageProblem: it is none of pytest-benchmark, or empty.
    """
    file = decode(_File, text, f"{_PROGRAM} (--benchmark-json)")
    judgements = [_judgement(one, file) for one in file.benchmarks if one.stats.rounds]
    if not judgements:
        raise UsageProblem(f"this file of {_PROGRAM} holds no benchmarks")
    return report_of(judgements)


def _judgement(benchmark: _Benchmark, file: _File) -> Judgement:
    stats, commit = benchmark.stats, file.commit_info
    run = foreign_run(
        benchmark.fullname,
        revision=commit.id,
        changed=commit.dirty,
        started_at=file.datetime,
        samples=_samples(stats),
    )
    found = figures(run) if run.samples else tuple(_figures(stats))
    return Judgement(run=run, figures=found, verdicts=())


def _per(stats: _Stats) -> str:
    return "call" if stats.iterations <= 1 else f"batch of {stats.iterations} calls"


def _samples(stats: _Stats) -> tuple[Sample, ...]:
    """Return the rounds as a sample where the file has them."""
    if not stats.data:
        return ()
    values = array("d", stats.data)
    return (Sample(metric=_LATENCY, values=values, per=_per(stats), source=f"{_PROGRAM}: rounds"),)


def _figures(stats: _Stats) -> Iterator[Figure]:
    """Yield mean, median and maximum; of statistics alone, only the mean has an interval."""
    yield _figure("mean", mean_of_rounds(stats.mean, stats.stddev, stats.rounds), stats)
    for statistic, name, value in (("p50", "median", stats.median), ("max", "maximum", stats.max)):
        estimate = Estimate(
            value=value,
            low=None,
            high=None,
            confidence=REPORTED_CONFIDENCE,
            n=stats.rounds,
            method=f"{name} of rounds, no interval: the file lacks the rounds (--benchmark-save-data)",
        )
        yield _figure(statistic, estimate, stats)


def _figure(statistic: str, estimate: Estimate, stats: _Stats) -> Figure:
    source = f"{_PROGRAM}: statistics of rounds"
    return Figure(metric=_LATENCY, statistic=statistic, estimate=estimate, source=source, per=_per(stats))
