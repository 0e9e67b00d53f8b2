"""The fitted scikit-learn estimator as it is, with its thread pools limited."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.host.extras import missing
from pytest_hwperf.records.contracts import CallStage, Predictor, Scenario
from pytest_hwperf.records.errors import UsageProblem, install
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.records.text import visible
from pytest_hwperf.scenarios.estimators import (
    FittedEstimator,
    inspect_estimator,
    last_step,
    nested_estimators,
    serialise,
)
from pytest_hwperf.scenarios.threads import describe_pools, limit_threads, uncalibrated


def _scenario(model: Any, X: Any, threads: int) -> Scenario:
    fitted = inspect_estimator(model, X)
    return Scenario(
        name="sklearn_fp32",
        imports=tuple(sorted({type(part).__module__ for part in nested_estimators(model)})),
        conditions={"threads": str(threads), "precision": _precision(fitted, X), "output": fitted.output},
        context={"model": fitted.digest, "thread pools": describe_pools(), **AS_TRAINED},
        model_bytes=serialise(model).written,
        size_source="joblib",
        classifies=fitted.classes is not None,
        load=partial(_load, fitted, threads),
    )


sklearn_fp32 = uncalibrated(_scenario)


def _load(fitted: FittedEstimator, threads: int) -> Predictor:
    """Copy the estimator: a fresh process would use memory of its own for it."""
    model = deepcopy(fitted.model)
    for part in nested_estimators(model):
        if hasattr(part, "n_jobs"):
            part.n_jobs = threads
        # It is fed arrays. With the names it would check and warn about them in every single call.
        vars(part).pop("feature_names_in_", None)
    call = model.predict_proba if fitted.output == "probabilities" else model.predict
    return fitted.predictor(call, partial(limit_threads, threads), _stages(model, fitted.output))


def _stages(model: Any, output: str) -> tuple[CallStage, ...]:
    """Return the transformers of a pipeline as one stage and its last step as the other; none of other models."""
    from sklearn.pipeline import Pipeline

    if type(model) is not Pipeline or len(model.steps) == 1:  # a subclass may call its steps otherwise
        return ()
    last = last_step(model)
    predict = last.predict_proba if output == "probabilities" else last.predict
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
    outputs = np.asarray(fitted.predict(fitted.rows(X)[:1]))
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
