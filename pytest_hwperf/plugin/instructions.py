"""Instructions of a call: by the processor's counter within the measurement, or in a fresh process under Valgrind."""

from array import array

import pytest

from pytest_hwperf.core.errors import HwperfError, MeterUnavailable
from pytest_hwperf.core.records import Sample
from pytest_hwperf.core.statements import Statement, said, state
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.meters.cpu.callgrind import SOURCE, slopes, under_callgrind
from pytest_hwperf.meters.cpu.instructions import InstructionMeter, instruction_meter
from pytest_hwperf.plugin.inherited_options import command_for
from pytest_hwperf.plugin.long_work import time_told
from pytest_hwperf.plugin.session import session_of, test_of
from pytest_hwperf.plugin.timeouts import timeout_paused

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
