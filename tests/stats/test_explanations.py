"""What has moved: operators, functions and allocations, in simulated profiles with known answers."""

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from fakes import gates
from fakes import records as fake
from fakes.profiles import profiled, repeats, sampled

from pytest_hwperf.records.evidence import Explanation, Gate, PairedProfiles
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.profiles import HeldMemory, OperatorProfile, ProfiledCalls, ProfiledOperator, SampledCalls
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Judgement, Policy
from pytest_hwperf.reports.table import rows
from pytest_hwperf.stats.causes.call_trees import Seconds, holders
from pytest_hwperf.stats.causes.explanations import (
    by_family,
    explain_functions,
    explain_memory,
    explain_nothing,
    explain_operators,
    explained,
    moved_most,
    profile_of,
    profiler_costs,
)
from pytest_hwperf.stats.causes.movers import renames
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.pairs.sequence import decide
from pytest_hwperf.stats.replay import recompute
from pytest_hwperf.stats.verdicts import explain, judge

SLOWER = gates.hypothesis(0)


PROFILES = PairedProfiles(
    measurement=SLOWER.measurement, baseline=profiled(Gemm=900), candidate=profiled(Gemm=900, Erf=270)
)


@pytest.fixture(scope="module")
def report() -> Report:
    """A build whose first test got 30 % slower by a planted operator; the second is equal."""
    evidence = gates.build([0.3, 0.0], Random(1))
    run = fake.run(test=SLOWER.measurement.test)
    comparisons = explained(decide(evidence), [PROFILES])
    verdicts = judge(run, figures(run), [comparisons[SLOWER.key]], (), Policy())
    gate = Gate(against="HEAD", revision="", seed=1, evidence=evidence, shared={}, seconds={}, profiles=(PROFILES,))
    judgement = Judgement(run=run, figures=figures(run), verdicts=verdicts)
    return replace(fake.empty_report(), judgements=(judgement,), gates=(gate,))


def test_the_comparison_names_the_planted_operator(report: Report) -> None:
    """All of the change: 30 % of 1 ms. In the line of the failure, and below the table."""
    (verdict,) = report.judgements[0].verdicts
    assert "regressed" == verdict.outcome
    assert "Erf (Erf_0): 300 µs of a call, 0 s in the baseline: 100 % of the change" in explain(verdict)
    assert any("Erf (Erf_0): " in note for note in rows(report)[1])


def test_the_verdict_is_the_same_when_computed_again(report: Report) -> None:
    again = recompute(report)
    assert ((), 1) == (again.disagreements, again.agreeing)


def test_an_operator_that_was_written_over_is_noticed(report: Report) -> None:
    (gate,) = report.gates
    other = replace(gate, profiles=(replace(PROFILES, candidate=profiled(Gemm=900, Tanh=270)),))
    assert any(".moved" in line for line in recompute(replace(report, gates=(other,))).disagreements)


def test_the_function_that_moved_is_computed_again_and_one_that_was_written_over_is_noticed(report: Report) -> None:
    """In place of the operator: its explanation holds more of the change."""
    (gate,), (judgement,) = report.gates, report.judgements
    then, now = repeats({"predict>embed": 7}), repeats({"predict>embed": 10})
    decided = decide(gate.evidence)
    found = explain_functions(SLOWER, decided[SLOWER], then, now)
    run, known = judgement.run, explained(decided, (), [found])[SLOWER.key]
    verdicts = judge(run, figures(run), [known], (), Policy())
    told = replace(report, judgements=(Judgement(run=run, figures=figures(run), verdicts=verdicts),))
    other = replace(found, movers=(replace(found.movers[0], name="innocent"),))

    honest, edited = (replace(told, gates=(replace(gate, profiles=(), explanations=(one,)),)) for one in (found, other))
    assert () == recompute(honest).disagreements
    assert any("innocent" in line for line in recompute(edited).disagreements)


def test_where_nothing_changed_or_was_profiled_nothing_moved() -> None:
    """A share of a change that may be none says nothing."""
    decided = decide(gates.build([0.3, 0.0], Random(1)))
    equal, elsewhere = (replace(PROFILES, measurement=gates.hypothesis(number).measurement) for number in (1, 7))
    for profiles in (equal, elsewhere):
        assert [None, None] == [one.moved for one in explained(decided, [profiles]).values()]
        assert {hypothesis.key for hypothesis in decided} == explained(decided, [profiles]).keys()


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


HELPERS = {f"predict>render>helper{n}": 0.01 for n in range(20)}
LAYERS = {f"predict>layer{n}>norm": 0.5 for n in range(30)}
BOUND = {"run (lib/ort.py)>bind (lib/ort.py)": 1, "run (lib/ort.py)>check (lib/ort.py)": 9}


def test_functions_that_hold_the_change_are_named_the_largest_first(comparison: Comparison) -> None:
    table: list[tuple[Mapping[str, float], Mapping[str, float], Mapping[str, float]]] = [
        # `tokenize` takes longer as a whole, and all of it in what it calls; what passes the call on is left out
        (BEFORE, {**BEFORE, "predict>tokenize>split>escape>match": 3}, {"match": 1.0}),
        # without any function of the user, those of libraries are named
        (BOUND, {**BOUND, "run (lib/ort.py)>bind (lib/ort.py)": 4}, {"bind": 1.0}),
        # of twenty helpers, which all grow, none has moved by 5 % of the change
        ({**BEFORE, **HELPERS}, {**BEFORE, **dict.fromkeys(HELPERS, 0.3)}, {"render": 1.0}),
        # from each of many layers `norm` is called, a little slower
        ({**BEFORE, **LAYERS}, {**BEFORE, **dict.fromkeys(LAYERS, 0.6)}, {"norm": 1.0}),
        (BEFORE, {**BEFORE, "predict>embed": 5, "predict>score": 4}, {"score": 0.67, "embed": 0.33}),
        # what got faster meanwhile counts against the change
        (BEFORE, {**BEFORE, "predict>embed": 8, "predict>score": 0}, {"embed": 2.0, "score": -1.0}),
        # own work is told from that of what is called
        (BEFORE, {**BEFORE, "predict": 3, "predict>embed": 6}, {"predict": 0.5, "embed": 0.5}),
        # `embed` became `encode`, which is not named, and `score` slower
        (
            BEFORE,
            {"predict>encode" if one == "predict>embed" else one: ms for one, ms in BEFORE.items()}
            | {"predict>score": 4},
            {"score": 1.0},
        ),
    ]
    for then, now, shares in table:
        found = movers(explained_by(comparison, repeats(then), repeats(now)))
        assert shares == pytest.approx(found, abs=0.1)
        assert sorted(found.values(), reverse=True) == [*found.values()], (then, now, shares)


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


def test_how_often_it_is_called_is_said_where_that_has_changed(comparison: Comparison) -> None:
    table: list[tuple[float | None, float | None, str]] = [
        (1.0, 3.0, "called 3.0 × as often"),
        (2.0, 1.0, "called 0.50 × as often"),
        (0.0, 2.0, "not called in the baseline"),
        (1.0, 1.005, ""),
        (100.0, 100.5, ""),  # less than 1 % more
        (None, 3.0, ""),
    ]
    for before, now, words in table:
        then = repeats(BEFORE, {"embed": before})
        found = explained_by(comparison, then, repeats({**BEFORE, "predict>embed": 7}, {"embed": now}))
        moved = explained({SLOWER: comparison}, (), [found])[SLOWER.key].moved
        assert (before, now) == (found.movers[0].baseline_calls, found.movers[0].candidate_calls)
        assert str(moved).startswith("embed (model.py:7) +3.0"), (before, now, said)
        assert str(moved).endswith(words or "n=3)")


def test_a_repeat_that_has_counted_its_calls_tells_them_for_the_others(comparison: Comparison) -> None:
    after = {**BEFORE, "predict>embed": 7}
    then = [sampled(BEFORE), *repeats(BEFORE, {"embed": 1.0})[1:]]
    found = explained_by(comparison, then, repeats(after, {"embed": 3.0}))
    assert (1.0, 3.0) == (found.movers[0].baseline_calls, found.movers[0].candidate_calls)


def test_a_new_function_was_not_there_before(comparison: Comparison) -> None:
    found = explained_by(comparison, repeats(BEFORE), repeats({**BEFORE, "predict>normalise": 2}, {"normalise": 2.0}))
    assert ("normalise", 0.0, None, 2.0) == (
        found.movers[0].name,
        found.movers[0].baseline,
        found.movers[0].baseline_calls,
        found.movers[0].candidate_calls,
    )


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


SPEEDS = (1.0, 1.6, 1.2, 1.5, 1.0, 1.7)  # of a machine in six repeats


def test_a_machine_that_changes_its_speed_hides_nothing_from_six_repeats(comparison: Comparison) -> None:
    """Both sides of a repeat run at the same time: three such repeats may agree by chance, in one case of eight."""
    then = [sampled({"predict": 10}, plain_ms=10 * speed) for speed in SPEEDS]
    now = [sampled({"predict": 10}, plain_ms=12 * speed) for speed in SPEEDS]
    changed = scaled(comparison, 10, 12)
    three, six = (explain_functions(SLOWER, changed, then[:count], now[:count]) for count in (3, 6))
    assert ((), "profiles unlike pairs") == (three.movers, three.withheld and three.withheld.kind)
    assert ["predict"] == [mover.name for mover in six.movers]
    now[4] = sampled({"predict": 10}, plain_ms=7)
    assert () == explain_functions(SLOWER, changed, then, now).movers


def test_a_larger_part_of_a_call_is_seen_at_any_speed_of_the_machine(comparison: Comparison) -> None:
    after = {**BEFORE, "predict>embed": 1.5 * BEFORE["predict>embed"]}
    now = sum(after.values()) / sum(BEFORE.values())
    sides = (
        [sampled(BEFORE, plain_ms=10 * speed) for speed in SPEEDS[:3]],
        [sampled(after, plain_ms=10 * now * speed) for speed in SPEEDS[2::-1]],
    )
    for before, later, ratio in ((*sides, now), (*sides[::-1], 1 / now)):
        found = explain_functions(SLOWER, scaled(comparison, 10, 10 * ratio), before, later)
        assert ["embed"] == [mover.name for mover in found.movers]


def test_profiles_that_do_not_show_the_change_blame_no_function(comparison: Comparison) -> None:
    """Shares of equal profiles would give each function its part of a call: `embed` 40 % of the change."""
    withheld = (
        "3 profiles of each side did not show the change that the pairs have found: measure on a quieter machine to "
        "see which function moved; changed functions that it runs: embed (model.py:7), score (model.py:7)"
    )
    then, now = (repeats(BEFORE, plain_ms=10, version=one, changed=["embed", "score"]) for one in ("then", "now"))
    for change in (1.3, 0.7):
        changed = scaled(comparison, 10, 10 * change)
        found = explain_functions(SLOWER, changed, then, now)
        assert ((), withheld) == (found.movers, str(found.withheld)), change
        assert withheld == str(explained({SLOWER: changed}, (), [found])[SLOWER.key].moved), change


def test_an_unchanged_function_is_named_after_the_changed_ones_in_it(comparison: Comparison) -> None:
    """None of those has clearly moved by itself."""
    table: list[tuple[Sequence[str], str]] = [
        ([], "tokenize (model.py:7) +"),
        (["predict", "tokenize"], "tokenize (model.py:7) +"),
        (["predict", "split"], "predict (model.py:7, most of it in tokenize (model.py:7)) +"),
        (["split"], "split (model.py:7), changed, within tokenize (model.py:7) +"),
        (
            ["split", "a", "b", "c"],
            "split (model.py:7), a (model.py:7), b (model.py:7) and 1 more, changed, within tok",
        ),
    ]
    for changed, named in table:
        parts = {
            "predict>tokenize>split": 0.01,
            **{f"predict>tokenize>{one}": 0.01 for one in "abc"},
            "predict>embed": 8,
        }
        now = repeats({**parts, "predict>tokenize": 5}, version="now", changed=changed)
        found = explained_by(
            comparison, repeats({**parts, "predict>tokenize": 2}, version="then", changed=changed), now
        )
        moved = explained({SLOWER: scaled(comparison, 10, 13)}, (), [found])[SLOWER.key].moved
        assert str(moved).startswith(named)


def test_an_unchanged_function_is_named_after_the_changed_one_that_calls_it(comparison: Comparison) -> None:
    """The innermost through whose calls it moved; several that moved by one are told together."""
    deeper = "predict>parse>copy>deepcopy>keep"
    parts = {
        "predict>clean": 1,
        "predict>parse>copy>deepcopy": 1,
        "predict>parse>copy>visit": 1,
        deeper: 1,
        "predict": 5,
    }
    more = {"predict>parse>copy>deepcopy": 4, "predict>parse>copy>visit": 1}
    both = {"predict>parse>copy>deepcopy": 2.5, "predict>parse>copy>visit": 2.5}
    elsewhere = {"predict>clean>deepcopy": 3}
    table: list[tuple[Mapping[str, float], Sequence[str], Sequence[tuple[str, str]]]] = [
        (more, ["predict", "copy"], [("copy", "deepcopy (model.py:7)")]),
        (more, ["predict"], [("predict", "deepcopy (model.py:7)")]),
        (more, ["clean"], [("deepcopy", "")]),
        (both, ["parse"], [("parse", "")]),
        ({"predict>parse>copy>deepcopy": 3, deeper: 2}, ["copy"], [("copy", "")]),
        (elsewhere, ["parse", "clean"], [("clean", "deepcopy (model.py:7)")]),
        (elsewhere, ["parse"], [("deepcopy", "")]),
    ]
    for moved, changed, named in table:
        sides = [
            repeats(one, version=version, changed=changed)
            for one, version in ((parts, "then"), ({**parts, **moved}, "now"))
        ]
        found = explained_by(comparison, *sides)
        assert named == [(one.name, one.within) for one in found.movers], (moved, changed)


def test_a_function_that_was_there_and_is_called_now_is_unchanged(comparison: Comparison) -> None:
    """What calls it is named, unless the other side does not know it."""
    parts = {"predict": 5, "predict>copy": 2}
    then = repeats(parts, version="then", changed=["copy"])
    now = repeats({**parts, "predict>copy>deepcopy": 3}, version="now", changed=["copy"])
    for known, named in (({"deepcopy (model.py)": "same"}, "copy"), ({}, "deepcopy")):
        before = [replace(one, codes={**one.codes, **known}) for one in then]
        assert [named] == [one.name for one in explained_by(scaled(comparison, 7, 10), before, now).movers]


def test_a_function_that_one_side_alone_has_does_not_hold_what_both_have_in_it(comparison: Comparison) -> None:
    """A check that is new, and calls what was called before; and the same the other way round."""
    before, after = {"predict>where": 7, "predict": 1}, {"predict>check>where": 7, "predict>check": 3, "predict": 1}
    for then, now in ((before, after), (after, before)):
        found = explained_by(comparison, repeats(then), repeats(now))
        (mover,) = found.movers
        assert "check" == mover.name
        assert pytest.approx(1, abs=0.1) == mover.share


def test_a_new_function_through_which_all_calls_go_is_named_with_what_they_cost_more(comparison: Comparison) -> None:
    """It checks arguments, and what it calls takes longer than when it was called directly."""
    then = repeats({"predict>where": 5, "predict": 1}, version="then")
    now = repeats({"predict>check>where": 7, "predict>check": 1, "predict": 1}, version="now", changed=["check"])
    (mover,) = explained_by(comparison, then, now).movers
    assert "check" == mover.name
    assert pytest.approx(1, abs=0.1) == mover.share


def test_a_new_function_that_calls_many_known_ones_is_named(comparison: Comparison) -> None:
    """None of what it calls has clearly moved."""
    parts = {"predict": 5, **{f"predict>part{number}": 0.1 for number in range(30)}}
    now = repeats(
        {**parts, **{f"predict>all>part{number}": 0.1 for number in range(30)}}, version="now", changed=["all"]
    )
    assert ["all"] == [one.name for one in explained_by(comparison, repeats(parts, version="then"), now).movers]


def test_a_function_is_not_blamed_where_another_one_takes_less(comparison: Comparison) -> None:
    """It takes more of the call, and not more time."""
    then, now = (repeats({"predict>embed": 6, "predict>score": ms}, plain_ms=6 + ms) for ms in (4, 2))
    assert () == explain_functions(SLOWER, scaled(comparison, 10, 12), then, now).movers


def test_what_is_nearly_all_of_a_call_is_seen_by_what_is_in_it(comparison: Comparison) -> None:
    """A library does more for it, on a machine that changes its speed; what nothing in it explains is not seen."""
    before, after = {"predict>make (lib/json.py)": 9, "predict": 1}, {"predict>set (lib/json.py)": 2}
    for more, named in ((after, ["predict"]), ({}, [])):
        parts = ({**before}, {**before, **more})
        sides = [
            [sampled(one, plain_ms=speed * ms) for speed in speeds]
            for one, ms, speeds in zip(parts, (10, 12), (SPEEDS[:3], SPEEDS[2::-1]), strict=True)
        ]
        found = explain_functions(SLOWER, scaled(comparison, 10, 12), *sides)
        assert named == [one.name for one in found.movers]


def test_a_changed_caller_is_named_at_any_speed_of_the_machine(comparison: Comparison) -> None:
    """All of a call is in it, so that its own share has not moved; that of what it calls has."""
    parts = [{"predict>clean>strip": ms, "predict>clean": 8} for ms in (2, 4)]
    sides = [
        [sampled(part, plain_ms=speed * sum(part.values()), version=version, changed=["predict"]) for speed in speeds]
        for part, version, speeds in zip(parts, ("then", "now"), (SPEEDS[:3], SPEEDS[2::-1]), strict=True)
    ]
    (mover,) = explain_functions(SLOWER, scaled(comparison, 10, 12), *sides).movers
    assert ("predict", "strip (model.py:7)") == (mover.name, mover.within)


def test_of_several_changed_callers_that_share_a_move_none_is_named(comparison: Comparison) -> None:
    """Nor one around them: what they call is."""
    parts, version = (
        {"predict": 4, "predict>a>strip": 2, "predict>b>strip": 2},
        {"predict>a>strip": 4, "predict>b>strip": 4},
    )
    for changed in (["a", "b"], ["predict", "a", "b"]):
        then, now = (repeats(one, version=str(one), changed=changed) for one in (parts, parts | version))
        assert [("strip", "")] == [(one.name, one.within) for one in explained_by(comparison, then, now).movers]


def test_two_functions_that_both_sides_have_are_no_rename(comparison: Comparison) -> None:
    """Another one of them is called: what calls it is named."""
    names, sides = ("encode (fast.py)", "encode (slow.py)"), []
    for called, ms, version in ((names[0], 2, "then"), (names[1], 6, "now")):
        one = repeats({"predict": 4, f"predict>{called}": ms}, version=version, changed=["predict"])
        sides.append([replace(each, codes={**dict.fromkeys(names, "same"), **each.codes}) for each in one])
    assert ["predict"] == [one.name for one in explained_by(comparison, *sides).movers]


def test_a_function_whose_code_one_side_does_not_know_is_not_called_changed(comparison: Comparison) -> None:
    both = [repeats({"predict": 4, "predict>clean>strip": ms}, version=str(ms), changed=["predict"]) for ms in (2, 6)]
    for side, version in enumerate("26"):
        sides = [*both]
        sides[side] = [replace(one, codes={"predict (model.py)": version}) for one in both[side]]
        (mover,) = explained_by(comparison, *sides).movers
        assert ("predict", "strip (model.py:7)") == (mover.name, mover.within)


def test_a_removed_function_is_named_like_a_new_one(comparison: Comparison) -> None:
    """It is said of a change in both directions which function it is in."""
    then = repeats({"predict": 3, "predict>where": 5}, version="then")
    now = repeats({"predict": 3, "predict>check>where": 7, "predict>check": 1}, version="now")
    for sides in ((then, now), (now, then)):
        (mover,) = explained_by(comparison, *sides).movers
        assert ("check", "") == (mover.name, mover.within)


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
    assert f"the listed parts add up to {100 * found.covered:.0f} % of the change" == str(found.remarks[0])


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


def test_from_four_fifths_to_five_fourths_of_a_change_a_function_holds_it() -> None:
    """Both ends count. `embed` moves by 4 s where the call moves by 5 s, and by 5 s where it moves by 4 s."""
    for own, called in (((1.0, 2.0), (1.0, 5.0)), ((2.0, 1.0), (1.0, 6.0))):
        parts = {("predict",): own, ("predict", "embed"): called}
        assert ["embed"] == [*holders({path: Seconds((then,), (now,)) for path, (then, now) in parts.items()})]


def test_sides_are_clear_that_are_farther_apart_than_half_their_spread() -> None:
    sides = {((1, 2), (5, 6)): True, ((1, 2), (3, 4)): False, ((2,), (1,)): True, ((1,), (1,)): False}
    assert sides == {(then, now): Seconds(then, now).is_clear for then, now in sides}


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


def test_a_profiler_that_makes_calls_ten_times_longer_explains_nothing(comparison: Comparison) -> None:
    """It says why: the shares are of calls that nobody makes."""
    for plain, told in [(0.1, True), (0.09, False), (0.02, False)]:
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


LARGER = gates.hypothesis(0, gates.MEMORY)


@pytest.fixture(scope="module")
def memory(comparison: Comparison) -> Comparison:
    """From 100 MB to 130 MB."""
    assert comparison.change is not None
    change = replace(comparison.change, value=0.3, low=None, high=None)
    return replace(comparison, metric="memory", baseline=100e6, change=change)


def pairs(*erf: float, gemm: tuple[float, ...] = (900, 905, 895)) -> list[PairedProfiles]:
    return [
        PairedProfiles(
            measurement=SLOWER.measurement, baseline=profiled(Gemm=900), candidate=profiled(Gemm=us, Erf=more)
        )
        for more, us in zip(erf, gemm, strict=True)
    ]


def held(function: str, megabytes: int, *, line: int = 3, called_at: str = "") -> HeldMemory:
    return HeldMemory(
        function=function,
        file="model.py" if function else "",
        line=line,
        called_at=called_at,
        caller="read" if called_at else "",
        size=megabytes * 1_000_000,
        allocations=1,
    )


def test_the_operator_that_was_added_moved_first(comparison: Comparison) -> None:
    found = explain_operators(SLOWER, comparison, pairs(270, 275, 265))
    assert ("Erf (Erf_0)", 0.0, 3) == (found.movers[0].name, found.movers[0].baseline, found.repeats)
    assert pytest.approx(1.0, abs=0.05) == found.covered
    assert "Erf (Erf_0): " in str(explained({SLOWER: comparison}, pairs(270, 275, 265), [found])[SLOWER.key].moved)


def test_operators_within_the_spread_or_of_half_of_the_call_are_not_named(
    comparison: Comparison,
) -> None:
    """Gemm took 800 to 1000 of 900 µs."""
    found = explain_operators(SLOWER, comparison, pairs(270, 270, 270, gemm=(800, 1000, 900)))
    assert ["Erf (Erf_0)"] == [one.name for one in found.movers]
    (one,) = pairs(270, gemm=(900,))
    half = explain_operators(SLOWER, comparison, [replace(one, candidate=replace(one.candidate, call_s=2.5e-3))])
    assert ((), "nothing moved") == (half.movers, half.withheld and half.withheld.kind)


def test_a_function_that_holds_more_than_any_operator_is_told_instead(comparison: Comparison) -> None:
    """Of the change 10 % is an operator's."""
    operators = explain_operators(SLOWER, comparison, pairs(27, 27, 27))
    small = replace(operators, movers=(replace(operators.movers[0], share=0.1),))
    function = replace(
        operators, kind="function", movers=(replace(operators.movers[0], kind="function", name="f", where="a.py:1"),)
    )
    moved = explained({SLOWER: comparison}, pairs(27, 27, 27), [small, function])[SLOWER.key].moved
    assert str(moved).startswith("f (a.py:1) +")


def test_the_allocation_that_was_added_is_named_with_its_line(memory: Comparison) -> None:
    """Lines of a function count together, since they may move; the largest line of the candidate is shown."""
    before = [[held("load", 80), held("", 1)]] * 3
    after = [[held("load", 10, line=8), held("load", 100, line=9), held("", 1)]] * 3
    found = explain_memory(LARGER, memory, before, after)
    moved = explained({LARGER: memory}, (), [found])[LARGER.key].moved
    assert [("load", "model.py:9", 30e6)] == [(one.name, one.where, one.moved) for one in found.movers]
    assert "load (model.py:9) holds +30.0 MB at the peak: 100 % of the change" == str(moved)


def test_what_a_library_holds_is_its_callers(memory: Comparison) -> None:
    before, after = [[held("ones", 80, called_at="t.py:2")]] * 3, [[held("ones", 110, called_at="t.py:4")]] * 3
    (mover,) = explain_memory(LARGER, memory, before, after).movers
    assert ("read", "t.py:4", 30e6) == (mover.name, mover.where, mover.moved)


def test_why_nothing_could_be_profiled_is_said_in_place_of_a_mover(comparison: Comparison) -> None:
    """Unless operators say something; an explanation of another comparison changes none."""
    found = explain_nothing(SLOWER, comparison, "function", said("no timer is there"))
    other = explain_nothing(LARGER, comparison, "allocation", said("…"))
    three = pairs(1, 1, 1, gemm=(900, 900, 900))
    assert ("no timer is there", 0) == (str(found.withheld), found.repeats)
    assert "no timer is there" == str(explained({SLOWER: comparison}, (), [found])[SLOWER.key].moved)
    assert "Gemm" in str(explained({SLOWER: comparison}, three, [found])[SLOWER.key].moved)
    assert explained({SLOWER: comparison}, (), [other])[SLOWER.key].moved is None
    assert LARGER.key == other.key
    assert pytest.approx(0.3, abs=0.1) == other.change / other.baseline


def test_what_has_not_moved_in_a_report_from_elsewhere_does_no_harm(comparison: Comparison) -> None:
    found = explain_operators(SLOWER, comparison, pairs(270, 275, 265))
    still = replace(found.movers[0], kind="function", baseline=1.0, candidate=1.0, share=0.5)
    edited = replace(found, kind="function", movers=(still,))
    assert (0.5, 0.5) == still.spread
    assert "50 % of the change" in str(explained({SLOWER: comparison}, (), [edited])[SLOWER.key].moved)


LONG_S = 1e-3


def seconds_of(*operators: tuple[str, float], call_us: float = 1000, rows: int = 256, names: str = "") -> ProfiledCalls:
    """Write operators as kind, microseconds; each node is called like its kind, with a suffix where one is given."""
    return ProfiledCalls(
        source="fake profile",
        operators=tuple(
            ProfiledOperator(name=f"{kind.lower()}{names}", kind=kind, calls=1, seconds=us * 1e-6)
            for kind, us in operators
        ),
        call_s=call_us * 1e-6,
        calls=20,
        rows=rows,
    )


def profile(*operators: tuple[str, float], latency_us: float = 1000, call_us: float = 1000) -> OperatorProfile:
    return profile_of(seconds_of(*operators, call_us=call_us), latency_us * 1e-6)


def test_shares_are_of_the_profiled_call_and_seconds_of_the_unprofiled_one() -> None:
    """600 and 300 of 1000 µs under the profiler, where a call takes 500 µs without it."""
    found = profile(("Softmax", 300), ("Gemm", 600), latency_us=500)
    assert ["Gemm", "Softmax"] == [one.kind for one in found.operators]
    assert pytest.approx([0.6, 0.3]) == [one.share for one in found.operators]
    assert pytest.approx([300e-6, 150e-6]) == [one.seconds for one in found.operators]
    assert pytest.approx([0.9, 50e-6]) == [found.coverage, found.framework_s]
    assert pytest.approx(found.coverage) == sum(one.share for one in found.operators)
    assert ("fake profile", 20, None) == (found.source, found.calls, found.withheld)


def test_operators_cannot_take_more_than_the_call() -> None:
    """Durations are rounded: their sum may be above that of the call."""
    found = profile(("Gemm", 1010))
    assert (1.0, 1.0, 0.0) == (found.coverage, found.operators[0].share, found.framework_s)


def test_shares_below_four_fifths_of_the_call_are_withheld() -> None:
    for us, withheld in [(801, False), (799, True)]:
        found = profile(("Gemm", us))
        assert withheld == (found.operators == ())
        assert (state("low coverage", coverage=us / 1000, least=0.8) if withheld else None) == found.withheld


def test_short_calls_of_small_batches_are_not_profiled() -> None:
    """Two operators: calls have to take more than 40 µs, or batches to have 256 rows."""
    table = [(256, 1, False), (255, 40, True), (255, 41, False), (1, 40, True)]
    for batch, latency_us, withheld in table:
        found = profile_of(seconds_of(("Gemm", 700), ("Softmax", 200), rows=batch), latency_us * 1e-6)
        assert withheld == (found.withheld is not None)
        assert not withheld or str(found.withheld).startswith("too short to profile: 40.0 µs for 2 operators and")


def test_a_model_without_operators_has_no_coverage() -> None:
    found = profile_of(seconds_of(call_us=0), LONG_S)
    assert (0.0, ()) == (found.coverage, found.operators)
    assert found.withheld is not None


def test_nodes_of_a_kind_are_summed_the_slowest_first() -> None:
    found = by_family(profile(("Add", 300), ("Gemm", 350), ("Add", 250)).operators)
    assert {"Add": pytest.approx(550e-6), "matrix products": pytest.approx(350e-6)} == found
    assert ["Add", "matrix products"] == [*found]


def layers(*microseconds: float, names: str = "abc") -> OperatorProfile:
    """A model of nothing but products, each a node of its own."""
    one = ProfiledOperator(name="", kind="Gemm", calls=1, seconds=0.0)
    operators = tuple(replace(one, name=name, seconds=us * 1e-6) for name, us in zip(names, microseconds, strict=False))
    whole = sum(microseconds) * 1e-6
    return profile_of(ProfiledCalls(source="fake", operators=operators, call_s=whole, calls=1, rows=256), whole)


THREE = (
    profile(("Gemm", 800), ("Relu", 200)),
    profile(("Gemm", 850), ("Relu", 250), ("Erf", 300), latency_us=1400, call_us=1400),
)


def test_the_kind_of_operator_that_moved_most_is_named_with_its_share() -> None:
    table: list[tuple[OperatorProfile, OperatorProfile, str]] = [
        # the call takes 400 µs longer, 300 of them in the new Erf; and back
        (*THREE, "Erf (erf): 300 µs of a call, 0 s in the baseline: 75 % of the change"),
        (*THREE[::-1], "Erf (erf): 0 s of a call, 300 µs in the baseline: 75 %"),
        # beside a new Pow the runtime no longer fuses: the products are the same, and their sums stand alone
        (
            profile(("FusedGemm", 900), ("Softmax", 100)),
            profile(("MatMul", 880), ("Add", 100), ("Softmax", 100), ("Pow", 220), latency_us=1300, call_us=1300),
            "Pow (pow): 220 µs of a call, 0 s in the baseline: 73 % of the change",
        ),
        (
            layers(500, 300, 200),
            layers(520, 480, 200),
            "matrix products (most of it in b): 1.20 ms of a call, 1.00 ms in the baseline",
        ),
        (layers(900, 300), layers(500, 310), "matrix products (most of it in a): 810 µs"),
        (layers(500, 500, names="xy"), layers(600, 600), "matrix products: 1.20 ms"),  # another conversion's names
        # of 200 µs more, 160 are outside of operators
        (
            profile(("Gemm", 1000)),
            profile(("Gemm", 1040), latency_us=1200, call_us=1200),
            "the time outside of all operators moved most: 80 % of the change",
        ),
        (
            profile(("Gemm", 500)),
            profile(("Gemm", 900)),
            "operators of the baseline are not known: operators cover 50 % of the call",
        ),
        (
            profile(("Gemm", 900)),
            profile(("Gemm", 500)),
            "operators of the candidate are not known: operators cover 50 % of the call",
        ),
    ]
    assert [] == [
        (before, after, said) for before, after, said in table if not (str(moved_most(before, after)).startswith(said))
    ]


def test_a_side_without_operators_moves_nothing() -> None:
    empty = OperatorProfile(source="fake", calls=1, latency_s=LONG_S, coverage=1.0)
    same = profile(("Gemm", 900))
    assert [state("framework moved", share=0.0)] * 2 == [moved_most(empty, empty), moved_most(same, same)]


def test_without_calls_outside_the_profiler_shares_are_of_those_within() -> None:
    """600 of 1000 µs, however little the rest of the call says."""
    found = profile_of(seconds_of(("Gemm", 600), rows=0))
    assert pytest.approx([1e-3, 0.6]) == [found.latency_s, found.coverage]
    assert found.under_profiler
    assert pytest.approx([0.6]) == [one.share for one in found.operators]
    assert 0.0 == profile_of(seconds_of(call_us=0)).coverage


def test_the_profiler_costs_much_of_operators_below_20_us() -> None:
    assert [] == [
        (call_us, costs)
        for call_us, costs in [(39, True), (41, False)]
        if costs != profiler_costs(seconds_of(("Gemm", 10), ("Relu", 10), call_us=call_us))
    ]
