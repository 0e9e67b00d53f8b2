"""`hwperf(f, setup=…)`: a setup before every call, which is part of nothing that is measured."""

import pytest

from pytest_hwperf.measure.pair_target import ready_target
from pytest_hwperf.measure.rounds import Rounds
from pytest_hwperf.measure.stream import OwnLoop
from pytest_hwperf.measure.subjects import loader_of, subject_of_rounds
from pytest_hwperf.measure.worker_tasks import Startup, measure_cold_start
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.evidence import EnergyWindow
from pytest_hwperf.records.report import ReportFile

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "-pno:cacheprovider", "--hwperf-report=report.json")

SUITE = """
import time


def test_sorted_in_place(hwperf):
    made = []

    def rows():
        made.append(1)
        time.sleep(0.002)
        return [[3, 1, 2]], {}

    def sort(rows, reverse=False):
        assert rows == [3, 1, 2]
        rows.sort(reverse=reverse)
        return rows

    run = hwperf(sort, setup=rows)
    assert run.result == [1, 2, 3]
    assert len(made) > 10
    kept = []
    hwperf(kept.append, 1, setup=kept.clear, label="cleared")
    assert kept == [1]
"""


def test_every_call_has_its_setup_which_is_not_timed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_inprocess(*QUICK)

    result.assert_outcomes(passed=1)
    report = from_json(ReportFile, (pytester.path / "report.json").read_text(encoding="utf-8")).report
    first, second = (one.run for one in report.judgements)
    latency = first.sample("latency")
    assert latency is not None
    assert sorted(latency.values)[len(latency.values) // 2] < 0.001
    assert "cleared" == second.label
    assert {"cpu_time", "latency", "throughput"} <= {sample.metric for sample in first.samples}


REFUSED = {
    "hwperf(sorted, setup=[3])": "hwperf(setup=[3]): give functions, not what they return: ",
    "hwperf([3], setup=list)": "hwperf([3]): give functions, not what they return: ",
    "hwperf(sum, [1], setup=list, batch_size=1)": "setup= makes the rows of each call anew, and y_true and ",
    "hwperf('http://localhost', setup=list)": "setup= is for a callable: a scenario and an address take ",
    "hwperf(sum, [1], setup=lambda: ([[2]], {}))": "setup=: it returns arguments, and others are given too; ",
    "hwperf(answer, setup=list)": "setup= and rounds take a plain function: give an async one to hwperf(...) ",
    "hwperf(sum, map(int, '12'))": "argument 1 is an iterator, which one call uses up: make it a list, or let setup=",
    "hwperf(partial(sum, iter([1])))": "argument 1 is an iterator, which one call uses up: ",
    "asyncio.run(hwperf.awaitable(asyncio.sleep, 0, setup=list))": (
        "hwperf.awaitable(setup=…): async calls have no setup of their own; "
    ),
}


def test_what_cannot_be_meant_with_a_setup_is_refused(pytester: pytest.Pytester) -> None:
    tests = "".join(f"def test_{n}(hwperf):\n    {call}\n" for n, call in enumerate(REFUSED))
    pytester.makepyfile(f"import asyncio\nfrom functools import partial\n\nasync def answer():\n    pass\n\n{tests}")
    result = pytester.runpytest_inprocess(*QUICK)
    said = [line.partition(": ")[2] for line in result.outlines if line.startswith("E  ")]
    result.assert_outcomes(failed=len(REFUSED))
    assert [] == [why for why, line in zip(REFUSED.values(), said, strict=True) if not line.startswith(why)]


BODIES = """
import pytest


@pytest.fixture
def rows():
    return (one for one in range(300))


@pytest.mark.hwbudget(latency_p95_ms=500)
def test_body(rows):
    sum(rows)


@pytest.mark.hwbudget(latency_p95_ms=500)
def test_made_anew(hwperf):
    assert hwperf(sum, setup=lambda: ([iter([1, 2])], {})).result == 3
"""


def test_a_body_whose_fixture_one_call_uses_up_fails_and_does_not_pass_unmeasured(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BODIES)
    result = pytester.runpytest_inprocess(*QUICK)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["fixture 'rows' is an iterator, which one call uses up: make it a *"])
    result.stdout.no_fnmatch_line("*hooks.py*")


def subject_with_pauses() -> tuple[list[str], Rounds]:
    done = list[str]()

    def prepare() -> tuple[tuple[()], dict[str, object]]:
        done.append("setup")
        sum(range(100_000))
        return (), {}

    return done, Rounds(prepare=prepare, interrupts=True, rounds=None)


def test_pairs_know_how_far_calls_are_apart_and_what_they_alone_compute() -> None:
    done, rounds = subject_with_pauses()
    subject = subject_of_rounds(lambda: None, rounds, OwnLoop())
    with ready_target(subject, lambda: None) as (target, _):
        taken = target.block(3, 2)
        assert 3 == len(taken)
        assert 7 == len(done)
        assert target.pace_s > max(taken) / 2e9
        assert target.cpu_ns is not None
        assert target.cpu_ns[0] < target.pace_s * 6e9 / 2
        assert EnergyWindow(reason="setup and teardown lie between the calls: name cpu_time instead") == target.energy(
            1, 1
        )


def test_a_cold_start_holds_no_setup() -> None:
    """The clock stands still meanwhile: it is made to jump by a day."""
    _, rounds = subject_with_pauses()
    day_ns = 86_400_000_000_000

    def prepare() -> tuple[tuple[()], dict[str, object]]:
        rounds.pauses.ns -= day_ns
        return (), {}

    paused = Rounds(prepare=prepare, interrupts=True, rounds=None, pauses=rounds.pauses)
    subject = subject_of_rounds(lambda: None, paused, OwnLoop())
    startup = Startup(lambda _: False)
    startup.use(subject.clock_ns)
    result = measure_cold_start((), loader_of(subject), startup)
    assert result.values["cold_first_call"] > 86_400  # so it is this clock that is read
    assert 0 < measure_cold_start((), loader_of(subject), Startup(lambda _: False)).values["cold_first_call"] < 60
