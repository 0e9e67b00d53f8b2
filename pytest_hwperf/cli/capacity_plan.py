"""The plan of `hwperf capacity` as a record: what follows from the figures that were typed and measured."""

import argparse
from collections.abc import Mapping

from pytest_hwperf.core import capacity
from pytest_hwperf.core.candidates import rows_of_call
from pytest_hwperf.core.capacity import SAFETY, Concurrency, Instances, Level, Service, Wait
from pytest_hwperf.core.carbon import CarbonInputs, parse_carbon_lines
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.metrics import BOARD_ENERGY, ENERGY
from pytest_hwperf.core.records import SCHEMA, Judgement, figure_of
from pytest_hwperf.core.structs import Record

MILLION = 1e6
J_PER_KWH = 3.6e6
_NO_ENERGY = "give a report with the metric energy"


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


def plan_of(options: argparse.Namespace, service: Service, measured: Judgement | None, named: str) -> CapacityPlan:
    """Compute a plan."""
    missing = dict[str, str]()
    memory = _memory(options, measured)
    if options.memory_mb is not None and memory is None:
        missing["memory"] = "give --request-mb, or a report with the metric memory"
    joules, source = _joules(measured)
    if joules is None and not (options.price_per_kwh is None and options.grams_per_kwh is None):
        missing["energy"] = source
    served = min(service.arrivals, options.servers / service.seconds)
    busy = capacity.utilisation(service, options.servers)
    variation = 1.0 if options.arrivals_variation is None else options.arrivals_variation
    return CapacityPlan(
        measured=named,
        service=service,
        servers=options.servers,
        utilisation=busy,
        level=capacity.level(busy),
        waits=capacity.waits(service, options.servers, variation),
        instances=_instances(options, service),
        memory=memory,
        cost=None if options.price_per_hour is None else capacity.per_million(options.price_per_hour, served),
        energy=_energy(options, joules, source),
        carbon=_carbon(carbon_inputs(options.carbon), joules, source, served),
        missing=missing,
    )


def carbon_inputs(lines: list[str]) -> CarbonInputs | None:
    """Read the options `--carbon`."""
    try:
        return parse_carbon_lines(lines)
    except UsageProblem as problem:
        raise UsageProblem(f"--carbon: {problem}") from problem


def _instances(options: argparse.Namespace, service: Service) -> Instances | None:
    if options.peak is None:
        return None
    safety = SAFETY if options.safety is None else options.safety
    return capacity.instances(options.peak, options.servers / service.seconds, safety)


def _memory(options: argparse.Namespace, measured: Judgement | None) -> Concurrency | None:
    if options.memory_mb is None:
        return None
    figure = figure_of(measured.figures, ("memory", "p50")) if measured else None
    each = figure.estimate.value if figure and figure.estimate.value >= 1 else None
    if options.request_mb is not None:
        each = options.request_mb * MILLION
    if each is None:
        return None
    base = (options.base_mb or 0.0) * MILLION
    return capacity.concurrency(options.memory_mb * MILLION, each, base, options.cores)


def _joules(measured: Judgement | None) -> tuple[float | None, str]:
    """Return the energy of a call, that of boards too, with its source; None with the reason where it is not known."""
    figure = figure_of(measured.figures, (ENERGY, "mean")) if measured else None
    if figure is None or measured is None:
        return None, _NO_ENERGY
    if BOARD_ENERGY in measured.run.unmeasured:
        return None, f"{BOARD_ENERGY} is unmeasured: {measured.run.unmeasured[BOARD_ENERGY]}"
    boards = figure_of(measured.figures, (BOARD_ENERGY, "mean"))
    found = [one for one in (figure, boards) if one]
    of_call = rows_of_call(measured.run.conditions.get("batch_size", ""))  # the energy is that of a row
    return sum(one.estimate.value for one in found) * of_call, " + ".join(one.source for one in found)


def _energy(options: argparse.Namespace, joules: float | None, source: str) -> EnergyOfMillion | None:
    if joules is None or (options.price_per_kwh is None and options.grams_per_kwh is None):
        return None
    kwh = joules * MILLION / J_PER_KWH
    return EnergyOfMillion(
        kwh=kwh,
        source=source,
        price=None if options.price_per_kwh is None else kwh * options.price_per_kwh,
        grams=None if options.grams_per_kwh is None else kwh * options.grams_per_kwh,
    )


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
