"""What is decided about PyTorch modules, tried without PyTorch: outputs, INT8, compilers, GPUs."""

import logging
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes.gpus import FakeTensor, FakeTorch

from pytest_hwperf.host.nvidia import NvidiaGpus
from pytest_hwperf.host.workdirs import goes_with_a_run
from pytest_hwperf.host.worker_protocol import SHARES_COMPILED
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.runtimes import torch_compiled
from pytest_hwperf.runtimes.estimators import inspect_estimator, is_module
from pytest_hwperf.runtimes.profiles import OperatorTime
from pytest_hwperf.runtimes.torch_compiled import CountingCompiler, compiled_code, missing_compiler
from pytest_hwperf.runtimes.torch_cuda import check_gpu, on_gpu, without_tf32
from pytest_hwperf.runtimes.torch_eager import calls_of, operator_times
from pytest_hwperf.runtimes.torch_int8 import refused
from pytest_hwperf.runtimes.torch_modules import FittedModule, module_rows, output_of, untraced_compiler
from pytest_hwperf.stats.causes.explanations import profile_of

SURE = [[0.25, 0.75], [0.5, 0.5]]


OUTPUTS: list[tuple[Any, str, int]] = [
    (np.array(SURE, "float32"), "probabilities", 2),
    (np.array([[0.25, 0.7], [0.5, 0.5]], "float32"), "scores", 2),  # a row that does not sum to one
    (np.array([[-0.25, 1.25], [0.5, 0.5]], "float32"), "scores", 2),  # one that does, and is negative
    (np.array([[2.5], [1.0]], "float32"), "values", 0),  # one column: a regressor
    (np.array([2.5, 1.0], "float32"), "values", 0),
    (np.ones((2, 3, 4), "float32"), "values", 0),  # an image for each row
    (np.array([3, 1]), "labels", 2),
    (np.array([[3, 1], [2, 2]]), "values", 0),
]


def test_outputs_tell_a_classifier_from_a_regressor() -> None:
    found = [output_of(outputs) for outputs, *_ in OUTPUTS]
    assert [(kind, n) for _, kind, n in OUTPUTS] == [(kind, 0 if one is None else len(one)) for kind, one in found]


def test_the_columns_of_a_module_have_no_names() -> None:
    """So that labels of another kind are not held against their positions."""
    found = []
    for outputs, _, columns in OUTPUTS[:6]:
        kind, classes = output_of(outputs)
        module = FittedModule(model=None, output=kind, classes=classes, digest="", shape=(4,), dtype="float32")
        found.append(((module.predictor(len).unnamed_columns(outputs)) or 0, columns))
    assert [expected for _, expected in found] == [columns for columns, _ in found]


def test_rows_are_float32_or_whole_of_any_shape_and_can_be_written() -> None:
    given = ([[1.5]], [[1]], [[True]], np.array([[1]], "uint8"))
    assert ["float32", "int64", "bool", "int64"] == [str(module_rows(one).dtype) for one in given]
    images = np.zeros((3, 2, 8, 8), "float32")
    images.flags.writeable = False  # PyTorch warns about such
    assert (3, 2, 8, 8) == module_rows(images).shape
    assert module_rows(images).flags.writeable
    for rows, sentence in (
        ([["a"]], "values that are not numbers"),
        ([], "X has no rows"),
        (np.array(1, "float32"), "X has no rows"),
    ):
        with pytest.raises(MeasurementError, match=sentence):
            module_rows(rows)


def test_a_module_is_known_without_pytorch() -> None:
    Module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    net = type("Net", (Module,), {})()
    assert (True, False) == (is_module(net), is_module(object()))
    with pytest.raises(UsageProblem, match=r'a PyTorch module.*hwscenarios\("torch_fp32", "onnx_fp32",'):
        inspect_estimator(net, [[1.0]])


def trial(*operators: tuple[str, float]) -> list[OperatorTime]:
    return [OperatorTime(operator=name, calls=10, time=seconds) for name, seconds in operators]


LINEAR = trial(("aten::addmm", 0.9), ("aten::relu", 0.1))
CONVOLUTION = trial(("aten::mkldnn_convolution", 0.8), ("aten::addmm", 0.1))
RELU = trial(("aten::relu", 1.0))


TRIED = {
    "int8": (LINEAR, trial(("quantized::linear_dynamic", 0.9), ("aten::relu", 0.1)), False, None),
    "unchanged": (LINEAR, trial(("aten::addmm", 0.7), ("aten::relu", 0.2)), True, "unchanged"),
    "only convolutions": (CONVOLUTION, CONVOLUTION, True, "unchanged"),
    "mostly convolutions": (
        CONVOLUTION,
        [*CONVOLUTION[:1], *trial(("quantized::linear_dynamic", 0.1))],
        False,
        "not int8",
    ),
    "no weights": (RELU, RELU, True, "no int8 form"),
}


def test_only_what_computes_in_integers_is_called_int8() -> None:
    for name, (original, quantised, same, kind) in TRIED.items():
        cause = refused("Net", original, quantised, same_outputs=same)
        assert kind == (cause.kind if cause else None), name


def test_a_refusal_names_what_takes_a_hundredth_of_the_time() -> None:
    cause = refused("Net", CONVOLUTION, [*CONVOLUTION, *trial(("aten::view", 0.001))], same_outputs=False)
    assert "executed: aten::mkldnn_convolution 89 %, aten::addmm 11 %" in str(cause)


def test_operators_are_counted_without_those_that_they_call() -> None:
    averages = [
        SimpleNamespace(key="aten::linear", count=2, self_cpu_time_total=5.0),
        SimpleNamespace(key="aten::addmm", count=2, self_cpu_time_total=100.0),
        SimpleNamespace(key="aten::view", count=2, self_cpu_time_total=0.0),
    ]
    found = operator_times(averages)
    assert [("aten::addmm", 2), ("aten::linear", 2)] == [(one.operator, one.calls) for one in found]
    assert [100e-6, 5e-6] == pytest.approx([one.time for one in found])


def averages_of(*events: tuple[str, int, float, float]) -> list[Any]:
    names = ("key", "count", "self_cpu_time_total", "cpu_time_total")
    return [SimpleNamespace(**dict(zip(names, event, strict=True))) for event in events]


def test_operators_are_shares_of_the_calls_that_were_profiled() -> None:
    """Four calls of 1 ms: 0.9 ms of a call are products, two each; 0.05 ms is the call's own Python."""
    whole, product, shape = (
        ("a call of the model", 4, 200.0, 4000.0),
        ("aten::addmm", 8, 3600.0, 3600.0),
        ("aten::t", 8, 200.0, 200.0),
    )

    found = calls_of(averages_of(product, whole, shape), 256)
    assert ("torch profile", 4, 256) == (found.source, found.calls, found.rows)
    assert [("aten::addmm", 2), ("aten::t", 2)] == [(one.kind, one.calls) for one in found.operators]
    assert [1e-3, 0.9e-3, 0.05e-3] == pytest.approx([found.call_s, *(one.seconds for one in found.operators)])
    assert 0.95 == pytest.approx(profile_of(found, 2e-3).coverage)


def test_compiled_code_is_called_alike_in_every_process() -> None:
    names = ("## Call CompiledFxGraph fuk35hpd ##", "Torch-Compiled Region: 0/2", "aten::mm")
    events = [(name, 1, 1.0, 1.0) for name in names]
    found = calls_of(averages_of(("a call of the model", 1, 1.0, 9.0), *events), 256)
    assert ["compiled kernels", "compiled region", "aten::mm"] == [one.kind for one in found.operators]


def test_a_profile_without_a_call_is_refused() -> None:
    with pytest.raises(MeasurementError, match="holds no whole call"):
        calls_of(averages_of(("aten::addmm", 8, 1.0, 1.0)), 256)


def nothing(name: str) -> None:
    """Find no program."""


def test_a_missing_compiler_is_named() -> None:
    for environment, compiler in (({}, "g++"), ({"CXX": "clang++"}, "clang++"), ({"CXX": " "}, "g++")):
        reason = missing_compiler(environment, nothing)
        assert f"no C++ compiler {compiler}, which torch.compile needs: install one, or name one in CXX" == reason
        assert "" == missing_compiler(environment, lambda name: f"/usr/bin/{name}")


def test_a_module_of_which_nothing_was_compiled_is_no_compiled_one() -> None:
    made = list[object]()
    compiler = CountingCompiler("default", lambda *given, **options: made.append((given, options)), {"a": 1})
    with pytest.raises(MeasurementError, match=r"compiled nothing of Net.*unset TORCHDYNAMO_DISABLE"):
        compiler.require_compiled("Net")
    compiler("graph", ["inputs"])
    compiler.require_compiled("Net")
    assert [(("graph", ["inputs"]), {"config_patches": {"a": 1}})] == made


def test_compiled_code_is_shared_among_processes_of_pairs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere a first call compiles, and its time must not depend on what ran before."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(SHARES_COMPILED, raising=False)
    torch_compiled._own_folder.cache_clear()

    own = compiled_code()
    assert (own, []) == (compiled_code(), list(own.glob("[!.]*")))
    assert not own.is_relative_to(tmp_path)
    assert goes_with_a_run(own)  # also where this process is killed

    monkeypatch.setenv(SHARES_COMPILED, "1")
    assert tmp_path / "compiled" == compiled_code()


NO_GPU = NvidiaGpus(models=(), driver="", why_none="there is none in /proc/driver/nvidia/gpus")
H100 = NvidiaGpus(models=("NVIDIA H100",), driver="580.65")


def test_without_a_gpu_its_scenarios_are_skipped() -> None:
    """Whether there is one is not PyTorch's to say, which calls one of AMD cuda too."""
    for built, available in product(("13.0", None), (False, True)):
        with pytest.raises(ScenarioUnavailable, match="no NVIDIA GPU: there is none in /proc/driver/nvidia/gpus"):
            check_gpu("torch_cuda", FakeTorch(built=built, available=available), NO_GPU)


def test_a_gpu_that_pytorch_cannot_use_is_an_error() -> None:
    """A figure of the processor under the name of a GPU would be worse than none."""
    check_gpu("torch_cuda", FakeTorch(), H100)
    without = r"torch_cuda: this machine has a GPU \(NVIDIA H100, driver 580.65\), .* without CUDA: install a build"
    for built, sentence in (
        (None, without),
        ("13.0", "PyTorch for CUDA 13.0 cannot use it: run nvidia-smi, and install"),
    ):
        with pytest.raises(MeasurementError, match=sentence):
            check_gpu("torch_cuda", FakeTorch(built=built, available=False), H100)


def test_a_call_on_a_gpu_holds_its_transfers_and_waits_for_its_work() -> None:
    torch = FakeTorch()
    predict = on_gpu(torch, torch.module, "half")
    assert isinstance(predict(FakeTensor(torch.events)), FakeTensor)
    assert ["inference", "to cuda:0 half", "compute", "cpu", "over", "synchronise cuda:0"] == torch.events


def test_whole_numbers_keep_their_type_on_a_gpu() -> None:
    torch = FakeTorch()
    on_gpu(torch, torch.module, "half")(FakeTensor(torch.events, floating=False))
    assert "to cuda:0" == torch.events[1]


def test_tf32_is_off_during_the_calls_and_given_back() -> None:
    parts = [SimpleNamespace(fp32_precision=chosen) for chosen in ("tf32", "none", "ieee")]
    backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=parts[0]), cudnn=SimpleNamespace(conv=parts[1], rnn=parts[2])
    )
    with without_tf32(backends):
        held = [part.fp32_precision for part in parts]
    assert (["ieee"] * 3, ["tf32", "none", "ieee"]) == (held, [part.fp32_precision for part in parts])


def test_nobody_but_pytorch_listens_to_its_compiler_while_it_compiles(caplog: pytest.LogCaptureFixture) -> None:
    """Pytest does, on loggers that keep their records to themselves: PyTorch would make them within the first call."""
    trace = logging.getLogger("torch.__trace")
    own = type("Handler", (logging.NullHandler,), {"__module__": "torch._logging"})()
    for handler in (own, caplog.handler):
        trace.addHandler(handler)
    try:
        with untraced_compiler():
            assert own in trace.handlers  # as those are that PyTorch has set where it is imported
            assert caplog.handler not in trace.handlers
        assert {own, caplog.handler} <= {*trace.handlers}
    finally:
        trace.removeHandler(own)
        trace.removeHandler(caplog.handler)
