"""The paired gate of a session: rerun the baseline beside the candidate before the first test, and keep what it found.

The only part of the shell that drives `duet.conductor`.
"""

import secrets
import signal
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic
from types import FrameType
from typing import NoReturn

import pytest

from pytest_hwperf.core.baselines import without
from pytest_hwperf.core.comparisons import compare_exact
from pytest_hwperf.core.errors import HwperfError, UsageProblem
from pytest_hwperf.core.evidence import Evidence, FixedSample, Gate, Hypothesis, Measurement, Side
from pytest_hwperf.core.ranks import fewest_pairs
from pytest_hwperf.core.records import METRICS, Comparison, Margin, replace
from pytest_hwperf.core.sequence import check_alpha, decide
from pytest_hwperf.host.one_shot import ask_in_turn
from pytest_hwperf.host.worker_protocol import Role
from pytest_hwperf.pairs.conductor import Conductor
from pytest_hwperf.pairs.cpu_pin import processors
from pytest_hwperf.pairs.lockstep import PairTrace
from pytest_hwperf.plugin.command_line import MEMORY
from pytest_hwperf.plugin.hypotheses import Findings, Why, examine
from pytest_hwperf.plugin.progress import ProgressLine
from pytest_hwperf.plugin.session import session_state
from pytest_hwperf.plugin.state import RERUN, SETTINGS, is_measured
from pytest_hwperf.plugin.trees import commands, prove, trees
from pytest_hwperf.trees.revision import has_commit, resolve

Key = tuple[Measurement, str, str]  # what was measured, metric, statistic

_SHORT = 10  # digits of a commit, as shown
_CRASHES = 5  # tests that may crash in the rehearsal before the run is given up
_FEWEST_PROCESSES = 3  # a side: where their values agree, no more are needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What the pairs found, for the tests of this session to be judged by."""

    gate: Gate
    comparisons: Mapping[Key, Comparison]
    findings: Findings
    changed: frozenset[Path]  # test files whose own work the pairs cannot compare

    trace: frozenset[Measurement]  # at the rehearsal

    def is_blind_to(self, path: Path) -> bool:
        """Whether a test of this file, or what its conftest files give it, may have changed unseen."""
        return path in self.changed or any(folder / "conftest.py" in self.changed for folder in path.parents)

    def compare(self, measurement: Measurement, margin: Margin, *, measured: bool, named: bool) -> Comparison | None:
        """Return the comparison of one statistic, or why there is none; None where the pairs know nothing.

        Args:
            measurement: of the present session.
            margin: names the statistic.
            measured: the statistic, in the present session.
            named: the margin, by the user.
        """
        key = (measurement, margin.metric, margin.statistic)
        if key in self.comparisons:
            return self.comparisons[key]
        parts = self.findings.parts
        why = parts.get(key)
        if why is None and (measured or named):
            why = self.findings.whole.get(measurement.test) or parts.get((measurement, "", ""))
        if why is None and measured and measurement not in self.trace:
            why = ("not comparable", "the pairs did not meet this measurement: its label differs between processes")
        return without(margin, *why) if why else None


def rerun(session: pytest.Session) -> None:
    """Run the pairs for every measured test of the session, if pairs were asked for.

    Raises:
        pytest.UsageError: they cannot be run; says why and what to do.
    """
    config = session.config
    items = [item for item in session.items if is_measured(item)]
    if not items and not _workers(config):  # who hands tests out to workers has collected none
        return
    try:
        against, name = _against(config, items)
        if against:
            config.stash[RERUN] = _run(config, items, against, name)
    except (HwperfError, OSError) as error:
        raise pytest.UsageError(f"hwperf: {error}") from error


def _against(config: pytest.Config, items: Sequence[pytest.Item]) -> tuple[str, str]:
    """Return what to rerun and how to call it; "" where stored timings have to do, which is said aloud."""
    settings = config.stash[SETTINGS]
    if settings.against:
        return settings.against, settings.against
    if settings.rerun == "never":
        return "", ""
    sessions = session_state(config).store.newest(settings.baseline)
    tests = {item.nodeid for item in items}
    chosen = [session.run for session in sessions if session.run.test in tests or _workers(config)]
    revisions = {run.started_at: run.revision for run in chosen}
    newest = revisions[max(revisions)] if revisions else ""
    name = f"baseline {settings.baseline}"
    if not revisions:
        return "", ""  # the first run: each comparison says that there is no baseline
    reason = _why_not_rerun(config, newest)
    if reason:
        ProgressLine(config).say(
            f"hwperf: {name} is not rerun, since {reason}: its timings are compared with what is stored, historical, "
            "without a guaranteed false-alarm rate"
        )
        return "", ""
    return newest, f"{name} ({newest[:_SHORT]})"


def _why_not_rerun(config: pytest.Config, revision: str) -> str:
    if not revision:
        return "it was saved outside of git"
    if revision.endswith("+changes"):
        return "it was saved with changes that were not committed"
    if not has_commit(config.rootpath, revision):
        return f"this repository does not have its revision {revision[:_SHORT]} (git fetch --unshallow)"
    if _workers(config):
        return "test workers run side by side (-n)"
    return ""


def check_against(config: pytest.Config) -> None:
    """Refuse what would only fail after the collection: test workers beside the pairs, an unknown revision.

    Raises:
        pytest.UsageError: says what to type instead.
    """
    settings = config.stash[SETTINGS]
    try:
        check_alpha(settings.alpha)
    except UsageProblem as error:
        raise pytest.UsageError(f"--hwperf-alpha: {error}") from error
    if settings.base_python and not (config.invocation_params.dir / settings.base_python).is_file():
        raise pytest.UsageError(f"--hwperf-base-python={settings.base_python!r} is no file; give an interpreter")
    if not (config.invocation_params.dir / settings.against).is_dir():
        try:
            resolve(config.rootpath, settings.against)
        except HwperfError as error:
            raise pytest.UsageError(f"--hwperf-against={settings.against}: {error}") from error
    if _workers(config):
        raise pytest.UsageError(
            "--hwperf-against needs the machine for itself, and -n starts test workers side by side: run measured "
            "tests alone with -n0 --hwperf-only --hwperf-against=…, and the others with -n … --hwperf-skip"
        )


def _workers(config: pytest.Config) -> bool:
    return bool(config.getoption("tx", None)) or str(config.getoption("numprocesses", None) or 0) != "0"


def _run(config: pytest.Config, items: Sequence[pytest.Item], against: str, name: str) -> Rerun:
    files = list(dict.fromkeys(item.path for item in items if item.path.exists()))
    settings, shown, seed = config.stash[SETTINGS], ProgressLine(config), secrets.randbits(63)
    began = monotonic()
    with _terminable(), trees(config, against, files) as found:
        conductor = Conductor(
            commands=commands(config, found, files),
            random=Random(seed),  # noqa: S311 - a fair coin whose throws can be repeated, no secret
            logs=_logs(config),
            processors=processors(),
            tell=shown.tell,
        )
        conductor.seconds["checkout"] = monotonic() - began
        trace, lost = _rehearsed(conductor, [item.nodeid for item in items], name)
        warnings = [*found.warnings, prove(config, found, trace.files, files) if trace.files else ""]
        findings = examine(items, trace, lost, name)
        _refuse_nothing(items, findings)
        check_alpha(
            settings.alpha, len(findings.hypotheses) + len(findings.fixed_samples) + len(findings.processes) or 1
        )
        evidence = Evidence(
            alpha=settings.alpha,
            hypotheses=tuple(findings.hypotheses),
            pairs=(),
            fixed_samples=tuple(findings.fixed_samples),
        )
        weighed = _weighed(conductor, findings, settings.alpha)
        evidence = replace(evidence, fixed_samples=(*evidence.fixed_samples, *weighed))
        until = began + settings.gate_time_s
        evidence = conductor.conduct(evidence, until, f"the time of {settings.gate_time_s:g} s was up")
    findings.parts.update(_dropped(conductor))
    gate = Gate(
        against=name,
        revision=found.revision,
        seed=seed,
        evidence=evidence,
        shared=found.shared,
        seconds={stage: round(seconds, 3) for stage, seconds in conductor.seconds.items()},
        warnings=tuple(filter(None, warnings)),
    )
    compared = len({item.nodeid for item in items} - findings.whole.keys())
    for line in (summary(gate, compared, len(items)), *gate.warnings):
        shown.say(f"hwperf: {line}")
    comparisons = _compared(evidence)
    silent = {
        key for hypothesis in evidence.hypotheses if (key := _key(hypothesis)) not in comparisons
    } - findings.parts.keys()
    findings.parts.update(dict.fromkeys(silent, ("inconclusive", evidence.stopped)))
    return Rerun(
        gate=gate,
        comparisons=comparisons,
        findings=findings,
        changed=found.changed,
        trace=frozenset({*trace.facts, *trace.uneven}),
    )


def summary(gate: Gate, compared: int, tests: int) -> str:
    """Say in one line what was rerun, how often and how long, and how many tests it could compare."""
    counts = {stage: sum(pair.stage == stage for pair in gate.evidence.pairs) for stage in ("screen", "confirm")}
    pairs = " + ".join(f"{count} {stage}" for stage, count in counts.items() if count) or "no"
    short = gate.revision[:_SHORT]
    revision = f" ({short})" if short and short not in gate.against else ""
    spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in gate.seconds.items())
    return (
        f"{gate.against}{revision} rerun beside the present code, {pairs} pairs of fresh processes, "
        f"{compared} of {tests} tests compared: {spent}"
    )


def _refuse_nothing(items: Sequence[pytest.Item], findings: Findings) -> None:
    """Refuse to go on where the candidate's own processes could not run a single test: the gate itself is broken."""
    reasons = [why for item in items if (why := findings.whole.get(item.nodeid))]
    if len(reasons) == len(items) and all(outcome == "not comparable" for outcome, _ in reasons):
        raise UsageProblem(f"nothing could be compared: {reasons[0][1]}")


def _rehearsed(conductor: Conductor, nodes: Sequence[str], name: str) -> tuple[PairTrace, dict[str, Why]]:
    """Rehearse; a test that takes its process down is left out, and the others are rehearsed again without it."""
    lost = dict[str, Why]()
    while True:
        trace = conductor.rehearse([node for node in nodes if node not in lost])
        if not trace.lost:
            return trace, lost
        if not trace.unfinished or len(lost) == _CRASHES:
            raise UsageProblem(f"the rehearsal of {name} beside the present code failed: {trace.lost}")
        ours = trace.lost.startswith("candidate")
        lost[trace.unfinished] = ("not comparable" if ours else "no baseline", trace.lost)


def _weighed(conductor: Conductor, findings: Findings, alpha: float) -> Iterator[FixedSample]:
    """Weigh and cold-start both sides in fresh processes, turn about; more of them where their values differ."""
    family = len(findings.hypotheses) + len(findings.fixed_samples) + len(findings.processes)
    enough = max(_FEWEST_PROCESSES, fewest_pairs(alpha / max(1, family)))
    for hypothesis in findings.processes:
        metric = hypothesis.margin.metric
        role: Role = "memory" if metric in MEMORY else "cold"
        try:
            values = _processes(conductor, role, hypothesis, _FEWEST_PROCESSES)
            if _is_suspect(
                hypothesis, values
            ):  # asked again of fresh ones: those that raised the question cannot answer it
                values = _processes(conductor, role, hypothesis, enough)
        except HwperfError as error:
            findings.parts[_key(hypothesis)] = ("not comparable", str(error).partition("\n")[0])
            continue
        yield FixedSample(
            hypothesis=hypothesis,
            per="fresh process",
            baseline=array("d", values["baseline"]),
            candidate=array("d", values["candidate"]),
        )


def _is_suspect(hypothesis: Hypothesis, values: Mapping[Side, Sequence[float]]) -> bool:
    """Whether the first processes leave it open that the candidate is worse by more than the margin."""
    found = compare_exact(
        METRICS[hypothesis.margin.metric],
        hypothesis.margin.statistic,
        values["baseline"],
        values["candidate"],
        hypothesis.margin,
    )
    return found.outcome in ("regressed", "inconclusive")


def _processes(conductor: Conductor, role: Role, hypothesis: Hypothesis, count: int) -> dict[Side, list[float]]:
    """Ask pairs of processes until each side has `count` values; who begins is drawn."""
    values: dict[Side, list[float]] = {"baseline": [], "candidate": []}
    began, metric = monotonic(), hypothesis.margin.metric
    while len(values["baseline"]) < count:
        sides: list[Side] = ["baseline", "candidate"]
        conductor.random.shuffle(sides)
        chosen = [conductor.commands[side] for side in sides]
        at_once = len(sides) if role == "memory" else 1  # peaks do not depend on neighbours, times do
        here, asked = hypothesis.measurement, "peak" if role == "memory" else role  # nobody compares growth
        answers = ask_in_turn(asked, here.test, here.label, chosen, at_once=at_once)
        for side, answer in zip(sides, answers, strict=True):
            if metric not in answer.values:
                raise UsageProblem(f"{side}: {answer.reasons.get(metric, 'not measured')}")
            values[side].append(answer.values[metric])
    conductor.seconds["processes"] = conductor.seconds.get("processes", 0.0) + monotonic() - began
    return values


def _compared(evidence: Evidence) -> dict[Key, Comparison]:
    return {_key(hypothesis): comparison for hypothesis, comparison in decide(evidence).items()}


def _dropped(conductor: Conductor) -> dict[Key, Why]:
    return {_key(hypothesis): ("not comparable", reason) for hypothesis, reason in conductor.dropped.items()}


def _key(hypothesis: Hypothesis) -> Key:
    return hypothesis.measurement, hypothesis.margin.metric, hypothesis.margin.statistic


def _logs(config: pytest.Config) -> Path:
    cache = getattr(config, "cache", None)
    if cache is None:
        return config.rootpath / ".hwperf" / "logs"
    return Path(cache.mkdir("hwperf-logs"))


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM, as a job's cancellation sends it, end the pairs as Ctrl-C does: no process and no tree stays."""

    def interrupted(signum: int, frame: FrameType | None) -> NoReturn:
        del signum, frame
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupted)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
