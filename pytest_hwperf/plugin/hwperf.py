"""The object that the fixture `hwperf` gives: it measures, records and compares."""

import dataclasses
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hwperf.host.fakes import fakes_aside
from pytest_hwperf.measure.rounds import Rounds, refuse_used_up
from pytest_hwperf.measure.stages import Stages
from pytest_hwperf.measure.stream import Loop, OwnLoop, TestLoop
from pytest_hwperf.measure.subjects import Subject, subject_of_rounds
from pytest_hwperf.plugin.command import timeout_paused
from pytest_hwperf.plugin.failure import AtTheCall
from pytest_hwperf.plugin.kept import keeping_little
from pytest_hwperf.plugin.loads import batch_size_under, subject_of_requests
from pytest_hwperf.plugin.markers import swept_value
from pytest_hwperf.plugin.measurement import empty_run
from pytest_hwperf.plugin.scenarios import (
    ReadyScenario,
    check_recorded,
    ready_scenarios,
    refuse_more,
    rounds_after,
    subject_given,
    two_models,
)
from pytest_hwperf.plugin.session import LONGEST_LABEL, checked_label, node_of, session_of, test_of
from pytest_hwperf.plugin.whole_suites import measure_if_repeatable
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.markers import BATCH, RECORDED_MARGIN, is_address, parse_size
from pytest_hwperf.records.metrics import METRICS, Better
from pytest_hwperf.records.run import Run, Sample, replace
from pytest_hwperf.records.text import shortened
from pytest_hwperf.records.verdict import Comparison, Margin

if TYPE_CHECKING:
    from pytest_hwperf.gate.models import CompareSettings

_NO_SETUP = (
    "hwperf.awaitable(setup=…): async calls have no setup of their own; prepare within the async function and name "
    "that part with hwperf.stage('setup'), or measure a plain function"
)


class Hwperf:
    """Measures a callable or a scenario; the verdicts follow after the body of the test."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._session = session_of(item.config)
        self._test = test_of(item)
        self._stages = Stages()

    def __call__(
        self,
        target: ReadyScenario | Callable[..., Any],
        /,
        *args: Any,
        label: str = "",
        y_true: Any | None = None,
        batch_size: int | None = None,
        setup: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Run:
        """Measure a scenario, or `target(*args, **kwargs)`.

        Args:
            target: the fixture `scenario` (or one of `hwperf.scenarios(...)`), or any callable.
            args: positional arguments of the callable; the first holds the rows where labels or a batch size are given.
            label: name of the measurement, needed where a test has several.
            y_true: true labels of the rows, shape (n,): the callable's values are compared with them.
            batch_size: rows per call; a scenario's default is 1, or that of the point of a sweep, a callable's all
                rows.
            setup: called before every call and not timed, for code that changes its input; it returns None, or
                (args, kwargs) of the call. Its time and its energy belong to nothing that is measured.
            kwargs: keyword arguments of the callable.

        Returns:
            The run; `run.result` is the value of the first call.

        Raises:
            UsageProblem: invalid arguments.
            MeasurementError: empty data, NaN outputs, or predictions of another length than `y_true`.
        """
        with AtTheCall(), self._session.own_work(), fakes_aside(), closing(OwnLoop()) as loop:
            if setup is not None:
                rounds = rounds_after(setup, target, args, kwargs, y_true=y_true, batch_size=batch_size)
                return self.in_rounds(target, rounds, label)
            subject = self._prepared(loop, target, args, kwargs, label=label, y_true=y_true, batch_size=batch_size)
            return self._measured(subject, label)

    def in_rounds(self, target: Any, rounds: Rounds, label: str = "") -> Run:
        """Measure a callable in rounds, with untimed work between its calls.

        Args:
            target: what is called with the arguments that the rounds prepare.
            rounds: how many there are, and what is done before and after each.
            label: name of the measurement.

        Raises:
            UsageProblem: a second measurement of the test, or one under a load.
            MeasurementError: the first call returns NaN.
        """
        with AtTheCall(), self._session.own_work(), fakes_aside(), closing(OwnLoop()) as loop:
            self._begin(label)
            if self._test.markers.load is not None:
                raise UsageProblem(
                    "hwload: calls with setup=, or in rounds, follow each other; measure without either, or without "
                    "hwload"
                )
            subject = self._collecting(subject_of_rounds(target, rounds, loop))
            stages = self._stages if rounds.rounds is None else None  # which are timed in further calls
            return self._measured(dataclasses.replace(subject, stages=stages), label)

    async def awaitable(
        self,
        target: Callable[..., Any],
        /,
        *args: Any,
        label: str = "",
        y_true: Any | None = None,
        batch_size: int | None = None,
        setup: None = None,
        **kwargs: Any,
    ) -> Run:
        """Measure an async callable within an async test: `run = await hwperf.awaitable(predict, X)`.

        The calls are awaited on the loop that runs the test, to which its clients and fixtures belong: asyncio's,
        trio's or another one. What only measures runs in a second thread, while the loop stands still.

        Args:
            target: any callable whose value is awaited, or whose items are taken.
            args: as of `hwperf(...)`.
            label: the same.
            y_true: the same.
            batch_size: the same.
            setup: refused: nothing is done between calls that are awaited in one piece.
            kwargs: the same.

        Returns:
            The run; `run.result` is the value of the first call, of a stream the list of its items.

        Raises:
            UsageProblem: invalid arguments.
            MeasurementError: empty data, NaN outputs, or predictions of another length than `y_true`.
        """
        loop = TestLoop()
        with AtTheCall():
            if setup is not None:
                raise UsageProblem(_NO_SETUP)
            with self._session.own_work(), fakes_aside():
                subject = self._prepared(loop, target, args, kwargs, label=label, y_true=y_true, batch_size=batch_size)
            self._test.there = loop.call
            try:
                return await loop.serve(partial(self._measured, subject, label))
            finally:
                self._test.there = None

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Name a stage of the measured call: `with hwperf.stage("preprocess"): …`.

        The timed calls pass through it untimed. Afterwards up to 200 further calls are made in which stages are timed;
        each becomes a metric, `stage_preprocess`, and a footnote says where they miss the call as a whole by 10 %.

        Args:
            name: letters, digits and underscores; several contexts of one name in a call are one stage.
        """
        return self._stages.stage(name)

    def record(self, name: str, value: float, *, better: Better, margin: str | None = None) -> None:
        """Add a metric of your own to this test, for instance `hwperf.record("rouge_l", 0.41, better="higher")`.

        Args:
            name: letters, digits and underscores; not the name of a built-in metric.
            value: a finite number; shown without a unit, so put the unit into the name.
            better: "higher" or "lower".
            margin: smallest relative change that matters, as "2%" (the default).

        Raises:
            UsageProblem: a bad name, value, direction or margin, or a name recorded twice.
        """
        with AtTheCall(), fakes_aside():
            self._check_time()
            check_recorded(name, value, better)
            size = RECORDED_MARGIN if margin is None else parse_size(margin, "relative")
            run = self._test.runs.get("") or empty_run(self._item.config, node_of(self._item))
            if name in run.directions:
                raise UsageProblem(f"hwperf.record({name!r}): recorded twice in one test; give each value its own name")
            sample = Sample(metric=name, values=array("d", [value]), per="test", source="recorded")
            samples, directions = (*run.samples, sample), {**run.directions, name: better}
            self._test.runs[""] = replace(run, samples=samples, directions=directions)
            self._test.own_margins.append(Margin(metric=name, statistic="p50", size=size))

    def scenarios(  # noqa: PLR0913 - the data and how it is called, by name
        self,
        estimator: Any,
        X: Any,
        y: Any | None = None,
        *,
        names: Sequence[str] | None = None,
        X_calibration: Any | None = None,
        classes: Any | None = None,
        threads: int = 1,
    ) -> Mapping[str, ReadyScenario]:
        """Convert a model for each named runtime; nothing is measured until you give a scenario to `hwperf(...)`.

        A scenario that the model has no form for is left out, and the report lists it as skipped with its reason.

        Args:
            estimator: a fitted estimator, or another model that each of the scenarios takes.
            X: rows to predict, shape (n, features), or a mapping of input names to arrays.
            y: their labels, shape (n,), for the accuracy.
            names: registered scenarios; None takes the built-in three.
            X_calibration: rows for static INT8, none of which occurs in `X`.
            classes: the label of each column of scores, shape (k,), where the model does not name them itself.
            threads: of the runtime and of BLAS.

        Returns:
            Name → scenario, to be given to `hwperf(...)` with a label each.

        Raises:
            UsageProblem: an unknown scenario, an unfitted estimator, calibration rows that are test rows.
        """
        with AtTheCall(), fakes_aside():
            self._check_time()
            data = (X, y, X_calibration, classes)
            found, skips = ready_scenarios(self._item, estimator, data, names=names, threads=threads)
            self._test.skips.extend(skips)
            return found

    def compare(  # noqa: PLR0913 - the data and how it is called, by name
        self,
        models: Mapping[str, str],
        X: Any,
        *,
        y_true: Any | None = None,
        batch_size: int = 1,
        threads: int = 1,
        label: str = "",
        classes: Any | None = None,
    ) -> tuple[Comparison, ...]:
        """Compare two models in pairs of fresh processes, now; a significant regression fails the test.

        Args:
            models: name → ONNX file or module:function; the first is the baseline, the second the candidate.
            X: rows, shape (n, ...).
            y_true: their labels, shape (n,): accuracy is compared example by example.
            batch_size: rows per call.
            threads: of ONNX Runtime.
            label: name of the comparison, needed where a test has several.
            classes: the label of each column of scores, shape (k,), where a file does not name them itself.

        Returns:
            A comparison of the median latency, of the accuracy where there are labels, and of the size of files.

        Raises:
            UsageProblem: not two models, or one that cannot be loaded.
        """
        from pytest_hwperf.gate.models import compare_models
        from pytest_hwperf.plugin.progress import line_of, show_pairs

        with AtTheCall(), fakes_aside():
            self._check_time()
            if not self._session.judges:
                return ()
            (old_name, old), (new_name, new) = two_models(models)
            label = checked_label(label) or f"{new_name} against {old_name}"
            run = empty_run(self._item.config, node_of(self._item), label)
            self._check_compared(run.label)
            with line_of(self._item.config) as shown, timeout_paused(self._item):
                settings = self._compare_settings(run.label, partial(show_pairs, shown), batch_size, threads)
                settings = dataclasses.replace(settings, classes=classes)
                comparisons, gate = compare_models(old, new, X, y_true, settings)
            called = {"batch_size": str(batch_size), "threads": str(threads), "gc": self._session.settings.gc}
            compared = replace(run, conditions={"baseline": old, "candidate": new, **called})
            self._test.compared.append((compared, comparisons, gate))
            return comparisons

    def _check_compared(self, label: str) -> None:
        if len(label) > LONGEST_LABEL:  # the names of its models may hold any character
            raise UsageProblem(
                f"hwperf.compare: {shortened(label)} is longer than a label of {LONGEST_LABEL} characters; give label="
            )
        if label in self._test.labels:
            raise UsageProblem(f"hwperf.compare: the label {label!r} is used twice; give each its own label=")

    def _compare_settings(
        self, label: str, progress: Callable[[Any], None], batch_size: int, threads: int
    ) -> "CompareSettings":
        from pytest_hwperf.gate.models import CompareSettings

        settings, margins = self._session.settings, self._test.markers.margins
        return CompareSettings(
            margins=tuple(one for one in margins if METRICS[one.metric].between_models),
            alpha=settings.alpha,
            batch_size=batch_size,
            threads=threads,
            time_s=settings.time_limit_s,
            hold_collector=settings.gc == "off",
            measurement=Measurement(test=node_of(self._item), label=label),
            progress=progress,
        )

    def _prepared(
        self, loop: Loop, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, label: str, **data: Any
    ) -> Subject:
        self._begin(label)
        if isinstance(target, ReadyScenario) and data["batch_size"] is None:
            data["batch_size"] = swept_value(self._item, BATCH)
        load = self._test.markers.load
        data["batch_size"] = batch_size_under(load, data["batch_size"])
        if (load is not None and load.url) or is_address(target):
            refuse_more(kwargs, data["y_true"])
            subject = subject_of_requests(target, args, load, data["batch_size"] or 1, loop)
        elif load is not None and load.headers:
            raise UsageProblem("hwload: headers= are of requests: give url=, or hwperf('http://…', X)")
        else:
            if isinstance(target, partial) and not self._test.markers.by_all:  # which passes such a body unmeasured
                refuse_used_up(target.args, target.keywords)
            subject = subject_given(target, args, kwargs, loop, **data)
        how = {"load": str(load)} if load else {}
        return dataclasses.replace(self._collecting(subject, **how), stages=self._stages)

    def _collecting(self, subject: Subject, **how: str) -> Subject:
        """Add to the conditions of a subject when Python's garbage collector runs."""
        gc = self._test.gc or self._session.settings.gc
        return dataclasses.replace(subject, conditions={**subject.conditions, **how, "gc": gc})

    def _measured(self, subject: Subject, label: str) -> Run:
        measure = measure_if_repeatable if self._test.markers.by_all else self._session.measure
        with self._session.own_work(), fakes_aside():
            with keeping_little(self._item) as kept:
                run = measure(self._item, subject, label)
            if notes := kept.notes:
                samples = (replace(sample, warnings=(*sample.warnings, *notes)) for sample in run.samples)
                run = replace(run, samples=tuple(samples)).with_result(run.result)
        self._test.measured.add(label)
        self._keep(run)
        return run

    def _check_time(self) -> None:
        if self._test.is_over and not self._session.settings.disable:
            raise UsageProblem(
                f"the fixture hwperf of {self._item.nodeid} was used when that test was over, so that nothing would "
                "judge it: measure in the body of the test, or in a fixture before its yield; each test takes its own "
                "hwperf"
            )

    def _begin(self, label: object) -> None:
        self._check_time()
        if checked_label(label) in self._test.labels:
            what = f"label={label!r} is used twice" if label else "a second measurement without a label"
            raise UsageProblem(f"{what}: give each hwperf(...) of a test its own, such as label='batch 32'")
        self._stages.names.clear()  # those of an earlier measurement

    def _keep(self, run: Run) -> None:
        """Add a run to those of the test; metrics that were recorded before it under its label become part of it."""
        own = self._test.runs.get(run.label)
        if own is not None:
            samples, directions = (*run.samples, *own.samples), {**run.directions, **own.directions}
            run = replace(run, samples=samples, directions=directions)
        self._test.runs[run.label] = run
