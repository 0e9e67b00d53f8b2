"""The one table of metrics: what each is, how it is taken, judged, compared and shown.

To add a metric, add a row here and a meter that takes it; all other code reads the row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

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
    unit: str = "1"  # base unit: "s", "1/s", "B", "J", "g" or "1"
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
    def in_processes(self) -> bool:
        """Whether each value is a fresh process."""
        return self.taken in ("memory", "cold")

    @property
    def goes_with_calls(self) -> bool:
        """Whether what takes the time of calls moves it too, as their CPU time and the items that they return."""
        return self.in_turns in ("seconds", "rate", "CPU seconds", "part")

    def is_profiled(self, statistic: str) -> bool:
        """Whether a profile, which shows calls on average, explains this statistic of it."""
        return self.is_of_calls and statistic in ("p50", "mean")

    def called(self, statistic: str) -> str:
        """Name one statistic: `latency p95`, but `throughput` where only one is shown."""
        return self.name if self.statistics == (statistic,) else f"{self.name} {statistic}"


MEDIAN_LATENCY = ("latency", "p50")  # by which scenarios are ranked, and which a rehearsal takes
ACCURACY = "accuracy"  # of predictions against labels; the others of examples are against a reference
WORST_CLASS, BALANCED_ACCURACY = "accuracy_worst_class", "balanced_accuracy"
MEMORY_PRESSURE = "memory_pressure_index"
BOARD_MEMORY, BOARD_UTILISATION = "gpu_memory", "gpu_utilisation"
ENERGY, BOARD_ENERGY = "energy", "gpu_energy"  # of the processors and of boards: together the energy of a call


def _milliseconds(name: str, statistics: tuple[str, ...]) -> tuple[BudgetKeyword, ...]:
    """Return a budget in milliseconds for each statistic of a metric: `latency_p95_ms`."""
    return tuple(BudgetKeyword(keyword=f"{name}_{one}_ms", statistic=one, factor=1e-3) for one in statistics)


_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max", "iqr")  # the last: between the quartiles
_SCENARIO = "it needs a scenario: hwperf(scenario)"
_BATCHES = "it needs a scenario or batch_size="
_LABELS = "give y_true=, or a y in hwperf_data"
_GPU = "it needs what runs on an NVIDIA GPU, such as torch_cuda or onnx_cuda"
_STREAMS = "it needs a callable that returns a generator or an async generator"
_ITEM_TIMES = ("mean", "p50", "p90", "p95", "p99", "max")

_windows = partial(Metric, taken="windows", statistics=("mean",))
_NO_PREDICTIONS = "profiles show time and memory, and no predictions"
_examples = partial(
    Metric, exact=True, taken="examples", binary=True, statistics=("mean",), unexplained=_NO_PREDICTIONS
)
_of_classes = partial(
    Metric,
    better="higher",
    taken="figures",
    statistics=("mean",),
    made_of=(ACCURACY,),
    unexplained=_NO_PREDICTIONS,
    remedy=_LABELS,
)
_items = partial(
    Metric,
    unit="s",
    better="lower",
    taken="parts",
    in_turns="part",
    statistics=_ITEM_TIMES,
    shown=("p50", "p95"),
    margins=(DefaultMargin(statistic="p50", size=0.02),),
    remedy=_STREAMS,
)
_stage = partial(
    Metric, title="time of a stage of a call", unit="s", better="lower", taken="parts", statistics=("p50",)
)
_cold = partial(
    Metric,
    unit="s",
    better="lower",
    taken="cold",
    unexplained="profiles show warm calls, and no imports, loads or first calls",
)
_memory = partial(Metric, unit="B", better="lower", exact=True, taken="memory", grows_with_batch=True)
_session = partial(
    Metric,
    unit="B",
    better="lower",
    exact=True,
    taken="session",
    grows_with_batch=True,
    unexplained="a profile of memory shows the process, and not the runtime's own allocator",
)

_ROWS = (
    Metric(
        name="latency",
        title="time of a call",
        unit="s",
        better="lower",
        taken="calls",
        in_turns="seconds",
        statistics=_LATENCIES,
        shown=("p50", "p95"),
        budgets=_milliseconds("latency", _LATENCIES),
        # One statistic is enough, for the others share the same calls; a maximum of another number of calls is
        # another quantity, and has none.
        margins=(
            DefaultMargin(statistic="mean", size=0.02),
            DefaultMargin(statistic="p50", size=0.02, always=True),
            DefaultMargin(statistic="p90", size=0.05),
            DefaultMargin(statistic="p95", size=0.10),
            DefaultMargin(statistic="p99", size=0.20),
            DefaultMargin(statistic="p99_9", size=0.20),
            DefaultMargin(statistic="iqr", size=0.10),
        ),
        grows_with_batch=True,
        between_models=True,
    ),
    Metric(
        name="first_call",
        title="time of the first call, in the measuring process",
        unit="s",
        better="lower",
        taken="calls",
    ),
    _items(
        name="first_item",
        title="time to the first item of a stream, from the beginning of its call",
        budgets=_milliseconds("first_item", _ITEM_TIMES),
    ),
    _items(
        name="item", title="time from an item of a stream to the next one", budgets=_milliseconds("item", _ITEM_TIMES)
    ),
    _windows(
        name="item_throughput",
        title="items of streams completed per second",
        unit="1/s",
        better="higher",
        shown=("mean",),
        budgets=(BudgetKeyword(keyword="throughput_min_ips", statistic="mean", factor=1.0),),
        remedy=_STREAMS,
    ),
    Metric(
        name="latency_per_length",
        title="time of a call over the length of its rows, where they differ: characters of texts, elements of lists",
        unit="s",
        better="lower",
        taken="parts",
        shown=("p50",),
        remedy="it needs batch_size= and rows of varying length, such as texts",
    ),
    _cold(
        name="cold_start",
        title="imports, fixtures, load and first call in a fresh process",
        budgets=(BudgetKeyword(keyword="cold_start_ms", statistic="p50", factor=1e-3),),
        margins=(DefaultMargin(statistic="p50", size=0.10),),
    ),
    _cold(name="cold_import", title="third-party imports in a fresh process"),
    _cold(name="cold_own_import", title="imports of the code under test in a fresh process"),
    _cold(name="cold_fixtures", title="fixtures, and the test's body up to the call, in a fresh process"),
    _cold(name="cold_load", title="load of the model in a fresh process"),
    _cold(name="cold_first_call", title="first call in a fresh process"),
    _cold(name="cold_warm_call", title="call after the first in a fresh process"),
    _windows(
        name="throughput",
        title="calls completed per second",
        unit="1/s",
        better="higher",
        in_turns="rate",
        shown=("mean",),
        budgets=(BudgetKeyword(keyword="throughput_min_qps", statistic="mean", factor=1.0),),
        margins=(DefaultMargin(statistic="mean", size=0.02),),
        reciprocal="latency",
    ),
    _windows(
        name="sample_throughput",
        title="rows completed per second",
        unit="1/s",
        better="higher",
        budgets=(BudgetKeyword(keyword="throughput_min_sps", statistic="mean", factor=1.0),),
        remedy=_BATCHES,
    ),
    _windows(
        name="goodput",
        title="calls of a load per second that were completed within the latency asked for",
        unit="1/s",
        better="higher",
        spread="second",
        shown=("mean",),
        budgets=(BudgetKeyword(keyword="goodput_min_qps", statistic="mean", factor=1.0),),
        remedy="it needs a load: @pytest.mark.hwload(...)",
    ),
    _examples(
        name=ACCURACY,
        title="share of examples that are right",
        better="higher",
        shown=("mean",),
        budgets=(BudgetKeyword(keyword="accuracy_min", statistic="mean", factor=1.0, share=True),),
        margins=(DefaultMargin(statistic="mean", size=0.0, scale="absolute", always=True),),
        between_models=True,
        remedy=_LABELS,
    ),
    _of_classes(
        name=WORST_CLASS,
        title="share of the examples of a class that are right, of the class with the smallest",
        budgets=(BudgetKeyword(keyword="accuracy_worst_class_min", statistic="mean", factor=1.0, share=True),),
    ),
    _of_classes(
        name=BALANCED_ACCURACY,
        title="mean over all classes of the share of their examples that are right",
        budgets=(BudgetKeyword(keyword="balanced_accuracy_min", statistic="mean", factor=1.0, share=True),),
    ),
    _examples(
        name="flip_rate",
        title="share of examples with another label than in the reference scenario",
        better="lower",
        budgets=(BudgetKeyword(keyword="flip_rate_max", statistic="mean", factor=1.0, share=True),),
        margins=(DefaultMargin(statistic="mean", size=0.0, scale="absolute"),),
        remedy=_SCENARIO,
    ),
    Metric(
        name="probability_diff",
        title="largest difference of a row's probabilities from those of the reference scenario",
        better="lower",
        exact=True,
        taken="examples",
        statistics=("max", "mean"),
        unexplained=_NO_PREDICTIONS,
        budgets=(
            BudgetKeyword(keyword="probability_diff_max", statistic="max", factor=1.0, share=True),
            BudgetKeyword(keyword="probability_diff_mean", statistic="mean", factor=1.0, share=True),
        ),
        remedy=_SCENARIO,
    ),
    _memory(
        name="memory",
        title="peak of the test in a fresh process, above its third-party imports",
        shown=("p50",),
        budgets=(BudgetKeyword(keyword="memory_max_mb", statistic="p50", factor=1e6),),
        margins=(DefaultMargin(statistic="p50", size=0.01, floor=1e6, always=True),),
        has_sites=True,
    ),
    _memory(name="memory_import", title="peak of the imports of the code under test", shown=("p50",)),
    _memory(name="memory_fixtures", title="peak of fixtures, and of the test's body up to the call", shown=("p50",)),
    _memory(
        name="memory_call",
        title="peak of load and calls, above what is held before them",
        shown=("p50",),
        budgets=(BudgetKeyword(keyword="memory_call_max_mb", statistic="p50", factor=1e6),),
        margins=(DefaultMargin(statistic="p50", size=0.01, floor=1e6),),
        has_sites=True,
    ),
    Metric(
        name=MEMORY_PRESSURE,
        title="peak memory in MB over the rows completed per second; without rows, over the calls",
        better="lower",
        taken="figures",
        made_of=("memory", "throughput"),
        budgets=(BudgetKeyword(keyword="memory_pressure_max", statistic="p50", factor=1.0),),
        unexplained="it is made of memory and throughput",
        remedy="it needs memory and calls in a row: measure memory with a limit on either",
    ),
    _memory(name="memory_first_call", title="peak of load and first call"),
    _memory(name="memory_steady", title="peak from the second call on"),
    _memory(name="memory_retained", title="memory still held after the calls"),
    _memory(
        name="memory_leak",
        title="growth of memory per call, after warm-up",
        budgets=(BudgetKeyword(keyword="memory_leak_max_kb", statistic="p50", factor=1e3),),
    ),
    _memory(
        name=BOARD_MEMORY,
        title="peak on GPUs above what is held before the load, in a fresh process",
        budgets=(BudgetKeyword(keyword="gpu_memory_max_mb", statistic="p50", factor=1e6),),
        margins=(DefaultMargin(statistic="p50", size=0.01, floor=1e6),),
        of_gpu=True,
        unexplained="a profile of memory shows the process, and not its GPUs",
        remedy=_GPU,
    ),
    _session(
        name="arena_in_use",
        title="peak in use in the runtime's own allocator",
        margins=(DefaultMargin(statistic="p50", size=0.01),),
    ),
    _session(
        name="arena_held",
        title="peak held by the runtime's own allocator",
        margins=(DefaultMargin(statistic="p50", size=0.01),),
    ),
    Metric(
        name="model_size",
        title="size of the serialised model",
        unexplained="profiles show calls, and no files",
        unit="B",
        better="lower",
        exact=True,
        taken="file",
        budgets=(BudgetKeyword(keyword="model_size_max_mb", statistic="p50", factor=1e6),),
        margins=(DefaultMargin(statistic="p50", size=0.05, always=True),),
        between_models=True,
        remedy=_SCENARIO,
    ),
    _windows(
        name="cpu_time",
        title="CPU time of a call, threads and children included",
        unit="s",
        better="lower",
        in_turns="CPU seconds",
        budgets=(BudgetKeyword(keyword="cpu_time_max_ms", statistic="mean", factor=1e-3),),
        margins=(DefaultMargin(statistic="mean", size=0.05),),
        grows_with_batch=True,
        between_models=True,
    ),
    _windows(
        name="cpu_utilisation",
        title="share of the allotted cores",
        better="lower",
        counter="cpu_time",
        spread="core second",
        budgets=(BudgetKeyword(keyword="cpu_max_percent", statistic="mean", factor=1e-2),),
    ),
    _windows(
        name=BOARD_UTILISATION,
        title="share of time in which a kernel ran on the GPUs in use",
        better="lower",
        spread="nothing",
        budgets=(BudgetKeyword(keyword="gpu_max_percent", statistic="mean", factor=1e-2),),
        remedy=_GPU,
    ),
    Metric(
        name="instructions",
        title="instructions of a call in user space, threads included: a second opinion beside the times",
        better="lower",
        exact=True,
        taken="counts",
        shown=("p50",),
        budgets=(BudgetKeyword(keyword="instructions_max", statistic="p50", factor=1.0),),
        margins=(DefaultMargin(statistic="p50", size=0.01),),
        remedy="count them with --hwperf-instructions=perf or callgrind",
    ),
    _windows(
        name=ENERGY,
        title="energy of a row; without rows, of a call",
        unexplained="profiles show time, and no energy",
        unit="J",
        better="lower",
        in_turns="window",
        spread="row",
        budgets=(BudgetKeyword(keyword="energy_budget_mj", statistic="mean", factor=1e-3),),
        margins=(DefaultMargin(statistic="mean", size=0.05, always=True),),
    ),
    _windows(
        name="energy_per_call", title="energy of a call of several rows", unit="J", better="lower", counter=ENERGY
    ),
    _windows(name="energy_net", title="energy of a row above the idle machine", unit="J", better="lower", signed=True),
    _windows(name=BOARD_ENERGY, title="energy of a row in the boards in use", unit="J", better="lower", spread="row"),
    _windows(
        name="carbon_operational", title="carbon of the energy used, as CO2", unit="g", better="lower", shown=("mean",)
    ),
    _windows(
        name="carbon_embodied", title="carbon of making the machine, as CO2", unit="g", better="lower", shown=("mean",)
    ),
)
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ROWS}

# Every statistic that any metric shows, in the order of reports.
STATISTICS = tuple(dict.fromkeys(statistic for metric in METRICS.values() for statistic in metric.statistics))


def metric_of(name: str, better: Better = "lower") -> Metric:
    """Return the known metric `name`, that of a stage, or one of the user's own of that name: unit 1, not exact."""
    known = METRICS.get(name)
    return known or (_stage(name=name) if is_stage(name) else Metric(name=name, better=better))


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
    """Whether a metric is that of a stage."""
    return metric.startswith(_STAGE)


def taken_by(*ways: Taken) -> tuple[str, ...]:
    """Return the names of the metrics that are taken in one of these ways, in the order of the table."""
    return tuple(name for name, metric in METRICS.items() if metric.taken in ways)
