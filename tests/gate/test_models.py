"""Rounds of pairs of equal processes, played without processes."""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import gates
from fakes.clocks import HandClock
from fakes.played_models import out_of_time
from fakes.played_models import play as play_models

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.models.compare import CompareSettings, compare_models, compare_with_itself, rehearsed
from pytest_hwperf.host.workdirs import private_folder
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.run import Values, replace
from pytest_hwperf.records.verdict import ComparisonOutcome, Margin
from pytest_hwperf.stats.pairs.hypotheses import Questions

SETTINGS = CompareSettings(time_s=20.0)
ASKED = Evidence(alpha=0.01, hypotheses=(), pairs=())
PAIR_S = 2.0


class PlayedConductor:
    """Gives rounds that a test has written; every pair takes two seconds."""

    def __init__(self, clock: HandClock, rounds: Sequence[Evidence]) -> None:
        self._clock = clock
        self._rounds = iter(rounds)
        self.dropped = dict[str, str]()
        self.begun = list[Evidence]()

    def conduct(self, evidence: Evidence, until: float, why_late: str) -> Evidence:
        assert why_late is None
        self.begun.append(evidence)
        seen = next(self._rounds)
        self._clock.pass_time(PAIR_S * len(seen.pairs))
        assert until <= self._clock() + SETTINGS.time_s
        return seen


def observed(*changes: float | None) -> Evidence:
    """A round of pairs with these log ratios, their calls lasting 1 ms."""
    seen = gates.observed(gates.asked(test="compare"), [0.001], [0.001])
    pairs = [gates.pair("screen", [replace(seen, change=change)], number) for number, change in enumerate(changes, 1)]
    return replace(ASKED, pairs=tuple(pairs))


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., PlayedConductor]:
    def play_rounds(*rounds: Evidence) -> PlayedConductor:
        clock = HandClock()
        conductor = PlayedConductor(clock, rounds)

        @contextmanager
        def rehearsed(old: str, new: str, *_: Any) -> Iterator[tuple[PlayedConductor, Questions]]:
            assert old == new
            yield conductor, Questions()

        monkeypatch.setattr("pytest_hwperf.gate.models.compare.rehearsed", rehearsed)
        monkeypatch.setattr("pytest_hwperf.gate.models.compare.monotonic", clock)
        return conductor

    return play_rounds


def test_rounds_follow_until_the_time_is_up(play: Callable[..., PlayedConductor]) -> None:
    """Six pairs and four take the twenty seconds; each round begins without the pairs of the last."""
    conductor = play(observed(*[0.01] * 6), observed(*[-0.01] * 4))
    seen = compare_with_itself("m:f", [[1.0]], SETTINGS)
    assert ((0.01,) * 6 + (-0.01,) * 4, 0.001, 20.0, "") == (seen.changes, seen.latency_s, seen.seconds, seen.lost)
    assert [ASKED, ASKED] == conductor.begun


def test_pairs_without_a_ratio_or_time_for_one_give_no_change(play: Callable[..., PlayedConductor]) -> None:
    play(observed(0.01, None), observed())
    assert (0.01,) == compare_with_itself("m:f", [[1.0]], SETTINGS).changes
    play(observed())
    seen = compare_with_itself("m:f", [[1.0]], SETTINGS)
    assert ((), None, "") == (seen.changes, seen.latency_s, seen.lost)


def test_lost_pairs_end_it_and_keep_what_was_seen(play: Callable[..., PlayedConductor]) -> None:
    play(replace(observed(0.01, 0.02), stopped="3 pairs were lost"))
    seen = compare_with_itself("m:f", [[1.0]], SETTINGS)
    assert ((0.01, 0.02), "3 pairs were lost") == (seen.changes, seen.lost)


def test_a_model_that_gives_no_value_ends_it_with_the_reason(play: Callable[..., PlayedConductor]) -> None:
    """It would be asked again and again."""
    conductor = play(replace(observed(None, None), dropped=("latency",)))
    conductor.dropped["latency"] = "gave no value in 2 pairs: it was not measured there"
    assert "gave no value in 2 pairs: it was not measured there" == compare_with_itself("m:f", [[1.0]], SETTINGS).lost
    assert 1 == len(conductor.begun)


def lost(_: Conductor, evidence: Evidence, why_late: Statement | None) -> Evidence:
    assert why_late is not None
    return replace(evidence, stopped=state("pairs lost", lost=3, why="baseline: ended with code 3"))


def silent(conductor: Conductor, evidence: Evidence, why_late: Statement | None) -> Evidence:
    """Every hypothesis is dropped, since the model crashes in each pair."""
    assert why_late is not None
    conductor.dropped.update(
        {one: state("no value", pairs=2, why="candidate: ended with code 3") for one in evidence.hypotheses}
    )
    return replace(evidence, dropped=tuple(conductor.dropped))


@pytest.mark.parametrize(
    ("ending", "outcome", "reason"),
    [
        (out_of_time, "inconclusive", "the time of 6 s was too short"),
        (lost, "inconclusive", "3 pairs in a row were lost, the last one as baseline: ended with code 3"),
        (silent, "not comparable", "gave no value in 2 pairs in a row: candidate: ended with code 3"),
    ],
)
def test_every_margin_is_answered_where_the_pairs_observed_nothing(
    monkeypatch: pytest.MonkeyPatch, ending: Any, outcome: ComparisonOutcome, reason: str
) -> None:
    """It used to be left out, so that a test with `hwperf.compare` passed."""
    play_models(monkeypatch, ending)
    margins = (SETTINGS.margins[0], Margin(metric="latency", statistic="p95", size=0.1))
    found, _ = compare_models("m:f", "m:f", [[1.0]], None, CompareSettings(time_s=6.0, margins=margins))
    assert [(*margin.key, outcome, reason) for margin in margins] == [
        (one.metric, one.statistic, one.outcome, one.reason) for one in found
    ]


def test_what_the_rehearsal_has_decided_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    play_models(monkeypatch, out_of_time, lambda _: array("d", [1.0] * 100))
    found, _ = compare_models("m:f", "m:f", [[1.0]], [1], SETTINGS)
    assert [("latency", "inconclusive"), ("accuracy", "equivalent")] == [(one.metric, one.outcome) for one in found]


def right_examples(count: int) -> Values:
    return array("d", [1.0] * count + [0.0] * (200 - count))


def accuracy_of(model: str) -> tuple[str, str]:
    """Compare a model with itself; return what is said of its accuracy."""
    found, _ = compare_models(model, model, [[1.0]], [1], SETTINGS)
    return next((one.outcome, one.reason) for one in found if one.metric == "accuracy")


def test_a_worse_model_that_is_the_same_in_every_process_regressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five further processes a side agree; one of a file is enough."""
    rehearsed_tests = play_models(
        monkeypatch, out_of_time, lambda side: right_examples(190 if side == "baseline" else 120)
    )
    assert "regressed" == accuracy_of("m:f")[0]
    assert ["compare"] * 5 == rehearsed_tests
    assert "regressed" == accuracy_of("model.onnx")[0]
    assert ["compare"] * 6 == rehearsed_tests


def test_logs_lie_where_no_other_user_can_prepare_links(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept, for the user to read."""
    chosen: list[Path] = []

    def refused(**given: Any) -> None:
        chosen.append(given["logs"])
        raise UsageProblem

    monkeypatch.setattr("pytest_hwperf.gate.models.compare.Conductor", refused)
    with pytest.raises(UsageProblem), rehearsed("m:f", "m:f", [[1.0]], None, SETTINGS, math.inf):
        pytest.fail("it was refused")
    assert [private_folder() / "logs"] == chosen
    assert temporary in chosen[0].parents
