"""Replay rules on recorded timings: how often they alarm on equal code, and what they find.

Stored baseline: a session is the median of one fresh process. For every round of the recording the sessions of the
rounds before it are the history, the round itself is the candidate and the two after it are the repeats.
Pairs: a pair value is the median over the blocks of a round, in which all arms took turns.

    python -m benchmarks replay           the stored baseline
    python -m benchmarks replay pairs     pairs, and what simpler rules would do on the same timings
    python -m benchmarks replay slight    how often +3 % is found at a margin of 2 %
"""

import argparse
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, stdev

import numpy as np
from scipy.stats import mannwhitneyu, wilcoxon

from benchmarks.projects import RECORDING
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Observation, Pair, Stage
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Margin
from pytest_hwperf.stats.figures.exact import share_interval
from pytest_hwperf.stats.figures.ranks import signed_rank_p
from pytest_hwperf.stats.pairs.paired import compare_pairs
from pytest_hwperf.stats.pairs.sequence import SHARES, decide, looks, next_step
from pytest_hwperf.stats.stored.compare import compare_with_history, prediction_limit

MARGIN = Margin(metric="latency", statistic="p50", size=0.02)
HISTORIES = (1, 2, 3, 5, 8)  # stored sessions
SLOWDOWNS = (1.0, 1.1, 1.25, 1.5, 3.0)
REPEATS = 2
WORKLOADS = ("np", "ort")
SLOWER = ("B_2pct", "B_5pct", "B_10pct")
ASKED = Hypothesis(measurement=Measurement(test="replayed", label=""), margin=MARGIN, better="lower")
APART = 10  # rounds, 70 s
NOMINAL = 0.05

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Rule = Callable[[Sequence[float], Sequence[float], float], bool]


def sessions() -> Values:
    """Return the medians in seconds of the arms A and A_prime, which run equal code: shape round, workload, arm."""
    with np.load(RECORDING, allow_pickle=False) as recording:
        arms = [list(recording["arms"]).index(name) for name in ("A", "A_prime")]
        medians = np.median(recording["solo_ns"][:, :, arms, :], axis=-1) * 1e-9
    return np.asarray(medians, dtype=np.float64)


def replays(stored: int, repeats: int) -> Iterator[tuple[list[float], list[float]]]:
    """Yield (history, new values) for both workloads and all four pairs of arms, round by round."""
    medians = sessions()
    rounds, workloads, arms = medians.shape
    for workload in range(workloads):
        for old in range(arms):
            for new in range(arms):
                for now in range(stored, rounds - repeats):
                    history = medians[now - stored : now, workload, old].tolist()
                    yield history, medians[now : now + 1 + repeats, workload, new].tolist()


def robust_with_repeats(history: Sequence[float], new: Sequence[float], alpha: float) -> bool:
    """The rule of the package: median and MAD, and both repeats beyond the limit too."""
    value, *repeats = new
    found = compare_with_history(METRICS["latency"], history, value, MARGIN, alpha, repeats)
    return found.outcome == "regressed"


def mean_and_sd(history: Sequence[float], new: Sequence[float], alpha: float) -> bool:
    """The same limit about the mean, taken at its word after a single process."""
    logs = [math.log(value) for value in history]
    spread = stdev(logs) if len(logs) > 1 else 0.0
    limit = prediction_limit(spread, len(logs), 1.0, alpha)
    return math.log(new[0]) - fmean(logs) > limit


def alarms(rule: Rule, stored: int, slowdown: float, *, repeats: int, alpha: float = 0.01) -> tuple[int, int]:
    """Count (alarms, replays) of a rule with the new values made `slowdown` times as long."""
    answers = [rule(history, [value * slowdown for value in new], alpha) for history, new in replays(stored, repeats)]
    return sum(answers), len(answers)


def table(rule: Rule, *, repeats: int) -> Iterator[str]:
    """Yield the lines of one rule's table."""
    yield "  stored   equal code           +10 %   +25 %   +50 %      x3"
    for stored in HISTORIES:
        counts = [alarms(rule, stored, slowdown, repeats=repeats) for slowdown in SLOWDOWNS]
        false, of = counts[0]
        shares = "".join(f"{100 * found / total:6.1f} %" for found, total in counts[1:])
        yield f"{stored:8}   {false:3} of {of} (<= {100 * share_interval(false, of, 0.95)[1]:4.2f} %) {shares}"


def recorded(kind: str) -> dict[str, Values]:
    """Return the seconds of each arm: shape round, workload, call; or round, workload, block, call."""
    with np.load(RECORDING, allow_pickle=False) as recording:
        seconds = recording[f"{kind}_ns"] * 1e-9
        return {str(arm): seconds[:, :, place] for place, arm in enumerate(recording["arms"])}


def block_ratios(kind: str, arm: str) -> Values:
    """Return the log ratios of block medians, arm over A: shape round, workload, block."""
    arms = recorded(kind)
    return np.asarray(np.log(np.median(arms[arm], axis=-1)) - np.log(np.median(arms["A"], axis=-1)))


def pair_values() -> dict[tuple[str, str], list[float]]:
    """Return the pair values of each workload and arm, one a round."""
    return {
        (workload, arm): np.median(block_ratios("duet", arm), axis=-1)[:, place].tolist()
        for arm in ("A_prime", *SLOWER)
        for place, workload in enumerate(WORKLOADS)
    }


def naive_alarms(rule: str) -> tuple[int, int, int]:
    """Count alarms of a naive rule on equal code in both directions: of np, of ort, out of how many together."""
    found = [NAIVE[rule](workload) for workload in range(len(WORKLOADS))]
    return sum(found[0]), sum(found[1]), len(found[0]) + len(found[1])


def _on_calls(alarm: Callable[[Values, Values], bool], apart: int) -> Callable[[int], list[bool]]:
    """Hold the solo calls of one round against those of a later one, of the other arm of equal code."""

    def alarms_of(workload: int) -> list[bool]:
        calls = recorded("solo")
        return [
            alarm(calls[old][now, workload], calls[new][now + apart, workload])
            for old, new in (("A", "A_prime"), ("A_prime", "A"))
            for now in range(len(calls["A"]) - apart)
        ]

    return alarms_of


def _on_blocks(kind: str) -> Callable[[int], list[bool]]:
    """Test the blocks of a single pair as if each were one."""

    def alarms_of(workload: int) -> list[bool]:
        ratios = block_ratios(kind, "A_prime")[:, workload]
        return [
            bool(wilcoxon(sign * blocks, alternative="greater").pvalue <= NOMINAL)
            for sign in (1, -1)
            for blocks in ratios
        ]

    return alarms_of


NAIVE: dict[str, Callable[[int], list[bool]]] = {
    "mean > 5 %, same round": _on_calls(lambda old, new: bool(new.mean() > 1.05 * old.mean()), 0),
    "mean > 5 %, ten rounds apart": _on_calls(lambda old, new: bool(new.mean() > 1.05 * old.mean()), APART),
    "median > 5 %, ten rounds apart": _on_calls(lambda old, new: bool(np.median(new) > 1.05 * np.median(old)), APART),
    "Mann-Whitney of calls, ten rounds apart": _on_calls(
        lambda old, new: bool(mannwhitneyu(new, old, alternative="greater", method="asymptotic").pvalue <= NOMINAL),
        APART,
    ),
    "Wilcoxon of the blocks of one pair": _on_blocks("duet"),
    "the same, both sides in one process": _on_blocks("inprocess"),
}


def at_looks(values: Sequence[float]) -> Comparison:
    """Look at 8, 13 and 20 pairs, as a lone hypothesis at 1 % is."""
    for count, share in zip(looks(1, 0.01), SHARES, strict=True):
        found = compare_pairs(ASKED, values[:count], share * 0.01, baseline=1e-4)
        if found.outcome != "inconclusive":
            break
    return found


SLIGHT, WINDOW = 0.03, 46  # change; rounds: six screen it and forty confirm it
COLD = 3  # calls of a block, as in the gate


def slightly_slower(arm: str, workload: int, blocks: int) -> Values:
    """Return the values of the first blocks of each round, moved so that the whole recording has +3 %.

    It is moved by the change of all rounds and blocks: ten per cent more work are 9.2 % more time for `ort`, of which
    a part does not grow with the work.
    """
    arms = recorded("duet")
    old, new = (np.log(np.median(arms[one][:, workload, :, COLD:], axis=-1)) for one in ("A", arm))
    measured = centre(np.median(new - old, axis=-1))
    return np.asarray(np.median((new - old)[:, :blocks], axis=-1) + math.log1p(SLIGHT) - measured)


def centre(values: Values) -> float:
    """Return the Hodges-Lehmann estimate: the median of all means of two values."""
    one, other = np.triu_indices(len(values))
    return float(np.median((values[one] + values[other]) / 2))


def found_slight(workload: int, blocks: int, *, prove_equal: bool, every: int = 1) -> tuple[int, int]:
    """Count (found, replays) of whole builds of one test on windows of rounds, begun `every` so many rounds.

    Further pairs, which fail nothing, take the rounds again.
    """
    found = list[bool]()
    for arm in ("A_prime", *SLOWER):
        values = slightly_slower(arm, workload, blocks)
        for start in range(0, len(values) - WINDOW + 1, every):
            evidence = _replayed(np.tile(values[start : start + WINDOW], 3), prove_equal=prove_equal)
            found.append(any(one.outcome == "regressed" for one in decide(evidence).values()))
    return sum(found), len(found)


def _replayed(values: Values, *, prove_equal: bool) -> Evidence:
    evidence = Evidence(alpha=0.01, hypotheses=(ASKED,), pairs=(), until_equivalent=prove_equal)
    while (step := next_step(evidence)).stage in {"screen", "confirm"}:
        done = len(evidence.pairs)
        more = [_pair(step.stage, math.exp(value)) for value in values[done : done + step.pairs].tolist()]
        evidence = replace(evidence, pairs=(*evidence.pairs, *more))
    return evidence


def _pair(stage: Stage, ratio: float) -> Pair:
    once = Observation(
        measurement=ASKED.measurement,
        metric="latency",
        statistic="p50",
        baseline=array("d", [1e-4]),
        candidate=array("d", [1e-4 * ratio]),
    )
    return Pair(number=1, stage=stage, first="baseline", hash_seeds={}, assignments=(), observations=(once,))


def print_slight() -> None:
    """Print how often +3 % is found, with 95 % Clopper-Pearson intervals as if the replays were independent."""
    print(f"+3 % at a margin of 2 %, alpha 1 %: windows of {WINDOW} rounds\nblocks a side  looks      np          ort")
    for blocks in (12, 24):
        for prove_equal in (False, True):
            counts = [found_slight(workload, blocks, prove_equal=prove_equal) for workload in range(len(WORKLOADS))]
            found, of = map(sum, zip(*counts, strict=True))
            low, high = share_interval(found, of, 0.95)
            cells = "  ".join(f"{one:3} of {all_}" for one, all_ in counts)
            whole = f"{100 * found / of:.1f} % ({100 * low:.1f} .. {100 * high:.1f})"
            print(f"{blocks:13}  {4 if prove_equal else 3:5}  {cells}  {whole}", flush=True)


def print_pairs() -> None:
    """Print what the pairs decide on windows of rounds, and what naive rules say of equal code."""
    for lines in (_windows_of_ten(), _looked_at(), _naive()):
        print("\n".join(lines))


def _windows(length: int, step: int) -> dict[str, list[list[float]]]:
    """Return windows of successive pair values by arm; equal code is held against itself in both directions."""
    found: dict[str, list[list[float]]] = {}
    for (_, arm), values in pair_values().items():
        name = f"+{arm[2:-3]} %" if arm in SLOWER else "equal code"
        for sign in (1,) if arm in SLOWER else (1, -1):
            ends = range(length, len(values) + 1, step)
            found.setdefault(name, []).extend([sign * value for value in values[end - length : end]] for end in ends)
    return found


def _windows_of_ten() -> Iterator[str]:
    windows = _windows(10, 10)
    yield "ten pairs, signed-rank at 5 %: alarms in windows of ten rounds"
    yield "margin " + "".join(f"{arm:>12}" for arm in windows)
    for margin in (0.0, 0.01, 0.02, 0.03, 0.05):
        counts = [sum(signed_rank_p(one, math.log1p(margin)) <= NOMINAL for one in group) for group in windows.values()]
        cells = [f"{count:6} of {len(group)}" for count, group in zip(counts, windows.values(), strict=True)]
        yield f"{100 * margin:4.0f} % {''.join(cells)}"


def _looked_at() -> Iterator[str]:
    yield "looks at 8, 13 and 20 pairs at 1 %, margin 2 %: windows of twenty rounds, each begun five later"
    yield "                  regressed  equivalent  inconclusive  pairs on average"
    for arm, group in _windows(20, 5).items():
        found = [at_looks(window) for window in group]
        counts = [sum(one.outcome == word for one in found) for word in ("regressed", "equivalent", "inconclusive")]
        pairs = fmean(one.pairs for one in found)
        yield f"{arm:>10} of {len(found)}  {counts[0]:8}  {counts[1]:10}  {counts[2]:12}  {pairs:16.1f}"


def _naive() -> Iterator[str]:
    yield "other rules, at a nominal 5 % where there is one: alarms on equal code, np + ort"
    for rule in NAIVE:
        np_found, ort_found, of = naive_alarms(rule)
        yield f"{rule:41} {np_found:3} + {ort_found:2} of {of} {100 * (np_found + ort_found) / of:7.1f} %"


def print_stored() -> None:
    """Print a table for each rule against stored runs."""
    for title, rule, repeats in (
        ("median and MAD, two repeats: the rule of the package", robust_with_repeats, REPEATS),
        ("mean and standard deviation, no repeat: what bursts do to it", mean_and_sd, 0),
    ):
        print(title)
        print("\n".join(table(rule, repeats=repeats)))


SHOWN = {"stored": print_stored, "pairs": print_pairs, "slight": print_slight}


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shown", nargs="?", choices=SHOWN, default="stored")
    SHOWN[parser.parse_args().shown]()
