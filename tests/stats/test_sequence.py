"""The build decision: screen, fresh pairs, looks, Holm's steps, and what is said of the inconclusive."""

import math
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from random import Random
from typing import Literal

import pytest
from fakes import gates

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, FixedSample, Hypothesis, Measurement, Observation, Pair, Stage
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.metrics import Better
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.pairs.sequence import SCREEN_PAIRS, Step, check_alpha, decide, looks, next_step

MB = 1e6
VARYING = [10 * MB + i for i in range(7)]  # no two processes alike
SLOW, QUIET, SHAKY = 1.05, 1.0, 1.02  # candidate over baseline; the last one lies on the margin


def hypothesis(test: str = "a", metric: str = "latency", *, better: Better = "lower") -> Hypothesis:
    return gates.asked(metric, test=test, better=better)


A, B, C = hypothesis("a"), hypothesis("b"), hypothesis("c")


def observation(asked: Hypothesis, change: float, number: int) -> Observation:
    """A pair whose ratio is `change`, with a little noise that differs from pair to pair and has no tie."""
    baseline = 1e-3 * (1 + 0.01 * number)
    noise = 1 + 1e-4 * (number % 7) * (1 if number % 2 else -1) + 1e-6 * number
    return gates.observed(asked, [baseline], [baseline * change * noise])


def of_values(asked: Hypothesis, baseline: float, candidate: float) -> Observation:
    return gates.observed(asked, [baseline], [candidate])


def pair(number: int, stage: Stage, observations: Iterable[Observation]) -> Pair:
    return gates.pair(stage, observations, number)


def pairs(stage: Stage, changes: Mapping[Hypothesis, float], count: int, start: int = 1) -> tuple[Pair, ...]:
    """Make `count` pairs in which the candidate of each hypothesis takes so many times as long."""
    return tuple(
        pair(number, stage, [observation(asked, change, number) for asked, change in changes.items()])
        for number in range(start, start + count)
    )


def evidence(
    *groups: tuple[Pair, ...],
    hypotheses: Sequence[Hypothesis] = (A, B),
    fixed_samples: Sequence[FixedSample] = (),
    stopped: str = "",
    alpha: float = 0.01,
) -> Evidence:
    return Evidence(
        alpha=alpha,
        hypotheses=tuple(hypotheses),
        pairs=tuple(one for group in groups for one in group),
        fixed_samples=tuple(fixed_samples),
        stopped=said(stopped) if stopped else None,
    )


def examples(lost: int, won: int, *, test: str = "a", margin: float = 0.0, n: int = 400) -> FixedSample:
    """Two models of which the candidate gets `lost` examples wrong that the baseline had right."""
    same = [1.0] * (n - lost - won)
    return FixedSample(
        hypothesis=gates.asked("accuracy", margin, test=test, statistic="mean", scale="absolute", better="higher"),
        per="example",
        baseline=array("d", [1.0] * lost + [0.0] * won + same),
        candidate=array("d", [0.0] * lost + [1.0] * won + same),
    )


def values_of(
    metric: str, per: Literal["file", "fresh process"], baseline: Sequence[float], candidate: Sequence[float]
) -> FixedSample:
    asked = gates.asked(metric, 0.01, floor=MB)
    return FixedSample(hypothesis=asked, per=per, baseline=array("d", baseline), candidate=array("d", candidate))


def only(found: Mapping[Hypothesis, Comparison]) -> Comparison:
    (one,) = found.values()
    return one


def confidence(found: Comparison) -> float:
    assert found.change is not None
    return found.change.confidence


SCREENED_A = pairs("screen", {A: SLOW, B: QUIET}, 6)  # a is to be confirmed, b is cleared
SCREENED_BOTH = pairs("screen", {A: SLOW, B: SLOW}, 6)


def test_numbers_of_pairs_at_the_looks() -> None:
    counts = {(1, 0.01): (8, 13, 20), (3, 0.01): (10, 15, 22), (50, 0.01): (14, 19, 26), (1, 0.05): (8, 13, 20)}
    counts |= {(1, 0.001): (12, 17, 24)}
    assert counts == {(family, alpha): looks(family, alpha) for family, alpha in counts}


def test_every_look_can_reject() -> None:
    for family, alpha in product([1, 2, 3, 7, 50, 1000], [0.2, 0.05, 0.01, 0.001]):
        for count, share in zip(looks(family, alpha), (0.4, 0.3, 0.3), strict=True):
            assert 2.0**-count <= share * alpha / family


def test_rate_that_takes_too_many_pairs_is_refused() -> None:
    check_alpha(1e-12, 100)
    with pytest.raises(UsageProblem, match="1e-12 over 1,000 comparisons would take 64 pairs"):
        check_alpha(1e-12, 1000)


def test_nothing_to_ask_needs_no_pair() -> None:
    assert Step(stage=None) == next_step(evidence(hypotheses=()))
    assert decide(evidence(hypotheses=())) == {}


def test_first_every_test_is_screened() -> None:
    """A pair that lost a test is made up for; two trials of one measurement are measured once."""
    started = evidence(pairs("screen", {A: QUIET, B: QUIET}, 4))
    uneven = evidence(pairs("screen", {A: QUIET, B: QUIET}, 4), pairs("screen", {A: QUIET}, 2, 5))
    both = evidence(hypotheses=[hypothesis("a"), hypothesis("a", "cpu_time")])
    assert next_step(evidence()) == Step(stage="screen", hypotheses=(A, B), pairs=6)
    assert next_step(started) == Step(stage="screen", hypotheses=(A, B), pairs=2)
    assert next_step(uneven) == Step(stage="screen", hypotheses=(B,), pairs=2)
    assert next_step(both).measurements == (Measurement(test="a", label=""),)
    assert next_step(evidence(pairs("rehearsal", {A: SLOW, B: SLOW}, 6))).pairs == 6  # which counts for nothing


def test_a_suspect_of_the_rehearsal_needs_no_screen_and_is_confirmed_with_those_of_the_screen() -> None:
    """It waits for the screen of its group, and has its part in the error rate."""
    known = replace(evidence(), suspects=(A,))
    screened = replace(evidence(pairs("screen", {B: SLOW}, 6)), suspects=(A,))
    fresh = pairs("confirm", {A: SLOW, B: SLOW}, looks(2, 0.01)[0], start=7)
    assert Step(stage="screen", hypotheses=(B,), pairs=6) == next_step(known)
    assert ("confirm", (A, B)) == ((step := next_step(screened)).stage, step.hypotheses)
    assert {"regressed"} == {one.outcome for one in decide(replace(screened, pairs=screened.pairs + fresh)).values()}
    assert Step(stage="confirm", hypotheses=(A,), pairs=8) == next_step(replace(known, hypotheses=(A,)))


def test_a_suspect_of_the_rehearsal_that_is_not_slower_is_cleared_by_fresh_pairs() -> None:
    found = decide(replace(evidence(pairs("confirm", {A: QUIET}, 8), hypotheses=[A]), suspects=(A,)))[A]
    assert ("equivalent", 8, "8 fresh pairs: no sign of a slowdown") == (found.outcome, found.pairs, found.how)
    few = replace(evidence(pairs("confirm", {A: SLOW}, 3), hypotheses=[A], stopped="late"), suspects=(A,))
    assert {} == decide(few), "nothing is told of a look that is not complete"
    fresh = pairs("confirm", {A: SLOW}, 7), pairs("confirm", {A: 0.9}, 1, start=8)
    shown = decide(replace(evidence(*fresh, hypotheses=[A], stopped="late"), suspects=(A,)))[A]
    assert ("inconclusive", 8, "late") == (shown.outcome, shown.pairs, str(shown.cause)), "and of one that is, all"


def test_a_count_that_never_varies_is_screened_whole() -> None:
    counted = hypothesis(metric="tokens")
    three = tuple(pair(number, "screen", [of_values(counted, 100.0, 300.0)]) for number in (1, 2, 3))
    assert next_step(evidence(three, hypotheses=[counted])).stage == "screen"


def test_what_the_screen_clears_needs_no_more_pairs() -> None:
    quiet = evidence(pairs("screen", {A: QUIET, B: 0.9}, 6))
    found = decide(quiet)
    assert Step(stage=None) == next_step(quiet)
    assert ["equivalent", "improved"] == [found[A].outcome, found[B].outcome]
    assert found[A].how == "screen of 6 pairs: no sign of a slowdown"
    assert (1 - 2 / 64, 6) == (confidence(found[A]), found[A].pairs)


def test_screen_of_nine_shows_equivalence_where_one_pair_of_six_was_disturbed() -> None:
    """The margin is 2 %. Together P(6 of 6 within) and P(T+ <= 5 of 9) are 1/64 + 10/512 = 3.5 %."""
    table: list[tuple[Mapping[int, float], str, int]] = [
        ({}, "equivalent", 6),
        ({3: 1.035}, "equivalent", 9),
        ({3: 0.965}, "equivalent", 9),
        ({3: 1.035, 8: 1.022}, "equivalent", 9),
        ({3: 1.035, 8: 1.045}, "inconclusive", 8),
        ({3: 1.05}, "inconclusive", 4),  # after three the others might still make it a suspect
    ]
    for odd, outcome, count in table:
        made = [pair(n, "screen", [observation(A, odd.get(n, 1.0), n)]) for n in range(1, 10)]
        grown = (evidence(tuple(made[:n]), hypotheses=[A]) for n in range(1, 10))
        over = next(one for one in grown if next_step(one).stage is None)
        found = decide(over)[A]
        assert (outcome, count, count) == (found.outcome, len(over.pairs), found.pairs)
        assert confidence(found) == pytest.approx(1 - 2 * (10 / 512 if count == 9 else 0.5**count))


def test_six_pairs_count_where_a_longer_screen_is_stopped() -> None:
    """It was no suspect by these, and would fail nothing; what is dropped then is kept likewise."""
    for pairs in [6, 7, 8]:
        made = tuple(pair(n, "screen", [observation(A, 1.035 if n == 3 else 1.0, n)]) for n in range(1, pairs + 1))
        growing = evidence(made, hypotheses=[A])
        assert "pairs missing" == cause_of(only(decide(growing))), pairs
        for ended in (replace(growing, stopped=state("interrupted")), replace(growing, dropped=(A,))):
            found = only(decide(ended))
            assert ("inconclusive", 6, "") == (found.outcome, found.pairs, cause_of(found))


def test_a_screen_is_no_longer_than_six_pairs_where_more_could_not_show_it_to_be_equal() -> None:
    """Where a bound would lie on the margin itself. With one pair beyond the margin, three more could show it."""
    doubled = gates.asked("latency", 1.0)
    for changes, more in [([2.0] * 3, 0), ([1.0, 1.0, 3.0], 3)]:
        seen = [of_values(doubled, 1.0, change) for change in (1.0, 1.0, 1.0, *changes)]
        made = tuple(pair(number, "screen", [one]) for number, one in enumerate(seen, 1))
        assert more == next_step(evidence(made, hypotheses=[doubled])).pairs, changes


def test_a_screen_is_no_longer_than_six_pairs_where_the_build_is_red() -> None:
    """They would show that another test is equal, and change nothing."""
    for first, left in [(2.0, 0), (1.0, 3)]:
        a = [*pairs("screen", {A: first}, 6), *pairs("confirm", {A: first}, 9)]
        b = [pair(n, "screen", [observation(B, 1.035 if n == 18 else 1.0, n)]) for n in range(16, 22)]
        both = replace(evidence(tuple(a), tuple(b)), groups=(1, 1))
        assert left == next_step(both).pairs
        assert ["regressed" if first > 1 else "equivalent", "inconclusive"] == [
            decide(both)[one].outcome for one in (A, B)
        ]


def cause_of(found: Comparison) -> str:
    return found.cause.kind if found.cause else ""


def test_cleared_by_wide_values_is_inconclusive() -> None:
    """Never a bare pass: six pairs of which five are quicker and one far slower show nothing."""
    wide = [pair(i, "screen", [observation(A, 1.5 if i == 3 else 0.99, i)]) for i in range(1, 7)]
    found = only(decide(evidence(tuple(wide), hypotheses=[A])))
    assert ("inconclusive", "") == (found.outcome, found.reason)
    assert found.detectable is not None


def test_rank_sum_of_seventeen_is_sent_on() -> None:
    """The pair numbered n has the n-th smallest change."""
    table: list[tuple[list[int], bool]] = [
        ([], False),
        ([4], False),  # the largest rank sum left is 21 - 4 = 17
        ([5], True),
        ([1, 3], False),
        ([2, 3], True),
    ]
    for faster, cleared in table:
        values = [(1.0, 1 + 0.01 * n * (-1 if n in faster else 1)) for n in range(1, 7)]
        screened = tuple(pair(n, "screen", [of_values(A, *value)]) for n, value in enumerate(values, 1))
        assert cleared == (next_step(evidence(screened, hypotheses=[A])).stage is None)


def test_only_changes_for_the_worse_are_sent_on() -> None:
    table: list[Better] = ["lower", "higher"]
    for better in table:
        rate = hypothesis("a", "throughput", better=better)
        screened = evidence(pairs("screen", {rate: SLOW}, 6), hypotheses=[rate])
        assert next_step(screened).stage == ("confirm" if better == "lower" else None)


def test_first_look_is_at_eight_fresh_pairs() -> None:
    assert next_step(evidence(SCREENED_A)) == Step(stage="confirm", hypotheses=(A,), pairs=8)
    seven = evidence(SCREENED_A, pairs("confirm", {A: SLOW}, 7, 7))
    assert next_step(seven) == Step(stage="confirm", hypotheses=(A,), pairs=1)


def test_eight_slow_fresh_pairs_are_a_regression() -> None:
    found = decide(evidence(SCREENED_A, pairs("confirm", {A: SLOW}, 8, 7)))
    assert ("regressed", 2**-8, 8) == (found[A].outcome, found[A].p_value, found[A].pairs)
    assert found[A].how == (
        "8 fresh pairs, exact signed-rank, interleaved, at most 1 % false alarms per build (Holm, 1 of 2 screened)"
    )
    assert 1 - 2 * 0.004 == confidence(found[A])
    assert Step(stage=None) == next_step(evidence(SCREENED_A, pairs("confirm", {A: SLOW}, 8, 7)))


def test_screen_is_no_part_of_the_test() -> None:
    """Six slow pairs of the screen and eight quiet or faster fresh ones: nothing became slower."""
    quiet, faster = (decide(evidence(SCREENED_A, pairs("confirm", {A: one}, 8, 7)))[A] for one in (QUIET, 0.9))
    assert [("equivalent", 8), ("improved", 8)] == [(one.outcome, one.pairs) for one in (quiet, faster)]


def test_never_looked_at_between_looks() -> None:
    """Twelve pairs show what eight did; what came after the look does not count."""
    eight = evidence(SCREENED_A, pairs("confirm", {A: SHAKY}, 8, 7))
    more = evidence(SCREENED_A, pairs("confirm", {A: SHAKY}, 8, 7), pairs("confirm", {A: 2.0}, 4, 15))
    assert decide(eight)[A].change == decide(more)[A].change
    assert ("inconclusive", "pairs still missing: 5") == (decide(eight)[A].outcome, decide(eight)[A].reason)
    assert "pairs still missing: 1" == decide(more)[A].reason
    assert next_step(more) == Step(stage="confirm", hypotheses=(A,), pairs=1)


def test_second_and_third_look_come_at_thirteen_and_twenty() -> None:
    thirteen = evidence(SCREENED_A, pairs("confirm", {A: SHAKY}, 13, 7))
    twenty = evidence(SCREENED_A, pairs("confirm", {A: SHAKY}, 20, 7))
    assert (13, 7) == (decide(thirteen)[A].pairs, next_step(thirteen).pairs)
    assert Step(stage=None) == next_step(twenty)
    assert ("inconclusive", "", 20) == (decide(twenty)[A].outcome, decide(twenty)[A].reason, decide(twenty)[A].pairs)
    assert decide(twenty)[A].change != decide(thirteen)[A].change


def test_out_of_time_the_last_complete_look_counts() -> None:
    late = "the time of 600 s was too short"
    stopped = evidence(SCREENED_A, pairs("confirm", {A: SHAKY}, 10, 7), stopped=late)
    found = decide(stopped)[A]
    assert Step(stage=None) == next_step(stopped)
    assert ("inconclusive", late, 8) == (found.outcome, found.reason, found.pairs)


def test_out_of_time_before_the_first_look_the_screen_is_shown_and_decides_nothing() -> None:
    stopped = evidence(SCREENED_A, pairs("confirm", {A: SLOW}, 7, 7), stopped="late")
    found = decide(stopped)[A]
    assert ("inconclusive", "late", 6, None) == (found.outcome, found.reason, found.pairs, found.p_value)
    assert found.how == "screen of 6 pairs, not confirmed"
    assert "pairs still missing: 1" == decide(replace(stopped, stopped=""))[A].reason


def test_screen_that_was_cut_short_decides_nothing() -> None:
    found = decide(evidence(pairs("screen", {A: SLOW}, 5), stopped="late"))
    assert [A] == list(found)  # of b nothing was observed
    assert ("inconclusive", "late", 5) == (found[A].outcome, found[A].reason, found[A].pairs)
    assert "pairs still missing: 1" == decide(evidence(pairs("screen", {A: SLOW}, 5)))[A].reason


def test_two_hypotheses_share_the_level_until_one_is_rejected() -> None:
    """Of two, nine pairs are looked at first: 2^-9 is at most 0.002. What is rejected passes its share on."""
    eight = pairs("confirm", {A: SLOW, B: SLOW}, 8, 7)
    found = decide(evidence(SCREENED_BOTH, eight, pairs("confirm", {A: SLOW, B: SLOW}, 1, 15)))
    assert 1 == next_step(evidence(SCREENED_BOTH, eight)).pairs
    assert ["regressed", "regressed"] == [found[A].outcome, found[B].outcome]
    assert 1 - 2 * 0.002 == confidence(found[A])


def test_suspect_that_eight_fresh_pairs_clear_is_asked_no_further() -> None:
    """The look is at nine. Where equivalence is to be shown, pairs go on; one value is beyond the margin."""
    for prove_equal in [False, True]:
        fresh = [pair(6 + n, "confirm", [observation(A, SLOW, n), observation(B, 1.0, n)]) for n in range(1, 9)]
        cleared = replace(evidence(SCREENED_BOTH, tuple(fresh)), until_equivalent=prove_equal)
        found = decide(cleared)[B]
        assert next_step(cleared).hypotheses == ((A, B) if prove_equal else (A,))
        assert (8, "8 fresh pairs: no sign of a slowdown") == (found.pairs, found.how) or prove_equal
        assert found.outcome == ("inconclusive" if prove_equal else "equivalent")


def test_pairs_that_could_not_change_what_is_said_are_left_out() -> None:
    """Whatever the others show: here each is far slower, as fast, or far faster."""
    table: list[Stage] = ["screen", "confirm"]
    for stage in table:
        before, least, most = ((), 3, 9) if stage == "screen" else (SCREENED_A, 5, 8)
        draw, ends = Random(1), Counter[int]()
        for _ in range(60):
            shown = [math.exp(draw.gauss(0, 0.03)) for _ in range(most)]
            made = [pair(n, stage, [of_values(A, 1.0, one)]) for n, one in enumerate(shown, 1)]
            grown = (evidence(before, tuple(made[:count]), hypotheses=[A]) for count in range(1, most + 1))
            over = next((one for one in grown if next_step(one).stage is None), None)
            if over is None:
                continue  # a suspect, or one that stays so
            count = len(over.pairs) - len(before)
            ends[count] += 1
            for others in (draw.choices([0.8, 1.0, 1.2], k=most - count) for _ in range(9)):
                rest = [
                    pair(n, stage, [of_values(A, 1.0, one * (1 + n / 1e6))]) for n, one in enumerate(others, count + 1)
                ]
                whole = replace(over, pairs=(*over.pairs, *rest))
                assert next_step(whole).stage is None
                assert decide(whole)[A].outcome == decide(over)[A].outcome
                assert count in (6, most) or "inconclusive" == decide(over)[A].outcome
            assert count == decide(over)[A].pairs
            level = 10 / 512 if count == 9 else 0.5**count
            assert 1 - 2 * level == pytest.approx(confidence(decide(over)[A]))
        assert {*range(least, most + 1)} == {*ends}, stage


def test_look_shows_equivalence_where_that_is_asked_for() -> None:
    """Of a single suspect eight pairs are looked at."""
    asked = evidence(SCREENED_A, pairs("confirm", {A: QUIET}, 8, 7))
    found = decide(replace(asked, until_equivalent=True))[A]
    assert ("equivalent", 8) == (found.outcome, found.pairs)
    assert "exact signed-rank" in found.how


def test_suspect_of_which_half_of_the_pairs_are_beyond_the_margin_is_asked_on() -> None:
    changes = [1.0] * 4 + [1.03] * 4
    cleared = [pair(6 + n, "confirm", [observation(A, one, n)]) for n, one in enumerate(changes, 1)]
    asked_on = [pair(7, "confirm", [observation(A, 1.03, 1)]), *cleared[1:]]
    assert Step(stage=None) == next_step(evidence(SCREENED_A, tuple(cleared)))
    assert "inconclusive" == decide(evidence(SCREENED_A, tuple(cleared)))[A].outcome
    assert Step(stage="confirm", hypotheses=(A,), pairs=5) == next_step(evidence(SCREENED_A, tuple(asked_on)))


def test_one_of_five_pairs_on_the_margin_clears_a_suspect() -> None:
    """That pair is not within it. Seven others give p = 2/256, and equivalence of eight pairs takes 1/256."""
    twice = gates.asked(size=1.0)
    for first, stage in ((2.0, None), (1.99, "confirm")):
        five = (pair(n, "confirm", [of_values(twice, 1.0, first if n == 1 else 1.0)]) for n in range(1, 6))
        assert stage == next_step(replace(evidence(tuple(five), hypotheses=[twice]), suspects=(twice,))).stage


def test_a_fixed_sample_counts_in_the_share_of_the_first_group() -> None:
    """The first group has `a` and a sample, the next one `b`: each a third of 1 %, of which the first look has 0.4."""
    fresh = pairs("confirm", {A: SLOW}, 10, 7)
    found = decide(replace(evidence(SCREENED_A, fresh, fixed_samples=[examples(8, 8)]), groups=(1, 1)))[A]
    assert "regressed" == found.outcome
    assert pytest.approx(1 - 2 * 0.4 * 0.01 / 3) == confidence(found)


def test_share_of_a_rejected_hypothesis_is_passed_on_within_the_look() -> None:
    """Nine pairs of b with the smallest one below the margin: 2/512 is within 0.4 %, but not within 0.2 %."""
    changes = [1.05] * 8 + [1.0195]
    fresh = tuple(
        pair(6 + n, "confirm", [observation(A, SLOW, n), observation(B, change, n)])
        for n, change in enumerate(changes, 1)
    )
    lone = tuple(replace(one, observations=one.observations[1:]) for one in fresh)
    together, alone = decide(evidence(SCREENED_BOTH, fresh)), decide(evidence(SCREENED_BOTH, lone))
    assert 2 / 512 == together[B].p_value
    assert ["regressed", "regressed"] == [together[A].outcome, together[B].outcome]
    assert 1 - 2 * 0.004 == confidence(together[B])
    assert ("inconclusive", 9) == (alone[B].outcome, alone[B].pairs)


def test_decided_trial_is_not_measured_again() -> None:
    first = evidence(SCREENED_BOTH, pairs("confirm", {A: SLOW, B: SHAKY}, 9, 7))
    assert next_step(first) == Step(stage="confirm", hypotheses=(B,), pairs=5)
    second = evidence(SCREENED_BOTH, pairs("confirm", {A: SLOW, B: SHAKY}, 9, 7), pairs("confirm", {B: SLOW}, 12, 16))
    assert ("regressed", 9) == (decide(second)[A].outcome, decide(second)[A].pairs)
    assert Step(stage=None) == next_step(second)


def test_lost_values_delay_only_their_own_look() -> None:
    """One test lacks two of nine values: the other is decided by its nine, the one is asked for more."""
    uneven = evidence(SCREENED_BOTH, pairs("confirm", {A: SLOW, B: SLOW}, 7, 7), pairs("confirm", {A: SLOW}, 2, 14))
    assert "regressed" == decide(uneven)[A].outcome
    assert ("inconclusive", "pairs still missing: 2") == (decide(uneven)[B].outcome, decide(uneven)[B].reason)
    assert next_step(uneven) == Step(stage="confirm", hypotheses=(B,), pairs=1)  # of eight, which may clear it


def test_a_dropped_trial_keeps_what_its_last_look_has_said() -> None:
    """Its values came with those of another statistic; one pair less, and it is not decided."""
    last = looks(1, 0.01)[-1]
    for count, known in ((last, True), (last - 1, False)):
        shaky = evidence(SCREENED_A, pairs("confirm", {A: SHAKY}, count, 7))
        assert known == (A in decide(replace(shaky, dropped=(A,))))


def test_values_without_a_ratio_are_not_comparable() -> None:
    negative = tuple(pair(n, "screen", [of_values(A, 1.0 + n, -1.0)]) for n in range(1, 7))
    late = tuple(pair(6 + n, "confirm", [of_values(A, 1.0, 2.0 - 0.25 * n)]) for n in range(1, 9))
    reason = "the ratio of candidate to baseline needs positive, finite values, and one is not"
    for group in ((negative,), (negative[:2],), (SCREENED_A, late)):
        found = decide(evidence(*group, hypotheses=[A], stopped="late"))[A]
        assert ("not comparable", reason) == (found.outcome, found.reason)


def test_recorded_values_that_never_vary_are_compared_exactly() -> None:
    table = [
        (100.0, 100.0, "equivalent"),
        (100.0, 101.0, "equivalent"),
        (100.0, 90.0, "improved"),
        (-2.0, -2.0, "equivalent"),
    ]
    for baseline, candidate, outcome in table:
        tokens = hypothesis("a", "tokens")
        constant = tuple(pair(n, "screen", [of_values(tokens, baseline, candidate)]) for n in range(1, 7))
        found = only(decide(evidence(constant, hypotheses=[tokens])))
        assert (outcome, None, 6) == (found.outcome, found.p_value, found.pairs)
        assert found.how == "6 pairs, equal on each side, compared exactly, no p-value", (baseline, candidate, outcome)
        assert Step(stage=None) == next_step(evidence(constant, hypotheses=[tokens])), (baseline, candidate, outcome)


def test_recorded_values_that_never_vary_fail_after_fresh_pairs_only() -> None:
    """P(8 of 8 coins) = 2^-8, which the first look allows; the six pairs of the screen decide nothing."""
    for baseline, candidate in [(100.0, 110.0), (0.0, 3.0), (-2.0, -1.0)]:
        tokens = hypothesis("a", "tokens")
        constant = tuple(pair(n, "screen", [of_values(tokens, baseline, candidate)]) for n in range(1, 7))
        fresh = tuple(pair(n, "confirm", [of_values(tokens, baseline, candidate)]) for n in range(7, 15))
        screened, seven, eight = (
            evidence(constant, fresh[:count], hypotheses=[tokens], stopped="" if count == 8 else "late")
            for count in (0, 7, 8)
        )
        found = only(decide(eight))
        assert Step(stage="confirm", hypotheses=(tokens,), pairs=8) == next_step(replace(screened, stopped=None)), (
            baseline,
            candidate,
        )
        assert ["inconclusive"] * 2 == [only(decide(one)).outcome for one in (screened, seven)], (baseline, candidate)
        assert ("regressed", 2.0**-8, 8) == (found.outcome, found.p_value, found.pairs), (baseline, candidate)
        assert found.how.startswith("8 fresh pairs, equal on each side, exact sign test"), (baseline, candidate)


def test_recorded_values_that_follow_who_starts_first_do_not_fail() -> None:
    """All six coins of the screen fell the same way; those of the confirmation do not."""
    steps = hypothesis("a", "steps")
    constant = tuple(pair(n, "screen", [of_values(steps, 1.0, 2.0)]) for n in range(1, 7))
    mixed = tuple(
        pair(n, "confirm", [of_values(steps, 1.0, 2.0) if n % 4 else of_values(steps, 2.0, 1.0)]) for n in range(7, 27)
    )
    assert "inconclusive" == only(decide(evidence(constant, mixed, hypotheses=[steps]))).outcome


def test_values_of_the_fresh_pairs_that_have_no_ratio_are_not_comparable() -> None:
    steps = hypothesis("a", "steps")
    constant = tuple(pair(n, "screen", [of_values(steps, 0.0, 2.0)]) for n in range(1, 7))
    varying = tuple(pair(n, "confirm", [of_values(steps, n % 2, float(n))]) for n in range(7, 15))
    assert "not comparable" == only(decide(evidence(constant, varying, hypotheses=[steps]))).outcome


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_recorded_values_that_are_0_on_one_side_alone_are_compared(better: Better) -> None:
    """A model that answers nothing right any more has no ratio to what it was, and is the worst there is."""
    bleu = replace(hypothesis("a", "bleu"), better=better)
    sides = [(0.5 + n / 100, 0.0) if better == "higher" else (0.0, 3.0 + n % 4) for n in range(1, 15)]

    def found(*, mirrored: bool) -> Comparison:
        seen = [of_values(bleu, *(side[::-1] if mirrored else side)) for side in sides]
        screen = tuple(pair(n, "screen", [one]) for n, one in enumerate(seen[:6], 1))
        fresh = tuple(pair(n, "confirm", [one]) for n, one in enumerate(seen[6:], 7))
        return only(decide(evidence(screen, () if mirrored else fresh, hypotheses=[bleu])))

    worse, better_now = found(mirrored=False), found(mirrored=True)
    assert ("regressed", 2.0**-8, 8) == (worse.outcome, worse.p_value, worse.pairs)
    assert worse.how.startswith("8 fresh pairs, 0 on one side and more on the other, exact sign test")
    assert ("improved", None) == (better_now.outcome, better_now.p_value)
    assert better_now.how.startswith("6 pairs, 0 on one side and more on the other, compared exactly")


def test_recorded_values_that_vary_and_timings_that_happen_to_agree_are_tested() -> None:
    tokens = hypothesis("a", "tokens")
    varying = tuple(pair(n, "screen", [of_values(tokens, 100.0, 110.0 + n)]) for n in range(1, 7))
    agreeing = tuple(pair(n, "screen", [of_values(A, 1e-3, 2e-3)]) for n in range(1, 7))
    assert next_step(evidence(varying, hypotheses=[tokens])).stage == "confirm"
    assert next_step(evidence(agreeing, hypotheses=[A])).stage == "confirm"


def test_trials_outside_the_evidence_are_ignored() -> None:
    assert [A] == list(decide(evidence(SCREENED_BOTH, hypotheses=[A])))


def test_lone_match_has_the_whole_level() -> None:
    """P(Bin(7, 1/2) >= 7) = 2^-7 = 0.0078: below 1 %, but not below a half of it."""
    seven, ten, mixed = examples(7, 0), examples(10, 0, test="b"), examples(9, 8, test="c")
    alone = only(decide(evidence(hypotheses=[], fixed_samples=[seven])))
    both = decide(evidence(hypotheses=[], fixed_samples=[seven, ten]))
    shared = decide(evidence(hypotheses=[], fixed_samples=[seven, mixed]))
    assert ("regressed", 2**-7) == (alone.outcome, alone.p_value)
    assert alone.how.endswith("at most 1 % false alarms per build (Holm, 0 of 0 screened and 1 other)")
    assert ["regressed", "regressed"] == [both[one.hypothesis].outcome for one in (seven, ten)]  # passed on
    assert ["inconclusive", "inconclusive"] == [shared[one.hypothesis].outcome for one in (seven, mixed)]


def test_rejected_match_passes_its_share_to_the_pairs() -> None:
    """Nine pairs with p = 2/512: enough at 0.4 %, which the hypothesis has once the accuracy is rejected."""
    fresh = tuple(
        pair(6 + n, "confirm", [observation(A, change, n)]) for n, change in enumerate([1.05] * 8 + [1.0195], 1)
    )
    strong, weak = examples(20, 0), examples(11, 10)
    assert decide(evidence(SCREENED_A, fresh, fixed_samples=[strong]))[A].outcome == "regressed"
    assert decide(evidence(SCREENED_A, fresh, fixed_samples=[weak]))[A].outcome == "inconclusive"


def test_match_that_no_chance_can_reject_takes_no_share() -> None:
    table: list[FixedSample] = [
        examples(0, 0),
        examples(6, 0),  # 2^-6 is above 1 %, whatever happens
        examples(0, 0, margin=0.01),
        values_of("memory", "fresh process", [10 * MB] * 3, [12 * MB] * 3),
        values_of("memory", "fresh process", [10 * MB, 11 * MB], [12 * MB, 13 * MB]),  # two cannot reach 1 %
        values_of("model_size", "file", [100.0], [100.0]),
    ]
    for fixed in table:
        found = decide(evidence(SCREENED_A, fixed_samples=[fixed]))[fixed.hypothesis]
        assert next_step(evidence(SCREENED_A, fixed_samples=[fixed])).pairs == 8
        assert "Holm" not in found.how, fixed


def test_outcome_of_a_match() -> None:
    table: list[tuple[FixedSample, str]] = [
        (examples(0, 0), "equivalent"),
        (examples(0, 9), "improved"),
        (examples(40, 2, margin=0.01), "regressed"),
        (examples(1, 1, margin=0.03), "equivalent"),
        (values_of("memory", "fresh process", [10 * MB] * 3, [12 * MB] * 3), "inconclusive"),  # 2^-3 is above 1 %
        (values_of("memory", "fresh process", [12 * MB] * 3, [10 * MB] * 3), "improved"),
        (values_of("memory", "fresh process", [10 * MB] * 7, [12 * MB] * 7), "regressed"),
        (values_of("memory", "fresh process", [12 * MB] * 7, [10 * MB] * 7), "improved"),
        (values_of("memory", "fresh process", [10 * MB] * 7, [10 * MB] * 7), "equivalent"),
        (values_of("memory", "fresh process", VARYING, [2 * MB + one for one in VARYING]), "regressed"),
        (values_of("model_size", "file", [5 * MB], [5 * MB + 1]), "equivalent"),
    ]
    assert [] == [
        (fixed, outcome)
        for fixed, outcome in table
        if outcome != only(decide(evidence(hypotheses=[], fixed_samples=[fixed]))).outcome
    ]


def test_a_match_that_can_be_just_as_rare_as_the_level_is_tested() -> None:
    varying = values_of("memory", "fresh process", VARYING, [2 * MB + one for one in VARYING])
    for match in (examples(7, 0), varying):
        found = only(decide(evidence(hypotheses=[], fixed_samples=[match], alpha=2**-7)))
        assert ("regressed", 2**-7) == (found.outcome, found.p_value)
        assert "Holm, 0 of 0 screened and 1 other" in found.how


def test_equal_processes_share_the_level_with_what_else_is_tested() -> None:
    """2^-7 is below 1 %, and not below a half of it; 2^-8 is."""
    mixed = examples(9, 8, test="b")
    for count, outcome in ((7, "inconclusive"), (8, "regressed")):
        memory = values_of("memory", "fresh process", [10 * MB] * count, [12 * MB] * count)
        found = decide(evidence(hypotheses=[], fixed_samples=[memory, mixed]))[memory.hypothesis]
        assert outcome == found.outcome


def test_every_trial_has_an_outcome_at_the_end() -> None:
    """Going on as `next_step` asks ends after at most three looks."""
    table: list[tuple[float, float]] = [(QUIET, SLOW), (SHAKY, SLOW), (SHAKY, SHAKY), (SLOW, QUIET)]
    for changes in table:
        at = dict(zip((A, B), changes, strict=True))
        growing = evidence()
        while (step := next_step(growing)).stage is not None:
            asked = {asked: change for asked, change in at.items() if asked.measurement in step.measurements}
            more = pairs(step.stage, asked, step.pairs, len(growing.pairs) + 1)
            growing = replace(growing, pairs=(*growing.pairs, *more))
            assert len(growing.pairs) <= SCREEN_PAIRS + looks(2, 0.01)[-1]
        found = decide(growing)
        assert {A, B} == set(found), changes
        assert ["" for _ in found] == [one.reason for one in found.values()], changes
        assert [change == SLOW for change in changes] == [found[one].outcome == "regressed" for one in (A, B)]


def test_deciding_by_pairs_does_not_import_scipy() -> None:
    """It takes longer to import than a pair of small models takes to run."""
    code = "import sys, pytest_hwperf.stats.pairs.sequence as s; s.looks(3, 0.01); s.check_alpha(0.01)"
    program = f"{code}; sys.exit(any(name in sys.modules for name in ('scipy', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
