"""A scheduler of dask that is there already, with workers of two kinds, on loopback, with and without TLS."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

_START_S = 60.0
_REQUEST = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=hwperf")


def certificate(folder: Path) -> dict[str, str]:
    """Make a certificate of its own authority; return the variable by which all processes of dask find it."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", *_REQUEST, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    roles = "".join(f"      {role}: {{cert: {cert}, key: {key}}}\n" for role in ("scheduler", "worker", "client"))
    text = f"distributed:\n  comm:\n    tls:\n      ca-file: {cert}\n{roles}"
    (folder / "tls.yaml").write_text(text, encoding="utf-8")
    return {"DASK_CONFIG": str(folder / "tls.yaml")}


@contextmanager
def scheduler(folder: Path, kinds: Sequence[str], variables: Mapping[str, str]) -> Iterator[str]:
    """Start a scheduler and a worker of each kind, as one does by hand; yield the address of the scheduler."""
    given = {**os.environ, **variables}
    protocol = "tls" if "DASK_CONFIG" in variables else "tcp"
    log = folder / "scheduler.log"
    with ExitStack() as stack:
        words = ["scheduler", "--host", f"{protocol}://127.0.0.1", "--port", "0", "--no-dashboard"]
        _start(stack, words, log, given)
        address = _said(log, "Scheduler at:").split("Scheduler at:")[1].strip()
        for number, kind in enumerate(kinds, 1):
            words = ["--nthreads", "1", "--memory-limit", "0", "--resources", f"hwperf.{kind}=1", "--no-dashboard"]
            name = f"{kind}{number}"
            _start(stack, ["worker", address, "--name", name, *words], folder / f"{name}.log", given)
        for number, kind in enumerate(kinds, 1):
            _said(folder / f"{kind}{number}.log", "Registered to:")
        yield address


def _start(stack: ExitStack, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
    command = [str(Path(sys.executable).with_name("dask")), *words]
    with log.open("wb") as output:
        process = stack.enter_context(subprocess.Popen(command, stdout=output, stderr=output, env=environment))
    stack.callback(process.terminate)


def _said(log: Path, text: str) -> str:
    """Return the line that a process writes when it has started."""
    until = monotonic() + _START_S
    while monotonic() < until:
        for line in log.read_text(encoding="utf-8").splitlines():
            if text in line:
                return line
        sleep(0.1)
    raise SystemExit(f"{text} was not said:\n{log.read_text(encoding='utf-8')}")
