"""OpenVINO on the processor: ONNX forms of estimators and modules, and ONNX files, at a set and checked precision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_hwperf.core.contracts import Predictor
from pytest_hwperf.core.errors import ScenarioUnavailable
from pytest_hwperf.core.serialisation import from_json, to_json
from pytest_hwperf.core.statements import Statement
from pytest_hwperf.host.machine import name_processor, read_processor
from pytest_hwperf.scenarios.cache import CachedModel, key_of, load_or_build
from pytest_hwperf.scenarios.conversion import CHECKED_ROWS, agreement, checked_rows, convert_estimator
from pytest_hwperf.scenarios.estimators import ESTIMATOR_ERRORS, FittedEstimator
from pytest_hwperf.scenarios.onnx import inspect_model
from pytest_hwperf.scenarios.onnx_file import FilePredictor, output_of, require_fp32
from pytest_hwperf.scenarios.onnx_inputs import ModelInputs
from pytest_hwperf.scenarios.onnx_source import OnnxSource, is_onnx, read_source
from pytest_hwperf.scenarios.openvino_runtime import (
    PRECISIONS,
    compile_model,
    conditions,
    ports_of,
    predict_with,
    profile_operators,
    refusal,
    require_openvino,
    why_not_int8,
)
from pytest_hwperf.scenarios.prepared import EstimatorPredictor, PreparedScenario
from pytest_hwperf.scenarios.profiles import describe_operators
from pytest_hwperf.scenarios.quantise import Request, choose_rows, int8_conditions, quantise_estimator
from pytest_hwperf.scenarios.rows import digest_rows
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_modules import FittedModule

_REFUSED = "refused"  # note: why the model has no such form, as JSON
_INT8 = "int8"

Scenario = PreparedScenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a scenario is asked for."""

    name: str
    hint: str  # precision of what is no integer, as OpenVINO calls it
    threads: int
    verified: str = ""  # "int8" where the executed operators must be integer ones


def openvino_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the FP32 ONNX form of an estimator or module, or an FP32 ONNX file, in OpenVINO; no `X_calibration`.

    Raises:
        UsageProblem: no model, not fitted, or no whole number of threads.
        MeasurementError: `X` is no numeric matrix that it takes.
        ScenarioUnavailable: OpenVINO is missing, or has no form of the model; says why.
    """
    del X_calibration
    return _float(Asked(name="openvino_fp32", hint="f32", threads=threads), model, X)


def openvino_bf16(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the same model, computed in bfloat16; raises as `openvino_fp32`.

    Raises:
        ScenarioUnavailable: this processor cannot.
    """
    del X_calibration
    return _float(Asked(name="openvino_bf16", hint="bf16", threads=threads), model, X)


def openvino_int8(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the quantised ONNX form of an estimator or module, as `onnx_int8` does, in OpenVINO; raises as both.

    Raises:
        ScenarioUnavailable: OpenVINO does not compute it in integers.
    """
    check_threads(threads)
    require_openvino()
    fitted = inspect_model(model, X, "openvino_int8")
    chosen = None if X_calibration is None else choose_rows(fitted, X, X_calibration)
    others = isinstance(fitted, FittedModule)  # an estimator's form holds no Gemm
    stored = quantise_estimator(Request(fitted=fitted, rows=fitted.rows(X), calibration=chosen, for_others=others))
    asked = Asked(name="openvino_int8", hint="f32", threads=threads, verified=_INT8)
    return _of_model(asked, fitted, stored, X, int8_conditions(chosen))


def _float(asked: Asked, model: Any, X: Any) -> Scenario:
    check_threads(asked.threads)
    require_openvino()
    if is_onnx(model):
        return _of_file(asked, read_source(model), X)
    fitted = inspect_model(model, X, asked.name)
    stored = convert_estimator(fitted, fitted.rows(X))
    return _of_model(asked, fitted, stored, X, {"precision": PRECISIONS[asked.hint]})


def _of_model(
    asked: Asked,
    fitted: FittedEstimator | FittedModule,
    stored: CachedModel,
    X: Any,
    own_conditions: Mapping[str, str],
) -> Scenario:
    rows = checked_rows(fitted, fitted.rows(X))
    exact = asked.hint == "f32" and not asked.verified  # other precisions differ by nature: flips and budgets tell

    def check(outputs: Any) -> Mapping[str, str]:
        parity = agreement(fitted, outputs, fitted.predict(rows))
        gross = f"the OpenVINO form disagrees with {fitted.library}: {parity}"
        return {"parity": f"{parity} from {fitted.library}", **({"warning": gross} if exact and parity.gross else {})}

    key = (stored.sha256, fitted.digest, digest_rows(rows))
    notes = _tried(asked, fitted.kind, stored.path, key, lambda _: [rows], check)
    return PreparedScenario(
        name=asked.name,
        imports=("openvino",),
        conditions={
            **conditions(asked.hint, asked.threads),
            "form": stored.notes["form"],
            "output": fitted.output,
            **own_conditions,
        },
        context={"model": stored.sha256[:16], **notes},
        model_bytes=stored.bytes,
        size_source="onnx file",
        classifies=fitted.classes is not None,
        load=lambda: _model_predictor(compile_model(stored.path, asked.hint, asked.threads), fitted),
        reference=fitted.reference,
    )


def _of_file(asked: Asked, source: OnnxSource, X: Any) -> Scenario:
    require_fp32(source)
    output = output_of(source, X)
    notes = _tried(asked, source.name, source.model, (source.sha256,), partial(_trial_of_file, source, X))

    def load() -> Predictor:
        compiled = compile_model(source.model, asked.hint, asked.threads)
        inputs = ModelInputs(model=source.name, inputs=ports_of(compiled))
        return FilePredictor(inputs, predict_with(compiled), output)

    return PreparedScenario(
        name=asked.name,
        imports=("openvino",),
        conditions={
            **conditions(asked.hint, asked.threads),
            "precision": PRECISIONS[asked.hint],
            "output": output,
        },
        context={"model": source.sha256[:16], **notes},
        model_bytes=source.bytes,
        size_source="onnx file",
        classifies=output != "values",
        load=load,
    )


def _model_predictor(compiled: Any, fitted: FittedEstimator | FittedModule) -> EstimatorPredictor:
    predict = predict_with(compiled)
    return EstimatorPredictor(lambda batch: predict([batch]), fitted)


def _trial_of_file(source: OnnxSource, X: Any, compiled: Any) -> Any:
    inputs = ModelInputs(model=source.name, inputs=ports_of(compiled))
    return inputs.batches(X, inputs.fixed_rows or CHECKED_ROWS)[0]


def _tried(
    asked: Asked,
    kind: str,
    model: Path | bytes,
    key: tuple[object, ...],
    batch: Callable[[Any], Any],
    check: Callable[[Any], Mapping[str, str]] = lambda _: {},
) -> dict[str, str]:
    """Return what running a model tells, from the cache where it was run before: executed operators and parity.

    A fresh process must not have used the runtime before its memory and its cold start are measured.
    """

    def run() -> tuple[bytes, Mapping[str, str]]:
        try:
            compiled = compile_model(model, asked.hint, threads=1, profiled=True)
            inputs = batch(compiled)
            operators = profile_operators(compiled, inputs)
            outputs = predict_with(compiled)(inputs)
        except ESTIMATOR_ERRORS as problem:
            raise refusal(kind, problem) from problem
        executed = describe_operators(operators)
        if asked.verified and (cause := why_not_int8(operators, executed)):
            return b"", {_REFUSED: to_json(cause).decode()}
        return b"", {"operators": executed, **check(outputs)}

    machine = (name_processor(read_processor("/")), version("openvino"), version("pytest-hwperf"))
    notes = dict(load_or_build(key_of("openvino", asked.hint, asked.verified, *key, *machine), run).notes)
    if refused := notes.get(_REFUSED):
        raise ScenarioUnavailable(from_json(Statement, refused))
    return notes
