"""Imports that the sides of a build share: known from its rehearsal, and checked by the first pairs.

A library that works in a process of its own may not do so in a forked one. The first forked pair of each measurement
has to give the answers of the rehearsal, load the same code and use threads in the same way; else it does not count.
"""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from random import Random
from threading import RLock
from time import monotonic

from pytest_hwperf.gate.pair.lockstep import Chance, PairTrace
from pytest_hwperf.gate.pair.parent import Imports, Parent, ParentLostError
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.pair_parent import CAN_TELL_ENDS
from pytest_hwperf.host.source_files import SITES, is_of_this_package
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Measurement, Side
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.units import counted
from pytest_hwperf.stats.pairs.hypotheses import SIDES
from pytest_hwperf.stats.pairs.paired import pair_value

_TRIES = 5  # parents that may refuse packages
_IMPORT_S = 120.0  # that all imports may take
_MISSES = 2  # pairs that go otherwise than the rehearsal, after which nothing is shared: one may do so by chance
_OTHER_TIMES = math.log(1.25)  # between the ratios of both sides in two pairs of which one is short
_LIBRARY = Path(os.__file__).parent
_AT_START = ("PYTHON", "LD_")  # begin the names of variables that a program reads when it is started
_TAKEN_CARE_OF = frozenset({"PYTHONPATH", "PYTHONHASHSEED"})
_CUSTOM = frozenset({"sitecustomize", "usercustomize"})  # modules that Python loads when it is started


@dataclass(slots=True)
class SharedImports:
    """The parents of a build's pairs: each imports while the pair before it takes turns; all are gone once closed."""

    commands: Mapping[Side, Command]
    rehearsed: PairTrace
    random: Random  # of hash seeds
    ahead: bool  # whether the next parent may import while a pair takes turns
    why_not: str = ""  # each side imports everything itself
    apart: dict[str, str] = field(default_factory=dict)  # package → why each side imports it itself
    packages: set[str] = field(default_factory=set)  # that the latest parent has imported for both
    import_s: float = 0.0  # that it took, where it was waited for
    _imports: Imports = field(init=False)
    _next: list[Parent] = field(default_factory=list)
    _started: list[Parent] = field(default_factory=list)
    _lock: RLock = field(default_factory=RLock)  # pairs side by side are started by several threads
    _varying: set[str] = field(default_factory=set)  # modules that hold other values in each process
    _suspected: set[str] = field(default_factory=set)  # modules that held others than in the rehearsal
    _found_once: set[str] = field(default_factory=set)  # modules that held others in one forked pair alone
    _tried: set[Measurement] = field(default_factory=set)  # measurements that have gone as in the rehearsal
    _misses: int = 0

    def __post_init__(self) -> None:
        """Find what can be shared."""
        self.why_not = _why_none(self.commands, self.rehearsed)
        if not self.why_not:
            self._imports = _common(self.commands, self.rehearsed)

    def try_out(self, seconds: float) -> None:
        """Let the parent of the first pair import, within a time."""
        self._next[:] = filter(None, [self.parent(seconds)])

    def parent(self, seconds: float) -> Parent | None:
        """Return a parent that has imported everything, None where each side is to do so itself."""
        with self._lock:
            for _ in range(_TRIES):
                if self.why_not:
                    return None
                began, parent = monotonic(), self._next.pop(0) if self._next else self._start()
                try:
                    refused = parent.refused(min(seconds, _IMPORT_S))
                except ParentLostError as error:
                    self.stop(str(error))
                    continue
                if not refused:
                    self.import_s = monotonic() - began
                    self.packages = {name.partition(".")[0] for name in parent.imported} - sys.stdlib_module_names
                    return parent
                parent.end()
                self._leave_out(refused)
            self.stop("too many packages cannot be imported for both sides")
            return None

    def prepare(self, parents: int = 1) -> None:
        """Let the next parents begin to import."""
        with self._lock:
            while self.ahead and len(self._next) < parents and not self.why_not:
                try:
                    self._next.append(self._start())
                except WorkerError as error:
                    self.stop(str(error))

    def use(self, processors: int) -> None:
        """Let the next parents use so many processors that a pair leaves; they wait where there are none."""
        for parent in self._next:
            (parent.go_on if processors else parent.wait)()

    def close(self) -> None:
        with self._lock:
            self._next.clear()
            while self._started:
                self._started.pop().end()

    def stop(self, why: str) -> None:
        """Let each side import everything itself from now on."""
        with self._lock:
            self.why_not = self.why_not or why
            while self._next:
                self._next.pop().end()

    @property
    def said(self) -> str:
        """Say what is imported once for both sides, and what is not."""
        if self.why_not:
            return f"each side imports everything itself: {self.why_not}"
        apart = "".join(f"; each side imports {name}: {why}" for name, why in self.apart.items())
        return f"{counted(len(self.packages), 'package')} imported once for both sides of a pair{apart}"

    def is_new(self, measurements: Sequence[Measurement]) -> bool:
        """Whether some of these have not gone through a forked pair yet."""
        return not self._tried.issuperset(measurements)

    def is_as_rehearsed(self, trace: PairTrace, measurements: Sequence[Measurement]) -> bool:
        """Whether a forked pair has worked as the rehearsal did; where it has not again, nothing is shared any more.

        What it looks at tells nothing of which side is slower.
        """
        why = next(_differences(trace, self.rehearsed), "")
        if why:
            self._misses += 1
            if self._misses == _MISSES:
                self.stop(why)
            return False
        self._suspected = {name for side in SIDES for name in self._changed(side, trace)} - self._varying
        if self._suspected or any(_has_other_times(here, trace, self.rehearsed) for here in measurements):
            return False
        self._tried.update(measurements)
        return True

    def learn(self, forked: PairTrace, apart: PairTrace, measurements: Sequence[Measurement]) -> None:
        """Learn from a pair that has shared nothing, and has taken the place of a forked one, what is not to be shared.

        Where it goes as the rehearsal did, and the forked one did not, the fork is the cause; else it is chance.
        """
        own = {name for side in SIDES for name in self._changed(side, apart)}
        self._varying |= self._suspected & own
        if found := self._suspected - own:
            # What follows from an address, as the order of a set of functions, may differ once by chance.
            again = found & self._found_once
            self._found_once |= found
            if not again:
                return
            self._leave_out({name.partition(".")[0]: "it holds other values where both share it" for name in again})
            while self._next:
                self._next.pop().end()
            return
        slower = [here for here in measurements if _has_other_times(here, forked, self.rehearsed)]
        for here in slower:
            now, then, rehearsed = (_size(here, one) for one in (forked, apart, self.rehearsed))
            if abs(then - now) > max(_OTHER_TIMES, abs(then - rehearsed)):
                self.stop(f"{here.test} takes other times in a forked process")
        if slower and not self._suspected and next(_differences(forked, self.rehearsed), None) is None:
            self._tried.update(measurements)  # it was chance, of the rehearsal

    def _changed(self, side: Side, trace: PairTrace) -> Iterator[str]:
        """Yield the shared modules that have held other values than in the rehearsal."""
        found, before = (one.states.get(side, {}) for one in (trace, self.rehearsed))
        for name in found.keys() & before.keys() & self._imports.modules.keys():
            if found[name] != before[name]:
                yield name

    def _start(self) -> Parent:
        with uninterrupted():  # whatever has been started is known here, and ended when this is closed
            parent = Parent.start(self.commands["candidate"], self._imports, Chance(self.random).hash_seed())
            self._started[:] = [*(one for one in self._started if not one.is_over), parent]
        return parent

    def _leave_out(self, refused: Mapping[str, str]) -> None:
        self.apart |= refused
        left = {name: file for name, file in self._imports.modules.items() if name.partition(".")[0] not in refused}
        self._imports = replace(self._imports, modules=left)


def _why_none(commands: Mapping[Side, Command], rehearsed: PairTrace) -> str:
    """Return why the sides of a build can share nothing, "" where they can."""
    if not CAN_TELL_ENDS:
        return "only Linux tells how a forked process ends"
    if len(rehearsed.modules) < len(SIDES):
        return "no rehearsal of both sides has said which modules they load"
    baseline, candidate = (commands[side] for side in SIDES)
    if baseline.interpreter != candidate.interpreter or baseline.under or candidate.under:
        return "each side has an interpreter of its own"
    for name in sorted(_differing(commands)):
        if name.startswith(_AT_START) and name not in _TAKEN_CARE_OF:
            return f"{name} differs between the sides"
    files = {modules[name] for modules in rehearsed.modules.values() for name in _CUSTOM & {*modules}}
    own = {Path(entry) for side in SIDES for entry in _path(commands[side])}
    return "a side has its own sitecustomize.py" if any(Path(file).parent in own for file in files) else ""


def _common(commands: Mapping[Side, Command], rehearsed: PairTrace) -> Imports:
    """Return what both sides load from the same files in the same order, up to the first difference.

    Whatever comes after it may depend on what one side alone has loaded, or on what its tree has run.
    """
    ((_, first), *baseline), ((_, other), *candidate) = (_parted(rehearsed, side) for side in SIDES)
    modules = dict(first.items() & other.items())
    modules = {name: file for name, file in other.items() if name in modules}  # before any code of a tree
    for _, (_, one) in takewhile(lambda parts: parts[0] == parts[1], zip(baseline, candidate, strict=False)):
        modules |= one
    differing = _differing(commands)
    same = {
        name: value
        for name, value in commands["baseline"].environment.items()
        if name not in differing | _TAKEN_CARE_OF
    }
    path = os.pathsep.join(one for one in _path(commands["candidate"]) if one in _path(commands["baseline"]))
    return Imports(
        modules=modules,
        environment={**same, "PYTHONPATH": path} if path else same,
        differing=differing,
        trees=_own_folders(commands),
    )


def _parted(rehearsed: PairTrace, side: Side) -> list[tuple[str, dict[str, str]]]:
    """Return the modules before the first that a tree has imported; then each such one, with what it has imported.

    With each part come digits of what the tree had run before it.
    """
    parts, asked = [("", dict[str, str]())], rehearsed.asked.get(side, {})
    for name, file in rehearsed.modules[side].items():
        if name in asked:
            parts.append((asked[name], {}))
        parts[-1][1][name] = file
    return parts


def _own_folders(commands: Mapping[Side, Command]) -> list[str]:
    """Return the folders in which one side alone finds modules: of its tree, and where it is started."""
    found = {side: {*_path(one), *([] if one.safely else [str(one.directory)])} for side, one in commands.items()}
    return sorted(found["baseline"] ^ found["candidate"])


def _path(command: Command) -> list[str]:
    return [entry for entry in command.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _differing(commands: Mapping[Side, Command]) -> set[str]:
    """Return the variables of the environment by which both sides differ."""
    baseline, candidate = (commands[side].environment.items() for side in SIDES)
    return {name for name, _ in baseline ^ candidate}


def _differences(trace: PairTrace, before: PairTrace) -> Iterator[str]:
    """Yield what a forked pair has done otherwise than processes of their own in the rehearsal."""
    for here in trace.interleavings.keys() & before.interleavings.keys():
        # How many sides, and not which ones: that may follow the coin, which has to stay fair in the pairs that count.
        # One side alone may seem to do so by chance.
        if {len(one.interleavings[here].pools) for one in (before, trace)} == {0, len(SIDES)}:
            yield f"{here.test} uses other threads in a forked process"
    for here in trace.exact.keys() & before.exact.keys():
        known, found = ([list(one.exact[here][side]) for side in SIDES] for one in (before, trace))
        # Where two processes of one model differ by themselves, nothing follows from a third.
        if known[0] == known[1] and found != known:
            yield f"{here.test} has other answers in a forked process"
    for side, other in (SIDES, SIDES[::-1]):
        own, others = ({*before.files.get(one, ())} for one in (side, other))
        if leaked := sorted({*trace.files.get(side, ())} & (others - own)):
            yield f"the {side} has loaded {leaked[0]}, which only the {other} had loaded in the rehearsal"
    for side in SIDES if {*trace.selected}.issuperset(before.selected) else ():
        loaded, now = ({*filter(_is_code, one.files.get(side, ()))} for one in (before, trace))
        if missing := sorted(loaded - now):
            yield f"the {side} has not loaded {missing[0]}, as it had in the rehearsal"
        if new := sorted(now - loaded):
            yield f"the {side} has loaded {new[0]}, as it had not in the rehearsal"


def _is_code(file: str) -> bool:
    """Whether a file is code that is measured, or that this may use: neither of Python nor of this package."""
    path = Path(file)
    is_of_python = path.is_relative_to(_LIBRARY) and SITES.isdisjoint(path.parts)
    return not is_of_python and not is_of_this_package(file)


def _size(here: Measurement, trace: PairTrace) -> float:
    """Return how far apart both sides are in a pair, as a logarithm; 0 where it was not measured.

    Which side is the slower one does not count: a pair must not be dropped for its sign, which follows a coin.
    """
    found = trace.interleavings.get(here)
    of_median = (one for one in found.observations if (one.metric, one.statistic) == MEDIAN_LATENCY) if found else ()
    return next((abs(pair_value(one)) for one in of_median), 0.0)


def _has_other_times(here: Measurement, trace: PairTrace, before: PairTrace) -> bool:
    """Whether a forked pair and the rehearsal see another difference between the sides, beyond any noise."""
    if not (here in trace.interleavings and here in before.interleavings):
        return False
    return abs(_size(here, trace) - _size(here, before)) > _OTHER_TIMES
