"""The converters of XGBoost and LightGBM estimators to ONNX: those of onnxmltools, registered where they are needed."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pytest_hwperf.core.errors import ScenarioUnavailable

LIBRARY = "onnxmltools"
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
    names = [*(name for library in libraries for name in BOOSTING[library].distributions), *[LIBRARY] * bool(libraries)]
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
            f"{kind.__name__} is converted to ONNX by {LIBRARY}, which cannot be imported ({error}): "
            f"pip install 'pytest-hwperf[{extra}]'"
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
