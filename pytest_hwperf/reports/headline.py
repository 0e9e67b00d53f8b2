"""The headline of a report: one sentence that a manager understands, made of verdicts and never of means."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, reasons, some_of
from pytest_hwperf.records.verdict import Budget, Comparison
from pytest_hwperf.reports.rows import WORST_FIRST, Tone

_NOT_MADE = ("no baseline", "not comparable")
_LEFT_OUT = "left out"  # equivalent without a pair: counted in tests, for none of its statistics was measured
_LONGEST_REASON = 300  # characters of why nothing was compared


class Headline(Record, frozen=True, kw_only=True):
    """What became of a run."""

    sentence: str  # without a full stop
    state: Tone  # "bad": something fails; "doubtful": something is open; "plain": nothing was to be judged


def headline_of(report: Report) -> Headline:
    """Say in one sentence what became of a run; of several kinds of machine what became of it on each, the worst first.

    Regressions and what was compared are counted in tests; everything else in verdicts, of which a test has several.
    """
    if not report.kinds and not report.missing_kinds:
        return _of_one(report)
    found = [(kind, _of_one(report.of_kind(kind))) for kind in report.kinds]
    found.sort(key=lambda one: WORST_FIRST.index(one[1].state))
    parts = [f"{kind}: {own.sentence}" for kind, own in found]
    parts += [f"{kind or 'one more kind of machine'} is missing" for kind in report.missing_kinds]
    parts += ["interrupted, so that tests are missing"] if report.partial else []
    states = [own.state for _, own in found]
    states += ["doubtful"] if report.missing_kinds or report.partial else []
    rates = [_rate_of_shards(report.of_kind(kind)) for kind in report.kinds]
    known = [rate for rate in rates if rate is not None]
    if len(rates) > 1 and len(known) == len(rates):  # over all kinds of machine at most the sum of theirs
        parts.append(f"over all {len(rates)} kinds of machine at most {sum(known):.6g} % false alarms")
    return Headline(sentence="; ".join(parts), state=min(states, key=WORST_FIRST.index))


def _of_one(report: Report) -> Headline:
    shards = list[str]()
    if report.missing_shards:
        there = ", ".join(str(shard.number) for shard in report.shards)
        shards = [f"only shard{'s' if len(report.shards) > 1 else ''} {there} of {report.shards[0].of}"]
    if not report.judgements:
        state: Tone = "doubtful" if report.partial or report.missing_shards else "plain"
        failed = [*_failed(report)]
        parts = [*failed, "Nothing was measured", *shards]
        return Headline(sentence="; ".join(parts), state="bad" if failed else state)
    made = [one for judgement in report.judgements for one in judgement.comparisons]
    compared = Counter[str](_LEFT_OUT if one.is_left_out else one.outcome for one in made)
    verdicts = [verdict for judgement in report.judgements for verdict in judgement.verdicts]
    budgets = Counter[str](verdict.outcome for verdict in verdicts if isinstance(verdict.subject, Budget))
    parts = [*(_compared(report, compared) if compared else ())]
    missed, kept, every = budgets["failed"], budgets["passed"], budgets.total()
    if missed:
        parts.append(f"{missed} of {counted(every, 'budget')} missed")
    elif kept:
        parts.append(f"{counted(kept, 'budget')} kept" if kept == every else f"{kept} of {every} budgets kept")
    parts += [*_open(report, compared, budgets), *shards]
    if not verdicts:
        measured = counted(len({judgement.run.test for judgement in report.judgements}), "test")
        parts = [f"{measured} measured only, no budget or baseline", *parts]
    return Headline(sentence="; ".join([*_failed(report), *parts]), state=_state(report, compared, budgets))


def _failed(report: Report) -> Iterator[str]:
    """Yield which tests failed in another way than by a verdict, as by an error of their own."""
    if failed := report.failed_otherwise:
        yield f"{counted(len(failed), 'test')} failed without a verdict ({_named(failed)})"


def hidden_by_xfails(tests: Collection[str]) -> str:
    """Say which tests fail by their verdicts and are expected to fail since the candidate; "" where none is."""
    return f"{counted(len(tests), 'failing test')} hidden by a new xfail: {_named(tests)}" if tests else ""


def false_alarms(report: Report) -> str:
    """Write `at most 1 % false alarms per build`, as the comparisons promise; "" where none promises anything."""
    made = [one for judgement in report.judgements for one in judgement.comparisons if one.outcome not in _NOT_MADE]
    rates = {one.promise.numbers["alpha"] for one in made if one.promise and "alpha" in one.promise.numbers}
    rates |= {100 * gate.evidence.alpha for gate in report.gates if made}
    unknown = any(one.is_historical for one in made)
    if not rates:
        return "false-alarm rate not guaranteed" if unknown else ""
    of = "per build"
    if len(report.gates) > 1:
        together = min(100 * sum(gate.evidence.alpha for gate in report.gates), 100)
        of = f"in each of {len(report.gates)} comparisons in pairs, {together:.6g} % in all"
    besides = ", not guaranteed for stored timings" if unknown else ""
    if (rate := _rate_of_shards(report)) is not None:
        divided, kind = report.shards[0].of, report.shards[0].kind
        whole = "on this kind of machine" if kind else "per build"
        rates = {rate}
        of = f"over all {divided} shards{' of this kind' if kind else ''}" if divided > 1 else whole
    return f"at most {max(rates):.6g} % false alarms {of}{besides}"


def _rate_of_shards(report: Report) -> float | None:
    """Return the false-alarm rate of the shards of one kind together, in %; None where it is not theirs alone."""
    if not report.shards or not report.gates or len(report.gates) > len(report.shards):  # then some are a test's own
        return None
    return 100 * report.shards[0].alpha / report.shards[0].kinds


def _compared(report: Report, outcomes: Counter[str]) -> Iterator[str]:
    """Yield what the comparisons say."""
    tests = _tests(report, lambda one: one.outcome not in _NOT_MADE and not one.is_left_out)
    left_out = _tests(report, lambda one: one.is_left_out) - tests
    rate = false_alarms(report)
    promised = f" ({rate})" if rate else ""
    if regressed := _tests(report, lambda one: one.outcome == "regressed"):
        yield f"{len(regressed)} of {counted(len(tests), 'test')} regressed{promised}"
    elif not tests and left_out:
        yield f"No regression is possible in {counted(len(left_out), 'test')}: nothing that they run has changed"
        return
    elif not tests:  # the most frequent reasons, with the number of tests of each
        made = ((judgement.run.test, one) for judgement in report.judgements for one in judgement.comparisons)
        found = sorted({(test, one.reason or one.outcome) for test, one in made})
        said = visible(reasons([why for _, why in found]))
        short = said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]}…"
        yield f"Nothing was compared: {short}"
    elif well := [f"{outcomes[word]} {word}" for word in ("equivalent", "improved") if outcomes[word]]:
        yield f"No regression found in {counted(len(tests), 'test')}: {', '.join(well)}{promised}"
    else:
        yield f"Nothing was decided in {counted(len(tests), 'test')}"
    if left_out:
        yield f"{counted(len(left_out), 'test')} left out, since nothing that they run has changed"


def _open(report: Report, compared: Counter[str], budgets: Counter[str]) -> Iterator[str]:
    """Yield what was left open, and why not everything is there."""
    if inconclusive := compared["inconclusive"] + budgets["inconclusive"]:
        yield f"{inconclusive} inconclusive"
    if compared["regressed"] and compared["improved"]:
        yield f"{compared['improved']} improved"
    if budgets["unmeasured"]:
        yield f"{counted(budgets['unmeasured'], 'budget')} unmeasured"
    if 0 < (unmade := sum(compared[outcome] for outcome in _NOT_MADE)) < compared.total():
        if others := _tests(report, lambda one: one.is_of_other_data):
            still = _tests(report, lambda one: one.outcome not in _NOT_MADE) & others
            named = f"{f' ({len(still)} in part)' if still else ''}, data or conditions changed: {_named(others)}"
            yield f"{counted(len(others), 'test')} not comparable{named}"
        yield f"{counted(unmade, 'comparison')} not made"
    if unreached := {test for gate in report.gates for test in gate.evidence.unreached_tests}:
        yield f"{counted(len(unreached), 'test')} not compared, since the time was too short ({_named(unreached)})"
    elif any(gate.evidence.stopped is not None for gate in report.gates):
        yield "the pairs ended early"
    if report.hidden:
        yield hidden_by_xfails(report.hidden)
    if report.partial:
        yield "interrupted, so that tests are missing"


def _tests(report: Report, wanted: Callable[[Comparison], bool]) -> set[str]:
    """Return the ids of tests of which some comparison is wanted."""
    return {judgement.run.test for judgement in report.judgements if any(map(wanted, judgement.comparisons))}


def _named(tests: Collection[str]) -> str:
    return some_of(sorted(map(visible, tests)))


def _state(report: Report, compared: Counter[str], budgets: Counter[str]) -> Tone:
    if any(judgement.fails for judgement in report.judgements) or report.failed_otherwise:
        return "bad"
    is_open = (
        *(compared[outcome] for outcome in ("inconclusive", *_NOT_MADE)),
        *(budgets[outcome] for outcome in ("inconclusive", "unmeasured")),
        *(report.missing_shards, report.partial, any(shard.exit_code for shard in report.shards)),
        any(gate.evidence.stopped is not None for gate in report.gates),
    )
    if any(is_open):
        return "doubtful"
    return "good" if compared or budgets else "plain"
