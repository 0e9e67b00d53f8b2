"""What `hwperf bisect` says: the line of progress, the commit, and why there is none."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pytest_hwperf.cli.progress import ProgressLine
from pytest_hwperf.core.bisection import BisectionFile, Standing, Suspect
from pytest_hwperf.core.evidence import COMMIT_DIGITS
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.records import Estimate, Policy
from pytest_hwperf.core.units import counted, show_change_interval
from pytest_hwperf.core.verdicts import explain, judge_comparison
from pytest_hwperf.host.ticker import ticking

_SHOWN = 20  # suspects
_GO_ON = "the same command continues, and with --restart it starts again"


class StepLine:
    """The line that shows how far a bisection is, with the seconds of the step that runs."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._line = ProgressLine()

    @contextmanager
    def shown(self, text: str) -> Iterator[None]:
        """Show a text until the block is over."""
        self._line.show(text)
        with ticking(lambda seconds: self._line.show(text, f", {seconds:.0f} s")):
            yield

    def step(self, now: Standing) -> AbstractContextManager[None]:
        """Show how far a bisection is until its step is over."""
        return self.shown(progress_text(now))


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
