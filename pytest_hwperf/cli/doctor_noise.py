"""The noise of this machine now, by equal processes in pairs, and how many pairs finding a slowdown takes in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import expm1
from statistics import median

from pytest_hwperf.gate.models import CompareSettings, SelfComparison, compare_with_itself
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.gate.targets import MODEL, ROWS, rows
from pytest_hwperf.host.disturbance import Interference, Snapshot
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.stats.paired import MOST_PAIRS, pairs_needed
from pytest_hwperf.stats.ranks import fewest_pairs
from pytest_hwperf.stats.sequence import SCREEN_PAIRS, SHARES

ALPHA = 0.01  # the gate's default, per build
MARGIN = DEFAULT_MARGINS["latency_p50"].size
CHANGES = (0.02, 0.05, 0.10)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsNeeded:
    """Pairs that finding one slowdown takes."""

    change: float  # relative
    pairs: int | None  # of fresh processes, None with a reason
    reason: str  # "" with a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Results of the pairs."""

    pairs: int
    seconds: float  # wall time of all pairs
    latency_s: float | None  # median call
    differences: tuple[float, ...]  # relative, of the two sides' median latency, one a pair
    alpha: float  # per build
    level: float  # one-sided, of the first look
    margin: float  # relative
    needs: tuple[PairsNeeded, ...]
    disturbances: tuple[str, ...]  # meanwhile, as the system shows them
    reason: str  # why there is no figure, or fewer pairs than there might be; "" otherwise


def read_noise(read: Callable[[], SelfComparison], snapshot: Callable[[], Snapshot] | None = None) -> Noise:
    """Run the pairs and return their noise; an error that kept them from running becomes its reason."""
    watch = Interference(snapshot)
    try:
        seen = read()
    except HwperfError as error:
        return noise_of(SelfComparison(changes=(), latency_s=None, seconds=0.0, lost=str(error)))
    return noise_of(seen, tuple(map(str, watch.end()[1])))


def noise_of(seen: SelfComparison, disturbances: tuple[str, ...] = ()) -> Noise:
    """Return the noise of equal sides, judged by the gate's own test at its first look."""
    level = SHARES[0] * ALPHA
    return Noise(
        pairs=len(seen.changes),
        seconds=seen.seconds,
        latency_s=seen.latency_s,
        differences=tuple(map(expm1, seen.changes)),
        alpha=ALPHA,
        level=level,
        margin=MARGIN,
        needs=tuple(pairs_for(change, seen.changes, level) for change in CHANGES),
        disturbances=disturbances,
        reason=seen.lost,
    )


def pair_for(seconds: float, tell: Callable[[Progress], None]) -> Callable[[], SelfComparison]:
    """Return a function that compares the built-in model with itself for so long."""
    settings = CompareSettings(
        margins=(DEFAULT_MARGINS["latency_p50"],), alpha=ALPHA, batch_size=ROWS, time_s=seconds, progress=tell
    )
    return partial(compare_with_itself, MODEL, rows(), settings)


def render_noise(noise: Noise) -> list[str]:
    """Describe the noise, a paragraph each."""
    if not noise.pairs or noise.latency_s is None:
        return [f"No pair of equal processes gave a value: {noise.reason or 'the time was too short; give more'}."]
    shown = (min(noise.differences), median(noise.differences), max(noise.differences))
    low, middle, high = (f"{100 * change:+.2f} %" for change in shown)
    first = (
        f"{counted(noise.pairs, 'pair')} of equal fresh processes took {show(noise.seconds, 's')}: the two sides' "
        f"median latency differed by {low} .. {high}, by {middle} in the median pair (a built-in model, "
        f"{show(noise.latency_s, 's')} a call)."
    )
    lines = [first]
    if noise.reason:
        lines.append(f"It ended early: {noise.reason}.")
    return [*lines, *_meaning(noise), *(f"Meanwhile {disturbance}." for disturbance in noise.disturbances)]


def _meaning(noise: Noise) -> list[str]:
    fewest = fewest_pairs(noise.level)
    if noise.pairs < fewest:
        few = f"That is too few to say what a slowdown needs: the gate's test takes {fewest} pairs at least."
        return [f"{few} Give more --seconds."]
    each_s = noise.seconds / noise.pairs
    found = [_sentence(need, each_s) for need in sorted(noise.needs, key=lambda need: need.change <= noise.margin)]
    method = (
        f"By the gate's test: exact signed ranks beyond a margin of {100 * noise.margin:g} %, at "
        f"{100 * noise.level:g} %, the first look of {100 * noise.alpha:g} % false alarms per build. With so many "
        f"pairs about half of all builds find it; {SCREEN_PAIRS} pairs of the screen come before. Your tests may be "
        "noisier: hwperf selfcheck asks them."
    )
    return [f"On this machine now {', '.join(found[:-1])}, and {found[-1]}.", method]


def pairs_for(change: float, changes: Sequence[float], level: float) -> PairsNeeded:
    """Return the pairs that finding a change takes at `level`, in the noise of `changes` (log ratios)."""
    if change <= MARGIN:
        return PairsNeeded(change=change, pairs=None, reason="within the margin")
    if len(changes) < fewest_pairs(level):
        return PairsNeeded(change=change, pairs=None, reason="too few pairs to say")
    pairs = pairs_needed(changes, change, level, MARGIN)
    return PairsNeeded(change=change, pairs=pairs, reason="" if pairs else f"more than {MOST_PAIRS} pairs")


def _sentence(need: PairsNeeded, each_s: float) -> str:
    slowdown = f"a {100 * need.change:g} % slowdown"
    if need.pairs is not None:
        pairs = f"{counted(need.pairs, 'pair')} of fresh processes"
        return f"{slowdown} needs about {pairs} ({need.pairs * each_s:.0f} s)"
    if need.change <= MARGIN:
        return f"{slowdown} is never called, as it lies within the default margin"
    return f"{slowdown} needs {need.reason}"
