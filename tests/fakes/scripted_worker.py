"""A real process of a pair that measures nothing: it says the times that its script gives, and dies on demand.

`python -m scripted_worker SCRIPT` with SCRIPT as JSON: `ns` (of every call, or a list with those of each start, over
and over), `nodes`, `early_exit`, `orphan` (starts a child that would outlive it), `port` (which it listens on while it
lives). Further starts, from 0, in which it comes to a hard end: `silent_in` (hangs before its measurement), and in its
turn `crash_in` (kills itself), `segfault_in`, `hang_in`, `fork_and_crash_in` (kills itself, while a forked child holds
its end of the line).
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from pytest_hwperf.gate.pair.channel import Ended, Ready
from pytest_hwperf.gate.pair.turns import Turns
from pytest_hwperf.host.pinning import processors
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, decode_task
from pytest_hwperf.records.evidence import EnergyWindow
from pytest_hwperf.records.run import Sample
from pytest_hwperf.stats.pairs.hypotheses import SideOutcome


class Scripted:
    pace_s = 0.0
    cpu_ns = None

    def __init__(self, script: Mapping[str, Any], start: int) -> None:
        self._script = script
        self._start = start

    def prepare(self) -> None:
        pass

    def block(self, calls: int, batch: int) -> "array[int]":
        for end in ("fork_and_crash_in", "crash_in", "segfault_in", "hang_in"):
            if self._start in self._script.get(end, []):
                _END[end]()
        if "seats" in self._script:
            with Path(self._script["seats"]).open("a", encoding="ascii") as seats:
                seats.write(f"{processors()}\n")
        ns = self._script["ns"]
        taken: int = ns[self._start % len(ns)] if isinstance(ns, list) else ns
        return array("q", [taken * batch] * calls)

    def parts(self) -> Mapping[str, float]:
        return {}

    def exact(self) -> Sequence[Sample]:
        return ()

    def energy(self, calls: int, seconds: float) -> EnergyWindow:
        return EnergyWindow(reason=f"no meter for {calls} calls in {seconds:g} s")


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fork_and_crash() -> None:
    if os.fork() == 0:
        time.sleep(600)
    _crash()


_END: Mapping[str, Callable[[], object]] = {
    "fork_and_crash_in": _fork_and_crash,
    "crash_in": _crash,
    "segfault_in": lambda: ctypes.string_at(0),
    "hang_in": lambda: time.sleep(600),
}


def main() -> None:
    script = json.loads(sys.argv[1])
    counter = Path(script["counter"])
    start = int(counter.read_text(encoding="ascii")) if counter.exists() else 0
    latest = counter.with_suffix(f".{os.getpid()}")  # pairs side by side read it meanwhile
    latest.write_text(str(start + 1), encoding="ascii")
    latest.replace(counter)
    sys.stdout.write("the worker has begun\n")
    sys.stdout.flush()
    if script.get("early_exit"):
        sys.exit("no module named x")
    if script.get("orphan"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(script["orphan"]).write_text(str(child.pid), encoding="ascii")
    stack = ExitStack()
    if "port" in script:
        stack.enter_context(socket.create_server(("127.0.0.1", script["port"])))
    task = decode_task(os.environ[ENVIRONMENT])
    turns = Turns.connect(task)
    for node in turns.chosen(script["nodes"], {}):
        if start in script.get("silent_in", []):
            time.sleep(600)
        turns.serve(Ready(node=node, index=0, label=""), cast("Any", Scripted(script, start)))
        turns.send(Ended(node=node, ended=SideOutcome(outcome="passed")))
    turns.bye([])


if __name__ == "__main__":
    main()
