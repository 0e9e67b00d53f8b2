"""Every built-in scenario of an estimator holds the contract, and scenarios that do not are found by it."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
from fakes.fitted_models import data_of, fitted, formless

from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.runtimes.estimators import split_batches
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.quantise import onnx_int8, onnx_int8_dynamic, onnx_int8_static
from pytest_hwperf.runtimes.sklearn_native import sklearn_fp32
from pytest_hwperf.runtimes.threads import check_threads
from pytest_hwperf.scenario_contract import ScenarioContract


class OfEstimator(ScenarioContract):
    """The contract with the network of ten classes."""

    kind = "mlp"
    model_without_form: Any = cached_property(lambda self: formless(self.X))
    test_a_fresh_process_needs_its_imports_alone: Any = None  # below, for all of them in one process

    @cached_property
    def model(self) -> Any:
        return fitted(self.kind)

    X = cached_property(lambda self: data_of(self.kind)[1][:50])
    X_calibration = cached_property(lambda self: data_of(self.kind)[0][:96])

    @cached_property
    def labels(self) -> Any:
        return self.model.predict(self.X)


class TestSklearn(OfEstimator):
    factory = staticmethod(sklearn_fp32)
    model_without_form = None


class TestOnnx(OfEstimator):
    factory = staticmethod(onnx_fp32)


class TestRegressor(OfEstimator):
    factory = staticmethod(onnx_fp32)
    kind = "ridge"


class TestStaticInt8(OfEstimator):
    factory = staticmethod(onnx_int8_static)
    model_without_form = cached_property(lambda self: formless(self.X, "forest"))
    least_agreement = 0.96


class TestDynamicInt8(OfEstimator):
    factory = staticmethod(onnx_int8_dynamic)
    least_agreement = 0.96


class TestInt8(OfEstimator):
    factory = staticmethod(onnx_int8)
    least_agreement = 0.96


class Table:
    """A linear model, as simple as one can be."""

    scope: Callable[[], AbstractContextManager[object]] = nullcontext

    def __init__(self, weights: Any) -> None:
        self.weights = weights.copy()

    def batches(self, X: Any, batch_size: int) -> Sequence[Any]:
        if len(X) == 0:
            raise MeasurementError("X has no rows")
        return split_batches(X, batch_size)

    def predict(self, batch: Any) -> Any:
        return batch @ self.weights

    def labels(self, outputs: Any) -> Any:
        return outputs.argmax(axis=1)

    def probabilities(self, outputs: Any) -> Any:
        return np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)

    def predictor(self) -> Predictor:
        return Predictor(
            batches=self.batches,
            predict=self.predict,
            labels=self.labels,
            probabilities=self.probabilities,
            scope=self.scope,
        )


def linear(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    del X, X_calibration
    check_threads(threads)
    if isinstance(model, str):
        raise ScenarioUnavailable(f"a model called {model} has no weights")
    if not isinstance(model, np.ndarray):
        raise UsageProblem("give a matrix")
    return Scenario(
        name="linear",
        imports=("numpy",),
        conditions={"threads": str(threads), "precision": str(model.dtype)},
        context={},
        model_bytes=model.nbytes,
        size_source="numpy",
        classifies=True,
        load=lambda: Table(model).predictor(),
    )


ROWS = np.random.default_rng(1).normal(size=(15, 4))
WEIGHTS = np.random.default_rng(2).normal(size=(4, 3))


class Linear(ScenarioContract):
    factory = staticmethod(linear)
    model, X, labels, model_without_form = WEIGHTS, ROWS, (ROWS @ WEIGHTS).argmax(axis=1), "oracle"


def prepared_with(**fields: Any) -> type[Linear]:
    """Return the contract of the scenario with other fields."""

    def factory(model: Any, **arguments: Any) -> Scenario:
        return replace(linear(model, **arguments), **fields)

    return type("Other", (Linear,), {"factory": staticmethod(factory)})


def predicting_by(**methods: Any) -> type[Linear]:
    """Return the contract of the scenario whose predictor has other methods."""
    kind = type("OtherTable", (Table,), methods)
    return prepared_with(load=lambda: kind(WEIGHTS).predictor())


def refusing(error: Exception | None) -> type[Linear]:
    """Return the contract of a factory that refuses nothing, or everything with the same error."""

    def factory(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
        if error is not None:
            raise error
        del model, threads
        return linear(WEIGHTS, X=X, X_calibration=X_calibration)

    return type("Other", (Linear,), {"factory": staticmethod(factory)})


def counted(counter: list[int] = []) -> Scenario:  # noqa: B006 - a state that lasts is the offence
    counter.append(0)
    return replace(linear(WEIGHTS, X=ROWS), conditions={"threads": "1", "precision": str(len(counter))})


def into_its_buffer(self: Any, batch: Any) -> Any:
    self.buffer = getattr(self, "buffer", np.empty((7, 3)))
    np.matmul(batch, self.weights, out=self.buffer[: len(batch)])
    return self.buffer[: len(batch)]


def into_its_input(self: Any, batch: Any) -> Any:
    outputs = batch @ self.weights
    batch *= 0.5
    return outputs


def drifting(self: Any, batch: Any) -> Any:
    self.weights += 1
    return batch @ self.weights


@contextmanager
def once(self: Any) -> Iterator[None]:
    assert not getattr(self, "entered", False), "entered already"
    self.entered = True
    yield
    self.entered = False


SHARED = Table(WEIGHTS).predictor()
OFFENCES = {
    "no name": ("test_it_says_what_it_is", prepared_with(name=""), "no identifier"),
    "a number": ("test_it_says_what_it_is", prepared_with(context={"n": 3}), "context are texts"),
    "no precision": ("test_it_says_what_it_is", prepared_with(conditions={"threads": "1"}), "lack 'precision'"),
    "no size": ("test_it_says_what_it_is", prepared_with(model_bytes=0), "model_bytes is 0"),
    "no source": ("test_it_says_what_it_is", prepared_with(size_source=""), "size_source is empty"),
    "unclear": ("test_it_says_what_it_is", prepared_with(classifies="yes"), "classifies is 'yes'"),
    "other each time": (
        "test_its_conditions_are_the_same_each_time",
        type("Other", (Linear,), {"factory": lambda _, **__: counted()}),
        "conditions differ",
    ),
    "threads forgotten": ("test_threads_are_a_condition", refusing(None), "'threads'] is '1'"),
    "shuffled": (
        "test_batches_cut_all_rows_once_and_in_order",
        predicting_by(batches=lambda _, X, size: split_batches(X, size)[::-1]),
        "from row 0 on gives what other rows give",
    ),
    "rest left out": (
        "test_batches_cut_all_rows_once_and_in_order",
        predicting_by(batches=lambda _, X, size: split_batches(X[: len(X) // size * size], size) or [X]),
        "2 batches of 7 rows of 15: 3 are needed",
    ),
    "blind": (
        "test_batches_cut_all_rows_once_and_in_order",
        predicting_by(predict=lambda *_: np.zeros((1, 3))),
        "all batches give the same",
    ),
    "empty": (
        "test_no_rows_and_no_batch_size_are_refused",
        predicting_by(batches=lambda _, X, size: split_batches(X, size)),
        "X without rows is taken",
    ),
    "size": (
        "test_no_rows_and_no_batch_size_are_refused",
        predicting_by(batches=lambda _, X, size: split_batches(X, max(size, 1)) if len(X) else split_batches(X, 0)),
        "batch_size=0 is taken",
    ),
    "scores": (
        "test_labels_agree_with_the_reference",
        predicting_by(labels=lambda _, outputs: outputs),
        "shape \\(15, 3\\) for 15 rows",
    ),
    "other labels": (
        "test_labels_agree_with_the_reference",
        predicting_by(labels=lambda _, outputs: outputs.argmin(axis=1)),
        "0.0 % of the labels",
    ),
    "other values": (
        "test_labels_agree_with_the_reference",
        type("Other", (prepared_with(classifies=False),), {"labels": np.arange(15.0)}),
        "values differ by up to",
    ),
    "no probabilities": (
        "test_probabilities_are_those_of_each_row",
        predicting_by(probabilities=lambda _, outputs: outputs),
        "not between 0 and 1",
    ),
    "one probability": (
        "test_probabilities_are_those_of_each_row",
        predicting_by(probabilities=lambda _, outputs: outputs[:, 0]),
        "have the shape \\(15,\\)",
    ),
    "one load": ("test_two_loads_are_independent", prepared_with(load=lambda: SHARED), "the same predictor twice"),
    "drift": ("test_two_loads_are_independent", predicting_by(predict=drifting), "another one was used"),
    "buffer": ("test_predict_changes_nothing", predicting_by(predict=into_its_buffer), "earlier call had returned"),
    "input": (
        "test_predict_changes_nothing",
        type("Other", (predicting_by(predict=into_its_input),), {"X": ROWS.copy()}),
        "gives other outputs the second time",
    ),
    "scope": ("test_its_scope_can_be_entered_again", predicting_by(scope=once), "entered already"),
    "no skip": ("test_what_has_no_form_is_a_skip_with_its_cause", refusing(None), "without a form is taken"),
    "no cause": ("test_what_has_no_form_is_a_skip_with_its_cause", refusing(ScenarioUnavailable()), "no cause"),
    "hidden": (
        "test_what_is_no_model_is_a_mistake",
        refusing(ScenarioUnavailable("no")),
        r"raises ScenarioUnavailable \(no\) where UsageProblem is needed",
    ),
}


@pytest.mark.parametrize("offence", OFFENCES)
def test_a_scenario_that_breaks_the_contract_is_found(offence: str) -> None:
    check, contract, sentence = OFFENCES[offence]
    with pytest.raises(AssertionError, match=sentence):
        getattr(contract(), check)()


def test_a_scenario_that_holds_it_passes() -> None:
    for check in {name for name, _, _ in OFFENCES.values()}:
        getattr(Linear(), check)()


@pytest.mark.parametrize(
    ("contract", "check"),
    [
        (type("Other", (Linear,), {"labels": None}), "test_labels_agree_with_the_reference"),
        (type("Other", (Linear,), {"model_without_form": None}), "test_what_has_no_form_is_a_skip_with_its_cause"),
        (
            prepared_with(load=lambda: replace(SHARED, probabilities=None)),
            "test_probabilities_are_those_of_each_row",
        ),
    ],
)
def test_what_was_not_given_is_skipped(contract: type[Linear], check: str) -> None:
    with pytest.raises(SkipTest):
        getattr(contract(), check)()


@pytest.mark.live
def test_threads_that_were_not_asked_for_are_found() -> None:
    """Each of two threads has half of the work."""
    import threading

    def work() -> None:
        for _ in range(200):
            np.sort(WEIGHTS, axis=None)

    going = [True]

    def beside() -> None:
        while going:
            work()

    def predict(self: Table, batch: Any) -> Any:
        if threading.active_count() == before:
            threading.Thread(target=beside, daemon=True).start()
        work()
        return batch @ self.weights

    before = threading.active_count()
    with pytest.raises(AssertionError, match="threads compute where 1 was asked for"):
        predicting_by(predict=predict)().test_no_more_threads_compute_than_were_asked_for()
    going.clear()


def test_what_is_imported_late_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lately_imported.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    def load() -> Predictor:
        importlib.import_module("lately_imported")
        return Table(WEIGHTS).predictor()

    with pytest.raises(AssertionError, match="imports lately_imported: name what it needs in `imports`"):
        prepared_with(load=load)().check_imports()
    prepared_with(load=load, imports=("lately_imported",))().check_imports()


FRESH = """
import os, sys
sys.path[:0] = {folders!r}
import sklearn.neural_network, test_contract
for kind in ("TestSklearn", "TestOnnx", "TestDynamicInt8"):
    if os.fork() == 0:
        getattr(test_contract, kind)().check_imports()
        print(kind, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.live
def test_in_a_fresh_process_they_need_their_imports_alone() -> None:
    """Each in a process of its own, which has scikit-learn's network and nothing else."""
    here = Path(__file__)
    code = FRESH.format(folders=[str(here.parents[1]), str(here.parent)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ["TestSklearn", "TestOnnx", "TestDynamicInt8"] == done.stdout.split(), done.stderr
