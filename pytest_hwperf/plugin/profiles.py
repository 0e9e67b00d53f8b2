"""Profiles that a fresh process takes of what it measures: of functions and operators, and counted instructions."""

from time import perf_counter_ns

import pytest

from pytest_hwperf.core.movers import SampledCalls
from pytest_hwperf.core.statements import state
from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.plugin.session import session_of, test_of


def instructions_of(subject: Subject) -> WorkerResult:
    """Make counted calls; the collector is held, which runs after so many objects of any kind."""
    from pytest_hwperf.core.errors import MeasurementError
    from pytest_hwperf.measure.collection import collection
    from pytest_hwperf.measure.rounds import BETWEEN
    from pytest_hwperf.meters.cpu.callgrind import count_calls

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
    from pytest_hwperf.core.errors import MeasurementError

    found, reasons = None, {"operators": "its runtime shows no operators"}
    if subject.profile is not None:
        try:
            found, reasons = subject.profile(), {}
        except MeasurementError as error:
            reasons = {"operators": str(error)}
    return WorkerResult(values={}, reasons=reasons, notes=[], runs=[], operators=found)


def functions_of(item: pytest.Item, asked_s: float, subject: Subject) -> WorkerResult:
    """Profile the functions of calls that are made one after the other in this thread, for `asked_s` if it is not 0."""
    from pytest_hwperf.core.errors import MeasurementError
    from pytest_hwperf.explain.functions import sample_functions

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
