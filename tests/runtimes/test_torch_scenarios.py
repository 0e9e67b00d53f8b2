"""Scenarios of real PyTorch modules: what they give, what they leave alone, and what they refuse."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.gpu_runtime import CPU, FakeRuntime

from pytest_hwperf.host.nvidia import NvidiaGpus
from pytest_hwperf.host.tracing import lasting_tracers
from pytest_hwperf.measure.subjects import reference_of, subject_of_scenario
from pytest_hwperf.records.contracts import ScenarioFactory
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.messages import cause_of
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.onnx_gpu import OnnxGpuAccess, gpu_scenario
from pytest_hwperf.runtimes.openvino_cpu import openvino_bf16, openvino_fp32, openvino_int8
from pytest_hwperf.runtimes.quantise import onnx_int8
from pytest_hwperf.runtimes.torch_compiled import torch_compile
from pytest_hwperf.runtimes.torch_cuda import torch_cuda, torch_cuda_fp16
from pytest_hwperf.runtimes.torch_eager import torch_fp32, torch_fp32_channels_last, torch_fp32_no_mkldnn
from pytest_hwperf.runtimes.torch_int8 import torch_int8
from pytest_hwperf.runtimes.torch_modules import copy_of, digest_module, inspect_module

torch = pytest.importorskip("torch", reason="scenarios of PyTorch need it: pip install 'pytest-hwperf[torch]'")
pytestmark = pytest.mark.runtime
nn = torch.nn
IMAGES = np.random.default_rng(0).normal(size=(70, 1, 8, 8)).astype("float32")


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep conversions apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        yield cache.folder()


@pytest.fixture
def converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests share the ONNX form of a module, as if libraries alone had converted it."""
    pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs it: pip install pytest-hwperf[torch]")
    monkeypatch.setattr(cache, "recorded", lambda build: (build(), {}))


def convolution(*last: Any) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 10), *last)


def perceptron(*last: Any) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), *last)


def outputs_of(factory: ScenarioFactory, model: Any, X: Any = IMAGES, size: int = 32) -> tuple[Any, Any]:
    predictor = factory(model, X=X).load()
    with predictor.scope():
        outputs = [predictor.predict(batch) for batch in predictor.batches(X, size)]
    return np.concatenate([np.asarray(one) for one in outputs]), np.concatenate([*map(predictor.labels, outputs)])


def test_eager_gives_what_the_module_gives_in_evaluation_mode() -> None:
    model = convolution()
    outputs, labels = outputs_of(torch_fp32, model)
    with torch.no_grad():
        expected = model.eval()(torch.from_numpy(IMAGES)).numpy()
    assert np.allclose(expected, outputs, atol=1e-6)
    assert expected.argmax(axis=1).tolist() == labels.tolist()


def test_the_users_module_and_settings_are_left_as_they_were() -> None:
    model, threads = convolution(), torch.get_num_threads()
    model[2].eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    predictor = torch_fp32(model, X=IMAGES, threads=threads + 1).load()
    with predictor.scope():
        held = torch.get_num_threads()
        outputs = predictor.predict(predictor.batches(IMAGES, 8)[0])
    assert [True, False] == [model.training, model[2].training]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert (threads + 1, threads) == (held, torch.get_num_threads())
    assert outputs.is_inference()


def test_conditions_and_context_say_what_ran() -> None:
    scenario = torch_fp32(convolution(nn.Softmax(1)), X=IMAGES)
    assert {
        "threads": "1",
        "inter_op_threads": str(torch.get_num_interop_threads()),
        "form": "eager",
        "precision": "float32",
        "output": "probabilities",
    } == scenario.conditions
    assert 16 == len(scenario.context["model"])
    assert ("torch_fp32", ("torch",), "torch.save") == (scenario.name, scenario.imports, scenario.size_source)
    assert 4 * 1490 < scenario.model_bytes < 4 * 1490 + 5000


@pytest.mark.parametrize(
    ("factory", "condition"),
    [
        (torch_fp32, {}),
        (torch_fp32_channels_last, {"memory_format": "channels_last"}),
        (torch_fp32_no_mkldnn, {"mkldnn": "off"}),
    ],
)
def test_layout_and_onednn_are_what_the_name_says(factory: ScenarioFactory, condition: dict[str, str]) -> None:
    """Seen by the operators that ran, and by the layout of rows; the program's own switch is given back."""
    images = np.repeat(IMAGES, 3, axis=1)
    scenario = factory(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), X=images)
    predictor = scenario.load()
    assert scenario.operators is not None
    executed = {one.kind for one in scenario.operators(images, 32).operators}
    assert ("mkldnn" in condition) == ("aten::mkldnn_convolution" not in executed)
    assert condition.items() <= scenario.conditions.items()
    assert ("memory_format" in condition) == (not predictor.batches(images, 32)[0].is_contiguous())
    assert torch.backends.mkldnn.enabled


def test_a_program_that_has_switched_onednn_off_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert "off" == torch_fp32(perceptron(), X=IMAGES).conditions["mkldnn"]


@pytest.mark.parametrize(("model", "X"), [(perceptron(), IMAGES), (nn.Linear(64, 2), IMAGES.reshape(70, 64))])
def test_channels_last_is_about_convolutions_of_images(model: Any, X: Any) -> None:
    with pytest.raises(ScenarioUnavailable, match=r"channels_last is about convolutions.* and has no convolution"):
        torch_fp32_channels_last(model, X=X)


def test_products_in_less_than_float32_are_said() -> None:
    before = torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        precision = torch_fp32(perceptron(), X=IMAGES).conditions["precision"]
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before
    assert "float32, matrix products in bf16" == precision


@pytest.mark.parametrize(("last", "k"), [((), None), ((nn.Softmax(1),), 10)])
def test_probabilities_are_those_that_the_module_gives(last: tuple[Any, ...], k: int | None) -> None:
    """Scores are none: nobody knows whether a softmax belongs to them."""
    predictor = torch_fp32(perceptron(*last), X=IMAGES).load()
    outputs = predictor.predict(predictor.batches(IMAGES, 70)[0])
    assert k == (predictor.probabilities and predictor.probabilities(outputs).shape[1])


def test_a_regressor_has_values() -> None:
    scenario = torch_fp32(nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), X=IMAGES)
    assert (False, "values") == (scenario.classifies, scenario.conditions["output"])


def test_whole_numbers_reach_an_embedding() -> None:
    tokens = np.arange(12).reshape(4, 3)
    outputs, _ = outputs_of(torch_fp32, nn.Sequential(nn.Embedding(12, 2), nn.Flatten()), tokens)
    assert (4, 6) == outputs.shape


def test_all_scenarios_of_a_module_are_compared_with_the_eager_one() -> None:
    model = perceptron()
    scenario = torch_fp32(model, X=IMAGES)
    subject = subject_of_scenario(scenario, IMAGES, None, 1, lambda: scenario)
    assert "torch_fp32" == subject.reference
    assert subject.reference_predictions is not None
    assert 70 == len(subject.reference_predictions().labels)


def without_mean(self: Any, rows: Any) -> Any:  # noqa: ARG001 - a method
    """Take the mean over the batch off: rows depend on each other."""
    flat = rows.flatten(1)
    return flat - flat.mean(dim=0)


def made(forward: Any, **methods: Any) -> Any:
    """Make a module of a class that consists of these methods."""
    names = {"__module__": "work", "__qualname__": "Net", "forward": forward, **methods}
    return type("Net", (nn.Module,), names)()


def test_the_reference_finds_rows_that_depend_on_their_batch() -> None:
    scenario = torch_fp32(made(without_mean), X=IMAGES)
    subject = subject_of_scenario(scenario, IMAGES, None, 2, lambda: scenario)
    loaded = subject.load()
    assert loaded.predictions is not None
    assert subject.reference_predictions is not None
    own, reference = loaded.predictions(), subject.reference_predictions()
    assert own is not None
    assert (own.labels != reference.labels).any()


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda model: model.train(), True),
        (lambda model: model.requires_grad_(requires_grad=False), True),
        (lambda model: model[1].bias.data.add_(1), False),
        (lambda model: setattr(model[2], "inplace", True), False),
        (lambda model: model.append(nn.ReLU()), False),
    ],
)
def test_the_digest_is_about_weights_and_structure(change: Any, same: bool) -> None:
    model = perceptron().eval()
    before = digest_module(model)
    change(model)
    assert same == (digest_module(model) == before)


def test_the_digest_is_about_the_code_of_forward() -> None:
    assert digest_module(made(lambda self, x: x + 1)) != digest_module(made(lambda self, x: x + 2))  # noqa: ARG005 - as a method


@pytest.mark.parametrize(
    ("model", "X", "error", "sentence"),
    [
        (nn.Linear, IMAGES, UsageProblem, "is the class Linear, not a trained module"),
        (object(), IMAGES, UsageProblem, "the model is a object, and torch_fp32 takes a torch.nn.Module"),
        (perceptron(), IMAGES[:, :, :4], UsageProblem, "Sequential does not take rows of X, float32 of shape"),
        (perceptron(), IMAGES.astype("int64"), UsageProblem, "int64 of shape .*: give X in the shape and type"),
        (nn.Flatten(0), IMAGES, MeasurementError, r"outputs of shape \(4096,\) for 64 rows"),
        (nn.LSTM(8, 2), IMAGES[:, 0], UsageProblem, "LSTM returns a tuple, and scenarios take one tensor"),
        (perceptron().double(), IMAGES, ScenarioUnavailable, "the weights of Sequential are float64"),
        (
            nn.Sequential(nn.Embedding(9, 2).half()),
            np.zeros((4, 1), int),
            ScenarioUnavailable,
            "Sequential are float16",
        ),
    ],
)
def test_what_is_no_float32_module_of_one_tensor_is_refused(
    model: Any, X: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        torch_fp32(model, X=X)


def test_a_compiled_module_is_not_taken_for_an_eager_one() -> None:
    with warnings.catch_warnings(action="ignore"):  # of PyTorch about its own parts
        compiled = torch.compile(perceptron())
    with pytest.raises(UsageProblem, match=r"compiled already.*name torch_compile"):
        torch_fp32(compiled, X=IMAGES)


def test_a_module_that_cannot_be_copied_is_never_changed_instead() -> None:
    def refuse(self: Any, memo: object) -> None:  # noqa: ARG001 - a method
        raise TypeError("there is only one")

    single = made(without_mean, __deepcopy__=refuse)
    with pytest.raises(ScenarioUnavailable, match=r"Net cannot be copied .*there is only one"):
        copy_of(inspect_module(single, IMAGES, "torch_fp32"))


def test_other_rows_than_those_it_was_prepared_for_are_refused() -> None:
    predictor = torch_fp32(perceptron(), X=IMAGES).load()
    with pytest.raises(MeasurementError, match=r"prepared for float32 of shape \(1, 8, 8\)"):
        predictor.batches(IMAGES[:, 0], 8)


def test_int8_computes_in_integers_and_stays_near() -> None:
    scenario = torch_int8(nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.Linear(512, 10)), X=IMAGES)
    assert "int8 dynamic" == scenario.conditions["precision"]
    assert "quantized::linear_dynamic" in scenario.context["operators"]
    assert scenario.model_bytes < 0.4 * 4 * (64 * 512 + 512 * 10)
    predictor = scenario.load()
    assert (32, 10) == np.shape(predictor.predict(predictor.batches(IMAGES, 32)[0]))


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten()), "unchanged"),
        (nn.Flatten(), "no int8 form"),
        (nn.Sequential(nn.Conv2d(1, 64, 3), nn.Conv2d(64, 32, 3), nn.Flatten(), nn.Linear(512, 2)), "not int8"),
    ],
)
def test_a_module_that_int8_leaves_alone_is_never_called_int8(model: Any, kind: str) -> None:
    with pytest.raises(ScenarioUnavailable) as refused:
        torch_int8(model, X=IMAGES)
    assert kind == cause_of(refused.value).kind


def test_products_lead_where_they_are_most_of_the_work() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512))
    scenario = torch_fp32(model, X=IMAGES)
    assert scenario.operators is not None
    found = scenario.operators(np.resize(IMAGES, (256, 1, 8, 8)), 256)
    assert ("aten::addmm", 256) == (found.operators[0].kind, found.rows)
    assert sum(one.seconds for one in found.operators) <= found.call_s


def test_nothing_is_timed_under_the_profiler() -> None:
    """A latency that was taken there would hold its microseconds for each operator."""
    assert "torch.profiler" not in lasting_tracers()
    with torch.autograd.profiler.profile():
        assert "torch.profiler" in lasting_tracers()
    assert "torch.profiler" not in lasting_tracers()


def test_a_scenario_is_profiled_on_a_copy_of_its_own_when_it_has_been_timed() -> None:
    """The calls that are timed see no profiler, before the profile is taken or after it."""
    seen = list[bool]()

    def forward(self: Any, rows: Any) -> Any:  # noqa: ARG001 - a method
        seen.append(torch.autograd._profiler_enabled())
        return rows.flatten(1)

    scenario = torch_fp32(made(forward), X=IMAGES)
    predictor = scenario.load()
    batch = predictor.batches(IMAGES, 32)[0]
    seen.clear()

    predictor.predict(batch)
    assert scenario.operators is not None
    scenario.operators(IMAGES, 32)
    predictor.predict(batch)
    assert [False, False, False] == [seen[0], seen[1], seen[-1]]  # the second warms the copy up
    assert all(seen[2:-1])


@pytest.mark.parametrize("factory", [torch_cuda, torch_cuda_fp16])
def test_a_gpu_that_is_not_there_is_no_figure(factory: ScenarioFactory) -> None:
    if torch.cuda.is_available() or Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a GPU")
    model = perceptron()
    with pytest.raises(ScenarioUnavailable, match="no NVIDIA GPU"):
        factory(model, X=IMAGES)
    assert torch.float32 == model[1].weight.dtype


@pytest.mark.live
@pytest.mark.usefixtures("converted_once")
def test_onnx_forms_of_a_module_agree_with_it(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs it: pip install 'pytest-hwperf[torch]'")
    model = convolution()

    scenario = onnx_fp32(model, X=IMAGES)
    static = onnx_int8(model, X=IMAGES, X_calibration=IMAGES + 1)
    outputs, labels = outputs_of(onnx_fp32, model, size=33)
    assert ("torch_fp32", "torch.onnx", "scores") == (
        scenario.reference,
        scenario.conditions["form"],
        scenario.conditions["output"],
    )
    assert "0 of 64 labels differ from PyTorch" in scenario.context["parity"]
    assert "int8 static" == static.conditions["precision"]
    assert model.training
    assert "torch.__trace" not in {record.name for record in caplog.records}
    expected, expected_labels = outputs_of(torch_fp32, model)
    assert np.allclose(expected, outputs, atol=1e-5)
    assert expected_labels.tolist() == labels.tolist()


@pytest.mark.live
@pytest.mark.usefixtures("converted_once")
@pytest.mark.parametrize(
    ("factory", "least", "calibration"),
    [(openvino_fp32, 1.0, None), (openvino_bf16, 0.9, None), (openvino_int8, 0.9, IMAGES + 1)],
)
def test_openvino_takes_the_onnx_form_of_a_module(factory: ScenarioFactory, least: float, calibration: Any) -> None:
    """Or says with its own reason why not, as where the processor has no bfloat16."""
    pytest.importorskip("openvino", reason="the extra openvino is not installed")
    model = convolution()
    try:
        scenario = factory(model, X=IMAGES, X_calibration=calibration)
    except ScenarioUnavailable as reason:
        assert factory is openvino_bf16
        pytest.skip(str(reason))
    predictor = scenario.load()
    labels = np.concatenate([predictor.labels(predictor.predict(one)) for one in predictor.batches(IMAGES, 33)])

    _, expected = outputs_of(torch_fp32, model)
    assert "torch_fp32" == reference_of(scenario)
    assert "scores" == scenario.conditions["output"]
    assert "from PyTorch" in scenario.context["parity"]
    assert least <= (expected == labels).mean()


@pytest.mark.live
@pytest.mark.usefixtures("converted_once")
def test_what_openvino_computes_in_floats_is_not_called_int8() -> None:
    """Ranges that are taken in each call: it turns the weights into floats."""
    pytest.importorskip("openvino", reason="the extra openvino is not installed")
    with pytest.raises(ScenarioUnavailable) as refused:
        openvino_int8(convolution(), X=IMAGES)
    assert "not int8" == cause_of(refused.value).kind


@pytest.mark.live
@pytest.mark.usefixtures("converted_once")
@pytest.mark.parametrize("name", ["onnx_cuda", "onnx_tensorrt_fp16"])
def test_onnx_runtime_takes_the_onnx_form_of_a_module_on_a_gpu(name: str) -> None:
    runtime = FakeRuntime(available=("TensorrtExecutionProvider", "CUDAExecutionProvider", CPU))
    access = OnnxGpuAccess(runtime=runtime, gpus=lambda: NvidiaGpus(models=("NVIDIA H100",), driver="560.35.03"))
    model = convolution()
    scenario = gpu_scenario(name, model, IMAGES, 1, access)
    predictor = scenario.load()

    _, expected = outputs_of(torch_fp32, model)
    (whole,) = predictor.batches(IMAGES, len(IMAGES))
    assert ("torch_fp32", "torch.onnx") == (reference_of(scenario), scenario.conditions["form"])
    assert "0 of 64 labels differ from PyTorch" in scenario.context["parity"]
    assert expected.tolist() == predictor.labels(predictor.predict(whole)).tolist()


@pytest.mark.live
def test_compiled_code_gives_what_the_module_gives(caplog: pytest.LogCaptureFixture) -> None:
    """Compiled for each batch size: the last batch is shorter."""
    if not torch.backends.mkldnn.is_available() or not os.access("/usr/bin/g++", os.X_OK):
        pytest.skip("torch.compile needs a C++ compiler")
    model, before = perceptron(), os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    scenario = torch_compile(model, X=IMAGES)

    outputs, _ = outputs_of(torch_compile, model)
    assert {"form": "compiled", "mode": "default", "shapes": "static"}.items() <= scenario.conditions.items()
    predictor = scenario.load()
    assert predictor.compiles
    assert np.allclose(outputs_of(torch_fp32, model)[0], outputs, atol=1e-5)
    assert before == os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    assert "torch.__trace" not in {record.name for record in caplog.records}
