"""The contract that every scenario has to hold, as a test class: subclass it for a scenario of your own."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from unittest import SkipTest  # pytest takes it for a skip

from pytest_hwperf.host.clocks import shares_of_threads
from pytest_hwperf.records.contracts import Predictor, Scenario, ScenarioFactory
from pytest_hwperf.records.errors import HwperfError, MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.units import show_share

_FRESH = "HWPERF_SCENARIO_CONTRACT"  # in the environment of the fresh process
_LEAST_SHARE = 0.1  # of the CPU time: a thread with less only sorted something out
_ROUNDING = 1e-3  # of a probability

Kinds = type[HwperfError] | tuple[type[HwperfError], ...]


class ScenarioContract:
    """What a scenario has to hold, one test each.

    A subclass whose name begins with `Test` gives `factory`, `model` and `X`, the others where they apply. What is
    costly to make is a `functools.cached_property`, so that collecting the tests does not make it.
    """

    factory: ClassVar[ScenarioFactory]  # staticmethod(my_scenario)
    model: Any  # one that the scenario takes
    X: Any  # rows whose predictions differ: an array or data frame, or a mapping name → array
    labels: Any = None  # what the model says of each row of `X`, by whatever made it, shape (n,)
    least_agreement: float = 0.99  # share of rows with the same label
    largest_error: float = 1e-3  # of values that are no classes, relative to the largest of them
    X_calibration: Any = None
    batch_sizes: Sequence[int] = (1, 7)
    model_without_form: Any = None  # a model that the scenario has no form of: a skip
    wrong_model: Any = len  # what is no model for it at all: a mistake of the user

    def prepare(self, *, threads: int = 1) -> Scenario:
        """Prepare the scenario."""
        return type(self).factory(self.model, X=self.X, X_calibration=self.X_calibration, threads=threads)

    def test_it_says_what_it_is(self) -> None:
        """Its fields are of the types that reports and comparisons take."""
        scenario = self.prepare()
        _require(bool(scenario.name) and scenario.name.isidentifier(), f"name {scenario.name!r} is no identifier")
        for name in ("conditions", "context"):
            texts: Mapping[str, object] = getattr(scenario, name)
            wrong = {key: value for key, value in texts.items() if not isinstance(value, str)}
            _require(not wrong, f"{name} are texts, and these are not: {wrong}")
        for key in ("threads", "precision"):
            _require(key in scenario.conditions, f"conditions lack {key!r}: runs that differ in it would be compared")
        size: object = scenario.model_bytes
        _require(isinstance(size, int) and size > 0, f"model_bytes is {size!r}: give the serialised size, above 0")
        _require(bool(scenario.size_source), "size_source is empty: say how the size was taken")
        _require(isinstance(scenario.classifies, bool), f"classifies is {scenario.classifies!r}: give True or False")

    def test_its_conditions_are_the_same_each_time(self) -> None:
        """Conditions that change from run to run would make every comparison `not comparable`."""
        first, second = self.prepare(), self.prepare()
        for name in ("name", "conditions", "imports", "model_bytes", "size_source", "classifies"):
            one, other = getattr(first, name), getattr(second, name)
            _require(one == other, f"{name} differ between two preparations of one model: {one!r} and {other!r}")

    def test_threads_are_a_condition(self) -> None:
        """Another number of threads is another quantity, and no whole number from 1 on is a mistake."""
        shown = self.prepare(threads=2).conditions["threads"]
        _require(shown == "2", f"conditions['threads'] is {shown!r} where 2 threads were asked for")
        for wrong in (0, True, "2"):
            given: Any = wrong
            _require_refusal(f"threads={wrong!r}", UsageProblem, partial(self.prepare, threads=given))

    def test_batches_cut_all_rows_once_and_in_order(self) -> None:
        """Each batch gives what its rows give alone; no two batches may give the same, or the order is not seen."""
        predictor = self.prepare().load()
        with predictor.scope():
            for size in self.batch_sizes:
                _check_batches(predictor, self.X, size)

    def test_no_rows_and_no_batch_size_are_refused(self) -> None:
        """Nothing can be measured on empty data."""
        predictor = self.prepare().load()
        size = self.batch_sizes[0]
        refusals = (MeasurementError, UsageProblem)
        _require_refusal("X without rows", refusals, lambda: predictor.batches(_rows(self.X, 0, 0), size))
        _require_refusal("batch_size=0", refusals, lambda: predictor.batches(self.X, 0))

    def test_labels_agree_with_the_reference(self) -> None:
        """One label per row; for regressors one value."""
        import numpy as np

        scenario = self.prepare()
        predictor = scenario.load()
        labels = np.concatenate([predictor.labels(output) for output in self._outputs(predictor)])
        fits = len(labels) == _count(self.X) and (labels.ndim == 1 or not scenario.classifies)
        _require(fits, f"labels have the shape {labels.shape} for {_count(self.X)} rows")
        if self.labels is None:
            raise SkipTest("this test class gives no labels to compare with")
        expected = np.asarray(self.labels)
        if scenario.classifies:
            share = float((labels == expected).mean())
            _require(share >= self.least_agreement, f"{show_share(share, 1)} of the labels agree with those expected")
        else:
            error = float(np.abs(labels - expected).max() / np.abs(expected).max())
            _require(error <= self.largest_error, f"values differ by up to {error:.2g} of the largest")

    def test_probabilities_are_those_of_each_row(self) -> None:
        """Shape (n, k), between 0 and 1."""
        import numpy as np

        predictor = self.prepare().load()
        if predictor.probabilities is None:
            raise SkipTest("the model has no probabilities in this scenario")
        values = np.concatenate([predictor.probabilities(output) for output in self._outputs(predictor)])
        _require(values.ndim == 2 and len(values) == _count(self.X), f"probabilities have the shape {values.shape}")  # noqa: PLR2004 - rows and classes
        inside = bool((values >= -_ROUNDING).all() and (values <= 1 + _ROUNDING).all())
        _require(inside, "probabilities are not between 0 and 1: give none where the outputs are scores")

    def test_two_loads_are_independent(self) -> None:
        """Memory is measured of a load that shares nothing with an earlier one."""
        scenario = self.prepare()
        first, second = scenario.load(), scenario.load()
        _require(first is not second, "load() returned the same predictor twice: memory and cold start would be lost")
        before = self._outputs(first)
        _require(_same(before, self._outputs(second)), "two loads of one model predict differently")
        _require(_same(before, self._outputs(first)), "a load predicts differently after another one was used")

    def test_predict_changes_nothing(self) -> None:
        """Neither its input nor what an earlier call returned: outputs are kept while others are computed."""
        predictor = self.prepare().load()
        batches = predictor.batches(self.X, self.batch_sizes[0])
        with predictor.scope():
            inputs = _copied(batches[0])
            kept = predictor.predict(batches[0])
            copy = _copied(kept)
            predictor.predict(batches[-1])
            _require(_same(kept, copy), "a call changed what an earlier call had returned: return a copy of the buffer")
            _require(_same(predictor.predict(batches[0]), copy), "the same batch gives other outputs the second time")
            _require(_same(batches[0], inputs), "predict changed its input")

    def test_its_scope_can_be_entered_again(self) -> None:
        """Within itself, and after it was left."""
        predictor = self.prepare().load()
        batch = predictor.batches(self.X, self.batch_sizes[0])[0]
        with predictor.scope(), predictor.scope():
            inner = predictor.predict(batch)
        with predictor.scope():
            _require(_same(inner, predictor.predict(batch)), "outputs differ within a scope of a scope")

    def test_no_more_threads_compute_than_were_asked_for(self) -> None:
        """By the CPU time of each thread; more threads than were asked for make every figure of CPU time wrong."""
        predictor = self.prepare(threads=1).load()
        batch = predictor.batches(self.X, max(self.batch_sizes))[0]
        with predictor.scope():
            predictor.predict(batch)
            shares = shares_of_threads(lambda: predictor.predict(batch))
        if not shares:
            raise SkipTest("this system does not tell the CPU time of each thread")
        busy = [share for share in shares if share >= _LEAST_SHARE]
        shown = ", ".join(show_share(share) for share in busy)
        _require(len(busy) <= 1, f"{len(busy)} threads compute where 1 was asked for ({shown} of the CPU time)")

    def test_what_has_no_form_is_a_skip_with_its_cause(self) -> None:
        """`ScenarioUnavailable` says why."""
        if self.model_without_form is None:
            raise SkipTest("this test class gives no model_without_form")
        factory = type(self).factory
        error = _require_refusal(
            "the model without a form",
            ScenarioUnavailable,
            lambda: factory(self.model_without_form, X=self.X, X_calibration=self.X_calibration),
        )
        _require(bool(str(error).strip()), "ScenarioUnavailable says no cause: its text is the reason of the skip")

    def test_what_is_no_model_is_a_mistake(self) -> None:
        """A skip would hide it."""
        factory = type(self).factory
        _require_refusal("the wrong model", UsageProblem, lambda: factory(self.wrong_model, X=self.X))

    def test_a_fresh_process_needs_its_imports_alone(self, request: Any) -> None:
        """`imports` are what `load` takes: otherwise importing would count as loading, and as memory of the model."""
        if os.environ.get(_FRESH):
            self.check_imports()
            return
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", request.node.nodeid]
        done = subprocess.run(  # noqa: S603 - this interpreter on this very test
            command,
            cwd=request.config.rootpath,
            env={**os.environ, _FRESH: "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        _require(done.returncode == 0, f"in a fresh process:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")

    def check_imports(self) -> None:
        """Load and call the model in this process, and refuse what is imported only then."""
        scenario = self.prepare()
        for module in scenario.imports:
            importlib.import_module(module)
        known = {name.partition(".")[0] for name in sys.modules}
        predictor = scenario.load()
        self._outputs(predictor)
        late = {name.partition(".")[0] for name in sys.modules} - known - set(sys.stdlib_module_names)
        _require(not late, f"load or predict imports {', '.join(sorted(late))}: name what it needs in `imports`")

    def _outputs(self, predictor: Predictor) -> list[Any]:
        with predictor.scope():
            return [_copied(predictor.predict(one)) for one in predictor.batches(self.X, max(self.batch_sizes))]


def _check_batches(predictor: Predictor, X: Any, size: int) -> None:
    n = _count(X)
    batches = predictor.batches(X, size)
    starts = range(0, n, size)
    _require(len(batches) == len(starts), f"{len(batches)} batches of {size} rows of {n}: {len(starts)} are needed")
    outputs = [_copied(predictor.predict(batch)) for batch in batches]
    alone = [_copied(predictor.predict(predictor.batches(_rows(X, s, s + size), size)[0])) for s in starts]
    for start, together, single in zip(starts, outputs, alone, strict=True):
        _require(_same(together, single), f"the batch of {size} rows from row {start} on gives what other rows give")
    seen = len(outputs) == 1 or not all(_same(outputs[0], other) for other in outputs[1:])
    _require(seen, "all batches give the same outputs, so that their order is not seen: give rows that differ")


def _require(condition: bool, sentence: str) -> None:  # noqa: FBT001 - as of an assert statement
    if not condition:
        raise AssertionError(sentence)


def _require_refusal(given: str, kinds: Kinds, call: Callable[[], object]) -> HwperfError:
    """Return the error by which `given` is refused."""
    wanted = " or ".join(one.__name__ for one in (kinds if isinstance(kinds, tuple) else (kinds,)))
    try:
        call()
    except kinds as error:
        refusal: HwperfError = error
        return refusal
    except Exception as error:
        raise AssertionError(f"{given} raises {type(error).__name__} ({error}) where {wanted} is needed") from error
    raise AssertionError(f"{given} is taken, where {wanted} is needed")


def _count(X: Any) -> int:
    return len(next(iter(X.values()))) if isinstance(X, Mapping) else len(X)


def _rows(X: Any, start: int, stop: int) -> Any:
    if isinstance(X, Mapping):
        return {name: values[start:stop] for name, values in X.items()}
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


def _copied(value: Any) -> Any:
    """Copy an output or a batch, whatever it consists of, as arrays."""
    import numpy as np

    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(part) for part in value]
    return np.asarray(value).copy()  # a tensor warns where it is asked for a copy


def _same(one: Any, other: Any) -> bool:
    import numpy as np

    one, other = _copied(one), _copied(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
