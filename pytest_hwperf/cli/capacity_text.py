"""What `hwperf capacity` says: a line for each rule, with the figures that it follows from."""

import argparse
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_hwperf.core import capacity
from pytest_hwperf.core.capacity import HIGH, SAFETY, TOO_HIGH, Service
from pytest_hwperf.core.loads import FASTEST_QPS, MOST_IN_FLIGHT
from pytest_hwperf.core.metrics import ENERGY, MEDIAN_LATENCY
from pytest_hwperf.core.records import Judgement, figure_of
from pytest_hwperf.core.units import counted, show, show_number

_J_PER_KWH = 3.6e6
_MOST_DIGITS = 9  # of the rows of a call
_ALIKE = ("batch_size", "threads", "precision")  # conditions of a load on what is planned with
_LOAD = re.compile(r"\b(qps|in_flight|shape)=(\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?)(?=\s|$)")
_MEANS: Mapping[capacity.Level, str] = {
    "safe": "safe",
    "high": f"over {HIGH:.0%}, little is left for a peak",
    "too high": f"over {TOO_HIGH:.0%}, where waits grow steeply",
    "no steady state": "no steady state: more arrives than is served, and the queue grows for ever",
}


def named(one: Judgement) -> str:
    """Name a measurement of a report."""
    return " ".join(part for part in (one.run.test, one.run.scenario, one.run.label) if part)


def is_load(one: Judgement) -> bool:
    """Whether calls arrived in another way than one after the other."""
    return one.run.conditions.get("load", "single_stream") != "single_stream"


def lines_of(options: argparse.Namespace, service: Service, measured: Judgement | None) -> Iterator[str]:
    """Yield the lines of a plan.

    Args:
        options: of the command.
        service: all requests of the servers.
        measured: what is planned with, None where its times were typed.
    """
    yield from _busy(service, options.servers)
    yield from _waits(service, options.servers, options.arrivals_variation)
    yield from _instances(options, service)
    yield from _memory(options, measured)
    yield from _prices(options, service, measured)


def load_lines(service: Service, measured: Judgement | None, judgements: Sequence[Judgement]) -> Iterator[str]:
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
        yield _line("measured", f"{load}: latency {show(found.estimate.value, 's')} on average; {theory}")


def _is_load_of(one: Judgement, measured: Judgement) -> bool:
    """Whether a load from a schedule was put on what is planned with."""
    conditions, alike = one.run.conditions, measured.run.conditions
    return (
        conditions.get("load", "").startswith("server ")
        and one.run.scenario == measured.run.scenario
        and bool(one.run.scenario or one.run.test == measured.run.test)
        and all(conditions.get(name) == alike.get(name) for name in _ALIKE)
    )


def _line(title: str, text: str) -> str:
    return f"{title:<13}{text}"


def _busy(service: Service, servers: int) -> Iterator[str]:
    busy, full = capacity.utilisation(service, servers), servers / service.seconds
    yield _line("utilisation", f"{busy:.3f}: {_MEANS[capacity.level(busy)]}")
    shares = ", ".join(f"{share:.0%} at {show(share * full, '1/s')}" for share in (HIGH, TOO_HIGH))
    yield _line(
        "", f"{show(service.arrivals, '1/s')} arrive, {counted(servers, 'server')} can do {show(full, '1/s')}; {shares}"
    )


def _waits(service: Service, servers: int, arrivals_variation: float | None) -> Iterator[str]:
    given = 1.0 if arrivals_variation is None else arrivals_variation
    title = "wait"
    for wait in capacity.waits(service, servers, given):
        if wait.model == "M/G/1" and service.variation == 1:
            continue  # as M/M/1
        ends = [("p95", wait.p95_s), ("p99", wait.p99_s)]
        response = ", ".join(f"{name} {show(value, 's')}" for name, value in ends if value is not None)
        text = f"{wait.model:<8}{show(wait.seconds, 's')} on average"
        if wait.model in ("M/G/1", "Kingman") or wait.model.startswith("G/G/"):
            text += f", service times varying by {service.variation:.2f} of their mean"
        yield _line(title, f"{text}; with the service {response}" if response else text)
        title = ""


def _instances(options: argparse.Namespace, service: Service) -> Iterator[str]:
    if options.peak is None:
        return
    safety = SAFETY if options.safety is None else options.safety
    one = options.servers / service.seconds
    found = capacity.instances(options.peak, one, safety)
    other = {"safety factor": found.by_utilisation, "utilisation": found.by_safety}.get(found.rule)
    alone = "" if other is None else f", the other rule alone says {other}"
    rule = "both rules" if found.rule == "both" else f"the {found.rule}"
    yield _line(
        "instances",
        f"{found.count} for a peak of {show(options.peak, '1/s')} by {rule}{alone}; each {found.utilisation:.0%} busy",
    )
    yield _line(
        "", f"rules: {safety:g} times the peak, and at most {HIGH:.0%} busy; one to spare for a failure is one more"
    )


def _memory(options: argparse.Namespace, measured: Judgement | None) -> Iterator[str]:
    if options.memory_mb is None:
        return
    each, what = _request_bytes(options, measured)
    if each is None:
        yield _line("memory", "not known: give --request-mb, or a report with the metric memory")
        return
    base = (options.base_mb or 0.0) * 1e6
    found = capacity.concurrency(options.memory_mb * 1e6, each, base, options.cores)
    without = f"after a base of {show(base, 'B')}, counted once" if base else "without a base, which was not given"
    yield _line("memory", f"{counted(found.by_memory, 'request')} at once, {show(each, 'B')} each{what}")
    yield _line("", without)
    limit = "the cores are the limit" if found.cores < found.by_memory else "the memory is the limit"
    yield _line("", f"{counted(found.cores, 'core')}: {limit}")


def _request_bytes(options: argparse.Namespace, measured: Judgement | None) -> tuple[float | None, str]:
    """Return the bytes of a request, and how they were found."""
    if options.request_mb is not None:
        return options.request_mb * 1e6, ""
    figure = figure_of(measured.figures, ("memory", "p50")) if measured else None
    return (figure.estimate.value, ", each in a process of its own with its model") if figure else (None, "")


def _prices(options: argparse.Namespace, service: Service, measured: Judgement | None) -> Iterator[str]:
    served = min(service.arrivals, options.servers / service.seconds)
    if options.price_per_hour is not None:
        price = capacity.per_million(options.price_per_hour, served)
        yield _line("cost", f"{show_number(price)} a million requests, at {show(served, '1/s')} on one instance")
    if options.price_per_kwh is None and options.grams_per_kwh is None:
        return
    figure = figure_of(measured.figures, (ENERGY, "mean")) if measured else None
    if figure is None or measured is None:
        yield _line("energy", "not known: give a report with the metric energy")
        return
    rows = measured.run.conditions.get("batch_size", "")  # the energy is that of a row, and a request is a call
    of_call = figure.estimate.value * (int(rows) if rows.isdecimal() and len(rows) <= _MOST_DIGITS else 1)
    kwh = of_call * 1e6 / _J_PER_KWH
    told = [f"{show_number(kwh)} kWh a million requests ({figure.source})"]
    if options.price_per_kwh is not None:
        told.append(f"{show_number(kwh * options.price_per_kwh)} for it")
    if options.grams_per_kwh is not None:
        told.append(f"{show(kwh * options.grams_per_kwh, 'g')} of CO2")
    yield _line("energy", ", ".join(told))
