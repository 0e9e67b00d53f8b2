"""The one table of metrics: what each is, how it is taken, judged, compared and shown.

To add a metric, add a row here and a meter that takes it; all other code reads the row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Better = Literal["lower", "higher"]
Scale = Literal["relative", "absolute"]

# How values are taken: one of each timed call, between two readings of a meter, by fresh processes in the role
# "memory" or "cold", of each example, of the model's file, of a separate session of the runtime, by the test itself;
# "counts": what a call counts in any process, such as instructions;
# "parts": of what a timed call consists of, the items of its stream or the rows of varying length;
# "figures": of other figures of the run, those in `made_of`.
Taken = Literal[
    "calls", "parts", "windows", "memory", "cold", "examples", "file", "session", "counts", "record", "figures"
]
# What a block of a pair's turns measures of it; "part": its median, as the side reports it; "window": nothing, so that
# the energy meter takes a window of its own.
InTurns = Literal["", "seconds", "rate", "CPU seconds", "part", "window"]
# What the total of a window is divided by: its calls, their rows, the seconds of the allotted cores, or its seconds;
# "nothing": it is a share of the window's time already.
Spread = Literal["call", "row", "core second", "second", "nothing"]

LONGEST_STAGE = 60  # characters of its name
_STAGE = "stage_"  # how the metric of a stage begins: `stage_preprocess`

NO_REMEDY = "this measurement does not give it"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetKeyword:
    """A keyword of `hwbudget`."""

    keyword: str
    statistic: str
    factor: float  # base units per unit of the keyword
    share: bool = False  # whether its limit lies between 0 and 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultMargin:
    """The margin of one statistic that holds unless the user gives another."""

    statistic: str
    size: float  # 0.02 = 2 % (relative) or 2 points (absolute)
    scale: Scale = "relative"
    floor: float = 0.0  # base units: a relative margin is never smaller than this
    always: bool = False  # whether it is compared without being named


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is measured, and what follows from that."""

    name: str
    title: str = ""  # as a person reads it
    unit: str = "1"  # base unit: "s", "1/s", "B", "J", "g", "share" (of 1) or "1"
    better: Better
    exact: bool = False  # repeats agree to the quantum, so that stored values stay valid without a rerun
    taken: Taken = "record"
    in_turns: InTurns = ""  # "": not measured in pairs
    counter: str = ""  # metric of the meter whose windows it is made of; "": a meter of its own, or none
    spread: Spread = "call"  # of what a meter counts in a window
    signed: bool = False  # whether it can be below 0, as a difference
    binary: bool = False  # whether each value is 0 or 1, so that the mean is a share of the examples
    statistics: tuple[str, ...] = ("p50",)  # shown of it, in this order
    shown: tuple[str, ...] = ()  # of these, those that are shown without a verdict
    budgets: tuple[BudgetKeyword, ...] = ()
    margins: tuple[DefaultMargin, ...] = ()
    reciprocal: str = ""  # metric that this is one over, where calls follow each other; comparing both asks twice
    between_models: bool = False  # whether it can be compared between two models
    grows_with_batch: bool = False  # whether it grows with the rows of a call
    of_gpu: bool = False  # whether it is of a GPU's memory, which no setting of this process's allocator pins
    has_sites: bool = False  # whether the lines of code that cause it can be named
    unexplained: str = "the test records it itself"  # why no profile says what moved, where neither calls nor sites do
    made_of: tuple[str, ...] = ()  # metrics whose figures it is made of
    remedy: str = NO_REMEDY  # what to do where it is unmeasured without another reason

    @property
    def is_rate(self) -> bool:
        """Whether it counts per second in windows of equal counts: the mean is then the harmonic one."""
        return self.unit == "1/s" and self.spread != "second"

    @property
    def is_of_calls(self) -> bool:
        """Whether it is the time of calls, or their number in a time: of either, a mean hides the slow ones."""
        return self.taken == "calls" or bool(self.reciprocal)

    @property
    def is_timed(self) -> bool:
        """Whether another process gives another value: accuracy is the same, and of memory several are taken."""
        return self.taken in ("calls", "parts", "windows")

    @property
    def in_processes(self) -> bool:
        return self.taken in ("memory", "cold")

    @property
    def goes_with_calls(self) -> bool:
        """Whether what takes the time of calls moves it too, as their CPU time and the items that they return."""
        return self.in_turns in ("seconds", "rate", "CPU seconds", "part")

    def is_profiled(self, statistic: str) -> bool:
        """Whether a profile, which shows calls on average, explains this statistic of it."""
        return self.is_of_calls and statistic in ("p50", "mean")

    def called(self, statistic: str) -> str:
        """Name one statistic: `latency p99.9`, but `throughput` where only one is shown."""
        return self.name if self.statistics == (statistic,) else f"{self.name} {statistic.replace('_', '.')}"


MEDIAN_LATENCY = ("latency", "p50")  # by which scenarios are ranked, and which a rehearsal takes
ACCURACY = "accuracy"  # of predictions against labels; the others of examples are against a reference
WORST_CLASS, BALANCED_ACCURACY = "accuracy_worst_class", "balanced_accuracy"
CALL_FAILURES = "call_failures"  # of fresh processes: whether calls go on to work where the first one did
MEMORY_PRESSURE = "memory_pressure_index"
BOARD_MEMORY, BOARD_UTILISATION = "gpu_memory", "gpu_utilisation"
ENERGY, BOARD_ENERGY = "energy", "gpu_energy"  # of the processors and of boards: together the energy of a call

_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max", "iqr")  # the last: between the quartiles
# One statistic is enough, for the others share the same calls; a maximum of another number of calls is another
# quantity, and has none.
_LATENCY_MARGINS = {"mean": 0.02, "p50": 0.02, "p90": 0.05, "p95": 0.10, "p99": 0.20, "p99_9": 0.20, "iqr": 0.10}
_ITEM_TIMES = ("mean", "p50", "p90", "p95", "p99", "max")
_MEAN, _MEDIAN, _BOTH = ("mean",), ("p50",), ("p50", "p95")

_SCENARIO = "it needs a scenario: hwperf(scenario)"
_BATCHES = "it needs a scenario or batch_size="
_ROWS_OF_LENGTHS = "it needs batch_size= and rows of varying length, such as texts"
_LOAD = "it needs a load: @pytest.mark.hwload(...)"
_LABELS = "give y_true=, or a y in hwperf_data"
_GPU = "it needs what runs on an NVIDIA GPU, such as torch_cuda or onnx_cuda"
_STREAMS = "it needs a callable that returns a generator or an async generator"
_MEMORY_AND_CALLS = "it needs memory and calls in a row: measure memory with a limit on either"
_COUNTERS = "count them with --hwperf-instructions=perf or callgrind"

_NO_PREDICTIONS = "profiles show time and memory, and no predictions"
_NO_IMPORTS = "profiles show warm calls, and no imports, loads or first calls"
_NO_BOARDS = "a profile of memory shows the process, and not its GPUs"
_NO_ARENA = "a profile of memory shows the process, and not the runtime's own allocator"

# What several metrics share.
_VALUE = Metric(name="", better="lower")
_TIME = replace(_VALUE, unit="s")
_CALL = replace(_TIME, taken="calls")
_PART = replace(_TIME, taken="parts")
_STAGE_TIME = replace(_PART, title="time of a stage of a call")
_ITEM = replace(_PART, in_turns="part", statistics=_ITEM_TIMES, shown=_BOTH, remedy=_STREAMS)
_COLD = replace(_TIME, taken="cold", unexplained=_NO_IMPORTS)
_WINDOW = replace(_VALUE, taken="windows", statistics=_MEAN)
_RATE = replace(_WINDOW, unit="1/s", better="higher")
_SHOWN_RATE = replace(_RATE, shown=_MEAN)
_ENERGY = replace(_WINDOW, unit="J")
_CARBON = replace(_WINDOW, unit="g", shown=_MEAN)
_SHARE = replace(_VALUE, statistics=_MEAN, unexplained=_NO_PREDICTIONS, remedy=_SCENARIO)
_EXAMPLES = replace(_SHARE, exact=True, taken="examples", binary=True)
_CLASSES = replace(_SHARE, better="higher", taken="figures", made_of=(ACCURACY,), remedy=_LABELS)
_PROCESS = replace(_VALUE, unit="B", exact=True, taken="memory", grows_with_batch=True)
_PEAK = replace(_PROCESS, shown=_MEDIAN)
_SESSION = replace(_PROCESS, taken="session", unexplained=_NO_ARENA)

# Base units per unit of a keyword, by the end of its name; else 1.
_FACTORS = {"ms": 1e-3, "mj": 1e-3, "kb": 1e3, "mb": 1e6, "percent": 1e-2}


def _row(
    shape: Metric,
    name: str,
    title: str,
    limit: str = "",
    margin: float | Mapping[str, float] | None = None,
    *,
    always: bool = False,
    **own: Any,
) -> Metric:
    """Return a metric of a shape, with fields of its `own`.

    `limit`, `margin` and `always` are of its median, else of its first statistic; a limit with `{}` is of each.
    A margin of shares is in points, and one of a fresh process's memory 1 MB at least.
    """
    metric = replace(shape, name=name, title=title, **own)
    main = "p50" if "p50" in metric.statistics else metric.statistics[0]
    limited = metric.statistics if "{}" in limit else (main,) if limit else ()
    share, factor = metric.unexplained == _NO_PREDICTIONS, _FACTORS.get(limit.rpartition("_")[2], 1.0)
    margins: Mapping[str, float] = margin if isinstance(margin, Mapping) else {} if margin is None else {main: margin}
    scale: Scale = "absolute" if share else "relative"
    floor = 1e6 if metric.taken == "memory" else 0.0
    return replace(
        metric,
        budgets=tuple(BudgetKeyword(keyword=limit.format(s), statistic=s, factor=factor, share=share) for s in limited),
        margins=tuple(
            DefaultMargin(statistic=s, size=size, scale=scale, floor=floor, always=always and s == main)
            for s, size in margins.items()
        ),
    )


# Shape, name and title; the keyword of its budget, its default margin and its own fields.
_ROWS = (
    _row(_CALL, "latency", "time of a call",
        "latency_{}_ms", _LATENCY_MARGINS, always=True, in_turns="seconds", statistics=_LATENCIES, shown=_BOTH,
        between_models=True, grows_with_batch=True),
    _row(_CALL, "first_call", "time of the first call, in the measuring process"),
    _row(_ITEM, "first_item", "time to the first item of a stream, from the beginning of its call",
        "first_item_{}_ms", 0.02),
    _row(_ITEM, "item", "time from an item of a stream to the next one", "item_{}_ms", 0.02),
    _row(_SHOWN_RATE, "item_throughput", "items of streams completed per second",
        "throughput_min_ips", remedy=_STREAMS),
    _row(_PART, "latency_per_length",
        "time of a call over the length of its rows, where they differ: characters of texts, elements of lists",
        shown=_MEDIAN, remedy=_ROWS_OF_LENGTHS),
    _row(_COLD, "cold_start", "imports, fixtures, load and first call in a fresh process", "cold_start_ms", 0.10),
    _row(_COLD, "cold_import", "third-party imports in a fresh process"),
    _row(_COLD, "cold_own_import", "imports of the code under test in a fresh process"),
    _row(_COLD, "cold_fixtures", "fixtures, and the test's body up to the call, in a fresh process"),
    _row(_COLD, "cold_load", "load of the model in a fresh process"),
    _row(_COLD, "cold_first_call", "first call in a fresh process"),
    _row(_COLD, "cold_warm_call", "call after the first in a fresh process"),
    _row(_SHOWN_RATE, "throughput", "calls completed per second",
        "throughput_min_qps", 0.02, in_turns="rate", reciprocal="latency"),
    _row(_RATE, "sample_throughput", "rows completed per second", "throughput_min_sps", remedy=_BATCHES),
    _row(_SHOWN_RATE, "goodput", "calls of a load per second within the required latency",
        "goodput_min_qps", spread="second", remedy=_LOAD),
    _row(_EXAMPLES, ACCURACY, "share of right examples",
        "accuracy_min", 0.0, always=True, better="higher", shown=_MEAN, between_models=True, remedy=_LABELS),
    _row(_CLASSES, WORST_CLASS, "smallest share of right examples in one class",
        "accuracy_worst_class_min"),
    _row(_CLASSES, BALANCED_ACCURACY, "mean over classes of their shares of right examples",
        "balanced_accuracy_min"),
    _row(_EXAMPLES, "flip_rate", "share of examples with another label than in the reference scenario",
        "flip_rate_max", 0.0),
    _row(_EXAMPLES, "probability_diff",
        "largest difference of a row's probabilities from those of the reference scenario", "probability_diff_{}",
        binary=False, statistics=("max", "mean")),
    _row(_PEAK, "memory", "peak of the test in a fresh process, above its third-party imports",
        "memory_max_mb", 0.01, always=True, has_sites=True),
    _row(_PEAK, "memory_import", "peak of the imports of the code under test"),
    _row(_PEAK, "memory_fixtures", "peak of fixtures, and of the test's body up to the call"),
    _row(_PEAK, "memory_call", "peak of load and calls, above the memory held before",
        "memory_call_max_mb", 0.01, has_sites=True),
    _row(_VALUE, MEMORY_PRESSURE, "peak memory in MB over the rows completed per second; without rows, over the calls",
        "memory_pressure_max", taken="figures", made_of=("memory", "throughput"),
        unexplained="it is made of memory and throughput", remedy=_MEMORY_AND_CALLS),
    _row(_PROCESS, "memory_first_call", "peak of load and first call"),
    _row(_PROCESS, "memory_steady", "peak from the second call on"),
    _row(_PROCESS, "memory_retained", "memory still held after the calls"),
    _row(_PROCESS, "memory_leak", "growth of memory per call, after warm-up", "memory_leak_max_kb"),
    _row(_PROCESS, BOARD_MEMORY, "peak on GPUs above the memory held before the load, in a fresh process",
        "gpu_memory_max_mb", 0.01, of_gpu=True, unexplained=_NO_BOARDS, remedy=_GPU),
    _row(_SESSION, "arena_in_use", "peak in use in the runtime's own allocator", margin=0.01),
    _row(_SESSION, "arena_held", "peak held by the runtime's own allocator", margin=0.01),
    _row(_VALUE, "model_size", "size of the serialised model",
        "model_size_max_mb", 0.05, always=True, unit="B", exact=True, taken="file", between_models=True,
        unexplained="profiles show calls, and no files", remedy=_SCENARIO),
    _row(_VALUE, CALL_FAILURES, "1 where a later call of a fresh process fails although the first one worked, else 0",
        unexplained="profiles show calls that return"),
    _row(_WINDOW, "cpu_time", "CPU time of a call, threads and children included",
        "cpu_time_max_ms", 0.05, unit="s", in_turns="CPU seconds", grows_with_batch=True, between_models=True),
    _row(_WINDOW, "cpu_utilisation", "share of the allotted cores",
        "cpu_max_percent", unit="share", counter="cpu_time", spread="core second"),
    _row(_WINDOW, BOARD_UTILISATION, "share of time in which a kernel ran on the GPUs in use",
        "gpu_max_percent", unit="share", spread="nothing", remedy=_GPU),
    _row(_VALUE, "instructions",
        "instructions of a call in user space, threads included",
        "instructions_max", 0.01, exact=True, taken="counts", shown=_MEDIAN, remedy=_COUNTERS),
    _row(_ENERGY, ENERGY, "energy of a row; without rows, of a call",
        "energy_budget_mj", 0.05, always=True, in_turns="window", spread="row",
        unexplained="profiles show time, and no energy"),
    _row(_ENERGY, "energy_per_call", "energy of a call of several rows", counter=ENERGY),
    _row(_ENERGY, "energy_net", "energy of a row above the idle machine", signed=True),
    _row(_ENERGY, BOARD_ENERGY, "energy of a row in the boards in use", spread="row"),
    _row(_CARBON, "carbon_operational", "carbon of the energy used, in CO2"),
    _row(_CARBON, "carbon_embodied", "carbon of making the machine, in CO2"),
)  # fmt: skip
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ROWS}

# Every statistic that any metric shows, in the order of reports.
STATISTICS = tuple(dict.fromkeys(statistic for metric in METRICS.values() for statistic in metric.statistics))


def metric_of(name: str, better: Better = "lower") -> Metric:
    """Return the known metric `name`, that of a stage, or one of the user's own of that name: unit 1, not exact."""
    known = METRICS.get(name)
    return known or (replace(_STAGE_TIME, name=name) if is_stage(name) else Metric(name=name, better=better))


def least_apart(metric: str) -> float:
    """Return by how much two intervals of a metric have to be apart before one is lower: relative to their ends.

    It is the first default margin of the metric, or that of the latency: an interval is about one process, and two
    processes of the same model differ by a percent.
    """
    return (METRICS[metric].margins or METRICS[MEDIAN_LATENCY[0]].margins)[0].size


def stage_metric(stage: str) -> str:
    """Return the name of the metric of one stage of a call: `stage_preprocess`."""
    return f"{_STAGE}{stage}"


def is_stage(metric: str) -> bool:
    return metric.startswith(_STAGE)


def taken_by(*ways: Taken) -> tuple[str, ...]:
    """Return the names of the metrics that are taken in one of these ways, in the order of the table."""
    return tuple(name for name, metric in METRICS.items() if metric.taken in ways)
