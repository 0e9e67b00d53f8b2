"""One fresh process, one question, one answer: memory, cold starts and repeated timings."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.processes import Command, Launched, launch
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, Role, WorkerResult, WorkerTask, decode_result, encode

# Freed blocks from 64 KiB on go back to the system, so that repeated peaks agree; it makes large allocations five
# times slower, so it is set where memory is weighed and never where time is taken.
_PINNED_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536"}


def ask(role: Role, node: str, label: str, command: Command, *, processes: int, at_once: int = 1) -> list[WorkerResult]:
    """Run one test in `processes` fresh pytest processes and return their answers, `at_once` side by side.

    Raises:
        WorkerError: one of them crashed, hung or gave no answer; the end of its log is quoted.
    """
    return ask_in_turn(role, node, label, [command] * processes, at_once=at_once)


def ask_in_turn(
    role: Role, node: str, label: str, commands: Sequence[Command], *, at_once: int = 1
) -> list[WorkerResult]:
    """Run one test in a fresh process of each command, in their order, and return the answers.

    Raises:
        WorkerError: as `ask`.
    """
    with workdirs.workdir() as folder:
        answers: list[WorkerResult] = []
        for start in range(0, len(commands), at_once):
            group = commands[start : start + at_once]
            rooms = [folder / str(start + n) for n in range(len(group))]
            answers.extend(_ask_group(role, node, label, group, rooms))
        return answers


def _ask_group(
    role: Role, node: str, label: str, commands: Sequence[Command], places: Sequence[Path]
) -> list[WorkerResult]:
    environment = _PINNED_ALLOCATOR if role in ("memory", "peak") else {}
    started: list[Launched] = []
    try:
        for command, place in zip(commands, places, strict=True):
            place.mkdir()
            order = WorkerTask(role=role, node=node, label=label, answer=str(place / "answer.json"))
            started.append(launch(command, {**environment, ENVIRONMENT: encode(order)}, place))
        return [
            _wait(worker, place / "answer.json", command.deadline_s)
            for worker, command, place in zip(started, commands, places, strict=True)
        ]
    finally:
        for worker in started:
            worker.end()


def _wait(worker: Launched, answer: Path, deadline_s: float) -> WorkerResult:
    try:
        outcome = f"ended with code {worker.process.wait(deadline_s)} and gave no answer"
    except subprocess.TimeoutExpired:
        outcome = f"gave no answer within {deadline_s:g} s"
    if not answer.exists():
        raise WorkerError(f"a fresh process {outcome}.\n{worker.log_tail()}")
    return decode_result(answer.read_text(encoding="utf-8"))  # whole, whatever it still does
