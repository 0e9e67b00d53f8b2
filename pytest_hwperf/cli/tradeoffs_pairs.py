"""`hwperf tradeoffs --pairs`: every two candidates that may be chosen, in pairs of fresh processes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from time import monotonic

from pytest_hwperf.cli.progress import ProgressLine, clear_progress
from pytest_hwperf.cli.tradeoffs_text import Choice
from pytest_hwperf.core.evidence import Gate, Measurement
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.rivals import ALPHA, Candidate
from pytest_hwperf.gate.rivals import RivalSettings, compare_rivals
from pytest_hwperf.pairs.conductor import Progress


def in_pairs(choices: Sequence[Choice], arguments: Sequence[str], time_s: float) -> Iterator[Choice]:
    """Yield each choice with what pairs have shown of its candidates; all answers together are wrong at `ALPHA`."""
    asked = [list(combinations([one for one in choice.left if MEDIAN_LATENCY in one.values], 2)) for choice in choices]
    until, left = monotonic() + time_s, sum(map(len, asked))
    alpha = ALPHA / max(1, left)
    for choice, rivals in zip(choices, asked, strict=True):
        found, gates = {one.name: one for one in choice.candidates}, list[Gate]()
        for baseline, candidate in rivals:
            shown = partial(_show, ProgressLine(), f"{candidate.name} against {baseline.name}")
            share, left = max(0.0, until - monotonic()) / left, left - 1
            settings = RivalSettings(arguments=arguments, alpha=alpha, time_s=share, progress=shown)
            now, gate = compare_rivals(_measured(baseline), _measured(candidate), settings)
            gates.append(gate)
            pairs = {**found[candidate.name].pairs, baseline.name: {now.key: now}}
            found[candidate.name] = replace(found[candidate.name], pairs=pairs)
        clear_progress()
        yield replace(choice, candidates=[*found.values()], reference=found[choice.reference.name], gates=gates)


def _measured(candidate: Candidate) -> Measurement:
    return Measurement(test=candidate.test, label=candidate.label)


def _show(line: ProgressLine, what: str, progress: Progress) -> None:
    line.show(f"{what}: {progress.stage} pair {progress.pair} of {progress.of}")
