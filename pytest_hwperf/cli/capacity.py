"""`hwperf capacity`: how busy a service is, how long its requests wait, and how many instances a peak takes."""

import argparse
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, pstdev

from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.inputs import read_report
from pytest_hwperf.cli.output import FAILED, OK, show_document, write_record
from pytest_hwperf.host.disturbance import memory_limit
from pytest_hwperf.host.machine import count_usable_cores, installed_memory
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import FASTEST_QPS, MOST_IN_FLIGHT, nearest
from pytest_hwperf.records.metrics import BOARD_ENERGY, ENERGY, MEDIAN_LATENCY
from pytest_hwperf.records.run import Key, figure_of
from pytest_hwperf.records.units import counted, plural, show, show_number, show_share
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.document import Listing, Titled
from pytest_hwperf.stats.choice.candidates import rows_of_call
from pytest_hwperf.stats.service import capacity, carbon
from pytest_hwperf.stats.service.capacity import Service

MILLION = 1e6
_MEAN: Key = (MEDIAN_LATENCY[0], "mean")
_LEAST, _LARGEST = 1e-9, 1e12  # of every number that is given
_MOST_SERVERS = 100_000
_FACTS: Mapping[str, str] = {
    "arrivals": "expect this many requests a second",
    "rate": "serve this many requests a second per server",
    "service-ms": "serve a request in this time, instead of --rate",
    "variation": "set deviation over mean of the service time; default: measured, or 1",
    "arrivals-variation": "set deviation over mean of arrival gaps; default: 1, Poisson",
    "peak": "plan for this many requests a second at peak",
    "safety": f"multiply the peak by this; default: {capacity.SAFETY:g}",
    "memory-mb": "count the requests or models in this memory; default: with --models, that of this machine",
    "request-mb": "reserve this memory for each open request; default: measured",
    "base-mb": "reserve this memory once per process",
    "price-per-hour": "price an instance by the hour",
    "price-per-kwh": "price electricity; needs energy in the report",
    "grams-per-kwh": "count this much CO2 per kWh; needs energy in the report",
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
    if options.models:
        return _models(options)
    try:
        inputs = carbon.parse_carbon_lines(options.carbon)
    except UsageProblem as problem:
        raise UsageProblem(f"--carbon: {problem}") from problem
    if not all(1 <= count <= _MOST_SERVERS for count in (options.servers, options.cores or 1)):
        raise UsageProblem(f"--servers and --cores: from 1 to {_MOST_SERVERS}")
    if options.base_mb and options.request_mb is None:
        raise UsageProblem("--base-mb needs --request-mb: the measured memory of a process has the model in it already")
    if options.arrivals is None:
        raise UsageProblem("--arrivals is missing: give the requests a second, such as --arrivals=200")
    if sum(one is not None for one in (options.rate, options.service_ms, options.report)) != 1:
        raise UsageProblem("give one of --rate, --service-ms and a report of pytest --hwperf-report=FILE.json")
    judgements = read_report(options.report).judgements if options.report else ()
    measured = _chosen(judgements, options) if options.report else None
    alone = _service_of(options, measured)
    service = capacity.together([alone, *options.also]) if options.also else alone
    options.cores = options.cores or count_usable_cores()
    options.safety = capacity.SAFETY if options.safety is None else options.safety
    options.arrivals_variation = 1.0 if options.arrivals_variation is None else options.arrivals_variation
    plan, rows = _planned(options, service, measured, inputs)
    if options.json:
        write_record(options.json, plan)
    show_document([Listing([*rows, *_load_rows(alone, measured, judgements)], 0)])
    return OK if plan.utilisation <= capacity.TOO_HIGH else FAILED


def _chosen(judgements: Sequence[Judgement], options: argparse.Namespace) -> Judgement:
    """Return the measurement of a report that is planned with."""
    found = {capacity.named(one): one for one in judgements if not _is_load(one)}
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


def _is_load(one: Judgement) -> bool:
    """Whether calls arrived in another way than one after the other."""
    return one.run.conditions.get("load", "single_stream") != "single_stream"


def _service_of(options: argparse.Namespace, measured: Judgement | None) -> Service:
    """Return the service as it was typed, or as its calls were timed one after the other."""
    variation = options.variation
    if measured is None:
        seconds = 1 / options.rate if options.rate is not None else options.service_ms / 1e3
        return Service(arrivals=options.arrivals, seconds=seconds, variation=1.0 if variation is None else variation)
    sample, mean = measured.run.sample(_MEAN[0]), figure_of(measured.figures, _MEAN)
    if sample is None or mean is None or not mean.estimate.value:
        raise UsageProblem(f"{capacity.named(measured)} has no latency: choose another measurement by --test")
    if variation is None:  # a batch of short calls hides how much each of them varies
        variation = pstdev(sample.values) / fmean(sample.values) if sample.per == "call" else 1.0
    return Service(arrivals=options.arrivals, seconds=mean.estimate.value, variation=variation)


_MEANS: Mapping[capacity.Level, str] = {
    "safe": "safe",
    "high": f"over {show_share(capacity.HIGH)}, little is left for a peak",
    "too high": f"over {show_share(capacity.TOO_HIGH)}, where waits grow steeply",
    "no steady state": "no steady state: more arrives than is served, and the queue grows for ever",
}


def _planned(
    options: argparse.Namespace, service: Service, measured: Judgement | None, inputs: carbon.CarbonInputs | None
) -> tuple[capacity.CapacityPlan, list[Titled]]:
    """Compute a plan, and say it."""
    full, missing = options.servers / service.seconds, dict[str, str]()
    served, busy = min(service.arrivals, full), capacity.utilisation(service, options.servers)
    level, waits = capacity.level(busy), capacity.waits(service, options.servers, options.arrivals_variation)
    limits = (capacity.HIGH, capacity.TOO_HIGH)
    shares = ", ".join(f"{show_share(share)} at {show(share * full, '1/s')}" for share in limits)
    can_do = f"{counted(options.servers, 'server')} can do {show(full, '1/s')}"
    rows = [
        Titled("utilisation", f"{busy:.3f}: {_MEANS[level]}"),
        Titled("utilisation", f"{show(service.arrivals, '1/s')} arrive, {can_do}; {shares}"),
    ]
    for wait in waits:
        ends = [f"{n} {show(s, 's')}" for n, s in (("p95", wait.p95_s), ("p99", wait.p99_s)) if s is not None]
        varies = wait.model in ("M/G/1", "Kingman") or wait.model.startswith("G/G/")
        text = f"{wait.model:<8}{show(wait.seconds, 's')} on average"
        text += f", service times varying by {service.variation:.2f} of their mean" if varies else ""
        text += f"; with the service {', '.join(ends)}" if ends else ""
        rows += [Titled("wait", text)] if wait.model != "M/G/1" or service.variation != 1 else []
    instances = memory = energy = cost = None
    if options.peak is not None:
        instances = capacity.instances(options.peak, full, options.safety)
        rows += _instance_rows(instances, options)
    if options.memory_mb is not None:
        memory, held = _memory(options, measured)
        rows += held
        missing |= {} if memory else {"memory": "give --request-mb, or a report with the metric memory"}
    rows += [Titled(name, f"not known: {why}") for name, why in missing.items()]
    if options.price_per_hour is not None:
        cost, rate = capacity.per_million(options.price_per_hour, served), show(served, "1/s")
        rows.append(Titled("cost", f"{show_number(cost)} a million requests, at {rate} on one instance"))
    joules, source = _joules(measured)
    if options.price_per_kwh is not None or options.grams_per_kwh is not None:
        energy, text = _energy(options, joules, source)
        rows.append(Titled("energy", text))
        missing |= {} if energy else {"energy": source}
    made = carbon.carbon_of_million(inputs, joules, source, served) if inputs else None
    plan = capacity.CapacityPlan(
        measured=capacity.named(measured) if measured else "", service=service, servers=options.servers,
        utilisation=busy, level=level, waits=waits, instances=instances, memory=memory, cost=cost, energy=energy,
        carbon=made, missing=missing,
    )  # fmt: skip
    return plan, [*rows, *(_carbon_rows(made) if made else ())]


def _instance_rows(found: capacity.Instances, options: argparse.Namespace) -> list[Titled]:
    other = {"safety factor": found.by_utilisation, "utilisation": found.by_safety}.get(found.rule)
    alone = "" if other is None else f", the other rule alone says {other}"
    rule = "both rules" if found.rule == "both" else f"the {found.rule}"
    peak, busy = show(options.peak, "1/s"), show_share(found.utilisation)
    rules = f"{options.safety:g} times the peak, and at most {show_share(capacity.HIGH)} busy"
    return [
        Titled("instances", f"{found.count} for a peak of {peak} by {rule}{alone}; each {busy} busy"),
        Titled("instances", f"rules: {rules}; one to spare for a failure is one more"),
    ]


def _memory(
    options: argparse.Namespace, measured: Judgement | None
) -> tuple[capacity.Concurrency | None, list[Titled]]:
    """Return how many requests the memory holds at once, and say it; None where the need of one is not known."""
    figure = figure_of(measured.figures, capacity.MEMORY) if measured else None
    each, own = figure.estimate.value if figure else 0.0, ""
    if options.request_mb is not None:
        each = options.request_mb * MILLION
    elif each < 1:
        return None, []
    else:
        own = ", each in a process of its own with its model, third-party imports not in it"
    base = (options.base_mb or 0.0) * MILLION
    count = capacity.fitting(options.memory_mb * MILLION, each, base)
    limit = "the cores are the limit" if options.cores < count else "the memory is the limit"
    counted_once = f"after a base of {show(base, 'B')}, counted once" if base else "without a base, which was not given"
    return capacity.Concurrency(by_memory=count, cores=options.cores, base_bytes=base, each_bytes=each), [
        Titled("memory", f"{counted(count, 'request')} at once, {show(each, 'B')} each{own}"),
        Titled("memory", counted_once),
        Titled("memory", f"{counted(options.cores, 'core')}: {limit}"),
    ]


def _joules(measured: Judgement | None) -> tuple[float | None, str]:
    """Return the energy of a call, that of boards too, with its source; None with the reason where it is not known."""
    figure = figure_of(measured.figures, (ENERGY, "mean")) if measured else None
    if figure is None or measured is None:
        return None, "give a report with the metric energy"
    if BOARD_ENERGY in measured.run.unmeasured:
        return None, f"{BOARD_ENERGY} is unmeasured: {measured.run.unmeasured[BOARD_ENERGY]}"
    boards = figure_of(measured.figures, (BOARD_ENERGY, "mean"))
    found = [one for one in (figure, boards) if one]
    of_call = rows_of_call(measured.run.conditions.get("batch_size", ""))  # the energy is that of a row
    return sum(one.estimate.value for one in found) * of_call, " + ".join(one.source for one in found)


def _energy(
    options: argparse.Namespace, joules: float | None, source: str
) -> tuple[capacity.EnergyOfMillion | None, str]:
    """Return the energy of a million requests with its price and its carbon, and say it."""
    if joules is None:
        return None, f"not known: {source}"
    kwh = joules * MILLION / carbon.J_PER_KWH
    price, grams = (None if each is None else kwh * each for each in (options.price_per_kwh, options.grams_per_kwh))
    told = [f"{show_number(kwh)} kWh a million requests ({source})"]
    told += [] if price is None else [f"{show_number(price)} for it"]
    told += [] if grams is None else [f"{show(grams, 'g')} of CO2"]
    return capacity.EnergyOfMillion(kwh=kwh, source=source, price=price, grams=grams), ", ".join(told)


def _carbon_rows(found: carbon.CarbonOfMillion) -> Iterator[Titled]:
    """Yield both parts, and their sum where both are known: a part is not the whole."""
    units, used, made = f"a million {plural(found.unit)}", found.operational_g, found.embodied_g
    if used is not None and made is not None:
        yield Titled("carbon", f"{show(used + made, 'g')} of CO2 equivalent for {units}, of which")
    energy = f"{show(used or 0.0, 'g')} for the energy of {units} ({found.source})"
    making = f"{show(made or 0.0, 'g')} for making the machine, as long as it serves them"
    yield Titled("carbon", f"of the energy for {units}: not known: {found.reason}" if used is None else energy)
    unknown = "of making the machine: not known: give --carbon embodied_kg=… and lifetime_years=…"
    yield Titled("carbon", unknown if made is None else making)


_ALIKE = ("batch_size", "threads", "precision")  # conditions of a load on what is planned with
_LOAD = re.compile(r"\b(qps|in_flight|shape)=(\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?)(?=\s|$)")


def _load_rows(service: Service, measured: Judgement | None, judgements: Sequence[Judgement]) -> Iterator[Titled]:
    """Yield a line for each load from a schedule that was put on what is planned with, beside the theory."""
    if measured is None:
        return
    alike = measured.run
    for one in judgements:
        conditions, load = one.run.conditions, one.run.conditions.get("load", "")
        found, told = figure_of(one.figures, _MEAN), dict(_LOAD.findall(load))
        is_same = one.run.scenario == alike.scenario and bool(alike.scenario or one.run.test == alike.test)
        is_same = is_same and all(conditions.get(name) == alike.conditions.get(name) for name in _ALIKE)
        rate, shape = float(told.get("qps", 0)), float(told.get("shape", 1))
        if not (found and is_same and load.startswith("server ") and shape and 0 < rate <= FASTEST_QPS):
            continue
        at_rate = Service(arrivals=rate, seconds=service.seconds, variation=service.variation)
        servers = max(1, min(MOST_IN_FLIGHT, int(float(told.get("in_flight", 1)))))
        waits, theory = capacity.waits(at_rate, servers, 1 / math.sqrt(shape)), "by theory there is no steady state"
        if waits:
            theory = f"{waits[-1].model} says {show(waits[-1].seconds + service.seconds, 's')}"
        yield Titled("measured", f"{load}: latency {show(found.estimate.value, 's')} on average; {theory}")


def _models(options: argparse.Namespace) -> int:
    """Print how many models a memory holds; 1 where one of them does not fit at all."""
    taken = {"models", "test", "report", "memory_mb", "base_mb", "json", "run", "given", "handed_on"}
    other = {**vars(options), "servers": options.servers - 1}
    if given := [f"--{name.replace('_', '-')}" for name, value in other.items() if value and name not in taken]:
        raise UsageProblem(f"--models counts models alone: leave out {' and '.join(given)}")
    if not options.report:
        raise UsageProblem("--models needs a report of pytest --hwperf-report=FILE.json with the metric memory")
    judgements = read_report(options.report).judgements
    if options.test:
        judgements = (_chosen(judgements, options),)
    installed, limit = installed_memory(), memory_limit()
    memory, whose = installed, "of this machine"
    if options.memory_mb is not None:
        memory, whose = options.memory_mb * MILLION, "given"
    elif limit is not None and limit < installed:
        memory, whose = limit, "limit of this process's control group"
    base = (options.base_mb or 0.0) * MILLION
    models = tuple(capacity.model_memory(one, memory, base) for one in judgements if not _is_load(one))
    if all(one.count is None for one in models):
        raise UsageProblem(f"--models: {models[0].reason if models else 'no measurement of a call without a load'}")
    if options.json:
        plan = capacity.ModelsPlan(memory_bytes=memory, memory_of=whose, base_bytes=base, models=models)
        write_record(options.json, plan)
    after = f"after a base of {show(base, 'B')}" if base else "without a base; give --base-mb"
    shared = Titled("", f"{after}: a process with its third-party imports, which all models share")
    rows = [row for one in models for row in _model_rows(one, f"{show(memory, 'B')} ({whose})")]
    show_document([Listing([*rows, shared], 0)])
    return FAILED if any(one.count == 0 for one in models) else OK


def _model_rows(one: capacity.ModelMemory, room: str) -> Iterator[Titled]:
    if one.count is None:
        yield Titled("models", f"{one.measured}: not known: {one.reason}")
        return
    yield Titled("models", f"{counted(one.count, 'model')} of {one.measured} in {room}")
    each, typical = show(one.each_bytes or 0.0, "B"), show(one.typical_bytes or 0.0, "B")
    rests = f"{one.rests_on} {counted(one.processes, 'fresh process')}, median {typical}"
    yield Titled("", f"{each} each: {rests}; its peak in calls is in it")
    if one.boards_bytes is not None:
        yield Titled("", f"its {show(one.boards_bytes, 'B')} on GPUs are not counted")


_ARGUMENTS = (
    arg.option("report", "REPORT.json", "read measured times from a report of --hwperf-report=FILE.json", nargs="?"),
    arg.option("--test", "ID", "plan with this measurement of the report"),
    *(arg.option(f"--{name}", "NUMBER", text, type=_number(name)) for name, text in _FACTS.items()),
    arg.option("--servers", "N", "share one queue among this many servers", type=int, default=1),
    arg.option(
        "--cores",
        "N",
        "say whether --memory-mb or these cores limit open requests; default: this machine's",
        type=int,
    ),
    arg.several("--also", "ARRIVALS:MS[:VARIATION]", "serve another model on the same servers", type=_service),
    arg.several("--carbon", "KEY=VALUE", "set a key of hwperf_carbon, e.g. intensity_g_per_kwh=400"),
    arg.flag("--models", "count how many models of REPORT.json fit in memory"),
    arg.written_json("the plan"),
)
COMMAND = arg.Subcommand(
    "capacity",
    run,
    "plan instances from a rate of arrivals and a service time",
    _ARGUMENTS,
    "Compute utilisation, waiting times and the instances for your peak. With --models: how many models fit in memory.",
    answers={
        0: "at most 80 % busy",
        1: "busier, without a steady state, or too little memory for a model",
    },
)
