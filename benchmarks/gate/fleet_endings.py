"""A fleet that is interrupted, for real: which processes and folders are left after each signal, at each stage."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep, time

import psutil

_MARK = "HWPERF_FLEET_LIVE"  # in the environment of everything that is started
_LONGEST_S = 120.0  # until a fleet has ended
_AGAIN_S = 0.7  # from one signal to the next
_STARTING, _AT_WORK = "while hosts are started", "while a gate runs"
_FIRST = 3  # processes that are there before the first host is started
_YOUNG_S = 4.0  # a gate has not begun with its pairs
_LATE_S = 5.0  # in which guards end what the killed have left


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """When a fleet is sent what."""

    stage: str
    signals: tuple[signal.Signals, ...]
    to_all: bool  # to its process group, as a terminal does

    def __str__(self) -> str:
        names = " and ".join(one.name for one in self.signals)
        return f"{names} to {'the group' if self.to_all else 'the process'} {self.stage}"


ENDINGS = (
    Ending(stage=_AT_WORK, signals=(signal.SIGINT,), to_all=True),
    Ending(stage=_AT_WORK, signals=(signal.SIGINT,), to_all=False),
    Ending(stage=_AT_WORK, signals=(signal.SIGINT, signal.SIGINT), to_all=True),
    Ending(stage=_AT_WORK, signals=(signal.SIGTERM,), to_all=False),
    Ending(stage=_AT_WORK, signals=(signal.SIGTERM, signal.SIGTERM), to_all=True),
    Ending(stage=_AT_WORK, signals=(signal.SIGKILL,), to_all=False),
    Ending(stage=_STARTING, signals=(signal.SIGINT,), to_all=True),
    Ending(stage=_STARTING, signals=(signal.SIGTERM, signal.SIGINT), to_all=False),
)


def gates(place: Path, kind: str = "") -> list[psutil.Process]:
    """Return the processes of pytest that a fleet has started on its hosts, and whose pairs have begun."""
    found = []
    for process in marked(place):
        with suppress(psutil.Error):
            words = process.cmdline()
            is_gate = "pytest" in words and any(word.startswith(f"--hwperf-machine-kind={kind}") for word in words)
            if is_gate and time() - float(process.create_time()) > _YOUNG_S:
                found.append(process)
    return found


def marked(place: Path) -> list[psutil.Process]:
    """Return the processes whose temporary files lie there."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(_MARK) == str(place) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def environment(place: Path) -> dict[str, str]:
    """Return what marks everything that a fleet starts, and keeps its temporary files together."""
    place.mkdir(exist_ok=True)
    return {_MARK: str(place), "TMPDIR": str(place)}


def interrupted(command: Sequence[str], project: Path, place: Path, ending: Ending) -> str:
    """Run a fleet, interrupt it, and return what is left in a line."""
    given = {**os.environ, **environment(place)}
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command, cwd=project, stdout=output, stderr=output, env=given, start_new_session=True
        ) as fleet,
    ):
        _wait_for(ending.stage, fleet, place)
        began = monotonic()
        for number in ending.signals:
            if fleet.poll() is None:
                (os.killpg if ending.to_all else os.kill)(fleet.pid, number)
                sleep(_AGAIN_S)
        try:
            fleet.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            fleet.kill()
        took = monotonic() - began
        output.seek(0)
        said = output.read().decode()
    left, folders = left_in(place)
    if "Traceback" in said or left or folders:
        print(said, *left, *folders, sep="\n")
    return f"exit code {fleet.returncode} after {took:.0f} s; {len(left)} processes and {len(folders)} folders left"


def left_in(place: Path) -> tuple[list[str], list[str]]:
    """Return the processes and folders that are left, after the time in which guards end what the killed have left."""
    until = monotonic() + _LATE_S
    while (there := marked(place)) and monotonic() < until:
        sleep(0.2)
    return [" ".join(one.cmdline()) for one in there], sorted(str(one.relative_to(place)) for one in place.glob("*/*"))


def _wait_for(stage: str, fleet: "subprocess.Popen[bytes]", place: Path) -> None:
    until = monotonic() + _LONGEST_S
    while fleet.poll() is None and monotonic() < until:
        if stage == _STARTING and len(marked(place)) > _FIRST:
            return
        if stage == _AT_WORK and gates(place):
            return
        sleep(0.1)
