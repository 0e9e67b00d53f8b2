"""Keywords of the markers, option values and ini lines as records; errors show what is allowed."""

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeVar, get_args
from urllib.parse import urlsplit

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.metrics import METRICS, BudgetKeyword, Metric, Scale
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.structs import LARGEST, Count, Record, Size
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Budget, Margin

T = TypeVar("T")
# Keywords of `hwbudget`, each with what it limits, and of `hwregression`, each with its usual margin.
BUDGET_KEYWORDS: Mapping[str, tuple[Metric, BudgetKeyword]] = {
    budget.keyword: (metric, budget) for metric in METRICS.values() for budget in metric.budgets
}
_MARGINS = {
    re.sub("[ .]", "_", metric.called(one.statistic)): (
        Margin(metric=metric.name, statistic=one.statistic, size=one.size, scale=one.scale, floor=one.floor),
        one.always,
    )
    for metric in METRICS.values()
    for one in metric.margins
}
DEFAULT_MARGINS: Mapping[str, Margin] = {keyword: margin for keyword, (margin, _) in _MARGINS.items()}
# What is compared wherever it was measured; all others are compared where they are named.
ALWAYS_COMPARED: tuple[Margin, ...] = tuple(margin for margin, always in _MARGINS.values() if always)
MODELS_COMPARED: tuple[Margin, ...] = tuple(m for m in ALWAYS_COMPARED if METRICS[m.metric].between_models)
RECORDED_MARGIN = 0.02  # relative margin of the user's own metrics

_FEW = 8  # names that are listed whatever was typed
_MARGIN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|pp)\s*")


def nearest_or_all(word: str, allowed: Iterable[str]) -> str:
    """Return the hint of `nearest`, and all names that are allowed unless they are many and one of them is near."""
    names = list(allowed)
    hint = nearest(word, names)
    return hint if hint and len(names) > _FEW else f"{hint} Allowed: {', '.join(names)}"


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return a hint ` Did you mean 'x'?` with a space in front, or nothing when no allowed word is near."""
    matches = difflib.get_close_matches(word, list(allowed), n=_FEW)
    swapped = [one for one in matches if sorted(one) == sorted(word)]  # letters are swapped more often than wrong
    return f" Did you mean {(swapped or matches)[0]!r}?" if matches else ""


def parse_budgets(keywords: Mapping[str, object]) -> tuple[Budget, ...]:
    return _parsed("hwbudget", keywords, BUDGET_KEYWORDS, _budget_for)


def parse_margins(keywords: Mapping[str, object]) -> tuple[Margin, ...]:
    return _parsed("hwregression", keywords, DEFAULT_MARGINS, _margin_for)


def parse_assignments(lines: Iterable[str], allowed: Iterable[str]) -> dict[str, str]:
    """Split lines `keyword=value` of an ini list or a repeated option."""
    found = {}
    for line in lines:
        keyword, equals, value = (part.strip() for part in line.partition("="))
        if not (keyword and equals and value):
            raise UsageProblem(f"{line!r} is not of the form KEYWORD=VALUE. Allowed keywords: {', '.join(allowed)}")
        found[keyword] = value
    return found


def parse_budget_lines(lines: Iterable[str]) -> tuple[Budget, ...]:
    """Turn ini lines `latency_p95_ms=100` into default budgets."""
    keywords: dict[str, object] = {}
    for keyword, text in parse_assignments(lines, BUDGET_KEYWORDS).items():
        try:
            keywords[keyword] = float(text)
        except ValueError:
            keywords[keyword] = text
    found = _parsed("", keywords, BUDGET_KEYWORDS, _budget_for)
    return tuple(replace(budget, default=True) for budget in found)


def parse_margin_lines(lines: Iterable[str]) -> tuple[Margin, ...]:
    """Turn option values `latency_p95=15%` into margins; a bare `3%` means `latency_p50=3%`."""
    named = (line if "=" in line else f"latency_p50={line}" for line in lines)
    return _parsed("", parse_assignments(named, DEFAULT_MARGINS), DEFAULT_MARGINS, _margin_for)


def parse_size(text: object, scale: Scale) -> float:
    """Turn `2%` (relative) or `0.5pp` (absolute) into 0.02 or 0.005."""
    form = "points of the metric, such as '0.5pp'" if scale == "absolute" else "a percentage, such as '2%'"
    match = _MARGIN.fullmatch(text) if isinstance(text, str) else None
    if match is None or (match[2] == "pp") != (scale == "absolute") or float(match[1]) > LARGEST:
        raise UsageProblem(f"a margin is {form}")
    return float(match[1]) / 100


def closest(layers: Iterable[tuple[Budget, ...]]) -> tuple[Budget, ...]:
    """Merge layers of budgets, farthest first: per keyword the closest one wins."""
    merged = {budget.keyword: budget for layer in layers for budget in layer}
    return tuple(merged.values())


def closest_margins(layers: Iterable[tuple[Margin, ...]]) -> tuple[Margin, ...]:
    """Merge layers of margins over the defaults that are always compared, farthest first."""
    merged = {margin.key: margin for layer in (ALWAYS_COMPARED, *layers) for margin in layer}
    return tuple(merged.values())


def _budget_for(keyword: str, limit: object) -> Budget:
    metric, budget = BUDGET_KEYWORDS[keyword]
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not abs(limit) <= LARGEST:
        raise UsageProblem(f"a limit is a finite number, such as 100 or 0.85, and at most {LARGEST:g}")
    if limit < 0:
        raise UsageProblem("a limit is never negative")
    if budget.share and limit > 1:
        raise UsageProblem("this limit is a share between 0 and 1, such as 0.85 for 85 %")
    return Budget(keyword=keyword, metric=metric.name, statistic=budget.statistic, limit=limit * budget.factor)


def _parsed(
    marker: str, keywords: Mapping[str, object], allowed: Collection[str], parse: Callable[[str, object], T]
) -> tuple[T, ...]:
    """Parse every keyword of a marker, or of lines where its name is ""; report all problems together."""
    problems, found = list[str](), list[T]()
    for keyword, value in keywords.items():
        if keyword not in allowed:
            hint = nearest_or_all(keyword, allowed)
            problems.append(f"{_as_typed(marker, keyword, value)}: unknown keyword {keyword!r}.{hint}")
            continue
        try:
            found.append(parse(keyword, value))
        except UsageProblem as problem:
            problems.append(f"{_as_typed(marker, keyword, value)}: {problem}")
    if problems:
        raise UsageProblem("\n".join(problems))
    return tuple(found)


def _as_typed(marker: str, keyword: str, value: object) -> str:
    return f"{marker}({keyword}={value!r})" if marker else f"{keyword}={value}"


def _margin_for(keyword: str, size: object) -> Margin:
    default = DEFAULT_MARGINS[keyword]
    parsed = parse_size(size, default.scale)
    if default.scale == "absolute" and parsed >= 1:
        raise UsageProblem("a margin of 100 points or more never fails: give fewer, such as '0.5pp'")
    return replace(default, size=parsed)


BATCH = "batch_size"
COUNTED = (BATCH, "threads")  # swept names whose values are whole numbers from 1 on
Swept = int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep measures, and what its points have to keep."""

    axes: Mapping[str, tuple[Swept, ...]]  # swept name → its values
    limits: tuple[Budget, ...] = ()  # that choose among the points and fail none
    stop: bool = True  # larger batches than one that misses a limit are skipped
    serving_batch: int = 0  # rows that are served together, 0 where that is not declared
    rate: float | None = None  # rows that arrive per second

    def points(self) -> list[dict[str, Swept]]:
        """Return every combination of the values; the last name varies fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


# Keyword → field of the plan, its type, what is one, and what to give.
_OF_PLANS: Mapping[str, tuple[str, Callable[[Any], object], Callable[[object], bool], str]] = {
    "stop": ("stop", bool, lambda value: isinstance(value, bool), "True or False"),
    "serving_batch": ("serving_batch", int, _is_count, "the rows that are served together: a whole number from 1 on"),
    "rate_sps": ("rate", float, _is_rate, "the rows that arrive per second: a number above 0"),
}


def parse_sweep(keywords: Mapping[str, object]) -> SweepPlan:
    """Turn the keywords of `hwsweep` into a plan: a list is swept, a keyword of `hwbudget` is a limit."""
    axes, limits, own = dict[str, Any](), dict[str, object](), dict[str, Any]()
    problems = list[str]()
    for name, value in keywords.items():
        try:
            if name in _OF_PLANS:
                field, made, is_meant, what = _OF_PLANS[name]
                if is_meant(value):
                    own[field] = made(value)
                else:
                    problems.append(f"hwsweep({name}={value!r}): give {what}")
            elif name in BUDGET_KEYWORDS:
                limits[name] = value
            else:
                axes[name] = _axis(name, value)
        except UsageProblem as problem:
            problems.append(f"hwsweep({name}={value!r}): {problem}")
    try:
        budgets = parse_budgets(limits)
    except UsageProblem as problem:
        problems.extend(line.replace("hwbudget(", "hwsweep(", 1) for line in str(problem).splitlines())
    if not axes and not problems:
        problems.append("hwsweep(): give at least one name with its values, such as hwsweep(batch_size=[1, 8, 32])")
    if problems:
        raise UsageProblem("\n".join(problems))
    return SweepPlan(axes=axes, limits=budgets, **own)


def _axis(name: str, values: object) -> tuple[Swept, ...]:
    if not isinstance(values, list | tuple | range):
        hint = nearest(name, [*BUDGET_KEYWORDS, *_OF_PLANS])
        raise UsageProblem(f"a swept name takes a list of values, such as [1, 8, 32], and this is no limit.{hint}")
    for value in values:
        if name in COUNTED and not _is_count(value):
            raise UsageProblem(f"{value!r} is no whole number from 1 on")
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise UsageProblem(
                f"{value!r} is neither a number nor a text; sweep a name for it and look it up in the test"
            )
        if not isinstance(value, str) and not abs(value) <= LARGEST:  # NaN fails too
            raise UsageProblem(f"{value!r} is no finite number")
    if not values or len({*map(str, values)}) < len(values):
        raise UsageProblem("a value stands there twice" if values else "give at least one value")
    return tuple(values)


LoadKind = Literal["single_stream", "multi_stream", "concurrency", "offline", "server"]
Carriers = Literal["threads", "processes"]
TIMEOUT_S = 10.0  # of a request, unless the user gives another
LONGEST_S = 3600.0  # that a load may last
FASTEST_QPS = 1e6
MOST_IN_FLIGHT = 1024
MOST_WAITING = 256  # requests at once, unless the load says another number
_OPEN: frozenset[LoadKind] = frozenset({"offline", "server"})
KEYWORDS: Mapping[LoadKind, tuple[str, ...]] = {
    "single_stream": ("seconds",),
    "multi_stream": ("rows", "seconds"),
    "concurrency": ("in_flight", "seconds", "carriers"),
    "offline": ("calls", "in_flight", "carriers"),
    "server": ("qps", "seconds", "seed", "shape", "within_ms", "in_flight", "carriers"),
}
_ALWAYS = frozenset({"qps", "seconds", "seed", "rows", "calls"})  # said of a load, also where they are as usual


class Load(Record, frozen=True, kw_only=True):
    """How calls arrive, as the marker `hwload` says."""

    kind: LoadKind
    qps: Size = 0.0  # of server: calls a second, on average
    seconds: Size = 2.0
    seed: Count = 1  # of the schedule
    shape: Size = 1.0  # of the gamma distribution of the gaps: 1 is Poisson, more is more regular, less is in bursts
    in_flight: Count = 0  # calls at once, at most; 0: not given
    rows: Count = 8  # of a call of multi_stream
    calls: Count = 1000  # of offline, all due at once
    within_ms: Size = 0.0  # a call later than this is no good answer; 0: any is
    most: Count = 0  # calls after which it ends, as a turn of a pair does; 0: when its time is over
    carriers: Carriers = "threads"  # what makes calls that run at once
    url: str = ""  # to which requests are sent; "": calls are made in this process
    headers: Mapping[str, str] = {}  # of requests
    timeout_s: Size = 0.0  # of a call, from when it is due or, of a closed load, begins; 0: calls end by themselves

    @property
    def is_open(self) -> bool:
        return self.kind in _OPEN

    @property
    def processes(self) -> int:
        """How many processes make its calls; 0: none beside this one."""
        return self.in_flight if self.carriers == "processes" else 0

    def lasts_s(self, call_s: float) -> float:
        """Return about how many seconds it takes if a call takes `call_s`."""
        return self.calls * call_s / self.at_once(waiting=False) if self.kind == "offline" else self.seconds

    def at_once(self, *, waiting: bool) -> int:
        """Return how many calls may run at once: one unless given."""
        return self.in_flight or (MOST_WAITING if waiting and self.is_open else 1)

    @property
    def arrivals(self) -> str:
        """Say how calls arrive, and from when their latency counts."""
        return {
            "single_stream": "calls one after the other",
            "multi_stream": f"calls of {self.rows} rows one after the other",
            "concurrency": f"a closed loop of {self.in_flight}, which hides queueing",
            "offline": f"{self.calls} calls due at once",
            "server": f"from a schedule of {self.qps:g}/s",
        }[self.kind]

    def __str__(self) -> str:
        """Say what decides its times: the address is no part of it."""
        usual, told = Load(kind=self.kind), {name: getattr(self, name) for name in KEYWORDS[self.kind]}
        chosen = {name: value for name, value in told.items() if name in _ALWAYS or value != getattr(usual, name)}
        shown = (f"{name}={value}" if isinstance(value, str) else f"{name}={value:g}" for name, value in chosen.items())
        return " ".join([self.kind, *shown])


ADDRESSES = "http://127.0.0.1:8000/predict (Triton: http://127.0.0.1:8000/v2/models/MODEL/infer)"  # as examples
_NEEDED: Mapping[LoadKind, tuple[str, str]] = {  # what has no default → an example
    "server": ("qps", "the calls a second, such as qps=200"),
    "concurrency": ("in_flight", "the calls at once, such as in_flight=4"),
}
_OF_REQUESTS = ("url", "headers")
_OTHERS: Mapping[str, object] = {"carriers": "threads", "url": "", "headers": {}}  # than numbers
_RANGES: Mapping[str, tuple[float, float]] = {
    "qps": (1e-3, FASTEST_QPS),
    "seconds": (1e-3, LONGEST_S),
    "seed": (0, 2**63 - 1),
    "shape": (0.01, 1e6),
    "in_flight": (1, MOST_IN_FLIGHT),
    "rows": (1, 2**31),
    "calls": (1, 10_000_000),
    "within_ms": (1e-6, 1e9),
}
_WHOLE = frozenset({"seed", "in_flight", "rows", "calls"})


def parse_load(keywords: Mapping[str, object]) -> Load:
    kind = keywords.get("kind")
    if kind not in get_args(LoadKind):
        hint = nearest(str(kind), get_args(LoadKind))
        raise UsageProblem(f"hwload: kind={kind!r} is no load.{hint} Allowed: {', '.join(get_args(LoadKind))}")
    fields = KEYWORDS[kind]  # type: ignore[index] # one of its arguments, as was asked just now
    if unknown := sorted({*keywords} - {"kind", *_OF_REQUESTS, *fields}):
        hint, allowed = nearest(unknown[0], [*fields, *_OF_REQUESTS]), ", ".join([*fields, *_OF_REQUESTS])
        raise UsageProblem(f"hwload: {unknown[0]}= says nothing of the load {kind}.{hint} Allowed: {allowed}")
    values = {name: _number(name, value) for name, value in keywords.items() if name not in {"kind", *_OTHERS}}
    needed, example = _NEEDED.get(kind, ("", ""))  # type: ignore[call-overload] # the same
    if needed and not values.get(needed):
        raise UsageProblem(f"hwload: a {kind} load needs {needed}=, {example}")
    carriers, url, headers = (keywords.get(name, usual) for name, usual in _OTHERS.items())
    if not isinstance(url, str) or not (url == "" or is_address(url)):
        shown = shown_address(url) if isinstance(url, str) else url
        raise UsageProblem(f"hwload: url={shown!r}: give an address over HTTP, such as {ADDRESSES}")
    if carriers not in get_args(Carriers):
        hint = nearest(str(carriers), get_args(Carriers))
        raise UsageProblem(f"hwload: carriers={carriers!r}.{hint} Allowed: {', '.join(get_args(Carriers))}")
    if carriers == "processes" and (url or not values.get("in_flight")):
        why = ": requests only wait, and are tasks of one loop: leave it out"
        needs = " needs in_flight=, how many, such as in_flight=4"
        raise UsageProblem(f"hwload: carriers='processes'{why if url else needs}")
    if not isinstance(headers, Mapping) or not all(isinstance(one, str) for pair in headers.items() for one in pair):
        raise UsageProblem("hwload: headers= takes names and values as texts, such as headers={'X-Model': 'v2'}")
    return Load(kind=kind, url=url, headers=dict(headers), carriers=carriers, **values)  # type: ignore[arg-type] # the same; counts are whole, as `_number` says


def is_address(text: object) -> bool:
    if not isinstance(text, str) or re.fullmatch(r"https?://[^\s/?#]+([/?][^\s#]*)?", text) is None:
        return False
    try:
        return bool(urlsplit(text).hostname) and urlsplit(text).port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        return False


def shown_address(address: str) -> str:
    """Return an address as it may be shown and kept: neither a password nor a query, which may hold one."""
    without_password = re.sub(r"(?<=://)[^/?#]*@", "", address)
    return visible(re.sub(r"\?.+", "?…", without_password))


def _number(name: str, value: object) -> float:
    least, most = _RANGES[name]
    kinds = (int,) if name in _WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        what = "a whole number" if name in _WHOLE else "a number"
        raise UsageProblem(f"hwload: {name}={value!r}: {what} from {least:g} to {most:g}")
    return value
