"""How numbers are written: display units, units of exports, and the facts of messages. MB is 10^6 bytes."""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from string import Formatter

from pytest_hwperf.records.structs import LARGEST

_TOO_SHORT = "< clock step"
_WHOLE_FROM = 10  # % or pp: from here on a short change has no decimals

# For each base unit: (factor, name), largest first; the first factor that the value reaches is used.
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "J": ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ")),
    "g": ((1.0, "g"), (1e-3, "mg"), (1e-6, "µg"), (1e-9, "ng")),
    "1/s": ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    "share": ((0.01, "%"),),
    "1": ((1.0, ""),),
}

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

# For each base unit: its name in exports, where all numbers of a name share one unit, and how many make a base unit.
EXPORT_UNITS: Mapping[str, tuple[str, float]] = {
    "s": ("ms", 1e3),
    "B": ("mb", 1e-6),
    "J": ("mj", 1e3),
    "g": ("mg", 1e3),
    "1/s": ("per_s", 1.0),
    "share": ("", 1.0),
    "1": ("", 1.0),
}


def scale_for(unit: str, value: float, digits: int = 3) -> tuple[float, str]:
    """Return the factor and name of the display unit in which `value` reads well, rounded to so many digits."""
    scales = _SCALES[unit]
    if value == 0:
        return next((scale for scale in scales if scale[0] == 1.0), scales[-1])
    rounds_to_one = 1 - 0.5 * 10.0**-digits  # 999.6 of the next smaller unit would be 1,000 of them
    return next((scale for scale in scales if abs(value) >= scale[0] * rounds_to_one), scales[-1])


def exported_name(name: str, unit: str) -> str:
    """Append the unit in which exports give a quantity of base unit `unit`: `latency_p95` → `latency_p95_ms`."""
    return f"{name}_{EXPORT_UNITS[unit][0]}".rstrip("_")


def show_number(value: float, digits: int = 3) -> str:
    """Write `value` with `digits` significant digits and no exponent; whole digits are never rounded away."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    shown = "%#.*g" % (digits, value)  # noqa: UP031 - half the time of nested fields; 0.9999 is rounded to 1.00
    if "e" in shown:
        return f"{value:.{max(0, digits - 1 - int(shown.partition('e')[2]))}f}"
    return shown.removesuffix(".")


def show(value: float, unit: str) -> str:
    """Write a quantity in its best display unit, as `6.31 ms`."""
    factor, name = scale_for(unit, value)
    return f"{show_number(value / factor)} {name}".rstrip()


def show_measured(value: float, unit: str) -> str:
    """Write a measured quantity; no time is 0: one that reads so was shorter than its clock can tell."""
    return _TOO_SHORT if unit == "s" and value == 0 else show(value, unit)


def show_amount(value: float, unit: str) -> str:
    """Write a large amount with a prefix, as `1.27 MB` or `93.2 GFLOP/s`."""
    factor, prefix = next((one for one in _PREFIXES if value >= 0.9995 * one[0]), (1.0, ""))
    return f"{show_number(value / factor)} {prefix}{unit}"


def show_limit(limit: float, unit: str, better: str) -> str:
    """Write `<= 10 ms`, or `>= 0.85` where more is better: as many digits as were given."""
    factor, name = scale_for(unit, limit, 6)
    number = show_number(limit / factor, 6)
    short = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{'<=' if better == 'lower' else '>='} {short} {name}".rstrip()


def plural(noun: str) -> str:
    """`batch of 16 calls` → `batches of 16 calls`; `fresh process` → `fresh processes`; `query` → `queries`."""
    head, of, rest = noun.partition(" of ")
    if re.search(r"[^aeiou]y$", head):
        return f"{head[:-1]}ies{of}{rest}"
    return f"{head}{'es' if head.endswith(('s', 'x', 'ch', 'sh')) else 's'}{of}{rest}"


def counted(n: int, noun: str) -> str:
    """Write `1 pair`, `2 pairs`, `1,142 calls`."""
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def some_of(names: Sequence[str], shown: int = 3) -> str:
    """Write `a, b, c and 2 others`."""
    more = [f"and {counted(len(names) - shown, 'other')}"] if len(names) > shown else []
    return " ".join([", ".join(names[:shown]), *more])


def show_interval(value: float, low: float | None, high: float | None, unit: str) -> str:
    """Write `6.31 ms (6.20 .. 6.45)`: in the unit of the value, of the ends if it is 0; an open end is `?`."""
    if unit == "s" and value == 0:
        return _TOO_SHORT
    factor, name = scale_for(unit, value or high or low or 0.0)
    ends = ["?" if end is None else show_number(end / factor) for end in (low, high)]
    return f"{show_number(value / factor)} {name}".rstrip() + f" ({ends[0]} .. {ends[1]})"


def show_change(change: float, scale: str, like: float | None = None, digits: int = 1) -> str:
    """Write a relative change as `+4.8 %` (`×2.9` from a doubling on), an absolute one as `-0.5 pp`.

    An end of an interval is written `like` its value: `×2.2 (×2.0 .. ×2.3)`, never `×2.2 (+99.8 % .. ×2.3)`.
    """
    if scale == "absolute":
        return f"{_without_sign_of_zero(f'{change * 100:+.2f}')} pp"
    if (change if like is None else like) >= 1:
        return show_times(1 + change)
    return f"{_without_sign_of_zero(f'{change * 100:+.{digits}f}')} %"


def show_change_interval(
    change: float,
    low: float | None,
    high: float | None,
    scale: str,
    *,
    digits: int = 1,
    short: bool = False,
) -> str:
    """Write `+4.8 % (+3.1 .. +6.5)`: the unit once, an open end as `?`, and an exact change alone.

    `digits` are those of the change; `short`: without decimals where a number is large, and none at all as `0 %`.
    """
    write = _short_change if short else show_change
    value = write(change, scale, like=change) if digits == 1 else show_change(change, scale, digits=digits)
    if low == high == change:
        return value
    unit = next((unit for unit in (" %", " pp") if value.endswith(unit)), "")
    ends = ("?" if end is None else write(end, scale, like=change).removesuffix(unit) for end in (low, high))
    return f"{value} ({' .. '.join(ends)})"


def _short_change(change: float, scale: str, *, like: float) -> str:
    if like >= 1 and scale == "relative":
        return show_change(change, scale, like=like)
    unit, digits = ("pp", 2) if scale == "absolute" else ("%", 1)
    shown = round(100 * change, digits)
    if not shown:
        return f"0 {unit}"
    return show_change(change, scale, like=like) if abs(shown) < _WHOLE_FROM else f"{shown:+.0f} {unit}"


def _without_sign_of_zero(number: str) -> str:
    return number if number.strip("+-0.") else number.lstrip("+-")


def show_share(share: float, digits: int = 0) -> str:
    """Write a part of a whole: `86 %`, with `digits` after the point."""
    return f"{_without_sign_of_zero(f'{100 * share:.{digits}f}')} %"


def show_excess(share: float) -> str:
    """Write by how much a limit is missed: `33.3 %`, or `×19` where it is ten times as much or more."""
    return f"{100 * share:.3g} %" if share < 9.0 else show_times(1 + share)  # noqa: PLR2004 - ×10


def show_times(factor: float) -> str:
    """Write how many times as much: `×2.9`, `×173`, and `×556,000` with three digits from a thousand on."""
    return f"×{show_number(factor, 2)}" if factor < 999.5 else f"×{float(f'{factor:.3g}'):,.0f}"  # noqa: PLR2004 - 1,000, rounded


def show_size(size: float, scale: str, digits: int = 2) -> str:
    """Write how large a change is, whatever its direction: `2 %`, `0.5 pp`, `×2.9` from a doubling on."""
    if scale == "relative" and size >= 1:
        return show_change(size, scale)
    return f"{round(abs(size) * 100, digits):g} {'pp' if scale == 'absolute' else '%'}"


def show_move(then: float, now: float, unit: str) -> str:
    """Write `310 → 325 µs`, with both units where they differ."""
    old, new = show_measured(then, unit), show_measured(now, unit)
    (number, old_unit), (_, new_unit) = split_unit(old), split_unit(new)
    return f"{number if old_unit == new_unit else old} → {new}"


def split_unit(shown: str) -> tuple[str, str]:
    """Take the unit, with the space before it, from a quantity that was written: `4.8 %` → `4.8`, ` %`."""
    number, space, unit = shown.partition(" ")
    return number, space + unit


def relative_change(log_ratio: float) -> float:
    """Turn the log of candidate over baseline into a relative change: 0.0488 → 0.05."""
    return math.expm1(min(log_ratio, 230.0))  # e^230 is a little below `LARGEST`


def relative(difference: float, whole: float) -> float:
    """Return a difference as a share of a positive whole, within the range of all numbers."""
    return max(-LARGEST, min(LARGEST, difference / whole))


class FactFormatter(Formatter):
    """Writes the facts of a message: texts whatever the template asks, and one that a file has left out as `?`.

    A number is a list of values, written as one where they look the same.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def get_value(self, key: int | str, args: Sequence[object], kwargs: Mapping[str, object]) -> object:  # noqa: ARG002
        return kwargs.get(str(key), "?")

    def format_field(self, value: str | Sequence[float], format_spec: str) -> str:
        if isinstance(value, str):
            return value
        largest = min(value) if format_spec == "bare" else max(value)  # a value to be typed serves all
        least, most = (_written(end, format_spec, self._texts) for end in (min(value), largest))
        if least == most:
            return least
        (low, _, unit), (_, _, other) = least.partition(" "), most.partition(" ")
        return f"{low if unit == other else least} .. {most.removeprefix('+')}"


_LONGEST_NOUN = 80  # characters of what is counted
_WRITERS: Mapping[str, Callable[[float], str]] = {
    "s": lambda number: show(number, "s"),
    "B": lambda number: show(number, "B"),
    "+s": lambda number: f"{'-' if number < 0 else '+'}{show(abs(number), 's')}",
    "+B": lambda number: f"{'-' if number < 0 else '+'}{show(abs(number), 'B')}",
    "change": lambda number: show_change(number, "relative"),
    "points": lambda number: show_change(number, "absolute"),
    "size": lambda number: show_size(number, "relative", digits=1),
    "size points": lambda number: show_size(number, "absolute"),
    "%": show_share,
    "2%": lambda number: show_share(number, 2),
    "turns": lambda percent: "every turn was" if round(percent) == 100 else f"{percent:.0f} % of turns were",  # noqa: PLR2004
    "bare": lambda seconds: f"{seconds / 2:.0e}",  # of an option that lets in what takes as long, and faster calls too
    "": lambda number: f"{number:.0f}" if number.is_integer() else f"{number:g}",
}


def _written(number: float, spec: str, texts: Mapping[str, str]) -> str:
    """Write a number as a template asks: by one of `_WRITERS`, as `count NOUN`, in digits, or as `format` does.

    NOUN is the name of a text fact, or else the noun itself.
    """
    count, _, noun = spec.partition(" ")
    if count == "count":
        return counted(int(number), texts.get(noun, noun)[:_LONGEST_NOUN])
    if spec in _WRITERS:
        return _WRITERS[spec](number)
    return show_number(number, int(spec)) if spec.isdigit() else format(number, spec)


def reasons(causes: Collection[str], most: int = 3) -> str:
    """Write the most frequent reasons, each once, with the number of tests where there are several."""
    found = Counter(causes).most_common()
    shown = [f"{why} ({counted(times, 'test')})" if len(causes) > 1 else why for why, times in found[:most]]
    more = [f"and {counted(len(found) - most, 'other reason')}"] if len(found) > most else []
    return "; ".join([*shown, *more])
