"""A fleet for real: three hosts of two kinds gate equal code and a slowdown, and one host is killed meanwhile.

    python -m benchmarks fleet_live HOW [CASE ...]

It prints what came of each case. Hosts are processes of this machine (`local`),
reached by a server of SSH that is started on loopback with keys of its own (`ssh`; `install`, with an environment of
its own for each gate), or the workers of a scheduler of dask (`scheduler`; `tls`, with certificates). With
`--interrupt` the cases are signals at several stages, and what they leave. It needs the extra `fleet`, for SSH the
programs sshd and ssh-keygen, for TLS openssl.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

from benchmarks.gate.fleet_endings import ENDINGS, environment, gates, interrupted
from benchmarks.gate.fleet_scheduler import certificate, scheduler
from benchmarks.projects import commit

WORK = """import math


def work(rounds):
    return sum(math.sqrt(number) for number in range(rounds))
"""
TESTS = """from functools import partial

import pytest

from work import work


@pytest.mark.parametrize("rounds", [2000, 8000])
def test_work(hwperf, rounds):
    hwperf(partial(work, rounds))
"""
SLOWER = WORK.replace("range(rounds)", "range(rounds * 110 // 100)")
KINDS = ("big", "small", "small")
_FOR_PIP = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")  # an account on a host would have its own
PORT_OF_TESTS = 0  # whichever is free
CASES = (("equal code", WORK, False), ("equal code, a host killed", WORK, True), ("+10 %, a host killed", SLOWER, True))


def project(folder: Path) -> Path:
    """Make a repository with a package and tests."""
    folder.mkdir()
    ini = "[pytest]\npythonpath = .\n"
    commit(folder, {"work.py": WORK, "test_work.py": TESTS, "pytest.ini": ini, "requirements.txt": ""})
    return folder


@contextmanager
def server(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a server of SSH on loopback, with an environment; yield what hosts.toml says of three addresses of it."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(sshd).exists() or not shutil.which("ssh-keygen"):
        raise SystemExit("skipped: sshd or ssh-keygen is not there; Debian has them in openssh-server")
    with socket.create_server(("127.0.0.1", PORT_OF_TESTS)) as free:
        port = free.getsockname()[1]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    addresses = [f"127.0.0.{number}" for number in (1, 2, 3)]
    key = (folder / "host.pub").read_text(encoding="utf-8")
    (folder / "known").write_text(",".join(f"[{one}]:{port}" for one in addresses) + f" {key}", encoding="utf-8")
    listen = "".join(f"ListenAddress {one}:{port}\n" for one in addresses)
    rules = "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPidFile none\nStrictModes no\n"
    variables = "".join(f" {name}={value}" for name, value in environment.items())
    given = f"SetEnv{variables}\n" if variables else ""
    (folder / "config").write_text(
        f"{listen}{given}HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n{rules}", encoding="utf-8"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "config")], stderr=log) as process,
    ):
        try:
            sleep(1.0)
            files = (
                f'key = "{folder}/user"\nknown_hosts = "{folder}/known"\npython = "{sys.executable}"\nport = {port}\n'
            )
            yield "".join(
                f'[[host]]\naddress = "{one}"\nkind = "{kind}"\n{files}'
                for one, kind in zip(addresses, KINDS, strict=True)
            )
        finally:
            process.terminate()


def kill_worker(of: str, fleet: "subprocess.Popen[str]", place: Path) -> str:
    """Kill the worker whose gate is of this kind, once its pairs have begun; return what was killed."""
    while fleet.poll() is None:
        for process in gates(place, of):
            if worker := process.parent():
                worker.send_signal(signal.SIGKILL)
                return f"process {worker.pid}"
        sleep(0.1)
    return "nothing"


def command_of(options: Sequence[str]) -> list[str]:
    """Return the command line of a fleet."""
    own = [sys.executable, "-m", "pytest_hwperf.cli", "fleet", *options, "--"]
    return [*own, "--hwperf-against=HEAD", "--hwperf-margin=5%", "--hwperf-energy=off", "-pno:cacheprovider"]


def fleet(folder: Path, place: Path, options: Sequence[str], *, kill: bool) -> str:
    """Run a fleet; return what came of it in a line."""
    began = monotonic()
    with subprocess.Popen(
        command_of(options),
        cwd=folder,
        env={**os.environ, **environment(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        killed = kill_worker("small", process, place) if kill else "nothing"
        output = process.communicate()[0]
    took = monotonic() - began
    again = re.search(r"small was run again on [^:\n]+", output.replace("\n  ", " "))
    counts = re.search(r"^comparisons: .*$", output, re.MULTILINE)
    left = len(gates(place))
    said = again[0] if again else "nothing was run again"
    if not counts or "missing" in output:
        print(output)
    return (
        f"exit code {process.returncode}; {counts[0] if counts else 'no comparison'}; killed: {killed}; {said}; "
        f"{left} gates left; {took:.0f} s"
    )


@contextmanager
def reached(how: str, folder: Path, place: Path) -> Iterator[list[str]]:
    """Yield the options by which a fleet reaches its hosts, whose temporary files lie in `place`."""
    passed = {name: os.environ[name] for name in _FOR_PIP if name in os.environ}
    file, variables = folder / "hosts.toml", environment(place) | passed
    with ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        if how in ("scheduler", "tls"):
            given = certificate(own) if how == "tls" else {}
            os.environ.update(given)
            yield [f"--scheduler={stack.enter_context(scheduler(own, KINDS, variables | given))}", "--no-install"]
            return
        local = "".join(f'[[host]]\naddress = "local"\nkind = "{kind}"\n' for kind in KINDS)
        hosts = local if how == "local" else stack.enter_context(server(own, variables))
        file.write_text(hosts, encoding="utf-8")
        yield [f"--hosts={file}", *([] if how == "install" else ["--no-install"])]


def main() -> None:
    """Run the cases of these numbers, from 1, or every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=["local", "ssh", "install", "scheduler", "tls"])
    parser.add_argument("cases", nargs="*", type=int, help=f"from 1 to {len(CASES)}, of signals {len(ENDINGS)}")
    parser.add_argument("--interrupt", action="store_true", help="what signals leave, instead")
    asked = parser.parse_args()
    known = range(1, len(ENDINGS if asked.interrupt else CASES) + 1)
    with tempfile.TemporaryDirectory() as name:
        made = project(Path(name) / "project")
        for number in asked.cases or known:
            print(f"{number}. {one(asked, made, number - 1)}", flush=True)


def one(asked: argparse.Namespace, made: Path, number: int) -> str:
    """Run one case; return what came of it."""
    place = made.parent / f"temporary{number}"
    with reached(asked.how, made.parent, place) as options:
        if asked.interrupt:
            ending = ENDINGS[number]
            return f"{ending}: {interrupted(command_of(options), made, place, ending)}"
        case, text, kill = CASES[number]
        (made / "work.py").write_text(text, encoding="utf-8")
        return f"{case}: {fleet(made, place, options, kill=kill)}"
