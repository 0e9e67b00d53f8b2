"""PyTorch on the processor, eager: the module as it is, and what its other forms share with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_hwperf.records.profiles import ProfiledCalls
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.scenarios.prepared import PreparedScenario
from pytest_hwperf.scenarios.rows import split_batches
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_modules import TORCH_REFERENCE, FittedModule, copy_of, inspect_module, size_of
from pytest_hwperf.scenarios.torch_operators import profile_calls
from pytest_hwperf.scenarios.torch_switches import AS_IT_IS, CHANNELS_LAST, WITHOUT_MKLDNN, Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleForm:
    """What is particular to one form of a module."""

    name: str
    form: str  # "eager", "compiled"
    precision: str
    conditions: Mapping[str, str]
    context: Mapping[str, str]
    load: Callable[[], "ModulePredictor"]
    imports: tuple[str, ...] = ("torch",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleScenario(PreparedScenario):
    """A form of a module on the processor, whose operators PyTorch's profiler knows."""

    operators: Callable[[Any, int], ProfiledCalls]  # rows and batch size → where the time of a call goes


class ModulePredictor:
    """A form of a module, ready to be called."""

    def __init__(
        self,
        predict: Callable[[Any], Any],
        fitted: FittedModule,
        scope: Callable[[], AbstractContextManager[object]],
        *,
        compiles: bool = False,
        switches: Switches = AS_IT_IS,
    ) -> None:
        self.predict = predict
        self.compiles = compiles
        self._scope = scope
        self._fitted = fitted
        self._switches = switches

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Hold what has to be held while calls are made."""
        with self._switches.held(), self._scope():
            yield

    def batches(self, X: Any, batch_size: int) -> Sequence[Any]:
        """Split `X` into tensors of `batch_size` rows (the last may be shorter)."""
        import torch

        return split_batches(self._switches.rows(torch.from_numpy(self._fitted.rows(X))), batch_size)

    def labels(self, outputs: Any) -> Any:
        """Return labels or values."""
        return self._fitted.labels(outputs)

    def probabilities(self, outputs: Any) -> Any | None:
        """Return probabilities of shape (n, k); None where the module's outputs are none."""
        import numpy as np

        return np.asarray(outputs) if self._fitted.output == "probabilities" else None


def torch_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> ModuleScenario:
    """Prepare a module as it is, in evaluation and inference mode; `X` shows its input, `X_calibration` is not used.

    Raises:
        UsageProblem: no module, or one that does not take rows of `X`; no whole number of threads.
        MeasurementError: `X` is not numeric, or there is not one row of outputs for each of its rows.
        ScenarioUnavailable: it is not in float32, or cannot be copied.
    """
    del X_calibration
    return _scenario(TORCH_REFERENCE, AS_IT_IS, model, X, threads)


def torch_fp32_channels_last(
    model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1
) -> ModuleScenario:
    """Prepare a module of images as `torch_fp32` does, its weights and its rows with the channels last.

    Raises as `torch_fp32`.

    Raises:
        ScenarioUnavailable: it has no convolution of images.
    """
    del X_calibration
    return _scenario("torch_fp32_channels_last", CHANNELS_LAST, model, X, threads)


def torch_fp32_no_mkldnn(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> ModuleScenario:
    """Prepare a module as `torch_fp32` does, to be called without oneDNN.

    Raises as `torch_fp32`.

    Raises:
        ScenarioUnavailable: this PyTorch has none.
    """
    del X_calibration
    return _scenario("torch_fp32_no_mkldnn", WITHOUT_MKLDNN, model, X, threads)


def scenario_of_module(fitted: FittedModule, threads: int, form: ModuleForm, size: int | None = None) -> ModuleScenario:
    """Return one form of a module as a scenario; `size` in B, where it is not that of the module."""
    import torch

    return ModuleScenario(
        name=form.name,
        imports=form.imports,
        conditions={
            "threads": str(threads),
            "inter_op_threads": str(torch.get_num_interop_threads()),
            "form": form.form,
            "precision": form.precision,
            "output": fitted.output,
            **form.conditions,
        },
        context={"model": fitted.digest[:16], **form.context},
        model_bytes=size_of(fitted.model) if size is None else size,
        size_source="torch.save",
        classifies=fitted.classes is not None,
        load=form.load,
        reference=TORCH_REFERENCE,
        operators=partial(_operators, form.load),
    )


def matmul_precision() -> str:
    """Return in what the processor multiplies float32 matrices: the program may have allowed less than float32."""
    import torch

    chosen = str(torch.backends.mkldnn.matmul.fp32_precision)
    return "float32" if chosen in {"none", "ieee"} else f"float32, matrix products in {chosen}"


def inferring(module: Any) -> Callable[[Any], Any]:
    """Return the timed call of a module: each call enters inference mode, as that of a server does in its thread."""
    import torch

    inference_mode = torch.inference_mode

    def predict(batch: Any) -> Any:
        with inference_mode():
            return module(batch)

    return predict


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let PyTorch use so many threads within an operator, and give it back its own number."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _operators(load: Callable[[], ModulePredictor], X: Any, batch_size: int) -> ProfiledCalls:
    """Return where the time of a call goes, for the first `batch_size` rows of `X`, of a copy that nothing times."""
    predictor = load()
    batch = predictor.batches(X, batch_size)[0]
    with predictor.scope():
        return profile_calls(partial(predictor.predict, batch), len(batch))


def _scenario(name: str, switches: Switches, model: Any, X: Any, threads: int) -> ModuleScenario:
    check_threads(threads)
    fitted = inspect_module(model, X, name)
    switches.require(fitted)
    form = ModuleForm(
        name=name,
        form="eager",
        precision=matmul_precision(),
        conditions=switches.conditions(),
        context=AS_TRAINED,
        load=partial(_load, fitted, threads, switches),
    )
    return scenario_of_module(fitted, threads, form)


def _load(fitted: FittedModule, threads: int, switches: Switches) -> ModulePredictor:
    """Copy the module: a fresh process would use memory of its own for it."""
    module = switches.module(copy_of(fitted))
    return ModulePredictor(inferring(module), fitted, partial(torch_threads, threads), switches=switches)
