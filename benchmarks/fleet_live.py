"""A fleet for real: three hosts of two kinds gate equal code and a slowdown, and one host is killed meanwhile.

`python -m benchmarks.fleet_live local|ssh|install [CASE ...]` prints what came of it: hosts are processes of this
machine, or reached by a server of SSH that is started on loopback with keys of its own; `install` is as `ssh`, with an
environment of its own for each gate. It needs the extra `fleet`, and for SSH the programs sshd and ssh-keygen.
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
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep, time

import psutil

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
PORT_OF_TESTS = 0  # whichever is free
YOUNG_S = 4.0  # a gate has not begun with its pairs
GIT = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
CASES = (("equal code", WORK, False), ("equal code, a host killed", WORK, True), ("+10 %, a host killed", SLOWER, True))


def project(folder: Path) -> Path:
    """Make a repository with a package and tests."""
    folder.mkdir()
    files = {"work.py": WORK, "test_work.py": TESTS, "pytest.ini": "[pytest]\npythonpath = .\n", "requirements.txt": ""}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "one"]):
        subprocess.run(["git", *GIT, "-C", str(folder), *arguments], check=True)
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


def gates() -> list[psutil.Process]:
    """Return the processes of pytest that a fleet has started on its hosts."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "pytest" in words and any(word.startswith("--hwperf-machine-kind=") for word in words):
            found.append(process)
    return found


def kill_worker(of: str, fleet: "subprocess.Popen[str]") -> str:
    """Kill the worker whose gate is of this kind, once its pairs have begun; return what was killed."""
    while fleet.poll() is None:
        for process in gates():
            if f"--hwperf-machine-kind={of}" in process.cmdline() and age_of(process) > YOUNG_S:
                worker = process.parent()
                worker.send_signal(signal.SIGKILL)
                return f"process {worker.pid}"
        sleep(0.1)
    return "nothing"


def age_of(process: psutil.Process) -> float:
    """Return how long a process has lived, in s."""
    return time() - float(process.create_time())


def fleet(folder: Path, hosts: Path, options: Sequence[str], *, kill: bool) -> str:
    """Run a fleet; return what came of it in a line."""
    command = [sys.executable, "-m", "pytest_hwperf.cli", "fleet", f"--hosts={hosts}", *options, "--"]
    began = monotonic()
    with subprocess.Popen(
        [*command, "--hwperf-against=HEAD", "--hwperf-margin=5%", "--hwperf-energy=off", "-pno:cacheprovider"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        killed = kill_worker("small", process) if kill else "nothing"
        output = process.communicate()[0]
    took = monotonic() - began
    again = re.search(r"small was run again on [^:\n]+", output.replace("\n  ", " "))
    counts = re.search(r"^comparisons: .*$", output, re.MULTILINE)
    left = len(gates())
    said = again[0] if again else "nothing was run again"
    if not counts or "missing" in output:
        print(output)
    return (
        f"exit code {process.returncode}; {counts[0] if counts else 'no comparison'}; killed: {killed}; {said}; "
        f"{left} gates left; {took:.0f} s"
    )


def main() -> None:
    """Run the cases of these numbers, from 1, or every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=["local", "ssh", "install"])
    parser.add_argument("cases", nargs="*", type=int, help=f"from 1 to {len(CASES)}; default: all")
    asked = parser.parse_args()
    how, cases = asked.how, asked.cases
    options = [] if how == "install" else ["--no-install"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = project(folder / "project")
        if how == "local":
            hosts = "".join(f'[[host]]\naddress = "local"\nkind = "{kind}"\n' for kind in KINDS)
            run_all(made, folder / "hosts.toml", hosts, options, cases)
            return
        (folder / "ssh").mkdir()
        with server(folder / "ssh", {}) as hosts:
            run_all(made, folder / "hosts.toml", hosts, options, cases)


def run_all(made: Path, file: Path, hosts: str, options: Sequence[str], cases: Sequence[int]) -> None:
    """Run cases, and print a line for each."""
    file.write_text(hosts, encoding="utf-8")
    for case, text, kill in [CASES[number - 1] for number in cases] or CASES:
        (made / "work.py").write_text(text, encoding="utf-8")
        print(f"{case}: {fleet(made, file, options, kill=kill)}", flush=True)


if __name__ == "__main__":
    main()
