"""The plan of `hwperf capacity` as a record: what follows from the figures that were typed and measured."""

import argparse
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import FASTEST_QPS, MOST_IN_FLIGHT
from pytest_hwperf.records.metrics import BOARD_ENERGY, ENERGY, MEDIAN_LATENCY
from pytest_hwperf.records.run import SCHEMA, figure_of
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, plural, show, show_number, show_share
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.document import Titled
from pytest_hwperf.stats import capacity
from pytest_hwperf.stats.candidates import rows_of_call
from pytest_hwperf.stats.capacity import HIGH, TOO_HIGH, Concurrency, Instances, Level, Service, Wait
from pytest_hwperf.stats.carbon import CarbonInputs, parse_carbon_lines

MILLION = 1e6
J_PER_KWH = 3.6e6


class EnergyOfMillion(Record, frozen=True, kw_only=True):
    """Energy of a million requests."""

    kwh: float
    source: str  # what measured it
    price: float | None = None  # None: no price was given
    grams: float | None = None  # CO2 equivalent; None: no intensity was given


class CarbonOfMillion(Record, frozen=True, kw_only=True):
    """Carbon of a million units after the SCI specification, in grams of CO2 equivalent: E x I + M."""

    unit: str  # "request", or what the user counts
    operational_g: float | None  # E x I; None: the energy is not known
    embodied_g: float | None  # M, of making the machine; None: its carbon was not given
    source: str  # of the energy and of the intensity
    reason: str = ""  # why the operational part is not known

    @property
    def total_g(self) -> float | None:
        """Both parts; None where one is not known: a part is not the whole."""
        if self.operational_g is None or self.embodied_g is None:
            return None
        return self.operational_g + self.embodied_g


class CapacityPlan(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf capacity plan"):
    """Everything that the command says, as a file for other programs; None: not asked for, or `missing` says why."""

    schema: int = SCHEMA
    measured: str  # the measurement that it is made with, "" where its times were typed
    service: Service
    servers: int
    utilisation: float
    level: Level
    waits: tuple[Wait, ...]  # () where there is no steady state
    instances: Instances | None = None
    memory: Concurrency | None = None
    cost: float | None = None  # of a million requests
    energy: EnergyOfMillion | None = None
    carbon: CarbonOfMillion | None = None
    missing: Mapping[str, str] = {}  # what was asked for and is not known → why


def plan_of(options: argparse.Namespace, service: Service, measured: Judgement | None) -> CapacityPlan:
    """Compute a plan by options that have their defaults."""
    missing = dict[str, str]()
    memory = _memory(options, measured)
    if options.memory_mb is not None and memory is None:
        missing["memory"] = "give --request-mb, or a report with the metric memory"
    joules, source = _joules(measured)
    asks_for_energy = not (options.price_per_kwh is None and options.grams_per_kwh is None)
    if joules is None and asks_for_energy:
        missing["energy"] = source
    most = options.servers / service.seconds
    served = min(service.arrivals, most)
    busy = capacity.utilisation(service, options.servers)
    return CapacityPlan(
        measured=named(measured) if measured else "",
        service=service,
        servers=options.servers,
        utilisation=busy,
        level=capacity.level(busy),
        waits=capacity.waits(service, options.servers, options.arrivals_variation),
        instances=None if options.peak is None else capacity.instances(options.peak, most, options.safety),
        memory=memory,
        cost=None if options.price_per_hour is None else capacity.per_million(options.price_per_hour, served),
        energy=_energy(options, joules, source) if joules is not None and asks_for_energy else None,
        carbon=_carbon(carbon_inputs(options.carbon), joules, source, served),
        missing=missing,
    )


def carbon_inputs(lines: list[str]) -> CarbonInputs | None:
    """Read the options `--carbon`."""
    try:
        return parse_carbon_lines(lines)
    except UsageProblem as problem:
        raise UsageProblem(f"--carbon: {problem}") from problem


def _memory(options: argparse.Namespace, measured: Judgement | None) -> Concurrency | None:
    """Return how many requests the memory holds at once, None where it or the need of one is not known."""
    figure = figure_of(measured.figures, ("memory", "p50")) if measured else None
    each = figure.estimate.value if figure and figure.estimate.value >= 1 else None
    if options.request_mb is not None:
        each = options.request_mb * MILLION
    if options.memory_mb is None or each is None:
        return None
    base = (options.base_mb or 0.0) * MILLION
    count = capacity.fitting(options.memory_mb * MILLION, each, base)
    return Concurrency(by_memory=count, cores=options.cores, base_bytes=base, each_bytes=each)


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


def _energy(options: argparse.Namespace, joules: float, source: str) -> EnergyOfMillion:
    kwh = joules * MILLION / J_PER_KWH
    price, grams = (None if each is None else kwh * each for each in (options.price_per_kwh, options.grams_per_kwh))
    return EnergyOfMillion(kwh=kwh, source=source, price=price, grams=grams)


def _carbon(inputs: CarbonInputs | None, joules: float | None, source: str, served: float) -> CarbonOfMillion | None:
    """Return the carbon of a million units, for which an instance is reserved as long as it takes to serve them."""
    if inputs is None:
        return None
    units = MILLION / inputs.units_per_call
    grid = f"{inputs.intensity:g} g/kWh ({inputs.intensity_source})"
    return CarbonOfMillion(
        unit="request" if inputs.unit == "call" else inputs.unit,
        operational_g=None if joules is None else inputs.operational(joules) * units,
        embodied_g=None if inputs.machinery is None else inputs.machinery.embodied(1 / served) * units,
        source=grid if joules is None else f"{source} x {grid}",
        reason=source if joules is None else "",
    )


_ALIKE = ("batch_size", "threads", "precision")  # conditions of a load on what is planned with
_LOAD = re.compile(r"\b(qps|in_flight|shape)=(\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?)(?=\s|$)")
_MEANS: Mapping[capacity.Level, str] = {
    "safe": "safe",
    "high": f"over {show_share(HIGH)}, little is left for a peak",
    "too high": f"over {show_share(TOO_HIGH)}, where waits grow steeply",
    "no steady state": "no steady state: more arrives than is served, and the queue grows for ever",
}


def named(one: Judgement) -> str:
    """Name a measurement of a report."""
    return visible(" ".join(part for part in (one.run.test, one.run.scenario, one.run.label) if part))


def is_load(one: Judgement) -> bool:
    """Whether calls arrived in another way than one after the other."""
    return one.run.conditions.get("load", "single_stream") != "single_stream"


def rows_of(plan: CapacityPlan, options: argparse.Namespace) -> Iterator[Titled]:
    """Yield what is said of a plan that was made with these options."""
    full = plan.servers / plan.service.seconds
    yield Titled("utilisation", f"{plan.utilisation:.3f}: {_MEANS[plan.level]}")
    shares = ", ".join(f"{show_share(share)} at {show(share * full, '1/s')}" for share in (HIGH, TOO_HIGH))
    can_do = f"{counted(plan.servers, 'server')} can do {show(full, '1/s')}"
    yield Titled("utilisation", f"{show(plan.service.arrivals, '1/s')} arrive, {can_do}; {shares}")
    yield from _waits(plan)
    if plan.instances:
        yield from _instance_lines(plan.instances, options)
    unknown = {name: [Titled(name, f"not known: {why}")] for name, why in plan.missing.items()}
    typed = options.request_mb is not None
    yield from _memory_lines(plan.memory, typed=typed) if plan.memory else unknown.get("memory", [])
    if plan.cost is not None:
        rate = show(min(plan.service.arrivals, full), "1/s")
        yield Titled("cost", f"{show_number(plan.cost)} a million requests, at {rate} on one instance")
    yield from unknown.get("energy", [])
    if plan.energy:
        told = [f"{show_number(plan.energy.kwh)} kWh a million requests ({plan.energy.source})"]
        told += [] if plan.energy.price is None else [f"{show_number(plan.energy.price)} for it"]
        told += [] if plan.energy.grams is None else [f"{show(plan.energy.grams, 'g')} of CO2"]
        yield Titled("energy", ", ".join(told))
    if plan.carbon:
        yield from _carbon_lines(plan.carbon)


def load_rows(service: Service, measured: Judgement | None, judgements: Sequence[Judgement]) -> Iterator[Titled]:
    """Yield a line for each measured load on what is planned with, beside the theory at its rate."""
    for one in judgements:
        found = figure_of(one.figures, (MEDIAN_LATENCY[0], "mean"))
        if measured is None or found is None or not _is_load_of(one, measured):
            continue
        told = dict(_LOAD.findall(one.run.conditions["load"]))
        if "qps" not in told or not float(told.get("shape", "1")) or not 0 < float(told["qps"]) <= FASTEST_QPS:
            continue
        at_rate = Service(arrivals=float(told["qps"]), seconds=service.seconds, variation=service.variation)
        servers = max(1, min(MOST_IN_FLIGHT, int(float(told.get("in_flight", "1")))))
        waits = capacity.waits(at_rate, servers, 1 / math.sqrt(float(told.get("shape", "1"))))
        theory = "by theory there is no steady state"
        if waits:
            theory = f"{waits[-1].model} says {show(waits[-1].seconds + service.seconds, 's')}"
        load = one.run.conditions["load"]
        yield Titled("measured", f"{load}: latency {show(found.estimate.value, 's')} on average; {theory}")


def _is_load_of(one: Judgement, measured: Judgement) -> bool:
    """Whether a load from a schedule was put on what is planned with."""
    conditions, alike = one.run.conditions, measured.run.conditions
    return (
        conditions.get("load", "").startswith("server ")
        and one.run.scenario == measured.run.scenario
        and bool(one.run.scenario or one.run.test == measured.run.test)
        and all(conditions.get(name) == alike.get(name) for name in _ALIKE)
    )


def _waits(plan: CapacityPlan) -> Iterator[Titled]:
    for wait in plan.waits:
        if wait.model == "M/G/1" and plan.service.variation == 1:
            continue  # as M/M/1
        ends = [("p95", wait.p95_s), ("p99", wait.p99_s)]
        response = ", ".join(f"{name} {show(value, 's')}" for name, value in ends if value is not None)
        text = f"{wait.model:<8}{show(wait.seconds, 's')} on average"
        if wait.model in ("M/G/1", "Kingman") or wait.model.startswith("G/G/"):
            text += f", service times varying by {plan.service.variation:.2f} of their mean"
        yield Titled("wait", f"{text}; with the service {response}" if response else text)


def _instance_lines(found: Instances, options: argparse.Namespace) -> Iterator[Titled]:
    other = {"safety factor": found.by_utilisation, "utilisation": found.by_safety}.get(found.rule)
    alone = "" if other is None else f", the other rule alone says {other}"
    rule = "both rules" if found.rule == "both" else f"the {found.rule}"
    peak, busy = show(options.peak, "1/s"), show_share(found.utilisation)
    yield Titled("instances", f"{found.count} for a peak of {peak} by {rule}{alone}; each {busy} busy")
    rules = f"{options.safety:g} times the peak, and at most {show_share(HIGH)} busy"
    yield Titled("instances", f"rules: {rules}; one to spare for a failure is one more")


def _memory_lines(found: Concurrency, *, typed: bool) -> Iterator[Titled]:
    own = "" if typed else ", each in a process of its own with its model, third-party imports not in it"
    base = found.base_bytes
    yield Titled("memory", f"{counted(found.by_memory, 'request')} at once, {show(found.each_bytes, 'B')} each{own}")
    without = "without a base, which was not given"
    yield Titled("memory", f"after a base of {show(base, 'B')}, counted once" if base else without)
    limit = "the cores are the limit" if found.cores < found.by_memory else "the memory is the limit"
    yield Titled("memory", f"{counted(found.cores, 'core')}: {limit}")


def _carbon_lines(found: CarbonOfMillion) -> Iterator[Titled]:
    """Yield both parts, and their sum where both are known."""
    units = f"a million {plural(found.unit)}"
    energy, making = f"of the energy for {units}: not known: {found.reason}", "of making the machine: not known"
    if found.total_g is not None:
        yield Titled("carbon", f"{show(found.total_g, 'g')} of CO2 equivalent for {units}, of which")
    if found.operational_g is not None:
        energy = f"{show(found.operational_g, 'g')} for the energy of {units} ({found.source})"
    if found.embodied_g is not None:
        making = f"{show(found.embodied_g, 'g')} for making the machine, as long as it serves them"
    else:
        making += ": give --carbon embodied_kg=… and lifetime_years=…"
    yield from (Titled("carbon", energy), Titled("carbon", making))
