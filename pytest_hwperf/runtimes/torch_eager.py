"""PyTorch on the processor, eager: the module as it is, and what its other forms share with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.records.profiles import ProfiledCalls, ProfiledOperator
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.runtimes.estimators import split_batches
from pytest_hwperf.runtimes.profiles import OperatorTime
from pytest_hwperf.runtimes.threads import uncalibrated
from pytest_hwperf.runtimes.torch_modules import TORCH_REFERENCE, FittedModule, copy_of, inspect_module, size_of

_IMAGE = 3  # axes of a row: channels, height, width
_KERNEL = 4  # axes of the weights of a convolution of images
# Operators that hold a module's weights on the processor, as PyTorch 2.13 names them.
INTEGERS = frozenset(
    {
        *("aten::_int_mm", "aten::quantized_gru", "aten::quantized_lstm"),
        *("onednn::qlinear_pointwise", "quantized::conv2d", "quantized::conv2d_relu"),
        *("quantized::linear_dynamic", "quantized::linear_relu_dynamic", "quantized::quantized_gru_cell_dynamic"),
        *("quantized::quantized_lstm_cell_dynamic", "quantized::quantized_rnn_tanh_cell_dynamic"),
        "quantized::quantized_rnn_relu_cell_dynamic",
    }
)
FLOATS = frozenset(
    {
        *("aten::_slow_conv2d_forward", "aten::mkldnn_convolution", "aten::slow_conv3d_forward"),
        *("aten::slow_conv_transpose2d", "aten::convolution_overrideable", "aten::_nnpack_spatial_convolution"),
        *("aten::addbmm", "aten::addmm", "aten::addmv", "aten::baddbmm", "aten::bmm", "aten::mm", "aten::mv"),
        *("aten::mkldnn_linear", "aten::mkldnn_rnn_layer", "aten::_mkldnn_linear_pointwise"),
        *("mkldnn::_convolution_pointwise", "mkldnn::_linear_pointwise", "mkl::_mkl_linear", "aten::bilinear"),
    }
)
# What the profiler calls parts of compiled code holds a digest or a number, which differ between processes.
_NUMBERED = {"## Call CompiledFxGraph ": "compiled kernels", "Torch-Compiled Region": "compiled region"}
_CALL = "a call of the model"  # what the profile calls a whole call
_MOST_CALLS, _PROFILE_S = 100, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What a scenario asks of PyTorch; by default what the program has."""

    channels_last: bool = False  # weights and rows of images are laid out with the channels last
    without_mkldnn: bool = False  # operators are PyTorch's own, where oneDNN has faster ones

    def require(self, fitted: FittedModule) -> None:
        """Refuse a module or a PyTorch for which a switch changes nothing."""
        import torch

        kernels = any(one.dim() == _KERNEL for one in fitted.model.parameters())
        if self.channels_last and not (len(fitted.shape) == _IMAGE and kernels):
            raise ScenarioUnavailable(
                f"channels_last is about convolutions of images, rows of shape (channels, height, width): "
                f"{fitted.kind} takes rows of shape {fitted.shape}" + ("" if kernels else " and has no convolution")
            )
        if self.without_mkldnn and not torch.backends.mkldnn.is_available():
            raise ScenarioUnavailable("this PyTorch has no oneDNN (torch.backends.mkldnn.is_available())")

    def conditions(self) -> dict[str, str]:
        """Return what is not as usual; the program itself may have switched oneDNN off."""
        import torch

        off = self.without_mkldnn or not torch.backends.mkldnn.enabled
        return {
            **({"memory_format": "channels_last"} if self.channels_last else {}),
            **({"mkldnn": "off"} if off else {}),
        }

    def module(self, module: Any) -> Any:
        import torch

        return module.to(memory_format=torch.channels_last) if self.channels_last else module

    def rows(self, rows: Any) -> Any:
        """Lay a tensor of rows out, before any call is timed."""
        import torch

        return rows.contiguous(memory_format=torch.channels_last) if self.channels_last else rows

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the switches while calls are made, and give the program back its own."""
        import torch

        before = torch.backends.mkldnn.enabled
        torch.backends.mkldnn.enabled = before and not self.without_mkldnn
        try:
            yield
        finally:
            torch.backends.mkldnn.enabled = before


AS_IT_IS = Switches()
CHANNELS_LAST = Switches(channels_last=True)
WITHOUT_MKLDNN = Switches(without_mkldnn=True)


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

    return replace(fitted.predictor(predict, held), batches=batches, compiles=compiles)


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
    fitted = inspect_module(model, X, name)
    switches.require(fitted)
    conditions = {"form": "eager", "precision": matmul_precision(), **switches.conditions()}
    scenario = module_scenario(name, fitted, threads, partial(_load, fitted, threads, switches), conditions)
    return replace(scenario, context={**scenario.context, **AS_TRAINED})


torch_fp32 = uncalibrated(_scenario, TORCH_REFERENCE, AS_IT_IS)
torch_fp32_channels_last = uncalibrated(_scenario, "torch_fp32_channels_last", CHANNELS_LAST)
torch_fp32_no_mkldnn = uncalibrated(_scenario, "torch_fp32_no_mkldnn", WITHOUT_MKLDNN)


def _load(fitted: FittedModule, threads: int, switches: Switches) -> Predictor:
    """Copy the module: a fresh process would use memory of its own for it."""
    module = switches.module(copy_of(fitted))
    return module_predictor(fitted, inferring(module), partial(torch_threads, threads), switches=switches)


def profile_module(call: Callable[[], object], runs: int) -> tuple[OperatorTime, ...]:
    """Make a call `runs` times under the profiler; return the time of each operator itself, the slowest first.

    The first call, in which memory is taken and code may be compiled, is not among them.
    """
    from torch.autograd.profiler import profile

    call()
    with profile() as profiled:
        for _ in range(runs):
            call()
    return operator_times(profiled.key_averages())


def operator_times(averages: Sequence[Any]) -> tuple[OperatorTime, ...]:
    """Turn the profiler's averages into operators, the slowest first: each without those that it calls itself."""
    found = [
        OperatorTime(operator=one.key, calls=one.count, time=one.self_cpu_time_total * 1e-6)
        for one in averages
        if one.self_cpu_time_total > 0
    ]
    return tuple(sorted(found, key=lambda one: -one.time))


def profile_calls(call: Callable[[], object], rows: int) -> ProfiledCalls:
    """Make calls of `rows` rows under the profiler, and return the time of each kind of operator in one of them."""
    from torch.autograd.profiler import profile, record_function

    call()
    until = perf_counter() + _PROFILE_S
    with profile() as profiled:
        for _ in range(_MOST_CALLS):
            with record_function(_CALL):
                call()
            if perf_counter() > until:
                break
    return calls_of(profiled.key_averages(), rows)


def calls_of(averages: Sequence[Any], rows: int) -> ProfiledCalls:
    """Take the operators of a call from the profiler's averages: each without those that it calls itself."""
    whole = next((one for one in averages if one.key == _CALL and one.count), None)
    if whole is None:
        raise MeasurementError("the profile of PyTorch holds no whole call")
    operators = operator_times([one for one in averages if one.key != _CALL])
    return ProfiledCalls(
        source="torch profile",
        operators=tuple(
            ProfiledOperator(
                name="", kind=_kind_of(one.operator), calls=one.calls / whole.count, seconds=one.time / whole.count
            )
            for one in operators
        ),
        call_s=whole.cpu_time_total * 1e-6 / whole.count,
        calls=whole.count,
        rows=rows,
    )


def _kind_of(name: str) -> str:
    return next((kind for begin, kind in _NUMBERED.items() if name.startswith(begin)), name)
