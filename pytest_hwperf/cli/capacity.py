"""`hwperf capacity`: how busy a service is, how long its requests wait, and how many instances a peak takes."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, pstdev

from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.capacity_plan import carbon_inputs, is_load, load_rows, named, plan_of, rows_of
from pytest_hwperf.cli.inputs import read_report
from pytest_hwperf.cli.output import FAILED, OK, show_document, write_record
from pytest_hwperf.host.disturbance import memory_limit
from pytest_hwperf.host.machine import count_usable_cores, installed_memory
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.metrics import BOARD_MEMORY, MEDIAN_LATENCY
from pytest_hwperf.records.run import SCHEMA, figure_of
from pytest_hwperf.records.structs import Count, Record, Size
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.document import Listing, Titled
from pytest_hwperf.stats import capacity
from pytest_hwperf.stats.capacity import SAFETY, TOO_HIGH, Service, fitting

MILLION = 1e6
_MEMORY = "memory"
_UNKNOWN = "its memory was not measured: mark the test with @pytest.mark.hwbudget(memory_max_mb=…)"
_TOO_SMALL = "it needs less than can be measured"


class ModelMemory(Record, frozen=True, kw_only=True):
    """How many models of one measurement a memory holds."""

    measured: str
    count: Count | None  # None: `reason` says why it is not known
    each_bytes: Size | None = None  # upper bound of what one needs
    typical_bytes: Size | None = None  # its median
    processes: Count = 0  # fresh ones, that were measured
    rests_on: str = ""  # what the upper bound is
    boards_bytes: Size | None = None  # on GPUs, which the count leaves out; None: not measured
    reason: str = ""


class ModelsPlan(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf models in memory"):
    """Everything that is said, as a file for other programs."""

    schema: int = SCHEMA
    memory_bytes: Size
    memory_of: str  # "given", or what of this machine it is
    base_bytes: Size  # counted once
    models: tuple[ModelMemory, ...]


def models_plan(options: argparse.Namespace, judgements: list[Judgement]) -> ModelsPlan:
    """Count the models of each measurement."""
    memory, whose = _available(options.memory_mb)
    base = (options.base_mb or 0.0) * MILLION
    found = tuple(_model(one, memory, base) for one in judgements if not is_load(one))
    if all(one.count is None for one in found):
        raise UsageProblem(f"--models: {found[0].reason if found else 'no measurement of a call without a load'}")
    return ModelsPlan(memory_bytes=memory, memory_of=whose, base_bytes=base, models=found)


def models_rows(plan: ModelsPlan) -> Iterator[Titled]:
    """Yield what is said of a plan."""
    room = f"{show(plan.memory_bytes, 'B')} ({plan.memory_of})"
    for one in plan.models:
        if one.count is None:
            yield Titled("models", f"{one.measured}: not known: {one.reason}")
            continue
        yield Titled("models", f"{counted(one.count, 'model')} of {one.measured} in {room}")
        each, typical = show(one.each_bytes or 0.0, "B"), show(one.typical_bytes or 0.0, "B")
        rests = f"{one.rests_on} {counted(one.processes, 'fresh process')}, median {typical}"
        yield Titled("", f"{each} each: {rests}; its peak in calls is in it")
        if one.boards_bytes is not None:
            yield Titled("", f"its {show(one.boards_bytes, 'B')} on GPUs are not counted")
    base = f"after a base of {show(plan.base_bytes, 'B')}" if plan.base_bytes else "without a base; give --base-mb"
    yield Titled("", f"{base}: a process with its third-party imports, which all models share")


def _available(given_mb: float | None) -> tuple[float, str]:
    """Return the bytes, and whose they are."""
    if given_mb is not None:
        return given_mb * MILLION, "given"
    installed, limit = installed_memory(), memory_limit()
    if limit is not None and limit < installed:
        return limit, "limit of this process's control group"
    return installed, "of this machine"


def _model(one: Judgement, memory: float, base: float) -> ModelMemory:
    figure, sample = figure_of(one.figures, (_MEMORY, "p50")), one.run.sample(_MEMORY)
    if figure is None or sample is None:
        reason = one.run.unmeasured.get(_MEMORY)
        return ModelMemory(measured=named(one), count=None, reason=str(reason) if reason else _UNKNOWN)
    high = figure.estimate.high
    each = max(sample.values, default=0.0) if high is None else high
    rate = 50 * (1 + figure.estimate.confidence)  # of one bound alone, in %
    boards = figure_of(one.figures, (BOARD_MEMORY, "p50"))
    return ModelMemory(
        measured=named(one),
        count=fitting(memory, each, base) if each >= 1 else None,
        each_bytes=each,
        typical_bytes=figure.estimate.value,
        processes=len(sample.values),
        rests_on="the highest of" if high is None else f"upper bound ({rate:.3g} %) of",
        boards_bytes=boards.estimate.value if boards else None,
        reason="" if each >= 1 else _TOO_SMALL,
    )


_LEAST, _LARGEST = 1e-9, 1e12  # of every number that is given
_MOST_SERVERS = 100_000
_LATENCY = MEDIAN_LATENCY[0]
_FACTS: Mapping[str, str] = {
    "arrivals": "requests a second, in all",
    "rate": "requests a second that one server serves, one after the other",
    "service-ms": "time of one request as it is served, instead of --rate",
    "variation": "standard deviation of the service time over its mean; default: measured, or 1",
    "arrivals-variation": "the same of the gaps between arrivals; default: 1, Poisson",
    "peak": "requests a second at the busiest time",
    "safety": f"factor for the peak; default: {SAFETY:g}",
    "memory-mb": "of an instance; with --models default: of this machine",
    "request-mb": "that a request takes while it is served; default: measured",
    "base-mb": "of a process with its model, counted once; with --models of one with its third-party imports",
    "price-per-hour": "of an instance",
    "price-per-kwh": "of electricity, where the report has energy",
    "grams-per-kwh": "CO2 of the electricity, where the report has energy",
}
_MAY_BE_ZERO = frozenset({"variation", "arrivals-variation", "base-mb"})


def _number(name: str) -> Callable[[str], float]:
    """Return the parser of an option's number."""

    def parse(text: str) -> float:
        value = float(text)
        if not (_LEAST <= value <= _LARGEST or (value == 0 and name in _MAY_BE_ZERO)):
            what = "0, or a number" if name in _MAY_BE_ZERO else "a number"
            raise argparse.ArgumentTypeError(f"{text}: {what} from {_LEAST:g} to {_LARGEST:g}")
        return value

    parse.__name__ = "number"
    return parse


def _service(text: str) -> Service:
    given, names = text.split(":"), ("arrivals", "service-ms", "variation")
    try:
        numbers = [_number(name)(part) for name, part in zip(names, [*given, "1"], strict=False)]
    except (ValueError, argparse.ArgumentTypeError):
        numbers = []
    if len(given) not in (2, 3) or not numbers:
        raise argparse.ArgumentTypeError(f"{text}: arrivals a second and milliseconds of each, such as 100:2.5")
    arrivals, milliseconds, variation = numbers
    return Service(arrivals=arrivals, seconds=milliseconds / 1e3, variation=variation)


def run(options: argparse.Namespace) -> int:
    """Print the plan, and return the exit code."""
    arg.check_files(json=options.json)
    if options.models:
        return _models(options)
    carbon_inputs(options.carbon)
    if not all(1 <= count <= _MOST_SERVERS for count in (options.servers, options.cores or 1)):
        raise UsageProblem(f"--servers and --cores: from 1 to {_MOST_SERVERS}")
    if options.base_mb and options.request_mb is None:
        raise UsageProblem("--base-mb needs --request-mb: the measured memory of a process has the model in it already")
    if options.arrivals is None:
        raise UsageProblem("--arrivals is missing: give the requests a second, such as --arrivals=200")
    given = sum(one is not None for one in (options.rate, options.service_ms, options.report))
    if given != 1:
        raise UsageProblem("give one of --rate, --service-ms and a report of pytest --hwperf-report=FILE.json")
    judgements = read_report(options.report).judgements if options.report else ()
    measured = _chosen(judgements, options) if options.report else None
    alone = _service_of(options, measured)
    service = capacity.together([alone, *options.also]) if options.also else alone
    options.cores = options.cores or count_usable_cores()
    options.safety = SAFETY if options.safety is None else options.safety
    options.arrivals_variation = 1.0 if options.arrivals_variation is None else options.arrivals_variation
    plan = plan_of(options, service, measured)
    if options.json:
        write_record(options.json, plan)
    show_document([Listing([*rows_of(plan, options), *load_rows(alone, measured, judgements)], 0)])
    return OK if plan.utilisation <= TOO_HIGH else FAILED


def _models(options: argparse.Namespace) -> int:
    """Print how many models a memory holds; 1 where one of them does not fit at all."""
    taken = {"models", "test", "report", "memory_mb", "base_mb", "json", "run", "given", "handed_on"}
    other = {**vars(options), "servers": options.servers - 1}
    if given := [f"--{name.replace('_', '-')}" for name, value in other.items() if value and name not in taken]:
        raise UsageProblem(f"--models counts models alone: leave out {' and '.join(given)}")
    if not options.report:
        raise UsageProblem("--models needs a report of pytest --hwperf-report=FILE.json with the metric memory")
    judgements = read_report(options.report).judgements
    plan = models_plan(options, [_chosen(judgements, options)] if options.test else [*judgements])
    if options.json:
        write_record(options.json, plan)
    show_document([Listing([*models_rows(plan)], 0)])
    return FAILED if any(one.count == 0 for one in plan.models) else OK


def _chosen(judgements: Sequence[Judgement], options: argparse.Namespace) -> Judgement:
    """Return the measurement of a report that is planned with."""
    found = {named(one): one for one in judgements if not is_load(one)}
    if not found:
        raise UsageProblem(f"{options.report} has no measurement of a call without a load")
    if options.test in found:
        return found[options.test]
    fitting = [name for name in found if (options.test or "") in name]
    if len(fitting) == 1:
        return found[fitting[0]]
    hint = "" if fitting else nearest(options.test, found)
    shown = "\n".join(f"  {name}" for name in fitting or found)
    raise UsageProblem(f"--test: which of these measurements of {options.report}?{hint}\n{shown}")


def _service_of(options: argparse.Namespace, measured: Judgement | None) -> Service:
    """Return the service as it was typed, or as its calls were timed one after the other."""
    variation = options.variation
    if measured is None:
        seconds = 1 / options.rate if options.rate is not None else options.service_ms / 1e3
        return Service(arrivals=options.arrivals, seconds=seconds, variation=1.0 if variation is None else variation)
    sample, mean = measured.run.sample(_LATENCY), figure_of(measured.figures, (_LATENCY, "mean"))
    if sample is None or mean is None or not mean.estimate.value:
        raise UsageProblem(f"{named(measured)} has no latency: choose another measurement by --test")
    if variation is None:  # a batch of short calls hides how much each of them varies
        variation = pstdev(sample.values) / fmean(sample.values) if sample.per == "call" else 1.0
    return Service(arrivals=options.arrivals, seconds=mean.estimate.value, variation=variation)


COMMANDS = (
    arg.Subcommand(
        "capacity",
        run,
        "plan instances from a rate of arrivals and a service time",
        (
            arg.option("report", "REPORT.json", "of pytest --hwperf-report=FILE.json: the measured times", nargs="?"),
            arg.option("--test", "ID", "of the report: the measurement to plan with, or a part of its id"),
            *(arg.option(f"--{name}", "NUMBER", text, type=_number(name)) for name, text in _FACTS.items()),
            arg.option("--servers", "N", "that share one queue; default: 1", type=int, default=1),
            arg.option("--cores", "N", "of an instance; default: those of this machine", type=int),
            arg.option(
                "--also",
                "ARRIVALS:MS[:VARIATION]",
                "another model that the same servers serve; repeatable",
                action="append",
                default=[],
                type=_service,
            ),
            arg.several("--carbon", "KEY=VALUE", "as a line of hwperf_carbon; repeatable"),
            arg.flag("--models", "count the models of REPORT.json that a memory holds"),
            arg.written_json("the plan"),
        ),
        "Say how busy a service is, how long its requests wait by theory and as measured, and how many instances a "
        "peak takes; with --models, how many models a memory holds. Exit code 0: at most 80 % busy; 1: busier, without "
        "a steady state, or a model that does not fit; 4: usage.",
    ),
)
