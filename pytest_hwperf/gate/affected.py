"""Tests that nothing reaches of what differs between both trees, proved by processes in which nobody has used it.

Both sides of the rehearsal note what they use. That decides nothing yet: a test may have what an earlier one has left
behind. Those that seem untouched are rehearsed again by themselves, with as many calls as a pair makes, until they go
through processes that use nothing.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.checkout.both import with_leftovers
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.units import reasons
from pytest_hwperf.stats.causes.changed_code import (
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
from pytest_hwperf.stats.pairs.hypotheses import SIDES

_MOST_ROUNDS = 4  # of rehearsals by themselves, after which no test is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Untouched:
    """What became of the search."""

    tests: frozenset[str] = frozenset()  # node ids: nothing that they run has changed
    affected: Mapping[str, str] = field(default_factory=dict)  # node id → what it uses of the change
    why_none: str = ""  # what reaches every test

    @property
    def said(self) -> str:
        """Why no test was left out; "" where one was."""
        why = self.why_none or ("" if self.tests else reasons(self.affected.values()))
        return f"--hwperf-affected leaves no test out: {why}" if why else ""


def watches_of(trees: Trees, *, own_interpreter: bool) -> Mapping[Side, Watch]:
    """Return what both sides have to watch; nothing where the change may reach every test."""
    if trees.changes is None or own_interpreter or why_every_test(trees.changes):
        return {}
    return {side: watch_of(side, str(trees.root(side)), trees.changes) for side in SIDES}


def untouched_tests(
    trees: Trees,
    tests: tuple[Path, Sequence[Path]],
    trace: PairTrace,
    again: Callable[[Sequence[str], Trees], PairTrace],
    *,
    own_interpreter: bool,
) -> Untouched:
    """Return the tests that nothing reaches of what differs between both trees, which were compared.

    `tests` are their root and their files; `again` rehearses some of them by themselves, with only their files. With an
    interpreter of its own, the baseline has other versions too.
    """
    if why := _why_all(trees, own_interpreter=own_interpreter):
        return Untouched(why_none=why)
    passed = [node for node in trace.outcomes if _has_passed(trace, node)]
    affected = dict(_of_themselves(trees, *tests, passed))
    left = [node for node in passed if node not in affected]
    affected |= _split(left, trees, trace).affected
    left = [node for node in left if node not in affected]
    for _ in range(_MOST_ROUNDS):
        if not left:
            break
        now = with_leftovers(trees)
        if why := _why_all(now, own_interpreter=own_interpreter):
            return Untouched(affected=affected, why_none=why)
        trace = again(left, now)
        lost = [node for node in left if not _has_passed(trace, node)]
        found = _split([node for node in left if node not in lost], trees, trace)
        affected |= dict.fromkeys(lost, "it did not pass by itself") | dict(found.affected)
        left = [*found.left]
        if found.is_proof and not lost:
            return Untouched(tests=frozenset(left), affected=affected)
    return Untouched(affected=affected, why_none="what tests use of it is not the same in each process" if left else "")


def _why_all(trees: Trees, *, own_interpreter: bool) -> str:
    """Return what of the change may reach every test."""
    if own_interpreter:
        return "the baseline has an interpreter of its own"
    return why_every_test(trees.changes or Changes(changed={}))


def _of_themselves(trees: Trees, root: Path, files: Sequence[Path], nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield tests that have changed themselves, or by what their folders give them."""
    top, changes = trees.candidate, trees.changes or Changes(changed={})
    here = os.path.relpath(root.resolve(), top).removeprefix(".").removeprefix("/")
    own = {os.path.relpath(file.parent.resolve() / file.name, top) for file in files}
    for node in nodes:
        if why := own_change(node, changes, here, own):
            yield node, why


def _has_passed(trace: PairTrace, node: str) -> bool:
    """Whether a test has passed on both sides, and made the same measurements there."""
    ended = trace.outcomes.get(node, {})
    is_uneven = any(measurement.test == node for measurement in trace.uneven)
    return all(side in ended and ended[side].outcome == "passed" for side in SIDES) and not is_uneven


def _split(nodes: Sequence[str], trees: Trees, trace: PairTrace) -> Split:
    """Sort tests by what was used in a pair; compiled code of the tree may have been made of whatever has changed."""
    loaded = {side: [*trees.tree(side).own(files)] for side, files in trace.files.items()}
    usages = dict(trace.usages)
    for side, files in loaded.items():
        if compiled := next((file for file in files if not file.endswith(".py")), ""):
            usages[side] = Usage(used={EVERY_TEST: (f"{compiled}, which is compiled",)})
    return split(nodes, usages, loaded)
