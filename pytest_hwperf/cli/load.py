"""`hwperf load`: a load on an address, a function or an ONNX file, and the highest rate that is served in time."""

import argparse
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli import output
from pytest_hwperf.cli.inputs import read_data
from pytest_hwperf.gate.models import load as driver
from pytest_hwperf.gate.models.load import run_by_processes, run_load
from pytest_hwperf.gate.models.requests import headers_of, requests_of, subject_of_target, warmed_up
from pytest_hwperf.host.files import read_given
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.host.progress import ProgressLine, ticking
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.host.worker_protocol import WorkerTask, reply
from pytest_hwperf.loads.http import Request, without_port
from pytest_hwperf.loads.local import Times, doubts_of, load_samples
from pytest_hwperf.loads.locust import drive_locust, locustfile_of
from pytest_hwperf.measure.stream import Loop, OwnLoop, Stream
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import LONGEST_S, Load, is_address, parse_budget_lines, parse_load
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import OF_A_LOAD, Run, Sample, Served, replace
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.records.verdict import Budget, Judgement, Policy
from pytest_hwperf.reports import json_file, terminal
from pytest_hwperf.reports.document import Paragraph
from pytest_hwperf.reports.table import Detail
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.service.loads import bound_of
from pytest_hwperf.stats.verdicts import judge


def show_run(
    target: str,
    samples: Iterable[Sample],
    conditions: Mapping[str, str],
    budgets: Sequence[Budget],
    json: str | None,
    *,
    interrupted: bool = False,
) -> Judgement:
    """Judge the samples of a load as a run, show its table, and write its report where a file is named."""
    run = Run(
        test=target,
        label="",
        scenario="",
        machine=describe_machine(),
        revision="",
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        samples=tuple(samples),
        conditions=conditions,
        context={},
    )
    found = figures(run)
    judgement = Judgement(run=run, figures=found, verdicts=judge(run, found, (), budgets, Policy()))
    report = Report(machine=run.machine, revision="", started_at=run.started_at, baseline="", judgements=(judgement,))
    show_table(report)
    if interrupted:
        output.say("interrupted: these are the calls that were over")
    if json:
        output.write_file(json, json_file.render(replace(report, partial=interrupted)))
    return judgement


def show_table(report: Report, detail: Detail = "normal") -> None:
    """Show a report as pytest does."""
    for text, style in terminal.render(report, width=output.width(), detail=detail):
        output.say(text, style)


def exit_code(judgement: Judgement, failed: int, doubts: Sequence[str]) -> int:
    """Return 1 where a budget is not kept or calls failed, 3 where that is not known, else 0."""
    outcomes = {verdict.outcome for verdict in judgement.verdicts}
    if failed or "failed" in outcomes:
        return output.FAILED
    inconclusive = outcomes - {"passed"} or set(doubts) - {"degrades", "generator adds"}
    return output.INCONCLUSIVE if inconclusive else output.OK


_PERCENTILE = 0.95  # of a peak rate
_LARGEST_BODY = 100_000_000  # bytes of a request
_FIRST_QPS = 100.0
_MOST_WORKERS = 256  # of Locust
_ROUNDED = "Locust rounds times to 1 ms, and from 100 ms on to two digits"


def run(options: argparse.Namespace) -> int:
    """Run the load, show what became of it, and return the exit code."""
    arg.check_seconds(LONGEST_S, "10", timeout=options.timeout)
    load, budgets = _load_of(options), parse_budget_lines(options.budget)
    if options.locustfile or options.engine == "locust":
        request, bodies = requests_of(*_request(options), options.batch_size)
        return _run_by_locust(options, load, request, bodies, budgets)
    with closing(OwnLoop()) as loop, warmed_up(subject := _subject(options, load, loop)) as stream:
        if (task := driver.asked_share()) is not None:
            reply(driver.reply_share(load, stream, task), task)
            return output.OK
        driver.check_processes(load, stream)
        shown = _ShownLoads(options=options, subject=subject, stream=stream, budgets=budgets)
        return shown.peak(load) if options.find_peak else shown.one(load)


def _load_of(options: argparse.Namespace) -> Load:
    """Return the load of the options."""
    names = ("qps", "seconds", "seed", "shape", "in_flight", "rows", "calls", "within_ms", "carriers")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.find_peak:
        if options.locustfile or options.engine == "locust":
            raise UsageProblem("--find-peak tries rate after rate itself: leave --engine=locust and --locustfile out")
        if options.p95_ms is None or options.p95_ms <= 0 or options.kind != "server":
            raise UsageProblem("--find-peak takes a server load and the bound of its p95, such as --p95-ms=20")
        given.setdefault("qps", _FIRST_QPS)
    try:
        load = parse_load({"kind": options.kind, **given})
    except UsageProblem as problem:
        raise UsageProblem(str(problem).replace("hwload: ", "").replace("=, ", ", ")) from problem
    return replace(load, timeout_s=options.timeout) if is_address(options.target) else load


def _subject(options: argparse.Namespace, load: Load, loop: Loop) -> Subject:
    """Return the target as something to measure."""
    request, X = _request(options)
    rows = load.rows if load.kind == "multi_stream" else options.batch_size
    return subject_of_target(request, X, load, loop, batch_size=rows, threads=options.threads)


def _request(options: argparse.Namespace) -> tuple[Request, Any]:
    """Return what each request has in common, the target its address, and the rows."""
    requests = is_address(options.target)
    if not requests and (options.locustfile or options.engine == "locust"):
        raise UsageProblem("Locust sends requests: give an address, such as http://127.0.0.1:8000")
    if not requests and (options.header or options.method or options.body is not None):
        raise UsageProblem(
            "--body, --header and --method are of requests: give an address, such as http://127.0.0.1:8000"
        )
    if options.body is not None and options.data:
        raise UsageProblem("--body and --data are both what is sent: give one")
    X = read_data(options.data, None)[0] if options.data else options.body
    if options.body is not None and X.startswith("@"):
        X = read_given(X[1:], _LARGEST_BODY, "name a file after @", name=f"--body={X}")
    request = Request(
        url=options.target,
        method=options.method or ("GET" if X is None else "POST"),
        headers=headers_of(options.header),
        timeout_s=options.timeout,
    )
    return request, X


def _run_by_locust(
    options: argparse.Namespace, load: Load, request: Request, bodies: Sequence[bytes], budgets: Sequence[Budget]
) -> int:
    """Write the locustfile, or run it on this machine and show what became of the load; return the exit code."""
    if not 1 <= options.workers <= _MOST_WORKERS:
        raise UsageProblem(f"--workers={options.workers}: processes of Locust, from 1 to {_MOST_WORKERS}")
    text = locustfile_of(load, request, bodies, options.workers)
    if options.locustfile:
        output.say_lines(text)
        return output.OK
    with workdir() as folder:
        result = drive_locust(text, options.workers, load.seconds, request.timeout_s, folder)
    calls, source = len(result.latencies) + result.failed, f"locust: {load.arrivals}, {options.workers} workers"
    failed = (state("calls failed", failed=result.failed, calls=calls),) if result.failed else ()
    latency = Sample(
        metric="latency", values=result.latencies, per=OF_A_LOAD, source=source, warnings=(_ROUNDED, *failed)
    )
    rate = replace(latency, metric="throughput", values=array("d", [result.rate]), per="window")
    conditions = {"load": str(load), "url": without_port(request.url)}
    judgement = show_run(request.url, (latency, rate), conditions, budgets, options.json)
    return exit_code(judgement, result.failed, ())


@dataclass(slots=True, kw_only=True)
class _ShownLoads:
    """Loads on one target, and what is shown of them."""

    options: argparse.Namespace
    subject: Subject
    stream: Stream
    budgets: tuple[Budget, ...]
    times: Times = field(default_factory=Times)  # of the load that runs
    line: ProgressLine = field(default_factory=output.progress_line)

    def one(self, load: Load) -> int:
        """Run one load."""
        interrupted = False
        try:
            served = self.served(load)
        except KeyboardInterrupt:
            served, interrupted = self.times.served(), True
        output.clear_progress()
        if not served.due:
            output.say("interrupted before a call was over")
            return output.INTERRUPTED
        judgement = self.report(load, served, interrupted=interrupted)
        doubts = [doubt.kind for doubt in doubts_of(load, served, bound_of(load, self.budgets))]
        return output.INTERRUPTED if interrupted else exit_code(judgement, served.failed, doubts)

    def peak(self, load: Load) -> int:
        """Search the highest rate."""
        search = driver.PeakSearch(load=load, q=_PERCENTILE, within_s=self.options.p95_ms / 1e3, run=self.served)
        found, interrupted = None, False
        try:
            found = search.search()
        except KeyboardInterrupt:
            interrupted = True
        output.clear_progress()
        output.show_document(Paragraph(_tried(one)) for one in search.tries)
        if interrupted:
            output.say("interrupted: the rates above are all that were tried")
            return output.INTERRUPTED
        if found is None:
            output.say(f"no rate is served with its p95 within {self.options.p95_ms:g} ms")
            return output.FAILED
        output.say(f"peak: {found.load.qps:.4g} calls a second with p95 within {self.options.p95_ms:g} ms, confirmed")
        doubts = [found.doubt.kind] if found.doubt else []
        return exit_code(self.report(found.load, found.served), found.served.failed, doubts)

    def served(self, load: Load) -> Served:
        """Run a load with a line that shows how far it is."""
        self.times = Times()
        with ticking(partial(self._progress, load)):
            if load.processes:
                run_by_processes(
                    load, WorkerTask(role="load"), driver.command_again(self.options.given, load), self.times
                )
            else:
                run_load(load, self.stream, self.times)
        answered = self.options.find_peak or self.times.made > self.times.failed  # of a peak, the warm-up was
        if self.times.error is not None and not (self.subject.elsewhere and answered):
            failed = f"{self.times.failed} of {self.times.made} calls failed"
            raise MeasurementError(f"{failed}: {type(self.times.error).__name__}: {self.times.error}")
        return self.times.served()

    def _progress(self, load: Load, seconds: float) -> None:
        whole = load.seconds if load.kind != "offline" else 0.0
        share = min(1.0, seconds / whole) if whole else min(1.0, self.times.made / load.calls)
        left = f", {max(0.0, whole - seconds):.0f} s left" if whole else ""
        made = "" if load.processes else f", {counted(self.times.made, 'call')}"  # they tell when they have ended
        self.line.show(f"{load}: {10 * int(10 * share)} %", f"{made}{left}")

    def report(self, load: Load, served: Served, *, interrupted: bool = False) -> Judgement:
        """Judge the budgets, show the table and write the JSON."""
        source = f"perf_counter: {load.arrivals}, {driver.carrier_of(load, self.stream)}"
        within_s, rows = bound_of(load, self.budgets), self.subject.rows
        samples = load_samples(load, served, source, rows=rows, within_s=within_s, warnings=())
        conditions = {**self.subject.conditions, "load": str(load)}
        json = self.options.json
        return show_run(self.options.target, samples, conditions, self.budgets, json, interrupted=interrupted)


def _tried(one: driver.Try) -> str:
    kept = "confirmed" if one.kept and one.confirms else "served" if one.kept else "not served"
    bound = "too few calls" if one.bound_s is None else f"p95 within {show(one.bound_s, 's')}"
    doubt = f"; {one.doubt}" if one.doubt else ""
    return f"{one.load.qps:.4g}/s: {kept}, {bound}, {counted(len(one.served.due), 'call')}{doubt}"


_NUMBERS: Mapping[str, tuple[type, str]] = {
    "qps": (float, "send this many calls a second"),
    "seconds": (float, "send calls for this long, with --find-peak at each rate; default: 2"),
    "seed": (int, "draw the schedule from this; default: 1"),
    "shape": (float, "space calls regularly (above 1) or in bursts (below); default: 1, Poisson"),
    "in-flight": (int, "keep at most this many calls open at once"),
    "rows": (int, "send this many rows per call of multi_stream"),
    "calls": (int, "send this many calls in all with offline"),
}
_ARGUMENTS = (
    arg.option("target", "TARGET", "call this: http://…, module:function or an ONNX file"),
    arg.option(
        "--kind", "KIND", "choose single_stream, multi_stream, concurrency, offline or server", default="server"
    ),
    *(
        arg.option(f"--{name}", name.upper().replace("-", "_"), text, type=kind)
        for name, (kind, text) in _NUMBERS.items()
    ),
    arg.option("--carriers", "CARRIERS", "make concurrent calls in threads or processes; default: threads"),
    arg.option("--within-ms", "MS", "count slower answers out of goodput", type=float),
    arg.flag("--find-peak", "search the highest rate with p95 within --p95-ms"),
    arg.option("--p95-ms", "MS", "limit the p95 of --find-peak", type=float),
    arg.several("--budget", "KEYWORD=LIMIT", "judge this budget, e.g. latency_p99_ms=100"),
    arg.option("--data", "FILE", arg.DATA),
    *(arg.BATCH_SIZE, arg.THREADS, arg.written_json("the report")),
    arg.option("--body", "TEXT|@FILE", "send this body instead of --data"),
    arg.HEADER,
    arg.option("--method", "METHOD", "send requests by this method; default: POST with a body, else GET"),
    arg.TIMEOUT,
    arg.option("--engine", None, "send requests with this engine", choices=["own", "locust"], default="own"),
    arg.option("--workers", "N", "start this many processes of Locust", type=int, default=2),
    arg.flag("--locustfile", "write a locustfile with this load, and send nothing"),
)
COMMAND = arg.Subcommand(
    "load",
    run,
    "put a load on an address, a function or an ONNX file",
    _ARGUMENTS,
    "Put a load on a target; show latency, throughput and, with a bound, goodput. Use your own servers only.",
    answers={
        0: "every budget is kept",
        1: "a budget is missed, requests failed after the warm-up, or every rate is too high",
        3: "inconclusive, or the load itself is in doubt",
    },
)
