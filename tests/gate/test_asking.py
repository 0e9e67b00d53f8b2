"""Both sides of a test asked at once: from one parent where they share imports, and each by itself if that fails."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import pytest

from pytest_hwperf.gate.pair.parent import ParentLostError
from pytest_hwperf.gate.processes import BothSides
from pytest_hwperf.host.launch import Command, Launched
from pytest_hwperf.host.one_shot import Given, launched
from pytest_hwperf.host.worker_protocol import Role, WorkerResult, WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Measurement, Side
from pytest_hwperf.stats.pairs.hypotheses import SIDES

NODE = "test_it.py::test_a"
ANSWER = WorkerResult(values={}, reasons={}, notes=[], runs=[])
ORDER: Sequence[Side] = ("candidate", "baseline")


class Shared:
    """Parents of a build, of which each says what it forks; one measurement has been tried in a forked pair."""

    def __init__(self, *, is_lost: bool = False) -> None:
        self.forked = list[tuple[str, ...]]()
        self.ended = 0
        self.steps = list[str]()
        self._is_lost = is_lost

    def is_new(self, measurements: Sequence[Measurement]) -> bool:
        return [Measurement(test=NODE, label="")] != measurements

    def prepare(self, parents: int) -> None:
        self.steps.append(f"prepare {parents}")

    def use(self, processors: int) -> None:
        self.steps.append(f"use {processors}")

    def parent(self, _: float) -> "Shared":
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended += 1

    def fork(self, sides: Sequence[tuple[Side, Command, WorkerTask]]) -> Mapping[str, str]:
        self.forked.append(tuple(side for side, _, _ in sides))
        self.steps.append("fork")
        if self._is_lost:
            raise ParentLostError("the parent of a pair has ended")
        return {side: f"forked {side}" for side, _, _ in sides}


class Processes:
    """Note which sides are asked together, and how they are started; `breaks` says which of these fail."""

    def __init__(self, breaks: Callable[[Sequence[str]], bool] = lambda _: False) -> None:
        self.asked = list[str]()
        self._breaks = breaks

    def ask(
        self,
        task: WorkerTask,
        commands: Sequence[Command],
        *,
        at_once: int = 1,
        until: float,
        start: Callable[[Sequence[Given]], Iterable[Launched]] = launched,
    ) -> list[WorkerResult]:
        assert until
        sides = [command.arguments[0] for command in commands]
        assert at_once == len(sides)
        self.asked.append(" ".join(sides))
        if start is not launched:
            given = [(command, task, Path()) for command in commands]
            assert [f"forked {side}" for side in sides] == cast("Any", start(given))
        if self._breaks(sides):
            raise WorkerError("a fresh process ended with code 1")
        return [ANSWER] * len(sides)


def asked(
    monkeypatch: pytest.MonkeyPatch,
    processes: Processes,
    shared: Shared | None = None,
    *,
    role: Role = "functions",
    label: str = "",
    **more: Any,
) -> dict[Side, str]:
    """Ask twice; return what each side has answered the second time."""
    monkeypatch.setattr("pytest_hwperf.gate.processes.ask", processes.ask)
    sides = BothSides(
        commands=lambda _: {side: Command(arguments=[side], directory=Path(), environment={}) for side in SIDES},
        until=1e9,
        shared=cast("Any", shared),
        **{"at_once": 2, **more},
    )
    task = WorkerTask(role=role, node=NODE, label=label)
    sides.ask(task, ORDER)
    return {side: getattr(one, "sentence", "answered") for side, one in sides.ask(task, ORDER).items()}


def test_both_sides_are_forked_from_one_parent_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    processes, shared = Processes(), Shared()
    assert dict.fromkeys(ORDER, "answered") == asked(monkeypatch, processes, shared)
    assert ["candidate baseline"] * 2 == processes.asked
    assert ([ORDER] * 2, 2) == (shared.forked, shared.ended)
    assert ["prepare 2", "use 0", "fork"] * 2 == shared.steps  # the next parent waits while both profile


@pytest.mark.parametrize(
    ("given", "together"),
    [
        ({"role": "sites"}, True),
        ({"label": "that no forked pair has measured"}, True),
        ({"at_once": 1}, False),
        ({"alone": {NODE}}, False),
    ],
    ids=str,
)
def test_what_a_forked_process_may_not_tell_is_asked_of_two_and_one_by_one_where_both_disturb_each_other(
    monkeypatch: pytest.MonkeyPatch, given: Mapping[str, Any], *, together: bool
) -> None:
    """Memory is that of a process of its own."""
    processes, shared = Processes(), Shared()
    asked(monkeypatch, processes, shared, **given)
    assert (["candidate baseline"] if together else ["candidate", "baseline"]) * 2 == processes.asked
    assert [] == shared.forked


def test_what_fails_at_once_is_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that is lost costs no explanation, nor what bears no neighbour; it is tried once."""
    for is_lost in (True, False):
        processes = Processes(lambda sides, is_lost=is_lost: not is_lost and len(sides) > 1)  # type: ignore[misc]
        found = asked(monkeypatch, processes, Shared(is_lost=is_lost))
        assert dict.fromkeys(ORDER, "answered") == found
        assert ["candidate baseline", *["candidate", "baseline"] * 2] == processes.asked


def test_the_side_that_fails_says_why_and_the_other_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(lambda sides: "candidate" in sides)
    assert {"candidate": "a fresh process ended with code 1"} == asked(monkeypatch, processes)
    assert ["candidate baseline", "candidate", "candidate"] == processes.asked
