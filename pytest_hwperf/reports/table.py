"""The table of a report: which rows, in which order, what the scenarios of a test have in common, and footnotes."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from pytest_hwperf.records.messages import Remark, Statement, sentence, state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import figure_of
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, plural, show_number
from pytest_hwperf.records.verdict import Comparison, Judgement, Skip
from pytest_hwperf.reports.rows import Row, Tone, is_open, median_of, rows_of, title_of, titled, unit_of

Detail = Literal["quiet", "normal", "verbose"]

COLUMNS = ("metric", "value", "n", "budget", "baseline", "change", "outcome")
_CONDITIONS = ("precision", "threads", "batch_size", "load")  # shown unless verbose, which shows every one
_USUAL_LOAD, _USUALLY = "single_stream", "calls one after the other"  # said in verbose only
_THIS_RUN = "  this run"  # name of a figure below the comparison of other processes


class Note(NamedTuple):
    """One remark on a row."""

    parts: tuple[Remark, ...]  # said one after the other
    before: str = ""  # what is said before them
    alike: bool = False  # whether notes that differ from it in their numbers only may be said with it

    @property
    def key(self) -> Hashable:
        """What notes have in common that are one footnote: of alike ones everything but the numbers of a statement."""
        return self.before, *(
            (part.kind, *sorted(part.texts.items()), *part.differences)
            if self.alike and isinstance(part, Statement)
            else part
            for part in self.parts
        )


class Footnotes:
    """Numbers notes in the order of their first mark; alike ones get one number and are shown with their range."""

    def __init__(self) -> None:
        self._notes: dict[Hashable, tuple[int, list[Note]]] = {}

    def numbers(self, notes: Iterator[Note]) -> tuple[int, ...]:
        """Return the numbers of some notes, from 1."""
        found = set[int]()
        for note in notes:
            number, alike = self._notes.setdefault(note.key, (len(self._notes) + 1, []))
            alike.append(note)
            found.add(number)
        return tuple(sorted(found))

    def texts(self) -> tuple[str, ...]:
        """Return the footnotes, that of number 1 first; a number that varies as `104 .. 154`."""
        texts = list[str]()
        for _, notes in self._notes.values():
            said = list[str]()
            for alike in zip(*(note.parts for note in notes), strict=True):
                statements = [part for part in alike if isinstance(part, Statement)]
                said.append(sentence(*statements) if statements else str(alike[0]))
            texts.append(visible(notes[0].before + ", ".join(said)))
        return tuple(texts)

    def lacking(self, report: Report) -> list[str]:
        """Write `3 remarks with -v`, those of the table that are none of these and put a value in doubt."""
        keys = {
            Note((remark,), alike=True).key
            for judgement in report.judgements
            for row in rows_of(judgement)
            for remark in _doubts(row)
            if not isinstance(remark, Statement) or remark.kind not in _CAVEATS
        }
        lacking = len(keys - self._notes.keys())
        return [f"{counted(lacking, 'remark')} with -v"] if lacking else []


def notes_of(row: Row, *, exact: bool) -> Iterator[Note]:
    """Collect the remarks on the numbers of a row; `exact`: each comparison's method in full."""
    yield from (Note((warning,), alike=True) for warning in _warnings(row))
    yield from (Note((decided,)) for verdict in row.verdicts for decided in verdict.decided_by)
    absent, metric = list[Remark](), row.key[0]  # why there is no value: as the run says, or as budgets say
    if not row.source and metric in row.run.unmeasured:
        absent.append(row.run.unmeasured[metric])
    elif not row.source:
        absent += [one.cause or one.reason for one in row.verdicts if not isinstance(one.subject, Comparison)]
    yield from (Note((why,)) for why in absent)
    one = row.comparison
    cause = one.cause if one else None
    if one is None or (cause and cause.kind == "not measured" and cause.texts.get("why") in [*map(str, absent)]):
        return
    yield from (Note((remark,)) for remark in (cause, *one.warnings) if remark)
    numbers = one.method.numbers if one.method else {}
    if one.change:
        count = None if one.pairs in numbers.values() else state("count", n=one.pairs)
        yield Note(tuple(filter(None, (one.method, one.promise, count))), "change by ", alike=not exact)
        yield from (Note((warning,), alike=True) for warning in one.change.warnings)
    caught = None if "limit" in numbers else one.caught(row.metric.better)
    yield from (Note((doubt,), alike=not exact) for doubt in (one.disturbance, caught, one.moved) if doubt is not None)


def _warnings(row: Row) -> Iterator[Remark]:
    """Yield the remarks on the figure of a row and on its sample."""
    if row.figure:
        sample = row.run.sample(row.key[0])
        yield from (*(sample.warnings if sample else ()), *row.figure.estimate.warnings)


# What estimates and counters say of themselves, and that other work ran meanwhile, which makes what passes pass less
# easily; everything else puts a value in doubt.
ALARMS = frozenset({"leaks", "own calls differ"})  # said wherever a line stands for the test
_CAVEATS = frozenset(
    {"maximum", "no bound", "mean of one", "lone process", "step", "idle machine", "count", "waited for gpu"}
    | {"preempted", "load", "workers"}
    | ALARMS
)


def _doubts(row: Row) -> Iterator[Remark]:
    """Yield the remarks on the value of a row that the table shows."""
    for verdict in row.verdicts:
        subject = verdict.subject
        if isinstance(subject, Comparison):
            yield from (*subject.warnings, *(subject.change.warnings if subject.change else ()))
            yield from [subject.disturbance] if subject.disturbance and not verdict.fails else []  # else in FAILURES
    if row.verdicts or row.is_below or row.is_usual:
        yield from _warnings(row)


class Line(Record, frozen=True, kw_only=True):
    """One line of a table or a summary."""

    cells: tuple[str, ...]  # one for each column
    tone: Tone
    notes: tuple[int, ...] = ()  # numbers of its footnotes
    below: tuple[str, ...] = ()  # what is said below it


def marked(notes: Sequence[int]) -> str:
    """Write the marks of footnotes: `[1,3]`."""
    return f"[{','.join(map(str, notes))}]" if notes else ""


class TableHeading(NamedTuple):
    """A test with its label, what its scenarios have in common, or one of them: texts beside each other."""

    texts: Sequence[str]
    depth: int = 0  # of its indentation
    is_bold: bool = True


def rows(report: Report, *, detail: Detail = "normal") -> tuple[list[TableHeading | Line], tuple[str, ...]]:
    """Return what is shown of all tests, free of control characters, and the footnotes, of which the first is 1."""
    footnotes = Footnotes()
    tests = families(report.judgements, report.skips)
    return [one for family in tests for one in _lines(family, detail, footnotes)], footnotes.texts()


class Family(Record, frozen=True, kw_only=True):
    """One test: its scenarios, or a single measured callable."""

    title: str  # test id and label; where several scenarios follow, without the name of theirs
    judgements: tuple[Judgement, ...]  # best median latency first, those without one last
    skips: tuple[Skip, ...]

    @property
    def best(self) -> float | None:
        """The smallest median latency in s; None where there is no other scenario."""
        return median_of(self.judgements[0]) if len(self.judgements) > 1 else None


def families(judgements: Sequence[Judgement], skips: Sequence[Skip]) -> list[Family]:
    """Put together the scenarios of each test, measured and skipped; tests keep their order."""
    members: dict[tuple[str, ...], tuple[list[Judgement], list[Skip]]] = {}
    for position, judgement in enumerate(judgements):
        run = judgement.run
        alone = "" if run.scenario else str(position)
        key: tuple[str, ...] = (*_common(run.test, run.scenario, run.label), run.kind, alone)
        members.setdefault(key, ([], []))[0].append(judgement)
    tests = {(key[0], key[2]): key for key in members}  # a skip has no label: it joins the last ones of its test
    for skip in skips:
        test, _ = _common(skip.test, skip.scenario, "")
        members.setdefault(tests.get((test, skip.kind), (test, "", skip.kind, "")), ([], []))[1].append(skip)
    found = list[Family]()
    for key, (measured, skipped) in members.items():
        title = titled(*key[:3])
        if len(measured) + len(skipped) == 1:
            title = title_of(measured[0].run) if measured else titled(skipped[0].test, "", skipped[0].kind)
        measured.sort(key=lambda judgement: median_of(judgement) or float("inf"))
        found.append(Family(title=title, judgements=tuple(measured), skips=tuple(skipped)))
    return found


def _common(test: str, scenario: str, label: str) -> tuple[str, str]:
    """Return test id and label without the scenario's name: `t.py::t[onnx_fp32-8]` becomes `t.py::t[…-8]`."""
    if not scenario:
        return test, label
    word = re.compile(rf"(?<!\w){re.escape(scenario)}(?!\w)")
    function, bracket, parameters = test.partition("[")
    common = function + bracket + word.sub("…", parameters, count=1)
    return common.removesuffix("[…]"), " ".join(word.sub("", label, count=1).split())


def _lines(family: Family, detail: Detail, footnotes: Footnotes) -> Iterator[TableHeading | Line]:
    """Yield a test, its scenarios with their rows, best first, then those that were skipped.

    Of the conditions, those that all scenarios have in common stand once, and what measured each metric beside them.
    """
    chosen = [
        (judgement, [row for row in rows_of(judgement) if _is_shown(row, detail)], _conditions(judgement, detail))
        for judgement in family.judgements
    ]
    chosen = [one for one in chosen if one[1] or detail != "quiet"]
    skips = () if detail == "quiet" else family.skips
    if not chosen and not skips:
        return
    common = [text for text in chosen[0][2] if all(text in own for _, _, own in chosen)] if chosen else []
    if [bool(judgement.run.scenario) for judgement, *_ in chosen] == [True]:
        common = []  # a scenario that stands alone has its conditions next to its name
    sources = _sources([row for _, shown, _ in chosen for row in shown])
    below = [", ".join(common), f"sources: {sources}" if sources else ""]
    yield TableHeading((visible(family.title),))
    yield TableHeading((visible("; ".join(filter(None, below))),), 1, is_bold=False)
    for judgement, shown, conditions in chosen:
        run, median, above = judgement.run, median_of(judgement), None
        ratio = f"{show_number(median / family.best)}× the fastest" if family.best and median else ""
        setting = ", ".join(text for text in conditions if text not in common)
        test = title_of(run)  # last, whole and not repeated
        yield TableHeading([*map(visible, (run.scenario, ratio, setting, test * (test != family.title)))], 1)
        for row in shown:  # a figure is that of this run where the row above has its comparison
            name = _THIS_RUN if row.is_below and row.key == above else row.name
            cells = (name, row.value, row.n, row.limit, row.baseline, row.change, row.outcome)
            notes = footnotes.numbers(notes_of(row, exact=detail == "verbose"))
            yield Line(cells=cells, tone=row.tone, notes=notes)
            above = row.key
    for skip in skips:
        yield TableHeading((visible(skip.scenario), visible(f"skipped: {skip.reason}")), 1)


def _is_shown(row: Row, detail: Detail) -> bool:
    if detail == "quiet":
        return any(map(is_open, row.verdicts))
    return detail == "verbose" or bool(row.verdicts) or (row.is_usual and not row.is_below)


def _conditions(judgement: Judgement, detail: Detail) -> Sequence[str]:
    """Return `float32`, `threads 1`; verbose also all others, and what was counted where one word does not say it."""
    conditions = judgement.run.conditions
    named = {name: f"{name.replace('_', ' ')} {value}" for name, value in conditions.items()}
    if detail != "verbose":
        named["precision"] = conditions.get("precision", "")
        return [named[name] for name in _CONDITIONS if conditions.get(name, _USUAL_LOAD) != _USUAL_LOAD]
    named |= {"load": _USUALLY} if conditions.get("load") == _USUAL_LOAD else {}
    units = dict.fromkeys(figure.per for figure in judgement.figures if figure.per != unit_of(figure.per))
    return [*named.values(), *(f"n in {plural(visible(per))}" for per in units)]


def _sources(shown: Iterable[Row]) -> str:
    """Write `perf_counter (latency, throughput); joblib (model_size of sklearn_fp32)`."""
    found: dict[str, dict[str, dict[str, None]]] = {}  # source → metric → scenarios
    for row in shown:
        figure, scenario = figure_of(row.judgement.figures, row.key), row.run.scenario
        source = figure.source if figure else row.source
        if source:
            source = "the scenario" if source == scenario else source
            found.setdefault(source, {}).setdefault(row.key[0], {})[scenario] = None
    divided = Counter(metric for metrics in found.values() for metric in metrics)
    texts = {
        source: [f"{m} of {', '.join(names)}" if divided[m] > 1 else m for m, names in metrics.items()]
        for source, metrics in found.items()
    }
    return "; ".join(f"{source} ({', '.join(of)})" for source, of in texts.items())
