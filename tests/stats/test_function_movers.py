"""Functions that moved, in simulated profiles with known answers."""

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from fakes import gates
from fakes.profiles import repeats, sampled

from pytest_hwperf.records.evidence import Explanation
from pytest_hwperf.records.profiles import SampledCalls
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.call_trees import Seconds, holders, renames
from pytest_hwperf.stats.explanations import explain_functions, explained
from pytest_hwperf.stats.sequence import decide

SLOWER = gates.hypothesis(0)
BEFORE = {"predict": 1, "predict>tokenize": 2, "predict>tokenize>split": 1, "predict>embed": 4, "predict>score": 2}


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """From about 1 ms to 1.3 ms."""
    return decide(gates.build([0.3, 0.0], Random(1)))[SLOWER]


def scaled(comparison: Comparison, baseline_ms: float, candidate_ms: float) -> Comparison:
    """Give a comparison the figures that fit the profiles."""
    assert comparison.change is not None
    change = replace(comparison.change, value=candidate_ms / baseline_ms - 1, low=None, high=None)
    return replace(comparison, baseline=baseline_ms * 1e-3, change=change)


def explained_by(
    comparison: Comparison, baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]
) -> Explanation:
    """Explain with the pairs' times those of the profiles: 10 ms without a profiler in the baseline."""
    then, now = (sum(sum(one.stacks.values()) for one in side) / len(side) for side in (baseline, candidate))
    return explain_functions(SLOWER, scaled(comparison, 10, 10 * now / then), baseline, candidate)


def movers(explanation: Explanation) -> Mapping[str, float]:
    return {one.name: round(one.share, 2) for one in explanation.movers}


def test_the_planted_slow_function_is_named_with_its_part_of_the_change(comparison: Comparison) -> None:
    """3 of 10 ms more, all of it in `embed`."""
    found = explained_by(comparison, repeats(BEFORE), repeats({**BEFORE, "predict>embed": 7}))
    (only,) = found.movers
    assert ("embed", "model.py:7") == (only.name, only.where)
    assert pytest.approx(1.0, abs=0.05) == found.covered
    assert pytest.approx(3e-3, rel=0.05) == only.moved
    assert only.low < only.moved < only.high
    assert (None, (), 3, "fake, 1 ms interval") == (found.withheld, found.remarks[1:], found.repeats, found.method)


def test_the_deepest_function_that_holds_the_change_is_named(comparison: Comparison) -> None:
    """`tokenize` takes longer as a whole, and all of it in what it calls; what passes the call on is left out."""
    after = {**BEFORE, "predict>tokenize>split>escape>match": 3}
    assert {"match": 1.0} == pytest.approx(movers(explained_by(comparison, repeats(BEFORE), repeats(after))), abs=0.05)


def test_what_a_function_spends_in_a_library_is_its_own_and_said(comparison: Comparison) -> None:
    """The caller was changed, or the library: both are named."""
    split = "predict>tokenize>split (lib/re.py)>compile (lib/re.py)"
    then = {**BEFORE, split: 1, "predict>tokenize>split (lib/re.py)>scan (lib/re.py)": 2}
    found = explained_by(comparison, repeats(then), repeats({**then, split: 4}))
    moved = explained({SLOWER: comparison}, (), [found])[SLOWER.key].moved
    assert [("tokenize", "compile (lib/re.py:7)")] == [(one.name, one.within) for one in found.movers]
    assert str(moved).startswith("tokenize (model.py:7, most of it in compile (lib/re.py:7)) +")


def test_a_library_that_calls_back_is_followed_to_the_users_function(comparison: Comparison) -> None:
    called = "predict>map (lib/pool.py)>kernel"
    found = explained_by(comparison, repeats({**BEFORE, called: 1}), repeats({**BEFORE, called: 3}))
    assert [("kernel", "")] == [(one.name, one.within) for one in found.movers]


def test_without_any_function_of_the_user_those_of_libraries_are_named(comparison: Comparison) -> None:
    then = {"run (lib/ort.py)>bind (lib/ort.py)": 1, "run (lib/ort.py)>check (lib/ort.py)": 9}
    now = {**then, "run (lib/ort.py)>bind (lib/ort.py)": 4}
    assert ["bind"] == [*movers(explained_by(comparison, repeats(then), repeats(now)))]


def test_a_function_whose_parts_all_grow_is_named_itself(comparison: Comparison) -> None:
    """Of twenty helpers none has moved by 5 % of the change."""
    helpers = {f"predict>render>helper{n}": 0.01 for n in range(20)}
    after = {**BEFORE, **{one: 30 * ms for one, ms in helpers.items()}}
    assert ["render"] == [*movers(explained_by(comparison, repeats({**BEFORE, **helpers}), repeats(after)))]


def test_a_function_is_found_below_whatever_calls_it(comparison: Comparison) -> None:
    """From each of ten layers `norm` is called, a little slower."""
    layers = {f"predict>layer{n}>norm": 0.5 for n in range(30)}
    after = {**BEFORE, **dict.fromkeys(layers, 0.6)}
    found = movers(explained_by(comparison, repeats({**BEFORE, **layers}), repeats(after)))
    assert ["norm"] == [*found]


def test_two_functions_share_the_change_the_larger_first(comparison: Comparison) -> None:
    after = {**BEFORE, "predict>embed": 5, "predict>score": 4}
    found = movers(explained_by(comparison, repeats(BEFORE), repeats(after)))
    assert {"score": 0.67, "embed": 0.33} == pytest.approx(found, abs=0.06)
    assert ["score", "embed"] == [*found]


def test_what_got_faster_meanwhile_counts_against_the_change(comparison: Comparison) -> None:
    """+4 and -2 of +2 ms: 200 % and -100 %."""
    after = {**BEFORE, "predict>embed": 8, "predict>score": 0}
    found = movers(explained_by(comparison, repeats(BEFORE), repeats(after)))
    assert {"embed": 2.0, "score": -1.0} == pytest.approx(found, abs=0.1)


def test_own_work_of_a_function_is_told_from_that_of_what_it_calls(comparison: Comparison) -> None:
    after = {**BEFORE, "predict": 3, "predict>embed": 6}
    found = movers(explained_by(comparison, repeats(BEFORE), repeats(after)))
    assert {"predict": 0.5, "embed": 0.5} == pytest.approx(found, abs=0.06)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (1.0, 3.0, "called 3.0 × as often"),
        (2.0, 1.0, "called 0.50 × as often"),
        (0.0, 2.0, "not called in the baseline"),
        (1.0, 1.005, ""),
        (None, 3.0, ""),
    ],
)
def test_how_often_it_is_called_is_said_where_that_has_changed(
    comparison: Comparison, before: float | None, now: float | None, said: str
) -> None:
    then = repeats(BEFORE, {"embed": before})
    found = explained_by(comparison, then, repeats({**BEFORE, "predict>embed": 7}, {"embed": now}))
    moved = explained({SLOWER: comparison}, (), [found])[SLOWER.key].moved
    assert (before, now) == (found.movers[0].baseline_calls, found.movers[0].candidate_calls)
    assert str(moved).startswith("embed (model.py:7) +3.0")
    assert str(moved).endswith(said or "n=3)")


def test_a_new_function_was_not_there_before(comparison: Comparison) -> None:
    found = explained_by(comparison, repeats(BEFORE), repeats({**BEFORE, "predict>normalise": 2}, {"normalise": 2.0}))
    assert ("normalise", 0.0, None, 2.0) == (
        found.movers[0].name,
        found.movers[0].baseline,
        found.movers[0].baseline_calls,
        found.movers[0].candidate_calls,
    )


def test_a_renamed_function_is_compared_with_itself(comparison: Comparison) -> None:
    """`embed` became `encode`, and `score` slower: the one is not named, nor are +400 % and -400 %."""
    after = {**BEFORE, "predict>encode": BEFORE["predict>embed"], "predict>score": 4}
    del after["predict>embed"]
    assert ["score"] == [*movers(explained_by(comparison, repeats(BEFORE), repeats(after)))]


def test_a_function_that_was_moved_to_another_file_is_compared_with_itself(comparison: Comparison) -> None:
    after = {**BEFORE, "predict>embed (other.py)": 7}
    del after["predict>embed"]
    (mover,) = explained_by(comparison, repeats(BEFORE), repeats(after)).movers
    assert ("embed", "other.py:7") == (mover.name, mover.where)
    assert pytest.approx(4e-3, rel=0.05) == mover.baseline


def test_of_several_that_might_be_renamed_none_is() -> None:
    before, after = [sampled({"predict>one": 1, "predict>two": 1})], [sampled({"predict>three": 1, "predict>four": 1})]
    assert {} == renames(before, after)


def test_nothing_is_named_for_noise(comparison: Comparison) -> None:
    """Parts differ from repeat to repeat as much as from side to side."""
    noise = Random(5)

    def noisy(plain_ms: float, version: str) -> list[SampledCalls]:
        parts = [{one: ms * noise.uniform(0.5, 1.5) for one, ms in BEFORE.items()} for _ in range(3)]
        return [sampled(one, plain_ms=plain_ms, version=version, changed=["split"]) for one in parts]

    found = explain_functions(SLOWER, scaled(comparison, 10, 10.3), noisy(10, "then"), noisy(10.3, "now"))
    assert ((), 0.0) == (found.movers, found.covered)
    assert (
        "no function has clearly moved in 3 repeats: it is spread over many, or less than they vary; changed functions "
        "that it runs: split (model.py:7)"
    ) == str(found.withheld)


@pytest.mark.parametrize("change", [1.3, 0.7])
def test_profiles_that_do_not_show_the_change_blame_no_function(comparison: Comparison, change: float) -> None:
    """Shares of equal profiles would give each function its part of a call: `embed` 40 % of the change."""
    comparison = scaled(comparison, 10, 10 * change)
    then, now = (repeats(BEFORE, plain_ms=10, version=one, changed=["embed", "score"]) for one in ("then", "now"))
    found = explain_functions(SLOWER, comparison, then, now)
    assert () == found.movers
    assert (
        "3 profiles of each side did not show the change that the pairs have found: measure on a quieter machine to "
        "see which function moved; changed functions that it runs: embed (model.py:7), score (model.py:7)"
    ) == str(found.withheld)
    assert str(found.withheld) == str(explained({SLOWER: comparison}, (), [found])[SLOWER.key].moved)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ([], "tokenize (model.py:7) +"),
        (["predict", "tokenize"], "tokenize (model.py:7) +"),
        (["split"], "split (model.py:7), changed, within tokenize (model.py:7) +"),
        (
            ["split", "a", "b", "c"],
            "split (model.py:7), a (model.py:7), b (model.py:7) and 1 more, changed, within tok",
        ),
    ],
)
def test_an_unchanged_function_is_named_after_the_changed_ones_in_it(
    comparison: Comparison, changed: Sequence[str], named: str
) -> None:
    """None of those has clearly moved by itself."""
    parts = {"predict>tokenize>split": 0.01, **{f"predict>tokenize>{one}": 0.01 for one in "abc"}, "predict>embed": 8}
    now = repeats({**parts, "predict>tokenize": 5}, version="now", changed=changed)
    found = explained_by(comparison, repeats({**parts, "predict>tokenize": 2}, version="then", changed=changed), now)
    moved = explained({SLOWER: scaled(comparison, 10, 13)}, (), [found])[SLOWER.key].moved
    assert str(moved).startswith(named)


def test_movers_that_do_not_add_up_are_said(comparison: Comparison) -> None:
    """One of +3 ms is clear; each of thirty others takes 0.1 ms more, in which its repeats differ as much."""
    few = {f"predict{n}": 0.1 for n in range(30)}
    noise = Random(6)
    then = [sampled({**BEFORE, **{one: ms * noise.uniform(0, 2) for one, ms in few.items()}}) for _ in range(3)]
    now = [
        sampled({**BEFORE, "predict>embed": 7, **{one: ms * noise.uniform(1, 3) for one, ms in few.items()}})
        for _ in range(3)
    ]

    found = explained_by(comparison, then, now)
    assert "embed" == found.movers[0].name
    assert found.covered < 0.8
    assert f"what moved adds up to {100 * found.covered:.0f} % of the change" == str(found.remarks[0])


def test_equal_code_has_no_mover(comparison: Comparison) -> None:
    """Also where its profiles differ; its stacks are kept."""
    equal = replace(comparison, outcome="equivalent")
    found = explain_functions(SLOWER, equal, repeats(BEFORE), repeats({**BEFORE, "predict>embed": 7}))
    assert ((), "the pairs have found no change to explain") == (found.movers, str(found.withheld))
    assert found.candidate_stacks
    assert explained({SLOWER: equal}, (), [found])[SLOWER.key].moved is None


def test_a_change_of_nothing_has_no_mover(comparison: Comparison) -> None:
    still = scaled(comparison, 10, 10)
    assert () == explain_functions(SLOWER, still, repeats(BEFORE), repeats({**BEFORE, "predict>embed": 7})).movers
    assert {} == holders({("predict",): Seconds((1.0,), (1.0,))})


def test_an_improvement_is_explained_too(comparison: Comparison) -> None:
    faster = replace(comparison, outcome="improved")
    found = explained_by(faster, repeats(BEFORE), repeats({**BEFORE, "predict>embed": 1}))
    assert ["embed"] == [one.name for one in found.movers]
    assert found.movers[0].moved < 0 < found.movers[0].share


def test_stacks_are_kept_for_each_repeat_and_scaled_to_the_time_without_a_profiler(comparison: Comparison) -> None:
    found = explained_by(comparison, repeats(BEFORE), repeats({**BEFORE, "predict>new": 2}))
    assert {3} == {len(repeat) for repeat in found.baseline_stacks.values()}
    assert pytest.approx(10e-3) == sum(seconds[0] for seconds in found.baseline_stacks.values())
    assert pytest.approx(12e-3, rel=0.01) == sum(seconds[0] for seconds in found.candidate_stacks.values())
    assert "predict (model.py);new (model.py)" not in found.baseline_stacks


def test_small_stacks_are_kept_within_the_frame_that_they_are_in(comparison: Comparison) -> None:
    tiny = {f"predict>embed>tiny{n}": 0.0001 for n in range(10)}
    found = explained_by(comparison, repeats({**BEFORE, **tiny}), repeats({**BEFORE, "predict>embed": 7}))
    assert not [stack for stack in found.baseline_stacks if "tiny" in stack]
    assert pytest.approx(10e-3) == sum(seconds[0] for seconds in found.baseline_stacks.values())


def test_the_cost_of_the_profiler_is_said_where_it_is_large(comparison: Comparison) -> None:
    """Calls took twice as long."""
    found = explained_by(comparison, repeats(BEFORE), repeats({**BEFORE, "predict>embed": 7}))
    assert pytest.approx(1.0) == found.overhead
    assert "calls took 100 % longer under the profiler" in str(found.remarks[0])


@pytest.mark.parametrize(("plain", "told"), [(0.1, True), (0.09, False), (0.02, False)])
def test_a_profiler_that_makes_calls_ten_times_longer_explains_nothing(
    comparison: Comparison, plain: float, told: bool
) -> None:
    """It says why: the shares are of calls that nobody makes."""
    then, now = ([sampled({"predict>embed": ms}, plain_ms=plain * ms)] * 3 for ms in (8, 12))
    found = explained_by(comparison, then, now)
    assert told == bool(found.movers)
    if not told:
        assert str(found.withheld).startswith("not explained: calls took ×")


def test_a_call_too_short_to_be_timed_has_no_known_cost(comparison: Comparison) -> None:
    then = [sampled({"predict>embed": 5}, plain_ms=0), sampled({"predict>embed": 5}, plain_ms=0)]
    assert explain_functions(SLOWER, comparison, then, then).overhead is None


def test_an_empty_profile_has_no_stack(comparison: Comparison) -> None:
    """One side calls nothing of Python."""
    found = explain_functions(SLOWER, comparison, [sampled({})], [sampled({"predict": 1})])
    assert ({}, ["predict"]) == (found.baseline_stacks, [one.name for one in found.movers])
