"""The fitted scikit-learn estimator as it is, with its thread pools limited."""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from pytest_hwperf.host.extras import missing
from pytest_hwperf.records.contracts import CallStage, Predictor, Scenario
from pytest_hwperf.records.errors import UsageProblem, install
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.records.text import visible
from pytest_hwperf.runtimes.estimators import (
    FittedEstimator,
    inspect_estimator,
    last_step,
    nested_estimators,
    serialise,
)
from pytest_hwperf.runtimes.own_call import ESTIMATOR_ERRORS, describe_given, probabilities_of
from pytest_hwperf.runtimes.threads import describe_pools, limit_threads, uncalibrated


def _scenario(model: Any, X: Any, threads: int) -> Scenario:
    fitted = inspect_estimator(model, X)
    return Scenario(
        name="sklearn_fp32",
        imports=tuple(sorted({type(part).__module__ for part in nested_estimators(model)})),
        conditions={
            "threads": str(threads),
            "precision": _precision(fitted, X),
            "output": fitted.output,
            "call": "predict",
            "rows": describe_given(X),
        },
        context={"model": fitted.digest, "thread pools": describe_pools(), **AS_TRAINED},
        model_bytes=serialise(model).written,
        size_source="joblib",
        classifies=fitted.classes is not None,
        load=partial(_load, fitted, threads),
        answers=fitted.answers,
    )


sklearn_fp32 = uncalibrated(_scenario)


def _load(fitted: FittedEstimator, threads: int) -> Predictor:
    """Copy the estimator: a fresh process would use memory of its own for it.

    The call is the user's own, `predict` on rows as they are given, and nothing of the copy is changed but its threads.
    """
    model = deepcopy(fitted.model)
    for part in nested_estimators(model):
        if hasattr(part, "n_jobs"):
            part.n_jobs = threads
        if hasattr(part, "get_booster") and part.__sklearn_is_fitted__():
            part.get_booster().set_param({"nthread": threads})  # what the estimator says does not reach it
    return Predictor(
        batches=fitted.given,
        predict=_predict_of(model, threads),
        labels=fitted.labels,
        all_probabilities=partial(probabilities_of, model) if fitted.classes is not None else None,
        scope=partial(limit_threads, threads),
        stages=_stages(model, threads),
    )


_THREADS = ("thread_count", "num_threads", "n_jobs")  # names under which a call takes a number of threads


def _predict_of(model: Any, threads: int) -> Callable[[Any], Any]:
    """Return `predict`, with the number of threads where it is an argument of the call alone, as in CatBoost."""
    from sklearn.pipeline import Pipeline

    last = model.steps[-1][1] if type(model) is Pipeline else model
    found = next((name for name in _THREADS if name in signature(last.predict).parameters), None)
    predict: Callable[[Any], Any] = model.predict
    return predict if found is None else partial(predict, **{found: threads})


def _stages(model: Any, threads: int) -> tuple[CallStage, ...]:
    """Return the transformers of a pipeline as one stage and its last step as the other; none of other models."""
    from sklearn.pipeline import Pipeline

    if type(model) is not Pipeline or len(model.steps) == 1:  # a subclass may call its steps otherwise
        return ()
    predict = _predict_of(model.steps[-1][1], threads)
    return CallStage(name="preprocess", call=model[:-1].transform), CallStage(name="inference", call=predict)


def _precision(fitted: FittedEstimator, X: Any) -> str:
    """Name the type it computes in: that of the weights, whatever the rows are; without weights, of the outputs."""
    import numpy as np

    last = last_step(fitted.model)
    for name in ("coefs_", "coef_", "dual_coef_"):
        weights = getattr(last, name, None)
        first = weights[0] if isinstance(weights, list) else weights
        if isinstance(first, np.ndarray):
            return str(first.dtype)
    names = [name for name in ("predict_proba", "predict") if hasattr(fitted.model, name)]
    try:
        with warnings.catch_warnings(action="ignore"):
            outputs = np.asarray(getattr(fitted.model, names[0])(fitted.given(X, 1)[0]))
    except ESTIMATOR_ERRORS:
        return "unknown"  # such as a vote by majority, which has the method and refuses it
    return str(outputs.dtype) if outputs.dtype.kind == "f" else "unknown"


_SHOWN = 10  # types that are named


def load_estimator(path: Path, trust: Sequence[str] = ()) -> Any:
    """Load an estimator; skops looks at every type in the file before it imports or makes one."""
    if missing("skops"):
        raise UsageProblem(f"{path} is read by skops, which is not installed: {install('skops')}")
    from skops import io

    try:
        unknown = [name for name in io.get_untrusted_types(file=path) if name not in trust]
    except Exception as error:  # damaged archives and schemas raise a dozen unrelated kinds
        raise UsageProblem(f"{path} is no file of skops ({_told(error)}): write one with skops.io.dump") from error
    if unknown:
        raise UsageProblem(_refusal(path, unknown))
    try:
        estimator = io.load(path, trusted=[*trust])
    except Exception as error:
        raise UsageProblem(f"{path} cannot be loaded: {_told(error)}") from error
    if not callable(getattr(estimator, "predict", None)):
        raise UsageProblem(f"{path} holds a {type(estimator).__name__}, which has no method predict")
    return estimator


def _refusal(path: Path, unknown: Sequence[str]) -> str:
    more = f" and {len(unknown) - _SHOWN} others" if len(unknown) > _SHOWN else ""
    names, options = (sep.join(map(visible, unknown[:_SHOWN])) for sep in (", ", " --trust="))
    return (
        f"{path} holds types that are not trusted: {names}{more}. Loading one runs its code: look at them, and if you "
        f"trust them, give --trust={options}"
    )


def _told(error: Exception) -> str:
    return visible(f"{type(error).__name__}: {error}"[:300])
