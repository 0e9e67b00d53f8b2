"""The converters that a project has registered with skl2onnx: what they decide, and when they are at fault."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pytest_hwperf.records.errors import HwperfError, MeasurementError, ScenarioUnavailable, install
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.scenarios.cache import own_frame
from pytest_hwperf.scenarios.estimators import FittedEstimator, last_step

BOOSTING_CONVERTERS = "onnxmltools"
DOMAIN_VERSION = 3  # of ai.onnx.ml: the newest that these converters write

_CLASSIFIER = {"nocl": [True, False], "zipmap": [True, False, "columns"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostingLibrary:
    """A library of boosted trees."""

    distributions: tuple[str, ...]  # any of which installs it
    module: str  # of onnxmltools, with the converter
    converter: str
    aliases: Mapping[str, str]  # estimator → name under which skl2onnx knows it
    regressor_options: Mapping[str, Any] | None = None


BOOSTING: Mapping[str, BoostingLibrary] = {
    "xgboost": BoostingLibrary(
        distributions=("xgboost", "xgboost-cpu"),
        module="onnxmltools.convert.xgboost.operator_converters.XGBoost",
        converter="convert_xgboost",
        aliases={
            name: f"XGBoost{name}" for name in ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor")
        },
    ),
    "lightgbm": BoostingLibrary(
        distributions=("lightgbm",),
        module="onnxmltools.convert.lightgbm.operator_converters.LightGbm",
        converter="convert_lightgbm",
        aliases={name: f"LightGbm{name}" for name in ("LGBMClassifier", "LGBMRegressor")},
        regressor_options={"split": None},
    ),
}


def library_of(estimator: Any) -> str:
    """Return which of these libraries an estimator is from, "" for none."""
    top = type(estimator).__module__.partition(".")[0]
    return top if top in BOOSTING else ""


def libraries_of(estimators: Iterator[Any]) -> tuple[str, ...]:
    """Return the libraries that any of these estimators is from, each once."""
    return tuple(sorted({library_of(one) for one in estimators} - {""}))


def versions_of(libraries: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a conversion depends on, where such an estimator takes part."""
    names = [
        *(name for library in libraries for name in BOOSTING[library].distributions),
        *[BOOSTING_CONVERTERS] * bool(libraries),
    ]
    return tuple(f"{name} {found}" for name in names if (found := _version(name)))


def register_converters(estimators: Iterator[Any]) -> bool:
    """Register the converters that these estimators need; return whether any of them does.

    What a project has registered itself stays.
    """
    needed = [one for one in estimators if library_of(one)]
    for estimator in needed:
        _register(type(estimator), BOOSTING[library_of(estimator)], library_of(estimator))
    return bool(needed)


def _register(kind: type[Any], library: BoostingLibrary, extra: str) -> None:
    from skl2onnx import update_registered_converter
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common import shape_calculator

    alias = library.aliases.get(kind.__name__)
    if alias is None or kind in sklearn_operator_name_map:
        return  # a kind that onnxmltools does not know is refused by skl2onnx, with its reason
    try:
        converter = getattr(importlib.import_module(library.module), library.converter)
    except ImportError as error:
        raise ScenarioUnavailable(
            f"{kind.__name__} is converted to ONNX by {BOOSTING_CONVERTERS}, which cannot be imported ({error}): "
            f"{install(extra)}"
        ) from error
    classifies = kind.__name__.endswith("Classifier")
    shapes = (
        shape_calculator.calculate_linear_classifier_output_shapes
        if classifies
        else shape_calculator.calculate_linear_regressor_output_shapes
    )
    options = _CLASSIFIER if classifies else library.regressor_options
    update_registered_converter(kind, alias, shapes, converter, options=options)


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


_LIBRARY = "skl2onnx"


def registered() -> tuple[str, ...]:
    """Return what is not skl2onnx's own among its converters, shape calculators and entry points, by name.

    () where skl2onnx is not loaded yet: nothing can be registered with it then.
    """
    library = sys.modules.get(_LIBRARY)
    if library is None:
        return ()
    entry = getattr(library, "to_onnx", None)
    return (*sorted(f"{alias}={_name(function)}" for alias, function in _foreign()), *_changed(entry))


def refusal(fitted: FittedEstimator, cause: Statement | str, problem: BaseException | None = None) -> HwperfError:
    """Return the error for a conversion that failed: a converter that breaks is a mistake, a lack of one is a skip."""
    place = own_frame(problem) if problem is not None else _own_converter(fitted)
    if not place:
        return ScenarioUnavailable(cause)
    return MeasurementError(f"{cause}: the converter is the project's own ({place}): mend it, or drop the scenario")


def _foreign() -> list[tuple[str, Any]]:
    try:
        from skl2onnx.common import _registration as pools

        wrapped = {alias: getattr(one, "_fct", one) for alias, one in pools._converter_pool.items()}  # noqa: SLF001 - the same
        found = [*wrapped.items(), *pools._shape_calculator_pool.items()]  # noqa: SLF001 - there is no public way
    except (ImportError, AttributeError):
        return []
    known = (f"{_LIBRARY}.", f"{BOOSTING_CONVERTERS}.")  # the latter are registered here, for the models that need them
    return [(alias, function) for alias, function in found if not _name(function).startswith(known)]


def _own_converter(fitted: FittedEstimator) -> str:
    """Return the name of a registered converter of the project for this estimator or its last step, "" for none."""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    aliases = {sklearn_operator_name_map.get(type(one)) for one in (fitted.model, last_step(fitted.model))}
    return next((_name(function) for alias, function in _foreign() if alias in aliases), "")


def _changed(entry: Any) -> tuple[str, ...]:
    name = _name(entry)
    return () if name.startswith(f"{_LIBRARY}.") else (f"to_onnx={name}",)


def _name(function: Any) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
