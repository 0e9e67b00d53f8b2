"""Models as ONNX, converted or given as files with whatever inputs, and ONNX Runtime on the processor for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.scenarios.agreement import parity
from pytest_hwperf.scenarios.cache import CachedModel, key_of, notes_of
from pytest_hwperf.scenarios.estimators import FittedModel, Output, as_array, is_onnx, score_kind
from pytest_hwperf.scenarios.onnx_source import ModelInputs, OnnxSource, read_source
from pytest_hwperf.scenarios.ort import (
    PROVIDER,
    count_work_of,
    open_session,
    rejection_errors,
    runtime_version,
    session_conditions,
)
from pytest_hwperf.scenarios.profiles import PROFILE, arena_of, operators_of
from pytest_hwperf.scenarios.threads import check_threads, uncalibrated

OUTPUTS: tuple[Output, ...] = get_args(Output)
AS_GIVEN = {"providers": PROVIDER, **AS_TRAINED}  # context of files
TRIAL_ROWS = 32
REFERENCE_OF_FILES = "onnx_fp32"  # scenario that a file in other runtimes is compared with
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


# Checked rows, None for a file → outputs, and notes or why there is no such form.
TrialRun = Callable[[Any | None], tuple[Any, Mapping[str, str] | Statement]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxForm:
    """A model as ONNX: a file as it was given, or what an estimator or a module was converted to."""

    kind: str  # for sentences
    model: Path | bytes  # what a session is opened on
    sha256: str
    size: int  # B
    output: Output
    conditions: Mapping[str, str] = field(default_factory=dict)
    fitted: FittedModel | None = None  # what was converted; None for a file

    def tried(self, X: Any, key: Sequence[object], run: TrialRun, title: str, *, exact: bool) -> Mapping[str, str]:
        """Return what running it in another runtime tells, from the cache where it was run before.

        What was converted is run on the rows that conversions are compared on, and its parity is told too.
        """
        fitted = self.fitted
        checked = None if fitted is None else fitted.checked(X)

        def tell() -> Mapping[str, str] | Statement:
            outputs, told = run(None if checked is None else checked.rows())
            if fitted is None or checked is None or isinstance(told, Statement):
                return told
            compared = parity(fitted, outputs, checked, title, exact=exact)
            return compared if isinstance(compared, Statement) else {**told, **compared}

        own = () if fitted is None or checked is None else (fitted.digest, fitted.output, checked.digest)
        return notes_of(key_of(*key, self.sha256, *own), tell)

    def open(self, threads: int) -> Any:
        """Open a session on the processor; a file that it does not take is a mistake."""
        try:
            return open_session(self.model, threads)
        except rejection_errors() as error:
            if self.fitted is not None:
                raise
            raise UsageProblem(f"{self.kind} is no model that ONNX Runtime can run: {_first_line(error)}") from error

    def predictor(self, session: Any) -> Predictor:
        """Return a session on it, ready to be called."""
        run, inputs, outputs = session.run, session.get_inputs(), [session.get_outputs()[0].name]
        if self.fitted is None:
            named = ModelInputs(model=self.kind, inputs=inputs)
            return file_predictor(named, lambda batch: run(outputs, batch)[0], self.output)
        name = inputs[0].name
        return self.fitted.predictor(lambda batch: run(outputs, {name: batch})[0])

    def scenario(
        self,
        name: str,
        runtime: str,
        conditions: Mapping[str, str],
        context: Mapping[str, str],
        load: Callable[[], Predictor],
    ) -> Scenario:
        """Return it as a scenario of a runtime, the module `runtime`."""
        return Scenario(
            name=name,
            imports=(runtime,),
            conditions={**conditions, **self.conditions},
            context={"model": self.sha256[:16], **context},
            model_bytes=self.size,
            size_source="onnx file",
            classifies=self.output != "values",
            load=load,
            reference=self.fitted.reference if self.fitted else REFERENCE_OF_FILES,
            answers=self.fitted.answers if self.fitted else None,
        )


def converted_form(fitted: FittedModel, stored: CachedModel) -> OnnxForm:
    return OnnxForm(
        kind=fitted.kind,
        model=stored.path,
        sha256=stored.sha256,
        size=stored.bytes,
        output=fitted.output,
        conditions={"form": stored.notes["form"], "output": fitted.output},
        fitted=fitted,
    )


def file_form(source: OnnxSource, X: Any) -> OnnxForm:
    """Try a model on the first rows of `X`, and return it with what its first output says of each."""
    form = _untried(source)
    key = (source.sha256, digest_first_rows(X), runtime_version(), version("pytest-hwperf"))
    output = kept_output(key_of("output", *key), lambda: _tried(form, X))
    return replace(form, output=output, conditions={"output": output})


def fp32_file(model: Any, X: Any) -> OnnxForm:
    """Try an ONNX model, and refuse one with other weights than FP32."""
    source = read_source(model)
    if others := [kind for kind in precisions(source) if kind != "float32"]:
        raise ScenarioUnavailable(
            f"{source.name} has weights of {', '.join(others)}: it is no FP32 model; onnx_file measures it as it is"
        )
    return file_form(source, X)


def session_scenario(
    name: str, form: OnnxForm, threads: int, own_conditions: Mapping[str, str], context: Mapping[str, str]
) -> Scenario:
    """Return a form in ONNX Runtime on the processor, whose profiler knows its operators and its allocator."""
    conditions = {**session_conditions(threads), **own_conditions}
    return replace(
        form.scenario(name, "onnxruntime", conditions, context, lambda: form.predictor(form.open(threads))),
        arena=partial(arena_of, form.model, threads, form.predictor),
        arena_source=PROFILE,
        operators=partial(operators_of, form.model, threads, form.predictor),
        work=partial(count_work_of, form.model),
    )


def _file_scenario(model: Any, X: Any, threads: int) -> Scenario:
    if not is_onnx(model):
        raise UsageProblem(
            f"onnx_file takes the Path of an .onnx file or an onnx.ModelProto, not a {type(model).__name__}; "
            "onnx_fp32 converts a fitted estimator"
        )
    source = read_source(model)
    precision = {"precision": ", ".join(precisions(source))}
    return session_scenario("onnx_file", file_form(source, X), threads, precision, AS_GIVEN)


onnx_file = uncalibrated(_file_scenario)


def precisions(source: OnnxSource) -> tuple[str, ...]:
    """Return the types of weights of a model; operators of ai.onnx.ml keep theirs in float32."""
    found = {_PRECISIONS[kind] for kind in source.weights if kind in _PRECISIONS}
    return tuple(sorted(found or {"float32"}))


def compared_file(path: Path, threads: int = 1) -> Scenario:
    """Return an ONNX file as `hwperf compare` measures it: an input, and labels if there are any to compare with."""
    check_threads(threads)
    form = _untried(read_source(path))
    load = partial(_load_compared, form, threads)
    return form.scenario("onnx_file", "onnxruntime", session_conditions(threads), AS_GIVEN, load)


def kept_output(key: str, tried: Callable[[], Output]) -> Output:
    """Return what the first output of a model says of each row, found by trying it once."""
    found = notes_of(key, lambda: {"output": tried()})["output"]
    return next(output for output in OUTPUTS if output == found)


def file_predictor(inputs: ModelInputs, predict: Callable[[Any], Any], output: Output) -> Predictor:
    """Return a model whose inputs have names, ready to be called."""
    return Predictor(
        batches=inputs.batches,
        predict=predict,
        labels=partial(_labels, inputs.model, output),
        probabilities=as_array if output == "probabilities" else None,
    )


def _labels(model: str, output: Output, outputs: Any) -> Any:
    """Return one label per row: the first output as it is, or the class of the largest score; or values."""
    values = as_array(outputs)
    if output == "values":
        return values.reshape(len(values)) if values.size == len(values) else values
    if values.ndim == 1 or (values.ndim == _ROWS_AND_CLASSES and values.shape[1] == 1 and values.dtype.kind != "f"):
        return values.reshape(len(values))
    if values.ndim == _ROWS_AND_CLASSES and values.shape[1] > 1:
        return values.argmax(axis=1)
    raise MeasurementError(
        f"the first output of {model} has the shape {values.shape}: labels follow from one label or from several "
        "scores per row; leave the labels out, or give module:function that returns labels"
    )


def _untried(source: OnnxSource) -> OnnxForm:
    return OnnxForm(kind=source.name, model=source.model, sha256=source.sha256, size=source.bytes, output="scores")


def _load_compared(form: OnnxForm, threads: int) -> Predictor:
    session = form.open(threads)
    if len(session.get_inputs()) != 1:
        names = ", ".join(one.name for one in session.get_inputs())
        raise UsageProblem(
            f"{form.kind} has the inputs {names}: models with one input are compared; give module:function of a "
            "function that feeds it"
        )
    return form.predictor(session)


def digest_first_rows(X: Any) -> str:
    """Return the first rows of data as text: an array of text holds pointers."""
    import numpy as np

    named = X if isinstance(X, Mapping) else {"": X}
    parts = [(name, np.asarray(values[:TRIAL_ROWS])) for name, values in named.items()]
    return repr([(name, str(rows.dtype), rows.shape, rows.tolist()) for name, rows in parts])


def _tried(form: OnnxForm, X: Any) -> Output:
    session = form.open(threads=1)
    inputs = ModelInputs(model=form.kind, inputs=session.get_inputs())
    batch = inputs.batches(X, inputs.fixed_rows or TRIAL_ROWS)[0]
    try:
        outputs = session.run([session.get_outputs()[0].name], batch)[0]
    except rejection_errors() as error:
        raise UsageProblem(f"{form.kind} cannot be run on rows of X: {_first_line(error)}") from error
    return output_kind(form.kind, outputs, len(next(iter(batch.values()))))


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
    return score_kind(outputs)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
