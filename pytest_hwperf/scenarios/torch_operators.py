"""Operators that a PyTorch module executes, by PyTorch's own profiler, which makes each of them slower."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.profiles import ProfiledCalls, ProfiledOperator
from pytest_hwperf.scenarios.profiles import OperatorTime

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
