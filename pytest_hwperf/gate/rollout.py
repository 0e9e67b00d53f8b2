"""Two versions of a model, measured for the decision which one is served: how they differ, and what each is."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_hwperf.gate.load_target import requests_in
from pytest_hwperf.gate.models import CompareSettings, compare_models, model_spec, save_rows
from pytest_hwperf.gate.sweeps import memory_figures
from pytest_hwperf.gate.targets import kind_of, shown
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.files import is_file
from pytest_hwperf.records.evidence import Gate, Side
from pytest_hwperf.records.metrics import taken_by
from pytest_hwperf.records.run import Figure
from pytest_hwperf.records.verdict import Budget, Comparison
from pytest_hwperf.scenarios.onnx_source import read_source
from pytest_hwperf.stats.hypotheses import SIDES
from pytest_hwperf.stats.rollout import Contender, Requests, figures_of, taken_for

_BLOCK = 1 << 20


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


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


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
