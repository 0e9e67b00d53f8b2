"""Stacks of both sides of what was explained, as files for flame graphs.

`explain/TEST.SIDE.collapsed`: a line for each stack, its frames joined by `;`, and the nanoseconds of a call that are
spent at its end: what speedscope and flamegraph.pl read.
`explain/TEST.trace.json`: both sides as a Chrome trace of one mean call each, one below the other: what Perfetto and
speedscope read. Calls within a call follow each other by name, not in the order in which they were made.

Names of tests may be anything: a file has those of their characters that are harmless everywhere, and a hash.
"""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from statistics import fmean
from typing import Any

from pytest_hwperf.core.evidence import Explanation, Side
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.report import Report

_FOLDER = "explain"
_LONGEST_NAME = 80  # characters
_US = 1e6  # of a second: the unit of a Chrome trace


def render(report: Report) -> dict[str, bytes]:
    """Return the content of each file under its name; none where no functions were profiled."""
    found: dict[str, bytes] = {}
    for one, kind in ((one, gate.kind) for gate in report.gates for one in gate.explanations):
        sides = {side: seconds for side, seconds in _sides(one).items() if seconds}
        if not sides:
            continue
        name = f"{_FOLDER}/{safe_name(one, kind)}"
        found |= {f"{name}.{side}.collapsed": _collapsed(seconds) for side, seconds in sides.items()}
        found[f"{name}.trace.json"] = _trace(sides)
    return found


def safe_name(explanation: Explanation, kind: str = "") -> str:
    """Return a name of a file for what was explained: no path, no character with a meaning, no name of another one."""
    named = [explanation.measurement.test, explanation.measurement.label, explanation.metric, explanation.statistic]
    named += [kind] if kind else []
    text = re.sub(r"[^A-Za-z0-9_]+", "-", named[0].rpartition("::")[2] + f"-{named[1]}").strip("-")
    return f"{text[:_LONGEST_NAME] or 'test'}-{sha256(json.dumps(named).encode()).hexdigest()[:8]}"


def _sides(explanation: Explanation) -> Mapping[Side, Mapping[str, float]]:
    """Return the mean seconds of each stack of each side."""
    return {
        "baseline": {stack: fmean(seconds) for stack, seconds in explanation.baseline_stacks.items() if seconds},
        "candidate": {stack: fmean(seconds) for stack, seconds in explanation.candidate_stacks.items() if seconds},
    }


def _collapsed(stacks: Mapping[str, float]) -> bytes:
    lines = (f"{visible(stack)} {round(seconds * 1e9)}" for stack, seconds in sorted(stacks.items()))
    return "".join(f"{line}\n" for line in lines).encode()


def _trace(sides: Mapping[Side, Mapping[str, float]]) -> bytes:
    events: list[dict[str, Any]] = []
    for process, (side, stacks) in enumerate(sides.items(), 1):
        at = {"pid": process, "tid": 1}
        events.append({"name": "process_name", "ph": "M", **at, "args": {"name": f"{side}, a mean call"}})
        paths = {tuple(visible(stack).split(";")): seconds * _US for stack, seconds in stacks.items()}
        events.extend(
            {"name": name, "ph": "X", "ts": round(start, 3), "dur": round(lasts, 3), **at}
            for name, start, lasts in _spans(paths, 0.0)
        )
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}).encode()


def _spans(paths: Mapping[tuple[str, ...], float], start: float) -> Iterator[tuple[str, float, float]]:
    """Yield name, start and duration of each function, those that it calls within it."""
    below: dict[str, dict[tuple[str, ...], float]] = {}
    for path, taken in paths.items():
        if path:
            below.setdefault(path[0], {})[path[1:]] = taken
    for name, inner in sorted(below.items()):
        lasts = sum(inner.values())
        yield name, start, lasts
        yield from _spans(inner, start)
        start += lasts
