"""A PyTorch module as an ONNX model with any number of rows, by PyTorch's exporter."""

import contextlib
import io
import logging
import platform
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.messages import state
from pytest_hwperf.scenarios.estimators import one_line
from pytest_hwperf.scenarios.ort import rejection_errors
from pytest_hwperf.scenarios.rows import digest_rows
from pytest_hwperf.scenarios.torch_modules import FittedModule, evaluating
from pytest_hwperf.scenarios.torch_switches import untraced_compiler

FORM = "torch.onnx"
_LIBRARIES = ("torch", "onnxscript", "onnx", "onnxruntime", "numpy", "pytest-hwperf")
_REVISION = 1  # of what is cached: raise it when a conversion here comes out differently
_INPUT, _OUTPUT = "rows", "outputs"


def export_module(fitted: FittedModule, checked: Any) -> tuple[bytes, str]:
    """Return the FP32 ONNX form of a module, and how the form is called."""
    try:
        return export_with_torch(fitted, checked), FORM
    except rejection_errors() as problem:
        facts = {"model": fitted.kind, "form": "ONNX", "converter": f"torch.onnx {version('torch')}"}
        raise ScenarioUnavailable(state("does not convert", **facts, why=one_line(problem))) from problem


def module_key_parts(fitted: FittedModule, checked: Any) -> tuple[object, ...]:
    """Return everything that a conversion depends on."""
    versions = [f"{name} {version(name)}" for name in _LIBRARIES]
    return (_REVISION, fitted.digest, fitted.output, digest_rows(checked), platform.machine(), *versions)


def export_with_torch(fitted: FittedModule, checked: Any) -> bytes:
    """Write the module as ONNX by PyTorch's exporter, the number of rows left open."""
    import numpy as np
    import torch

    two = torch.from_numpy(np.resize(checked, (2, *fitted.shape)))  # of one row the exporter makes a constant
    with evaluating(fitted.model), untraced_compiler(), _quiet():
        program = torch.onnx.export(
            fitted.model,
            (two,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("n")},),
            input_names=[_INPUT],
            output_names=[_OUTPUT],
            verbose=False,
        )
    model = program.model_proto
    model.graph.ClearField("value_info")  # of weights too, which a quantiser replaces by others
    content: bytes = model.SerializeToString()
    return content


def require_onnxscript() -> None:
    """Refuse to convert where the exporter lacks it."""
    require("torch", "the ONNX form of a module needs onnxscript", "onnxscript", error=ScenarioUnavailable)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide what the exporter says of its steps, and of packages that it does without."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
