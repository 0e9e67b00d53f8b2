"""Budgets whose interval holds the limit, measured again in fresh processes: `--hwperf-undecided=retry`."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic

import pytest

from pytest_hwperf.core.estimates import figures
from pytest_hwperf.core.records import Budget, Key, Run, Verdict, figure_of
from pytest_hwperf.core.verdicts import MOST_RETRIES, is_timed, keeps
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.plugin.inherited_options import command_for
from pytest_hwperf.plugin.long_work import countdown_of
from pytest_hwperf.plugin.timeouts import timeout_paused


@dataclass(slots=True)
class Retries:
    """Further measurements of a test, each in a fresh process, made when they are first asked for."""

    item: pytest.Item
    _made: list[list[Run]] = field(default_factory=list)
    _took_s: float = 0.0  # of the last of them

    def values(self, run: Run, verdicts: Sequence[Verdict]) -> Mapping[Key, Sequence[float]]:
        """Return the values of every inconclusive budget in up to five processes: as long as all lie on one side."""
        inconclusive = [verdict.subject for verdict in verdicts if verdict.outcome == "inconclusive"]
        budgets = [one for one in inconclusive if isinstance(one, Budget) and is_timed(run.metric(one.metric))]
        found = {budget.key: list[float]() for budget in budgets}
        for number in range(MOST_RETRIES):
            going_on = [one for one in budgets if len({keeps(run, one, value) for value in found[one.key]}) <= 1]
            if not going_on:
                break
            again = figures(next(other for other in self._nth(number) if other.label == run.label))
            for budget in going_on:
                figure = figure_of(again, budget.key)
                found[budget.key].extend([figure.estimate.value] if figure else [])
        return found

    def _nth(self, number: int) -> list[Run]:
        while len(self._made) <= number:
            task, shown, began = WorkerTask(role="run", node=self.item.nodeid), countdown_of(self.item), monotonic()
            with timeout_paused(self.item), closing(shown):  # nothing is written while the process measures
                shown.announce(f"measurement {len(self._made) + 1} of up to {MOST_RETRIES} more", self._took_s)
                (result,) = ask(task, [command_for(self.item)])
            self._took_s = monotonic() - began
            self._made.append(result.runs)
        return self._made[number]
