"""`hwperf bisect`: the commit that brought a regression, found by the paired gate itself."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from pytest_hwperf.checkout.revision import describe, ends, history_between, private_git_folder, top_of
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.bisect_steps import BisectionState, Comparer
from pytest_hwperf.cli.output import (
    FAILED,
    INCONCLUSIVE,
    OK,
    clear_progress,
    complain,
    progress_line,
    say,
    write_record,
)
from pytest_hwperf.gate.bisection import moved_arguments, tree_of_bad
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import COMMIT_DIGITS, Evidence
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.text import named
from pytest_hwperf.records.units import counted, show_change_interval
from pytest_hwperf.records.verdict import Policy
from pytest_hwperf.stats.bisection import (
    Bisection,
    BisectionFile,
    BisectionQuestion,
    History,
    Standing,
    Suspect,
    change_of,
    compared_in_pairs,
    known_change,
    standing,
)
from pytest_hwperf.stats.verdicts import explain, judge_comparison

_SHOWN = 20  # suspects
_GO_ON = "the same command continues, and with --restart it starts again"


def progress_text(now: Standing) -> str:
    """Say how far a bisection is."""
    return (
        f"step {now.steps + 1} of about {now.about}, {counted(now.left, 'commit')} left, "
        f"confidence {100 * now.confidence:.0f} %: comparing {(now.ask or '')[:COMMIT_DIGITS]}"
    )


def result_lines(found: BisectionFile) -> Iterator[str]:
    """Say which commit it is, or what is left, with the change and what to type."""
    steps, confidence = counted(len(found.steps), "step"), f"confidence {100 * (found.confidence or 0):.1f} %"
    if found.outcome == "found":
        (culprit,) = found.suspects
        yield _commit(culprit)
        yield from _change(found)
        yield f"{confidence} after {steps}; see it with: git show {culprit.commit}"
        return
    skipped = [one for one in found.suspects if one.reason]
    if skipped and (found.confidence or 0) >= found.sure:
        yield (
            f"inconclusive: it is one of these {counted(len(found.suspects), 'commit')} ({confidence} after {steps}), "
            f"of which {len(skipped)} cannot be compared; --restart tries all again"
        )
    else:
        left = f"{counted(found.left, 'commit')} left after {steps}"
        yield f"inconclusive when the time was up: {left}; {_GO_ON}; most likely:"
    yield from map(_commit, found.suspects[:_SHOWN])
    if len(found.suspects) > _SHOWN:
        yield f"and {len(found.suspects) - _SHOWN} more, which --json=FILE names"
    yield from _change(found)


def comparison_lines(found: BisectionFile) -> Iterator[str]:
    """Say that there is no regression to search, or that it is not sure that there is one."""
    good, bad = found.question.good[:COMMIT_DIGITS], found.question.bad[:COMMIT_DIGITS]
    if found.outcome == "inconclusive":
        yield f"inconclusive: {bad} is neither shown to be worse than {good} nor as good; nothing was searched:"
    else:
        yield f"no regression between {good} and {bad} in what pairs measure; nothing was searched:"
    for one in found.comparisons:
        yield explain(judge_comparison(metric_of(one.metric), one, Policy()))
    yield from (f"not compared: {one}: its pairs gave no values" for one in found.lost)


def _commit(suspect: Suspect) -> str:
    line = f"{suspect.commit} {suspect.date} {suspect.author}: {suspect.subject}"
    return f"{line} (not compared: {suspect.reason})" if suspect.reason else line


def _change(found: BisectionFile) -> Iterator[str]:
    if found.known is None or found.change is None:
        return
    here = found.known.measurement
    label = f" {here.label!r}" if here.label else ""
    whole = _estimate(found.known.change)
    yield (
        f"{found.known.metric} {found.known.statistic} of {here.test}{label}: {_estimate(found.change)}; "
        f"between GOOD and BAD {whole}"
    )


def _estimate(change: Estimate) -> str:
    shown = show_change_interval(change.value, change.low, change.high, "relative")
    return f"{shown}, {100 * change.confidence:.3g} % confidence, {counted(change.n, 'pair')}"


EXIT_CODES = {"found": OK, "no regression": FAILED, "inconclusive": INCONCLUSIVE}
_SETTLED = ("equivalent", "improved")
_A_DAY_S = 86_400
_LEAST_SURE, _MOST_SURE = 0.5, 0.9999


def run(options: argparse.Namespace) -> int:
    """Search, print the commit, and return the exit code."""
    sure = _sure(options.confidence)
    arg.check_time(options.time, _A_DAY_S, "3600")
    arg.check_files(json=options.json)
    if not options.handed_on:
        raise UsageProblem("no test is given: type hwperf bisect GOOD BAD -- tests/test_models.py::test_small")
    here, until = Path.cwd(), monotonic() + options.time
    top = top_of(here)
    question = _question(options, here)
    history = history_between(here, question.good, question.bad, first_parent=question.first_parent)
    kept = private_git_folder(here)
    with tree_of_bad(here, top, question.bad, options.share, sys.path, options.handed_on) as tree:
        if tree.laid:
            complain(f"used from your tree, since BAD lacks a test that you name: {named([*tree.laid])}")
            question = replace(question, laid=tree.laid)
        state = BisectionState(kept, question)
        known = None if options.restart else state.read(history)
        arguments = moved_arguments(question.arguments, top, tree.top)
        comparer = Comparer(tree=tree, arguments=arguments, until=until)
        found = _searched(question, history, known, comparer, state, sure)
    clear_progress()
    if found.outcome != "inconclusive":
        state.forget()
    if options.json:
        write_record(options.json, found)
    for line in result_lines(found) if found.known else comparison_lines(found):
        say(line)
    return EXIT_CODES[found.outcome]


def _sure(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    sure = float(match[1]) / 100 if match else 0.0
    if not _LEAST_SURE <= sure <= _MOST_SURE:
        raise UsageProblem(f"--confidence={text!r}: a percentage from 50% to 99.99%, such as 95%")
    return sure


def _question(options: argparse.Namespace, here: Path) -> BisectionQuestion:
    good, bad = ends(here, options.good, options.bad)
    return BisectionQuestion(
        good=good,
        bad=bad,
        first_parent=options.first_parent,
        folder=here.resolve().relative_to(top_of(here)).as_posix(),
        arguments=(*options.handed_on, *(f"--hwperf-share={glob}" for glob in options.share)),
    )


def _searched(
    question: BisectionQuestion,
    history: History,
    known: Bisection | None,
    comparer: Comparer,
    state: BisectionState,
    sure: float,
) -> BisectionFile:
    """Compare both ends unless that is known, then search between them."""
    line = progress_line()
    if known is None:
        with line.timed(f"comparing both ends of {len(history.commits)} commits"):
            evidence = comparer.ends(question.good)
        change = known_change(evidence)
        if change is None:
            return _without_regression(question, evidence)
        known = Bisection(question=question, known=change)
        state.keep(known)
    while (now := standing(history, known, sure)).ask is not None and comparer.in_time():
        with line.timed(progress_text(now)):
            step = comparer.step(now.ask, known.known)
        if step.reason and not comparer.in_time():  # the end of the time is no fault of the commit
            break
        known = replace(known, steps=(*known.steps, step))
        state.keep(known)
    return _found(known, now, history, sure)


def _without_regression(question: BisectionQuestion, evidence: Evidence) -> BisectionFile:
    """Say that there is none; inconclusive where a comparison is, or where a median latency could not be compared."""
    found = compared_in_pairs(evidence)
    lost = [one for one in evidence.hypotheses if one not in found]
    is_settled = found and all(one.outcome in _SETTLED for one in found.values())
    is_settled = is_settled and not any(one.margin.key == MEDIAN_LATENCY for one in lost)
    return BisectionFile(
        outcome="no regression" if is_settled else "inconclusive",
        question=question,
        comparisons=tuple(found.values()),
        lost=tuple(f"{one.margin.metric} {one.margin.statistic} of {one.measurement.test}" for one in lost),
    )


def _found(bisection: Bisection, now: Standing, history: History, sure: float) -> BisectionFile:
    told = (describe(Path.cwd(), one)._asdict() for one in now.suspects)
    suspects = tuple(Suspect(**one, reason=now.skipped.get(one["commit"], "")) for one in told)
    is_one = len(suspects) == 1 and now.confidence >= sure
    return BisectionFile(
        outcome="found" if is_one else "inconclusive",
        question=bisection.question,
        known=bisection.known,
        steps=bisection.steps,
        suspects=suspects,
        confidence=min(1.0, now.confidence),
        sure=sure,
        left=now.left,
        change=change_of(history, bisection, now.suspects),
    )


COMMANDS = (
    arg.Subcommand(
        "bisect",
        run,
        "find the commit that brought a regression",
        (
            arg.option("good", "GOOD", "a revision before the regression"),
            arg.option(
                "bad",
                "BAD",
                "a revision with the regression; its tests are run, and your own that git does not track yet",
            ),
            arg.flag("--first-parent", "a merged branch counts as its merge commit"),
            arg.option("--confidence", "PERCENT", "at which it ends; default: 95%%", default="95%"),
            arg.seconds("--time", 3600.0, "for all steps"),
            arg.several("--share", "GLOB", "files that git does not have; repeatable"),
            arg.flag("--restart", "start again instead of continuing"),
            arg.written_json("what was found"),
        ),
        "Search the commits between GOOD and BAD for the one that made a test slower. Each step compares BAD with a "
        "commit in pairs of fresh processes; inconclusive steps are repeated. Your checkout stays as it is. Exit code "
        "0: found; 1: no regression between GOOD and BAD; 3: inconclusive, and the same command goes on; 4: usage.",
        "%(prog)s GOOD BAD [option ...] -- TEST [PYTEST_ARGUMENT ...]",
    ),
)
