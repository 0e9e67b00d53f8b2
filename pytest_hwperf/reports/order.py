"""Order of the table: scenarios of one test together, the best first; metrics as they are listed."""

import re
from collections.abc import Iterable, Sequence

from pytest_hwperf.core.metrics import MEDIAN_LATENCY, METRICS, STATISTICS, is_stage
from pytest_hwperf.core.records import Judgement, Key, Run, Skip, figure_of
from pytest_hwperf.core.structs import Record

_METRICS = {metric: place for place, metric in enumerate(METRICS)}
_STATISTICS = {statistic: place for place, statistic in enumerate(STATISTICS)}


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
    members: dict[tuple[str, ...], list[Judgement]] = {}
    for position, judgement in enumerate(judgements):
        run = judgement.run
        alone = "" if run.scenario else str(position)
        members.setdefault((*_common(run.test, run.scenario, run.label), run.kind, alone), []).append(judgement)
    tests = {(key[0], key[2]): key for key in members}  # a skip has no label: it joins the last ones of its test
    skipped: dict[tuple[str, ...], list[Skip]] = {}
    for skip in skips:
        test, _ = _common(skip.test, skip.scenario, "")
        skipped.setdefault(tests.get((test, skip.kind), (test, "", skip.kind, "")), []).append(skip)
    return [_family(key, members.get(key, []), skipped.get(key, [])) for key in dict.fromkeys([*members, *skipped])]


def sorted_keys(keys: Iterable[Key]) -> list[Key]:
    """Return each pair of metric and statistic once: known metrics in their order, stages as given, others by name."""

    def place(key: Key) -> tuple[int, str, int, str]:
        metric, statistic = key
        name = "" if is_stage(metric) else metric
        return _METRICS.get(metric, len(_METRICS)), name, _STATISTICS.get(statistic, len(_STATISTICS)), statistic

    return sorted(dict.fromkeys(keys), key=place)


def median_of(judgement: Judgement) -> float | None:
    """Return the median latency in s, None where it was not measured."""
    figure = figure_of(judgement.figures, MEDIAN_LATENCY)
    return figure.estimate.value if figure else None


def title_of(run: Run) -> str:
    """Return the full test id with its label, and the kind of machine where one is named."""
    return _titled(run.test, run.label, run.kind)


def _titled(test: str, label: str, kind: str) -> str:
    title = f"{test} {label}".rstrip()
    return f"{title} on {kind}" if kind else title


def _family(key: tuple[str, ...], judgements: Sequence[Judgement], skips: Sequence[Skip]) -> Family:
    if len(judgements) + len(skips) == 1:
        title = title_of(judgements[0].run) if judgements else _titled(skips[0].test, "", skips[0].kind)
    else:
        title = _titled(*key[:3])
    placed = sorted(judgements, key=lambda judgement: median_of(judgement) or float("inf"))
    return Family(title=title, judgements=tuple(placed), skips=tuple(skips))


def _common(test: str, scenario: str, label: str) -> tuple[str, str]:
    """Return test id and label without the scenario's name: `t.py::t[onnx_fp32-8]` becomes `t.py::t[…-8]`."""
    if not scenario:
        return test, label
    word = re.compile(rf"(?<!\w){re.escape(scenario)}(?!\w)")
    function, bracket, parameters = test.partition("[")
    common = function + bracket + word.sub("…", parameters, count=1)
    return common.removesuffix("[…]"), " ".join(word.sub("", label, count=1).split())
