"""A prepared scenario as a record, and the predictor that all forms of an estimator share."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pytest_hwperf.host.nvidia import NvidiaGpus
from pytest_hwperf.records.contracts import CallStage, Predictor
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.profiles import ProfiledCalls
from pytest_hwperf.records.work import Work
from pytest_hwperf.scenarios.estimators import FittedEstimator
from pytest_hwperf.scenarios.rows import split_batches
from pytest_hwperf.scenarios.torch_modules import FittedModule


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedScenario:
    """A model in a runtime, converted and ready to load."""

    name: str
    imports: tuple[str, ...]  # modules that a fresh process imports before it loads the model
    conditions: Mapping[str, str]
    context: Mapping[str, str]
    model_bytes: int
    size_source: str
    classifies: bool
    load: Callable[[], Predictor]
    reference: str | None = None  # name of the scenario that it is compared with; None for the usual one


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaScenario(PreparedScenario):
    """A scenario whose runtime reports the peaks of its allocator."""

    arena: Callable[[Any, int], Mapping[str, float]]  # rows and batch size → metric → B
    arena_source: str = "onnxruntime profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxScenario(ArenaScenario):
    """A scenario of ONNX Runtime, whose profiler knows its operators."""

    operators: Callable[[Any, int], ProfiledCalls]  # rows and batch size → where the time of a call goes
    work: Callable[[int], Work]  # batch size → operations and bytes of a call


class EstimatorPredictor:
    """A form of an estimator, ready to be called."""

    def __init__(
        self,
        predict: Callable[[Any], Any],
        fitted: FittedEstimator | FittedModule,
        scope: Callable[[], AbstractContextManager[object]] = nullcontext,
        stages: Sequence[CallStage] = (),
    ) -> None:
        self._stages = stages
        self.predict = predict
        self.scope = scope
        self._fitted = fitted

    def stages(self) -> Sequence[CallStage]:
        """Return the stages of a call, and what makes labels of its outputs; none where it is one piece."""
        return [*self._stages, CallStage(name="postprocess", call=self.labels, is_after=True)] if self._stages else ()

    def batches(self, X: Any, batch_size: int) -> Sequence[Any]:
        """Split `X` into C-contiguous float32 matrices of `batch_size` rows (the last may be shorter)."""
        return split_batches(self._fitted.rows(X), batch_size)

    def labels(self, outputs: Any) -> Any:
        """Return labels or values of shape (n,)."""
        return self._fitted.labels(outputs)

    def probabilities(self, outputs: Any) -> Any | None:
        """Return probabilities of shape (n, k), None where the estimator has none."""
        return outputs if self._fitted.output == "probabilities" else None


def require_gpu(gpus: NvidiaGpus) -> None:
    """Refuse a scenario of a GPU where this process has none.

    Whatever a runtime lacks on a machine that has one is an error of the scenario itself, and no skip.
    """
    if not gpus.models:
        raise ScenarioUnavailable(f"no NVIDIA GPU: {gpus.why_none}")
