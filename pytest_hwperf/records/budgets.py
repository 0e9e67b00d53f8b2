"""Parsers of marker keywords, option values and ini lines into budgets and margins; errors show what is allowed."""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.metrics import METRICS, BudgetKeyword, DefaultMargin, Metric, Scale
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.structs import LARGEST
from pytest_hwperf.records.verdict import Budget, Margin

T = TypeVar("T")


def _margin(metric: Metric, default: DefaultMargin) -> Margin:
    return Margin(
        metric=metric.name,
        statistic=default.statistic,
        size=default.size,
        scale=default.scale,
        floor=default.floor,
    )


# Keywords of `hwbudget`, each with what it limits, and of `hwregression`, each with its usual margin.
BUDGET_KEYWORDS: Mapping[str, tuple[Metric, BudgetKeyword]] = {
    budget.keyword: (metric, budget) for metric in METRICS.values() for budget in metric.budgets
}
DEFAULT_MARGINS: Mapping[str, Margin] = {
    metric.called(default.statistic).replace(" ", "_"): _margin(metric, default)
    for metric in METRICS.values()
    for default in metric.margins
}
# What is compared wherever it was measured; all others are compared where they are named.
ALWAYS_COMPARED: tuple[Margin, ...] = tuple(
    _margin(metric, default) for metric in METRICS.values() for default in metric.margins if default.always
)
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
    matches = difflib.get_close_matches(word, list(allowed), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


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
