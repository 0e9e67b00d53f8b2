"""The load of a test: the marker `hwload` on what the fixture `hwperf` measures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_hwperf.gate.models.load import carrier_of, check_processes, reply_share, run_by_processes, served_by
from pytest_hwperf.gate.models.requests import subject_of_address
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.loads.http import Request
from pytest_hwperf.loads.local import Times, load_samples
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.samples import CLOCK
from pytest_hwperf.measure.sampling import RawSamples, Sampler
from pytest_hwperf.measure.stream import Loop, Stream
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.meters.process import CpuTimeMeter
from pytest_hwperf.plugin.session.command import command_for, timeout_paused
from pytest_hwperf.plugin.session.state import node_of, session_of, test_of
from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import TIMEOUT_S, Load
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import ENERGY
from pytest_hwperf.records.run import Sample, Served
from pytest_hwperf.records.run import replace as replace_record
from pytest_hwperf.records.units import show
from pytest_hwperf.stats.service.loads import bound_of, piece_of, share_of_one, undelayed

_SLOWEST_QPS = 5  # of a server load in pairs
_OWN = frozenset({"latency", "throughput", "sample_throughput"})  # what a load says otherwise than calls in a row


def batch_size_under(load: Load | None, batch_size: int | None) -> int | None:
    """Return the rows of a call: those of a multi_stream load, else as given."""
    if load is None or load.kind != "multi_stream":
        return batch_size
    if batch_size not in (None, load.rows):
        raise UsageProblem(
            f"batch_size={batch_size}, and hwload(kind='multi_stream', rows={load.rows}): give the rows of a call once"
        )
    return load.rows


def block_under(load: Load | None) -> Callable[[Stream, int], Served] | None:
    """Return what makes the calls of a turn in a pair: a piece of the load from its beginning."""
    if load is None:
        return None
    load = share_of_one(load)
    if load.kind == "server" and load.qps < _SLOWEST_QPS:
        raise MeasurementError(
            f"hwload(qps={load.qps:g}): a turn of a pair waits for its calls, which takes too long at this rate; "
            f"{_SLOWEST_QPS} calls a second are the fewest"
        )

    def served(stream: Stream, calls: int) -> Served:
        times = served_by(piece_of(load, calls), stream)
        one_thread = load.kind == "server" and not stream.awaits and load.at_once(waiting=False) == 1
        return undelayed(times) if one_thread else times

    return served


def pace_under(load: Load | None) -> float:
    """Return the seconds from the beginning of a call to that of the next in a turn, 0 where no schedule says so."""
    return 1 / share_of_one(load).qps if load is not None and load.kind == "server" else 0.0


def subject_of_requests(target: object, args: Sequence[object], load: Load | None, size: int, loop: Loop) -> Subject:
    """Return requests to an address as what is measured: that of the marker, or of `hwperf(address, X)`."""
    given = [target, *args] if load is not None and load.url else [*args]
    address = load.url if load is not None and load.url else str(target)
    if load is None or len(given) > 1:
        raise UsageProblem(
            "requests need a load and rows: @pytest.mark.hwload(kind='server', qps=50, seconds=2, url='http://…') with "
            "hwperf(X), or without url= hwperf('http://…', X)"
        )
    return subject_of_address(Request(url=address, headers=load.headers), given[0] if given else None, load, size, loop)


def share_of_load(item: pytest.Item, subject: Subject, task: WorkerTask) -> WorkerResult:
    """Make in this process its share of a test's load, warm, and together with the other processes."""
    load, settings, loaded = test_of(item).markers.load, session_of(item.config).settings, subject.load()
    assert load is not None  # noqa: S101 - else nobody asks for a share
    limits = SamplingLimits(
        max_time_s=settings.sample_time_s, hold_collector=settings.gc == "off", compiles=loaded.compiles
    )
    found = list[WorkerResult]()

    def share(_: RawSamples) -> int:
        found.append(reply_share(load, stream, task))
        return 1

    with loaded.scope():
        stream = loaded.stream()
        Sampler(stream, limits).run((), share)
    return found[0]


class UnderLoad:
    """One measurement under the load of its test."""

    def __init__(
        self, item: pytest.Item, subject: Subject, stream: Stream, label: str, announce: Callable[[str, float], object]
    ) -> None:
        """Make the calls of `stream`; `announce` is told before the load what it is, and how many seconds it takes."""
        load = test_of(item).markers.load
        assert load is not None  # noqa: S101 - else calls are made in a row
        self._item, self._label, self._stream, self._announce = item, label, stream, announce
        self._load = replace_record(load, timeout_s=TIMEOUT_S) if subject.elsewhere else load
        self._elsewhere = subject.elsewhere
        self._served: Served | None = None
        self._cpu_s = 0.0  # of processes that carry the calls

    def measure(self, sampler: Sampler, meters: list[Meter]) -> tuple[RawSamples, list[Meter]]:
        """Warm up and run the load; return what was measured, and by which meters.

        What other processes do is counted by themselves, and their start is no part of the load.
        """
        if not self._load.processes:
            return sampler.run(meters, self._run), meters
        cpu: list[Meter] = [CpuTimeMeter(lambda: self._cpu_s, children=float)]
        measured = sampler.run(cpu, self._run)
        measured.windows[:] = [replace(one, wall_s=max(self._made.ended)) for one in measured.windows]
        return measured, cpu

    def _run(self, measured: RawSamples) -> int:
        load = self._load
        self._announce(f"load {load.kind}", load.lasts_s(measured.first_call_s))
        if load.processes:
            check_processes(load, self._stream)
            times, task = Times(), WorkerTask(role="load", node=node_of(self._item), label=self._label)
            with timeout_paused(self._item):
                self._cpu_s = run_by_processes(load, task, command_for(self._item), times)
            self._served = times.served()
        else:
            self._served = served_by(load, self._stream, elsewhere=self._elsewhere)
        measured.latency_s.extend(self._served.latencies)
        return len(self._served.due)

    @property
    def _made(self) -> Served:
        assert self._served is not None  # noqa: S101 - it has run
        return self._served

    @property
    def context(self) -> dict[str, str]:
        """The delay of the generator itself, which 99 % of its calls keep."""
        return {"generator_lag": show(self._made.lag_s, "s")}

    def samples(
        self, others: Sequence[Sample], unmeasured: Mapping[str, Statement], rows: int | None
    ) -> tuple[tuple[Sample, ...], dict[str, Statement]]:
        """Return the samples of the load with those that meters took, and why others are missing."""
        load, budgets = self._load, test_of(self._item).markers.budgets
        within_s = bound_of(load, budgets)
        noted = next((one.warnings for one in others if one.metric == "throughput"), ())
        found = load_samples(
            load,
            self._made,
            f"{CLOCK}: {load.arrivals}, {carrier_of(load, self._stream)}",
            rows=rows,
            within_s=within_s,
            warnings=noted,
        )
        missing = {"goodput": state("no bound of goodput")} if within_s is None else {}
        if load.processes:
            missing[ENERGY] = said("energy is not counted where processes carry the calls: name cpu_time instead")
        return (*found, *(one for one in others if one.metric not in _OWN)), {**unmeasured, **missing}
