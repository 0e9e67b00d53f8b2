"""Plans of loads: the keywords of `hwload` read into a load; errors show what is allowed."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args
from urllib.parse import urlsplit

from pytest_hwperf.records.budgets import BUDGET_KEYWORDS, nearest, parse_budgets
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.load import FASTEST_QPS, KEYWORDS, LONGEST_S, MOST_IN_FLIGHT, Carriers, Load, LoadKind
from pytest_hwperf.records.structs import LARGEST
from pytest_hwperf.records.sweep import BATCH, Swept
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Budget

ADDRESSES = "http://127.0.0.1:8000/predict (Triton: http://127.0.0.1:8000/v2/models/MODEL/infer)"  # as examples
_NEEDED: Mapping[LoadKind, tuple[str, str]] = {  # what has no default → an example
    "server": ("qps", "the calls a second, such as qps=200"),
    "concurrency": ("in_flight", "the calls at once, such as in_flight=4"),
}
_OF_REQUESTS = ("url", "headers")
_NO_NUMBERS = frozenset({"kind", "carriers", *_OF_REQUESTS})
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
    """Turn the keywords of `hwload` into a load."""
    kind = keywords.get("kind")
    if kind not in get_args(LoadKind):
        hint = nearest(str(kind), get_args(LoadKind))
        raise UsageProblem(f"hwload: kind={kind!r} is no load.{hint} Allowed: {', '.join(get_args(LoadKind))}")
    fields = KEYWORDS[kind]  # type: ignore[index] # one of its arguments, as was asked just now
    if unknown := sorted({*keywords} - {"kind", *_OF_REQUESTS, *fields}):
        hint, allowed = nearest(unknown[0], [*fields, *_OF_REQUESTS]), ", ".join([*fields, *_OF_REQUESTS])
        raise UsageProblem(f"hwload: {unknown[0]}= says nothing of the load {kind}.{hint} Allowed: {allowed}")
    values = {name: _number(name, value) for name, value in keywords.items() if name not in _NO_NUMBERS}
    needed, example = _NEEDED.get(kind, ("", ""))  # type: ignore[call-overload] # the same
    if needed and not values.get(needed):
        raise UsageProblem(f"hwload: a {kind} load needs {needed}=, {example}")
    url = checked_address(keywords.get("url", ""))
    carriers = _checked_carriers(keywords.get("carriers", "threads"), values.get("in_flight", 0), url)
    headers = _checked_headers(keywords.get("headers", {}))
    return Load(kind=kind, url=url, headers=headers, carriers=carriers, **values)  # type: ignore[arg-type] # the same; counts are whole, as `_number` says


def _checked_carriers(carriers: object, in_flight: float, url: str) -> Carriers:
    """Return what makes calls that run at once."""
    if carriers not in get_args(Carriers):
        hint = nearest(str(carriers), get_args(Carriers))
        raise UsageProblem(f"hwload: carriers={carriers!r}.{hint} Allowed: {', '.join(get_args(Carriers))}")
    if carriers == "processes" and url:
        raise UsageProblem("hwload: carriers='processes': requests only wait, and are tasks of one loop: leave it out")
    if carriers == "processes" and not in_flight:
        raise UsageProblem("hwload: carriers='processes' needs in_flight=, how many, such as in_flight=4")
    return carriers  # type: ignore[return-value] # one of its arguments, as was asked just now


def checked_address(url: object) -> str:
    """Return the address that requests are sent to, "" for none."""
    if not isinstance(url, str) or not (url == "" or is_address(url)):
        shown = shown_address(url) if isinstance(url, str) else url
        raise UsageProblem(f"hwload: url={shown!r}: give an address over HTTP, such as {ADDRESSES}")
    return url


def _checked_headers(headers: object) -> Mapping[str, str]:
    """Return the headers of requests."""
    if not isinstance(headers, Mapping) or not all(isinstance(one, str) for pair in headers.items() for one in pair):
        raise UsageProblem("hwload: headers= takes names and values as texts, such as headers={'X-Model': 'v2'}")
    return dict(headers)


def is_address(text: object) -> bool:
    """Whether something is an address that requests can be sent to."""
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


COUNTED = (BATCH, "threads")  # swept names whose values are whole numbers from 1 on


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


def parse_sweep(keywords: Mapping[str, object]) -> SweepPlan:
    """Turn the keywords of `hwsweep` into a plan: a list is swept, a keyword of `hwbudget` is a limit."""
    axes, limits, own = dict[str, Any](), dict[str, object](), dict[str, Any]()
    problems = list[str]()
    for name, value in keywords.items():
        try:
            if name in _OPTIONS:
                own[_OPTIONS[name][0]] = _OPTIONS[name][1](value)
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
        hint = nearest(name, [*BUDGET_KEYWORDS, *_OPTIONS])
        raise UsageProblem(f"a swept name takes a list of values, such as [1, 8, 32], and this is no limit.{hint}")
    if not values:
        raise UsageProblem("give at least one value")
    for problem in _problems_of(name, values):
        raise UsageProblem(problem)
    return tuple(values)


def _problems_of(name: str, values: list[Any] | tuple[Any, ...] | range) -> Iterator[str]:
    for value in values:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name in COUNTED and not (whole and value >= 1):
            yield f"{value!r} is no whole number from 1 on"
        elif isinstance(value, bool) or not isinstance(value, int | float | str):
            yield f"{value!r} is neither a number nor a text; sweep a name for it and look it up in the test"
        elif not isinstance(value, str) and not abs(value) <= LARGEST:  # NaN fails too
            yield f"{value!r} is no finite number"
    if len({*map(str, values)}) < len(values):
        yield "a value stands there twice"


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageProblem("give True or False")
    return value


def checked_batch(value: object) -> int:
    """Return a number of rows that are served together."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageProblem("give the rows that are served together: a whole number from 1 on")
    return value


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageProblem("give the rows that arrive per second: a number above 0")
    return float(value)


# Keyword → field of the plan, and what reads its value.
_OPTIONS: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "stop": ("stop", _truth),
    "serving_batch": ("serving_batch", checked_batch),
    "rate_sps": ("rate", _rate),
}
