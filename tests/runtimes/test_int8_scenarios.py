"""INT8 forms compute in integers, stay near FP32, and never see the rows they are tested on."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes.fitted_models import breast_cancer, data_of, fitted

from pytest_hwperf.host.machine import read_processor, saturates_bytes
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.contracts import ScenarioFactory
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.messages import cause_of, state
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes.estimators import FittedEstimator, inspect_form
from pytest_hwperf.runtimes.onnx import convert_with_skl2onnx, onnx_fp32
from pytest_hwperf.runtimes.ort import open_session, run_all
from pytest_hwperf.runtimes.profiles import INTEGER_OPERATORS, profile_operators
from pytest_hwperf.runtimes.quantise import (
    CalibrationReader,
    _quiet,
    choose_rows,
    onnx_int8,
    onnx_int8_dynamic,
    onnx_int8_static,
    quantise_model,
    quantise_with_ort,
    why_not_int8,
)

pytestmark = pytest.mark.live


def prepare(factory: ScenarioFactory, name: str) -> Any:
    training, test, _, _ = data_of(name)
    return factory(fitted(name), X=test, X_calibration=training)


def quantised(rows: int, quantise: Callable[[bytes, Any], bytes] | None = None) -> cache.CachedModel:
    """Return the dynamic form of a network, checked on so many rows, by which the cache tells tests apart."""
    one = inspect_form(fitted("mlp"), data_of("mlp")[1])
    return quantise_model(one, data_of("mlp")[1][:rows], None, quantise=quantise)


@pytest.mark.parametrize("factory", [onnx_int8_dynamic, onnx_int8_static])
def test_int8_stays_near_the_estimator(factory: ScenarioFactory) -> None:
    for name in ("mlp", "logistic", "text labels", "ridge"):
        model, X = fitted(name), data_of(name)[1]
        predictor = prepare(factory, name).load()
        outputs = predictor.predict(predictor.batches(X, len(X))[0])
        # Eight bits of activations and weights: on these models 0.13 is the largest observed difference.
        if name == "ridge":
            assert np.abs(predictor.labels(outputs) - model.predict(X)).max() < 0.25
        else:
            assert np.abs(outputs - model.predict_proba(X)).max() < 0.25
            assert (predictor.labels(outputs) != model.predict(X)).mean() < 0.02


def test_conditions_say_how_it_was_quantised() -> None:
    reduced = "yes, no VNNI known" if saturates_bytes(read_processor()) else "no"
    for factory, name, precision in (
        (onnx_int8, "onnx_int8", "int8 static"),
        (onnx_int8_static, "onnx_int8_static", "int8 static"),
        (onnx_int8_dynamic, "onnx_int8_dynamic", "int8 dynamic"),
    ):
        scenario = prepare(factory, "mlp")
        expected = {
            "precision": precision, "quantisation": "U8S8 per tensor", "reduce_range": reduced, "form": "MatMul"
        }  # fmt: skip
        assert (name, expected) == (scenario.name, {key: scenario.conditions[key] for key in expected})
        assert ("static" in precision) == ("calibration" in scenario.conditions)
        assert scenario.conditions.get("calibration", "512 rows").startswith("512 rows")


def test_context_says_what_ran_and_leaves_its_drift_to_the_run() -> None:
    """Which knows the batch size, on which that of dynamic quantisation depends."""
    context = prepare(onnx_int8_static, "mlp").context
    assert INTEGER_OPERATORS & {share.split()[0] for share in context["operators"].split(", ")}
    assert not {"agreement", "parity"} & {*context}


def test_without_calibration_rows_int8_is_dynamic() -> None:
    scenario = onnx_int8(fitted("mlp"), X=data_of("mlp")[1])
    assert "int8 dynamic" == scenario.conditions["precision"]
    assert prepare(onnx_int8_dynamic, "mlp").context["model"] == scenario.context["model"]


def test_int8_is_smaller_where_weights_are_most_of_the_model() -> None:
    fp32 = onnx_fp32(fitted("mlp"), X=data_of("mlp")[1])
    assert prepare(onnx_int8, "mlp").model_bytes < 0.6 * fp32.model_bytes


def test_static_needs_calibration_rows_that_are_no_test_rows() -> None:
    training, test, _, _ = breast_cancer()
    with pytest.raises(UsageProblem, match="give X_calibration= rows of the training data"):
        onnx_int8_static(fitted("mlp"), X=data_of("mlp")[1])
    for factory in (onnx_int8, onnx_int8_static):
        with pytest.raises(UsageProblem, match="3 of 403 rows of X_calibration occur in X"):
            factory(fitted("logistic"), X=test, X_calibration=np.concatenate([training, test[:3]]))
    with pytest.raises(MeasurementError, match="has 2 columns"):
        onnx_int8(fitted("logistic"), X=test, X_calibration=np.ones((40, 2)))
    assert "calibration" not in onnx_int8_dynamic(fitted("logistic"), X=test, X_calibration=test).conditions


def test_calibration_comes_in_equal_batches() -> None:
    training, test, _, _ = data_of("mlp")
    for given, chosen in ((1, 1), (31, 31), (32, 32), (100, 96), (511, 480), (1200, 512)):
        rows = choose_rows(inspect_form(fitted("mlp"), test), test, training[:given])
        sizes = [len(batch["X"]) for batch in iter(CalibrationReader(rows, "X").get_next, None)]
        assert chosen == len(rows) == sum(sizes)
        assert 1 == len(set(sizes))


FORMLESS = [
    ("forest", "no int8 form", "no INT8 form: only TreeEnsembleClassifier in the ONNX form of RandomForest"),
    ("scaled forest", "no int8 form", "no INT8 form: only TreeEnsembleClassifier in the ONNX form of Pipeline"),
    ("linear svc of ten", "no int8 form", "no INT8 form: only LinearClassifier"),
    ("reduced svc of ten", "no int8 form", "no INT8 form: Pipeline has no MatMul form"),
    ("boosting", "no int8 form", "no INT8 form: only TreeEnsembleClassifier"),
    ("neighbours", "no int8 form", "no INT8 form: only Scan in the ONNX form of KNeighbors"),
    ("centroids", "does not convert", r"does not convert to ONNX with skl2onnx \S+: "),
]


def test_what_has_no_int8_form_says_why() -> None:
    for name, kind, reason in FORMLESS:
        with pytest.raises(ScenarioUnavailable, match=reason) as refused:
            prepare(onnx_int8, name)
        assert kind == cause_of(refused.value).kind


@pytest.mark.parametrize(("name", "held"), [("vote", "TreeEnsembleClassifier"), ("reduced neighbours", "Scan")])
def test_a_model_that_mostly_computes_in_floats_is_not_int8(name: str, held: str) -> None:
    """The Scan of nearest neighbours holds the training rows, and only the MatMul before it is quantised."""
    with pytest.raises(ScenarioUnavailable, match=rf"^not INT8: integer operators take .*{held}"):
        prepare(onnx_int8_dynamic, name)


@pytest.mark.usefixtures("as_installed")
def test_a_quantiser_that_changes_nothing_is_found_out_once() -> None:
    """Near the bound, noise would else make the scenario come and go."""
    calls: list[int] = []

    def count(model: bytes, _calibration: Any) -> bytes:
        calls.append(len(model))
        return model

    for _ in range(2):
        with pytest.raises(ScenarioUnavailable, match=r"^not INT8: quantisation changed nothing") as refused:
            quantised(99, count)
        assert "unchanged" == cause_of(refused.value).kind
    assert 1 == len(calls)


def test_a_weight_only_model_is_found_out() -> None:
    with pytest.raises(ScenarioUnavailable, match=r"^not INT8: weight-only"):
        quantised(101, quantise_weights_only)


def test_pairs_of_quantise_and_dequantise_after_preprocessing_are_weight_only() -> None:
    """The real way to a false INT8: the file is smaller, labels are the same, and MatMulNBits computes in float."""
    training, test, _, _ = data_of("scaled mlp")
    one = inspect_form(fitted("scaled mlp"), test)
    chosen = choose_rows(one, test, training)
    with pytest.raises(ScenarioUnavailable, match=r"weight-only, MatMulNBits computes in float") as refused:
        quantise_model(one, test, chosen, quantise=lambda _, rows: quantise_after_preprocessing(one, rows))
    assert "weight-only" == cause_of(refused.value).kind


def quantise_after_preprocessing(one: FittedEstimator, rows: Any) -> bytes:
    """Quantise the form with a Scaler as ONNX Runtime's guide advises."""
    from onnxruntime.quantization import QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with workdir() as folder:
        source, prepared, quantised = (folder / f"{name}.onnx" for name in ("fp32", "prepared", "int8"))
        source.write_bytes(convert_with_skl2onnx(one, frozenset()))
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(str(prepared), str(quantised), CalibrationReader(rows, "X"), **kinds)
        return quantised.read_bytes()


def test_quantised_trees_are_unchanged() -> None:
    """ONNX Runtime raises nothing where some operators beside the trees are known to it."""
    one = inspect_form(fitted("scaled forest"), breast_cancer()[1])
    rows = one.rows(breast_cancer()[1])
    trees = convert_with_skl2onnx(one, frozenset({"Scaler"}))
    quantised = quantise_with_ort(trees, None)
    outputs, reference = (run_all(open_session(model, threads=1), rows) for model in (quantised, trees))
    executed, originals = (profile_operators(model, rows) for model in (quantised, trees))
    assert state("unchanged") == why_not_int8(executed, originals, same_outputs=bool((outputs == reference).all()))


def quantise_weights_only(model: bytes, _calibration: object) -> bytes:
    """Replace the first MatMul by a MatMulNBits of the same shape with 4-bit weights of zero."""
    import onnx

    proto = onnx.load_from_string(model)
    node = next(node for node in proto.graph.node if node.op_type == "MatMul")
    weights = next(one for one in proto.graph.initializer if one.name == node.input[1])
    inner, outer = weights.dims
    blocks = -(-inner // 16)
    packed = np.full((outer, blocks, 8), 0x88, dtype=np.uint8)
    scales = np.ones(outer * blocks, dtype=np.float32)
    proto.graph.initializer.extend(
        [onnx.numpy_helper.from_array(packed, "packed"), onnx.numpy_helper.from_array(scales, "scales")]
    )
    attributes = {"K": inner, "N": outer, "bits": 4, "block_size": 16}
    node.CopyFrom(
        onnx.helper.make_node(
            "MatMulNBits", [node.input[0], "packed", "scales"], node.output, domain="com.microsoft", **attributes
        )
    )
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    content: bytes = proto.SerializeToString()
    return content


def test_a_quantiser_that_fails_makes_it_unavailable() -> None:
    def fail(_model: bytes, _calibration: object) -> bytes:
        raise ValueError("no data type\nfor mul_result")

    with pytest.raises(ScenarioUnavailable, match="no INT8 form: MLPClassifier: ValueError: no data type for"):
        quantised(102, fail)


@pytest.mark.usefixtures("as_installed")
def test_a_second_time_nothing_is_quantised() -> None:
    calls: list[int] = []

    def count(model: bytes, calibration: Any) -> bytes:
        calls.append(len(model))
        return quantise_with_ort(model, calibration)

    first, second = (quantised(103, count) for _ in range(2))
    assert 1 == len(calls)
    assert first == second


def test_the_quantisers_advice_is_silent_errors_are_logged_and_logging_is_left_as_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = logging.getLogger()
    before = (list(root.handlers), list(root.filters))
    quantised(104)
    assert [] == caplog.records
    with _quiet():
        logging.getLogger().warning("advice")
        logging.getLogger().error("an error")
    assert ["an error"] == [record.message for record in caplog.records]
    assert before == (root.handlers, root.filters)
