"""Which imports the sides of a build share: known from its rehearsal, and tried by the first pairs.

A library that works in a process of its own may not do so in one that was forked. Until a measurement has gone through
a forked pair as through the rehearsal, with the same outcome, answers and use of threads, that pair is on trial; if it
differs, it is dropped, and each side imports everything itself from then on.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from random import Random
from threading import Lock
from time import monotonic

from pytest_hwperf.core.evidence import Measurement, Side
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.core.units import counted
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.pairs.chance import Chance
from pytest_hwperf.pairs.lockstep import PairTrace
from pytest_hwperf.pairs.parent import Imports, Parent, ParentLostError

_TRIES = 5  # parents that may refuse packages
_IMPORT_S = 120.0  # that all imports may take
_AT_START = ("PYTHON", "LD_")  # begin the names of variables that a program reads when it is started
_TAKEN_CARE_OF = frozenset({"PYTHONPATH", "PYTHONHASHSEED"})
_CUSTOM = frozenset({"sitecustomize", "usercustomize"})  # modules that Python loads when it is started


@dataclass(slots=True)
class SharedImports:
    """The parents of a build's pairs: each is started while the pair before it takes turns."""

    commands: Mapping[Side, Command]
    rehearsed: Sequence[PairTrace]
    random: Random  # of hash seeds
    processors: Sequence[int]  # that both sides may use; the next parent has those which they leave
    ahead: bool = False  # whether the next parent imports while a pair takes turns
    why_not: str = ""  # each side imports everything itself
    apart: dict[str, str] = field(default_factory=dict)  # package → why each side imports it itself
    imports: Imports = field(default_factory=partial(Imports, modules={}, environment={}, differing=()))
    _next: Parent | None = None
    _lock: Lock = field(default_factory=Lock)
    _tried: set[Measurement] = field(default_factory=set)  # measurements that are as in the rehearsal

    def __post_init__(self) -> None:
        """Find what can be shared, and whether there is a processor for the next parent."""
        self.ahead = len(self.processors) > 1
        self.why_not = self.why_not or _why_none(self.commands, self.rehearsed)
        if not self.why_not:
            self.imports = _common(self.commands, self.rehearsed)

    def try_out(self) -> float:
        """Let the parent of the first pair import; return how long, 0 where each side imports everything itself."""
        began = monotonic()
        self._next = self.parent()
        return monotonic() - began if self._next else 0.0

    def parent(self) -> Parent | None:
        """Return a parent that has imported everything, None where each side is to do so itself."""
        for _ in range(_TRIES):
            if self.why_not:
                return None
            parent = self._taken() or self._started()
            try:
                if self.ahead:
                    parent.run_on(self.processors)
                refused = parent.refused(_IMPORT_S)
            except ParentLostError as error:
                parent.end()
                self.stop(str(error))
                continue
            except BaseException:
                parent.end()
                raise
            if not refused:
                return parent
            parent.end()
            self._leave_out(refused)
        self.stop("too many packages cannot be imported for both sides")
        return None

    def prepare(self) -> None:
        """Let the next parent begin to import, where a processor is free for it."""
        if self.ahead and self._next is None and not self.why_not:
            self._next = self._started()

    def make_room(self, processor: int | None) -> None:
        """Leave a processor to the pair that takes turns, None: all of them."""
        if self._next is not None:
            self._next.run_on([] if processor is None else [one for one in self.processors if one != processor])

    def close(self) -> None:
        """End a parent that no pair has used."""
        parent = self._taken()
        if parent is not None:
            parent.end()

    def stop(self, why: str) -> None:
        """Let each side import everything itself from now on."""
        self.why_not = self.why_not or why
        self.close()

    @property
    def said(self) -> str:
        """Say what is imported once for both sides, and what is not."""
        if self.why_not:
            return f"each side imports everything itself: {self.why_not}"
        packages = {name.partition(".")[0] for name in self.imports.modules} - sys.stdlib_module_names
        apart = "".join(f"; {name} by each side: {why}" for name, why in self.apart.items())
        return f"{counted(len(packages), 'package')} imported once for both sides of a pair{apart}"

    def is_on_trial(self, measurements: Sequence[Measurement]) -> bool:
        """Whether some of these were in no forked pair yet."""
        return not self._tried.issuperset(measurements)

    def judge(self, trace: PairTrace) -> str:
        """Return what a forked pair has done otherwise than the rehearsal; "" where nothing."""
        why = next(_differences(trace, self.rehearsed), "")
        if not why:
            self._tried.update(trace.interleavings)
        return why

    def _taken(self) -> Parent | None:
        """Return the parent that waits, to one caller alone: pairs side by side are started by several threads."""
        with self._lock:
            parent, self._next = self._next, None
            return parent

    def _started(self) -> Parent:
        return Parent.start(self.commands["candidate"], self.imports, Chance(self.random).hash_seed())

    def _leave_out(self, refused: Mapping[str, str]) -> None:
        self.apart |= refused
        left = {name: file for name, file in self.imports.modules.items() if name.partition(".")[0] not in refused}
        self.imports = replace(self.imports, modules=left)


def _why_none(commands: Mapping[Side, Command], rehearsed: Sequence[PairTrace]) -> str:
    """Return why the sides of a build can share nothing, "" where they can."""
    if not any(one.modules for one in rehearsed):
        return "no rehearsal says what the sides import"
    if not hasattr(os, "pidfd_open"):
        return "this system does not tell how a forked process ends"
    baseline, candidate = (commands[side] for side in SIDES)
    if baseline.interpreter != candidate.interpreter or baseline.under or candidate.under:
        return "each side has an interpreter of its own"
    for name in sorted(_differing(commands)):
        if name.startswith(_AT_START) and name not in _TAKEN_CARE_OF:
            return f"the sides differ by {name}"
    paths = (one.environment.get("PYTHONPATH", "") for one in commands.values())
    on_path = {Path(entry) for path in paths for entry in path.split(os.pathsep)}
    files = {modules[name] for one in rehearsed for modules in one.modules.values() for name in _CUSTOM & {*modules}}
    return "the sides start with code of their own" if any(Path(file).parent in on_path for file in files) else ""


def _common(commands: Mapping[Side, Command], rehearsed: Sequence[PairTrace]) -> Imports:
    """Return what both sides load from the same files, in the order in which the candidate has loaded it."""
    loaded = [dict(one.modules) for one in rehearsed if len(one.modules) == len(SIDES)]
    order = {name: file for one in loaded for name, file in one["candidate"].items()}
    own, differing = _rewritten_by_pytest(), _differing(commands)
    return Imports(
        modules={
            name: file
            for name, file in order.items()
            if name.partition(".")[0] not in own
            and all(any(name in one[side] for one in loaded) for side in SIDES)
            and all(modules.get(name, file) == file for one in loaded for modules in one.values())
        },
        environment={
            name: value
            for name, value in commands["baseline"].environment.items()
            if name not in {*differing, *_TAKEN_CARE_OF}
        },
        differing=differing,
    )


def _differing(commands: Mapping[Side, Command]) -> set[str]:
    """Return the variables of the environment by which both sides differ."""
    baseline, candidate = (commands[side].environment.items() for side in SIDES)
    return {name for name, _ in baseline ^ candidate}


def _rewritten_by_pytest() -> set[str]:
    """Return the packages of pytest's plugins, whose assertions it rewrites: it has to import them itself.

    This one is none of them: its docstring says PYTEST_DONT_REWRITE.
    """
    plugins = {one.dist.name: one.dist for one in entry_points(group="pytest11") if one.dist is not None}
    files = (file for name, one in plugins.items() if name != "pytest-hwperf" for file in one.files or ())
    return {file.parts[0].removesuffix(".py") for file in files if file.suffix == ".py"}


def _differences(trace: PairTrace, rehearsed: Sequence[PairTrace]) -> Iterator[str]:
    """Yield what a forked pair has done otherwise than processes of their own in the rehearsal."""
    if trace.lost is not None:
        yield str(trace.lost)
    for before in rehearsed:
        yield from _other_outcomes(trace, before)
        yield from _other_work(trace, before)
    files = {side: {file for one in rehearsed for file in one.files.get(side, ())} for side in SIDES}
    for side, other in (SIDES, SIDES[::-1]):
        if leaked := sorted({*trace.files.get(side, ())} & (files[other] - files[side])):
            yield f"the {side} has loaded {leaked[0]}, which only the {other} has loaded in the rehearsal"


def _other_outcomes(trace: PairTrace, before: PairTrace) -> Iterator[str]:
    for node in trace.outcomes.keys() & before.outcomes.keys():
        for side, ended in trace.outcomes[node].items():
            if ended.outcome != before.outcomes[node][side].outcome:
                yield f"{node} {ended.outcome} on the side of the {side}: {ended.reason}"


def _other_work(trace: PairTrace, before: PairTrace) -> Iterator[str]:
    """Yield measurements with other threads or other answers."""
    for here in trace.interleavings.keys() & before.interleavings.keys():
        # Only how many sides: which ones may follow the coin, that has to stay fair in the pairs that are kept.
        if len(trace.interleavings[here].pools) != len(before.interleavings[here].pools):
            yield f"{here.test} uses other threads in a forked process"
    for here in trace.exact.keys() & before.exact.keys():
        known, found = ([list(one.exact[here][side]) for side in SIDES] for one in (before, trace))
        # Where two processes of one model differ by themselves, nothing follows from a third.
        if known[0] == known[1] and found != known:
            yield f"{here.test} has other answers in a forked process"
