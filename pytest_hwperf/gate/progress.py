"""How far the pairs are, as one line of text."""

from collections.abc import Mapping

from pytest_hwperf.gate.conductor import Progress

_OTHERS: Mapping[str, str] = {  # stages that are no pairs
    "explain": "what moved,",
    "operators": "operators,",
    "processes": "comparison of fresh processes",
}


def progress_text(progress: Progress) -> str:
    """Return the line: stage, pair, what is decided, time left until the next decision, and the test."""
    if progress.stage == "rehearsal":
        return f"hwperf: rehearsal of both sides {progress.test}".rstrip()
    if progress.stage == "checkout":
        return "hwperf: checkout of the baseline"
    what = _OTHERS.get(progress.stage, f"{progress.stage} pair")
    numbers = f"{progress.pair}–{progress.pair + progress.beside}" if progress.beside else f"{progress.pair}"
    parts = [f"hwperf: {what}{'s' if progress.beside else ''} {numbers} of {progress.of}"]
    if progress.stage == "confirm":
        parts.append(f"{progress.decided} of {progress.hypotheses} decided")
    if progress.left_s is not None:
        parts.append(f"about {max(1, round(progress.left_s))} s left")
    return ", ".join([*parts, progress.test] if progress.test else parts)
