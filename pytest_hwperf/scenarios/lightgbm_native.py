"""An estimator of LightGBM in LightGBM itself: its booster predicts, without the estimator's checks."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any

from pytest_hwperf.scenarios.boosters import BoosterRuntime, Call, booster_scenario, with_both_classes
from pytest_hwperf.scenarios.estimators import FittedEstimator
from pytest_hwperf.scenarios.prepared import PreparedScenario


def lightgbm_native(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare a fitted estimator of LightGBM; `X_calibration` is not used; raises as `booster_scenario`."""
    del X_calibration
    runtime = BoosterRuntime(
        name="lightgbm_native",
        module="lightgbm",
        title="LightGBM",
        calls=_calls,
        size=lambda one: len(one.booster_.model_to_string().encode()),
        size_source="lightgbm text",
    )
    return booster_scenario(runtime, model, X, threads)


def _calls(fitted: FittedEstimator, threads: int) -> Mapping[str, Call]:
    """Return the booster's call, and the estimator's own."""
    model = deepcopy(fitted.model)
    model.n_jobs = threads
    predict = partial(model.booster_.predict, num_threads=threads)  # of the best iteration, if training stopped early
    two = fitted.output == "probabilities" and fitted.classes is not None and len(fitted.classes) == 2  # noqa: PLR2004 - classes
    own = model.predict_proba if fitted.output == "probabilities" else model.predict

    def both(rows: Any) -> Any:
        return with_both_classes(predict(rows))

    return {"booster.predict": both if two else predict, own.__name__: own}
