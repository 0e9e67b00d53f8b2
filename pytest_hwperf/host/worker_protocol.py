"""What a fresh process is told and what it answers: plain JSON, never pickle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pytest_hwperf.core.errors import SerialisationError, WorkerError
from pytest_hwperf.core.records import Record, Run
from pytest_hwperf.core.serialisation import from_json, to_json

PROTOCOL = 3  # both sides must speak the same: a worker may run another version of this package
ENVIRONMENT = "HWPERF_WORKER"  # holds the order; its presence makes a pytest process a worker

Role = Literal["memory", "peak", "cold", "sites", "run", "pair"]


class WorkerTask(Record, frozen=True, kw_only=True):
    """What one fresh process is to do."""

    # measure the memory, time a cold start, name the sites that allocate, make the whole measurement once more, or be
    # half of a pair
    role: Role
    node: str  # node id of the one test to run; "" for a pair, which is told later
    label: str  # which measurement of that test; of a pair: "baseline" or "candidate"
    answer: str  # path of the file for the answer, in a folder of the asking process; of a pair: PORT of 127.0.0.1
    token: str = ""  # shows the conductor of a pair that the one who connects is the one that it has started
    protocol: int = PROTOCOL


class HeldMemory(Record, frozen=True, kw_only=True):
    """What a line of Python held when the process held most."""

    function: str  # "" where no Python was running
    file: str  # relative to the tests' root where it lies there, else to where it was imported from
    line: int
    called_at: str  # FILE:LINE of the tests' own code that led there, "" where it is the same or none
    size: int  # B
    allocations: int


class WorkerResult(Record, frozen=True, kw_only=True):
    """What one fresh process found."""

    values: Mapping[str, float]  # metric → base units
    reasons: Mapping[str, str]  # metric → why it is unmeasured
    notes: list[str]  # warnings about the values
    runs: list[Run]  # of the role `run`
    sources: Mapping[str, str] = {}  # metric → what it was read from, where the role has several
    series: Mapping[str, list[float]] = {}  # name → readings in their order, in base units
    sites: tuple[HeldMemory, ...] = ()  # of the role `sites`, the largest first
    protocol: int = PROTOCOL


def encode(message: WorkerTask | WorkerResult) -> str:
    """Write a message as one line of JSON.

    Raises:
        SerialisationError: a number that is not finite.
    """
    return to_json(message).decode()


def decode_task(text: str) -> WorkerTask:
    """Read an order.

    Raises:
        WorkerError: not an order of this protocol.
    """
    _check_protocol(text)
    try:
        return from_json(WorkerTask, text)
    except SerialisationError as error:
        raise WorkerError(f"{ENVIRONMENT} holds no order of pytest-hwperf; unset it to run pytest as usual") from error


def decode_result(text: str) -> WorkerResult:
    """Read an answer.

    Raises:
        WorkerError: not an answer of this protocol.
    """
    _check_protocol(text)
    try:
        return from_json(WorkerResult, text)
    except SerialisationError as error:
        raise WorkerError(f"the fresh process answered with something that is no answer ({error})") from error


def reply(result: WorkerResult, task: WorkerTask) -> None:
    """Leave the result where the asking process looks for it; it appears whole or not at all."""
    target = Path(task.answer)
    draft = target.with_suffix(".part")
    draft.write_text(encode(result), encoding="utf-8")
    draft.replace(target)


def _check_protocol(text: str) -> None:
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkerError(f"a message is not JSON: {error}") from error
    if not isinstance(plain, dict) or plain.get("protocol") != PROTOCOL:
        raise WorkerError(f"a message of another protocol than {PROTOCOL}: both sides need the same pytest-hwperf")
