"""MLPerf LoadGen as the engine of a load: it decides when calls are issued. It needs the extra `loadgen`.

It runs one test in a process, and judges it by rules of its own; its logs stay in a folder.
"""

import os
import queue
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.loads import Load, LoadKind
from pytest_hwperf.loads.loadgen_log import SUMMARY, LoadGenResult, read_summary
from pytest_hwperf.loads.threads import Call
from pytest_hwperf.loads.times import Times

SCENARIOS: Mapping[LoadKind, str] = MappingProxyType(
    {"single_stream": "SingleStream", "multi_stream": "MultiStream", "server": "Server", "offline": "Offline"}
)
_ROWS = 1024  # of its query set, whose samples this package chooses itself
_FASTEST_S = 1e-6  # of a call, by which it reserves queries: too few would end a run early
_LONGEST_BOUND_S = 3600.0  # of a server load that has none
_ran = list[int]()  # processes that have run a test: the present one, or none


def is_installed() -> bool:
    """Whether there is a LoadGen."""
    return find_spec("mlperf_loadgen") is not None


def why_not(load: Load, *, waits: bool) -> str:
    """Say why LoadGen cannot run a load, "" where it can."""
    if waits:
        return "it makes no async calls and no requests"
    if load.processes:
        return "it lets threads answer: leave carriers= out"
    if load.kind not in SCENARIOS:
        return f"it knows {', '.join(SCENARIOS)}, and no {load.kind}"
    if load.kind == "server" and load.shape != 1:
        return "its schedule is a Poisson process: leave shape= out"
    return "it runs one test in a process: give each measurement a test of its own" if os.getpid() in _ran else ""


def drive_loadgen(load: Load, call: Call, times: Times, folder: Path, within_s: float | None) -> LoadGenResult:
    """Let LoadGen issue the calls of a load; return what it says of them.

    Args:
        load: of one of its kinds.
        call: makes one.
        times: filled while it runs; a call counts as due when LoadGen issues it.
        folder: of its logs, which exists.
        within_s: bound of the latency of a server load.

    Raises:
        UsageProblem: it cannot run this load, or has run one in this process.
    """
    import mlperf_loadgen as loadgen

    if reason := why_not(load, waits=False):
        raise UsageProblem(f"--hwperf-loads=loadgen: {reason}")
    _ran.append(os.getpid())
    output = loadgen.LogSettings()
    output.log_output.outdir = str(folder)
    output.log_output.copy_summary_to_stdout = False
    output.enable_trace = False
    served = _Served(load, call, times, loadgen)
    system, samples = loadgen.ConstructSUT(served.issue, _nothing), loadgen.ConstructQSL(_ROWS, _ROWS, _load, _load)
    try:
        loadgen.StartTestWithLogSettings(system, samples, _settings(loadgen, load, within_s), output)
    finally:
        served.end()
        loadgen.DestroyQSL(samples)
        loadgen.DestroySUT(system)
    return read_summary((folder / SUMMARY).read_text(encoding="utf-8"))


def _nothing() -> None:
    """Have nothing to flush."""


def _load(_: object) -> None:
    """Have nothing to load: rows are chosen by the measured call."""


class _Served:
    """What answers LoadGen's queries: threads, as many as may run at once, or for one after the other its own."""

    def __init__(self, load: Load, call: Call, times: Times, loadgen: Any) -> None:
        self._call, self._times, self._loadgen = call, times, loadgen
        self._began: float | None = None  # when the first query was issued, for which LoadGen takes half a second
        self._number = 0
        self._together = load.kind == "multi_stream"  # the samples of a query are the rows of one call
        self._line: queue.SimpleQueue[tuple[int, float, list[int]] | None] = queue.SimpleQueue()
        count = load.at_once(waiting=False) if load.is_open else 0
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def issue(self, samples: Sequence[Any]) -> None:
        """Answer the samples of a query, or let a thread answer them."""
        self._began = perf_counter() if self._began is None else self._began
        due, ids = perf_counter() - self._began, [sample.id for sample in samples]
        for part in [ids] if self._together else [[one] for one in ids]:
            number, self._number = self._number, self._number + 1
            if self._threads:
                self._line.put((number, due, part))
            else:
                self._answer(number, due, part)

    def end(self) -> None:
        """Let all threads end."""
        for _ in self._threads:
            self._line.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (asked := self._line.get()) is not None:
            self._answer(*asked)

    def _answer(self, number: int, due: float, ids: list[int]) -> None:
        try:
            self._call(number)
        except Exception as error:  # noqa: BLE001 - whatever fails a call is counted, and the load goes on
            self._times.note_failure(error)
        else:
            self._times.note(number, due, due, perf_counter() - (self._began or 0.0))
        self._loadgen.QuerySamplesComplete([self._loadgen.QuerySampleResponse(one, 0, 0) for one in ids])


def _settings(loadgen: Any, load: Load, within_s: float | None) -> Any:
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, SCENARIOS[load.kind])
    settings.mode = loadgen.TestMode.PerformanceOnly
    offline = load.kind == "offline"
    settings.min_duration_ms = 1 if offline else round(1e3 * load.seconds)
    settings.min_query_count = load.calls if offline else 1
    settings.server_target_qps = load.qps or 1.0
    settings.server_target_latency_ns = round(1e9 * (within_s or _LONGEST_BOUND_S))
    settings.offline_expected_qps = 1.0
    settings.single_stream_expected_latency_ns = round(1e9 * _FASTEST_S)
    settings.multi_stream_expected_latency_ns = round(1e9 * _FASTEST_S)
    settings.multi_stream_samples_per_query = load.rows
    settings.schedule_rng_seed = load.seed
    return settings
