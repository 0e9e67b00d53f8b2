"""Comparison of two models, or of one with itself, in pairs of fresh processes; and what two versions of one are."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.models.requests import requests_in
from pytest_hwperf.gate.models.sweeps import memory_figures
from pytest_hwperf.gate.models.targets import kind_of, shown
from pytest_hwperf.gate.models.worker import command_of
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.processes import answers_of
from pytest_hwperf.gate.rehearsal import repeat_alarms
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.files import digest_of, is_file
from pytest_hwperf.host.launch import Command, undisturbed
from pytest_hwperf.host.pinning import cores_first, processors
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, Gate, Measurement, Side
from pytest_hwperf.records.markers import DEFAULT_MARGINS, MODELS_COMPARED
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import taken_by
from pytest_hwperf.records.run import Figure, Key
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Budget, Comparison, Margin
from pytest_hwperf.runtimes.onnx_source import read_source
from pytest_hwperf.stats.choice.rollout import Contender, Requests, figures_of, taken_for
from pytest_hwperf.stats.pairs.hypotheses import SIDES, MeasuredTest, Questions, questions_of
from pytest_hwperf.stats.pairs.timetable import rounded_up, seconds_needed_from_rehearsal

_HERE = Measurement(test="compare", label="")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSettings:
    """How two models are compared."""

    margins: Sequence[Margin] = MODELS_COMPARED
    alpha: float = 0.01  # false-alarm rate of all comparisons together
    batch_size: int = 1
    threads: int = 1
    time_s: float = 600.0  # for all of it; what runs then is cut off
    until_equivalent: bool = False  # whether what stays inconclusive is asked in further pairs
    hold_collector: bool = False  # the garbage collector runs between calls alone
    trust: Sequence[str] = ()  # types of estimators' files that may be loaded, beside those of the libraries
    headers: Mapping[str, str] = field(default_factory=dict)  # of requests
    timeout_s: float = 10.0  # of a request
    requests_to: str = ""  # folder with a folder for each side, in which failed requests are counted
    classes: Any | None = None  # labels of the columns of files that do not name them themselves, shape (k,)
    also: Sequence[Key] = ()  # statistics that each pair takes of both sides, beside those that are compared
    measurement: Measurement = _HERE  # what it is called in the evidence
    progress: Callable[[Progress], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfComparison:
    """What pairs of equal processes have shown."""

    changes: tuple[float, ...]  # log of one side's median latency over the other's, one a pair, in time order
    latency_s: float | None  # median call, None without pairs
    seconds: float  # wall time of all pairs, without the rehearsal
    lost: str  # why pairs were lost and it ended early, "" where none was


def compare_models(
    old: str, new: str, X: Any, y: Any | None, settings: CompareSettings
) -> tuple[tuple[Comparison, ...], Gate]:
    """Let two models take turns on the same rows."""
    until, late = monotonic() + settings.time_s, state("out of time", limit=settings.time_s)
    with rehearsed(old, new, X, y, settings, until) as (conductor, questions):
        if {"function", "address"} & {kind_of(old), kind_of(new)}:  # a file is the same model in every process
            again = partial(conductor.rehearse, until=until)
            repeat_alarms(questions, settings.alpha, again, in_time=lambda: monotonic() < until, why_late=late)
        evidence = conductor.conduct(_asked(questions, settings), until, late)
    answers = answers_of(evidence, questions, conductor.dropped, {settings.measurement})
    named = [margin.key for margin in settings.margins]
    found = answers.of(settings.measurement, settings.margins, (), named).values()
    return tuple(found), _gate(shown(old), conductor, evidence)


def compare_with_itself(model: str, X: Any, settings: CompareSettings) -> SelfComparison:
    """Let a model take turns with itself until the time is up: what differs is the noise of this machine.

    The last pair may end a little later.
    """
    until = monotonic() + settings.time_s
    changes, latencies, lost = list[float](), list[float](), ""
    with rehearsed(model, model, X, None, settings, until) as (conductor, questions):
        asked = _asked(questions, settings)
        began = monotonic()
        while monotonic() < until:
            # A round ends when the gate would have decided; what it observed is kept, and the next begins from nothing.
            seen = conductor.conduct(asked, until, None)
            observed = [one for pair in seen.pairs for one in pair.observations]
            changes += [one.change for one in observed if one.change is not None]
            latencies += [value for one in observed for value in one.baseline]
            if seen.stopped or seen.dropped or not seen.pairs:
                lost = str(seen.stopped or next(iter(conductor.dropped.values()), ""))
                break
        seconds = monotonic() - began
    return SelfComparison(
        changes=tuple(changes),
        latency_s=sorted(latencies)[len(latencies) // 2] if latencies else None,
        seconds=seconds,
        lost=lost,
    )


@contextmanager
def rehearsed(
    old: str, new: str, X: Any, y: Any | None, settings: CompareSettings, until: float
) -> Iterator[tuple[Conductor, Questions]]:
    """Run a rehearsal; yield the conductor and what its pairs are to be asked."""
    with workdirs.workdir() as folder:
        data = save_rows(folder, X, y, settings.classes)
        models: dict[Side, str] = {"baseline": old, "candidate": new}
        commands = {side: command_of(model_spec(side, model, data, settings)) for side, model in models.items()}
        conductor = _conductor(commands, settings.progress, settings.also)
        trace = _trace(conductor, models, settings, until)
        node, margins = settings.measurement.test, tuple(settings.margins)
        test = MeasuredTest(node=node, margins=margins, named=frozenset(), budgeted=frozenset())
        with closing(conductor.share_imports(trace)):
            yield conductor, questions_of([test], trace, lost={}, name="", energy=None)


def _conductor(
    commands: Mapping[Side, Command], progress: Callable[[Progress], None], also: Sequence[Key] = ()
) -> Conductor:
    logs = workdirs.private_folder() / "logs"
    return Conductor(commands=commands, logs=logs, processors=cores_first(processors()), progress=progress, also=also)


def save_rows(folder: Path, X: Any, y: Any | None, classes: Any | None = None) -> Path:
    """Write rows, labels and classes to a file that fresh processes read."""
    import numpy as np

    given = {"X": X, "y": y, "classes": classes}
    arrays = {name: np.asarray(values) for name, values in given.items() if values is not None}
    if any(array.dtype == object for array in arrays.values()):
        raise UsageProblem("rows and labels are arrays of numbers or text; objects cannot cross to a fresh process")
    np.savez(folder / "data.npz", allow_pickle=False, **arrays)
    return folder / "data.npz"


def model_spec(side: Side, model: str, data: Path, settings: CompareSettings) -> ModelSpec:
    """Return what a process of one side measures."""
    return ModelSpec(
        model=model,
        data=str(data),
        batch_size=settings.batch_size,
        threads=settings.threads,
        hold_collector=settings.hold_collector,
        trust=tuple(settings.trust),
        headers=settings.headers,
        timeout_s=settings.timeout_s,
        requests_to=str(Path(settings.requests_to, side)) if settings.requests_to else "",
        test=settings.measurement.test,
        label=settings.measurement.label,
    )


def _trace(conductor: Conductor, models: Mapping[Side, str], settings: CompareSettings, until: float) -> PairTrace:
    node = settings.measurement.test
    trace = conductor.rehearse([node], until)
    outcomes = trace.outcomes.get(node, {})
    for side, model in models.items():
        if side in outcomes and outcomes[side].outcome == "failed":
            raise UsageProblem(f"{shown(model)} cannot be measured: {visible(outcomes[side].reason)}")
    if trace.lost and conductor.clock() >= until:
        needed = seconds_needed_from_rehearsal(1, 0, settings.alpha, conductor.seconds, trace.wall_s, trace.start_s)
        raise UsageProblem(
            f"the time of {settings.time_s:g} s was up before {models['baseline']} and {models['candidate']} had been "
            f"measured once: {trace.lost}; at least {rounded_up(max(needed, settings.time_s + 1))} s are needed, give "
            "more time"
        )
    if trace.lost:
        raise UsageProblem(f"the rehearsal of {models['baseline']} with {models['candidate']} failed: {trace.lost}")
    return trace


def _asked(questions: Questions, settings: CompareSettings) -> Evidence:
    return Evidence(
        alpha=settings.alpha,
        hypotheses=tuple(questions.hypotheses),
        pairs=(),
        until_equivalent=settings.until_equivalent,
        in_test=settings.measurement != _HERE,
        fixed_samples=tuple(questions.fixed_samples),
    )


_MARGIN = DEFAULT_MARGINS["latency_p50"]
# Options that keep a plugin from disturbing a worker; where it is missing, its option is an error.
_NEUTRAL = {"xdist": "-n0", "pytest_timeout": "--timeout=0", "pytest_cov": "--no-cov"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalSettings:
    """How measurements are compared with each other."""

    arguments: Sequence[str]  # of pytest, which select their tests
    alpha: float  # false-alarm rate of one comparison
    time_s: float  # for all of it
    progress: Callable[[Progress], None] = field(default=lambda _: None)


def compare_rivals(baseline: Measurement, candidate: Measurement, settings: RivalSettings) -> tuple[Comparison, Gate]:
    """Let two measurements take turns, each in its own fresh process of the suite, and compare their median latency."""
    until = monotonic() + settings.time_s
    name = f"{candidate.test} {candidate.label}".rstrip()
    sides: dict[Side, Measurement] = {"baseline": baseline, "candidate": candidate}
    commands = {side: _rival_command(settings.arguments, one, name) for side, one in sides.items()}
    conductor = _conductor(commands, settings.progress)
    here = Measurement(test=name, label="")
    asked = MeasuredTest(node=name, margins=(_MARGIN,), named=frozenset([_MARGIN.key]), budgeted=frozenset())
    trace = conductor.rehearse([name], until)
    questions = questions_of([asked], trace, lost={}, name="the other", energy=None)
    evidence = Evidence(alpha=settings.alpha, hypotheses=tuple(questions.hypotheses), pairs=(), until_equivalent=True)
    with closing(conductor.share_imports(trace)):
        # A share of the time of all pairs: three digits of it are enough.
        evidence = conductor.conduct(evidence, until, state("out of time", limit=float(f"{settings.time_s:.3g}")))
    answers = answers_of(evidence, questions, conductor.dropped, {here})
    found = answers.of(here, [_MARGIN], (), [_MARGIN.key])[_MARGIN.key]
    return found, _gate(baseline.test, conductor, evidence)


def _gate(against: str, conductor: Conductor, evidence: Evidence) -> Gate:
    return Gate(
        against=against,
        revision="",
        seed=conductor.seed,
        evidence=evidence,
        shared={},
        imports=conductor.imports,
        seconds=conductor.seconds,
    )


def _rival_command(arguments: Sequence[str], measurement: Measurement, name: str) -> Command:
    environment = undisturbed(os.environ)
    loads_all = "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in environment
    neutral = [option for module, option in _NEUTRAL.items() if loads_all and find_spec(module)]
    return Command(
        arguments=[*arguments, *neutral],
        directory=Path.cwd(),
        environment=environment,
        only={"node": measurement.test, "label": measurement.label, "called": name},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredVersions:
    """What was found of two versions."""

    comparisons: tuple[Comparison, ...]
    gate: Gate
    old: Contender
    new: Contender


def measure_versions(
    old: str, new: str, X: Any, y: Any | None, settings: CompareSettings, budgets: Sequence[Budget]
) -> MeasuredVersions:
    """Compare two versions in pairs, and take the figures of each that requirements are about."""
    with workdirs.workdir() as folder:
        for side in SIDES:
            (folder / side).mkdir()
        settings = replace(settings, also=taken_for(budgets), requests_to=str(folder))
        comparisons, gate = compare_models(old, new, X, y, settings)
        requests = {side: requests_in(folder / side) for side in SIDES}
        memory = _memory(new, X, settings, budgets, folder)
    targets: Mapping[Side, str] = {"baseline": old, "candidate": new}
    found = {
        side: contender(
            target,
            figures_of(gate.evidence, side, settings.batch_size) + (memory if side == "candidate" else ()),
            requests[side],
        )
        for side, target in targets.items()
    }
    return MeasuredVersions(comparisons=comparisons, gate=gate, old=found["baseline"], new=found["candidate"])


def contender(target: str, figures: tuple[Figure, ...] = (), requests: Requests | None = None) -> Contender:
    """Say what a target is: its kind, and of a file its digest and size."""
    kind, sha256, size = kind_of(target), "", None
    if kind == "ONNX file":
        source = read_source(Path(target))
        sha256, size = source.sha256, float(source.bytes)
    elif kind == "estimator":
        sha256, size = digest_of(Path(target)), float(Path(target).stat().st_size)
    elif kind == "function" and (file := _module_of(target)):
        sha256 = digest_of(file)
    return Contender(target=shown(target), kind=kind, sha256=sha256, size=size, figures=figures, requests=requests)


def _module_of(target: str) -> Path | None:
    """Return the source of a function's module, where it lies in the current folder; nothing is imported for it."""
    place = Path(*target.rpartition(":")[0].split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if is_file(file)), None)


def _memory(new: str, X: Any, settings: CompareSettings, budgets: Sequence[Budget], folder: Path) -> tuple[Figure, ...]:
    """Measure the memory of the new version in fresh processes, where a requirement is about it."""
    wanted = {budget.metric for budget in budgets} & set(taken_by("memory"))
    if not wanted or kind_of(new) == "address":
        return ()
    spec = model_spec("candidate", new, save_rows(folder, X, None), settings)
    return tuple(one for one in memory_figures(spec) if one.metric in wanted)
