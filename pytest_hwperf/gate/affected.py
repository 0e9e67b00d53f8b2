"""Tests that nothing reaches of what differs between both trees, proved by processes in which nobody has used it.

Both sides of the rehearsal note what they use. That decides nothing yet: a test may have what an earlier one has left
behind. Those that seem untouched are rehearsed again by themselves, until they go through processes that use nothing.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.core.affected import (
    EVERY_TEST,
    Changes,
    Split,
    Usage,
    Watch,
    own_change,
    split,
    watch_of,
    why_every_test,
)
from pytest_hwperf.core.evidence import Side
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.pairs.lockstep import PairTrace
from pytest_hwperf.trees.both import Trees, loaded_code

_MOST_ROUNDS = 4  # of rehearsals by themselves, after which no test is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Untouched:
    """What became of the search."""

    tests: frozenset[str] = frozenset()  # node ids: nothing that they run has changed
    affected: Mapping[str, str] = field(default_factory=dict)  # node id → what it uses of the change
    why_none: str = ""  # what reaches every test


def watches_of(trees: Trees, *, own_interpreter: bool) -> Mapping[Side, Watch]:
    """Return what both sides have to watch; nothing where the change may reach every test."""
    if trees.changes is None or own_interpreter or why_every_test(trees.changes):
        return {}
    roots: Mapping[Side, Path] = {"candidate": trees.candidate, "baseline": trees.baseline}
    return {side: watch_of(side, str(roots[side]), trees.changes) for side in SIDES}


def untouched_tests(
    trees: Trees,
    root: Path,
    files: Sequence[Path],
    trace: PairTrace,
    again: Callable[[Sequence[str]], PairTrace],
    *,
    own_interpreter: bool,
) -> Untouched:
    """Return the tests that nothing reaches of what differs.

    Args:
        trees: both, compared.
        root: of the tests.
        files: of the tests.
        trace: of their rehearsal, in which both sides have watched.
        again: rehearses some of them by themselves, and only their files.
        own_interpreter: whether the baseline ran with another one, and so with other versions.
    """
    changes = trees.changes or Changes(changed={})
    why = "the baseline has an interpreter of its own" if own_interpreter else why_every_test(changes)
    if why:
        return Untouched(why_none=why)
    here = os.path.relpath(root.resolve(), trees.candidate).removeprefix(".").removeprefix("/")
    own = {os.path.relpath(file.parent.resolve() / file.name, trees.candidate) for file in files}
    passed = [node for node in trace.outcomes if _has_passed(trace, node)]
    affected = {node: why for node in passed if (why := own_change(node, changes, here, own))}
    left = [node for node in passed if node not in affected]
    for number in range(_MOST_ROUNDS + 1):
        trace = again(left) if number else trace
        lost = [node for node in left if not _has_passed(trace, node)]
        found = _split([node for node in left if node not in lost], trees, trace)
        affected |= dict.fromkeys(lost, "it did not pass by itself") | dict(found.affected)
        left = [*found.left]
        if not left or (found.is_proof and not lost):
            return Untouched(tests=frozenset(left), affected=affected)
    return Untouched(affected=affected, why_none="what tests use of it is not the same in each process")


def _has_passed(trace: PairTrace, node: str) -> bool:
    """Whether a test has passed on both sides, and made the same measurements there."""
    ended = trace.outcomes.get(node, {})
    is_uneven = any(measurement.test == node for measurement in trace.uneven)
    return all(side in ended and ended[side].outcome == "passed" for side in SIDES) and not is_uneven


def _split(nodes: Sequence[str], trees: Trees, trace: PairTrace) -> Split:
    """Sort tests by what was used in a pair; compiled code of the tree may have been made of whatever has changed."""
    loaded = loaded_code(trees, trace.files)
    usages = dict(trace.usages)
    for side, files in loaded.items():
        if compiled := next((file for file in files if not file.endswith(".py")), ""):
            usages[side] = Usage(used={EVERY_TEST: (f"{compiled}, which is compiled",)})
    return split(nodes, usages, loaded)
