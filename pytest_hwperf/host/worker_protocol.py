"""The task of a fresh process and its result: JSON, decoded strictly, never unpickled."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pytest_hwperf.host.files import replace_file
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, WorkerError
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.profiles import HeldMemory, ProfiledCalls, SampledCalls
from pytest_hwperf.records.run import Run
from pytest_hwperf.records.structs import Number, Record

PROTOCOL = 11  # both sides must speak the same: a worker may run another version of this package
ENVIRONMENT = "HWPERF_WORKER"  # holds the task; its presence makes a pytest process a worker
# Set in a process of a pair: code that a runtime compiles may be taken from a process before it, since of a pair only
# the calls after the first are compared. Other processes compile everything again.
SHARES_COMPILED = "HWPERF_SHARES_COMPILED"

# Measure memory, time a cold start, name lines that allocate, profile the operators of a runtime or the functions of
# Python, count instructions, make the whole measurement again, make the calls of a load with other processes, or be
# half of a pair.
Role = Literal["memory", "cold", "sites", "operators", "functions", "instructions", "run", "load", "pair"]


class ModelSpec(Record, frozen=True, kw_only=True):
    """One model with the data that it is measured on: what a process measures that is no pytest."""

    model: str  # path of an ONNX file or of an estimator, module:function, or an address
    data: str  # path of an .npz file with X, and y where there are labels
    batch_size: int  # rows per call
    threads: int
    hold_collector: bool = False  # the garbage collector runs between calls alone
    trust: tuple[str, ...] = ()  # types of an estimator's file that may be loaded, beside those of the libraries
    headers: Mapping[str, str] = {}  # of requests
    timeout_s: float = 10.0  # of a request
    requests_to: str = ""  # folder in which a process leaves how many of its requests have failed
    test: str  # what the measurement is called
    label: str


class WorkerTask(Record, frozen=True, kw_only=True):
    """What one fresh process is to do."""

    role: Role
    reply_to: str = ""  # path of a file in a folder of the asking process; of a pair: number of an inherited descriptor
    node: str = ""  # node id of the one test to run; "" for a pair whose conductor selects them
    label: str = ""  # which measurement of that test
    called: str = ""  # of a pair of two measurements: what that one is called, as the other side calls its own
    seconds: float = 0.0  # of the role `functions`: how long it samples; 0: half as long as a measurement, never longer
    growth: bool = True  # of the role `memory`: read what is held after many calls too, for leaks
    side: Side | None = None  # of a pair
    plant: float = 0.0  # of a pair: share of work that is added to each call, to see it found
    tells_states: bool = False  # of a pair: tell what each module held before the first test
    began_s: float = 0.0  # of a pair: when it was started, by `time.monotonic`; 0: not known
    watch: str = ""  # of a pair: path of the file with what is watched for changes, "" for nothing
    model: ModelSpec | None = None  # what to measure where the process is no pytest
    protocol: int = PROTOCOL


class WorkerResult(Record, frozen=True, kw_only=True):
    """What one fresh process found."""

    values: Mapping[str, Number] = {}  # metric → base units
    reasons: Mapping[str, str] = {}  # metric → why it is unmeasured
    notes: Sequence[str] = []  # warnings about the values
    runs: Sequence[Run] = []  # of the role `run`
    sources: Mapping[str, str] = {}  # metric → what it was read from, where the role has several
    series: Mapping[str, list[Number]] = {}  # name → readings in their order, in base units
    sites: tuple[HeldMemory, ...] = ()  # of the role `sites`, the largest first
    operators: ProfiledCalls | None = None  # of the role of that name
    functions: SampledCalls | None = None  # the same
    protocol: int = PROTOCOL


def encode(message: WorkerTask | WorkerResult) -> str:
    """Write a message as one line of JSON."""
    return to_json(message).decode()


def decode_task(text: str) -> WorkerTask:
    """Read a task."""
    _check_protocol(text)
    try:
        return from_json(WorkerTask, text)
    except SerialisationError as error:
        raise WorkerError(f"{ENVIRONMENT} holds no task of pytest-hwperf; unset it to run pytest as usual") from error


def decode_result(text: str | bytes) -> WorkerResult:
    """Read an answer."""
    _check_protocol(text)
    try:
        return from_json(WorkerResult, text)
    except SerialisationError as error:
        raise WorkerError(f"the fresh process answered with something that is no answer ({error})") from error


def reply(result: WorkerResult, task: WorkerTask) -> None:
    """Leave the result where the asking process looks for it; it appears whole or not at all."""
    replace_file(Path(task.reply_to), encode(result).encode())


def _check_protocol(text: str | bytes) -> None:
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkerError(f"a message is not JSON: {error}") from error
    if not isinstance(plain, dict) or plain.get("protocol") != PROTOCOL:
        raise WorkerError(f"a message of another protocol than {PROTOCOL}: both sides need the same pytest-hwperf")
