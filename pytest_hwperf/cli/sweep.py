"""`hwperf sweep`: one model at several batch sizes and thread counts, and the best of them within the limits."""

import argparse
import os
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from functools import partial
from secrets import randbelow
from time import monotonic
from typing import get_args

from pytest_hwperf import registry
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli import output
from pytest_hwperf.cli.inputs import read_data
from pytest_hwperf.gate.models.compare import save_rows
from pytest_hwperf.gate.models.sweeps import (
    ROUNDS,
    ModelAtPoints,
    SweepTools,
    Swept,
    memory_of,
    sweep_model,
    watch_machine,
)
from pytest_hwperf.gate.models.targets import check_target, find_module
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import BATCH, SweepPlan, parse_sweep
from pytest_hwperf.records.report import Goal, Sweep, SweepFile, SweepPoint
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports import plots
from pytest_hwperf.reports.sweeps import document_of, notes_of
from pytest_hwperf.stats.choice.sweeps import row_of

_LIMITS = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "throughput_min_sps", "memory_max_mb")
_LARGEST = "largest"
_LONGEST_S = 3600
_SEEDS = 1 << 31


def run(options: argparse.Namespace) -> int:
    """Sweep, print the table, write what was asked for, and return the exit code."""
    plan, seed = _plan(options), randbelow(_SEEDS) if options.seed is None else options.seed
    if not 0 <= seed < _SEEDS:
        raise UsageProblem(f"--seed={seed}: a whole number from 0 up to {_SEEDS - 1}")
    check_target(options.model, ("function", "ONNX file"))
    arg.check_seconds(_LONGEST_S, "2", time=options.time)
    if options.plot:
        plots.check_matplotlib()
    X, _ = read_data(options.data, options.target)
    if (most := max(int(size) for size in plan.axes[BATCH])) > len(X):
        few = f"{most} rows a call, and the data has {len(X)}"
        raise UsageProblem(f"--batch-size: {few}: give smaller batches or more data")
    find_module(options.model)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    meter = registry.open_energy_meter(options.energy, os.environ, "--energy")
    with closing(meter) if meter else nullcontext(), workdir() as folder:
        if options.goal == "energy" and meter is None:
            raise UsageProblem("--goal=energy needs a source of energy: leave --energy=off out")
        tools = SweepTools(
            measure=ModelAtPoints(options.model, X, meter).measure,
            memory=None
            if options.memory_max_mb is None
            else partial(memory_of, options.model, save_rows(folder, X, None)),
            most_rows=len(X) if options.batch_size == _LARGEST else 0,
            watch=watch_machine,
            progress=_SweepProgress(len(plan.points()) * options.time),
        )
        common = {"sweep": options.model, "limits": plan.limits, "rate": plan.rate, "serving_batch": plan.serving_batch}
        points = [SweepPoint(values=values, **common) for values in plan.points()]
        found = sweep_model(options.model, points, tools, seed=seed, round_s=options.time / ROUNDS)
    output.clear_progress()
    output.show_document([*document_of(found.sweep), *notes_of([found.sweep])])
    _write(options, found, started)
    return output.INTERRUPTED if found.is_interrupted else exit_code(found.sweep, options.goal)


def exit_code(sweep: Sweep, goal: Goal) -> int:
    """Return 0 where there is a best point for the goal, 1 where every point misses a limit, else 3."""
    if any(best.goal == goal for best in sweep.best):
        return output.OK
    searched = [row_of(replace(row.point, skipped=None), row.figures) for row in sweep.rows if row.figures]
    outcomes = [row.outcome for row in sweep.rows if row.is_measured] or [row.outcome for row in searched]
    return output.FAILED if outcomes and all(outcome == "failed" for outcome in outcomes) else output.INCONCLUSIVE


class _SweepProgress:
    """The line of progress, with about the time that is left."""

    def __init__(self, seconds: float) -> None:
        """Expect calls of so many seconds; warming up takes some more."""
        self._line, self._seconds, self._began = output.progress_line(), seconds, 0.0

    def __call__(self, stage: str, point: str, done: float) -> None:
        """Show the stage, and on a terminal the point and the time left; `done` is the share of the rounds."""
        if not done:
            self._began = monotonic()
        left = (monotonic() - self._began) / done * (1 - done) if done else self._seconds
        self._line.show(f"sweep: {stage}", f", {point}, about {max(1, round(left))} s left")


def _plan(options: argparse.Namespace) -> SweepPlan:
    given = {name: getattr(options, name) for name in (*_LIMITS, "rate_sps", "serving_batch")}
    if options.batch_size == _LARGEST and options.memory_max_mb is None:
        raise UsageProblem(f"--batch-size={_LARGEST} searches within a limit on memory: add --memory-max-mb")
    batches = [1] if options.batch_size == _LARGEST else _numbers("--batch-size", options.batch_size)
    axes = {BATCH: batches, "threads": _numbers("--threads", options.threads)}
    try:
        return parse_sweep({**axes, **{name: value for name, value in given.items() if value is not None}})
    except UsageProblem as problem:
        raise UsageProblem(str(problem).replace("hwsweep(", "(")) from problem


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageProblem(f"{option}={text}: give whole numbers with commas between them, such as 1,8,32") from None


def _write(options: argparse.Namespace, found: Swept, started: str) -> None:
    if options.json:
        record = SweepFile(
            machine=describe_machine(),
            model=options.model,
            started_at=started,
            seed=found.seed,
            rounds=found.rounds,
            partial=found.is_interrupted,
            sweep=found.sweep,
        )
        output.write_record(options.json, record)
        output.say(f"wrote {options.json}")
    if options.plot and any(row.is_measured for row in found.sweep.rows):
        output.write_file(options.plot, plots.render_sweep(found.sweep))
        output.say(f"wrote {options.plot}")


_ARGUMENTS = (
    arg.option("model", "MODEL", "measure this ONNX file or module:function"),
    arg.option("--data", "FILE", arg.DATA, required=True),
    *(arg.TARGET, arg.written_json("the report")),
    arg.option("--batch-size", "ROWS,…|largest", "try these batch sizes, or search the largest", default="1,8,32,128"),
    arg.option("--threads", "N,…", "try these thread counts of the runtime and BLAS", default="1"),
    *(
        arg.option(f"--{name.replace('_', '-')}", "LIMIT", f"keep within hwbudget({name}=LIMIT)", type=float)
        for name in _LIMITS
    ),
    arg.option("--rate-sps", "ROWS", "add the fill delay at this many arriving rows a second", type=float),
    arg.option("--serving-batch", "ROWS", "note if the sweep lacks this production batch size", type=int),
    arg.option("--goal", None, "find the best point for this goal", choices=get_args(Goal), default="throughput"),
    arg.seconds("--time", 2.0, "measure each point for this long, six calls at least"),
    arg.option("--energy", "auto|off|SOURCE", "read energy from this source, like --hwperf-energy", default="auto"),
    arg.option("--seed", "N", "draw the order of points from this; default: drawn, and shown", type=int),
    arg.option("--plot", "FILE", "write a picture as PNG; needs matplotlib"),
)
COMMAND = arg.Subcommand(
    "sweep",
    run,
    "measure a model at several batch sizes and thread counts",
    _ARGUMENTS,
    "Measure one model at several batch sizes and thread counts, in random order. Name the best within the limits.",
    answers={
        0: "found the best point for the goal",
        1: "every point misses a limit",
        3: "no point is known to be best: some are inconclusive or unmeasured",
    },
)
