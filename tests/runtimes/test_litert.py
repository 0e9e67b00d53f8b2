"""LiteRT files: by how their layers compute they are FP32, INT8 or neither; each thread has its own interpreter."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from fakes.fitted_models import data_of, fitted
from fakes.tflite_models import FLOAT, HALF, INT8, linear

from pytest_hwperf.host import extras
from pytest_hwperf.records.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.messages import cause_of
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes.litert import litert_fp32, litert_int8, read_litert
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.scenario_contract import ScenarioContract

pytestmark = pytest.mark.runtime

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

WEIGHTS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
ROWS = np.random.default_rng(2).normal(size=(14, 4)).astype(np.float32)
SCORES = ROWS @ WEIGHTS


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what is found by trying models apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        yield cache.folder()


class OfModel(ScenarioContract):
    test_a_fresh_process_needs_its_imports_alone: Any = None  # it loads the interpreter and nothing else
    X, labels = ROWS, SCORES.argmax(axis=1)
    wrong_model = 3


class TestFp32(OfModel):
    factory = staticmethod(litert_fp32)
    model = property(lambda _: linear(WEIGHTS))
    model_without_form = property(lambda _: linear(WEIGHTS, stored=INT8))


class TestFixedRows(OfModel):
    factory = staticmethod(litert_fp32)
    model = property(lambda _: linear(WEIGHTS, rows=7))
    model_without_form = property(lambda _: fitted("forest"))
    batch_sizes = (7,)


class TestInt8(OfModel):
    factory = staticmethod(litert_int8)
    model = property(lambda _: linear(WEIGHTS, activations=INT8, stored=INT8))
    model_without_form = property(lambda _: linear(WEIGHTS))
    least_agreement = 0.9


class TestDynamicInt8(OfModel):
    factory = staticmethod(litert_int8)
    model = property(lambda _: linear(WEIGHTS, stored=INT8))
    model_without_form = property(lambda _: linear(WEIGHTS, stored=HALF))
    least_agreement = 0.9


def outputs_of(scenario: Any) -> Any:
    predictor = scenario.load()
    return predictor.predict(predictor.batches(ROWS, 14)[0])


@pytest.mark.parametrize(
    ("factory", "model", "precision", "error"),
    [
        (litert_fp32, {}, "float32", 1e-6),
        (litert_int8, {"activations": INT8, "stored": INT8}, "int8 static", 0.15),
        (litert_int8, {"stored": INT8}, "int8 dynamic", 0.05),
    ],
)
def test_outputs_are_numbers_whatever_the_model_computes_in(
    factory: Any, model: dict[str, Any], precision: str, error: float
) -> None:
    """Quantised inputs and outputs are converted by their own scales and zero points."""
    scenario = factory(linear(WEIGHTS, **model), X=ROWS)
    outputs = outputs_of(scenario)
    assert precision == scenario.conditions["precision"]
    assert np.float32 == outputs.dtype
    assert np.abs(outputs - SCORES).max() < error


def test_what_a_quantised_input_cannot_hold_is_cut_off() -> None:
    """As in serving: ±6.4 is what 8 bits hold in steps of 0.05."""
    model = linear(WEIGHTS, activations=INT8, stored=INT8, scales=(0.05, 0.5))
    predictor = litert_int8(model, X=ROWS).load()
    far, near = (predictor.predict({"x": np.full((1, 4), value, dtype=np.float32)}) for value in (99.0, 6.35))
    assert near.tolist() == far.tolist()


@pytest.mark.parametrize(
    ("stored", "layers"),
    [(FLOAT, ("float32",)), (INT8, ("int8 dynamic",)), (HALF, ("float16 weights",))],
)
def test_how_layers_compute_is_read_from_the_file(stored: str, layers: tuple[str, ...]) -> None:
    assert layers == read_litert(linear(WEIGHTS, stored=stored)).layers


@pytest.mark.parametrize(
    ("factory", "model", "kind", "sentence"),
    [
        (litert_fp32, {"stored": INT8}, None, "is no FP32 model: its layers compute with int8 dynamic"),
        (litert_fp32, {"stored": HALF}, None, "its layers compute with float16 weights"),
        (litert_int8, {}, "no int8 form", "no INT8 form: the layers of the LiteRT model are 1 × float32"),
        (litert_int8, {"stored": HALF}, "weight-only", "weight-only, .* (executed: 1 × float16 weights)"),
    ],
)
def test_another_precision_is_a_skip(factory: Any, model: Any, kind: str | None, sentence: str) -> None:
    with pytest.raises(ScenarioUnavailable, match=sentence.replace("(", r"\(").replace(")", r"\)")) as caught:
        factory(linear(WEIGHTS, **model), X=ROWS)
    assert kind in {None, cause_of(caught.value).kind}


def test_files_are_taken_as_their_content_is(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(linear(WEIGHTS))
    scenario = litert_fp32(path, X={"x": ROWS})
    assert (path.stat().st_size, "tflite file") == (scenario.model_bytes, scenario.size_source)
    assert scenario.context == litert_fp32(linear(WEIGHTS), X=ROWS).context


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "lacks the identifier"),
        (b"no model at all", "lacks the identifier"),
        (b"\xff\xff\xff\x7fTFL3", "cannot be"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(UsageProblem, match=f"is no LiteRT model: it {sentence}"):
        litert_fp32(path, X=ROWS)
    with pytest.raises(UsageProblem, match=r"is no file: give a \.tflite file"):
        litert_fp32(tmp_path / "no.tflite", X=ROWS)


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (ROWS[:, :3], r"takes x of the shape \(rows, 4\), and X holds \(14, 3\)"),
        ({"y": ROWS}, "has the inputs x, and X holds y"),
        (np.array([["a"] * 4]), "takes float32 as x, and X holds <U1"),
    ],
)
def test_rows_that_do_not_fit_are_refused(X: Any, sentence: str) -> None:
    with pytest.raises(UsageProblem, match=sentence):
        litert_fp32(linear(WEIGHTS), X=X)


def test_other_models_are_skipped_by_each_other(tmp_path: Path) -> None:
    """So that the reference of a LiteRT model, onnx_fp32, is missing and no mistake."""
    with pytest.raises(ScenarioUnavailable, match="a LiteRT model is no estimator"):
        onnx_fp32(linear(WEIGHTS), X=ROWS)
    with pytest.raises(ScenarioUnavailable, match=r"takes .tflite files, and this is an ONNX model"):
        litert_fp32(tmp_path / "model.onnx", X=ROWS)
    with pytest.raises(ScenarioUnavailable, match=r"takes .tflite files, and this is RandomForestClassifier"):
        litert_fp32(fitted("forest"), X=data_of("forest")[1])


def test_threads_of_a_load_have_interpreters_of_their_own() -> None:
    predictor = litert_fp32(linear(WEIGHTS), X=ROWS).load()
    batches = [*predictor.batches(ROWS, 5)] * 50
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
    for outputs in found.values():
        assert all(map(np.array_equal, expected, outputs))


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ScenarioUnavailable, match=r"LiteRT is not installed: pip install 'pytest-hwperf\[litert\]'"):
        litert_fp32(b"", X=ROWS)
