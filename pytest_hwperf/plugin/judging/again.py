"""Further fresh processes for a verdict: repeats of alarms and retries, and the lines that allocate."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic

import pytest

from pytest_hwperf.host.extras import exists_here, missing
from pytest_hwperf.meters.memory import MISSING
from pytest_hwperf.plugin.measuring.fresh import ask_fresh
from pytest_hwperf.plugin.session.terminal import countdown_of
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.profiles import HeldMemory
from pytest_hwperf.records.run import Key, Run, figure_of
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.records.verdict import Budget, Judgement, Verdict
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.stored.compare import REPEATS
from pytest_hwperf.stats.verdicts import MOST_RETRIES, keeps


@dataclass
class Again:
    """Further measurements of a whole test, each in a fresh process, made when they are first asked for."""

    item: pytest.Item
    _made: list[Sequence[Run]] = field(default_factory=list)
    _took_s: float = 0.0  # of the last of them

    @cached_property
    def repeats(self) -> list[Sequence[Run]]:
        """The runs of the processes that an alarm is repeated in; once for all labels of the test."""
        return [result.runs for result in ask_fresh(self.item, "run", REPEATS)]

    def retried(self, run: Run, verdicts: Sequence[Verdict]) -> Mapping[Key, Sequence[float]]:
        """Return the values of every inconclusive budget in up to five processes: as long as all lie on one side."""
        inconclusive = [verdict.subject for verdict in verdicts if verdict.outcome == "inconclusive"]
        budgets = [one for one in inconclusive if isinstance(one, Budget) and run.metric(one.metric).is_timed]
        found = {budget.key: list[float]() for budget in budgets}
        for number in range(MOST_RETRIES):
            going_on = [one for one in budgets if len({keeps(run, one, value) for value in found[one.key]}) <= 1]
            if not going_on:
                break
            again = figures(_labelled(self._nth(number), run.label))
            for budget in going_on:
                figure = figure_of(again, budget.key)
                found[budget.key].extend([figure.estimate.value] if figure else [])
        return found

    def _nth(self, number: int) -> Sequence[Run]:
        while len(self._made) <= number:
            shown, began = countdown_of(self.item), monotonic()
            with closing(shown):  # nothing is written while the process measures
                shown.announce(f"measurement {len(self._made) + 1} of up to {MOST_RETRIES} more", self._took_s)
                (result,) = ask_fresh(self.item, "run")
            self._took_s = monotonic() - began
            self._made.append(result.runs)
        return self._made[number]


def _labelled(runs: Sequence[Run], label: str) -> Run:
    found = next((run for run in runs if run.label == label), None)
    if found is None:
        raise WorkerError(
            f"a fresh process of this test did not measure label={label!r}: give label= a fixed name, "
            "without process numbers, times or random values"
        )
    return found


_MOST = 5  # lines that are shown
_LEAST_SHARE = 0.01  # of all that is held: less explains nothing


def lines_of_sites(item: pytest.Item, judgements: Sequence[Judgement]) -> list[str]:
    """Name what holds the memory of each run that misses its memory budget; nothing where none does.

    Each takes one more fresh process, and memray: without it one line says what would name them.
    """
    missed = [judgement.run.label for judgement in judgements if any(map(_misses_memory, judgement.verdicts))]
    if not missed or not exists_here("memray"):
        return []
    return [MISSING] if missing("memray") else [line for label in missed for line in _sites(item, label)]


def _misses_memory(verdict: Verdict) -> bool:
    budget = verdict.subject
    return isinstance(budget, Budget) and METRICS[budget.metric].has_sites and verdict.outcome == "failed"


def _sites(item: pytest.Item, label: str) -> Iterator[str]:
    try:
        (result,) = ask_fresh(item, "sites", label=label)
    except WorkerError as error:
        yield f"memray named no lines: {visible(error.sentence)}"
        return
    yield from (f"memray named no lines: {visible(reason)}" for reason in result.reasons.values())
    if result.sites:
        of = f"[{visible(label)}] " if label else ""
        yield f"{of}allocated at the peak of load and calls, in a process of its own, by memray:"
        least = _LEAST_SHARE * sum(one.size for one in result.sites)
        yield from (_line(one) for one in result.sites[:_MOST] if one.size >= least)


def _line(held: HeldMemory) -> str:
    """Write `  64.0 MB in 1 allocation: work, test_it.py:5`."""
    where = f"{held.function}, {held.file}:{held.line}" if held.function else "outside Python"
    called = f", called at {held.called_at}" if held.called_at else ""
    return visible(f"  {show(held.size, 'B')} in {counted(held.allocations, 'allocation')}: {where}{called}")
