"""PyTorch's own INT8 form of a module, verified to compute in integers: weights in INT8, activations in each call."""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.scenarios.estimators import ESTIMATOR_ERRORS, one_line
from pytest_hwperf.scenarios.profiles import OperatorTime, describe_operators
from pytest_hwperf.scenarios.quantise import why_not_int8
from pytest_hwperf.scenarios.rows import evenly_spaced
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_eager import (
    inferring,
    module_predictor,
    module_scenario,
    torch_threads,
)
from pytest_hwperf.scenarios.torch_modules import TRIED_ROWS, FittedModule, copy_of, inspect_module, size_of
from pytest_hwperf.scenarios.torch_operators import FLOATS, INTEGERS, profile_module

_RUNS = 10  # under the profiler

Quantiser = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one form of a module did on the same rows."""

    operators: Sequence[OperatorTime]
    outputs: Any


def torch_int8(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Quantise a module dynamically to INT8; `X` shows its input, `X_calibration` is not used.

    Raises as `torch_fp32`.

    Raises:
        ScenarioUnavailable: it has no INT8 form, or the form does not compute in integers.
    """
    del X_calibration
    check_threads(threads)
    fitted = inspect_module(model, X, "torch_int8")
    import torch

    module = quantised(fitted, fitted.rows(X))
    conditions = {
        "form": "eager",
        "precision": "int8 dynamic",
        "quantiser": "torch.ao",
        "engine": str(torch.backends.quantized.engine),
    }
    scenario = module_scenario(
        "torch_int8", fitted, threads, partial(_load, fitted, module.module, threads), conditions
    )
    context = {**scenario.context, "operators": module.notes}
    return replace(scenario, context=context, model_bytes=size_of(module.module))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantised:
    """A module that was seen to compute in integers."""

    module: Any
    notes: str  # executed operators


def quantised(fitted: FittedModule, rows: Any, quantise: Quantiser | None = None) -> Quantised:
    """Return the INT8 form of a copy of the module."""
    original, tried = copy_of(fitted), evenly_spaced(rows, TRIED_ROWS)
    try:
        with warnings.catch_warnings(action="ignore"):  # that it will move to another package
            module = (quantise or quantise_dynamically)(deepcopy(original))
        before, after = (_try(one, tried) for one in (original, module))
    except ESTIMATOR_ERRORS as problem:
        raise ScenarioUnavailable(state("no int8 form", why=f"{fitted.kind}: {one_line(problem)}")) from problem
    if cause := refused(fitted.kind, before, after):
        raise ScenarioUnavailable(cause)
    return Quantised(module=module, notes=describe_operators(_slowest(after.operators)))


def quantise_dynamically(module: Any) -> Any:
    """Replace what PyTorch has an INT8 form of: linear and recurrent layers, no convolutions."""
    import torch

    return torch.ao.quantization.quantize_dynamic(module)


def refused(kind: str, original: Trial, quantised: Trial) -> Statement | None:
    """Return why the quantised form must not be called INT8; None where it may."""
    before, after = _with_weights(original), _with_weights(quantised)
    if not before:
        return state("no int8 form", why=f"no operator with weights in {kind}")
    if before == after and bool((quantised.outputs == original.outputs).all()):
        return state("unchanged")
    return why_not_int8(_slowest(quantised.operators), original.operators, same_outputs=False, kinds=(INTEGERS, FLOATS))


def _with_weights(trial: Trial) -> dict[str, int]:
    return {one.operator: one.calls for one in trial.operators if one.operator in INTEGERS | FLOATS}


def _slowest(operators: Sequence[OperatorTime]) -> Sequence[OperatorTime]:
    """Leave out what takes less than a hundredth of the time: a module has dozens of operators that only take shape."""
    least = sum(one.time for one in operators) / 100
    return [one for one in operators if one.time >= least]


def _try(module: Any, rows: Any) -> Trial:
    import torch

    call, batch = inferring(module), torch.from_numpy(rows)
    with torch_threads(1):
        outputs = call(batch).numpy()
        return Trial(operators=profile_module(lambda: call(batch), _RUNS), outputs=outputs)


def _load(fitted: FittedModule, module: Any, threads: int) -> Predictor:
    """Copy the quantised module: a fresh process would use memory of its own for it."""
    return module_predictor(fitted, inferring(deepcopy(module)), partial(torch_threads, threads))
