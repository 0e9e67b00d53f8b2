"""Which outcome of a test a side of a pair sends, on reports of pytest; the conductor is a list."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_hwperf.core.hypotheses import SideOutcome
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.pairs.turns import Turns
from pytest_hwperf.plugin.worker import PairWorker

if TYPE_CHECKING:
    from pytest_hwperf.pairs.messages import Ended


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
