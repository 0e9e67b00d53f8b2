"""FP32 ONNX forms agree with the estimator, come from the cache, and run as they were asked to."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.fitted_models import breast_cancer, data_of, fitted
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pytest_hwperf.records.contracts import Predictions, Scenario, ScenarioFactory
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.records.messages import cause_of
from pytest_hwperf.runtimes.agreement import agreement
from pytest_hwperf.runtimes.estimators import FittedEstimator, inspect_form
from pytest_hwperf.runtimes.onnx import convert_model, convert_with_skl2onnx, onnx_fp32
from pytest_hwperf.runtimes.ort import check_providers, open_session

pytestmark = pytest.mark.live


class CountingConverter:
    """The real converter, counting the forms it was asked for."""

    def __init__(self) -> None:
        self.forms: list[bool] = []

    def __call__(self, one: FittedEstimator, avoided: frozenset[str]) -> bytes:
        """Convert and note whether the MatMul form was asked for."""
        self.forms.append(bool(avoided))
        return convert_with_skl2onnx(one, avoided)


def prepare(name: str, threads: int = 1) -> Scenario:
    factory: ScenarioFactory = onnx_fp32
    return factory(fitted(name), X=data_of(name)[1], threads=threads)


def predict(name: str) -> tuple[Any, Any]:
    """Return outputs and labels of all test rows."""
    predictor = prepare(name).load()
    with predictor.scope():
        outputs = [predictor.predict(batch) for batch in predictor.batches(data_of(name)[1], 50)]
    return np.concatenate(outputs), np.concatenate([predictor.labels(output) for output in outputs])


def test_classifiers_give_the_estimators_probabilities_and_labels() -> None:
    for name in ("logistic", "text labels", "mlp", "forest", "scaled forest", "vote", "neighbours"):
        model, X = fitted(name), data_of(name)[1]
        outputs, labels = predict(name)
        assert np.allclose(model.predict_proba(X), outputs, atol=2e-6), name
        assert model.predict(X).tolist() == labels.tolist()
        assert model.classes_.dtype == labels.dtype
    for name in ("linear svc", "linear svc of ten"):
        _, labels = predict(name)
        assert fitted(name).predict(data_of(name)[1]).tolist() == labels.tolist()
        assert "labels" == prepare(name).conditions["output"]
        assert prepare(name).classifies


def test_regressors_give_values_of_one_dimension() -> None:
    _, values = predict("ridge")
    assert np.allclose(fitted("ridge").predict(data_of("ridge")[1]), values, atol=1e-4)
    assert (169,) == values.shape
    assert not prepare("ridge").classifies


def test_the_form_is_recorded() -> None:
    """A linear classifier of ten classes without probabilities has no MatMul form in skl2onnx 1.20."""
    forms = {"logistic": "MatMul", "ridge": "MatMul", "linear svc of ten": "default", "scaled forest": "default"}
    assert forms == {name: prepare(name).conditions["form"] for name in forms}


def test_conditions_and_context_say_how_it_runs() -> None:
    scenario = prepare("logistic", threads=2)
    assert scenario.conditions == {
        "threads": "2",
        "inter_op_threads": "1",
        "spinning": "off",
        "graph_optimisation": "all",
        "precision": "float32",
        "form": "MatMul",
        "output": "probabilities",
    }
    assert {"model", "parity", "providers"} == set(scenario.context)
    assert scenario.context["parity"].endswith("0 of 169 labels differ from model.predict(X)")
    assert "CPUExecutionProvider" == scenario.context["providers"]
    assert ("onnxruntime",) == scenario.imports
    assert "onnx file" == scenario.size_source


def test_the_session_has_the_threads_that_were_asked_for() -> None:
    path = converted_path("logistic")
    options = open_session(path, threads=2).get_session_options()
    assert 2 == options.intra_op_num_threads
    assert 1 == options.inter_op_num_threads
    assert "0" == options.get_session_config_entry("session.intra_op.allow_spinning")
    assert prepare("logistic").model_bytes == path.stat().st_size


def converted_path(name: str) -> Path:
    one = inspect_form(fitted(name), data_of(name)[1])
    return convert_model(one, data_of(name)[1]).path


def test_only_the_asked_output_is_computed() -> None:
    """The label needs operators of its own, and the estimator's predict_proba computes no label either."""
    import onnx

    graph = onnx.load(converted_path("logistic")).graph
    assert ["probabilities"] == [output.name for output in graph.output]
    assert "ArgMax" not in {node.op_type for node in graph.node}
    assert {weights.name for weights in graph.initializer} <= {name for node in graph.node for name in node.input}


def test_another_provider_is_refused() -> None:
    for effective in ([], ["CUDAExecutionProvider", "CPUExecutionProvider"]):
        with pytest.raises(MeasurementError, match="where CPUExecutionProvider was asked for"):
            check_providers(effective)


@pytest.mark.usefixtures("as_installed")
def test_a_second_time_nothing_is_converted() -> None:
    X = breast_cancer()[0][:50]
    one, converter = inspect_form(fitted("logistic"), X), CountingConverter()
    first, second = (convert_model(one, X, converter) for _ in range(2))
    assert [True] == converter.forms
    assert first == second
    assert "on 50 rows" not in first.notes["parity"]


def test_a_damaged_model_is_converted_again() -> None:
    X = breast_cancer()[0][:51]
    one, converter = inspect_form(fitted("logistic"), X), CountingConverter()
    first = convert_model(one, X, converter)
    content = first.path.read_bytes()
    first.path.write_bytes(content[:-1])
    again = convert_model(one, X, converter)
    assert [True, True] == converter.forms
    assert content == again.path.read_bytes()


def test_a_known_model_needs_no_runtime_until_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a cold start would be measured without the runtime's import."""
    prepare("logistic")
    for name in ("onnx", "onnxruntime", "skl2onnx"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises ImportError
    scenario = prepare("logistic")
    with pytest.raises(ImportError):
        scenario.load()


def test_an_estimator_that_does_not_convert_is_unavailable_in_one_line() -> None:
    with pytest.raises(ScenarioUnavailable, match="NearestCentroid does not convert") as refused:
        prepare("centroids")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 320


def test_a_model_that_the_runtime_refuses_is_unavailable() -> None:
    X = breast_cancer()[1]
    one = inspect_form(fitted("logistic"), X)
    with pytest.raises(ScenarioUnavailable, match="converts, but ONNX Runtime does not run it"):
        convert_model(one, X[:3], write_what_no_runtime_knows)


def write_what_no_runtime_knows(_one: FittedEstimator, _avoided: frozenset[str]) -> bytes:
    import onnx
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 30]) for name in ("X", "probabilities")]
    node = helper.make_node("Unheard", ["X"], ["probabilities"])
    model: onnx.ModelProto = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:]))
    content: bytes = model.SerializeToString()
    return content


def test_a_form_that_answers_otherwise_is_none() -> None:
    """The other model's labels are all turned round: the reason names the share and a row."""
    X, _, y, _ = breast_cancer()
    one, other = (
        inspect_form(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, labels), X) for labels in (y, 1 - y)
    )
    with pytest.raises(ScenarioUnavailable, match=r"labels differ, such as row 0: 1 instead of 0") as refused:
        convert_model(one, X, lambda _one, avoided: convert_with_skl2onnx(other, avoided))
    assert "other answers" == cause_of(refused.value).kind


def own(labels: Any, probabilities: Any = None) -> Predictions:
    return Predictions(labels=np.asarray(labels), probabilities=probabilities)


def test_agreement_of_probabilities_counts_labels() -> None:
    one = inspect_form(fitted("logistic"), breast_cancer()[1])
    reference = np.array([[0.6, 0.4]] * 100)
    outputs = reference.copy()
    reference[0] = [0.501, 0.499]
    outputs[0] = [0.499, 0.501]  # 0.002 off, and another label: one of 100, the most that rounding is believed to do
    answers = own(reference.argmax(axis=1), reference)

    found = agreement(one, outputs, answers)
    assert "max |Δp| 0.002, 1 of 100 labels differ, such as row 0: 1 instead of 0" == found.text
    assert (1, False) == (found.others, found.gross)
    assert agreement(one, outputs[:50], own(answers.labels[:50], reference[:50])).gross  # one of 50
    assert agreement(one, reference - 0.02, answers).gross  # no label differs
    assert agreement(one, np.full_like(reference, np.nan), answers).gross


def test_a_tie_that_rounding_breaks_is_no_other_answer() -> None:
    one = inspect_form(fitted("logistic"), breast_cancer()[1])
    reference = np.array([[0.5, 0.5]] * 10)
    found = agreement(one, np.add(reference, [0.0, 1e-7]), own([0] * 10, reference))
    assert (10, False) == (found.others, found.gross)


def test_agreement_of_labels_counts_them() -> None:
    one = inspect_form(fitted("linear svc"), breast_cancer()[1])
    found = agreement(one, np.array([0, 1, 1]), own([0, 1, 0]))
    assert "1 of 3 labels differ, such as row 2: 1 instead of 0" == found.text
    assert found.gross


def test_agreement_of_values_is_relative_to_their_span() -> None:
    X, _, y, _ = breast_cancer()
    one = inspect_form(LinearRegression().fit(X, y), X)
    # The span is 9: 0.001 is a ninth of the bound of 9 · 1e-3, and 0.1 is eleven times as much.
    near = agreement(one, np.array([[1.001], [10]]), own([1.0, 10.0]))
    assert "max |Δ| 0.001, 0 of 2 values differ" == near.text
    assert not near.gross
    assert agreement(one, np.array([[1.1], [10]]), own([1.0, 10.0])).gross


def test_outputs_of_another_shape_are_unavailable() -> None:
    one = inspect_form(fitted("logistic"), breast_cancer()[1])
    with pytest.raises(ScenarioUnavailable, match=r"outputs of shape \(2, 1\) instead of \(2, 2\)"):
        agreement(one, np.zeros((2, 1)), own([0, 0], np.zeros((2, 2))))
