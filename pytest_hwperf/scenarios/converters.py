"""The converters that a project has registered with skl2onnx: what they decide, and when they are at fault."""

import sys
from typing import Any

from pytest_hwperf.core.errors import HwperfError, MeasurementError, ScenarioUnavailable
from pytest_hwperf.core.statements import Statement
from pytest_hwperf.scenarios.boosting_converters import LIBRARY as BOOSTING_CONVERTERS
from pytest_hwperf.scenarios.estimators import FittedEstimator, last_step
from pytest_hwperf.scenarios.sources import own_frame

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
