"""A fleet that is interrupted, for real: which processes and folders are left after each signal, at each stage."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import psutil

_MARK = "HWPERF_FLEET_LIVE"  # in the environment of everything that is started
_LONGEST_S = 120.0  # until a fleet has ended
_AGAIN_S = 0.7  # from one signal to the next
_LATE_S = 5.0  # in which guards end what the killed have left


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """When a fleet is sent what."""

    stage: str  # starting: nothing runs yet; gate: the pairs of a gate run; closing: the first signal has been taken
    signals: tuple[signal.Signals, ...]
    to_all: bool  # to its process group, as a terminal does

    def __str__(self) -> str:
        names = " and ".join(one.name for one in self.signals)
        return f"{names} to {'the group' if self.to_all else 'the process'} {self.stage}"


ENDINGS = (
    Ending(stage="while a gate runs", signals=(signal.SIGINT,), to_all=True),
    Ending(stage="while a gate runs", signals=(signal.SIGINT,), to_all=False),
    Ending(stage="while a gate runs", signals=(signal.SIGINT, signal.SIGINT), to_all=True),
    Ending(stage="while a gate runs", signals=(signal.SIGTERM,), to_all=False),
    Ending(stage="while a gate runs", signals=(signal.SIGTERM, signal.SIGTERM), to_all=True),
    Ending(stage="while a gate runs", signals=(signal.SIGKILL,), to_all=False),
    Ending(stage="while hosts are started", signals=(signal.SIGINT,), to_all=True),
    Ending(stage="while hosts are started", signals=(signal.SIGTERM, signal.SIGINT), to_all=False),
)


def marked(token: str) -> list[psutil.Process]:
    """Return the processes that have been started with this mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(_MARK) == token and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def environment(place: Path) -> dict[str, str]:
    """Return what marks everything that a fleet starts, and keeps its temporary files together."""
    place.mkdir(exist_ok=True)
    return {_MARK: place.name, "TMPDIR": str(place)}


def interrupted(command: Sequence[str], project: Path, place: Path, ending: Ending) -> str:
    """Run a fleet, interrupt it, and return what is left in a line."""
    given = {**os.environ, **environment(place)}
    with (place.parent / "output").open("w+b") as output, subprocess.Popen(
        command, cwd=project, stdout=output, stderr=output, env=given, start_new_session=True
    ) as fleet:
        _wait_for(ending.stage, fleet, place.name)
        began = monotonic()
        for number in ending.signals:
            if fleet.poll() is None:
                (os.killpg if ending.to_all else os.kill)(fleet.pid, number)
                sleep(_AGAIN_S)
        try:
            fleet.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            fleet.kill()
            print("it had to be killed", flush=True)
        took = monotonic() - began
        output.seek(0)
        said = output.read().decode()
    until = monotonic() + _LATE_S
    while (left := marked(place.name)) and monotonic() < until:
        sleep(0.2)
    folders = sorted(f"{one.relative_to(place)}" for one in place.glob("*/*"))
    names = [f"{one.pid} {' '.join(one.cmdline())[:150]}" for one in left]
    if "Traceback" in said or left or folders:
        print(said)
    return f"exit code {fleet.returncode} after {took:.0f} s; {len(left)} processes left {names or ''}; {folders or 'no folder'} left"


def _wait_for(stage: str, fleet: "subprocess.Popen[bytes]", token: str) -> None:
    began = monotonic()
    while fleet.poll() is None:
        if "started" in stage:
            if len(marked(token)) > 3 :
                return
        else:
            from benchmarks.fleet_live import age_of, gates

            if any(age_of(one) > 4 for one in gates() if one in marked(token)):
                return
        if monotonic() - began > _LONGEST_S:
            return
        sleep(0.1)
