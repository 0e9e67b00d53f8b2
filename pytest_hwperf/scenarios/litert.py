"""LiteRT on the processor: a `.tflite` file of the user's, in FP32 or in INT8."""

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from pytest_hwperf.core.contracts import Predictor
from pytest_hwperf.core.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.core.records import AS_TRAINED
from pytest_hwperf.core.statements import state
from pytest_hwperf.scenarios.cache import key_of, load_or_build
from pytest_hwperf.scenarios.estimators import ESTIMATOR_ERRORS, inspect_estimator, one_line
from pytest_hwperf.scenarios.litert_model import WEIGHTS_ONLY, LiteRtModel, read_litert
from pytest_hwperf.scenarios.onnx_file import OUTPUTS, FilePredictor, Output, digest_first_rows, output_kind
from pytest_hwperf.scenarios.onnx_inputs import ModelInputs
from pytest_hwperf.scenarios.onnx_source import is_litert, is_onnx
from pytest_hwperf.scenarios.prepared import PreparedScenario
from pytest_hwperf.scenarios.threads import check_threads

_TRIAL_ROWS = 32


def litert_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare a LiteRT model whose weights are FP32; `X_calibration` is not used.

    Args:
        model: the Path of a `.tflite` file, or its content.
        X: rows: an array, or a mapping of the model's inputs to arrays.
        X_calibration: not used.
        threads: of LiteRT, and of XNNPACK within it.

    Raises:
        UsageProblem: no LiteRT model, rows of another type or shape than it takes, or no whole number of threads.
        ScenarioUnavailable: LiteRT is missing, the model is of another kind, or its weights are not FP32.
    """
    del X_calibration
    return _scenario("litert_fp32", model, X, threads, _require_fp32)


def litert_int8(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare a LiteRT model that was quantised to INT8; raises as `litert_fp32`.

    Raises:
        ScenarioUnavailable: fewer than half of its layers compute in integers.
    """
    del X_calibration
    return _scenario("litert_int8", model, X, threads, _require_int8)


def _scenario(name: str, given: Any, X: Any, threads: int, require: Callable[[LiteRtModel], None]) -> PreparedScenario:
    check_threads(threads)
    _require_litert(given, X)
    model = read_litert(given)
    require(model)
    output = _output_of(model, X)

    def load() -> Predictor:
        session = model.open(threads)
        return FilePredictor(ModelInputs(model=model.name, inputs=session.inputs), session.predict, output)

    return PreparedScenario(
        name=name,
        imports=("ai_edge_litert.interpreter",),
        conditions={
            "threads": str(threads),
            "precision": ", ".join(sorted(set(model.layers))) or "float32",
            "output": output,
            "quantisation": "within the call",
        },
        context={"model": model.sha256[:16], **AS_TRAINED},
        model_bytes=len(model.content),
        size_source="tflite file",
        classifies=output != "values",
        load=load,
    )


def _require_litert(model: Any, X: Any) -> None:
    """Refuse what is no LiteRT model, and anything where LiteRT is missing."""
    if find_spec("ai_edge_litert") is None:
        raise ScenarioUnavailable("LiteRT is not installed: pip install 'pytest-hwperf[litert]'")
    if is_litert(model):
        return
    if not is_onnx(model):
        inspect_estimator(model, X)  # what is no model at all is a mistake
    kind = "an ONNX model" if is_onnx(model) else type(model).__name__
    raise ScenarioUnavailable(f"LiteRT takes .tflite files, and this is {kind}: convert it with the tools of LiteRT")


def _require_fp32(model: LiteRtModel) -> None:
    if others := sorted(set(model.layers) - {"float32"}):
        raise ScenarioUnavailable(f"{model.name} is no FP32 model: its layers compute with {', '.join(others)}")


def _require_int8(model: LiteRtModel) -> None:
    executed = ", ".join(f"{model.layers.count(one)} × {one}" for one in sorted(set(model.layers)))
    integer = sum(one.startswith(("int", "uint")) and not one.endswith(WEIGHTS_ONLY) for one in model.layers)
    if integer and 2 * integer >= len(model.layers):
        return
    if any(one.endswith(WEIGHTS_ONLY) for one in model.layers):
        raise ScenarioUnavailable(state("weight-only", operator="a layer after DEQUANTIZE", executed=executed))
    why = f"the layers of {model.name} are {executed}" if executed else f"{model.name} has no layer with weights"
    raise ScenarioUnavailable(state("no int8 form", why=why))


def _output_of(model: LiteRtModel, X: Any) -> Output:
    """Try a model on the first rows of `X`, and keep what its first output says of each.

    A fresh process must not have used the runtime before its memory and its cold start are measured.
    """

    def tried() -> Output:
        try:
            session = model.open(threads=1)
            inputs = ModelInputs(model=model.name, inputs=session.inputs)
            batch = inputs.batches(X, inputs.fixed_rows or _TRIAL_ROWS)[0]
            outputs = session.predict(batch)
        except ESTIMATOR_ERRORS as problem:
            raise UsageProblem(f"{model.name} cannot be run on rows of X: {one_line(problem)}") from problem
        return output_kind(model.name, outputs, len(next(iter(batch.values()))))

    key = key_of("litert", model.sha256, digest_first_rows(X), version("ai-edge-litert"), version("pytest-hwperf"))
    found = load_or_build(key, lambda: (b"", {"output": tried()})).notes["output"]
    return next(output for output in OUTPUTS if output == found)
