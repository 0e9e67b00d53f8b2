"""Pairs side by side: jobs at the same time, how an error ends all of them, and what each pair draws for itself."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, current_thread, main_thread

import pytest
from fakes import gates
from fakes.clocks import HandClock

from pytest_hwperf.gate.conductor import Conductor, run_side_by_side
from pytest_hwperf.gate.pair.lockstep import Chance, PairTrace, Program, random_of
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.plugin.session.terminal import progress_text
from pytest_hwperf.records.evidence import Evidence, Pair
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.pairs.sequence import Step

LONG_S = 60.0


def test_jobs_run_at_the_same_time_and_answer_in_their_order() -> None:
    first, second = Event(), Event()

    def meet(mine: Event, other: Event) -> bool:
        mine.set()
        assert other.wait(LONG_S)
        return current_thread() is main_thread()

    assert [True, False] == run_side_by_side([lambda: meet(first, second), lambda: meet(second, first)], Event())


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_error_of_the_first_stops_the_others_and_waits_for_them(error: type[BaseException]) -> None:
    stop, ended = Event(), Event()

    def fail() -> None:
        raise error

    def until_stopped() -> None:
        assert stop.wait(LONG_S)
        ended.set()

    with pytest.raises(error):
        run_side_by_side([fail, until_stopped], stop)
    assert ended.is_set()
    with pytest.raises(error):
        run_side_by_side([lambda: None, fail], Event())


def test_a_pair_draws_from_its_seed_and_its_number_alone() -> None:
    draws = [
        [chance.hash_seed() for _ in range(3)]
        for chance in (Chance(random_of(seed, pair)) for seed, pair in ((7, 1), (7, 2), (8, 1), (7, 1)))
    ]
    assert draws[0] == draws[3]
    assert 9 == len({one for drawn in draws for one in drawn})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Evidence, list[Progress]]]:
    """Conduct pairs of equal code that take no time."""

    def one_pair(_: Conductor, __: Evidence, step: Step, program: Program, number: int) -> tuple[Pair, PairTrace]:
        if program.shown:
            program.progress(program.shown)
        seen = [gates.observed(one, [1.0], [1.0]) for one in step.hypotheses]
        seeds = {"baseline": program.chance.hash_seed(), "candidate": next(iter(program.chance.order()), 0)}
        return replace(gates.pair("screen", seen, number), hash_seeds=seeds), PairTrace()

    monkeypatch.setattr(Conductor, "_pair", one_pair)

    def conduct(at_once: int, processors: tuple[int, ...] = ()) -> tuple[Evidence, list[Progress]]:
        shown = list[Progress]()
        conductor = Conductor(
            commands={}, logs=Path(), seed=7, at_once=at_once, processors=processors, progress=shown.append
        )
        evidence = Evidence(alpha=0.01, hypotheses=(gates.asked(),), pairs=())
        return conductor.conduct(evidence, conductor.clock() + LONG_S, None), shown

    return conduct


def test_what_a_lost_pair_takes_is_no_time_of_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hangs for a minute, and the others take a second each."""
    clock, lost_s = HandClock(), LONG_S

    def one_pair(_: Conductor, __: Evidence, step: Step, ___: Program, number: int) -> tuple[Pair, PairTrace]:
        clock.pass_time(1.0 if number > 1 else lost_s)
        seen = [gates.observed(one, [1.0], [1.0]) for one in step.hypotheses if number > 1]
        why = None if number > 1 else state("lost", why="was silent")
        return replace(gates.pair("screen", seen, number), lost=why), PairTrace()

    monkeypatch.setattr(Conductor, "_pair", one_pair)
    conductor = Conductor(commands={}, logs=Path(), seed=7, clock=clock)
    asked = Evidence(alpha=0.01, hypotheses=(gates.asked(),), pairs=())
    evidence = conductor.conduct(asked, clock() + 10 * LONG_S, None)
    assert {"failures": lost_s, "screen": len(evidence.pairs) - 1.0} == conductor.seconds


def test_what_is_drawn_does_not_depend_on_how_many_run_at_once(
    played: Callable[..., tuple[Evidence, list[Progress]]],
) -> None:
    """Nor does the number of pairs: never more than the step asks for."""
    alone = played(1)[0]
    assert [1, 2, 3, 4, 5, 6] == [pair.number for pair in alone.pairs]
    assert [alone] * 3 == [played(at_once)[0] for at_once in (2, 4, 9)]


def test_each_pair_takes_its_turns_on_its_own_processors(
    played: Callable[..., tuple[Evidence, list[Progress]]],
) -> None:
    drawn = [pair.hash_seeds["candidate"] for pair in played(2, (4, 5))[0].pairs]
    assert [4, 5] * 3 == drawn


def test_one_line_shows_all_that_run(played: Callable[..., tuple[Evidence, list[Progress]]]) -> None:
    _, shown = played(4)
    assert [(1, 3), (5, 1)] == [(one.pair, one.beside) for one in shown]
    assert "hwperf: screen pairs 1–4 of 6" in progress_text(shown[0])


def test_what_is_done_beside_the_pairs_is_named() -> None:
    shown = {
        "checkout of the baseline": Progress(stage="checkout", pair=1, of=1, test=""),
        "comparison of fresh processes 1 of 4, about 62 s left, t.py::t": Progress(
            stage="processes", pair=1, of=4, test="t.py::t", left_s=62.4
        ),
        "operators, 2 of 2, t.py::t": Progress(stage="operators", pair=2, of=2, test="t.py::t"),
        "what moved, 2 of 3, t.py::t": Progress(stage="explain", pair=2, of=3, test="t.py::t"),
    }
    assert [f"hwperf: {text}" for text in shown] == [progress_text(one) for one in shown.values()]
