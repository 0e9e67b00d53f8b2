"""`hwperf bisect`: the commit that brought a regression, found by the paired gate itself."""

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pytest_hwperf.checkout.revision import describe, ends, history_between, private_git_folder, top_of
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli import output
from pytest_hwperf.cli.inputs import Session, read_own, run_pytest
from pytest_hwperf.gate.bisection import BadTree, moved_arguments, tree_of_bad
from pytest_hwperf.host.files import replace_file
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import COMMIT_DIGITS, Evidence
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.text import named, visible
from pytest_hwperf.records.units import counted, show_change_interval
from pytest_hwperf.records.verdict import Policy
from pytest_hwperf.stats.pairs import bisection
from pytest_hwperf.stats.verdicts import explain, judge_comparison

EXIT_CODES = {"found": output.OK, "no regression": output.FAILED, "inconclusive": output.INCONCLUSIVE}
_LEAST_SURE, _MOST_SURE = 0.5, 0.9999
_LEAST_S = 1.0  # of a session: less is no time
_LONGEST_REASON = 300  # characters
_SHOWN = 20  # suspects
# No change is beyond it, so that a step has the pairs of the screen and no others.
_BEYOND_ALL = "100000%"


def run(options: argparse.Namespace) -> int:
    """Search, print the commit, and return the exit code."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", options.confidence)
    sure = float(match[1]) / 100 if match else 0.0
    if not _LEAST_SURE <= sure <= _MOST_SURE:
        raise UsageProblem(f"--confidence={options.confidence!r}: a percentage from 50% to 99.99%, such as 95%")
    arg.check_seconds(arg.A_DAY_S, "3600", time=options.time)
    if not options.handed_on:
        raise UsageProblem("no test is given: type hwperf bisect GOOD BAD -- tests/test_models.py::test_small")
    here, until = Path.cwd(), monotonic() + options.time
    top, (good, bad) = top_of(here), ends(here, options.good, options.bad)
    question = bisection.BisectionQuestion(
        good=good,
        bad=bad,
        first_parent=options.first_parent,
        folder=here.resolve().relative_to(top).as_posix(),
        arguments=(*options.handed_on, *(f"--hwperf-share={glob}" for glob in options.share)),
    )
    history = history_between(here, good, bad, first_parent=options.first_parent)
    kept = private_git_folder(here)
    with tree_of_bad(here, top, bad, options.share, sys.path, options.handed_on) as tree:
        if tree.laid:
            output.complain(f"used from your tree, since BAD lacks a test that you name: {named([*tree.laid])}")
            question = replace(question, laid=tree.laid)
        state = BisectionState(kept, question)
        known = None if options.restart else state.read(history)
        comparer = Comparer(tree=tree, arguments=moved_arguments(question.arguments, top, tree.top), until=until)
        found = _searched(history, known, comparer, state, sure)
    output.clear_progress()
    if found.outcome != "inconclusive":
        state.path.unlink(missing_ok=True)
    if options.json:
        output.write_record(options.json, found)
    for line in result_lines(found):
        output.say(line)
    return EXIT_CODES[found.outcome]


def _searched(
    history: bisection.History,
    known: bisection.Bisection | None,
    comparer: "Comparer",
    state: "BisectionState",
    sure: float,
) -> bisection.BisectionFile:
    """Compare both ends unless that is known, then search between them."""
    line = output.progress_line()
    if known is None:
        with line.timed(f"comparing both ends of {len(history.commits)} commits"):
            evidence = comparer.ends(state.question.good)
        change = bisection.known_change(evidence)
        if change is None:
            return _without_regression(state.question, evidence)
        known = bisection.Bisection(question=state.question, known=change)
        state.keep(known)
    while (now := bisection.standing(history, known, sure)).ask is not None and comparer.in_time():
        left = f"{counted(now.left, 'commit')} left, confidence {100 * now.confidence:.0f} %"
        step_of = f"step {now.steps + 1} of about {now.about}, {left}"
        with line.timed(f"{step_of}: comparing {now.ask[:COMMIT_DIGITS]}"):
            step = comparer.step(now.ask, known.known)
        if step.reason and not comparer.in_time():  # the end of the time is no fault of the commit
            break
        known = replace(known, steps=(*known.steps, step))
        state.keep(known)
    told = (describe(Path.cwd(), one)._asdict() for one in now.suspects)
    suspects = tuple(bisection.Suspect(**one, reason=now.skipped.get(one["commit"], "")) for one in told)
    return bisection.BisectionFile(
        outcome="found" if len(suspects) == 1 and now.confidence >= sure else "inconclusive",
        question=known.question,
        known=known.known,
        steps=known.steps,
        suspects=suspects,
        confidence=min(1.0, now.confidence),
        sure=sure,
        left=now.left,
        change=bisection.change_of(history, known, now.suspects),
    )


def _without_regression(question: bisection.BisectionQuestion, evidence: Evidence) -> bisection.BisectionFile:
    """Say that there is none; inconclusive where a comparison is, or where a median latency could not be compared."""
    found = bisection.compared_in_pairs(evidence)
    lost = [one for one in evidence.hypotheses if one not in found]
    is_settled = found and all(one.outcome in ("equivalent", "improved") for one in found.values())
    is_settled = is_settled and not any(one.margin.key == MEDIAN_LATENCY for one in lost)
    return bisection.BisectionFile(
        outcome="no regression" if is_settled else "inconclusive",
        question=question,
        comparisons=tuple(found.values()),
        lost=tuple(f"{one.margin.metric} {one.margin.statistic} of {one.measurement.test}" for one in lost),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """Starts pytest in the tree of BAD, against another commit."""

    tree: BadTree
    arguments: Sequence[str]  # of pytest, as the user gave them
    until: float  # instant of `clock`
    run: Callable[..., Session] = run_pytest
    clock: Callable[[], float] = monotonic

    def in_time(self) -> bool:
        """Whether another session can be begun."""
        return self.clock() < self.until - _LEAST_S

    def ends(self, good: str) -> Evidence:
        """Compare BAD with GOOD as a gate does."""
        session, failed = self._session(good), f"BAD cannot be compared with GOOD ({good[:COMMIT_DIGITS]})"
        if session.report is None or not session.report.gates:
            late = "" if self.in_time() else "the time was up; give a larger --time: "
            raise UsageProblem(f"{late}{failed}:\n{session.output}")
        evidence = session.report.gates[0].evidence
        if not any(pair.observations for pair in evidence.pairs):
            raise UsageProblem(f"{failed}: {_reason(session.report, None) or 'pairs have measured nothing'}")
        return evidence

    def step(self, commit: str, known: bisection.KnownChange) -> bisection.BisectionStep:
        """Compare BAD with a commit by the pairs of a screen alone."""
        keyword = next((word for word, one in DEFAULT_MARGINS.items() if one.key == known.key[1:]), "")
        margin = [f"--hwperf-margin={keyword}={_BEYOND_ALL}"] if keyword else []
        energy = [] if known.metric == "energy" else ["--hwperf-energy=off"]
        session = self._session(commit, *margin, *energy, "--hwperf-sample-time=0.1")
        gates = session.report.gates if session.report else ()
        if values := bisection.pair_values(gates[0].evidence, known.key, known.better) if gates else ():
            return bisection.BisectionStep(commit=commit, values=values)
        said = [line.strip() for line in session.output.splitlines() if line.strip()] or ["pytest has said nothing"]
        reason = _reason(session.report, known) if session.report else visible(said[-1])
        reason = (reason or "the pairs have measured nothing")[:_LONGEST_REASON]
        return bisection.BisectionStep(commit=commit, reason=reason)

    def _session(self, commit: str, *options: str) -> Session:
        left = max(_LEAST_S, self.until - self.clock())
        against = [f"--hwperf-against={commit}", f"--hwperf-time-limit={left:.0f}", "--hwperf-explain=never"]
        against += ["-o", "hwperf_affected=false"]  # each step needs the values of pairs
        return self.run(
            ["-p", "no:cacheprovider", *self.arguments, *options, *against],
            directory=self.tree.folder,
            environment=self.tree.environment,
        )


def _reason(report: Report, known: bisection.KnownChange | None) -> str:
    """Return why a comparison could not be made; "" where nothing is said."""
    reasons = (
        one.reason
        for judgement in report.judgements
        for one in judgement.comparisons
        if known is None or (judgement.run.test == known.measurement.test and one.key == known.key[1:])
    )
    return next(filter(None, reasons), "")


_LARGEST = 64 * 2**20  # bytes
_AGAIN = "start again with --restart"
_DIGITS = 16


class BisectionState:
    """The file of one question; the same command finds it again."""

    def __init__(self, git_folder: Path, question: bisection.BisectionQuestion) -> None:
        digest = hashlib.sha256(to_json(question)).hexdigest()[:_DIGITS]
        self.question, self.path = question, git_folder / "hwperf-bisect" / f"{digest}.json"

    def read(self, history: bisection.History) -> bisection.Bisection | None:
        """Return what is known so far; None: nothing."""
        if not os.path.lexists(self.path):
            return None
        found = read_own(bisection.Bisection, self.path, _LARGEST, other=_AGAIN, older=_AGAIN)
        if found.question != self.question and replace(found.question, laid=self.question.laid) == self.question:
            raise UsageProblem(f"{self.path} is of a search with other content of your test files: {_AGAIN}")
        if found.question != self.question or any(step.commit not in history.reach for step in found.steps):
            raise UsageProblem(f"{self.path} is about other commits: {_AGAIN}")
        return found

    def keep(self, known: bisection.Bisection) -> None:
        """Replace the file atomically."""
        try:
            replace_file(self.path, to_json(known) + b"\n")
        except OSError as error:
            raise UsageProblem(f"{self.path} cannot be written ({error.strerror}): free it, then go on") from error


def result_lines(found: bisection.BisectionFile) -> Iterator[str]:
    """Say which commit it is, or what is left, with the change and what to type; or why nothing was searched."""
    if found.known is None and not found.suspects:
        good, bad = found.question.good[:COMMIT_DIGITS], found.question.bad[:COMMIT_DIGITS]
        ends = f"no regression between {good} and {bad} in what pairs measure"
        if found.outcome == "inconclusive":
            ends = f"inconclusive: {bad} is neither shown to be worse than {good} nor as good"
        yield f"{ends}; nothing was searched:"
        yield from (explain(judge_comparison(metric_of(one.metric), one, Policy())) for one in found.comparisons)
        yield from (f"not compared: {one}: its pairs gave no values" for one in found.lost)
        return
    steps, confidence = counted(len(found.steps), "step"), f"confidence {100 * (found.confidence or 0):.1f} %"
    skipped = sum(bool(one.reason) for one in found.suspects)
    if found.outcome == "inconclusive" and skipped and (found.confidence or 0) >= found.sure:
        suspects = counted(len(found.suspects), "commit")
        yield (
            f"inconclusive: it is one of these {suspects} ({confidence} after {steps}), of which {skipped} cannot be "
            "compared; --restart tries all again"
        )
    elif found.outcome == "inconclusive":
        yield (
            f"inconclusive when the time was up: {counted(found.left, 'commit')} left after {steps}; the same command "
            "continues, and with --restart it starts again; most likely:"
        )
    for one in found.suspects[:_SHOWN]:
        why = f" (not compared: {one.reason})" if one.reason else ""
        yield f"{one.commit} {one.date} {one.author}: {one.subject}{why}"
    if len(found.suspects) > _SHOWN:
        yield f"and {len(found.suspects) - _SHOWN} more, which --json=FILE names"
    if found.known and found.change:
        here, changes = found.known.measurement, [_change(one) for one in (found.change, found.known.change)]
        what = f"{found.known.metric} {found.known.statistic} of {here.test}{f' {here.label!r}' if here.label else ''}"
        yield f"{what}: {changes[0]}; between GOOD and BAD {changes[1]}"
    if found.outcome == "found":
        yield f"{confidence} after {steps}; see it with: git show {found.suspects[0].commit}"


def _change(change: Estimate) -> str:
    shown = show_change_interval(change.value, change.low, change.high, "relative")
    return f"{shown}, {100 * change.confidence:.3g} % confidence, {counted(change.n, 'pair')}"


_ARGUMENTS = (
    arg.option("good", "GOOD", "start after this revision, e.g. v1.4"),
    arg.option("bad", "BAD", "end at this slower revision, and run its tests, e.g. HEAD"),
    arg.flag("--first-parent", "count a merged branch as its merge commit"),
    arg.option("--confidence", "PERCENT", "stop at this probability of one commit", default="95%"),
    arg.seconds("--time", 3600.0, "limit the time of all steps"),
    arg.several("--share", "GLOB", "share untracked files with each step, e.g. models/*.onnx"),
    arg.flag("--restart", "start again instead of continuing"),
    arg.written_json("the commit, its change and every step"),
)
COMMAND = arg.Subcommand(
    "bisect",
    run,
    "find the commit that brought a regression",
    _ARGUMENTS,
    "Find the commit between GOOD and BAD that made a test slower, in pairs of fresh processes. Your checkout stays "
    "as it is. After Ctrl-C or the end of --time, the same command continues, if both ends were compared.",
    "%(prog)s GOOD BAD [option ...] -- TEST [PYTEST_ARGUMENT ...]",
    answers={0: "found", 1: "found no regression between GOOD and BAD", 3: "inconclusive"},
)
