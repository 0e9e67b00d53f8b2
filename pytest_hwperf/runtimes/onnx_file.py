"""Models as ONNX, converted or given as files with whatever inputs, and ONNX Runtime on the processor for them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from pytest_hwperf.host.machine import name_processor, read_processor
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.contracts import Predictions, Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.runtimes.agreement import parity
from pytest_hwperf.runtimes.cache import CachedModel, key_of, notes_of
from pytest_hwperf.runtimes.estimators import FittedModel, Output, as_array, is_onnx, score_kind
from pytest_hwperf.runtimes.onnx_source import ModelInputs, OnnxSource, read_source
from pytest_hwperf.runtimes.onnx_trial import (
    TRIAL_ROWS,
    digest_named,
    first_rows,
    precision_at_work,
    precisions,
    run_in_other_batches,
)
from pytest_hwperf.runtimes.ort import (
    PROVIDER,
    count_work_of,
    open_session,
    quiet_run,
    rejection_errors,
    runtime_version,
    session_conditions,
)
from pytest_hwperf.runtimes.profiles import PROFILE, arena_of, operators_of, read_kernels
from pytest_hwperf.runtimes.threads import check_threads, uncalibrated

OUTPUTS: tuple[Output, ...] = get_args(Output)
AS_GIVEN = {"providers": PROVIDER, **AS_TRAINED}  # context of files
REFERENCE_OF_FILES = "onnx_fp32"  # scenario that a file in other runtimes is compared with
_ROWS_AND_CLASSES = 2  # axes of scores
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
    precision: str = "float32"  # in which it computes
    only_rows: int | None = None  # the only batch size that a file takes, as it declares or as was seen; None: any
    classes: tuple[int | str, ...] = ()  # labels of the columns of a file's output; () where it does not name them
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

    def open(self, threads: int, profile: Path | None = None) -> Any:
        """Open a session on the processor; a file that it does not take is a mistake."""
        try:
            return open_session(self.model, threads, profile)
        except rejection_errors() as error:
            if self.fitted is not None:
                raise
            raise UsageProblem(f"{self.kind} is no model that ONNX Runtime can run: {_first_line(error)}") from error

    def predictor(self, session: Any) -> Predictor:
        """Return a session on it, ready to be called."""
        run, inputs, outputs = session.run, session.get_inputs(), [session.get_outputs()[0].name]
        if self.fitted is None:
            return self.of_file(inputs, lambda batch: run(outputs, batch)[0])
        name = inputs[0].name
        return self.fitted.predictor(lambda batch: run(outputs, {name: batch})[0])

    def inputs(self, ports: Sequence[Any]) -> ModelInputs:
        """Return the inputs of a file, as a runtime describes them."""
        return ModelInputs(model=self.kind, inputs=ports, only_rows=self.only_rows)

    def of_file(self, ports: Sequence[Any], predict: Callable[[Any], Any]) -> Predictor:
        """Return a file in a runtime, ready to be called."""
        return file_predictor(self.inputs(ports), predict, self.output, self.classes)

    def labels(self, outputs: Any) -> Any:
        """Return one label or value per row of a file's outputs."""
        return _labels(self.kind, self.output, self.classes, outputs)

    def predictions_of(self, outputs: Any) -> Predictions:
        """Return what outputs of a file say of its rows."""
        scored = self.output in {"probabilities", "scores"}
        return Predictions(labels=self.labels(outputs), probabilities=outputs if scored else None)

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
    """Try a model on the first rows of `X`, and return it with what that shows of it."""
    form = _untried(source)
    machine = (runtime_version(), name_processor(read_processor("/")), version("pytest-hwperf"))
    key = key_of("trial", source.sha256, digest_named(first_rows(X)), *machine)
    notes = notes_of(key, lambda: _tried(form, source.weights, X))
    output = _output_named(notes["output"])
    return replace(
        form,
        output=output,
        precision=notes["precision"],
        only_rows=int(notes["rows"]) if notes["rows"] else None,
        conditions={"output": output},
    )


def fp32_file(model: Any, X: Any) -> OnnxForm:
    """Try an ONNX model, and refuse one that is not FP32: neither its weights nor what it computes in."""
    source = read_source(model)
    if others := [kind for kind in precisions(source.weights) if kind != "float32"]:
        raise ScenarioUnavailable(
            f"{source.name} has weights of {', '.join(others)}: it is no FP32 model; onnx_file measures it as it is"
        )
    form = file_form(source, X)
    if form.precision != "float32":
        raise ScenarioUnavailable(
            f"{source.name} computes in {form.precision}: it is no FP32 model; onnx_file measures it as it is"
        )
    return form


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
    form = file_form(read_source(model), X)
    return session_scenario("onnx_file", form, threads, {"precision": form.precision}, AS_GIVEN)


onnx_file = uncalibrated(_file_scenario)


def compared_file(path: Path, threads: int = 1) -> Scenario:
    """Return an ONNX file as `hwperf compare` measures it: an input, and labels if there are any to compare with."""
    check_threads(threads)
    form = _untried(read_source(path))
    load = partial(_load_compared, form, threads)
    return form.scenario("onnx_file", "onnxruntime", session_conditions(threads), AS_GIVEN, load)


def why_refused(path: Path, X: Any, batch_size: int) -> str:
    """Return why an ONNX file cannot be called with so many rows of `X`; "" where a trial does not show it."""
    try:
        form = file_form(read_source(path), X)
        form.inputs(form.open(threads=1).get_inputs()).batches(X, batch_size)
    except UsageProblem as problem:
        return str(problem)
    return ""


def kept_output(key: str, tried: Callable[[], Output]) -> Output:
    """Return what the first output of a model says of each row, found by trying it once."""
    return _output_named(notes_of(key, lambda: {"output": tried()})["output"])


def _output_named(name: str) -> Output:
    return next(output for output in OUTPUTS if output == name)


def file_predictor(
    inputs: ModelInputs, predict: Callable[[Any], Any], output: Output, classes: tuple[int | str, ...] = ()
) -> Predictor:
    """Return a model whose inputs have names, ready to be called."""
    return Predictor(
        batches=inputs.batches,
        predict=predict,
        labels=partial(_labels, inputs.model, output, classes),
        probabilities=as_array if output == "probabilities" else None,
        unnamed_columns=partial(_unnamed_columns, output, classes),
    )


def _labels(model: str, output: Output, classes: tuple[int | str, ...], outputs: Any) -> Any:
    """Return one label per row: the first output as it is, or the class of the largest score; or values.

    Where nothing names the classes, a label is the position of its column.
    """
    import numpy as np

    values = as_array(outputs)
    if output == "values":
        return values.reshape(len(values)) if values.size == len(values) else values
    if columns := _columns(values):
        positions = values.argmax(axis=1)
        return np.asarray(classes)[positions] if len(classes) == columns else positions
    is_label = values.ndim == 1 or (values.size == len(values) and values.dtype.kind != "f")
    if is_label and not (values.dtype.kind == "f" and (values % 1).any()):
        return values.reshape(len(values))
    given = f"has the shape {values.shape}" if not is_label else "holds fractions, which are no labels"
    raise MeasurementError(
        f"the first output of {model} {given}: labels follow from one label or from several scores per row; leave the "
        "labels out, or give module:function that returns labels"
    )


def _columns(values: Any) -> int:
    """Return how many scores each row has; 0 where it has a single value, or more than a row of scores."""
    return values.shape[1] if values.ndim == _ROWS_AND_CLASSES and values.shape[1] > 1 else 0


def _unnamed_columns(output: Output, classes: tuple[int | str, ...], outputs: Any) -> int | None:
    """Return of how many columns labels are positions; None where they are labels, or values."""
    columns = 0 if output == "values" else _columns(as_array(outputs))
    return columns if columns and columns != len(classes) else None


def _untried(source: OnnxSource) -> OnnxForm:
    return OnnxForm(
        kind=source.name,
        model=source.model,
        sha256=source.sha256,
        size=source.bytes,
        output="scores",
        classes=source.classes,
    )


def _load_compared(form: OnnxForm, threads: int) -> Predictor:
    session = form.open(threads)
    if len(session.get_inputs()) != 1:
        names = ", ".join(one.name for one in session.get_inputs())
        raise UsageProblem(
            f"{form.kind} has the inputs {names}: models with one input are compared; give module:function of a "
            "function that feeds it"
        )
    return form.predictor(session)


def _tried(form: OnnxForm, weights: Iterable[str], X: Any) -> Mapping[str, str]:
    """Run a file under the profiler: say what its output is, what computed it, and which batches alone it takes."""
    with workdir() as folder:
        session = form.open(threads=1, profile=folder / "trial")
        inputs = form.inputs(session.get_inputs())
        batches = inputs.batches(X, inputs.fixed_rows or TRIAL_ROWS)
        run = quiet_run(session)
        try:
            outputs, rows, only = run(batches[0]), len(next(iter(batches[0].values()))), inputs.fixed_rows
        except rejection_errors() as error:
            found = run_in_other_batches(run, batches) if inputs.fixed_rows is None else None
            if found is None:
                raise UsageProblem(f"{form.kind} cannot be run on rows of X: {_first_line(error)}") from error
            outputs, only = found
            rows = len(outputs)
        kernels = read_kernels(session)
    output = output_kind(form.kind, outputs, rows)
    precision = precision_at_work(weights, kernels)
    return {"output": output, "precision": precision, "rows": "" if only is None else str(only)}


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
