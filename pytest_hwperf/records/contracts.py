"""What scenarios and meters are to each other: parts meet in these types without importing each other."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from pytest_hwperf.records.profiles import ProfiledCalls, Work
from pytest_hwperf.records.run import Reading

# What a meter covers: this process, the processors, boards; or nothing, where it is an estimate.
Covered = Literal["process", "processors", "boards", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStage:
    """A part of a predictor's call that can be made by itself."""

    name: str  # "preprocess", "inference", "postprocess"
    call: Callable[[Any], Any]  # takes a prepared batch, or what the stage before it has returned
    is_after: bool = False  # whether it follows the timed call, and is no part of the latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A loaded model, ready for timed calls."""

    batches: Callable[[Any, int], Sequence[Any]]  # rows and batch size → prepared inputs (the last may be shorter)
    predict: Callable[[Any], Any]  # a prepared batch → the model's outputs; this is the timed call and nothing else
    labels: Callable[[Any], Any]  # outputs of one batch → an array of labels (or of values, for a regressor)
    probabilities: Callable[[Any], Any] | None = None  # the same → shape (n, k); None where the model has none
    # The same → k, where `labels` are positions 0..k-1 of columns and nothing says what these stand for; None where
    # they are labels.
    unnamed_columns: Callable[[Any], int | None] = lambda _: None
    all_probabilities: Callable[[Any], Any] | None = None  # all rows → the same, by a call of its own
    scope: Callable[[], AbstractContextManager[object]] = nullcontext  # holds thread limits while calls are made
    stages: Sequence[CallStage] = ()  # in their order; none where the call is one piece
    compiles: bool = False  # whether the first call compiles, and tells nothing about the time of those after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What a model says of every row."""

    labels: Any  # shape (n,); of what does not classify its values
    probabilities: Any | None = None  # shape (n, k); None where it has none
    unnamed_columns: int | None = None  # of which the labels are positions; None: they are labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A model in a runtime at a precision and thread count, converted and ready to load.

    The last five fields are what only some runtimes tell; the functions among them raise `MeasurementError` with the
    reason where they cannot.
    """

    name: str  # as registered
    imports: tuple[str, ...]  # modules that a fresh process imports before it loads the model
    conditions: Mapping[str, str]  # equal in both runs of a comparison: precision, threads, spinning and the like
    # For information: model digest, executed operators, …; `warning` is shown with every timing. It holds `AS_TRAINED`
    # where nothing has changed what the model predicts.
    context: Mapping[str, str]
    model_bytes: int  # serialised size
    size_source: str  # how that size was taken: "onnx file", "joblib"
    classifies: bool  # whether `labels` are classes: accuracy and flips need that
    load: Callable[[], Predictor]  # as a fresh process would: this is timed as `cold_load`
    reference: str | None = None  # name of the scenario that it is compared with; None for the model's own call
    answers: Callable[[Any], Predictions] | None = None  # X → answers of the user's own call, if known
    # Each of these runs the model on the first rows, `batch_size` of them, in a session of its own.
    arena: Callable[[Any, int], Mapping[str, float]] | None = None  # X, batch size → peaks of the allocator: metric → B
    arena_source: str = ""  # where they are from: "onnxruntime profile"
    operators: Callable[[Any, int], ProfiledCalls] | None = None  # X, batch size → where the time of a call goes
    work: Callable[[int], Work] | None = None  # batch size → operations and bytes of a call


class ScenarioFactory(Protocol):
    """A factory for the entry-point group `pytest_hwperf.scenarios`."""

    def __call__(self, model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
        """Convert `model`; `X` shows the input's shape and verifies the conversion, and never calibrates.

        Raises:
            ScenarioUnavailable: the model has no such form; the text is the skip's reason.
        """


class Meter(Protocol):
    """A counter of a window. It keeps no state between windows, so windows may nest."""

    @property
    def metric(self) -> str:
        """Name of the counted metric: "cpu_time", "energy"."""
        ...

    @property
    def covers(self) -> Covered:
        """The covered parts of the machine; an estimate is never compared."""

    @property
    def source(self) -> str:
        """Shown with every figure, such as "rapl:package-0+dram"."""
        ...

    @property
    def shortest_window_s(self) -> float:
        """Shorter windows are refused."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why a better source was refused, and the limits of the figure."""

    def start(self) -> object:
        """Read the counter at the beginning of a window."""

    def end(self, started: Any) -> Reading:
        """Read again and return the count since `started`; a refusal carries its reason."""

    def close(self) -> None:
        """Close open files and handles."""


@runtime_checkable
class DerivedMeter(Meter, Protocol):
    """A meter whose figure follows from the CPU time of the window."""

    def derive(self, cpu_time: Reading) -> Reading:
        """Return its figure where so much CPU time was counted."""
        ...


@runtime_checkable
class CountingMeter(Meter, Protocol):
    """A meter of real counters: they move in steps, and may start again at 0."""

    @property
    def tick_s(self) -> float:
        """Time between two steps: a window is exact within one."""

    @property
    def domains(self) -> tuple[str, ...]:
        """What is added up."""

    @property
    def longest_window_s(self) -> float:
        """After which a window has to be attended."""

    def attended(self) -> AbstractContextManager[None]:
        """Keep windows whole that are longer than `longest_window_s`, or of unknown length."""
