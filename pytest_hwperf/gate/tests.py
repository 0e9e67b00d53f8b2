"""Comparison of two revisions of a test suite in pairs of fresh processes: rehearsed, measured, decided."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

from pytest_hwperf.core.completeness import Completeness, completeness, more_time, seconds_needed
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Evidence, Gate, Measurement, Side
from pytest_hwperf.core.hypotheses import (
    COMMIT_DIGITS,
    EnergySource,
    MeasuredTest,
    PairedAnswers,
    Questions,
    Reason,
    questions_of,
)
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.sequence import check_alpha, decide
from pytest_hwperf.core.statements import reasons, state
from pytest_hwperf.core.units import counted
from pytest_hwperf.gate.affected import Search, Untouched, untouched_tests, watches_of
from pytest_hwperf.gate.answers import answers_of
from pytest_hwperf.gate.environments import BaseEnvironment, Policy, environment_built, environment_with
from pytest_hwperf.gate.explaining import REPEATS, Explain, Explainer
from pytest_hwperf.gate.processes import ProcessSampler
from pytest_hwperf.gate.profiles import SideProfiler
from pytest_hwperf.gate.rehearsal import Rehearser
from pytest_hwperf.gate.repeats import repeat_alarms
from pytest_hwperf.gate.schedule import GroupSchedule
from pytest_hwperf.gate.side_by_side import Machine, pairs_at_once
from pytest_hwperf.host.command_line import Command, PytestCommand
from pytest_hwperf.host.files import CACHE_VARIABLE
from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.pairs.conductor import Conductor, Progress
from pytest_hwperf.pairs.cpu_pin import processors
from pytest_hwperf.pairs.lockstep import PairTrace
from pytest_hwperf.trees.both import Trees, both_trees, commands, prove
from pytest_hwperf.trees.ignored import check_ignored, missing_files, sharing
from pytest_hwperf.trees.interpreter import Interpreter, with_plugins
from pytest_hwperf.trees.isolation import loaded_files
from pytest_hwperf.trees.own_folders import own_folders

_UNTOUCHED: Reason = ("equivalent", state("untouched"))
_SHORT_S = 0.05  # what takes less is not listed
_SIDE_LETTERS = 4  # of both sides' names: paths of one length, on which the memory layout may depend


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What is compared with what, and how."""

    tests: Sequence[MeasuredTest]
    files: Sequence[Path]  # of these tests
    command: PytestCommand  # as this user started pytest
    against: Path | str  # a folder, or a git revision
    name: str  # of the baseline, as it is shown
    alpha: float  # false-alarm rate of the build
    time_s: float  # for all of it; what runs then is cut off
    logs: Path  # the logs of lost pairs are kept here
    energy: EnergySource | None = None  # by which energy can be compared
    share: Sequence[str] = ()  # globs of files that the baseline is given
    base_python: Interpreter | None = None  # of the baseline, None for this one
    base_env: Policy = "auto"  # whether its project is built in an environment of its own
    base_with: Sequence[str] = ()  # requirements of packages that the baseline alone is given
    parallel: int | None = None  # pairs side by side; None: as many as pays
    plant: float = 0.0  # share of work that is added to the candidate's calls, to see it found
    explain: Explain = "auto"  # whether regressions are explained, or every comparison, or none
    affected: bool = False  # whether tests are left out that nothing reaches of what differs
    operators: bool = False  # whether both sides' operators are asked for, and not of regressions alone
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)  # one line that stays


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What the pairs found."""

    gate: Gate
    answers: PairedAnswers
    changed: frozenset[Path]  # test files whose own work the pairs cannot compare
    completeness: Completeness
    gone: frozenset[Measurement]  # that only the baseline makes; of a test that is skipped now without a label

    def is_blind_to(self, path: Path) -> bool:
        """Whether a test of this file, or what its conftest files give it, may have changed unseen."""
        return path in self.changed or any(folder / "conftest.py" in self.changed for folder in path.parents)


def run_gate(request: GateRequest) -> GateResult:
    """Make the baseline's tree, rehearse both sides, and run pairs until everything is decided or the time is up.

    Raises:
        UsageProblem: no such revision, or nothing that could be compared.
        WorkerError: a side has run the code of the other, or cannot be started.
        OSError: a folder or a file cannot be written.
    """
    began = monotonic()
    until = began + request.time_s
    asked = (request.command.root, request.against, request.files, request.share)
    request.progress(Progress(stage="checkout", pair=1, of=1, test=""))
    with interruptible(), both_trees(*asked, compares=request.affected) as trees, workdir() as caches:
        request, made = _with_interpreter(request, trees, until)
        conductor = Conductor(
            commands=_commands_of(request, trees, caches),
            logs=request.logs,
            processors=processors(),
            progress=request.progress,
            plant=request.plant,
            watches=watches_of(trees, own_interpreter=bool(request.base_python)),
        )
        conductor.seconds["checkout"] = monotonic() - began - (made.seconds if made else 0.0)
        if made:
            conductor.seconds["environment"] = made.seconds
        rehearser = Rehearser(
            conductor=conductor, name=request.name, alpha=request.alpha, time_s=request.time_s, until=until
        )
        trace = rehearser.rehearse([test.node for test in request.tests])
        if not request.base_python:
            check_ignored(trees.candidate, trees.baseline, trace.files)
        _name_missing(trace, trees, request.command)
        untouched = _untouched(request, trees, conductor, trace, until)
        settled = dict.fromkeys(untouched.tests, _UNTOUCHED)
        questions = _questions(request, trace, {**rehearser.lost, **settled}, trees.warnings)
        own_python = bool(request.base_python)
        unseen = prove(trees, trace, request.files, own_interpreter=own_python)
        of_test = partial(_commands_of, request, trees, caches)
        profiler = SideProfiler(
            commands=of_test,
            until=until,
            asked=request.operators or request.explain == "always",
            repeats=1 if request.explain == "never" else REPEATS,
            progress=request.progress,
        )
        explainer = Explainer(commands=of_test, until=until, wanted=request.explain, progress=request.progress)
        evidence = _measured(conductor, request, questions, profiler, trace)
        profiles = profiler.profiles(evidence, trace.facts) if request.operators or request.explain != "never" else []
        explanations = explainer.explanations(evidence, profiles)
        if profiles or profiler.lost:
            conductor.seconds["operators"] = profiler.seconds
        if explainer.seconds >= _SHORT_S:
            conductor.seconds["explain"] = explainer.seconds
    met = {*trace.facts, *trace.uneven}
    answers = answers_of(evidence, questions, conductor.dropped, met, (profiles, explanations))
    complete = completeness([test.node for test in request.tests], evidence, decide(evidence), untouched.tests)
    if complete.is_empty:
        raise UsageProblem(_why_none(request, evidence, questions, conductor.seconds, trace.wall_s))
    gate = Gate(
        against=request.name,
        revision=trees.revision,
        seed=conductor.seed,
        evidence=evidence,
        shared=trees.shared,
        at_once=conductor.at_once,
        seconds={stage: round(seconds, 3) for stage, seconds in conductor.seconds.items()},
        profiles=tuple(profiles),
        explanations=tuple(explanations),
        warnings=(
            *trees.warnings,
            *(made.notes if made else ()),
            *unseen,
            *filter(None, [_why_all(untouched), _planted(request.plant)]),
            *profiler.lost,
        ),
    )
    return GateResult(gate=gate, answers=answers, changed=trees.changed, completeness=complete, gone=_gone(trace))


def summary(result: GateResult, tests: int) -> str:
    """Say in one line what was rerun, how often and how long, and how many of `tests` could be compared."""
    gate, complete = result.gate, result.completeness
    counts = {stage: sum(pair.stage == stage for pair in gate.evidence.pairs) for stage in ("screen", "confirm")}
    pairs = " + ".join(f"{count} {stage}" for stage, count in counts.items() if count) or "no"
    noun = "pair" if sum(counts.values()) == 1 else "pairs"
    short = gate.revision[:COMMIT_DIGITS]
    revision = f" ({short})" if short and short not in gate.against else ""
    spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in gate.seconds.items())
    noun += f" ({gate.at_once} side by side)" if gate.at_once > 1 else ""
    decided = f" ({complete.shortfall})" if complete.shortfall else ""
    left_out = f", {len(complete.untouched)} left out since {state('untouched')}" if complete.untouched else ""
    return (
        f"{gate.against}{revision} rerun next to the present code, {pairs} {noun} of fresh processes, "
        f"{len(complete.compared)} of {tests} tests compared{decided}{left_out}: {spent}"
    )


def _commands_of(request: GateRequest, trees: Trees, caches: Path, node: str = "") -> dict[Side, Command]:
    """Return how both sides are started: for all tests, or for the file of one.

    Each has a cache of converted models for itself: a model comes from the converters of its own tree. So it has its
    own temporary folder, in which a fixture may write to a fixed name.
    """
    file = request.command.root / node.partition("::")[0]
    return _commands_for(request, trees, caches, [one for one in request.files if not node or one == file])


def _commands_for(request: GateRequest, trees: Trees, caches: Path, files: Sequence[Path]) -> dict[Side, Command]:
    """Return how both sides are started for some files."""
    found = dict[Side, Command]()
    for side, command in commands(request.command, trees, files, request.base_python).items():
        place = caches / side[:_SIDE_LETTERS]
        own = {**own_folders(place, command.environment), CACHE_VARIABLE: str(place / "models")}
        found[side] = dataclasses.replace(command, environment={**command.environment, **own})
    return found


def _untouched(request: GateRequest, trees: Trees, conductor: Conductor, trace: PairTrace, until: float) -> Untouched:
    """Return the tests that nothing reaches of what differs, where they were asked for."""
    if not request.affected:
        return Untouched()

    def again(nodes: Sequence[str], trees: Trees) -> PairTrace:
        named = {request.command.root / node.partition("::")[0] for node in nodes}
        files = [file for file in request.files if file in named]
        with workdir() as fresh:  # what tests before have kept was made by whatever they have run
            conductor.commands = _commands_for(request, trees, fresh, files)
            conductor.watches = watches_of(trees, own_interpreter=False)
            return conductor.rehearse(nodes, until)

    root, whole = request.command.root, conductor.commands
    search = Search(trees=trees, root=root, files=request.files, again=again, own_interpreter=bool(request.base_python))
    try:
        return untouched_tests(search, trace, is_first=conductor.seconds["rehearsal"] == trace.wall_s)
    finally:
        conductor.commands, conductor.watches = whole, {}


def _name_missing(trace: PairTrace, trees: Trees, command: PytestCommand) -> None:
    """Say of what failed in the baseline which files it lacks, and what to type: git does not have them."""
    folders = (command.directory, command.root)

    def named(why: str) -> str:
        files = missing_files(why, trees.candidate, trees.baseline, folders)
        return f"{why}; the baseline does not have it: share the present one with {sharing(files)}" if files else why

    trace.errors["baseline"] = {place: named(why) for place, why in trace.errors["baseline"].items()}
    for sides in trace.outcomes.values():
        sides["baseline"] = replace(sides["baseline"], reason=named(sides["baseline"].reason))


def _questions(
    request: GateRequest, trace: PairTrace, lost: Mapping[str, Reason], warnings: Sequence[str]
) -> Questions:
    """Return what the rehearsal leaves to be asked of the pairs, which has to be something they can answer."""
    questions = questions_of(request.tests, trace, lost, request.name, request.energy)
    is_settled = any(why == _UNTOUCHED for why in questions.tests.values())
    if not (questions.hypotheses or questions.fixed_samples or questions.processes or is_settled):
        causes = [str(why) for _, why in (*questions.tests.values(), *questions.parts.values())]
        why = reasons(causes) or "no test has measured anything in the processes of the pairs"
        lacking = "no baseline" in (outcome for outcome, _ in (*questions.tests.values(), *questions.parts.values()))
        hint = ["files that git does not have are given to the baseline with --hwperf-share=GLOB"] if lacking else []
        raise UsageProblem("; ".join([f"nothing could be compared with {request.name}: {why}", *warnings, *hint]))
    check_alpha(request.alpha, questions.family)
    return questions


def _why_none(
    request: GateRequest, evidence: Evidence, questions: Questions, seconds: Mapping[str, float], rehearsed_s: float
) -> str:
    """Say why no test at all was decided, and what to type."""
    tests = counted(len(request.tests), "test")
    if evidence.stopped is None:
        causes = [str(why) for _, why in (*questions.tests.values(), *questions.parts.values())]
        return f"nothing could be compared with {request.name}: {reasons(causes)}"
    if evidence.stopped.kind != "out of time":
        return f"none of {tests} was decided: {evidence.stopped}"
    more = more_time(request.time_s, seconds_needed(evidence, seconds, rehearsed_s))
    apart = [str(why) for _, why in questions.tests.values() if why is not None and why.kind == "not at once"]
    return f"none of {tests} was decided: {evidence.stopped}, and {more}{'; ' if apart else ''}{reasons(apart)}"


def _gone(trace: PairTrace) -> frozenset[Measurement]:
    """Return what the baseline measures and the candidate does not: of tests that it skips, and single measurements."""
    skipped = {
        Measurement(test=node, label="")
        for node, sides in trace.outcomes.items()
        if sides["baseline"].outcome == "passed" and sides["candidate"].outcome == "skipped"
    }
    return frozenset(skipped | {measurement for measurement, side in trace.uneven.items() if side == "baseline"})


def _with_interpreter(request: GateRequest, trees: Trees, until: float) -> tuple[GateRequest, BaseEnvironment | None]:
    """Give this interpreter's plugins to that of the baseline; of one that both share, check what it has loaded."""
    made = None
    if request.base_with:
        made = environment_with(request.base_with, trees.candidate, until)
    elif not request.base_python:
        made = environment_built(trees, request.base_env, until, loaded_files())
    given = Interpreter(path=str(made.python)) if made else request.base_python
    if given:
        return dataclasses.replace(request, base_python=with_plugins(given, until - monotonic())), made
    check_ignored(trees.candidate, trees.baseline, {"candidate": loaded_files()})
    return request, None


def _measured(
    conductor: Conductor, request: GateRequest, questions: Questions, sides: SideProfiler, trace: PairTrace
) -> Evidence:
    """Repeat alarms of the rehearsal, ask fresh processes one by one, then pairs, for as long as there is time."""
    until, late = sides.until, state("out of time", limit=request.time_s)
    again = partial(conductor.rehearse, until=until)
    repeat_alarms(questions, request.alpha, again, in_time=lambda: monotonic() < until, why_late=late)
    sampler = ProcessSampler(sides.commands, conductor.random, until, late, request.progress)
    samples = (*questions.fixed_samples, *sampler.samples(questions, request.alpha))
    if sampler.seconds:
        conductor.seconds["processes"] = sampler.seconds
    asked = Evidence(alpha=request.alpha, hypotheses=tuple(questions.hypotheses), pairs=(), fixed_samples=samples)
    if asked.hypotheses:
        left_s = max(0.0, until - monotonic())
        conductor.at_once, why = pairs_at_once(
            request.parallel, trace, asked.hypotheses, Machine(processors=conductor.processors)
        )
        conductor.schedule = schedule = GroupSchedule(
            asked.hypotheses, trace, request.alpha, conductor.plan, left_s, at_once=conductor.at_once
        )
        asked = replace(asked, screen_pairs=schedule.screening.pairs)
        request.say(f"{schedule.said}; one pair at a time, since {why}" if why else schedule.said)
    return conductor.conduct(asked, until, late)


def _why_all(untouched: Untouched) -> str:
    """Say why no test was left out, where that was asked for."""
    why = untouched.why_none or ("" if untouched.tests else reasons(untouched.affected.values()))
    return f"--hwperf-affected leaves no test out: {why}" if why else ""


def _planted(share: float) -> str:
    return f"{100 * share:g} % of work was added to each call of the present code (--hwperf-plant)" if share else ""
