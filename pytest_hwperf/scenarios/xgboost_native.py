"""An estimator of XGBoost in XGBoost itself: its booster predicts in place, as a service would call it."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any

from pytest_hwperf.scenarios.boosters import BoosterRuntime, Call, booster_scenario, with_both_classes
from pytest_hwperf.scenarios.estimators import FittedEstimator
from pytest_hwperf.scenarios.prepared import PreparedScenario


def xgboost_native(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare a fitted estimator of XGBoost; `X_calibration` is not used; raises as `booster_scenario`."""
    del X_calibration
    runtime = BoosterRuntime(
        name="xgboost_native",
        module="xgboost",
        title="XGBoost",
        calls=_calls,
        size=lambda one: len(one.get_booster().save_raw("ubj")),
        size_source="xgboost ubj",
    )
    return booster_scenario(runtime, model, X, threads)


def _calls(fitted: FittedEstimator, threads: int) -> Mapping[str, Call]:
    """Return the booster's call, which has none of the estimator's checks, and the estimator's own."""
    model = deepcopy(fitted.model)
    model.n_jobs = threads
    booster = model.get_booster()
    booster.set_param({"nthread": threads})  # what the estimator says does not reach a booster that is fitted
    best = getattr(booster, "best_iteration", None)
    rounds = (0, 0 if best is None else int(best) + 1)  # (0, 0) are all
    in_place = partial(booster.inplace_predict, iteration_range=rounds, validate_features=False)
    two = fitted.output == "probabilities" and fitted.classes is not None and len(fitted.classes) == 2  # noqa: PLR2004 - classes
    own = model.predict_proba if fitted.output == "probabilities" else model.predict

    def both(rows: Any) -> Any:
        return with_both_classes(in_place(rows))

    return {"inplace_predict": both if two else in_place, own.__name__: own}
