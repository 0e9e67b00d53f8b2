"""The schedule of a server load for Locust, whose workers share it: for loads that one machine cannot make.

It needs the extra `locust`. The file that is written stands alone: the machines of its workers need Locust only.
"""

import json
import math
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.loads.http import LARGEST_ANSWER, Request
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import Values
from pytest_hwperf.records.structs import Record

_STARTS_S = 60.0  # in which Locust's processes have to start and to end
_LOG = 2000  # characters of its log that are quoted

_FILE = '''"""A server load for Locust, written by hwperf load. Each of WORKERS users makes its share of one schedule.

locust -f THIS_FILE --headless -u WORKERS -r WORKERS (with --master or --worker on each machine)
"""

import json
import random
import time

import gevent
from locust import User, task
from locust.contrib.fasthttp import FastHttpSession
from locust.exception import StopUser

GIVEN = json.loads({given!r})


def schedule():
    chance, now = random.Random(GIVEN["seed"]), 0.0
    while (now := now + chance.gammavariate(GIVEN["shape"], 1 / (GIVEN["qps"] * GIVEN["shape"]))) < GIVEN["seconds"]:
        yield now


class Share(User):
    """Makes every n-th call of the schedule, due when it says so, whatever becomes of the calls before."""

    host = GIVEN["url"]

    @task
    def share(self):
        runner = self.environment.runner
        first, count = max(0, getattr(runner, "worker_index", 0)), GIVEN["workers"]
        client, began = self.session(), time.perf_counter()
        calls = []
        for number, due in enumerate(schedule()):
            if number % count == first % count:
                gevent.sleep(max(0.0, began + due - time.perf_counter()))
                calls.append(gevent.spawn(self.call, client, number, began + due))
        gevent.joinall(calls)
        raise StopUser

    def session(self):
        return FastHttpSession(
            base_url="", user=self, request_event=_Quiet(), concurrency=GIVEN["at_once"],
            network_timeout=GIVEN["timeout_s"], connection_timeout=GIVEN["timeout_s"],
        )

    def call(self, client, number, due):
        try:  # the answer is read and not kept, packed as it comes
            with gevent.Timeout(max(0.001, due + GIVEN["timeout_s"] - time.perf_counter())):
                failed = self.failure(client, GIVEN["bodies"][number % len(GIVEN["bodies"])])
        except (Exception, gevent.Timeout) as error:
            failed = Exception(f"{{type(error).__name__}} {{error}}")
        self.environment.events.request.fire(
            request_type=GIVEN["method"], name="failed" if failed else "served", response_length=0, exception=failed,
            response_time=1e3 * (time.perf_counter() - due), context={{}},
        )

    def failure(self, client, body):
        answer = client.request(
            GIVEN["method"], GIVEN["url"], data=body or None, headers=GIVEN["headers"], allow_redirects=False,
            stream=True,
        )
        if not (answer.ok and 200 <= answer.status_code < 300):
            return Exception(str(answer.status_code))
        size = 0
        for part in answer.iter_content(65536, decode_content=False):
            size += len(part)
            if size > GIVEN["largest"]:
                return Exception("the answer is too large")
        return None


class _Quiet:
    """Is told of each request by Locust's own client, whose times begin when it is sent and not when it is due."""

    def fire(self, **_):
        pass
'''


class LocustResult(Record, frozen=True, kw_only=True):
    """What became of a load; Locust rounds times to 1 ms, and above 100 ms to two digits."""

    latencies: Values  # s from when each call was due
    failed: int
    rate: float  # completed calls a second


def locustfile_of(load: Load, request: Request, bodies: Sequence[bytes], workers: int) -> str:
    """Return a locustfile whose users share the schedule of a load."""
    if load.kind != "server":
        raise UsageProblem(f"Locust's workers share the schedule of a server load; {load.kind} has none")
    try:
        texts = [body.decode() for body in bodies]
    except UnicodeDecodeError:
        raise UsageProblem("bodies of requests that Locust sends are text") from None
    given = {
        "url": request.url,
        "method": request.method,
        "headers": dict(request.headers),
        "timeout_s": request.timeout_s,
        "largest": LARGEST_ANSWER,
        "bodies": texts,
        "qps": load.qps,
        "seconds": load.seconds,
        "seed": load.seed,
        "shape": load.shape,
        "at_once": load.at_once(waiting=True),
        "workers": workers,
    }
    return _FILE.format(given=json.dumps(given))


def drive_locust(text: str, workers: int, seconds: float, timeout_s: float, folder: Path) -> LocustResult:
    """Run a locustfile on this machine with so many workers, and return what became of its calls."""
    require("locust", "--engine=locust: Locust is not installed", "locust")
    file = folder / "locustfile.py"
    file.write_text(text, encoding="utf-8")
    users, ends = str(workers), ["-t", f"{max(1, round(seconds + 1))}s", "--stop-timeout", f"{math.ceil(timeout_s)}"]
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--json", "--processes", users]
    command += ["-u", users, "-r", users, *ends]
    command += ["--skip-log-setup", "--only-summary", "--master-bind-host", "127.0.0.1", "--exit-code-on-error", "0"]
    limit_s = seconds + timeout_s + _STARTS_S
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, and a file of this package
            command, cwd=folder, check=False, capture_output=True, text=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"Locust has not ended within {limit_s:.3g} s") from error
    if done.returncode:
        raise MeasurementError(f"Locust ended with code {done.returncode}", log=done.stderr[-_LOG:])
    return read_statistics(done.stdout)


def read_statistics(text: str) -> LocustResult:
    try:
        found = {one["name"]: one for one in _arrays(text) if one["num_requests"]}
        failed = found["failed"]["num_requests"] if "failed" in found else 0
        if failed and "served" not in found:
            raise MeasurementError(f"{failed} of {failed} requests failed")
        served = found["served"]
        histogram = {float(ms): int(count) for ms, count in served["response_times"].items()}
        seconds = served["last_request_timestamp"] - served["start_time"]
    except (ValueError, KeyError, TypeError) as error:
        raise MeasurementError("Locust has reported no calls", log=text[-_LOG:]) from error
    latencies = array("d", (ms / 1e3 for ms, count in sorted(histogram.items()) for _ in range(count)))
    return LocustResult(latencies=latencies, failed=failed, rate=len(latencies) / max(seconds, 1e-3))


def _arrays(text: str) -> Iterator[Any]:
    """Yield the items of every JSON array in a text: each process writes one, and the workers' are empty."""
    reader, begin = json.JSONDecoder(), text.find("[")
    while begin >= 0:
        found, end = reader.raw_decode(text, begin)
        yield from found
        begin = text.find("[", end)
