"""TemplateFacts of a message as its template writes them: texts, numbers in their units, and ranges of numbers."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from pytest_hwperf.records.units import counted, show, show_change, show_number, show_share, show_size

_EVERY = 100  # percent


_LONGEST_NOUN = 80  # characters of what is counted


class TemplateFacts(dict[str, object]):
    """The facts of a sentence; one that a file has left out is a question mark."""

    def __missing__(self, name: str) -> "Word":
        return Word("?")


class Word(str):
    """A text, which ignores any format specification."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return str(self)


class NumberRange:
    """The values of one number, written as one where they look the same."""

    def __init__(self, values: Sequence[float], texts: Mapping[str, str]) -> None:
        self._least, self._most, self._texts = min(values), max(values), texts

    def __format__(self, spec: str) -> str:
        least = _written(self._least, spec, self._texts)
        if self._least == self._most or (most := _written(self._most, spec, self._texts)) == least:
            return least
        (low, _, unit), (_, _, other) = least.partition(" "), most.partition(" ")
        return f"{low if unit == other else least} .. {most.removeprefix('+')}"


def _bare(seconds: float) -> str:
    """Write the seconds of an option that lets in what takes as long, with room for a call that is faster."""
    return f"{seconds / 2:.0e}"


def _turns(percent: float) -> str:
    return "every turn was" if round(percent) == _EVERY else f"{percent:.0f} % of turns were"


_WRITERS: Mapping[str, Callable[[float], str]] = {
    "change": lambda number: show_change(number, "relative"),
    "points": lambda number: show_change(number, "absolute"),
    "size": lambda number: show_size(number, "relative", digits=1),
    "size points": lambda number: show_size(number, "absolute"),
    "%": show_share,
    "2%": lambda number: show_share(number, 2),
    "turns": _turns,
    "bare": _bare,
}


def _written(number: float, spec: str, texts: Mapping[str, str]) -> str:
    """Write a number as a template asks: `s`, `B`, one of `_WRITERS`, `count NOUN`, digits, or as `format` does.

    NOUN is the name of a text fact, or else the noun itself.
    """
    count, _, noun = spec.partition(" ")
    if count == "count":
        return counted(int(number), texts.get(noun, noun)[:_LONGEST_NOUN])
    if spec in ("s", "B"):
        return show(number, spec)
    if spec in ("+s", "+B"):
        return f"{'-' if number < 0 else '+'}{show(abs(number), spec[1:])}"
    if spec in _WRITERS:
        return _WRITERS[spec](number)
    if not spec:
        return f"{number:.0f}" if number.is_integer() else f"{number:g}"
    return show_number(number, int(spec)) if spec.isdigit() else format(number, spec)


_MOST_REASONS = 3


def reasons(causes: Collection[str]) -> str:
    """Write the most frequent reasons, each once, with the number of tests where there are several."""
    found = Counter(causes).most_common()
    shown = [f"{why} ({counted(times, 'test')})" if len(causes) > 1 else why for why, times in found[:_MOST_REASONS]]
    more = [f"and {counted(len(found) - _MOST_REASONS, 'other reason')}"] if len(found) > _MOST_REASONS else []
    return "; ".join([*shown, *more])
