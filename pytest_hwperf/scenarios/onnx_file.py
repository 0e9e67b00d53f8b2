"""ONNX files in ONNX Runtime on the processor, with whatever inputs: in tests, and what `hwperf compare` measures."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.scenarios.cache import key_of, load_or_build
from pytest_hwperf.scenarios.onnx_source import ModelInputs, OnnxSource, is_onnx, read_source
from pytest_hwperf.scenarios.ort import (
    PROVIDER,
    count_work_of,
    open_session,
    rejection_errors,
    runtime_version,
    session_conditions,
)
from pytest_hwperf.scenarios.prepared import OnnxScenario, PreparedScenario
from pytest_hwperf.scenarios.profiles import arena_of, operators_of
from pytest_hwperf.scenarios.threads import check_threads

Output = Literal["labels", "probabilities", "scores", "values"]

OUTPUTS: tuple[Output, ...] = get_args(Output)
_TRIAL_ROWS = 32
_ROUNDING = 1e-3  # by which the probabilities of a row may miss 1
_ROWS_AND_CLASSES = 2  # axes of scores
# Types of tensors that say in which precision a model computes; the others are shapes, indices and text.
_PRECISIONS: Mapping[str, str] = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    **{name: name.lower() for name in ("INT8", "UINT8", "INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1")},
    **{name: name.lower() for name in ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """An ONNX model whose first output was looked at."""

    source: OnnxSource
    output: Output

    @property
    def classifies(self) -> bool:
        """Whether its first output says a class."""
        return self.output != "values"

    def predictor(self, session: Any) -> "FilePredictor":
        """Return a session on it, ready to be called."""
        return session_predictor(self.source.name, session, self.output)


def onnx_file(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> OnnxScenario:
    """Prepare an ONNX file, or an ONNX model in memory, as it is; `X_calibration` is not used.

    Args:
        model: the Path of an `.onnx` file, or an `onnx.ModelProto`.
        X: rows: an array, or a mapping of the model's inputs to arrays.
        X_calibration: not used.
        threads: of ONNX Runtime.

    Raises:
        UsageProblem: no ONNX model, rows of another type or shape than it takes, or no whole number of threads.
        MeasurementError: `X` has no rows.
    """
    del X_calibration
    check_threads(threads)
    if not is_onnx(model):
        raise UsageProblem(
            f"onnx_file takes the Path of an .onnx file or an onnx.ModelProto, not a {type(model).__name__}; "
            "onnx_fp32 converts a fitted estimator"
        )
    return file_scenario("onnx_file", read_source(model), X, threads)


def fp32_file(model: Any, X: Any, threads: int) -> OnnxScenario:
    """Prepare an ONNX model as `onnx_fp32`."""
    source = read_source(model)
    require_fp32(source)
    return file_scenario("onnx_fp32", source, X, threads)


def require_fp32(source: OnnxSource) -> None:
    """Refuse a model with other weights than FP32."""
    if others := [kind for kind in precisions(source) if kind != "float32"]:
        raise ScenarioUnavailable(
            f"{source.name} has weights of {', '.join(others)}: it is no FP32 model; onnx_file measures it as it is"
        )


def precisions(source: OnnxSource) -> tuple[str, ...]:
    """Return the types of weights of a model; operators of ai.onnx.ml keep theirs in float32."""
    found = {_PRECISIONS[kind] for kind in source.weights if kind in _PRECISIONS}
    return tuple(sorted(found or {"float32"}))


def file_scenario(name: str, source: OnnxSource, X: Any, threads: int) -> OnnxScenario:
    """Try a model on rows of `X`, and return it as a scenario."""
    model = OnnxModel(source=source, output=output_of(source, X))
    return OnnxScenario(
        **_fields(name, source, threads),
        conditions={**session_conditions(threads), "precision": ", ".join(precisions(source)), "output": model.output},
        classifies=model.classifies,
        load=lambda: model.predictor(_open(source, threads)),
        arena=partial(arena_of, source.model, threads, model.predictor),
        operators=partial(operators_of, source.model, threads, model.predictor),
        work=partial(count_work_of, source.model),
    )


def compared_file(path: Path, threads: int = 1) -> PreparedScenario:
    """Return an ONNX file as `hwperf compare` measures it: an input, and labels if there are any to compare with."""
    source = read_source(path)
    return PreparedScenario(
        **_fields("onnx_file", source, threads),
        conditions=session_conditions(threads),
        classifies=True,
        load=partial(_load_compared, source, threads),
    )


def output_of(source: OnnxSource, X: Any) -> Output:
    """Try a model on the first rows of `X`; return what its first output says of each.

    The answer is kept with converted models: a fresh process would otherwise have used the runtime before its memory
    and its cold start are measured.
    """
    key = key_of("output", source.sha256, digest_first_rows(X), runtime_version(), version("pytest-hwperf"))
    found = load_or_build(key, lambda: (b"", {"output": _tried(source, X)})).notes["output"]
    return next(output for output in OUTPUTS if output == found)


class FilePredictor:
    """An ONNX model, ready to be called."""

    def __init__(self, inputs: ModelInputs, predict: Callable[[Any], Any], output: Output) -> None:
        self.predict = predict
        self._inputs = inputs
        self._output = output

    def batches(self, X: Any, batch_size: int) -> Sequence[Any]:
        """Cut the rows of `X` into inputs of the model, by name; raises as `ModelInputs.batches`."""
        return self._inputs.batches(X, batch_size)

    def labels(self, outputs: Any) -> Any:
        """Return one label per row: the first output as it is, or the class of the largest score; or values."""
        import numpy as np

        values = np.asarray(outputs)
        if self._output == "values":
            return values.reshape(len(values)) if values.size == len(values) else values
        if values.ndim == 1 or (values.ndim == _ROWS_AND_CLASSES and values.shape[1] == 1 and values.dtype.kind != "f"):
            return values.reshape(len(values))
        if values.ndim == _ROWS_AND_CLASSES and values.shape[1] > 1:
            return values.argmax(axis=1)
        raise MeasurementError(
            f"the first output of {self._inputs.model} has the shape {values.shape}: labels follow from one label or "
            "from several scores per row; leave the labels out, or give module:function that returns labels"
        )

    def probabilities(self, outputs: Any) -> Any | None:
        """Return probabilities of shape (n, k), None where the first output has none."""
        return outputs if self._output == "probabilities" else None

    def scope(self) -> AbstractContextManager[object]:
        """Do nothing: the session's own pool was sized when it was opened."""
        return nullcontext()


def session_predictor(name: str, session: Any, output: Output) -> FilePredictor:
    """Return a session on an ONNX model, ready to be called."""
    run, outputs = session.run, [session.get_outputs()[0].name]
    inputs = ModelInputs(model=name, inputs=session.get_inputs())
    return FilePredictor(inputs, lambda batch: run(outputs, batch)[0], output)


def _fields(name: str, source: OnnxSource, threads: int) -> dict[str, Any]:
    check_threads(threads)
    return {
        "name": name,
        "imports": ("onnxruntime",),
        "context": {"model": source.sha256[:16], "providers": PROVIDER, **AS_TRAINED},
        "model_bytes": source.bytes,
        "size_source": "onnx file",
    }


def _open(source: OnnxSource, threads: int) -> Any:
    try:
        return open_session(source.model, threads)
    except rejection_errors() as error:
        raise UsageProblem(f"{source.name} is no model that ONNX Runtime can run: {_first_line(error)}") from error


def _load_compared(source: OnnxSource, threads: int) -> FilePredictor:
    session = _open(source, threads)
    if len(session.get_inputs()) != 1:
        names = ", ".join(one.name for one in session.get_inputs())
        raise UsageProblem(
            f"{source.name} has the inputs {names}: models with one input are compared; give module:function of a "
            "function that feeds it"
        )
    return session_predictor(source.name, session, "scores")


def digest_first_rows(X: Any) -> str:
    """Return the first rows of data as text: an array of text holds pointers."""
    import numpy as np

    named = X if isinstance(X, Mapping) else {"": X}
    parts = [(name, np.asarray(values[:_TRIAL_ROWS])) for name, values in named.items()]
    return repr([(name, str(rows.dtype), rows.shape, rows.tolist()) for name, rows in parts])


def _tried(source: OnnxSource, X: Any) -> Output:
    session = _open(source, threads=1)
    inputs = ModelInputs(model=source.name, inputs=session.get_inputs())
    batch = inputs.batches(X, inputs.fixed_rows or _TRIAL_ROWS)[0]
    try:
        outputs = session.run([session.get_outputs()[0].name], batch)[0]
    except rejection_errors() as error:
        raise UsageProblem(f"{source.name} cannot be run on rows of X: {_first_line(error)}") from error
    return output_kind(source.name, outputs, len(next(iter(batch.values()))))


def output_kind(name: str, outputs: Any, rows: int) -> Output:
    """Return what an output says of each row, by its type and shape."""
    import numpy as np

    if not isinstance(outputs, np.ndarray) or outputs.ndim == 0 or len(outputs) != rows:
        given = f"shape {outputs.shape}" if isinstance(outputs, np.ndarray) else type(outputs).__name__
        raise UsageProblem(
            f"the first output of {name} has the {given} for {rows} rows: one entry per row is needed; export it so, "
            "without ZipMap"
        )
    if outputs.dtype.kind != "f" and outputs.size == rows:
        return "labels"
    if outputs.ndim != _ROWS_AND_CLASSES or outputs.shape[1] == 1:
        return "values"
    sums = outputs.sum(axis=1, dtype=np.float64)
    whole = bool((outputs >= 0).all() and (np.abs(sums - 1) <= _ROUNDING).all())
    return "probabilities" if whole else "scores"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
