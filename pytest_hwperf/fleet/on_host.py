"""What runs on a host: its worker of dask, and in it one gate, which is removed with all that it has started.

A gate is unpacked into a private folder, installed and run there. `python -m pytest_hwperf.fleet.on_host -m MODULE
[ARGUMENT ...]` is a program over SSH that ends with its connection. Without a terminal a server of SSH sends no signal
when the connection is gone, whether it was closed, the other side was killed or its network has failed; and some
servers pass on no signal at all. But it closes the standard input.
dask loads this module into the workers of this machine too: Ctrl-C in a terminal reaches them, but is the fleet's to
answer.
"""

import os
import re
import runpy
import shutil
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from time import monotonic, sleep

from pytest_hwperf import __version__
from pytest_hwperf.checkout import bundle
from pytest_hwperf.fleet.project import BUNDLE, SHARED, unpack
from pytest_hwperf.host.interruption import outlive_signals
from pytest_hwperf.host.launch import started
from pytest_hwperf.host.signals import send_to_this_process
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import HwperfError, WorkerError
from pytest_hwperf.records.report import HostAnswer, Order, last_lines

_EVERY_S = 1.0  # of a sign of life
_AT_WORK = ("running", "paused")  # states of a worker of dask that is not being closed
_TAIL = 1 << 12  # bytes of a log that are looked at
_LINE = 200  # characters of a sign
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HINDERING = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
_OF_ITS_PYTEST = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")  # which may name what an environment of its own has not


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnLine:
    """What leads back to whoever asked."""

    tell: Callable[[str], None]  # a sign of life: what is going on, in a few words
    is_wanted: Callable[[], bool]  # whether anybody still waits for the answer


def carry_out(order: bytes, parcel: bytes, topic: str) -> None:
    """Run a gate in a worker of dask; signs of life and the answer are events of plain msgpack, never pickled."""
    from distributed import get_worker

    worker, given = get_worker(), from_json(Order, order)
    key = worker.get_current_task()

    def is_wanted() -> bool:
        """Whether the task has not been cancelled, nor its client or the scheduler gone: dask forgets it, or closes."""
        known = worker.state.tasks.get(key)
        return known is not None and known.state == "executing" and worker.status.name in _AT_WORK

    line = ReturnLine(tell=lambda text: worker.log_event(topic, {"job": given.job, "sign": text}), is_wanted=is_wanted)
    packed = zlib.compress(to_json(answer(given, parcel, line)))
    worker.log_event(topic, {"job": given.job, "answer": packed})


def answer(order: Order, parcel: bytes, line: ReturnLine) -> HostAnswer:
    """Carry an order out; whatever goes wrong on this host is in the answer."""
    if order.version != __version__:
        return HostAnswer(
            problem=f"it has pytest-hwperf {__version__}, and the fleet {order.version}: install the same"
        )
    try:
        with workdir() as folder:
            return _Gate(order, folder, line).run(parcel)
    except (HwperfError, OSError, ValueError) as error:
        return HostAnswer(problem=str(error))


class _Gate:
    """One order in its folder."""

    def __init__(self, order: Order, folder: Path, line: ReturnLine) -> None:
        self._order, self._folder, self._line = order, folder, line
        self._project, self._log = folder / "project", folder / "log"
        self._until = monotonic() + order.limit_s

    def run(self, parcel: bytes) -> HostAnswer:
        order, report = self._order, self._folder / "report.json"
        self._line.tell("unpacking")
        wheel = unpack(parcel, self._folder)
        bundle.unpack(self._folder / BUNDLE, order.candidate, order.snapshot, self._project)
        shared = self._folder / SHARED
        for file in (path for path in shared.rglob("*") if path.is_file()):
            target = self._project / file.relative_to(shared)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
        python = sys.executable if order.install is None else self._environment(wheel, order.install)
        command = [python, "-m", "pytest", *order.arguments, f"--hwperf-report={report}"]
        code = self._step(command, self._project / order.folder, "pytest")
        text = report.read_text(encoding="utf-8") if report.is_file() else ""
        return HostAnswer(exit_code=code, report=text, log=written_to(self._log))

    def _environment(self, wheel: Path, install: Sequence[str]) -> str:
        """Make the project's environment with this plugin in it; return its interpreter."""
        uv, place = shutil.which("uv"), self._folder / "environment"
        python = str(place / "bin" / "python")
        make = [uv, "venv", "--quiet", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
        pip = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
        for command in ([*make, str(place)], [*pip, str(wheel), *install]):
            if code := self._step(command, self._project, "installing"):
                raise WorkerError(
                    f"`{' '.join(command[:3])} …` ended with code {code}: {last_lines(written_to(self._log))}"
                )
        return python

    def _step(self, command: Sequence[str], directory: Path, name: str) -> int:
        """Run a command to its end, with a sign of life every now and then; it is ended if nobody waits for it.

        It gets the variables of this host, without those that would lead pip or pytest elsewhere.
        """
        temporary = self._folder / "temporary"  # of what is killed with the gate, and cannot remove its own
        temporary.mkdir(exist_ok=True)
        left_out = _HINDERING if self._order.install is None else (*_HINDERING, *_OF_ITS_PYTEST)
        given = {variable: value for variable, value in os.environ.items() if variable not in left_out}
        given |= {"PIP_NO_INPUT": "1", "TMPDIR": str(temporary)}
        with started(command, self._log, directory=directory, environment=given) as (_, process):
            while True:
                try:
                    return process.wait(_EVERY_S)
                except TimeoutExpired:
                    pass
                if not self._line.is_wanted():
                    raise WorkerError("nobody waits for it any more")
                if monotonic() > self._until:
                    raise WorkerError(
                        f"{name} has not ended within {self._order.limit_s:g} s: hwperf fleet --longest=SECONDS gives "
                        f"it more; its last line: {last_line(self._log) or 'none'}"
                    )
                self._line.tell(f"{name}: {last_line(self._log)}")


def last_line(log: Path) -> str:
    """Return the last line that was written."""
    return written_to(log).strip().rpartition("\n")[2][:_LINE]


def written_to(log: Path) -> str:
    """Return the end of a log, without colours."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
        return _COLOURS.sub("", file.read().decode("utf-8", errors="replace")).replace("\r", "\n")


_GRACE_S = 20.0  # to end by itself after SIGTERM


def dask_setup(_: object) -> None:
    """Let the worker live on until the fleet ends it, which its gate needs to remove what it has made."""
    outlive_signals()


def main() -> None:
    """Run a module as a program until the standard input is closed; what dask writes goes with it."""
    _, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    with workdir() as folder:
        os.environ["DASK_TEMPORARY_DIRECTORY"] = str(folder)
        threading.Thread(target=end_with, args=(sys.stdin.fileno(),), daemon=True).start()
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_with(descriptor: int) -> None:
    """End this process when a descriptor is closed: by SIGTERM, which lets dask end its work, then at once."""
    while os.read(descriptor, 1 << 12):
        pass
    send_to_this_process(signal.SIGTERM)
    sleep(_GRACE_S)
    os._exit(1)


if __name__ == "__main__":
    main()
