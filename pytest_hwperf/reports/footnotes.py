"""Footnotes: what has to be known beside the numbers, each said once."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_hwperf.core.records import Comparison, Figure, Run, Verdict
from pytest_hwperf.core.units import show_change
from pytest_hwperf.reports.cells import metric_of, visible

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One thing to know about a row."""

    text: str
    alike: bool = False  # whether notes that differ from it in their numbers only may be said with it


class Footnotes:
    """Numbers notes in the order of their first mark; alike ones get one number and are told with their range."""

    def __init__(self) -> None:
        """Begin without notes."""
        self._texts: dict[str, list[str]] = {}  # what alike notes have in common → their texts

    def number(self, note: Note) -> int:
        """Return the number of a note, from 1."""
        text = visible(note.text)
        key = _NUMBER.sub("0", text) if note.alike else text
        self._texts.setdefault(key, []).append(text)
        return list(self._texts).index(key) + 1

    def texts(self) -> tuple[str, ...]:
        """Return the footnotes, that of number 1 first."""
        return tuple(map(_joined, self._texts.values()))


def notes_of(
    run: Run, metric: str, figure: Figure | None, verdicts: Sequence[Verdict], *, exact: bool
) -> Iterator[Note]:
    """Collect what has to be known beside the numbers of a row; `exact`: each comparison's method in full."""
    sample = run.sample(metric)
    if sample:
        yield from (Note(text=warning, alike=True) for warning in sample.warnings)
    if figure:
        yield from (Note(text=warning, alike=True) for warning in figure.estimate.warnings)
    elif metric in run.unmeasured:
        yield Note(text=run.unmeasured[metric])
    else:
        yield from (Note(text=reason) for verdict in verdicts if (reason := _why_unmeasured(verdict)))
    for verdict in verdicts:
        if isinstance(verdict.subject, Comparison):
            yield from _comparison_notes(verdict.subject, run, exact=exact)


def _why_unmeasured(verdict: Verdict) -> str:
    """Return the reason without the metric and the budget, which the row says: `…: unmeasured, budget …: reason`."""
    _, found, rest = verdict.reason.partition(": unmeasured, budget ")
    return rest.partition(": ")[2] if found else verdict.reason


def _comparison_notes(comparison: Comparison, run: Run, *, exact: bool) -> Iterator[Note]:
    noted = (comparison.reason, *comparison.warnings, comparison.disturbance)
    yield from (Note(text=text) for text in noted if text)
    method = comparison.method
    if comparison.change:
        counted = str(comparison.pairs) in _NUMBER.findall(method)
        yield Note(text=f"change by {method}" + ("" if counted else f", n={comparison.pairs}"), alike=not exact)
        yield from (Note(text=text, alike=True) for text in comparison.change.warnings)
    if comparison.outcome == "inconclusive" and comparison.detectable is not None:
        least = show_change(comparison.detectable, comparison.scale)
        if least not in method:
            sign = ">=" if metric_of(run, comparison.metric).better == "lower" else "<="
            yield Note(text=f"could have caught a change {sign} {least}")


def _joined(texts: Sequence[str]) -> str:
    """Return the one text of which all are variants, a number that varies as `104 .. 154`."""
    words = _NUMBER.split(texts[0])
    variants = zip(*map(_NUMBER.findall, texts), strict=True)
    numbers = map(_range, variants)
    return "".join(word + number for word, number in zip(words, [*numbers, ""], strict=True))


def _range(numbers: Sequence[str]) -> str:
    least, most = min(numbers, key=float), max(numbers, key=float)
    return least if float(least) == float(most) else f"{least} .. {most}"
