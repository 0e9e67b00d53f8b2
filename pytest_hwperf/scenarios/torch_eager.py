"""PyTorch on the processor, eager: the module as it is, and what its other forms share with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.profiles import ProfiledCalls
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.scenarios.prepared import predictor_of
from pytest_hwperf.scenarios.rows import split_batches
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_modules import TORCH_REFERENCE, FittedModule, copy_of, inspect_module, size_of
from pytest_hwperf.scenarios.torch_operators import profile_calls
from pytest_hwperf.scenarios.torch_switches import AS_IT_IS, CHANNELS_LAST, WITHOUT_MKLDNN, Switches


def module_predictor(
    fitted: FittedModule,
    predict: Callable[[Any], Any],
    scope: Callable[[], AbstractContextManager[object]],
    *,
    compiles: bool = False,
    switches: Switches = AS_IT_IS,
) -> Predictor:
    """Return a form of a module that takes tensors, ready to be called."""
    import torch

    @contextmanager
    def held() -> Iterator[None]:
        with switches.held(), scope():
            yield

    def batches(X: Any, batch_size: int) -> Sequence[Any]:
        return split_batches(switches.rows(torch.from_numpy(fitted.rows(X))), batch_size)

    return replace(predictor_of(fitted, predict, held), batches=batches, compiles=compiles)


def torch_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare a module as it is, in evaluation and inference mode; `X` shows its input, `X_calibration` is not used.

    Raises:
        UsageProblem: no module, or one that does not take rows of `X`; no whole number of threads.
        MeasurementError: `X` is not numeric, or there is not one row of outputs for each of its rows.
        ScenarioUnavailable: it is not in float32, or cannot be copied.
    """
    del X_calibration
    return _scenario(TORCH_REFERENCE, AS_IT_IS, model, X, threads)


def torch_fp32_channels_last(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare a module of images as `torch_fp32` does, its weights and its rows with the channels last.

    Raises as `torch_fp32`.

    Raises:
        ScenarioUnavailable: it has no convolution of images.
    """
    del X_calibration
    return _scenario("torch_fp32_channels_last", CHANNELS_LAST, model, X, threads)


def torch_fp32_no_mkldnn(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare a module as `torch_fp32` does, to be called without oneDNN.

    Raises as `torch_fp32`.

    Raises:
        ScenarioUnavailable: this PyTorch has none.
    """
    del X_calibration
    return _scenario("torch_fp32_no_mkldnn", WITHOUT_MKLDNN, model, X, threads)


def module_scenario(
    name: str, fitted: FittedModule, threads: int, load: Callable[[], Predictor], conditions: Mapping[str, str]
) -> Scenario:
    """Return one form of a module as a scenario; `conditions` are its own, form and precision among them."""
    import torch

    return Scenario(
        name=name,
        imports=("torch",),
        conditions={
            "threads": str(threads),
            "inter_op_threads": str(torch.get_num_interop_threads()),
            "output": fitted.output,
            **conditions,
        },
        context={"model": fitted.digest[:16]},
        model_bytes=size_of(fitted.model),
        size_source="torch.save",
        classifies=fitted.classes is not None,
        load=load,
        reference=TORCH_REFERENCE,
        operators=partial(_operators, load),
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


def _operators(load: Callable[[], Predictor], X: Any, batch_size: int) -> ProfiledCalls:
    """Return where the time of a call goes, for the first `batch_size` rows of `X`, of a copy that nothing times."""
    predictor = load()
    batch = predictor.batches(X, batch_size)[0]
    with predictor.scope():
        return profile_calls(partial(predictor.predict, batch), len(batch))


def _scenario(name: str, switches: Switches, model: Any, X: Any, threads: int) -> Scenario:
    check_threads(threads)
    fitted = inspect_module(model, X, name)
    switches.require(fitted)
    conditions = {"form": "eager", "precision": matmul_precision(), **switches.conditions()}
    scenario = module_scenario(name, fitted, threads, partial(_load, fitted, threads, switches), conditions)
    return replace(scenario, context={**scenario.context, **AS_TRAINED})


def _load(fitted: FittedModule, threads: int, switches: Switches) -> Predictor:
    """Copy the module: a fresh process would use memory of its own for it."""
    module = switches.module(copy_of(fitted))
    return module_predictor(fitted, inferring(module), partial(torch_threads, threads), switches=switches)
