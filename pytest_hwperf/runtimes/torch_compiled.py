"""PyTorch on the processor, compiled by `torch.compile`: each of its modes is a scenario.

Compiling is part of the first call. It takes 10 to 30 s where nothing has been compiled before, and 2 to 4 s where
compiled code lies on disk, so that the folder of compiled code belongs to the measurement: it is empty when a process
begins. Only the processes of pairs, of which no first call is compared, find what those before them have compiled.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_hwperf.host.workdirs import folder_of_process
from pytest_hwperf.host.worker_protocol import SHARES_COMPILED
from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.runtimes.cache import folder
from pytest_hwperf.runtimes.threads import uncalibrated
from pytest_hwperf.runtimes.torch_eager import (
    AS_IT_IS,
    CHANNELS_LAST,
    Switches,
    inferring,
    matmul_precision,
    module_predictor,
    module_scenario,
    torch_threads,
)
from pytest_hwperf.runtimes.torch_modules import FittedModule, copy_of, inspect_module, untraced_compiler

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_COMPILER = "CXX"
_USUAL_COMPILER = "g++"  # of PyTorch on Linux
_IMPORTS = ("torch", "pytest_hwperf.runtimes.torch_compiler")
_MOST_SHAPES = 64  # compiled for one module; beyond its own limit of 8 PyTorch goes on without compiling


class CountingCompiler:
    """PyTorch's own compiler in one mode, which counts what it has compiled.

    Each one is another compiler to PyTorch, so that no model reuses what an earlier one has compiled in this process.
    """

    def __init__(self, mode: str, compiler: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.graphs = 0
        self._mode, self._compiler, self._options = mode, compiler, dict(options)

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return self._compiler(graph, inputs, config_patches=self._options)

    def require_compiled(self, kind: str) -> None:
        """Refuse to call a module compiled of which nothing is."""
        if not self.graphs:
            raise MeasurementError(
                f"torch.compile has compiled nothing of {kind}, which ran as it is: unset TORCHDYNAMO_DISABLE and "
                "TORCH_COMPILE_DISABLE, and take torch.compiler.disable off its forward, or name torch_fp32"
            )


def missing_compiler(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> str:
    """Return why nothing can be compiled here, "" where it can."""
    compiler = environment.get(_COMPILER, "").strip() or _USUAL_COMPILER
    if which(compiler):
        return ""
    return f"no C++ compiler {compiler}, which torch.compile needs: install one, or name one in {_COMPILER}"


def _scenario(name: str, mode: str, switches: Switches, model: Any, X: Any, threads: int) -> Scenario:
    fitted = inspect_module(model, X, name)
    switches.require(fitted)
    if reason := missing_compiler(os.environ):
        raise ScenarioUnavailable(reason)
    graphs = {"CUDA graphs": "none on a processor"} if mode != "default" else {}
    conditions = {"form": "compiled", "precision": matmul_precision(), "mode": mode, "shapes": "static"}
    load = partial(_load, fitted, threads, mode, switches)
    scenario = module_scenario(name, fitted, threads, load, {**conditions, **switches.conditions()})
    context = {**scenario.context, "compiled code": "none at the start", **graphs}
    return replace(scenario, context=context, imports=_IMPORTS)


torch_compile = uncalibrated(_scenario, "torch_compile", "default", AS_IT_IS)
torch_compile_reduce_overhead = uncalibrated(_scenario, "torch_compile_reduce_overhead", "reduce-overhead", AS_IT_IS)
torch_compile_max_autotune = uncalibrated(_scenario, "torch_compile_max_autotune", "max-autotune", AS_IT_IS)
torch_compile_channels_last = uncalibrated(_scenario, "torch_compile_channels_last", "default", CHANNELS_LAST)


def _load(fitted: FittedModule, threads: int, mode: str, switches: Switches) -> Predictor:
    import torch

    with _own_warnings_hidden():
        inductor = torch._dynamo.lookup_backend("inductor")  # noqa: SLF001 - as the documentation of backends names it
        compiler = CountingCompiler(mode, inductor, torch._inductor.list_mode_options(mode))  # noqa: SLF001 - the same
        # One specialisation for each batch size: after a second size PyTorch would run code for any size instead, and
        # the calls timed before and after the predictions would not be the same.
        compiled = torch.compile(switches.module(copy_of(fitted)), backend=compiler, dynamic=False)
    scope = partial(_compiling, fitted.kind, threads, compiler)
    return module_predictor(fitted, inferring(compiled), scope, compiles=True, switches=switches)


@contextmanager
def _compiling(kind: str, threads: int, compiler: CountingCompiler) -> Iterator[None]:
    """Hold what decides how a call compiles; afterwards refuse a module of which nothing was compiled."""
    import torch

    limits = {"recompile_limit": _MOST_SHAPES, "fail_on_recompile_limit_hit": True}
    with (
        torch_threads(threads),
        _environment(_CACHE, str(compiled_code())),
        torch._dynamo.config.patch(limits),  # noqa: SLF001 - its public name is for other settings
        _own_warnings_hidden(),
        untraced_compiler(),
    ):
        yield
    compiler.require_compiled(kind)


@contextmanager
def _own_warnings_hidden() -> Iterator[None]:
    """Hide what PyTorch says about its own parts; what a module says is shown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\.")
        yield


def compiled_code() -> Path:
    """Return the folder of compiled code: of this process, or of all processes of one side of the pairs."""
    return folder().with_name("compiled") if SHARES_COMPILED in os.environ else _own_folder()


_own_folder = cache(folder_of_process)  # empty, and lasts as long as this process


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
