"""What a fresh process is told and what it answers: plain JSON, never pickle."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_hwperf.core.errors import WorkerError

PROTOCOL = 2  # both sides must speak the same: a worker may run another version of this package
ENVIRONMENT = "HWPERF_WORKER"  # holds the order; its presence makes a pytest process a worker

Role = Literal["memory", "peak", "cold", "sites", "run", "pair"]
_ROLES = ("memory", "peak", "cold", "sites", "run", "pair")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTask:
    """What one fresh process is to do."""

    # measure the memory, time a cold start, name the sites that allocate, make the whole measurement once more, or be
    # half of a pair
    role: Role
    node: str  # node id of the one test to run; "" for a pair, which is told later
    label: str  # which measurement of that test; of a pair: "baseline" or "candidate"
    answer: str  # path of the file for the answer, in a folder of the asking process; of a pair: PORT of 127.0.0.1
    token: str = ""  # shows the conductor of a pair that the one who connects is the one that it has started
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """What one fresh process found."""

    values: dict[str, float]  # metric → base units
    reasons: dict[str, str]  # metric → why it is unmeasured
    notes: list[str]  # warnings about the values
    runs: list[dict[str, Any]]  # records of the role `run`, as plain data
    sources: dict[str, str] = field(default_factory=dict)  # metric → what it was read from, where the role has several
    series: dict[str, list[float]] = field(default_factory=dict)  # name → readings in their order, in base units
    sites: list[dict[str, Any]] = field(default_factory=list)  # of the role `sites`, the largest first
    protocol: int = PROTOCOL


def encode(message: WorkerTask | WorkerResult) -> str:
    """Write a message as one line of JSON."""
    return json.dumps(asdict(message), allow_nan=False)


def decode_task(text: str) -> WorkerTask:
    """Read an order.

    Raises:
        WorkerError: not an order of this protocol.
    """
    plain = _plain(text)
    wrong = [name for name in ("node", "label", "answer", "token") if not isinstance(plain.get(name), str)]
    if wrong or plain.get("role") not in _ROLES:
        raise WorkerError(f"{ENVIRONMENT} holds no order of pytest-hwperf; unset it to run pytest as usual")
    parts = {name: plain[name] for name in ("role", "node", "label", "answer", "token")}
    return WorkerTask(**parts)


def decode_result(text: str) -> WorkerResult:
    """Read an answer.

    Raises:
        WorkerError: not an answer of this protocol.
    """
    plain = {"sources": {}, "series": {}, "sites": [], **_plain(text)}  # an older worker does not know these
    parts = {"values": dict, "reasons": dict, "notes": list, "runs": list, "sources": dict, "series": dict}
    if any(not isinstance(plain.get(name), kind) for name, kind in {**parts, "sites": list}.items()):
        raise WorkerError("the fresh process answered with something that is no answer")
    if not all(map(_are_numbers, [plain["values"].values(), *plain["series"].values()])):
        raise WorkerError("the fresh process answered with values that are no numbers")
    return WorkerResult(**{name: plain[name] for name in (*parts, "sites")})


def reply(result: WorkerResult, task: WorkerTask) -> None:
    """Leave the result where the asking process looks for it; it appears whole or not at all."""
    target = Path(task.answer)
    draft = target.with_suffix(".part")
    draft.write_text(encode(result), encoding="utf-8")
    draft.replace(target)


def _are_numbers(values: Iterable[object]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _plain(text: str) -> dict[str, Any]:
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise WorkerError(f"a message is not JSON: {error}") from error
    if not isinstance(plain, dict) or plain.get("protocol") != PROTOCOL:
        raise WorkerError(f"a message of another protocol than {PROTOCOL}: both sides need the same pytest-hwperf")
    return plain
