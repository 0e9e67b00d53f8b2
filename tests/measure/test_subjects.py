"""Scenarios and callables as one shape."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pytest_hwperf.measure.subjects import (
    LoadedSubject,
    Subject,
    reference_of,
    subject_of_callable,
    subject_of_scenario,
)
from pytest_hwperf.records.contracts import Predictions, Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem

X = np.arange(20, dtype="float32").reshape(10, 2)


HELD = list[str]()  # while the scope of a predictor is


@contextmanager
def holding() -> Iterator[None]:
    HELD.append("scope")
    yield
    HELD.pop()


def batches_of(X: Any, batch_size: int) -> Sequence[Any]:
    return [X[start : start + batch_size] for start in range(0, len(X), batch_size)]


def large(outputs: Any) -> Any:
    return (outputs > 9).astype(int)


def fake_predictor(*, broken: bool = False) -> Predictor:
    """Predict whether the first column is large."""
    return Predictor(
        batches=batches_of,
        predict=lambda batch: batch[:, 0] * (np.nan if broken else 1),
        labels=large,
        scope=holding,
    )


def fake_scenario(*, broken: bool = False, classifies: bool = True) -> Scenario:
    """Return a scenario without a runtime."""
    return Scenario(
        name="fake",
        imports=("json",),
        conditions={"precision": "float32"},
        context={"model": "abc"},
        model_bytes=12,
        size_source="fake file",
        classifies=classifies,
        load=lambda: fake_predictor(broken=broken),
    )


def certain_scenario() -> Scenario:
    """Return one that gives probabilities, all of it certain, under the name of the reference."""
    certain = replace(fake_predictor(), probabilities=lambda outputs: np.eye(2)[large(outputs)])
    return replace(fake_scenario(), name="onnx_fp32", load=lambda: certain)


def predicted(loaded: LoadedSubject) -> Predictions | None:
    """Return what it says of every row."""
    assert loaded.predictions is not None
    return loaded.predictions()


def labels_of(loaded: LoadedSubject) -> list[Any]:
    """Return the label of every row."""
    found = predicted(loaded)
    assert found is not None
    return list(found.labels)


def inputs_of(loaded: LoadedSubject) -> Sequence[Any]:
    assert loaded.inputs is not None
    return loaded.inputs


def reference_labels(subject: Subject) -> list[Any]:
    assert subject.reference_predictions is not None
    return list(subject.reference_predictions().labels)


def callable_subject(function: Any, *args: Any, y_true: Any = None, batch_size: Any = None, **kwargs: Any) -> Subject:
    return subject_of_callable(function, args, kwargs, y_true=y_true, batch_size=batch_size)


def test_arguments_that_one_call_uses_up_are_refused() -> None:
    """The calls after it would sum nothing, within any budget."""
    used_up: list[tuple[list[Any], dict[str, Any]]] = [([iter([1])], {}), ([[1]], {"start": iter([1])})]
    for args, kwargs in used_up:
        with pytest.raises(UsageProblem, match="is an iterator, which one call uses up"):
            callable_subject(sum, *args, **kwargs)


def test_a_scenario_is_called_with_batches_of_its_rows() -> None:
    subject = subject_of_scenario(fake_scenario(), X, None, 5)
    loaded = subject.load()
    assert [5, 5] == [len(batch) for batch in inputs_of(loaded)]
    assert (subject.rows, subject.imports, subject.model_bytes) == (5, ("json",), 12)
    assert subject.conditions["batch_size"] == "5"
    assert subject.conditions["precision"] == "float32"


def test_a_shorter_last_batch_is_not_timed_but_predicted() -> None:
    loaded = subject_of_scenario(fake_scenario(), X, None, 4).load()
    assert [4, 4] == [len(batch) for batch in inputs_of(loaded)]
    assert labels_of(loaded) == [0] * 5 + [1] * 5


def test_a_fresh_process_loads_one_batch_only() -> None:
    loaded = subject_of_scenario(fake_scenario(), X, None, 4).load_one()
    assert [4] == [len(batch) for batch in inputs_of(loaded)]


@pytest.mark.parametrize("classifies", [True, False])
def test_nan_outputs_of_a_scenario_are_refused(*, classifies: bool) -> None:
    loaded = subject_of_scenario(fake_scenario(broken=True, classifies=classifies), X, None, 4).load()
    with pytest.raises(MeasurementError, match="4 of 4 outputs of one batch are NaN"):
        predicted(loaded)


def test_the_reference_predicts_the_same_rows() -> None:
    named = replace(fake_scenario(), reference="torch_fp32")
    subject = subject_of_scenario(named, X, None, 4, fake_scenario)
    assert subject.reference == "torch_fp32"
    assert reference_labels(subject) == [0] * 5 + [1] * 5
    assert not HELD


def test_the_models_own_call_is_the_reference_of_every_scenario() -> None:
    """By the scenario's own word, or else by that of the scenario that knows the call: one of a project's own too."""
    asked = list[int]()

    def answers(rows: Any) -> Predictions:
        asked.append(len(rows))
        return Predictions(labels=np.full(len(rows), 7))

    knowing = replace(fake_scenario(), answers=answers)
    for scenario in (knowing, fake_scenario()):
        subject = subject_of_scenario(scenario, X, None, 4, lambda: knowing)
        assert "model.predict(X)" == subject.reference
        assert [7] * 10 == reference_labels(subject)
    assert [10, 10] == asked
    assert "sklearn_fp32" == reference_of(fake_scenario())


def test_probabilities_are_taken_of_every_row() -> None:
    found = predicted(subject_of_scenario(certain_scenario(), X, None, 4).load())
    assert found is not None
    assert (10, 2) == found.probabilities.shape  # type: ignore[union-attr]


def test_a_missing_reference_says_so() -> None:
    def missing() -> Scenario:
        raise ScenarioUnavailable("does not convert")

    subject = subject_of_scenario(fake_scenario(), X, None, 4, missing)
    with pytest.raises(ScenarioUnavailable, match="does not convert"):
        reference_labels(subject)


def test_a_regressor_has_no_labels() -> None:
    subject = subject_of_scenario(fake_scenario(classifies=False), X, np.arange(10), 4, fake_scenario)
    loaded = subject.load()
    assert subject.y_true is None
    assert subject.reference_predictions is None
    assert predicted(loaded) is None


def test_nan_outputs_of_a_callable_are_refused_in_whichever_batch() -> None:
    """Only the last of ten rows gives NaN, and the shorter last batch is not timed."""
    loaded = callable_subject(lambda rows: np.where(rows[:, 0] < 18, rows[:, 0], np.nan), X, batch_size=4).load()
    with pytest.raises(MeasurementError, match="1 of 2 outputs of one batch are NaN"):
        predicted(loaded)


def test_of_a_callable_with_very_many_batches_the_first_thousand_are_looked_at() -> None:
    asked = list[float]()

    def predict(rows: Any) -> Any:
        asked.extend(rows)
        return rows

    loaded = callable_subject(predict, np.arange(1200.0), batch_size=1).load()
    predicted(loaded)
    assert list(range(1000)) == asked


def test_a_callable_whose_outputs_are_no_array_of_numbers_is_asked_once() -> None:
    """Nothing follows from them, and the rows may be many."""
    asked = list[int]()
    loaded = callable_subject(lambda rows: asked.append(len(rows)), X, batch_size=4).load()
    assert predicted(loaded) is None
    assert [4] == asked


def test_other_rows_are_another_condition() -> None:
    first, second = (subject_of_scenario(fake_scenario(), rows, None, 4) for rows in (X, X + 1))
    assert first.conditions["data"] != second.conditions["data"]


def test_a_callable_without_arguments_is_called_as_it_is_and_others_are_bound() -> None:
    """Nothing stands between the clock and the user's function."""

    def work() -> int:
        return 3

    loaded = callable_subject(work).load()
    assert loaded.function is work
    assert loaded.inputs is None
    assert callable_subject(lambda a, b: a + b, 1, b=2).load().function() == 3


def test_a_batch_size_cuts_the_first_argument() -> None:
    subject = callable_subject(lambda rows, scale: rows * scale, X, batch_size=5, scale=2)
    loaded = subject.load()
    assert np.array_equal(loaded.function(inputs_of(loaded)[0]), X[:5] * 2)
    assert subject.rows == 5


def test_without_a_batch_size_labels_take_all_rows_at_once() -> None:
    subject = callable_subject(lambda rows: rows[:, 0], X, y_true=X[:, 0])
    assert subject.rows == 10
    assert np.array_equal(labels_of(subject.load()), X[:, 0])


def test_a_data_frame_is_cut_by_position() -> None:
    """Its own brackets would go by label where the index is not the default one."""
    frame = pd.DataFrame({"a": range(6)}, index=[5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    loaded = callable_subject(lambda rows: rows["a"], frame, batch_size=2).load()
    assert [[0, 1], [2, 3], [4, 5]] == [list(batch["a"]) for batch in inputs_of(loaded)]


@pytest.mark.parametrize(
    ("output", "reported"), [(5, "a single value for 10 rows"), (np.zeros(3), "3 predictions for 10 rows")]
)
def test_a_callable_that_returns_no_label_per_row_is_refused(output: Any, reported: str) -> None:
    loaded = callable_subject(lambda _: output, X, y_true=X[:, 0]).load()
    with pytest.raises(MeasurementError, match=reported):
        predicted(loaded)


def test_values_of_an_async_function_are_labels() -> None:
    async def predict(rows: Any) -> Any:
        return rows[:, 0]

    subject = callable_subject(predict, X, y_true=X[:, 0])
    with closing(subject.load().loop) as loop:
        loaded = subject.load()
        assert [*X[:, 0]] == labels_of(loaded)
    assert loaded.loop is loop


def test_the_mix_of_lengths_is_a_condition() -> None:
    """Which says what differs where the digest of the data says only that it does."""
    texts = ["ab", "abcd", "a", "abc"]
    subject = callable_subject(len, texts, batch_size=2)
    assert subject.conditions["lengths"].startswith("4 rows (median 2, p95 4, digest ")
    assert subject.load().lengths == [6, 4]
    assert "lengths" not in callable_subject(len, X, batch_size=2).conditions


def test_rows_that_cannot_be_cut_are_refused() -> None:
    sizes: list[Any] = [0, -1, True, 2.5, "4"]
    for size in sizes:
        with pytest.raises(UsageProblem, match="a batch size is a whole number of rows from 1 on"):
            callable_subject(len, X, batch_size=size)
    with pytest.raises(UsageProblem, match="the data has only 10 rows"):
        callable_subject(len, X, batch_size=11)
    with pytest.raises(MeasurementError, match="the data has no rows"):
        subject_of_scenario(fake_scenario(), X[:0], None, 1)
    with pytest.raises(UsageProblem, match="the rows must have a length"):
        callable_subject(lambda rows: rows, 5, batch_size=1)
    with pytest.raises(UsageProblem, match="need the rows as first argument"):
        callable_subject(lambda: 1, y_true=[1])


def test_predictions_in_a_buffer_that_every_call_writes_into_are_those_of_their_rows() -> None:
    buffer = np.zeros(2)

    def call(rows: Any) -> Any:
        buffer[:] = rows[:, 0]
        return buffer

    X = np.arange(4.0).reshape(-1, 1)
    loaded = subject_of_callable(call, (X,), {}, y_true=X[:, 0], batch_size=2).load()
    assert [0.0, 1.0, 2.0, 3.0] == labels_of(loaded)
