"""Hypotheses that the pairs of a build can decide, by their rehearsal, and the reasons for all others."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from pytest_hwperf.records.evidence import (
    COMMIT_DIGITS,
    Evidence,
    FixedSample,
    Hypothesis,
    Measurement,
    MeasurementKey,
    Seen,
    Side,
)
from pytest_hwperf.records.messages import Statement, differing, state
from pytest_hwperf.records.metrics import CALL_FAILURES, MEDIAN_LATENCY, METRICS, Better, Taken
from pytest_hwperf.records.run import Key, Run, Sample
from pytest_hwperf.records.structs import Number, Record, Size
from pytest_hwperf.records.text import named, visible
from pytest_hwperf.records.units import relative, show_move
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Margin, uncompared
from pytest_hwperf.stats.figures.exact import compare_exact
from pytest_hwperf.stats.figures.ranks import fewest_pairs
from pytest_hwperf.stats.pairs.sequence import FIRST_PAIRS

Reason = tuple[ComparisonOutcome, Statement | None]  # why there is nothing to compare

SIDES: tuple[Side, Side] = ("baseline", "candidate")
FEWEST_PROCESSES = 3  # a side: where their values agree, no more are needed
PROCESSES: Mapping[Literal["memory", "cold"], int] = {"memory": 3, "cold": 5}  # of one measurement: peaks agree sooner

_OF_DATA = frozenset({"data", "lengths"})  # conditions: their digest, and the mix of lengths of their rows
_IN_A_ROW = "single_stream"  # condition `load` of calls that follow each other
_LEAST_ENERGY = 0.05  # margin: a window's energy also depends on temperature and other load
_FIXED: Mapping[Taken, Literal["example", "file"]] = {"examples": "example", "file": "file", "session": "file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTest:
    """A measured test and what is compared of it."""

    node: str  # node id
    margins: tuple[Margin, ...]  # of everything that is compared
    named: frozenset[Key]  # of them, those that the user named
    budgeted: frozenset[str]  # metrics that have a budget
    is_serial: bool = False  # whether it cannot bear both sides at once

    @property
    def metrics(self) -> frozenset[str]:
        """Metrics that the user named in a margin or a budget: measuring some of them costs fresh processes."""
        return self.budgeted | {metric for metric, _ in self.named}


class Recorded(Record, frozen=True, kw_only=True):
    """A metric of the user's own, recorded by a test."""

    value: Number
    better: Better
    margin: Size  # relative
    label: str  # of the measurement that it belongs to


class SideOutcome(Record, frozen=True, kw_only=True):
    """How one test ended on one side."""

    outcome: Literal["passed", "failed", "skipped", "lost"]
    reason: str = ""
    recorded: Mapping[str, Recorded] = {}
    fails_again: bool = False  # whether a later call of its body has failed, which nobody wrote to be called again


class Facts(Record, frozen=True, kw_only=True):
    """What makes a measurement another quantity than that of the other side."""

    conditions: Mapping[str, str] = {}
    scenario: str = ""
    shapes: str = ""  # of what a call is given, "" where its time may depend on more than that
    parts: tuple[str, ...] = ()  # metrics of what its calls consist of, such as the items of a stream
    has_operators: bool = False  # whether its runtime can tell where the time of a call goes
    short_s: Size = 0.0  # s, of a call that is too short to be compared by itself; 0: it is long enough
    least_s: Size = 0.0  # s, that such a call would have to take
    sizes: Mapping[str, str] = {}  # input of a call → how many items it had before the first one
    # Seconds of the very first call; comparisons take later ones.
    first_call_s: Size = 0.0
    parameters: Mapping[str, str] = {}  # in a rehearsal: name of each that its test has → what it is


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """What a first pair showed; its times are thrown away."""

    collected: dict[Side, Sequence[str]] = field(default_factory=dict)  # node ids
    errors: dict[Side, Mapping[str, str]] = field(default_factory=dict)  # file that cannot be collected → why
    facts: dict[Measurement, dict[Side, Facts]] = field(default_factory=dict)
    exact: dict[Measurement, dict[Side, Sequence[Sample]]] = field(default_factory=dict)  # what needs no clock
    uneven: dict[Measurement, Side] = field(default_factory=dict)  # made by that side only
    outcomes: dict[str, dict[Side, SideOutcome]] = field(default_factory=dict)  # node id → how its test ended


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySource:
    """The counter by which energy can be compared; an estimate never is."""

    source: str
    step: float  # of the counter, as a share of its shortest window; 0 where it has none


@dataclass(slots=True, kw_only=True)
class Questions:
    """What can be compared, and the reasons for what cannot."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    fixed_samples: list[FixedSample] = field(default_factory=list)
    processes: list[Hypothesis] = field(default_factory=list)  # memory and cold starts: each value is a fresh process
    tests: dict[str, Reason] = field(default_factory=dict)  # node id → why nothing of it is compared
    parts: dict[MeasurementKey, Reason] = field(default_factory=dict)  # of one statistic; "", "" stand for all

    @property
    def family(self) -> int:
        """The number of hypotheses among which the false-alarm rate is divided; at least 1."""
        return len(self.hypotheses) + len(self.fixed_samples) + len(self.processes) or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedAnswers:
    """What the pairs of a build have decided, as its tests are judged by it."""

    comparisons: Mapping[MeasurementKey, Comparison]
    questions: Questions
    met: frozenset[Measurement]  # in the rehearsal

    def failing(self, measurement: Measurement) -> tuple[Margin, ...]:
        """Return what asks whether calls of a measurement fail; nothing where they do not."""
        margin = Margin(metric=CALL_FAILURES, statistic="p50", size=0.0)
        return (margin,) if (measurement, *margin.key) in self.comparisons else ()

    def of(
        self,
        measurement: Measurement,
        margins: Sequence[Margin],
        measured: Collection[Key],
        named: Collection[Key],
    ) -> dict[Key, Comparison]:
        """Return what the pairs say of each statistic of a measurement, or why they say nothing."""
        parts, found = self.questions.parts, dict[Key, Comparison]()
        for margin in margins:
            key, is_measured = (measurement, *margin.key), margin.key in measured
            why = parts.get(key)
            if why is None and (is_measured or margin.key in named):
                why = self.questions.tests.get(measurement.test) or parts.get((measurement, "", ""))
            if why is None and is_measured and measurement not in self.met:
                why = ("not comparable", state("not met"))
            if key in self.comparisons:
                found[margin.key] = self.comparisons[key]
            elif why:
                found[margin.key] = uncompared(margin, *why)
        return found


def questions_of(
    tests: Sequence[MeasuredTest],
    rehearsal: Rehearsal,
    lost: Mapping[str, Reason],
    name: str,
    energy: EnergySource | None,
) -> Questions:
    found = Questions(tests=dict(lost))
    for test in tests:
        why = found.tests.get(test.node) or _why_not(test.node, rehearsal, name)
        if why:
            found.tests[test.node] = why
            continue
        for measurement, facts in rehearsal.facts.items():
            if measurement.test == test.node and is_too_short(facts):
                longer = max(facts.values(), key=lambda one: one.short_s)
                short = state("too short", call_s=longer.short_s, least_s=longer.least_s)
                found.parts[measurement, "", ""] = ("not comparable", short)
            elif measurement.test == test.node:
                _ask(found, test, measurement, rehearsal, energy)
        for measurement, side in rehearsal.uneven.items():
            if measurement.test == test.node:
                found.parts[measurement, "", ""] = ("no baseline", one_side_only(measurement, side))
        recorded = {side: ended.recorded for side, ended in rehearsal.outcomes[test.node].items()}
        for metric, one in recorded["candidate"].items():  # that the test records itself: where both sides do
            measurement = Measurement(test=test.node, label=one.label)
            if metric in recorded["baseline"]:
                margin = Margin(metric=metric, statistic="p50", size=one.margin)
                found.hypotheses.append(Hypothesis(measurement=measurement, margin=margin, better=one.better))
            else:
                found.parts[measurement, metric, "p50"] = ("no baseline", state("not recorded"))
    return found


def one_side_only(measurement: Measurement, side: Side) -> Statement:
    """Say which side alone makes a measurement."""
    return state("one side only", side=side, label=f" {measurement.label!r}" if measurement.label else "")


def why_not_rerun(stored: Run, *, known: bool, crowded: bool) -> str:
    """Return why the revision of a stored run cannot be run again in pairs, "" where it can."""
    if not stored.revision:
        return "it was saved outside of git, or before the first commit"
    if stored.changed:
        return "it was saved with changes that were not committed"
    if not known:
        return f"this repository does not have its revision {stored.revision[:COMMIT_DIGITS]} (git fetch --unshallow)"
    return "test workers run side by side (-n)" if crowded else ""


def processes_needed(family: int, alpha: float) -> int:
    """Return how many processes a side an alarm takes among `family` hypotheses."""
    return max(FEWEST_PROCESSES, fewest_pairs(alpha / max(1, family)))


def is_open(hypothesis: Hypothesis, values: Mapping[Side, Sequence[float]]) -> bool:
    """Whether the first processes leave it open that the candidate is worse by more than the margin."""
    margin = hypothesis.margin
    found = compare_exact(METRICS[margin.metric], values["baseline"], values["candidate"], margin)
    return found.outcome in ("regressed", "inconclusive")


def is_too_short(facts: Mapping[Side, Facts]) -> bool:
    """Whether a measurement is left out: calls of both sides are too short. One that has become so is compared."""
    return all(one.short_s > 0 for one in facts.values())


def other_parameters(rehearsal: Rehearsal, same: Mapping[str, str]) -> str:
    """Say of which tests the sides have other parameters behind the same id; "" where of none.

    `same` has texts of the baseline, and what the candidate has in their place.
    """
    found = dict[str, str]()
    for measurement, facts in rehearsal.facts.items():
        if len(facts) == len(SIDES):
            then, now = (facts[side].parameters for side in SIDES)
            for text, other in same.items():
                then = {name: value.replace(text, other) for name, value in then.items()}
            for one in differing(then, now)[:1]:
                known = f"{visible(one.name)} is {visible(one.baseline)} in the baseline, {visible(one.candidate)} now"
                found.setdefault(measurement.test, f"{visible(measurement.test)} ({known})")
    if not found:
        return ""
    return (
        f"the same test id stands for another parameter on each side: {named([*found.values()])}. They are compared "
        "as they are. Give ids that name the parameters, so that only equal ones meet"
    )


def unseeded_sizes(met: Iterable[Mapping[Measurement, Mapping[Side, Facts]]]) -> str:
    """Say of which tests the inputs have other sizes in each process of one side; "" where of none."""
    sizes = defaultdict[tuple[str, str, Side], dict[str, None]](dict)
    for facts in met:
        for measurement, sides in facts.items():
            for side, one in sides.items():
                for name, size in one.sizes.items():
                    sizes[measurement.test, name, side][size] = None
    found = dict[str, str]()
    for (test, name, _), seen in sizes.items():
        if len(seen) > 1:
            found.setdefault(test, f"{visible(test)} ({visible(name)} had {' and '.join([*seen][:2])})")
    if not found:
        return ""
    return (
        f"processes of the same code measured inputs of other sizes: {named([*found.values()])}. Their times differ "
        "for this reason too, not by the machine alone. Seed what draws them, such as random.Random(0), or make them "
        "anew in a fixture"
    )


def collection_error(node: str, errors: Mapping[str, str]) -> str:
    """Return why the class or file of a test, or a folder around it, could not be collected; "" where it could."""
    found = (text for place, text in errors.items() if not place or node.startswith((f"{place}::", f"{place}/")))
    return next(found, "")


def _why_not(node: str, rehearsal: Rehearsal, name: str) -> Reason | None:
    """Say why nothing of a test can be compared; None where something can."""
    if node not in rehearsal.collected.get("candidate", ()):
        return "not comparable", state("not collected")
    if node not in rehearsal.collected["baseline"]:
        why = collection_error(node, rehearsal.errors["baseline"])
        return "no baseline", state("not runnable" if why else "no such test", baseline=name, why=why)
    for side in ("candidate", "baseline"):
        ended = rehearsal.outcomes.get(node, {}).get(side, SideOutcome(outcome="lost"))
        if ended.outcome != "passed":
            outcome: ComparisonOutcome = "no baseline" if side == "baseline" else "not comparable"
            where = name if side == "baseline" else "a fresh process of the candidate"
            why = f": {ended.reason}".rstrip(": ")
            return outcome, state("test ended", outcome=ended.outcome, where=where, why=why)
    return None


def _ask(
    found: Questions, test: MeasuredTest, measurement: Measurement, rehearsal: Rehearsal, energy: EnergySource | None
) -> None:
    """Sort the hypotheses of a measurement's margins by what can decide them: pairs, fresh processes, values."""
    facts = [rehearsal.facts[measurement][side] for side in SIDES]
    then, now = ({**one.conditions, "scenario": one.scenario} for one in facts)
    differences = differing(then, now)
    # Of calls on inputs of one shape the times are compared where nothing but the values of the data differ.
    alike = [one.name for one in differences] == ["data"] and facts[0].shapes == facts[1].shapes != ""
    exact = rehearsal.exact.get(measurement, {})
    for margin in test.margins:
        metric = METRICS[margin.metric]
        hypothesis = Hypothesis(measurement=measurement, margin=margin, better=metric.better)
        key = hypothesis.key
        if differences and not (metric.in_turns and alike):
            kind = "other data" if {one.name for one in differences} <= _OF_DATA else "other conditions"
            found.parts[key] = ("not comparable", state(kind, differences))
        elif metric.taken in _FIXED:
            found.fixed_samples.extend(_fixed_sample(hypothesis, exact))
        elif metric.in_processes:
            found.processes.extend([hypothesis] * (margin.metric in test.metrics))
        elif _is_answered(margin, test) and then.get("load", _IN_A_ROW) == _IN_A_ROW:
            answered = METRICS[metric.reciprocal].called("mean")  # of calls in a row, it is one over the mean latency
            found.parts[key] = ("not comparable", state("reciprocal", other=answered))
        elif metric.in_turns == "part":
            found.hypotheses.extend([hypothesis] * all(metric.name in one.parts for one in facts))
        elif metric.in_turns == "window":
            _ask_energy(found, hypothesis, energy if margin.metric in test.metrics else None)
        elif metric.in_turns:
            found.hypotheses.append(hypothesis)


def _is_answered(margin: Margin, test: MeasuredTest) -> bool:
    """Whether the test has named the reciprocal of a metric, with a margin as small."""
    key = METRICS[margin.metric].reciprocal, "mean"
    return key in test.named and any(one.key == key and one.size <= margin.size for one in test.margins)


def _ask_energy(found: Questions, hypothesis: Hypothesis, energy: EnergySource | None) -> None:
    """Ask for energy where it was named and the counter can resolve the margin."""
    if energy is None:
        return
    least, size = max(_LEAST_ENERGY, 2 * energy.step), hypothesis.margin.size
    if size >= least:
        found.hypotheses.append(hypothesis)
        return
    why = state("coarse meter", source=energy.source, least=100 * least, asked=100 * size)
    found.parts[hypothesis.key] = ("inconclusive", why)


def _fixed_sample(hypothesis: Hypothesis, exact: Mapping[Side, Sequence[Sample]]) -> Iterator[FixedSample]:
    metric = hypothesis.margin.metric
    samples = {side: sample for side in exact for sample in exact[side] if sample.metric == metric and sample.values}
    if len(samples) == len(SIDES):
        yield FixedSample(
            hypothesis=hypothesis,
            per=_FIXED[METRICS[metric].taken],
            baseline=samples["baseline"].values,
            candidate=samples["candidate"].values,
            classes=samples["candidate"].classes,  # the data are the same on both sides
            warnings=tuple(f"{side}: {text}" for side in SIDES for text in samples[side].warnings),
        )


_NAMES = {"memory": "peak memory", "cold_start": "start", "cpu_time": "CPU time", "first_call": "first call"}
_FIRST_CALL = Margin(metric="first_call", statistic="p50", size=0.5, floor=0.002)  # it varies more than later calls
_MOST = 3  # tests that are named


def seen_beside(evidence: Evidence, comparisons: Mapping[tuple[Measurement, str, str], Comparison]) -> str:
    """Say what was beyond its default margin in all pairs, and which marker judges it; "" where nothing was.

    CPU time goes with latency: where the latency of a test has changed it says nothing more.
    """
    asked = {one.key[:2] for one in (*evidence.hypotheses, *(one.hypothesis for one in evidence.fixed_samples))}
    judged = {metric for _, metric in asked}
    moved = {key[0] for key, one in comparisons.items() if key[1:] == MEDIAN_LATENCY and one.outcome == "regressed"}
    found = defaultdict[tuple[str, Measurement], list[Seen]](list)
    for one in (one for pair in evidence.pairs for one in pair.seen):
        left_out = one.measurement in moved or (one.measurement, one.metric) in asked
        if not left_out and (one.measurement.test or one.metric not in judged):
            found[one.metric, one.measurement].append(one)
    beyond = {key: values for key, values in found.items() if _is_beyond(key[0], values)}
    said = [part for metric in _NAMES for part in _said(metric, beyond)]
    return f"seen, not judged: {', '.join(said)}" if said else ""


def _is_beyond(metric: str, values: Sequence[Seen]) -> bool:
    """Whether the same side is beyond the margin of the other in every pair."""
    margin = _FIRST_CALL if metric == _FIRST_CALL.metric else METRICS[metric].margins[0]
    sides = [(one.baseline, one.candidate) for one in values]
    if len(values) < FIRST_PAIRS or not all(then and now for then, now in sides):
        return False
    orders = (sides, [(now, then) for then, now in sides])
    return any(
        all(more > less * (1 + max(margin.size, relative(margin.floor, less))) for less, more in order)
        for order in orders
    )


def _said(metric: str, beyond: Mapping[tuple[str, Measurement], Sequence[Seen]]) -> Iterator[str]:
    """Yield how a metric has moved, of each of some tests, and the marker that judges it."""
    of = {measurement: values for (name, measurement), values in beyond.items() if name == metric}
    if metric == _FIRST_CALL.metric:
        marker = "later calls are compared: setup= makes anew what the first one uses up"
    else:
        marker = f'hwregression({metric}="{100 * METRICS[metric].margins[0].size:g}%")'
    for place, (measurement, values) in enumerate(list(of.items())[:_MOST]):
        sides = median(one.baseline for one in values), median(one.candidate for one in values)
        test = f" of {visible(measurement.test)}" if measurement.test else ""
        yield f"{_NAMES[metric]}{test} {show_move(*sides, METRICS[metric].unit)}{'' if place else f' ({marker})'}"
    if len(of) > _MOST:
        yield f"{_NAMES[metric]} of {len(of) - _MOST} more"
