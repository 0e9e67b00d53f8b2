"""Results of other programs, read as reports of this one; the files may come from anyone."""

import json
import math
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pytest_hwperf.host.files import read_given
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.records.codec import from_foreign
from pytest_hwperf.records.errors import HwperfError, SerialisationError, UsageProblem
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.profiles import OperatorProfile
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Run, Sample, replace
from pytest_hwperf.records.structs import Count, ForeignRecord, Size
from pytest_hwperf.records.text import shortened
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.runtimes.profiles import parse_calls
from pytest_hwperf.stats.causes.explanations import profile_of, profiler_costs
from pytest_hwperf.stats.figures.estimates import REPORTED_CONFIDENCE, figures

T = TypeVar("T")
_LARGEST = 256 * 2**20  # bytes
_LONGEST_NAME = 1000  # characters
_LATENCY = MEDIAN_LATENCY[0]
# Functions of Python's `time` that pytest-benchmark can time by; what another one counts is not known.
_METRIC_OF_TIMER = {
    **dict.fromkeys(("perf_counter", "monotonic", "time"), _LATENCY),
    **dict.fromkeys(("process_time", "thread_time"), "cpu_time"),
}
_USUAL_TIMER = "perf_counter"
_NANOSECOND = 1e-9  # s
_ELSEWHERE = "the machine of this report is the one that reads it, not the one that measured"
_COSTS = (
    "operators of this profile take less than 20 µs on average, of which the profiler's own cost of about 5 µs each "
    "is a large part: the shares are of calls under the profiler"
)


def read_foreign(origin: str) -> Report:
    """Read what `FORMAT:FILE` names."""
    program, _, path = origin.partition(":")
    if not path or program not in FORMS:
        raise UsageProblem(f"--from={origin}: write FORMAT:FILE, where FORMAT is {' or '.join(FORMS)}")
    content = read_given(path, _LARGEST, f"give a file of {program}")
    try:
        return FORMS[program](content, Path(path).name)
    except HwperfError as error:
        raise UsageProblem(f"{path}: {error}") from error


class _Stats(ForeignRecord, frozen=True, kw_only=True):
    mean: Size  # s, as all of them
    median: Size
    stddev: Size
    max: Size
    rounds: Count
    iterations: Count = 1
    data: tuple[Size, ...] = ()  # of each round, with --benchmark-save-data

    @property
    def per(self) -> str:
        """What one value is of."""
        return "call" if self.iterations <= 1 else f"batch of {self.iterations} calls"


class _Options(ForeignRecord, frozen=True, kw_only=True):
    timer: str = _USUAL_TIMER  # the name of a function, without its module

    @property
    def clock(self) -> str:
        """The timer that counts seconds: pytest-benchmark takes the nanoseconds of its twin for seconds."""
        return self.timer.removesuffix("_ns") if self.is_known else self.timer

    @property
    def is_known(self) -> bool:
        return self.timer.removesuffix("_ns") in _METRIC_OF_TIMER

    @property
    def metric(self) -> str:
        """What it measures; an unknown timer replaces the clock, so its figures stand where the latency would."""
        return _METRIC_OF_TIMER.get(self.clock, _LATENCY)

    @property
    def unit_s(self) -> float:
        return _NANOSECOND if self.timer != self.clock else 1.0


class _Benchmark(ForeignRecord, frozen=True, kw_only=True):
    fullname: str
    stats: _Stats
    options: _Options = _Options()


class _Commit(ForeignRecord, frozen=True, kw_only=True):
    id: str = ""
    dirty: bool = False


class _Benchmarks(ForeignRecord, frozen=True, kw_only=True):
    benchmarks: list[_Benchmark]
    commit_info: _Commit = _Commit()
    datetime: str = "1970-01-01T00:00:00+00:00"


_UNKNOWN = _Benchmarks(benchmarks=[])


def _of_pytest_benchmark(text: bytes, _: str) -> Report:
    """Read the rounds of each test, as values where they were saved, else as their statistics."""
    file = _decode(_Benchmarks, text, "pytest-benchmark (--benchmark-json)")
    judgements = [_judgement(one, file) for one in file.benchmarks if one.stats.rounds]
    if not judgements:
        raise UsageProblem("this file of pytest-benchmark holds no benchmarks")
    timers = dict.fromkeys(one.options.timer for one in file.benchmarks if not one.options.is_known)
    return _report(*judgements, warnings=tuple(map(_unknown_timer, timers)))


def _unknown_timer(timer: str) -> str:
    return (
        f"timed by {shortened(timer)}, a timer of the benchmarks' own: their latency is what it counted, which may not "
        "be seconds of wall-clock time"
    )


def _judgement(benchmark: _Benchmark, file: _Benchmarks) -> Judgement:
    stats, options = benchmark.stats, benchmark.options
    by = "" if options.timer == _USUAL_TIMER else f" by {shortened(options.timer)}"
    values = array("d", (value * options.unit_s for value in stats.data))
    rounds = Sample(metric=options.metric, values=values, per=stats.per, source=f"pytest-benchmark: rounds{by}")
    run = _run(benchmark.fullname, file, samples=(rounds,) if values else ())
    if values:
        return Judgement(run=run, figures=figures(run), verdicts=())
    # Of statistics alone, only the mean has an interval.
    mean = mean_of_rounds(stats.mean * options.unit_s, stats.stddev * options.unit_s, stats.rounds)
    source = f"pytest-benchmark: statistics of rounds{by}"
    found = {"mean": mean}
    for statistic, name, value in (("p50", "median", stats.median), ("max", "maximum", stats.max)):
        method = f"{name} of rounds, no interval: the file lacks the rounds (--benchmark-save-data)"
        found[statistic] = replace(mean, value=value * options.unit_s, low=None, high=None, method=method)
    shown = (
        Figure(metric=options.metric, statistic=statistic, estimate=one, source=source, per=stats.per)
        for statistic, one in found.items()
    )
    return Judgement(run=run, figures=tuple(shown), verdicts=())


class _Arguments(ForeignRecord, frozen=True, kw_only=True):
    op_name: str = ""


class _Event(ForeignRecord, frozen=True, kw_only=True):
    name: str
    cat: str = ""
    ts: Size = 0.0  # µs
    dur: Size = 0.0  # µs
    args: _Arguments = _Arguments()


def _of_onnxruntime(text: bytes, name: str) -> Report:
    """Read the operators of a session that was run at least twice: the first run is none of the others."""
    events = _decode(list[_Event], text, "ONNX Runtime's profiler")
    plain = [
        {"name": one.name, "cat": one.cat, "ts": one.ts, "dur": one.dur, "args": {"op_name": one.args.op_name}}
        for one in events
    ]
    profiled = parse_calls(json.dumps(plain), rows=0)
    run = _run(name, operators=profile_of(profiled))
    doubts = (_COSTS,) if profiler_costs(profiled) else ()
    return _report(Judgement(run=run, figures=(), verdicts=()), warnings=doubts)


FORMS: Mapping[str, Callable[[bytes, str], Report]] = {  # of the content of a file, and its name
    "pytest-benchmark": _of_pytest_benchmark,
    "onnxruntime": _of_onnxruntime,
}


def _decode(form: type[T], text: bytes, program: str) -> T:
    try:
        return from_foreign(form, text)
    except SerialisationError as error:
        raise UsageProblem(f"this is no file of {program}: {error}") from error


def _run(
    test: str,
    file: _Benchmarks = _UNKNOWN,
    *,
    samples: tuple[Sample, ...] = (),
    operators: OperatorProfile | None = None,
) -> Run:
    """Return a run of another program, with as much of it as is known."""
    return Run(
        test=test[:_LONGEST_NAME],
        label="",
        scenario="",
        machine=describe_machine(),
        revision=file.commit_info.id,
        changed=file.commit_info.dirty,
        started_at=file.datetime,
        samples=samples,
        conditions={},
        context={},
        operators=operators,
    )


def _report(*judgements: Judgement, warnings: tuple[str, ...] = ()) -> Report:
    first = judgements[0].run
    return Report(
        machine=first.machine,
        revision=first.revision,
        changed=first.changed,
        started_at=first.started_at,
        baseline="",
        judgements=judgements,
        warnings=(*warnings, _ELSEWHERE),
    )


def mean_of_rounds(mean: float, deviation: float, rounds: int) -> Estimate:
    """Estimate a mean of which only statistics are known."""
    from scipy.special import stdtrit

    low = high = None
    if rounds > 1:
        half = float(stdtrit(rounds - 1, (1 + REPORTED_CONFIDENCE) / 2)) * deviation / math.sqrt(rounds)
        low, high = mean - half, mean + half
    method = "mean of one round, no interval" if low is None else "mean of rounds, t interval"
    return Estimate(value=mean, low=low, high=high, confidence=REPORTED_CONFIDENCE, n=rounds, method=method)
