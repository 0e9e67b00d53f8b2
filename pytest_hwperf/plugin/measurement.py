"""Make one run: sample a subject between meters, then ask fresh processes for what only they can tell."""

import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from pytest_hwperf.core.carbon import carbon_samples
from pytest_hwperf.core.contracts import CountingMeter
from pytest_hwperf.core.errors import MeterUnavailable
from pytest_hwperf.core.estimates import enough
from pytest_hwperf.core.records import Reading, Run, Sample
from pytest_hwperf.host.control_groups import control_groups
from pytest_hwperf.host.interference import Interference, snapshot
from pytest_hwperf.measure.pair_target import ARENA, arena_samples, exact_samples
from pytest_hwperf.measure.plan import Pace
from pytest_hwperf.measure.samples import net_energy, samples_of
from pytest_hwperf.measure.sampling import Measured, Sampler, Stream
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.meters.cpu.cpu_time import CpuTimeMeter
from pytest_hwperf.meters.energy.idle_power import idle_watts
from pytest_hwperf.plugin.command_line import COLD, MEMORY, ask_for
from pytest_hwperf.plugin.session import session_state
from pytest_hwperf.plugin.state import MARKERS, OBEYING, SETTINGS
from pytest_hwperf.scenarios.threads import oversubscription

if TYPE_CHECKING:
    from pytest_hwperf.core.contracts import Meter


def perform(item: pytest.Item, subject: Subject, label: str) -> Run:
    """Measure `subject` for a test, or do with it what a fresh process was asked for."""
    if OBEYING in item.config.stash:
        return item.config.stash[OBEYING].perform(item, subject, label)
    if item.config.stash[SETTINGS].disable:
        return once(item, subject, label)
    run = measure(item, subject, label)
    for role, metrics in (("memory", MEMORY), ("cold", COLD)):
        if _wanted(item, metrics):
            run = _extended(run, *ask_for(item, role, label))  # type: ignore[arg-type] # the two roles by name
    return _extended(run, *arena_samples(subject)) if _wanted(item, (*MEMORY, *ARENA)) else run


def once(item: pytest.Item, subject: Subject, label: str) -> Run:
    """Call the subject a single time: what a body reads of its run is there, and nothing of it is judged or stored."""
    loaded = subject.load()
    with loaded.scope():
        before = perf_counter()
        result = Stream(loaded.function, loaded.inputs).once()
        seconds = perf_counter() - before
    return of_one_call(item, subject, label, result, seconds)


def of_one_call(item: pytest.Item, subject: Subject, label: str, result: object, seconds: float) -> Run:
    """Return the run that a body gets where its measurement is made by others, or not at all."""
    taken = array("d", [seconds])
    samples = tuple(
        Sample(metric=metric, values=taken, per="call", source="perf_counter", warnings=("a single cold call",))
        for metric in ("latency", "first_call")
    )
    return replace(empty_run(item, label), scenario=subject.scenario, samples=samples, result=result)


def empty_run(item: pytest.Item, label: str = "") -> Run:
    """Return a run without samples: what a test's own metrics are recorded in where nothing was measured."""
    shared = session_state(item.config)
    return Run(
        test=item.nodeid,
        label=label,
        scenario="",
        machine=shared.machine,
        revision=shared.revision,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        samples=(),
        conditions={},
        context={},
    )


def measure(item: pytest.Item, subject: Subject, label: str) -> Run:
    """Measure everything that this process can tell of `subject`.

    Raises:
        MeasurementError: NaN outputs, or predictions of another length than the labels.
    """
    shared = session_state(item.config)
    budgets, rows = item.stash[MARKERS].budgets, subject.rows
    idle = _Idle(item)
    machine = shared.machine

    def satisfied(measured: Measured) -> bool:
        samples, _ = samples_of(measured, meters, rows=rows, cores=machine.cores)
        return enough(samples, budgets)

    loaded, run = subject.load(), empty_run(item, label)
    meters, absent = _meters(item)
    idle.watch()
    watch = Interference(partial(snapshot, groups=tuple(control_groups())))
    with loaded.scope():
        sampler = Sampler(Stream(loaded.function, loaded.inputs), Pace(max_time_s=shared.settings.max_time_s))
        measured = sampler.measure(meters, satisfied)
        context, disturbed = watch.end()
        predicted = loaded.labels() if loaded.labels else None
    crowd = oversubscription(subject.conditions.get("threads"), machine.cores)
    warnings = [*filter(None, [subject.context.get("warning"), shared.neighbours, crowd]), *disturbed]
    idle.watch()
    samples, unmeasured = samples_of(measured, meters, rows=rows, cores=machine.cores, warnings=warnings)
    net, withheld = idle.taken_off(measured, samples, rows)
    exact, missing = exact_samples(subject, predicted)
    run = replace(
        run,
        scenario=subject.scenario,
        samples=(*samples, *net, *exact),
        conditions=subject.conditions,
        context={**subject.context, **context, **shared.coefficients},
        unmeasured={**absent, **unmeasured, **withheld, **missing},
        result=measured.result,
    )
    return _extended(run, *carbon_samples(run.samples, run.unmeasured, shared.settings.carbon, rows=rows))


def _meters(item: pytest.Item) -> "tuple[list[Meter], dict[str, str]]":
    """Return the meters of a measurement, and metric → why there is none.

    Each is read within the window of those before it: what pauses or waits for its counter comes first, and CPU time
    last, since waiting is no work of the calls.
    """
    shared, absent = session_state(item.config), dict[str, str]()
    found: list[Meter] = [CpuTimeMeter()]
    if shared.energy is None:
        absent["energy"] = "energy is off (--hwperf-energy=off)"
        return found, absent
    if isinstance(shared.energy, CountingMeter) and not _energy_is_asked(item):  # five windows of half a second
        absent["energy"] = f"{shared.energy.source} takes seconds: name energy in a budget or a margin, or save"
        return found, absent
    found.insert(0, shared.energy)
    if _energy_is_asked(item):  # windows of a board take seconds too
        try:
            boards = shared.boards()
        except MeterUnavailable as reason:
            absent["gpu_energy"] = str(reason)
        else:
            found[:0] = [boards] if boards else []
    return found, absent


def _energy_is_asked(item: pytest.Item) -> bool:
    """Whether somebody will look at the energy: a budget, a margin, a baseline, or what carbon is made of."""
    settings = item.config.stash[SETTINGS]
    stored = settings.save or settings.compare
    return bool(stored or settings.carbon) or _wanted(item, ("energy",))


class _Idle:
    """Power of the idle machine before and after a measurement, watched where a budget or margin speaks of energy.

    Each look takes 2 s. An estimate has no idle power, and a board's counter takes too long to tell it.
    """

    def __init__(self, item: pytest.Item) -> None:
        meter = session_state(item.config).energy
        self._meter: CountingMeter | None = None
        if isinstance(meter, CountingMeter) and not meter.source.startswith("nvml") and _wanted(item, ("energy",)):
            self._meter = meter
        self._watts = list[Reading]()

    def watch(self) -> None:
        """Look now."""
        if self._meter is not None:
            self._watts.append(idle_watts(self._meter, os.cpu_count() or 1))

    def taken_off(
        self, measured: Measured, samples: Sequence[Sample], rows: int | None
    ) -> tuple[list[Sample], dict[str, str]]:
        """Return the net energy as a sample, or why there is none; nothing at all where nobody asked."""
        energy = next((sample for sample in samples if sample.metric == "energy"), None)
        if self._meter is None or energy is None:
            return [], {}
        return net_energy(measured, energy, self._watts, rows=rows)


def _wanted(item: pytest.Item, metrics: Sequence[str]) -> bool:
    """Whether a budget, or a margin that the user named, speaks of one of `metrics`: each costs fresh processes."""
    markers = item.stash[MARKERS]
    asked = {*(budget.metric for budget in markers.budgets), *(margin.metric for margin in markers.named)}
    return not asked.isdisjoint(metrics)


def _extended(run: Run, samples: Sequence[Sample], unmeasured: Mapping[str, str]) -> Run:
    return replace(run, samples=(*run.samples, *samples), unmeasured={**run.unmeasured, **unmeasured})
