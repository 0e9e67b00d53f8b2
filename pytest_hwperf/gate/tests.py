"""Comparison of two revisions of a test suite in pairs of fresh processes: rehearsed, measured, decided."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from pytest_hwperf.checkout.both import both_trees, commands, xfails_of
from pytest_hwperf.checkout.isolation import check_ignored, prove
from pytest_hwperf.checkout.layer import own_folders
from pytest_hwperf.checkout.revision import date_of
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate.affected import Search, Untouched, untouched_tests, watches_of
from pytest_hwperf.gate.conductor import Conductor, Progress
from pytest_hwperf.gate.explaining import REPEATS, Explainer, SideProfiler
from pytest_hwperf.gate.lockstep import PairTrace
from pytest_hwperf.gate.preparing import GateRequest, prepared, sharer_of
from pytest_hwperf.gate.processes import BothSides, ProcessSampler, answers_of, time_limit
from pytest_hwperf.gate.rehearsal import Rehearser, repeat_alarms
from pytest_hwperf.gate.result import GateResult
from pytest_hwperf.gate.schedule import GroupSchedule, clearest_first
from pytest_hwperf.gate.sharing import globs_of
from pytest_hwperf.gate.turns import processors
from pytest_hwperf.host.files import CACHE_VARIABLE
from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.workdirs import remove_tree, workdir
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, Explanation, Gate, Measurement, PairedProfiles, Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS
from pytest_hwperf.records.run import Key, replace
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.wording import reasons
from pytest_hwperf.stats.hypotheses import Questions, Reason, questions_of, seen_beside
from pytest_hwperf.stats.sequence import check_alpha, decide
from pytest_hwperf.stats.timetable import completeness, more_time, rounded_up, seconds_needed

_UNTOUCHED: Reason = ("equivalent", state("untouched"))
_KEPT = 0.2  # of the gate's time, at the most, for an explanation
_OWN = 0.1  # the same for what this session calls itself, which comes after the gate
_INTERRUPTED = state("interrupted")
_SHORT_S = 0.05  # what takes less is not listed
_SIDE_LETTERS = 4  # of both sides' names: paths of one length, on which the memory layout may depend


def run_gate(request: GateRequest) -> GateResult:
    """Make the baseline's tree, rehearse both sides, and run pairs until everything is decided or the time is up."""
    began = monotonic()
    until = began + request.time_s - request.built.seconds
    asked = (request.command.root, request.against, request.files, globs_of(request.share))
    request.progress(Progress(stage="checkout", pair=1, of=1, test=""))
    with interruptible(), both_trees(*asked, compares=request.affected) as made, workdir() as caches:
        sharer = sharer_of(request, made)
        request, ready = prepared(request, sharer, until)
        trees, own_python = sharer.trees, bool(request.base_python)
        conductor = Conductor(
            commands=_commands_of(request, trees, caches),
            logs=request.logs,
            at_once=request.parallel,
            processors=processors(),
            progress=request.progress,
            tell=request.tell,
            plant=request.plant,
            watches=watches_of(trees, own_interpreter=own_python),
            serial={test.node for test in request.tests if test.is_serial},
        )
        conductor.seconds |= {"checkout": monotonic() - began - sum(ready.seconds.values()), **ready.all_seconds}
        rehearser = Rehearser(
            conductor=conductor,
            name=request.name,
            alpha=request.alpha,
            time_s=request.time_s,
            until=until,
            silence_s=request.silence_s,
            afresh=partial(_clear, request, trees, caches),
        )
        trace = sharer.rehearse(rehearser, [test.node for test in request.tests])
        until -= own_calls_s(trace.wall_s, request.time_s)
        trees = sharer.trees
        if not own_python:
            check_ignored(trees, trace.files)
        untouched = _untouched(request, trees, conductor, trace, until)
        settled = dict.fromkeys(untouched.tests, _UNTOUCHED)
        questions = _questions(request, trace, {**rehearser.lost, **settled}, trees.warnings)
        unseen = prove(trees, trace.files, trace.opened, request.files, own_interpreter=own_python)
        nodes = [test.node for test in request.tests]
        xfails = xfails_of(trees, trace.files, trace.opened, request.files, nodes)
        trees = dataclasses.replace(trees, xfails=xfails)
        decided = _decided(request, conductor, partial(_commands_of, request, trees, caches), questions, trace, until)
    notes = (*trees.warnings, *ready.notes, *sharer.notes(), *unseen, rehearser.untold)
    return _result(request, decided, conductor, untouched, trees, (*notes, _why_all(untouched), rehearser.said))


def own_calls_s(rehearsed_s: float, time_s: float) -> float:
    """Return about how long this session's own calls and their report take: as long as one side's rehearsal."""
    return min(rehearsed_s / 2, _OWN * time_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """What the rehearsal asked, what pairs have answered, and what explains it."""

    trace: PairTrace
    questions: Questions
    evidence: Evidence
    profiles: tuple[PairedProfiles, ...]
    explanations: tuple[Explanation, ...]
    lost: Sequence[str]  # profiles, with the reason


def _decided(
    request: GateRequest,
    conductor: Conductor,
    commands: Callable[[str], Mapping[Side, Command]],
    questions: Questions,
    trace: PairTrace,
    until: float,
) -> _Decided:
    """Run pairs for what is asked, then profiles of what got slower."""
    with closing(conductor.share_imports(trace)):
        sides = BothSides.of(conductor, trace, commands, until)
        profiler = SideProfiler(
            sides=sides,
            asked=request.operators or request.explain == "always",
            repeats=1 if request.explain == "never" else REPEATS,
            progress=request.progress,
        )
        explainer = Explainer(sides=sides, wanted=request.explain, progress=request.progress)
        evidence = _measured(conductor, request, questions, explainer, trace)
        evidence, profiles, explanations = _explained(request, evidence, profiler, explainer, trace)
    if profiles or profiler.lost:
        conductor.seconds["operators"] = profiler.seconds
    if explainer.seconds >= _SHORT_S:
        conductor.seconds["explain"] = explainer.seconds
    return _Decided(
        trace=trace,
        questions=questions,
        evidence=evidence,
        profiles=tuple(profiles),
        explanations=tuple(explanations),
        lost=profiler.lost,
    )


def _result(
    request: GateRequest,
    found: _Decided,
    conductor: Conductor,
    untouched: Untouched,
    trees: Trees,
    notes: Sequence[str],
) -> GateResult:
    """Answer every question of the gate, or end it where none has an answer."""
    evidence, trace = found.evidence, found.trace
    met, profiled = {*trace.facts, *trace.uneven}, (found.profiles, found.explanations)
    answers = answers_of(evidence, found.questions, conductor.dropped, met, profiled)
    complete = completeness([test.node for test in request.tests], evidence, decide(evidence), untouched.tests)
    if complete.is_empty:
        if evidence.stopped == _INTERRUPTED:
            raise KeyboardInterrupt
        raise UsageProblem(_why_none(request, evidence, found.questions, conductor.seconds, trace.wall_s))
    said = (*notes, seen_beside(evidence, answers.comparisons), _planted(request.plant), *found.lost)
    gate = Gate(
        against=request.name,
        revision=trees.revision,
        revision_date=date_of(trees.candidate, trees.revision),
        seed=conductor.seed,
        evidence=evidence,
        shared=trees.shared,
        at_once=conductor.at_once,
        imports=conductor.imports,
        seconds={stage: round(seconds, 3) for stage, seconds in conductor.seconds.items()},
        profiles=found.profiles,
        explanations=found.explanations,
        warnings=tuple(filter(None, said)),
    )
    return GateResult(
        gate=gate,
        answers=answers,
        changed=trees.changed,
        xfails=trees.xfails,
        completeness=complete,
        gone=_gone(trace),
    )


def _explained(
    request: GateRequest, evidence: Evidence, profiler: SideProfiler, explainer: Explainer, trace: PairTrace
) -> tuple[Evidence, Sequence[PairedProfiles], Sequence[Explanation]]:
    """Say what moved, unless the pairs were interrupted; where this is, what they have decided stays."""
    profiles, explanations = list[PairedProfiles](), list[Explanation]()
    if evidence.stopped == _INTERRUPTED:
        return evidence, profiles, explanations
    try:
        profiles += profiler.profiles(evidence, trace.facts) if request.operators or request.explain != "never" else []
        explanations += explainer.explanations(evidence, profiles)
    except KeyboardInterrupt:
        evidence = replace(evidence, stopped=_INTERRUPTED)
    return evidence, profiles, explanations


def _commands_of(request: GateRequest, trees: Trees, caches: Path, node: str = "") -> dict[Side, Command]:
    """Return how both sides are started: for all tests, or for the file of one.

    Each has a cache of converted models for itself: a model comes from the converters of its own tree. So it has its
    own temporary folder, in which a fixture may write to a fixed name.
    """
    file = request.command.root / node.partition("::")[0]
    return _commands_for(request, trees, caches, [one for one in request.files if not node or one == file])


def _clear(request: GateRequest, trees: Trees, caches: Path) -> None:
    """Forget what both sides have kept while the baseline lacked files."""
    for side in caches.iterdir():
        remove_tree(side)
    _commands_of(request, trees, caches)  # which makes the folders anew


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
            return conductor.rehearse(nodes, until, as_in_pairs=partial(_asked, request))

    root, whole = request.command.root, conductor.commands
    search = Search(trees=trees, root=root, files=request.files, again=again, own_interpreter=bool(request.base_python))
    try:
        return untouched_tests(search, trace)
    finally:
        conductor.commands, conductor.watches = whole, {}


def _asked(request: GateRequest, measurement: Measurement) -> Sequence[Key]:
    """Return what pairs may ask of a measurement: how many calls they make depends on it."""
    (test,) = (one for one in request.tests if one.node == measurement.test)
    windows = test.metrics if request.energy else frozenset[str]()
    keys = [margin.key for margin in test.margins if METRICS[margin.metric].in_turns]
    return [key for key in keys if METRICS[key[0]].in_turns != "window" or key[0] in windows] or [MEDIAN_LATENCY]


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
    stopped = evidence.stopped
    if stopped is None:
        causes = [str(why) for _, why in (*questions.tests.values(), *questions.parts.values())]
        return f"nothing could be compared with {request.name}: {reasons(causes)}"
    if stopped.kind != "out of time":
        return f"none of {tests} was decided: {stopped}"
    more = more_time(request.time_s, seconds_needed(evidence, seconds, rehearsed_s))
    return f"none of {tests} was decided: {stopped}, and {more}"


def _gone(trace: PairTrace) -> frozenset[Measurement]:
    """Return what the baseline measures and the candidate does not: of tests that it skips, and single measurements."""
    skipped = {
        Measurement(test=node, label="")
        for node, sides in trace.outcomes.items()
        if sides["baseline"].outcome == "passed" and sides["candidate"].outcome == "skipped"
    }
    return frozenset(skipped | {measurement for measurement, side in trace.uneven.items() if side == "baseline"})


def _measured(
    conductor: Conductor, request: GateRequest, questions: Questions, explainer: Explainer, trace: PairTrace
) -> Evidence:
    """Repeat alarms of the rehearsal, ask fresh processes one by one, then pairs, for as long as there is time."""
    sides, until, late = explainer.sides, explainer.sides.until, state("out of time", limit=request.time_s)
    again = partial(conductor.rehearse, until=until)
    repeat_alarms(questions, request.alpha, again, in_time=lambda: monotonic() < until, why_late=late)
    limit = time_limit(questions, until, late)
    if questions.processes:
        request.say(limit.said)
    sampler = ProcessSampler(
        sides.commands, conductor.random, limit.until, limit.why_late, request.progress, conductor.serial
    )
    samples = (*questions.fixed_samples, *sampler.samples(questions, request.alpha))
    if sampler.seconds:
        conductor.seconds["processes"] = sampler.seconds
    asked = Evidence(
        alpha=request.alpha,
        hypotheses=tuple(clearest_first(questions.hypotheses, trace)),
        pairs=(),
        fixed_samples=samples,
        until_equivalent=request.prove_equal,
    )
    explain_s = min(explainer.about_s(trace.start_s or 0.0), _KEPT * request.time_s)  # never most of a short gate
    if asked.hypotheses:
        _plan(conductor, request, asked, trace, until, explain_s)
    try:
        return conducted(conductor.conduct, asked, until, late, kept_s=explain_s)
    except KeyboardInterrupt:
        return replace(conductor.so_far or asked, stopped=_INTERRUPTED)


def _plan(
    conductor: Conductor, request: GateRequest, asked: Evidence, trace: PairTrace, until: float, explain_s: float
) -> None:
    """Plan the pairs and say how long they take; the imports that they share are made for the first of them."""
    spared_s = _shared(conductor, until)
    conductor.schedule = schedule = GroupSchedule(
        asked.hypotheses,
        trace,
        request.alpha,
        conductor.plan,
        max(0.0, until - monotonic()),
        at_once=conductor.at_once,
        spared_s=spared_s,
    )
    explain = f"explaining a regression takes about {rounded_up(explain_s)} s more" if explain_s else ""
    request.say("; ".join(filter(None, [schedule.said, explain])))


def _shared(conductor: Conductor, until: float) -> float:
    """Let the parent of the first pair import; return by how many seconds that shortens the start of later pairs."""
    shared, began = conductor.shared, monotonic()
    if shared is None:
        return 0.0
    shared.try_out(max(0.0, until - began))
    conductor.seconds["imports"] = monotonic() - began
    return shared.import_s * shared.ahead


def conducted(
    conduct: Callable[[Evidence, float, Statement], Evidence],
    asked: Evidence,
    until: float,
    late: Statement,
    *,
    kept_s: float,
) -> Evidence:
    """Run pairs until all is decided; where something has regressed, `kept_s` at the end are left to explain it."""
    evidence = conduct(asked, until - kept_s, late)
    if evidence.stopped != late or any(one.outcome == "regressed" for one in decide(evidence).values()):
        return evidence
    return conduct(replace(evidence, stopped=None), until, late)


def _why_all(untouched: Untouched) -> str:
    """Say why no test was left out, where that was asked for."""
    why = untouched.why_none or ("" if untouched.tests else reasons(untouched.affected.values()))
    return f"--hwperf-affected leaves no test out: {why}" if why else ""


def _planted(share: float) -> str:
    return f"{100 * share:g} % of work was added to each call of the present code (--hwperf-plant)" if share else ""
