"""The measurement of one run: samples taken between meters, and those of fresh processes."""

from array import array
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from statistics import median

import pytest

from pytest_hwperf.host.clocks import ThreadTime, thread_times, times_since
from pytest_hwperf.host.disturbance import Interference, snapshot
from pytest_hwperf.host.fakes import wall_clock
from pytest_hwperf.host.machine import read_peaks
from pytest_hwperf.host.tracing import trace_conditions, why_untimed
from pytest_hwperf.measure.accuracy import refuse_nan
from pytest_hwperf.measure.pair_target import arena_samples, exact_samples
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.samples import item_samples, samples_of
from pytest_hwperf.measure.sampling import RawSamples, Sampler
from pytest_hwperf.measure.stages import StageTimes, stage_samples, time_chained, time_named
from pytest_hwperf.measure.stream import FirstCall
from pytest_hwperf.measure.subjects import LoadedSubject, Subject, operator_profile, roofline, withheld_profile
from pytest_hwperf.plugin.measuring.fresh import counted_by_callgrind, in_fresh_processes
from pytest_hwperf.plugin.measuring.load import UnderLoad
from pytest_hwperf.plugin.measuring.meters import IdlePower, instruction_meter_of, meters_around, meters_of
from pytest_hwperf.plugin.session.state import SessionState, called_there, node_of, session_of, test_of
from pytest_hwperf.plugin.session.terminal import countdown_of, line_of, time_told
from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.messages import Remark, Statement, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS, Taken, taken_by
from pytest_hwperf.records.run import Run, Sample, replace
from pytest_hwperf.records.verdict import Skip
from pytest_hwperf.runtimes.threads import oversubscription, waiting_threads
from pytest_hwperf.stats.figures.estimates import enough
from pytest_hwperf.stats.figures.ranks import is_tail
from pytest_hwperf.stats.pairs.hypotheses import PROCESSES
from pytest_hwperf.stats.service.carbon import carbon_samples
from pytest_hwperf.stats.verdicts import why_it_cannot_pass

_ONCE = "first_call"


def measure(item: pytest.Item, subject: Subject, label: str) -> Run:
    """Measure `subject` here, and in fresh processes what needs them, as far as the test asks for it."""
    run, asked = measure_here(item, subject, label), test_of(item).markers.ask_for
    for role in PROCESSES:
        if subject.elsewhere:
            run = _extended(run, (), dict.fromkeys(taken_by(role), state("elsewhere")))
        elif any(map(asked, taken_by(role))):  # each costs fresh processes
            run = _extended(run, *in_fresh_processes(item, role, label))
    if not subject.elsewhere:
        run = _extended(run, *counted_by_callgrind(item, label))
    if any(map(asked, taken_by("memory", "session"))):
        run = _extended(run, *arena_samples(subject))
    latency = run.sample(MEDIAN_LATENCY[0])
    if not session_of(item.config).settings.operators or latency is None or not subject.scenario:
        return run
    call_s = median(latency.values)
    if test_of(item).markers.load:
        return replace(run, operators=withheld_profile(state("under load"), call_s))
    profile, limits = operator_profile(subject, call_s), roofline(subject, call_s, read_peaks(run.machine))
    return replace(run, operators=profile, roofline=limits)


def call_once(item: pytest.Item, subject: Subject, label: str) -> Run:
    """Call the subject a single time; the run has all that a body may read, and is neither judged nor stored."""
    loaded = subject.load()
    with loaded.scope():
        first = loaded.stream(is_timed=False).first()
    return run_of_one_call(item, subject, label, first)


def run_of_one_call(item: pytest.Item, subject: Subject, label: str, first: FirstCall) -> Run:
    """Return the run of a single call: for a body whose measurement is made elsewhere, or not at all."""
    taken, cold = array("d", [first.seconds]), ("a single cold call",)
    calls = (
        Sample(metric=metric, values=taken, per="call", source="perf_counter", warnings=cold)
        for metric in taken_by("calls")
    )
    samples = (*calls, *item_samples(first.items, cold))
    return replace(
        empty_run(item.config, node_of(item), label), scenario=subject.scenario, samples=samples
    ).with_result(first.value)


def empty_run(config: pytest.Config, test: str, label: str = "") -> Run:
    """Return a run without samples, of a test by its node id."""
    shared = session_of(config)
    return Run(
        test=test,
        label=label,
        scenario="",
        machine=shared.machine,
        revision=shared.revision.commit,
        changed=shared.revision.changed,
        started_at=wall_clock().isoformat(timespec="milliseconds"),
        samples=(),
        conditions={},
        context={},
        kind=shared.settings.machine_kind[0] if shared.settings.machine_kind else "",
    )


def unmeasured_run(item: pytest.Item, why: Statement, label: str = "") -> Run:
    """Return the run of a test that is not measured: as what cannot be compared, or where nothing is, as a skip."""
    settings, run = session_of(item.config).settings, empty_run(item.config, node_of(item), label)
    if settings.against or settings.compare:
        return replace(run, unmeasured={MEDIAN_LATENCY[0]: why})
    test_of(item).skips.append(Skip(test=node_of(item), scenario="", cause=why))
    return run


def measure_here(item: pytest.Item, subject: Subject, label: str) -> Run:
    """Measure everything of `subject` that can be measured in this process."""
    if (why := _why_once(item, label)) is not None:
        return _measured_untimed(item, subject, label, why)
    shared, rows, idle = session_of(item.config), subject.rows, IdlePower(item)
    instructions, absent = instruction_meter_of(item)
    loaded, run, traced = _loaded(item, subject), empty_run(item.config, node_of(item), label), trace_conditions()
    meters = meters_of(item, subject, absent)
    meters += [instructions] if instructions else []  # last: the other meters' work is no work of the calls
    idle.watch()
    before = thread_times()
    watch = Interference(snapshot)
    shown = countdown_of(item)
    with loaded.scope(), closing(instructions) if instructions else nullcontext(), closing(shown):
        limits, stream = _limits_of(item, subject, loaded), loaded.stream()
        sampler = Sampler(stream, limits, tell=shown.tell, answers=loaded.answers)
        meters, apart = meters_around(stream, meters)
        under = UnderLoad(item, subject, stream, label, shown.announce) if test_of(item).markers.load else None
        measured, meters = under.measure(sampler, meters) if under else _sampled(item, sampler, meters, rows)
        context, disturbed = watch.end()
        staged = None if under is not None else _time_stages(subject, loaded, limits)  # a latency that waits has none
        predicted = loaded.predictions() if loaded.predictions else None
    spent = times_since(before).values() if under is None else ()  # threads of a load wait for one another
    warnings = (*_known_doubts(shared, subject, spent), *disturbed)
    idle.watch()
    samples, unmeasured = samples_of(measured, meters, rows=rows, cores=shared.machine.cores, warnings=warnings)
    if under:
        samples, unmeasured = under.samples(samples, unmeasured, rows)
    net, withheld = idle.taken_off(measured, samples, rows)
    stages = stage_samples(staged, median(measured.latency_s), warnings) if staged else []
    exact, missing, agreement = exact_samples(subject, predicted, measured.answers)
    # coverage.py observes the first call, so that what it runs counts as covered.
    unobserved = {_ONCE: state("traced", by=traced["traced_by"])} if traced else {}
    run = replace(
        run,
        scenario=subject.scenario,
        samples=(*(sample for sample in samples if sample.metric not in unobserved), *net, *exact, *stages),
        directions={sample.metric: "lower" for sample in stages},
        conditions={**subject.conditions, **traced},
        context={**subject.context, **agreement, **context, **shared.coefficients, **(under.context if under else {})},
        unmeasured={**absent, **apart, **unmeasured, **withheld, **missing, **unobserved},
    ).with_result(measured.result)
    return _extended(run, *carbon_samples(run.samples, run.unmeasured, shared.settings.carbon, rows=rows))


def _limits_of(item: pytest.Item, subject: Subject, loaded: LoadedSubject) -> SamplingLimits:
    """Return how long is sampled, and how: briefly where pairs have compared the test, and nothing is judged here."""
    session, markers = session_of(item.config), test_of(item).markers
    settings, asked = session.settings, {one.key for one in markers.limits} | {one.key for one in markers.named}
    limits = SamplingLimits(
        max_time_s=test_of(item).max_time_s or settings.sample_time_s,
        hold_collector=subject.conditions.get("gc") == "off",
        # The mean of a batch hides slow calls.
        single_calls=any(metric in taken_by("calls") and is_tail(statistic) for metric, statistic in asked),
        compiles=loaded.compiles,
    )
    is_used = session.gate is None or settings.keeps_runs or settings.writes_folder or markers.limits
    return limits if is_used else limits.brief()


def _loaded(item: pytest.Item, subject: Subject) -> LoadedSubject:
    with time_told(item, f"{subject.scenario}: loading the model") if subject.scenario else nullcontext():
        return subject.load()


def _sampled(
    item: pytest.Item, sampler: Sampler, meters: list[Meter], rows: int | None
) -> tuple[RawSamples, list[Meter]]:
    """Sample until every budget is clear of its limit or the time is up; return by which meters too."""
    budgets, cores = test_of(item).markers.limits, session_of(item.config).machine.cores

    def satisfied(measured: RawSamples) -> bool:
        samples, _ = samples_of(measured, meters, rows=rows, cores=cores)
        return enough(samples, budgets)

    def say_what_cannot_pass(call_s: float) -> None:
        time_s = test_of(item).max_time_s or session_of(item.config).settings.sample_time_s
        for budget in test_of(item).markers.budgets:
            if text := why_it_cannot_pass(budget, call_s, time_s):
                line_of(item.config).say(f"hwperf: {item.nodeid}: {text}")

    return sampler.measure(meters, satisfied, say_what_cannot_pass), meters


def _known_doubts(shared: SessionState, subject: Subject, spent: Collection[ThreadTime]) -> list[Remark]:
    """Return what makes every timing of a subject say less, by what its threads have spent."""
    threads = subject.conditions.get("threads")
    crowd = waiting_threads(threads, spent) or oversubscription(threads, shared.machine.cores, workers=shared.workers)
    beside = state("workers", workers=shared.workers) if shared.workers > 1 else None
    return list(filter(None, [subject.context.get("warning"), subject.doubt, beside, crowd]))


def _time_stages(subject: Subject, loaded: LoadedSubject, limits: SamplingLimits) -> StageTimes | None:
    """Time the stages of a call when its latency has been taken; None where it has none."""
    if loaded.chain and loaded.inputs:
        return time_chained(loaded.chain, loaded.inputs, loaded.stream(is_timed=False), limits)
    if subject.stages is None or not subject.stages.names:
        return None
    stream = loaded.stream(is_timed=False)
    stream.first()
    return time_named(subject.stages, stream, limits)


def _why_once(item: pytest.Item, label: str) -> Statement | None:
    """Say why a measurement is called only once here; None where its calls can be timed."""
    if session_of(item.config).has_failing_calls(node_of(item), label):
        return state("called once")
    return called_there(item, why_untimed)


def _measured_untimed(item: pytest.Item, subject: Subject, label: str, why: Statement) -> Run:
    """Call once, and take only what needs no clock: whatever observes this process slows each call by its own share."""
    loaded = subject.load()
    with loaded.scope():
        first = loaded.stream(is_timed=False).first()
        refuse_nan(first.value)
        opening = loaded.answers(first.value)
        exact, missing, agreement = exact_samples(
            subject, loaded.predictions() if loaded.predictions else None, opening
        )
    ways: tuple[Taken, ...] = ("calls", "windows", *(("parts",) if first.items else ()))
    judged = [metric for metric in taken_by(*ways) if METRICS[metric].budgets]
    return replace(
        empty_run(item.config, node_of(item), label),
        scenario=subject.scenario,
        samples=tuple(exact),
        conditions={**subject.conditions, **trace_conditions()},
        context={**subject.context, **agreement},
        unmeasured={**dict.fromkeys(judged, why), **missing},
    ).with_result(first.value)


def _extended(run: Run, samples: Sequence[Sample], unmeasured: Mapping[str, Statement]) -> Run:
    return replace(run, samples=(*run.samples, *samples), unmeasured={**run.unmeasured, **unmeasured})
