"""What is measured, in one form: a scenario on a data set, or a callable with its arguments."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from time import perf_counter_ns
from typing import Any

from pytest_hwperf.measure.accuracy import call_all, check_all, check_first, copied, digest, predict_all
from pytest_hwperf.measure.inputs import Inputs, inputs_of, sizes_of
from pytest_hwperf.measure.rounds import Rounds, RoundStream, refuse_used_up
from pytest_hwperf.measure.rows import (
    arrays_of,
    batch_rows,
    count_rows,
    cut_rows,
    lengths_of,
    mix_of,
    sameness,
    shapes_of,
)
from pytest_hwperf.measure.stages import Stages
from pytest_hwperf.measure.stream import Loop, OwnLoop, Stream
from pytest_hwperf.records.contracts import CallStage, Predictions, Scenario
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.profiles import OperatorProfile, Peaks, ProfiledCalls, Roofline, Work
from pytest_hwperf.stats.causes.explanations import profile_of
from pytest_hwperf.stats.causes.roofline import roofline_of

ORIGINAL = "sklearn_fp32"  # the scenario that knows the user's own call of a fitted estimator
CALL = "model.predict(X)"  # that call, which is the reference of all scenarios of the estimator
_OWN_ROWS = 64  # of a scenario that is compared with itself: its rows must not depend on how many there are


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSubject:
    """Ready to be called."""

    function: Callable[..., Any]
    inputs: Sequence[Any] | None  # None: the function takes no argument
    scope: Callable[[], AbstractContextManager[object]] = nullcontext
    # Predicts every row and refuses NaN; returns None without labels.
    predictions: Callable[[], Predictions | None] | None = None
    labels: Callable[[Any], Any] | None = None  # of what a call returns; None: it has none
    unnamed_columns: Callable[[Any], int | None] = lambda _: None  # of which those are positions; None: they are none
    loop: Loop = field(default_factory=OwnLoop)  # on which async calls are awaited
    lengths: Sequence[int] | None = None  # of the inputs, where their rows differ in length
    chain: Sequence[CallStage] = ()  # of which the function is made, where they can be called one by one
    compiles: bool = False  # whether the first call compiles, and tells nothing about those after it
    inputs_watched: Callable[[], Inputs] | None = None  # of which it is found out whether calls change it
    rounds: Rounds | None = None  # that calls are made in, where the user says how many and what lies between them

    def answers(self, value: object) -> Any | None:
        """Return the labels that a call has given, as a copy: the next call may write into the same array."""
        return None if self.labels is None else copied(self.labels(value))

    def stream(self, *, is_timed: bool = True) -> Stream:
        """Return its calls, none made yet; of those that are timed, a change of their input is refused."""
        if self.rounds is not None:
            return RoundStream(self.function, self.rounds, self.loop)
        watched = self.inputs_watched() if self.inputs_watched is not None and is_timed else None
        return Stream(self.function, self.inputs, self.loop, self.lengths, watched=watched)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One thing to measure, before anything of it is loaded."""

    scenario: str  # "" for a plain callable
    load: Callable[[], LoadedSubject]
    load_one: Callable[[], LoadedSubject]  # the same with a single prepared input: for memory and cold starts
    rows: int | None  # samples per call
    y_true: Any | None = None
    classes: Any | None = None  # labels of the columns of a model that does not name them itself, shape (k,)
    classifies: bool = True  # whether what it predicts are labels
    imports: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    shapes: str = ""  # of the inputs of a call, "" where they are no arrays of numbers
    sizes: Callable[[], Mapping[str, str]] = dict  # name of an input → how many items it has now
    context: Mapping[str, str] = field(default_factory=dict)
    model_bytes: int | None = None
    size_source: str = ""
    reference: str = ""  # name of the scenario that predictions are compared with
    reference_predictions: Callable[[], Predictions] | None = None  # of every row; raises ScenarioUnavailable
    arena: Callable[[], Mapping[str, float]] | None = None  # peaks of the runtime's allocator; raises MeasurementError
    arena_source: str = ""
    profile: Callable[[], ProfiledCalls] | None = None  # of the runtime's operators; raises MeasurementError
    work: Callable[[], Work] | None = None  # operations and bytes of a call; raises MeasurementError
    stages: Stages | None = None  # that the call names itself
    elsewhere: bool = False  # whether calls are answered by another process, whose memory and start nobody here sees
    doubt: Statement | None = None  # about the rows that it is measured on
    clock_ns: Callable[[], int] = perf_counter_ns  # which stands still while nothing of its calls is done

    @property
    def on_gpu(self) -> bool:
        """Whether its scenario runs on a GPU, which is a condition of it then."""
        return "gpu" in self.conditions


def loader_of(subject: Subject, serve: Callable[[Stream], object] | None = None) -> Callable[[], Callable[[], object]]:
    """Return what loads the subject and gives its call, thread limits held."""

    def load() -> Callable[[], object]:
        loaded = subject.load_one()
        stream, made = loaded.stream(), count()

        def call() -> object:
            with loaded.scope():
                return serve(stream) if serve and next(made) == 1 else stream.first().value

        return call

    return load


def subject_of_scenario(
    scenario: Scenario,
    X: Any,
    y_true: Any | None,
    batch_size: int,
    reference: Callable[[], Scenario] | None = None,
    loop: Loop | None = None,
) -> Subject:
    """Measure `scenario` on the rows of `X`, `batch_size` at a time, cycling through all of them.

    Accuracy and flips are taken at the same batch size: dynamic quantisation scales by the batch.
    """
    rows = count_rows(X)
    size = _checked_batch_size(batch_size, rows)
    loop = loop or OwnLoop()
    load = partial(_load_scenario, scenario, X, size, loop)
    name, predicted = _reference(scenario, X, size, reference)
    return Subject(
        scenario=scenario.name,
        load=load,
        load_one=partial(_load_scenario, scenario, cut_rows(X, 0, size), size, loop),
        rows=size,
        y_true=y_true if scenario.classifies else None,
        classifies=scenario.classifies,
        imports=scenario.imports,
        conditions={**scenario.conditions, **_data_conditions(X, y_true, size)},
        shapes=shapes_of(X),
        context=scenario.context,
        model_bytes=scenario.model_bytes,
        size_source=scenario.size_source,
        reference=name,
        reference_predictions=predicted if scenario.classifies or scenario.answers else None,
        arena=scenario.arena and partial(scenario.arena, cut_rows(X, 0, size), size),
        arena_source=scenario.arena_source,
        profile=scenario.operators and partial(scenario.operators, cut_rows(X, 0, size), size),
        work=scenario.work and partial(scenario.work, size),
        doubt=sameness(X),
    )


def with_classes(subject: Subject, classes: Any | None) -> Subject:
    """Return the subject with the labels of the columns of its model; they are a condition, as the data is."""
    if classes is None:
        return subject
    return replace(subject, classes=classes, conditions={**subject.conditions, "classes": digest(classes)})


def reference_of(scenario: Scenario) -> str:
    """Return the name of the scenario that a scenario's labels and probabilities are compared with: maybe its own.

    For that of estimators, the model's own call takes its place.
    """
    return scenario.reference or ORIGINAL


def _reference(
    scenario: Scenario, X: Any, size: int, prepare: Callable[[], Scenario] | None
) -> tuple[str, Callable[[], Predictions] | None]:
    """Return the name of what a scenario is compared with, and what that says of all rows; "" and None of nothing."""
    if scenario.answers is not None:
        return CALL, partial(scenario.answers, X)
    if prepare is None:
        return "", None
    name = reference_of(scenario)
    rows = max(size, _OWN_ROWS) if name == scenario.name else size
    return CALL if name == ORIGINAL else name, partial(_predictions_of, prepare, X, rows)


def subject_of_callable(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    y_true: Any | None,
    batch_size: int | None,
    loop: Loop | None = None,
) -> Subject:
    """Measure `function(*args, **kwargs)`; with `batch_size` the first argument is cut into batches of rows.

    Async calls are awaited on `loop`.
    """
    loop = loop or OwnLoop()
    refuse_used_up(args, kwargs)
    if (y_true is not None or batch_size is not None) and not args:
        raise UsageProblem(
            "y_true= and batch_size= need the rows as first argument: hwperf(model.predict, X, y_true=y)"
        )
    conditions: dict[str, str] = {"load": "single_stream"}
    if y_true is None and batch_size is None:
        call = partial(function, *args, **kwargs) if args or kwargs else function
        load_one = partial(LoadedSubject, function=call, inputs=None, loop=loop)
        watched = partial(inputs_of, function, args, kwargs)
        return Subject(
            scenario="",
            load=partial(load_one, inputs_watched=watched),
            load_one=load_one,
            rows=None,
            conditions=conditions,
            sizes=lambda: sizes_of(watched()),
            doubt=sameness(args[0]) if args else None,
        )
    X, rest = args[0], args[1:]
    rows = count_rows(X)
    size = rows if batch_size is None else _checked_batch_size(batch_size, rows)
    call = _with_rest(function, rest, kwargs)
    watched = partial(inputs_of, function, args, kwargs)
    load = partial(_load_callable, call, X, size, loop, labelled=y_true is not None, watched=watched)
    return Subject(
        scenario="",
        load=load,
        load_one=partial(LoadedSubject, function=call, inputs=[cut_rows(X, 0, size)], loop=loop),
        rows=size,
        y_true=y_true,
        conditions={**conditions, **_data_conditions(X, y_true, size), **mix_of(X)},
        shapes=shapes_of(X),
        doubt=sameness(X),
    )


def subject_of_rounds(function: Callable[..., Any], rounds: Rounds, loop: Loop) -> Subject:
    """Measure `function` in rounds that the user has defined."""
    load = partial(LoadedSubject, function=function, inputs=None, rounds=rounds, loop=loop)
    return Subject(
        scenario="",
        load=load,
        load_one=load,
        rows=None,
        conditions={"load": "single_stream"},
        clock_ns=rounds.pauses.clock_ns,
    )


def _with_rest(function: Callable[..., Any], rest: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """Bind the arguments after the rows; without any, return the function itself, which costs nothing per call."""
    if not rest and not kwargs:
        return function
    return lambda rows: function(rows, *rest, **kwargs)


def _load_scenario(scenario: Scenario, X: Any, size: int, loop: Loop) -> LoadedSubject:
    predictor = scenario.load()
    batches = predictor.batches(X, size)
    return LoadedSubject(
        function=predictor.predict,
        inputs=_equal_batches(batches),
        scope=predictor.scope,
        predictions=partial(predict_all, predictor, batches, X)
        if scenario.classifies or scenario.answers
        else partial(check_all, predictor, batches),
        labels=predictor.labels if scenario.classifies else None,
        unnamed_columns=predictor.unnamed_columns,
        loop=loop,
        chain=predictor.stages,
        compiles=predictor.compiles,
    )


def _predictions_of(reference: Callable[[], Scenario], X: Any, size: int) -> Predictions:
    scenario = reference()
    if scenario.answers is not None:
        return scenario.answers(X)
    predictor = scenario.load()
    with predictor.scope():
        return predict_all(predictor, predictor.batches(X, size))


def _load_callable(
    call: Callable[..., Any], X: Any, size: int, loop: Loop, *, labelled: bool, watched: Callable[[], Inputs]
) -> LoadedSubject:
    batches = [cut_rows(X, start, start + size) for start in range(0, count_rows(X), size)]
    inputs = _equal_batches(batches)
    return LoadedSubject(
        function=call,
        inputs=inputs,
        predictions=partial(call_all if labelled else check_first, partial(_value_of, call, loop), batches),
        labels=(lambda value: value) if labelled else None,
        loop=loop,
        lengths=lengths_of(inputs) if mix_of(X) else None,
        inputs_watched=watched,
    )


def _value_of(call: Callable[..., Any], loop: Loop, batch: Any) -> Any:
    """Return the value of one call, awaited; of a stream the list of its items."""
    return Stream(call, [batch], loop).first().value


def _equal_batches(batches: Sequence[Any]) -> Sequence[Any]:
    """Leave out a shorter last batch: its calls would take another time."""
    return batches[:-1] if len(batches) > 1 and batch_rows(batches[-1]) != batch_rows(batches[0]) else batches


def _checked_batch_size(batch_size: object, rows: int) -> int:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise UsageProblem(f"batch_size={batch_size!r}: a batch size is a whole number of rows from 1 on")
    if batch_size > rows:
        raise UsageProblem(f"batch_size={batch_size}: the data has only {rows} rows; give more rows or smaller batches")
    return batch_size


def _data_conditions(X: Any, y_true: Any | None, size: int) -> dict[str, str]:
    parts = [*arrays_of(X), *([] if y_true is None else [y_true])]
    return {"load": "single_stream", "batch_size": str(size), "data": digest(*parts)}


def operator_profile(subject: Subject, latency_s: float) -> OperatorProfile:
    """Take where the time of a call goes, or say why that is not known; its median without a profiler is given."""
    reason = state("no profiler", scenario=subject.scenario)
    if subject.profile is not None:
        try:
            return profile_of(subject.profile(), latency_s)
        except MeasurementError as error:
            reason = said(error)
    return withheld_profile(reason, latency_s)


def withheld_profile(why: Statement, latency_s: float) -> OperatorProfile:
    """Return a profile that says why nothing is known."""
    return OperatorProfile(source="", calls=0, latency_s=latency_s, coverage=0.0, withheld=why)


def roofline(subject: Subject, latency_s: float, peaks: Peaks | None) -> Roofline | None:
    """Relate the counted work of a call to its median time; None where the work cannot be counted."""
    if subject.work is None:
        return None
    try:
        work = subject.work()
    except MeasurementError:
        return None
    threads = int(subject.conditions.get("threads", "1"))
    return roofline_of(work, latency_s, peaks.of(threads) if peaks else None, threads)
