"""Which outcome of a test a side of a pair sends, on reports of pytest; the conductor is a list."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_hwperf.gate.pair.turns import Turns
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.measure.stream import FirstCall
from pytest_hwperf.plugin.worker.roles import _OWN_ERROR, PairWorker
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.stats.pairs.hypotheses import SideOutcome

if TYPE_CHECKING:
    from pytest_hwperf.gate.pair.channel import Ended


FIRST = FirstCall(value=None, seconds=0.0, items=None)


def sent(item: pytest.Item, outcomes: list[str], monkeypatch: pytest.MonkeyPatch) -> SideOutcome:
    messages: list[Ended] = []
    monkeypatch.setattr(Turns, "connect", lambda _: SimpleNamespace(send=messages.append))
    worker = PairWorker(WorkerTask(role="pair"))
    protocol = worker.pytest_runtest_protocol(item)
    next(protocol)
    for outcome in outcomes:
        text = "" if outcome == "passed" else f"it {outcome}"
        worker.pytest_runtest_logreport(
            pytest.TestReport(item.nodeid, item.location, {}, cast("Any", outcome), text, "call")
        )
    with pytest.raises(StopIteration):
        protocol.send(None)
    (message,) = messages
    return message.ended


def test_work_is_planted_by_the_task_and_never_by_the_environment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that somebody has left behind would make every candidate slower."""
    asked: list[float] = []

    @contextmanager
    def target(_subject: object, _energy: object, plant: float, **_: object) -> Iterator[tuple[Any, FirstCall]]:
        asked.append(plant)
        yield SimpleNamespace(loaded=SimpleNamespace(loop=SimpleNamespace(thread=None))), FIRST

    monkeypatch.setenv("HWPERF_PLANT", "0.5")
    monkeypatch.setattr("pytest_hwperf.measure.pair_target.ready_target", target)
    monkeypatch.setattr("pytest_hwperf.plugin.worker.roles.run_of_one_call", lambda *_: None)
    monkeypatch.setattr("pytest_hwperf.plugin.worker.roles._asked", lambda *_: None)
    session = SimpleNamespace(settings=SimpleNamespace(gc="on"))
    monkeypatch.setattr("pytest_hwperf.plugin.worker.roles.session_of", lambda _: session)
    monkeypatch.setattr(Turns, "connect", lambda _: SimpleNamespace(serve=lambda *_: None))
    subject: Any = SimpleNamespace(conditions={}, scenario="", shapes="", profile=None, sizes=dict)
    for plant in (0.0, 0.05):
        PairWorker(WorkerTask(role="pair", side="candidate", plant=plant)).measure(request.node, subject, "")
    assert asked == [0.0, 0.05]


@pytest.mark.parametrize(
    ("outcomes", "ended"),
    [
        (["passed", "passed"], SideOutcome(outcome="passed")),
        (["passed", "skipped"], SideOutcome(outcome="skipped", reason="it skipped")),
        (["skipped", "failed"], SideOutcome(outcome="skipped", reason="it skipped")),
        (["rerun", "passed"], SideOutcome(outcome="failed", reason="it rerun")),
    ],
)
def test_the_first_phase_that_did_not_pass_is_the_outcome(
    outcomes: list[str], ended: SideOutcome, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome of a plugin, such as pytest-rerunfailures, is a failure: its message holds only those of pytest."""
    assert sent(request.node, outcomes, monkeypatch) == ended


def test_a_sentence_of_this_package_needs_no_name_of_its_class() -> None:
    error = WorkerError("the process was silent")
    text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    assert "the process was silent" == _OWN_ERROR.sub("", text)
