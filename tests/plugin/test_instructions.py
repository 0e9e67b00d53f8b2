"""`--hwperf-instructions`: who counts, when, and what a budget says where nobody does."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.worker_items import item_in_a_fresh_process

from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask, decode_result
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.plugin.measuring import fresh, meters
from pytest_hwperf.plugin.measuring import run as measurement
from pytest_hwperf.plugin.worker.roles import OneShotWorker
from pytest_hwperf.records.errors import MeterUnavailable, WorkerError
from pytest_hwperf.records.run import Reading

QUICK = ("-p", "fakes.simulated_time", "--hwperf-energy=off")
TEST = """
import pytest
from fakes.simulated_time import spend

@pytest.mark.hwbudget(instructions_max=60000)
def test_named(hwperf): hwperf(spend, 1000)

def test_not_named(hwperf): hwperf(spend, 1000)
"""


class Counter:
    """Counts 50,000 instructions a call."""

    metric, covers, source, shortest_window_s, warnings = "instructions", "process", "perf:instructions:u", 0.0, ()

    def __init__(self) -> None:
        self.closed = False

    def start(self) -> int:
        return 0

    def end(self, _: int) -> Reading:
        return Reading(value=50_000.0)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> list[Counter]:
    opened = list[Counter]()

    def open_one() -> Counter:
        opened.append(Counter())
        return opened[-1]

    monkeypatch.setattr(meters, "instruction_meter", open_one)
    return opened


@pytest.fixture
def no_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise MeterUnavailable("this machine has no counter of instructions")

    monkeypatch.setattr(meters, "instruction_meter", refuse)


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=TEST)
    return pytester.runpytest_inprocess(*QUICK, *options)


@pytest.mark.live
def test_the_counter_is_opened_where_it_is_asked_for(
    pytester: pytest.Pytester, counters: list[Counter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And closed when the calls are over."""
    monkeypatch.setattr(measurement, "counted_by_callgrind", lambda *_: ([], {}))
    opened = dict[str, list[bool]]()
    for wanted in ("auto", "perf", "off", "callgrind"):
        run(pytester, f"--hwperf-instructions={wanted}")
        opened[wanted] = [one.closed for one in counters]
        counters.clear()
    assert {"auto": [True], "perf": [True, True], "off": [], "callgrind": []} == opened


@pytest.mark.usefixtures("counters")
def test_a_budget_is_judged_by_the_counter(pytester: pytest.Pytester) -> None:
    """50,000 in a window of some 50 calls, so 1000 each."""
    result = run(pytester)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*budgets: 1 passed*"])


@pytest.mark.usefixtures("no_counter")
def test_without_a_counter_a_budget_says_why(pytester: pytest.Pytester) -> None:
    for wanted in ("auto", "perf"):
        result = run(pytester, f"--hwperf-instructions={wanted}")
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["*instructions unmeasured, limit 60000: this machine has no counter of*"])


def test_what_is_off_says_so(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--hwperf-instructions=off")
    result.stdout.fnmatch_lines(["*instructions unmeasured*: instructions are off (--hwperf-instructions=off)*"])


def play(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[], WorkerResult], totals: Sequence[int] = (1000, 2500, 4020)
) -> list[WorkerTask]:
    """Let the fresh process give an answer, and callgrind write these counts."""
    tasks = list[WorkerTask]()

    def under(command: Command, folder: Path) -> Command:
        for number, total in enumerate(totals, 1):
            (folder / f"callgrind.out.{number}").write_text(f"summary: {total}\n")
        return command

    def ask(task: WorkerTask, _: Sequence[Command], **__: object) -> list[WorkerResult]:
        tasks.append(task)
        return [answer()]

    monkeypatch.setattr(fresh, "under_callgrind", under)
    monkeypatch.setattr(fresh, "ask", ask)
    return tasks


def counted(**others: Any) -> WorkerResult:
    return WorkerResult(**{"values": {}, "reasons": {}, "notes": [], "runs": [], **others})


def test_valgrind_counts_every_measurement_by_differences_of_lengths(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1500 for 100 calls, then 1520 for 100."""
    tasks = play(monkeypatch, lambda: counted(series={"calls": [50.0, 150.0, 250.0]}))
    result = run(pytester, "--hwperf-instructions=callgrind")

    result.assert_outcomes(passed=2)
    assert ["instructions"] * 2 == [task.role for task in tasks]
    result.stdout.fnmatch_lines(["*budgets: 1 passed*"])
    again = run(pytester, "--hwperf-instructions=callgrind", "-vv").stdout
    again.fnmatch_lines(["*instructions * 15.1 (15.0 .. 15.2) * 2 differences *"])
    again.fnmatch_lines(["*counted by two differences of lengths, 1.32 % apart"])


def crashed() -> WorkerResult:
    raise WorkerError("a fresh process ended with code -11 and gave no answer.")


def test_a_process_that_counts_nothing_says_why(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer, why in (
        (crashed, "a fresh process ended with code -11"),
        (lambda: counted(reasons={"instructions": "it has no Valgrind"}), "it has no Valgrind"),
    ):
        play(monkeypatch, answer)
        result = run(pytester, "--hwperf-instructions=callgrind")
        result.stdout.fnmatch_lines([f"*instructions unmeasured, limit 60000: *{why}*"])


def test_calls_that_do_nothing_are_no_division_by_zero(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, lambda: counted(series={"calls": [50.0, 150.0, 250.0]}), totals=(7, 7, 7))
    run(pytester, "--hwperf-instructions=callgrind").assert_outcomes(passed=2)


@pytest.mark.parametrize("running", [True, False])
def test_a_fresh_process_makes_the_calls(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, *, running: bool
) -> None:
    """Once to see what its value is, then as many as it is asked for."""
    made = list[int]()
    monkeypatch.setattr("pytest_hwperf.meters.callgrind.valgrind_requests", lambda: lambda _: int(running))
    monkeypatch.setattr("pytest_hwperf.meters.callgrind._MOST", 2)
    reply = tmp_path / "reply.json"
    task = WorkerTask(role="instructions", node=request.node.nodeid, reply_to=str(reply))
    stream = Stream(lambda: made.append(1), None)
    loaded = SimpleNamespace(stream=lambda: stream, scope=nullcontext)
    subject: Any = SimpleNamespace(load_one=lambda: loaded, elsewhere=False)
    with pytest.raises(pytest.skip.Exception):
        OneShotWorker(task).measure(item_in_a_fresh_process(task.node), subject, "")
    result = decode_result(reply.read_bytes())
    assert ({"calls": [2.0, 6.0, 10.0]} if running else {}) == result.series
    assert len(made) == (1 + 5 + 2 + 18 if running else 1)
    assert ("instructions" in result.reasons) is not running
