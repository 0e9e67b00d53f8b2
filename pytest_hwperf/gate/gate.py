"""The road of a gate, from the request to its result: each stage fills what later ones need, and none is left twice.

The one way back is the rehearsal. Where it finds files that git lacks, or an install that says the same on both sides
and should not, the baseline is given its own, and both are rehearsed again.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from time import monotonic

from pytest_hwperf.checkout.both import both_trees, with_ini, xfails_of
from pytest_hwperf.checkout.ignored import check_ignored
from pytest_hwperf.checkout.isolation import prove
from pytest_hwperf.checkout.revision import date_of
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate.affected import Untouched, untouched_tests, watches_of
from pytest_hwperf.gate.bearing import Bearing, calls_of, is_loss_of_candidate, lost_by_candidate
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.explaining import Explainer
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.preparing import GateRequest, GateRun, part_installs, prepare
from pytest_hwperf.gate.processes import BothSides, ProcessSampler, answers_of, time_limit
from pytest_hwperf.gate.rehearsal import Rehearser, repeat_alarms
from pytest_hwperf.gate.result import GateResult, Progress
from pytest_hwperf.gate.schedule import GroupSchedule, clearest_first
from pytest_hwperf.gate.sharing import NONE, Sharer, globs_of
from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, FixedSample, Gate, Measurement
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS
from pytest_hwperf.records.run import Key, replace
from pytest_hwperf.records.units import counted, reasons
from pytest_hwperf.stats.pairs.hypotheses import (
    MeasuredTest,
    Questions,
    Reason,
    other_parameters,
    questions_of,
    seen_beside,
    unseeded_sizes,
)
from pytest_hwperf.stats.pairs.sequence import check_alpha, decide
from pytest_hwperf.stats.pairs.timetable import completeness, more_time

_UNTOUCHED: Reason = ("equivalent", state("untouched"))
_KEPT = 0.2  # of the gate's time, at the most, for an explanation
_OWN = 0.1  # the same for what this session calls itself, which comes after the gate
_INTERRUPTED = state("interrupted")
_SHARE = 0.5  # of the time that is left, at the most, for tests in which the candidate alone fails
_SHORT_S = 0.05  # what takes less is not listed


def run_gate(request: GateRequest) -> GateResult:
    """Compare both revisions in pairs of fresh processes, until everything is decided or the time is up."""
    with interruptible(), ExitStack() as stack:
        gate = GateRun(asked=request, stack=stack, until=monotonic() + request.time_s - request.built.seconds)
        for stage in (resolve, prepare, rehearse, plan, conduct, explain):
            stage(gate)
    return result(gate)


def resolve(gate: GateRun) -> None:
    """Make the baseline's tree."""
    asked = gate.asked
    asked.progress(Progress(stage="checkout", pair=1, of=1, test=""))
    given = (asked.command.root, asked.against, asked.files, globs_of(asked.share))
    trees = with_ini(gate.stack.enter_context(both_trees(*given, compares=asked.affected)), asked.command.inipath)
    trees = dataclasses.replace(
        trees, since=asked.command.since
    )  # what this session has made while it collected counts too
    gate.caches = gate.stack.enter_context(workdir())
    folders = (asked.command.directory, asked.command.root)
    gate.sharer = Sharer(
        trees=trees, folders=folders, is_on=NONE not in asked.share, own_interpreter=bool(asked.base_python)
    )


def rehearse(gate: GateRun) -> None:
    """Let both sides go through all tests, and prove that each has run its own code."""
    asked, nodes = gate.asked, [test.node for test in gate.asked.tests]
    gate.rehearser = Rehearser(
        conductor=gate.conductor,
        name=asked.name,
        alpha=asked.alpha,
        time_s=asked.time_s,
        until=gate.until,
        silence_s=asked.silence_s,
        afresh=gate.forget_caches,
    )
    trace = gate.trace = gate.sharer.rehearse(gate.rehearser, nodes)
    if part_installs(gate):
        trace = gate.trace = gate.sharer.rehearse(gate.rehearser, nodes)
    gate.until -= own_calls_s(trace.wall_s, asked.time_s)
    if not gate.base_python:
        check_ignored(gate.trees, trace.files)
    if asked.affected:
        gate.untouched = _untouched(gate)
    gate.questions = _questions(gate)
    own, used = bool(gate.base_python), (trace.files, gate.rehearser.used, asked.files)
    try:
        gate.unseen = prove(gate.trees, *used, own_interpreter=own)
    except UsageProblem as error:  # a file whose maker is unknown may be of a process that could not tell
        raise UsageProblem("; ".join(filter(None, [str(error), gate.rehearser.untold]))) from error
    gate.xfails = xfails_of(gate.trees, *used, nodes)


def _untouched(gate: GateRun) -> Untouched:
    """Return the tests that nothing reaches of what differs."""
    asked, conductor, whole = gate.asked, gate.conductor, gate.conductor.commands
    taken = {test.node: _asked(test, energy=asked.energy is not None) for test in asked.tests}

    def again(nodes: Sequence[str], trees: Trees) -> PairTrace:
        with workdir() as fresh:  # what tests before have kept was made by whatever they have run
            conductor.commands = gate.commands(*nodes, caches=fresh)
            conductor.watches = watches_of(trees, own_interpreter=False)
            return gate.rehearser.noted(conductor.rehearse(nodes, gate.until, as_in_pairs=taken))

    tests, own = (asked.command.root, asked.files), bool(gate.base_python)
    try:
        return untouched_tests(gate.trees, tests, gate.trace, again, own_interpreter=own)
    finally:
        conductor.commands, conductor.watches = whole, {}


def _asked(test: MeasuredTest, *, energy: bool) -> Sequence[Key]:
    """Return what pairs may ask of a test: how many calls they make depends on it."""
    windows = test.metrics if energy else frozenset[str]()
    keys = [margin.key for margin in test.margins if METRICS[margin.metric].in_turns]
    return [key for key in keys if METRICS[key[0]].in_turns != "window" or key[0] in windows] or [MEDIAN_LATENCY]


def own_calls_s(rehearsed_s: float, time_s: float) -> float:
    """Return about how long this session's own calls and their report take: as long as one side's rehearsal."""
    return min(rehearsed_s / 2, _OWN * time_s)


def _questions(gate: GateRun) -> Questions:
    """Return what the rehearsal leaves to be asked of the pairs, which has to be something they can answer."""
    asked, lost = gate.asked, {**gate.rehearser.lost, **dict.fromkeys(gate.untouched.tests, _UNTOUCHED)}
    questions = questions_of(asked.tests, gate.trace, lost, asked.name, asked.energy)
    questions.fixed_samples += _failing(gate, lost_by_candidate(questions, gate.trace), questions.family)
    is_settled = any(why == _UNTOUCHED for why in questions.tests.values())
    if not (questions.hypotheses or questions.fixed_samples or questions.processes or is_settled):
        found = (*questions.tests.values(), *questions.parts.values())
        why = reasons([str(why) for _, why in found]) or "no test has measured anything in the processes of the pairs"
        lacking = "no baseline" in (outcome for outcome, _ in found)
        hint = ["files that git does not have are given to the baseline with --hwperf-share=GLOB"] if lacking else []
        said = [f"nothing could be compared with {asked.name}: {why}", *gate.trees.warnings, *hint]
        raise UsageProblem("; ".join(said))
    check_alpha(asked.alpha, questions.family)
    return questions


def _failing(gate: GateRun, suspects: Mapping[str, int], family: int) -> list[FixedSample]:
    """Return samples of the suspects that only the candidate fails in; half of the time is left for the others."""
    conductor, until = gate.conductor, gate.until - _SHARE * max(0.0, gate.until - monotonic())
    bearing = Bearing(
        bear=partial(conductor.bear, rehearsed=gate.trace, until=until),
        random=conductor.random,
        in_time=lambda: monotonic() < until,
        progress=gate.asked.progress,
    )
    return list(bearing.samples(suspects, family, gate.asked.alpha))


def plan(gate: GateRun) -> None:
    """Share imports between the sides of later pairs, repeat alarms, and ask fresh processes one by one.

    What is left are the pairs: the imports that they share are made for the first, which shows how long all take.
    """
    asked, conductor, trace, questions = gate.asked, gate.conductor, gate.trace, gate.questions
    shared = gate.stack.enter_context(closing(conductor.share_imports(trace)))
    gate.sides = BothSides.of(conductor, trace, gate.commands, gate.until)
    gate.explainer = Explainer(
        sides=gate.sides, wanted=asked.explain, operators=asked.operators, progress=asked.progress
    )
    again = partial(conductor.rehearse, until=gate.until)
    repeat_alarms(questions, asked.alpha, again, in_time=lambda: monotonic() < gate.until, why_late=gate.why_late)
    samples = (*questions.fixed_samples, *_of_processes(gate))
    gate.evidence = Evidence(
        alpha=asked.alpha,
        hypotheses=tuple(clearest_first(questions.hypotheses, trace)),
        pairs=(),
        fixed_samples=samples,
        until_equivalent=asked.prove_equal,
    )
    gate.explain_s = min(gate.explainer.about_s(trace.start_s or 0.0), _KEPT * asked.time_s)  # never most of it
    if not questions.hypotheses:
        return
    began = monotonic()
    shared.try_out(max(0.0, gate.until - began))
    conductor.seconds["imports"] = monotonic() - began
    conductor.schedule = GroupSchedule(
        gate.evidence.hypotheses,
        trace,
        asked.alpha,
        conductor.plan,
        max(0.0, gate.until - monotonic()),
        at_once=conductor.at_once,
        spared_s=shared.import_s * shared.ahead,
        explain_s=gate.explain_s,
    )
    gate.evidence = replace(gate.evidence, suspects=conductor.schedule.clear)


def _of_processes(gate: GateRun) -> Sequence[FixedSample]:
    """Ask fresh processes for memory and cold starts."""
    asked, conductor, questions = gate.asked, gate.conductor, gate.questions
    until, why_late, about = time_limit(questions, gate.until, gate.why_late)
    if questions.processes:
        asked.say(about)
    sampler = ProcessSampler(gate.commands, conductor.random, until, why_late, asked.progress, conductor.serial)
    samples = list(sampler.samples(questions, asked.alpha))
    if sampler.seconds:
        conductor.seconds["processes"] = sampler.seconds
    return samples


def conduct(gate: GateRun) -> None:
    """Run pairs for as long as there is time; what they have decided when they are interrupted stays."""
    try:
        gate.evidence = conducted(gate.conductor, gate.evidence, gate.until, gate.why_late, kept_s=gate.explain_s)
    except KeyboardInterrupt:
        gate.evidence = replace(gate.conductor.so_far or gate.evidence, stopped=_INTERRUPTED)
    else:
        dropped = ((one.measurement.test, why) for one, why in gate.conductor.dropped.items())
        suspects = {test: calls_of(why) for test, why in dropped if is_loss_of_candidate(why)}
        if suspects:
            found = _failing(gate, suspects, gate.questions.family)
            gate.evidence = replace(gate.evidence, fixed_samples=(*gate.evidence.fixed_samples, *found))


def conducted(conductor: Conductor, asked: Evidence, until: float, why_late: Statement, *, kept_s: float) -> Evidence:
    """Run pairs until all is decided; where something has regressed, `kept_s` at the end are left to explain it."""
    evidence = conductor.conduct(asked, until - kept_s, why_late)
    if evidence.stopped != why_late or any(one.outcome == "regressed" for one in decide(evidence).values()):
        return evidence
    return conductor.conduct(replace(evidence, stopped=None), until, why_late)


def explain(gate: GateRun) -> None:
    """Say what moved, unless the pairs were interrupted."""
    if gate.evidence.stopped == _INTERRUPTED:
        return
    explainer, seconds = gate.explainer, gate.conductor.seconds
    try:
        gate.profiles += explainer.profiles(gate.evidence, gate.trace.facts)
        gate.explanations += explainer.explanations(gate.evidence, gate.profiles)
    except KeyboardInterrupt:
        gate.evidence = replace(gate.evidence, stopped=_INTERRUPTED)
    if gate.profiles or explainer.lost:
        seconds["operators"] = explainer.profiling_s
    if explainer.seconds >= _SHORT_S:
        seconds["explain"] = explainer.seconds


def result(gate: GateRun) -> GateResult:
    """Answer every question of the gate, or end it where none has an answer."""
    asked, conductor, trace, evidence = gate.asked, gate.conductor, gate.trace, gate.evidence
    met, found = {*trace.facts, *trace.uneven}, (gate.profiles, gate.explanations)
    answers = answers_of(evidence, gate.questions, conductor.dropped, met, found)
    complete = completeness([test.node for test in asked.tests], evidence, decide(evidence), gate.untouched.tests)
    if complete.is_empty:
        if evidence.stopped == _INTERRUPTED:
            raise KeyboardInterrupt
        raise UsageProblem(_why_none(gate))
    planted = f"{100 * asked.plant:g} % of work was added to each call of the present code (--hwperf-plant)"
    warnings = [
        *gate.trees.warnings,
        *gate.notes,
        *gate.sharer.notes(),
        *gate.unseen,
        gate.rehearser.untold,
        gate.untouched.said if asked.affected else "",
        gate.rehearser.said,
        other_parameters(trace, {str(gate.trees.baseline): str(gate.trees.candidate)}),
        unseeded_sizes([trace.facts, *conductor.met]),
        seen_beside(evidence, answers.comparisons),
        planted if asked.plant else "",
        *gate.explainer.lost,
    ]
    record = Gate(
        against=asked.name,
        revision=gate.trees.revision,
        revision_date=date_of(gate.trees.candidate, gate.trees.revision),
        seed=conductor.seed,
        evidence=evidence,
        shared=gate.trees.shared,
        at_once=conductor.at_once,
        imports=conductor.imports,
        seconds={stage: round(seconds, 3) for stage, seconds in conductor.seconds.items()},
        profiles=tuple(gate.profiles),
        explanations=tuple(gate.explanations),
        warnings=tuple(filter(None, warnings)),
    )
    return GateResult(
        gate=record,
        answers=answers,
        changed=gate.trees.changed,
        xfails=gate.xfails,
        completeness=complete,
        gone=_gone(trace),
    )


def _why_none(gate: GateRun) -> str:
    """Say why no test at all was decided, and what to type."""
    asked, stopped = gate.asked, gate.evidence.stopped
    if stopped is None:
        causes = [str(why) for _, why in (*gate.questions.tests.values(), *gate.questions.parts.values())]
        return f"nothing could be compared with {asked.name}: {reasons(causes)}"
    said = f"none of {counted(len(asked.tests), 'test')} was decided: {stopped}"
    schedule, seconds = gate.conductor.schedule, gate.conductor.seconds
    if stopped.kind != "out of time" or schedule is None:
        return said
    needed_s = sum(seconds.get(stage, 0.0) for stage in ("checkout", "rehearsal", "processes"))
    needed_s += schedule.needed_s(gate.evidence, seconds.get("screen", 0.0))
    return f"{said}, and {more_time(asked.time_s, needed_s)}"


def _gone(trace: PairTrace) -> frozenset[Measurement]:
    """Return what the baseline measures and the candidate does not: of tests that it skips, and single measurements."""
    skipped = {
        Measurement(test=node, label="")
        for node, sides in trace.outcomes.items()
        if sides["baseline"].outcome == "passed" and sides["candidate"].outcome == "skipped"
    }
    return frozenset(skipped | {measurement for measurement, side in trace.uneven.items() if side == "baseline"})
