"""`hwperf load --engine=locust` and `--locustfile`: the same schedule, shared by the workers of Locust."""

import argparse
from array import array
from collections.abc import Sequence

from pytest_hwperf.cli.load_report import OK, exit_code, load_run, show_run
from pytest_hwperf.cli.output import say_lines
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.loads import Load
from pytest_hwperf.core.records import OF_A_LOAD, Budget, Sample
from pytest_hwperf.core.statements import state
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.loads.http import Request, without_port
from pytest_hwperf.loads.locust import LocustResult, drive_locust, locustfile_of

_MOST_WORKERS = 256
_ROUNDED = "Locust rounds times to 1 ms, and from 100 ms on to two digits"


def run_by_locust(
    options: argparse.Namespace, load: Load, request: Request, bodies: Sequence[bytes], budgets: Sequence[Budget]
) -> int:
    """Write the locustfile, or run it on this machine and show what became of the load; return the exit code.

    Raises:
        UsageProblem: no server load, or Locust is not installed.
    """
    if not 1 <= options.workers <= _MOST_WORKERS:
        raise UsageProblem(f"--workers={options.workers}: processes of Locust, from 1 to {_MOST_WORKERS}")
    text = locustfile_of(load, request, bodies, options.workers)
    if options.locustfile:
        say_lines(text)
        return OK
    with workdir() as folder:
        result = drive_locust(text, options.workers, load.seconds, request.timeout_s, folder)
    source = f"locust: {load.arrivals}, {options.workers} workers"
    conditions = {"load": str(load), "url": without_port(request.url)}
    run = load_run(request.url, samples_of(result, source), conditions)
    return exit_code(show_run(run, budgets, options.json), result.failed, ())


def samples_of(result: LocustResult, source: str) -> tuple[Sample, ...]:
    """Return latency and throughput of a load that Locust has made."""
    calls = len(result.latencies) + result.failed
    failed = (state("calls failed", failed=result.failed, calls=calls),) if result.failed else ()
    warnings = (_ROUNDED, *failed)
    latency = Sample(metric="latency", values=result.latencies, per=OF_A_LOAD, source=source, warnings=warnings)
    rate = array("d", [result.rate])
    return latency, Sample(metric="throughput", values=rate, per="window", source=source, warnings=warnings)
