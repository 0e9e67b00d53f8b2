"""ONNX Runtime on the processor: the FP32 form of a model, which is checked against the model itself and kept."""

import contextlib
import functools
import importlib
import io
import logging
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.records.errors import HwperfError, MeasurementError, ScenarioUnavailable, install
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.runtimes.agreement import parity
from pytest_hwperf.runtimes.cache import CachedModel, key_of, load_or_build, own_frame
from pytest_hwperf.runtimes.estimators import (
    CheckedRows,
    FittedEstimator,
    FittedModel,
    is_onnx,
    last_step,
    nested_estimators,
    one_line,
)
from pytest_hwperf.runtimes.onnx_file import AS_GIVEN, converted_form, fp32_file, session_scenario
from pytest_hwperf.runtimes.ort import PROVIDER, installed, open_session, rejection_errors, run_all, runtime_version
from pytest_hwperf.runtimes.threads import uncalibrated
from pytest_hwperf.runtimes.torch_modules import evaluating, inspect_model, untraced_compiler

MATMUL_FORM, TORCH_FORM = "MatMul", "torch.onnx"
MATMUL_OPERATORS = ("Conv", "Gemm", "MatMul")  # what can be quantised
_LIBRARIES = ("skl2onnx", "onnx", "scikit-learn", "numpy", "pytest-hwperf")
_TORCH_LIBRARIES = ("torch", "onnxscript", "onnx", "onnxruntime", "numpy", "pytest-hwperf")
_REVISION, _TORCH_REVISION = 3, 2  # of what is cached: raise it when a conversion here comes out differently
# Without these the same model is written as MatMul and Add, which can be quantised.
_AVOIDED = frozenset({"LinearClassifier", "LinearRegressor", "Scaler"})
_DOMAIN_VERSION = 3  # of ai.onnx.ml: the newest that all converters write
_CLASSIFIER = {"nocl": [True, False], "zipmap": [True, False, "columns"]}

Converter = Callable[[FittedEstimator, frozenset[str]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostingLibrary:
    """A library of boosted trees, whose converter is that of onnxmltools."""

    distributions: tuple[str, ...]  # any of which installs it
    converter: str  # module and name
    estimators: tuple[str, ...]  # those that it converts
    alias: str  # begins the names under which skl2onnx knows them
    regressor_options: Mapping[str, Any] | None = None


BOOSTING: Mapping[str, BoostingLibrary] = {
    "xgboost": BoostingLibrary(
        distributions=("xgboost", "xgboost-cpu"),
        converter="xgboost.operator_converters.XGBoost:convert_xgboost",
        estimators=("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor"),
        alias="XGBoost",
    ),
    "lightgbm": BoostingLibrary(
        distributions=("lightgbm",),
        converter="lightgbm.operator_converters.LightGbm:convert_lightgbm",
        estimators=("LGBMClassifier", "LGBMRegressor"),
        alias="LightGbm",
        regressor_options={"split": None},
    ),
}


def _scenario(model: Any, X: Any, threads: int) -> Scenario:
    own_conditions = {"precision": "float32"}
    if is_onnx(model):
        return session_scenario("onnx_fp32", fp32_file(model, X), threads, own_conditions, AS_GIVEN)
    fitted = inspect_model(model, X, "onnx_fp32")
    return scenario_of("onnx_fp32", fitted, convert_model(fitted, X), threads, own_conditions)


onnx_fp32 = uncalibrated(_scenario)


def scenario_of(
    name: str, fitted: FittedModel, stored: CachedModel, threads: int, own_conditions: Mapping[str, str]
) -> Scenario:
    """Return a cached ONNX model as a scenario; its notes become context, except for the form, a condition."""
    notes = {name: text for name, text in stored.notes.items() if name != "form"}
    return session_scenario(name, converted_form(fitted, stored), threads, own_conditions, notes)


def convert_model(fitted: FittedModel, X: Any, convert: Converter | None = None) -> CachedModel:
    """Return the FP32 ONNX form of a model, with `fitted.output` as its only output, from the cache if possible.

    Its notes are `form`, `parity` with the model's own answers, `providers`, and `warning` where some rows are answered
    otherwise. A form that answers more rows otherwise than rounding explains is none.
    """
    checked = fitted.checked(X)
    if not isinstance(fitted, FittedEstimator):
        require("torch", "the ONNX form of a module needs onnxscript", "onnxscript", error=ScenarioUnavailable)

    def build() -> tuple[bytes, Mapping[str, str] | Statement]:
        if isinstance(fitted, FittedEstimator):
            model, form = _convert_in_some_form(fitted, convert or convert_with_skl2onnx)
        else:
            model, form = _export(fitted, checked.rows()), TORCH_FORM
        try:
            outputs = run_all(open_session(model, threads=1), checked.rows())
            compared = parity(fitted, outputs, checked, "ONNX form")
        except rejection_errors() as problem:
            raise _refusal(
                fitted, f"{fitted.kind} converts, but ONNX Runtime does not run it: {one_line(problem)}"
            ) from problem
        except ScenarioUnavailable as problem:
            raise _refusal(fitted, str(problem)) from problem
        if isinstance(compared, Statement):
            if own := _own_converter(fitted):
                raise MeasurementError(_mend(compared, own))
            return model, compared
        return model, {"form": form, "providers": PROVIDER, **compared}

    kind = "fp32" if isinstance(fitted, FittedEstimator) else "torch"
    return load_or_build(key_of(kind, *cache_key_parts(fitted, checked)), build)


def cache_key_parts(fitted: FittedModel, checked: CheckedRows) -> tuple[object, ...]:
    """Return everything that a conversion depends on; the rows belong to it, because the notes describe them.

    So does the architecture: the notes name the executed operators.
    """
    rows, machine = checked.digest, platform.machine()
    if not isinstance(fitted, FittedEstimator):
        return (_TORCH_REVISION, fitted.digest, fitted.output, rows, machine, *installed(_TORCH_LIBRARIES))
    boosting = sorted({library for _, library in _boosted(fitted.model)})
    names = [*(name for library in boosting for name in BOOSTING[library].distributions), "onnxmltools"]
    versions = [runtime_version(), *installed(_LIBRARIES), machine, *(installed(names) if boosting else ())]
    return (_REVISION, fitted.digest, fitted.width, fitted.output, sorted(_AVOIDED), rows, *versions, *registered())


def _convert_in_some_form(fitted: FittedEstimator, convert: Converter) -> tuple[bytes, str]:
    """Prefer the MatMul form; the converter raises where there is none, and trees come out as they always do."""
    try:
        model = convert(fitted, _AVOIDED)
        if set(operators_in(model)) & set(MATMUL_OPERATORS):
            return model, MATMUL_FORM
    except rejection_errors():
        pass  # the default form decides whether it converts at all, and gives the reason if not
    try:
        return convert(fitted, frozenset()), "default"
    except rejection_errors() as problem:
        facts = {"model": fitted.kind, "form": "ONNX", "converter": f"skl2onnx {version('skl2onnx')}"}
        raise _refusal(fitted, state("does not convert", **facts, why=one_line(problem)), problem) from problem


def convert_with_skl2onnx(fitted: FittedEstimator, avoided: frozenset[str]) -> bytes:
    """Write the estimator as ONNX without the `avoided` operators, reduced to the one output."""
    import numpy as np
    import skl2onnx
    from skl2onnx.helpers.onnx_helper import select_model_inputs_outputs

    row = np.zeros((1, fitted.width), dtype=np.float32)
    # Without an entry of its own the end of a pipeline gets ZipMap, a list of dictionaries per call; a classifier
    # without probabilities does not even know the option.
    options = {id(last_step(fitted.model)): {"zipmap": False} if fitted.output == "probabilities" else {}}
    with warnings.catch_warnings(action="ignore"), _booleans_as_numbers():  # of the converter about its dependencies
        for estimator, library in _boosted(fitted.model):
            _register(type(estimator), library)
        opset = {"": skl2onnx.__max_supported_opset__, "ai.onnx.ml": _DOMAIN_VERSION}
        model = skl2onnx.to_onnx(fitted.model, row, options=options, black_op=set(avoided) or None, target_opset=opset)
        names = [output.name for output in model.graph.output]
        wanted = "probabilities" if fitted.output == "probabilities" else names[0]
        model = select_model_inputs_outputs(model, outputs=[wanted])
    used = set(_inputs(model.graph))
    for weights in [weights for weights in model.graph.initializer if weights.name not in used]:
        model.graph.initializer.remove(weights)
    content: bytes = model.SerializeToString()
    return content


@contextlib.contextmanager
def _booleans_as_numbers() -> Iterator[None]:
    """Write a list with booleans as the numbers that ONNX has for them, while a model is converted.

    skl2onnx 1.20 mixes them into lists of 0 and 1 for the trees of histogram boosting, and protobuf refuses a boolean
    among whole numbers from 7.34 on.
    """
    from onnx import helper

    original = helper.make_attribute

    @functools.wraps(original)
    def make_attribute(key: str, value: Any, *more: Any, **named: Any) -> Any:
        if isinstance(value, list) and any(isinstance(one, bool) for one in value):
            value = [int(one) if isinstance(one, bool) else one for one in value]
        return original(key, value, *more, **named)

    helper.make_attribute = make_attribute
    try:
        yield
    finally:
        helper.make_attribute = original


def _inputs(graph: Any) -> Iterator[str]:
    """Yield the inputs of the nodes of a graph; the body of a loop reads from outside too."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _inputs(attribute.g)


def operators_in(model: bytes) -> tuple[str, ...]:
    """Return the kinds of operators in an ONNX graph, in the order of their first use."""
    import onnx

    return tuple(dict.fromkeys(node.op_type for node in onnx.load_from_string(model).graph.node))


def _export(fitted: FittedModel, checked: Any) -> bytes:
    """Write a module as ONNX by PyTorch's exporter, the number of rows left open."""
    import numpy as np
    import torch

    two = torch.from_numpy(np.resize(checked, (2, *checked.shape[1:])))  # of one row the exporter makes a constant
    try:
        with evaluating(fitted.model), untraced_compiler(), _quiet():
            program = torch.onnx.export(
                fitted.model,
                (two,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("n")},),
                input_names=["rows"],
                output_names=["outputs"],
                verbose=False,
            )
        model = program.model_proto
        model.graph.ClearField("value_info")  # of weights too, which a quantiser replaces by others
        content: bytes = model.SerializeToString()
    except rejection_errors() as problem:
        facts = {"model": fitted.kind, "form": "ONNX", "converter": f"{TORCH_FORM} {version('torch')}"}
        raise ScenarioUnavailable(state("does not convert", **facts, why=one_line(problem))) from problem
    return content


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide what PyTorch's exporter says of its steps, and of packages that it does without."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _boosted(model: Any) -> list[tuple[Any, str]]:
    """Return the estimators of boosted trees in a model, each with its library."""
    found = [(one, type(one).__module__.partition(".")[0]) for one in nested_estimators(model)]
    return [(one, library) for one, library in found if library in BOOSTING]


def _register(kind: type[Any], extra: str) -> None:
    """Register the converter of an estimator of boosted trees; what a project has registered itself stays."""
    from skl2onnx import update_registered_converter
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common import shape_calculator

    library = BOOSTING[extra]
    if kind.__name__ not in library.estimators or kind in sklearn_operator_name_map:
        return  # a kind that onnxmltools does not know is refused by skl2onnx, with its reason
    module, _, name = library.converter.partition(":")
    try:
        converter = getattr(importlib.import_module(f"onnxmltools.convert.{module}"), name)
    except ImportError as error:
        raise ScenarioUnavailable(
            f"{kind.__name__} is converted to ONNX by onnxmltools, which cannot be imported ({error}): {install(extra)}"
        ) from error
    classifies = kind.__name__.endswith("Classifier")
    shapes, options = (
        (shape_calculator.calculate_linear_classifier_output_shapes, _CLASSIFIER)
        if classifies
        else (shape_calculator.calculate_linear_regressor_output_shapes, library.regressor_options)
    )
    update_registered_converter(kind, library.alias + kind.__name__, shapes, converter, options=options)


def registered() -> tuple[str, ...]:
    """Return what is not skl2onnx's own among its converters, shape calculators and entry points, by name.

    () where skl2onnx is not loaded yet: nothing can be registered with it then.
    """
    library = sys.modules.get("skl2onnx")
    if library is None:
        return ()
    entry = _name(getattr(library, "to_onnx", None))
    changed = () if entry.startswith("skl2onnx.") else (f"to_onnx={entry}",)
    return (*sorted(f"{alias}={name}" for alias, name in _foreign()), *changed)


def _refusal(fitted: FittedModel, cause: Statement | str, problem: BaseException | None = None) -> HwperfError:
    """Return the error for a conversion that failed: a converter that breaks is a mistake, a lack of one is a skip.

    Without a `problem` that it raised, the converter that the project has registered for the model is at fault.
    """
    place = own_frame(problem) if problem is not None else _own_converter(fitted)
    return MeasurementError(_mend(cause, place)) if place else ScenarioUnavailable(cause)


def _mend(cause: Statement | str, place: str) -> str:
    return f"{cause}: the converter is the project's own ({place}): mend it, or drop the scenario"


def _own_converter(fitted: FittedModel) -> str:
    """Return the name of the function that the project has registered for an estimator, "" where it has none."""
    if not isinstance(fitted, FittedEstimator):
        return ""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    aliases = {sklearn_operator_name_map.get(type(one)) for one in (fitted.model, last_step(fitted.model))}
    return next((name for alias, name in _foreign() if alias in aliases), "")


def _foreign() -> list[tuple[str, str]]:
    """Return what a project has registered with skl2onnx: alias and name of each function."""
    try:
        from skl2onnx.common import _registration as pools

        wrapped = {alias: getattr(one, "_fct", one) for alias, one in pools._converter_pool.items()}  # noqa: SLF001 - the same
        found = [*wrapped.items(), *pools._shape_calculator_pool.items()]  # noqa: SLF001 - there is no public way
    except (ImportError, AttributeError):
        return []
    named = [(alias, _name(function)) for alias, function in found]
    # Converters of onnxmltools are registered here, for the models that need them.
    return [(alias, name) for alias, name in named if not name.startswith(("skl2onnx.", "onnxmltools."))]


def _name(function: Any) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
