"""The rehearsal of a build whose baseline is given what the candidate uses and git does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.checkout.sharing import Found, Used, missing_files, shareable, with_shared
from pytest_hwperf.checkout.trees import Trees, sharing
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.rehearsal import Rehearser
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import named
from pytest_hwperf.stats.pairs.hypotheses import collection_error

AUTO, NONE = "auto", "none"  # instead of a glob of --hwperf-share
_REPEATS = 3  # rehearsals at most after the first: a model may name further files
_AHEAD = 2  # times what a rehearsal took has to be left to repeat it


def globs_of(share: Sequence[str]) -> list[str]:
    """Return the globs among the values of --hwperf-share."""
    return [one for one in share if one not in (AUTO, NONE)]


@dataclass(slots=True, kw_only=True)
class Sharer:
    """Gives the baseline the files that it lacks, and tells which."""

    trees: Trees
    folders: Sequence[Path]  # of the candidate, to which paths in messages may be relative
    is_on: bool = True
    own_interpreter: bool = False  # whether the baseline has one, which may have the generated modules
    kept: dict[str, str] = field(default_factory=dict)  # file → why the baseline was not given it
    seconds: float = 0.0  # that repeated rehearsals took
    _early: list[str] = field(default_factory=list)  # given before a rehearsal
    _late: list[str] = field(default_factory=list)  # given after one

    def give_loaded(self, loaded: Sequence[str]) -> None:
        """Give what this process has loaded already, such as `_version.py`; other modules are built, or refused."""
        self._early += self._give(Used(loaded=loaded)).given

    def rehearse(self, rehearser: Rehearser, nodes: Sequence[str]) -> PairTrace:
        """Rehearse; where the baseline lacks files that it may be given, again with these.

        All tests are repeated: what each of them has read is not known, and one with a fall-back passes without.
        """
        for left in range(_REPEATS, -1, -1):
            before_s, trace, problem = rehearser.left_s, PairTrace(), None
            try:
                trace = rehearser.rehearse(nodes)
                used = self._used(trace, nodes)
            except UsageProblem as error:
                problem, used = error, Used(named=self._missing(str(error)), fails=True)
            took_s = before_s - rehearser.left_s
            self.seconds += took_s if left < _REPEATS else 0.0
            if not left or rehearser.left_s < _AHEAD * took_s or not self._more(used):
                break
            rehearser.forget()
        if problem is not None:
            raise problem
        self._name_missing(trace)
        return trace

    def notes(self) -> list[str]:
        """Say what was given, what that took, and what was not given and why."""
        how = [(self._early, "")]
        how.append((self._late, f"; found in the rehearsal, which was repeated in {self.seconds:.1f} s"))
        given = [
            f"the baseline was given {named(files)}, which git does not have{cost}; --hwperf-share=none gives it none"
            for files, cost in how
            if files
        ]
        kept = [
            f"{file} is not in the baseline and not given to it, since {why}: if both sides are to have the present "
            f"one, type {sharing([file])}"
            for file, why in self.kept.items()
        ]
        return [*given, *kept]

    def _more(self, used: Used) -> bool:
        found = self._give(used)
        self._late += found.given
        self.kept |= found.kept
        return bool(found.given)

    def _give(self, used: Used) -> Found:
        found = shareable(self.trees, used) if self.is_on else Found()
        if found.given:
            self.trees = with_shared(self.trees, found.given)
        return found

    def _used(self, trace: PairTrace, nodes: Sequence[str]) -> Used:
        """Return what the candidate has used, and what the baseline says that it misses."""
        failed = [why for node in nodes for why in _failures(trace, node)]
        is_own = self.own_interpreter and not failed
        return Used(
            loaded=() if is_own else trace.files.get("candidate", ()),
            opened=trace.opened.get("candidate", Opened()),
            named=[file for why in failed for file in self._missing(why)],
            fails=bool(failed),
        )

    def _missing(self, why: str) -> list[str]:
        return missing_files(why, self.trees, self.folders)

    def _name_missing(self, trace: PairTrace) -> None:
        """Say of what failed in the baseline which files it lacks, and what to type: git does not have them."""

        def told(why: str) -> str:
            files = self._missing(why)
            return (
                f"{why}; the baseline does not have it: share the present one with {sharing(files)}" if files else why
            )

        errors: Mapping[str, str] = trace.errors["baseline"]
        trace.errors["baseline"] = {place: told(why) for place, why in errors.items()}
        for sides in trace.outcomes.values():
            sides["baseline"] = replace(sides["baseline"], reason=told(sides["baseline"].reason))


def _failures(trace: PairTrace, node: str) -> list[str]:
    """Return why a test that passes in the candidate does not in the baseline."""
    ended = trace.outcomes.get(node, {})
    if node not in trace.collected["baseline"] and node in trace.collected["candidate"]:
        return [collection_error(node, trace.errors["baseline"])]
    sides = {side: one.outcome for side, one in ended.items()}
    if sides.get("candidate") == "passed" and sides.get("baseline") not in (None, "passed"):
        return [ended["baseline"].reason]
    return []
