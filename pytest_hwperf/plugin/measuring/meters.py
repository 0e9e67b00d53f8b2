"""The meters of a measurement, most of them of energy, and the power of the idle machine around it."""

import os
from collections.abc import Sequence

import pytest

from pytest_hwperf.measure.rounds import BETWEEN, RoundStream
from pytest_hwperf.measure.samples import net_energy
from pytest_hwperf.measure.sampling import RawSamples
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.meters.energy_window import idle_watts
from pytest_hwperf.meters.process import CpuTimeMeter, InstructionMeter, instruction_meter
from pytest_hwperf.plugin.session.state import session_of, test_of
from pytest_hwperf.records.contracts import CountingMeter, Meter
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import BOARD_ENERGY, BOARD_UTILISATION, ENERGY
from pytest_hwperf.records.run import Reading, Sample


def meters_of(item: pytest.Item, subject: Subject, absent: dict[str, Statement]) -> list[Meter]:
    """Return the meters of a measurement; note metric → why there is none in `absent`."""
    found = _energy_meters(item, absent)
    if test_of(item).markers.ask_for(BOARD_UTILISATION):  # windows of more than a second
        try:
            found.insert(0, session_of(item.config).utilisation(on_gpu=subject.on_gpu))
        except MeterUnavailable as reason:
            absent[BOARD_UTILISATION] = said(reason)
    return found


def meters_around(stream: Stream, meters: list[Meter]) -> tuple[list[Meter], dict[str, Statement]]:
    """Leave the meters that count calls alone where more is done between them; return metric → why for the others."""
    if not isinstance(stream, RoundStream) or not stream.is_interrupted:
        return meters, {}
    others = (meter.metric for meter in meters if not isinstance(meter, CpuTimeMeter))
    return [CpuTimeMeter(lambda: stream.cpu_s, children=float)], dict.fromkeys(others, said(BETWEEN))


def _energy_meters(item: pytest.Item, absent: dict[str, Statement]) -> list[Meter]:
    """Return the meters of CPU time and energy.

    Each is read within the window of those before it: what pauses or waits for its counter comes first, and CPU time
    last, since waiting is no work of the calls.
    """
    shared, found = session_of(item.config), list[Meter]([CpuTimeMeter()])
    is_used = shared.settings.keeps_runs or shared.settings.carbon or test_of(item).markers.ask_for(ENERGY)
    if shared.energy is None:
        absent[ENERGY] = state("energy off")
        return found
    if isinstance(shared.energy, CountingMeter) and not is_used:  # five windows of half a second
        absent[ENERGY] = state("energy takes seconds", source=shared.energy.source)
        return found
    found.insert(0, shared.energy)
    try:
        if is_used and (boards := shared.boards()):  # windows of a board take seconds too
            found.insert(0, boards)
    except MeterUnavailable as reason:
        absent[BOARD_ENERGY] = said(reason)
    return found


class IdlePower:
    """Power of the idle machine before and after a measurement, read where a budget or margin of energy is given.

    Each reading takes 2 s. An estimate has no idle power, and a board's counter takes too long to read it.
    """

    def __init__(self, item: pytest.Item) -> None:
        meter = session_of(item.config).energy
        self._meter: CountingMeter | None = None
        if isinstance(meter, CountingMeter) and meter.covers == "processors" and test_of(item).markers.ask_for(ENERGY):
            self._meter = meter
        self._watts = list[Reading]()

    def watch(self) -> None:
        """Read it now."""
        if self._meter is not None:
            self._watts.append(idle_watts(self._meter, os.cpu_count() or 1))

    def taken_off(
        self, measured: RawSamples, samples: Sequence[Sample], rows: int | None
    ) -> tuple[list[Sample], dict[str, Statement]]:
        """Return the net energy as a sample, or why there is none; nothing where it is not read."""
        energy = next((sample for sample in samples if self._meter and sample.metric == self._meter.metric), None)
        if self._meter is None or energy is None:
            return [], {}
        return net_energy(measured, energy, self._watts, rows=rows)


INSTRUCTIONS = InstructionMeter.metric


def instruction_meter_of(item: pytest.Item) -> tuple[InstructionMeter | None, dict[str, Statement]]:
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
