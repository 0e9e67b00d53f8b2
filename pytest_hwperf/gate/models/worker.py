"""The worker program of `hwperf compare`, which runs without pytest: it loads one model and takes turns."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hwperf.gate.models.targets import find_module, function_of, kind_of
from pytest_hwperf.gate.pair.channel import Ended, Ready
from pytest_hwperf.gate.pair.turns import Turns
from pytest_hwperf.host.launch import Command, undisturbed
from pytest_hwperf.host.source_files import loaded_files, modules_before_pytest
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, ModelSpec, WorkerTask, decode_task, reply
from pytest_hwperf.records.errors import HwperfError, UsageProblem, WorkerError
from pytest_hwperf.stats.pairs.hypotheses import SideOutcome

if TYPE_CHECKING:
    from pytest_hwperf.measure.subjects import Subject


def command_of(spec: ModelSpec) -> Command:
    """Return what starts a process that measures a model."""
    return Command(
        module="pytest_hwperf.gate.models.worker",
        arguments=[],
        model=spec,
        directory=Path.cwd(),
        environment=undisturbed(os.environ),
    )


def subject_of(spec: ModelSpec) -> "Subject":
    """Return the model as something to measure; nothing of it is loaded yet, but the module of a function."""
    import numpy as np

    with np.load(spec.data, allow_pickle=False) as data:
        X, y, classes = data["X"], data.get("y"), data.get("classes")
    kind = kind_of(spec.model)
    if kind == "address":
        from pytest_hwperf.gate.models.requests import subject_of_endpoint

        return subject_of_endpoint(spec, X, y)
    if kind == "estimator":
        from pytest_hwperf.gate.models.targets import subject_of_estimator

        return subject_of_estimator(spec, X, y)
    from pytest_hwperf.measure.subjects import subject_of_callable, subject_of_scenario, with_classes

    if kind == "function":
        return subject_of_callable(function_of(spec.model), (X,), {}, y_true=y, batch_size=spec.batch_size)
    from pytest_hwperf.runtimes.onnx_file import compared_file

    # Whether outputs are labels is known only where there are some to hold them against.
    scenario = replace(compared_file(Path(spec.model), spec.threads), classifies=y is not None)
    return with_classes(subject_of_scenario(scenario, X, y, spec.batch_size), classes)


def main() -> int:
    """Take turns with the other model; return the exit code of the process."""
    try:
        task = decode_task(os.environ.get(ENVIRONMENT, ""))
        if task.model is None:
            raise UsageProblem("this module is started by hwperf compare, not by hand")
        spec = task.model
        if task.role == "memory":
            return _reply_memory(task, spec)
        turns = Turns.connect(task)
        find_module(spec.model, spec.trust)
    except HwperfError as error:
        print(f"hwperf: {error}", file=sys.stderr)
        return 4
    if turns.chosen([spec.test], {}):
        ended = SideOutcome(outcome="passed")
        try:
            _serve(turns, spec)
        except WorkerError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a third-party model raises is the reason to report
            ended = SideOutcome(outcome="failed", reason=_reason_of(error, spec)[:500])
        turns.send(Ended(node=spec.test, ended=ended))
    turns.bye(loaded_files(), modules=modules_before_pytest())
    return 0


def _reply_memory(task: WorkerTask, spec: ModelSpec) -> int:
    """Measure the memory of loading the model and calling it; of what it raises the log has the traceback."""
    from pytest_hwperf.host.source_files import own_code, watch_imports
    from pytest_hwperf.measure.subjects import loader_of
    from pytest_hwperf.measure.worker_tasks import Startup, measure_memory
    from pytest_hwperf.meters.memory import MemoryMeter

    find_module(spec.model, spec.trust)
    probe = MemoryMeter()
    startup = Startup(own_code(Path.cwd()), probe.enter)
    watch_imports(startup.importing)
    subject = subject_of(spec)
    reply(measure_memory(subject.imports, loader_of(subject), startup, probe, growing=task.growth), task)
    return 0


def _reason_of(error: Exception, spec: ModelSpec) -> str:
    """Return why a model cannot be measured: a sentence of its own, or what a trial of its file shows."""
    import numpy as np

    if isinstance(error, HwperfError):
        return str(error)
    why = ""
    if kind_of(spec.model) == "ONNX file":
        from pytest_hwperf.runtimes.onnx_file import why_refused

        with np.load(spec.data, allow_pickle=False) as data:
            why = why_refused(Path(spec.model), data["X"], spec.batch_size)
    return why or f"{type(error).__name__}: {error}"


def _serve(turns: Turns, spec: ModelSpec) -> None:
    from pytest_hwperf.measure.accuracy import refuse_nan
    from pytest_hwperf.measure.pair_target import ready_target

    with ready_target(subject_of(spec), lambda: None, hold_collector=spec.hold_collector) as (target, first):
        refuse_nan(first.value)
        target.refuse_unnamed(first.value)
        turns.serve(Ready(node=spec.test, index=0, label=spec.label), target)


if __name__ == "__main__":
    sys.exit(main())
