"""XGBoost and LightGBM: an estimator whose own booster is called, with its threads set."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.runtimes.cache import key_of, notes_of
from pytest_hwperf.runtimes.estimators import (
    FittedEstimator,
    as_array,
    inspect_estimator,
    require_estimator,
    with_probabilities,
)
from pytest_hwperf.runtimes.own_call import ESTIMATOR_ERRORS, describe_given, digest_given, take_given
from pytest_hwperf.runtimes.threads import limit_threads, uncalibrated

_SAME = 1e-6  # of the largest output: both sides compute the same sums

Call = Callable[[Any], Any]  # rows → probabilities (n, k), or values (n,)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoosterRuntime:
    """One of the libraries."""

    module: str  # which is also the name of the extra
    title: str  # for sentences
    call: str  # how the booster's own call is shown
    booster_of: Callable[[Any, int], Call]  # estimator and threads → the call of its booster
    size: Callable[[Any], int]  # serialised size of an estimator in B
    size_source: str
    precision: str  # in which it computes

    def calls(self, fitted: FittedEstimator, threads: int) -> Mapping[str, Call]:
        """Return the ways to call a new copy with so many threads, by name: its booster's, and its own, the last."""
        model = deepcopy(fitted.model)
        model.n_jobs = threads
        predict = self.booster_of(model, threads)
        two = fitted.output == "probabilities" and fitted.classes is not None and len(fitted.classes) == 2  # noqa: PLR2004 - classes
        own = model.predict_proba if fitted.output == "probabilities" else model.predict
        return {self.call: partial(_with_both_classes, predict) if two else predict, own.__name__: own}


def _scenario(runtime: BoosterRuntime, model: Any, X: Any, threads: int) -> Scenario:
    """Prepare an estimator of the library, by the first of its calls that gives what the estimator itself gives."""
    require(runtime.module, f"{runtime.title} is not installed", runtime.module, error=ScenarioUnavailable)
    require_estimator(model)
    if type(model).__module__.partition(".")[0] != runtime.module:
        raise ScenarioUnavailable(
            f"{type(model).__name__} is no estimator of {runtime.title}; sklearn_fp32 measures it, also with one inside"
        )
    fitted = with_probabilities(inspect_estimator(model, X), X)
    call = _choose(runtime, fitted, X)
    return Scenario(
        name=f"{runtime.module}_native",
        imports=(runtime.module,),
        conditions={
            "threads": str(threads),
            "precision": runtime.precision,
            "output": fitted.output,
            "call": call,
            "rows": describe_given(X),
        },
        context={"model": fitted.digest, **AS_TRAINED},
        model_bytes=runtime.size(model),
        size_source=runtime.size_source,
        classifies=fitted.classes is not None,
        load=partial(_load, runtime, fitted, threads, call),
        answers=fitted.answers,
    )


def _load(runtime: BoosterRuntime, fitted: FittedEstimator, threads: int, call: str) -> Predictor:
    """Return a call of a copy, on rows as they are given."""
    return Predictor(
        batches=fitted.given,
        predict=runtime.calls(fitted, threads)[call],
        labels=fitted.labels,
        probabilities=as_array if fitted.output == "probabilities" else None,
        scope=partial(limit_threads, threads),
    )


def _with_both_classes(predict: Call, rows: Any) -> Any:
    """Return probabilities of two classes, shape (n, 2), where a booster gives those of the second, shape (n,)."""
    import numpy as np

    positive = predict(rows)
    return np.column_stack((1 - positive, positive))


def _choose(runtime: BoosterRuntime, fitted: FittedEstimator, X: Any) -> str:
    """Return the first call that agrees with the estimator; the last one is the estimator's own."""

    def tell() -> dict[str, str]:
        checked = fitted.checked(X)
        own, rows = checked.own(), take_given(X, checked.positions())
        expected = own.probabilities if fitted.output == "probabilities" else own.labels
        calls = runtime.calls(fitted, 1)
        last = [*calls][-1]
        return {"call": next(name for name, call in calls.items() if name == last or _agrees(call, rows, expected))}

    parts = (runtime.module, fitted.digest, fitted.output, digest_given(X), version("pytest-hwperf"))
    return notes_of(key_of("booster", *parts), tell)["call"]


def _agrees(call: Call, rows: Any, expected: Any) -> bool:
    """Whether a booster says what its estimator says; with some objectives it says something else, or nothing."""
    import numpy as np

    try:
        found = np.asarray(call(rows))
    except ESTIMATOR_ERRORS:
        return False
    if found.shape != expected.shape:
        return False
    if found.dtype.kind != "f" or expected.dtype.kind not in "fiu":
        return bool((found == expected).all())
    error = np.abs(found.astype(np.float64) - expected).max()
    return bool(error <= _SAME * max(1.0, float(np.abs(expected).max())))


def _lightgbm(model: Any, threads: int) -> Call:
    return partial(model.booster_.predict, num_threads=threads)  # of the best iteration, if training stopped early


def _xgboost(model: Any, threads: int) -> Call:
    """Return a call that has none of the estimator's checks."""
    booster = model.get_booster()
    booster.set_param({"nthread": threads})  # what the estimator says does not reach a booster that is fitted
    best = getattr(booster, "best_iteration", None)
    rounds = (0, 0 if best is None else int(best) + 1)  # (0, 0) are all
    return partial(booster.inplace_predict, iteration_range=rounds, missing=model.missing, validate_features=False)


lightgbm_native = uncalibrated(
    _scenario,
    BoosterRuntime(
        module="lightgbm",
        title="LightGBM",
        call="booster.predict",
        booster_of=_lightgbm,
        size=lambda one: len(one.booster_.model_to_string().encode()),
        size_source="lightgbm text",
        precision="float64",
    ),
)
xgboost_native = uncalibrated(
    _scenario,
    BoosterRuntime(
        module="xgboost",
        title="XGBoost",
        call="inplace_predict",
        booster_of=_xgboost,
        size=lambda one: len(one.get_booster().save_raw("ubj")),
        size_source="xgboost ubj",
        precision="float32",
    ),
)
