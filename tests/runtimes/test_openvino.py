"""OpenVINO: the precision is set and read back, what it executes is looked at, and what it does not take is skipped."""

import gc
import re
import signal
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes.fitted_models import breast_cancer, data_of, fitted, formless
from onnx import TensorProto, helper, numpy_helper

from pytest_hwperf.host import extras
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.records.messages import cause_of
from pytest_hwperf.runtimes import cache, openvino_cpu
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.openvino_cpu import openvino_bf16, openvino_fp32, openvino_int8, why_not_int8
from pytest_hwperf.runtimes.profiles import OperatorTime
from pytest_hwperf.scenario_contract import ScenarioContract

pytestmark = pytest.mark.runtime

openvino = pytest.importorskip("openvino", reason="the extra openvino is not installed")


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Share conversions among the tests of this file and keep them apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        yield cache.folder()


class OfEstimator(ScenarioContract):
    kind = "mlp"
    test_a_fresh_process_needs_its_imports_alone: Any = None  # below
    model_without_form: Any = cached_property(lambda self: formless(self.X, "forest"))
    model = cached_property(lambda self: fitted(self.kind))
    X = cached_property(lambda self: data_of(self.kind)[1][:50])
    X_calibration = cached_property(lambda self: data_of(self.kind)[0][:96])
    labels = cached_property(lambda self: fitted(self.kind).predict(self.X))


class TestFp32(OfEstimator):
    factory = staticmethod(openvino_fp32)


class TestBf16(OfEstimator):
    factory = staticmethod(openvino_bf16)
    least_agreement = 0.9


class TestInt8(OfEstimator):
    factory = staticmethod(openvino_int8)
    least_agreement = 0.9


class TestFile(OfEstimator):
    factory = staticmethod(openvino_fp32)
    kind = "ridge"
    model_without_form = None

    @cached_property
    def model(self) -> Any:
        return Path(stored("ridge"))


class TestSeveralBatchesOfAFile:
    """A file is held against ONNX Runtime's answers, in batches and one by one."""

    X = np.random.default_rng(2).normal(size=(40, 4)).astype(np.float32)

    def test_what_agrees_says_how_far(self) -> None:
        told = openvino_fp32(file_model(), X=self.X).context
        assert re.fullmatch(
            r"in batches max \|Δ\| \S+, 0 of 40 values differ; "
            r"one by one max \|Δ\| \S+, 0 of 32 values differ from onnx_fp32",
            told["parity"],
        )
        assert "warning" not in told

    @pytest.mark.parametrize("rows", [1, 40])
    def test_what_disagrees_in_one_of_them_warns(self, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """The runtime is wrong in calls of so many rows alone."""
        predict_with = openvino_cpu.predict_with

        def wrong(compiled: Any) -> Any:
            predict = predict_with(compiled)
            return lambda batch: predict(batch) + (len(next(iter(batch.values()))) == rows)

        monkeypatch.setattr(openvino_cpu, "predict_with", wrong)
        monkeypatch.setenv("HWPERF_CACHE_DIR", str(cache.folder() / f"wrong{rows}"))
        told = openvino_fp32(file_model(), X=self.X).context
        assert told["warning"].startswith("the OpenVINO form disagrees with onnx_fp32: in batches max |Δ| ")
        differs = re.search(
            r"in batches max \|Δ\| 1, 40 of 40" if rows > 1 else r"one by one max \|Δ\| 1, 32 of 32", told["warning"]
        )
        assert differs is not None

    def test_a_file_of_one_batch_size_is_compared_in_it(self) -> None:
        told = openvino_fp32(file_model(rows=8), X=self.X).context
        assert re.fullmatch(r"in batches max \|Δ\| \S+, 0 of 40 values differ from onnx_fp32", told["parity"])


def file_model(rows: int | None = None) -> Any:
    """Return a model of one value for each row."""
    weights = numpy_helper.from_array(np.array([[1], [-2], [0.5], [3]], np.float32), "W")
    nodes = [helper.make_node("MatMul", ["X", "W"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, n]) for name, n in (("X", 4), ("y", 1))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_bfloat16_is_the_name_of_what_computes_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A processor without it may take the hint all the same."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    floats = (OperatorTime(operator="FullyConnected f32", calls=1, time=1.0),)
    monkeypatch.setattr(openvino_cpu, "profile_operators", lambda *_: floats)
    monkeypatch.setattr(openvino_cpu, "compile_model", partial(compiled_as_f32, openvino_cpu.compile_model))
    for model, X in ((file_model(), np.ones((9, 4), np.float32)), (fitted("mlp"), data_of("mlp")[1])):
        with pytest.raises(ScenarioUnavailable, match="computes in FullyConnected f32 on this processor, where bf16"):
            openvino_bf16(model, X=X)


def compiled_as_f32(compile_model: Any, model: Any, hint: str, threads: int, **given: Any) -> Any:
    """Compile for whatever processor this is."""
    del hint
    return compile_model(model, "f32", threads, **given)


def stored(kind: str) -> str:
    """Return the path of the ONNX form of an estimator."""
    from pytest_hwperf.runtimes.estimators import inspect_form
    from pytest_hwperf.runtimes.onnx import convert_model

    one = inspect_form(fitted(kind), data_of(kind)[1])
    return str(convert_model(one, data_of(kind)[1]).path)


def test_the_precision_is_a_condition_and_what_ran_is_told() -> None:
    scenario = openvino_fp32(fitted("mlp"), X=data_of("mlp")[1])
    assert scenario.conditions == {
        "threads": "1",
        "streams": "1",
        "pinning": "off",
        "inference_precision": "f32",
        "form": "MatMul",
        "output": "probabilities",
        "precision": "float32",
    }
    assert "FullyConnected f32" in scenario.context["operators"]
    assert scenario.context["parity"].endswith("0 of 597 labels differ from model.predict(X)")


def test_fp32_is_fp32_where_openvino_would_take_bf16() -> None:
    X = data_of("mlp")[1]
    ours, theirs = (factory(fitted("mlp"), X=X).load() for factory in (openvino_fp32, onnx_fp32))
    outputs = [one.predict(one.batches(X, len(X))[0]) for one in (ours, theirs)]
    assert np.abs(outputs[0] - outputs[1]).max() < 1e-5  # bf16 differs by 1e-2


def test_a_smaller_precision_differs_by_nature() -> None:
    """It is no fault to warn of; flips and the difference of probabilities say how much it is."""
    scenario = openvino_bf16(fitted("mlp"), X=data_of("mlp")[1])
    assert "max |Δp| 0.0" in scenario.context["parity"]
    assert "warning" not in scenario.context


@pytest.mark.parametrize("kind", ["forest", "linear svc", "neighbours"])
def test_what_openvino_does_not_know_is_skipped_with_its_reason(kind: str) -> None:
    with pytest.raises(ScenarioUnavailable) as caught:
        openvino_fp32(fitted(kind), X=data_of(kind)[1])
    cause = cause_of(caught.value)
    assert "does not convert" == cause.kind
    assert "no conversion rule found for operations: ai.onnx.ml." in str(cause).lower()


def test_int8_is_what_computes_in_integers() -> None:
    training, X, _, _ = data_of("mlp")
    scenario = openvino_int8(fitted("mlp"), X=X, X_calibration=training)
    assert "FullyConnected i8" in scenario.context["operators"]
    assert "int8 static" == scenario.conditions["precision"]
    assert scenario.conditions["calibration"].startswith("512 rows, ")


@pytest.mark.parametrize(("integer", "refused"), [(0.0, True), (0.4, True), (0.6, False), (1.0, False)])
def test_int8_is_decided_by_the_operators_with_weights(integer: float, *, refused: bool) -> None:
    operators = [("FullyConnected i8", integer), ("MatMul f32", 1 - integer), ("Softmax f32", 9.0)]
    times = tuple(OperatorTime(operator=name, calls=1, time=time) for name, time in operators)
    assert refused is bool(why_not_int8(times))


@pytest.mark.usefixtures("as_installed")
def test_what_is_not_int8_is_not_called_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Found once, it is refused again without being run."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    floats = (OperatorTime(operator="FullyConnected f32", calls=1, time=1.0),)
    monkeypatch.setattr(openvino_cpu, "profile_operators", lambda *_: floats)
    training, X, _, _ = data_of("mlp")

    for _ in range(2):
        with pytest.raises(ScenarioUnavailable, match=r"not INT8: integer operators take 0 % .*FullyConnected f32 100"):
            openvino_int8(fitted("mlp"), X=X, X_calibration=training)
        monkeypatch.setattr(openvino_cpu, "compile_model", None)


class StubbornCore:
    """OpenVINO's core on a processor that computes in something else."""

    def __init__(self, effective: str) -> None:
        self.effective = effective

    def read_model(self, model: object) -> Any:
        return SimpleNamespace(outputs=[model], get_parameters=list)

    def compile_model(self, model: object, device: str, settings: dict[str, Any]) -> Any:
        del model, device, settings
        precision = SimpleNamespace(to_string=lambda: self.effective)
        return SimpleNamespace(get_property=lambda _: precision)


@pytest.mark.parametrize(
    ("asked", "effective", "error"), [("f32", "bf16", MeasurementError), ("bf16", "f32", ScenarioUnavailable)]
)
def test_another_precision_is_not_measured(
    asked: str, effective: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FP32 is there on every processor, so that another precision is a fault; bfloat16 is not."""
    monkeypatch.setattr(openvino_cpu, "_core", lambda: StubbornCore(effective))
    monkeypatch.setattr(openvino, "Model", lambda *_: None)
    with pytest.raises(error, match=f"computes in {effective} on this processor, where {asked} was asked for"):
        openvino_cpu.compile_model(b"", asked, threads=1)


def test_threads_of_a_load_have_requests_of_their_own() -> None:
    """One request computes one thing at a time, and refuses a second call meanwhile."""
    X = data_of("mlp")[1]
    predictor = openvino_fp32(fitted("mlp"), X=X).load()
    batches = predictor.batches(X, 8)[:40]
    expected = [predictor.predict(batch) for batch in batches]
    found: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        found[number] = [predictor.predict(batch) for batch in batches]

    threads = [Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 3 == len(found)
    assert all(np.array_equal(expected, outputs) for outputs in found.values())


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    for factory in (openvino_fp32, openvino_bf16, openvino_int8):
        with pytest.raises(ScenarioUnavailable, match=r"OpenVINO is not installed: .* 'pytest-hwperf\[openvino\]'"):
            factory(fitted("logistic"), X=breast_cancer()[1])


def test_a_form_that_was_tried_is_not_run_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh process must not have used the runtime before its memory and its cold start are measured."""
    X = data_of("mlp")[1]
    openvino_fp32(fitted("mlp"), X=X)
    monkeypatch.setattr(openvino_cpu, "profile_operators", None)
    assert "operators" in openvino_fp32(fitted("mlp"), X=X).context


def test_signals_arrive_after_its_models_are_gone() -> None:
    """Ctrl-C is one."""
    X, got = data_of("mlp")[1][:50], list[int]()
    for _ in range(3):
        openvino_bf16(fitted("mlp"), X=X).load().predict(X[:1])
        gc.collect()
    before = signal.signal(signal.SIGUSR1, lambda number, _: got.append(number))
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [signal.SIGUSR1] == got
