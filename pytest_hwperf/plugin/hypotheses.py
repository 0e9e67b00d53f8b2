"""What the rehearsal of a rerun has shown: which questions the pairs can answer, and why others cannot be asked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hwperf.core.contracts import CountingMeter
from pytest_hwperf.core.errors import SerialisationError, WorkerError
from pytest_hwperf.core.evidence import FixedSample, Hypothesis, Measurement, Side
from pytest_hwperf.core.records import METRICS, Better, ComparisonOutcome, Margin, Sample
from pytest_hwperf.core.serialisation import from_plain
from pytest_hwperf.plugin.command_line import COLD, MEMORY
from pytest_hwperf.plugin.state import MARKERS

if TYPE_CHECKING:
    from pytest_hwperf.pairs.lockstep import PairTrace

Why = tuple[ComparisonOutcome, str]

_PAIRED = ("latency", "throughput", "cpu_time")  # what turns can tell, beside energy
_LEAST_ENERGY = 0.05  # margin: a window's energy is also that of the temperature and of whatever else runs
_EXACT = {
    **dict.fromkeys(("accuracy", "flip_rate"), "example"),
    **dict.fromkeys(("model_size", "arena_in_use", "arena_held"), "file"),
}


@dataclass(slots=True, kw_only=True)
class Findings:
    """What can be compared, and what cannot."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    fixed_samples: list[FixedSample] = field(default_factory=list)
    processes: list[Hypothesis] = field(default_factory=list)  # memory and cold starts: each value is a fresh process
    whole: dict[str, Why] = field(default_factory=dict)  # test → why nothing of it is compared
    parts: dict[tuple[Measurement, str, str], Why] = field(default_factory=dict)  # the same for one statistic


def examine(items: Sequence[pytest.Item], trace: "PairTrace", lost: Mapping[str, Why], name: str) -> Findings:
    """Read a rehearsal.

    Args:
        items: every measured test of this session.
        trace: what the rehearsal pair went through.
        lost: test → why it was taken out of the rehearsal.
        name: of the baseline, as the user called it.
    """
    found = Findings(whole=dict(lost))
    for item in items:
        why = found.whole.get(item.nodeid) or _why_not(item.nodeid, trace, name)
        if why:
            found.whole[item.nodeid] = why
            continue
        measurements = [measurement for measurement in trace.facts if measurement.test == item.nodeid]
        for measurement in measurements:
            _ask(found, item, measurement, trace)
        for measurement in trace.uneven:
            if measurement.test == item.nodeid:
                side = trace.uneven[measurement]
                label = f" {measurement.label!r}" if measurement.label else ""
                found.parts[measurement, "", ""] = ("no baseline", f"only the {side} makes the measurement{label}")
        _ask_recorded(found, item, trace)
    return found


def _why_not(node: str, trace: "PairTrace", name: str) -> Why | None:
    """Say why nothing of a test can be compared; None where something can."""
    if node not in trace.collected.get("candidate", ()):
        return "not comparable", "a fresh process of the candidate does not collect this test"
    if node not in trace.collected["baseline"]:
        file = node.partition("::")[0]
        errors = trace.errors["baseline"]
        why = errors.get(file) or next((text for place, text in errors.items() if file.startswith(place)), "")
        return "no baseline", f"{name} cannot run this test: {why}" if why else f"{name} does not have this test"
    for side in ("candidate", "baseline"):
        found = trace.outcomes.get(node, {}).get(side, {"outcome": "lost"})
        if found["outcome"] != "passed":
            outcome: ComparisonOutcome = "no baseline" if side == "baseline" else "not comparable"
            where = name if side == "baseline" else "a fresh process of the candidate"
            return outcome, f"{found['outcome']} in {where}: {found.get('reason', '')}".rstrip(": ")
    return None


def _ask(found: Findings, item: pytest.Item, measurement: Measurement, trace: "PairTrace") -> None:
    """Put every question that a measurement's margins ask to whoever can answer it."""
    facts, exact = trace.facts[measurement], trace.exact.get(measurement, {})
    differences = _differences(facts)
    samples = {side: _samples(side, exact.get(side, {})) for side in ("baseline", "candidate")}
    markers = item.stash[MARKERS]
    named = {(margin.metric, margin.statistic) for margin in markers.named}
    metrics = {metric for metric, _ in named} | {budget.metric for budget in markers.budgets}
    for margin in markers.margins:
        hypothesis = Hypothesis(measurement=measurement, margin=margin, better=METRICS[margin.metric].better)
        if differences:
            reason = f"{'; '.join(differences)} (baseline, now)"
            if len(differences) == 1 and differences[0].startswith("data: "):
                reason += ": other rows, or rows drawn without a seed"
            found.parts[measurement, margin.metric, margin.statistic] = ("not comparable", reason)
        elif margin.metric in _EXACT:
            found.fixed_samples.extend(_fixed_sample(hypothesis, samples))
        elif margin.metric in (*MEMORY, *COLD):
            found.processes.extend([hypothesis] * (margin.metric in metrics))
        elif reciprocal := _reciprocal(margin, named):
            why = f"{reciprocal}, its reciprocal, is compared: both would be one question asked twice"
            found.parts[measurement, margin.metric, margin.statistic] = ("not comparable", why)
        elif margin.metric == "energy" and "energy" in metrics:
            _ask_energy(found, item, hypothesis)
        elif margin.metric in _PAIRED:
            found.hypotheses.append(hypothesis)


def _reciprocal(margin: Margin, named: set[tuple[str, str]]) -> str:
    """Return the metric that already answers for this one: of calls in a row, throughput is one over latency."""
    median, rate = ("latency", "p50"), ("throughput", "mean")
    if (margin.metric, margin.statistic) == median and rate in named and median not in named:
        return "throughput"
    return "latency p50" if (margin.metric, margin.statistic) == rate and median in named else ""


def _ask_energy(found: Findings, item: pytest.Item, hypothesis: Hypothesis) -> None:
    """Ask for energy where its source measures (an estimate is never gated) and can tell the margin from its steps."""
    from pytest_hwperf.plugin.session import session_state

    meter, margin = session_state(item.config).energy, hypothesis.margin
    if meter is None or meter.source.startswith("estimate:"):
        return
    step = meter.tick_s / meter.shortest_window_s if isinstance(meter, CountingMeter) else 0.0
    least = max(_LEAST_ENERGY, 2 * step)
    if margin.size < least:
        told = f"can tell margins of {100 * least:.3g} % or more, not {100 * margin.size:.3g} %"
        why = f"meter too coarse: {meter.source} {told}"
        found.parts[hypothesis.measurement, margin.metric, margin.statistic] = ("inconclusive", why)
    else:
        found.hypotheses.append(hypothesis)


def _ask_recorded(found: Findings, item: pytest.Item, trace: "PairTrace") -> None:
    """Ask for the metrics that a test records itself, where both sides do."""
    sides: dict[Side, Any] = {side: came["recorded"] for side, came in trace.outcomes.get(item.nodeid, {}).items()}
    for name, facts in sides.get("candidate", {}).items():
        measurement = Measurement(test=item.nodeid, label=facts["label"])
        if name not in sides["baseline"]:
            found.parts[measurement, name, "p50"] = ("no baseline", "the baseline does not record it")
            continue
        better: Better = "higher" if facts.get("better") == "higher" else "lower"
        margin = Margin(metric=name, statistic="p50", size=facts["margin"])
        found.hypotheses.append(Hypothesis(measurement=measurement, margin=margin, better=better))


def _differences(facts: Mapping[Side, Mapping[str, Any]]) -> list[str]:
    """Name what makes both sides another quantity: their conditions and their scenario."""
    then, now = (
        {**facts[side].get("conditions", {}), "scenario": facts[side].get("scenario", "")}
        for side in ("baseline", "candidate")
    )
    return [
        f"{key}: {then.get(key, 'absent')}, {now.get(key, 'absent')}"
        for key in sorted({*then, *now})
        if then.get(key) != now.get(key)
    ]


def _samples(side: str, exact: Mapping[str, Any]) -> dict[str, Sample]:
    try:
        found = [from_plain(Sample, plain) for plain in exact.get("samples", ())]
    except (SerialisationError, TypeError) as error:
        raise WorkerError(f"{side}: its values cannot be read ({error}): is it the same pytest-hwperf?") from error
    return {sample.metric: sample for sample in found}


def _fixed_sample(hypothesis: Hypothesis, samples: Mapping[str, Mapping[str, Sample]]) -> Iterator[FixedSample]:
    metric = hypothesis.margin.metric
    if metric in samples["baseline"] and metric in samples["candidate"]:
        yield FixedSample(
            hypothesis=hypothesis,
            per="file" if _EXACT[metric] == "file" else "example",
            baseline=samples["baseline"][metric].values,
            candidate=samples["candidate"][metric].values,
        )
