"""Profiles that a fresh process takes of what it measures: of functions and operators, and counted instructions."""

from array import array
from time import perf_counter_ns

import pytest

from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.meters.callgrind import SOURCE, slopes, under_callgrind
from pytest_hwperf.meters.instructions import InstructionMeter, instruction_meter
from pytest_hwperf.plugin.command import command_for, timeout_paused
from pytest_hwperf.plugin.progress import time_told
from pytest_hwperf.plugin.session import session_of, test_of
from pytest_hwperf.records.errors import HwperfError, MeterUnavailable
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.profiles import SampledCalls
from pytest_hwperf.records.run import Sample


def instructions_of(subject: Subject) -> WorkerResult:
    """Make counted calls; the collector is held, which runs after so many objects of any kind."""
    from pytest_hwperf.measure.plan import collection
    from pytest_hwperf.measure.rounds import BETWEEN
    from pytest_hwperf.meters.callgrind import count_calls
    from pytest_hwperf.records.errors import MeasurementError

    loaded = subject.load_one()
    stream = loaded.stream()
    reasons, lengths = dict[str, str](), list[int]()
    if stream.is_interrupted:
        reasons = {"instructions": BETWEEN}
        return WorkerResult(values={}, reasons=reasons, notes=[], runs=[], series={"calls": []})
    try:
        with loaded.scope(), collection(held=True):
            stream.first()
            lengths = count_calls(lambda count: stream.batch(count, perf_counter_ns))
    except MeasurementError as error:
        reasons = {"instructions": str(error)}
    calls = [float(count) for count in lengths]
    return WorkerResult(values={}, reasons=reasons, notes=[], runs=[], series={"calls": calls})


def operators_of(subject: Subject) -> WorkerResult:
    """Ask the runtime where the time of a call goes."""
    from pytest_hwperf.records.errors import MeasurementError

    found, reasons = None, {"operators": "its runtime shows no operators"}
    if subject.profile is not None:
        try:
            found, reasons = subject.profile(), {}
        except MeasurementError as error:
            reasons = {"operators": str(error)}
    return WorkerResult(values={}, reasons=reasons, notes=[], runs=[], operators=found)


def functions_of(item: pytest.Item, asked_s: float, subject: Subject) -> WorkerResult:
    """Profile the functions of calls that are made one after the other in this thread, for `asked_s` if it is not 0."""
    from pytest_hwperf.measure.functions import sample_functions
    from pytest_hwperf.records.errors import MeasurementError

    loaded = subject.load()
    stream = loaded.stream()

    def sample() -> SampledCalls:
        stream.first()
        if test_of(item).markers.load or stream.awaits:
            raise MeasurementError(str(state("awaited" if stream.awaits else "profiled under load")))
        longest = session_of(item.config).settings.sample_time_s / 2  # half as long as a measurement
        seconds = min(asked_s or longest, longest)
        root, within = item.config.rootpath, stream.caller
        return sample_functions(lambda n: stream.batch(n, perf_counter_ns), root, seconds, within)

    try:
        with loaded.scope():
            return WorkerResult(values={}, reasons={}, notes=[], runs=[], functions=sample())
    except MeasurementError as error:
        return WorkerResult(values={}, reasons={"functions": str(error)}, notes=[], runs=[])


INSTRUCTIONS = InstructionMeter.metric


def open_meter(item: pytest.Item) -> tuple[InstructionMeter | None, dict[str, Statement]]:
    """Open the processor's counter where it is asked for, or say why there is none; open it before a model is loaded.

    Threads that are started later are counted too, and those of a runtime start with its session.
    """
    wanted, named = session_of(item.config).settings.instructions, test_of(item).markers.ask_for(INSTRUCTIONS)
    if wanted == "off" and named:
        return None, {INSTRUCTIONS: said("instructions are off (--hwperf-instructions=off)")}
    if wanted not in ("auto", "perf") or (wanted == "auto" and not named):
        return None, {}
    try:
        return instruction_meter(), {}
    except MeterUnavailable as reason:
        return None, {INSTRUCTIONS: said(reason)}


def counted_by_callgrind(item: pytest.Item, label: str) -> tuple[list[Sample], dict[str, Statement]]:
    """Count the instructions of a call in a fresh process under Valgrind, where that is asked for."""
    if session_of(item.config).settings.instructions != SOURCE:
        return [], {}
    task = WorkerTask(role="instructions", node=item.nodeid, label=label)
    try:
        with timeout_paused(item), workdir() as folder, time_told(item, "counting instructions under Valgrind"):
            (result,) = ask(task, [under_callgrind(command_for(item), folder)])
            if INSTRUCTIONS in result.reasons:
                return [], {INSTRUCTIONS: said(result.reasons[INSTRUCTIONS])}
            found = slopes(folder, [round(count) for count in result.series["calls"]])
    except HwperfError as error:
        return [], {INSTRUCTIONS: said(error.sentence)}
    least, most = min(found), max(found)
    note = state("slopes", apart=(most - least) / most if most else 0.0)
    sample = Sample(
        metric=INSTRUCTIONS, values=array("d", found), per="difference of two lengths", source=SOURCE, warnings=(note,)
    )
    return [sample], {}
