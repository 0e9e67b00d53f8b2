"""The network as a service: a load of requests, whose latency counts from when each was due."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from digits_models import Digits

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start the service on a free port of this machine; each side of a gate has one of its own."""
    missing = [name for name in ("fastapi", "uvicorn", "httpx") if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; pip install 'pytest-hwperf[http]' fastapi uvicorn")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        command = ["uvicorn", "digits_server:app", "--fd", str(bound.fileno()), "--log-level", "warning"]
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=PROJECT, pass_fds=[bound.fileno()])
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        try:
            wait_until_ready(address, process)
            yield address
        finally:
            process.terminate()
            process.wait()


def wait_until_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait for the model to be trained, for a minute at most."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urlopen(f"{address}/ready", timeout=5).close()
        except (URLError, TimeoutError):
            time.sleep(0.1)
        else:
            return
    pytest.fail("the service did not start")


@pytest.mark.hwload(kind="server", qps=50, seconds=3)
@pytest.mark.hwbudget(latency_p95_ms=500, goodput_min_qps=10)
def test_requests(hwperf, server: str, digits: Digits) -> None:
    """One image a request, fifty times a second."""
    hwperf(f"{server}/predict", digits.X_test)
