"""What scenarios of several runtimes have in common: the predictor of a model's form, and a GPU that must be there."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pytest_hwperf.host.nvidia import NvidiaGpus
from pytest_hwperf.records.contracts import CallStage, Predictor
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.scenarios.estimators import FittedEstimator
from pytest_hwperf.scenarios.rows import split_batches
from pytest_hwperf.scenarios.torch_modules import FittedModule


def predictor_of(
    fitted: FittedEstimator | FittedModule,
    predict: Callable[[Any], Any],
    scope: Callable[[], AbstractContextManager[object]] = nullcontext,
    stages: Sequence[CallStage] = (),
) -> Predictor:
    """Return a form of a model that takes C-contiguous arrays of rows; what makes labels is the last of its stages."""
    return Predictor(
        batches=lambda X, batch_size: split_batches(fitted.rows(X), batch_size),
        predict=predict,
        labels=fitted.labels,
        probabilities=as_array if fitted.output == "probabilities" else None,
        scope=scope,
        stages=[*stages, CallStage(name="postprocess", call=fitted.labels, is_after=True)] if stages else (),
    )


def as_array(outputs: Any) -> Any:
    """Return outputs of any runtime as an array."""
    import numpy as np

    return np.asarray(outputs)


def require_gpu(gpus: NvidiaGpus) -> None:
    """Refuse a scenario of a GPU where this process has none.

    Whatever a runtime lacks on a machine that has one is an error of the scenario itself, and no skip.
    """
    if not gpus.models:
        raise ScenarioUnavailable(f"no NVIDIA GPU: {gpus.why_none}")
