"""PyTorch's own INT8 form of a module, verified to compute in integers: weights in INT8, activations in each call."""

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.runtimes.estimators import choose_rows_of, one_line
from pytest_hwperf.runtimes.own_call import ESTIMATOR_ERRORS
from pytest_hwperf.runtimes.profiles import OperatorTime, describe_operators
from pytest_hwperf.runtimes.quantise import why_not_integer
from pytest_hwperf.runtimes.threads import uncalibrated
from pytest_hwperf.runtimes.torch_eager import (
    FLOATS,
    INTEGERS,
    inferring,
    module_predictor,
    module_scenario,
    profile_module,
    torch_threads,
)
from pytest_hwperf.runtimes.torch_modules import MOST_CHECKED, FittedModule, copy_of, inspect_module, size_of

_RUNS = 10  # under the profiler


def _scenario(model: Any, X: Any, threads: int) -> Scenario:
    fitted = inspect_module(model, X, "torch_int8")
    import torch

    module, executed = quantised(fitted, fitted.rows(X))
    conditions = {
        "form": "eager",
        "precision": "int8 dynamic",
        "quantiser": "torch.ao",
        "engine": str(torch.backends.quantized.engine),
    }
    load = partial(_load, fitted, module, threads)
    scenario = module_scenario("torch_int8", fitted, threads, load, conditions)
    return replace(scenario, context={**scenario.context, "operators": executed}, model_bytes=size_of(module))


torch_int8 = uncalibrated(_scenario)


def quantised(fitted: FittedModule, rows: Any) -> tuple[Any, str]:
    """Return the INT8 form of a copy of the module, seen to compute in integers, and the operators that it executes."""
    original, tried = copy_of(fitted), choose_rows_of(rows, MOST_CHECKED)
    try:
        with warnings.catch_warnings(action="ignore"):  # that it will move to another package
            module = quantise_dynamically(deepcopy(original))
        (before, expected), (after, outputs) = (_try(one, tried) for one in (original, module))
    except ESTIMATOR_ERRORS as problem:
        raise ScenarioUnavailable(state("no int8 form", why=f"{fitted.kind}: {one_line(problem)}")) from problem
    if cause := refused(fitted.kind, before, after, same_outputs=bool((outputs == expected).all())):
        raise ScenarioUnavailable(cause)
    return module, describe_operators(_slowest(after))


def quantise_dynamically(module: Any) -> Any:
    """Replace what PyTorch has an INT8 form of: linear and recurrent layers, no convolutions."""
    import torch

    return torch.ao.quantization.quantize_dynamic(module)


def refused(
    kind: str, original: Sequence[OperatorTime], quantised: Sequence[OperatorTime], *, same_outputs: bool
) -> Statement | None:
    """Return why the quantised form must not be called INT8; None where it may."""
    before, after = (
        {one.operator: one.calls for one in operators if one.operator in INTEGERS | FLOATS}
        for operators in (original, quantised)
    )
    if not before:
        return state("no int8 form", why=f"no operator with weights in {kind}")
    if before == after and same_outputs:
        return state("unchanged")
    return why_not_integer(_slowest(quantised), (INTEGERS, FLOATS))


def _slowest(operators: Sequence[OperatorTime]) -> Sequence[OperatorTime]:
    """Leave out what takes less than a hundredth of the time: a module has dozens of operators that only take shape."""
    least = sum(one.time for one in operators) / 100
    return [one for one in operators if one.time >= least]


def _try(module: Any, rows: Any) -> tuple[Sequence[OperatorTime], Any]:
    """Return the operators that a module executes on rows, and its outputs."""
    import torch

    call, batch = inferring(module), torch.from_numpy(rows)
    with torch_threads(1):
        outputs = call(batch).numpy()
        return profile_module(lambda: call(batch), _RUNS), outputs


def _load(fitted: FittedModule, module: Any, threads: int) -> Predictor:
    """Copy the quantised module: a fresh process would use memory of its own for it."""
    return module_predictor(fitted, inferring(deepcopy(module)), partial(torch_threads, threads))
