"""`hwperf tradeoffs`: which candidates meet the requirements, which none is better than, and how they rank."""

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from time import monotonic

from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli import output
from pytest_hwperf.cli.inputs import CandidateGroups, measured_in, read_candidates, read_requirements, run_pytest
from pytest_hwperf.fleet.hosts import prices_of, read_hosts
from pytest_hwperf.gate.models.compare import RivalSettings, compare_rivals
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.progress import ProgressLine
from pytest_hwperf.records import units
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Gate, Measurement
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS, metric_of
from pytest_hwperf.records.run import Estimate
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.reports.document import Listing, Paragraph, Titled
from pytest_hwperf.reports.tradeoff_files import TradeoffsFile, table_of
from pytest_hwperf.stats.choice.advice import as_cheap, bottlenecks, matrix, on_hardware
from pytest_hwperf.stats.choice.candidates import (
    ALPHA,
    CONDITIONS,
    DIMENSIONS,
    LEAST_GAIN,
    MOST_LOSS,
    Candidate,
    Worth,
    between_processes,
    described,
    lies_at,
    pairs_of,
    parse_point,
    per_row,
    points_of,
)
from pytest_hwperf.stats.choice.tradeoffs import (
    USUAL_REFERENCE,
    WEIGHTS,
    Choice,
    best_by,
    choices_of,
    meets,
    parse_weights,
)

_TO_ITS_END = (0, 1)  # exit codes of pytest: all passed, some failed


def run(options: argparse.Namespace) -> int:
    """Print what is known of each test, and return the exit code."""
    arg.check_seconds(arg.A_DAY_S, "600", time=options.time)
    if options.pairs and not options.handed_on:
        raise UsageProblem("--pairs runs tests: hwperf tradeoffs --pairs -- tests/test_models.py")
    how = {
        "budgets": read_requirements(options.requirements) if options.requirements else (),
        "weights": parse_weights(options.weight),
        "prices": prices_of(read_hosts(options.hosts)) if options.hosts else {},
        "called": options.reference or USUAL_REFERENCE,
        "rank_by": options.rank_by,
        "with_estimates": options.with_estimates,
    }
    at = parse_point(options.at)
    measured = _measured(options)
    for remark in measured.remarks:
        output.say(remark)
    chosen = _chosen(measured.candidates, options, at)
    choices = [choice for test, found in chosen.items() for choice in choices_of(test, found, **how)]
    tables = []
    for choice in _in_pairs(choices, options.handed_on, options.time) if options.pairs else choices:
        tables.append(table_of(choice))
        counts = units.counted(len(choice.candidates), "candidate")
        heading = f"{choice.test or 'candidates'}{f' at {choice.point}' if choice.point else ''}: {counts}"
        output.show_document([Paragraph(heading), Listing([*_facts(choice)])])
    if options.json:
        output.write_record(options.json, TradeoffsFile(tables=tuple(tables)))
    codes = [_code([choice for choice in choices if choice.test == test]) for test in chosen]
    if measured.partial:
        output.say("the run has not come to its end: what it has not reached might be better")
        codes.append(output.INCONCLUSIVE)
    return output.FAILED if output.FAILED in codes else max(codes)


def _measured(options: argparse.Namespace) -> CandidateGroups:
    """Read a file, or run pytest."""
    if bool(options.file) == bool(options.handed_on):
        raise UsageProblem("give a report or a CSV, or tests to run: hwperf tradeoffs -- tests/test_models.py")
    if options.file:
        return read_candidates(options.file)
    session = run_pytest(options.handed_on)
    report = session.needed()
    if session.code:
        output.say(f"pytest ended with code {session.code}; what was measured counts all the same")
    if not report.judgements:
        raise UsageProblem("this run of pytest has no measurement")
    found = measured_in(report)
    return found if session.code in _TO_ITS_END else replace(found, partial=True)


def _chosen(
    measured: Mapping[str, Sequence[Candidate]], options: argparse.Namespace, at: Mapping[str, str]
) -> dict[str, Sequence[Candidate]]:
    """Return the candidates that were asked for, at an operating point, by their test; say which are left out."""
    tests = {test: found for test, found in measured.items() if not options.test or options.test in test}
    if not tests:
        raise UsageProblem(f"--test={options.test}: no such test.{nearest(options.test, measured)}")
    for found in tests.values():
        names = [one.name for one in found]
        if options.reference is not None and not any(one.is_called(options.reference) for one in found):
            hint = f"{nearest(options.reference, names)} There are: {'; '.join(names)}"
            raise UsageProblem(f"--reference={options.reference}: no such candidate.{hint}")
    fitting = {test: [one for one in found if lies_at(one.conditions, at)] for test, found in tests.items()}
    left: dict[str, Sequence[Candidate]] = {test: found for test, found in fitting.items() if found}
    if not left:
        points = (described(point) for found in tests.values() for point in points_of([c.conditions for c in found]))
        there = "; ".join(dict.fromkeys(filter(None, points)))
        told = f"Measured: {there}" if there else "No measurement tells its point from others"
        raise UsageProblem(f"--at: nothing was measured at {described(at.items())}. {told}")
    for test, found in tests.items():
        if without := [one.name for one in found if one not in left.get(test, ())]:
            output.say(f"{test or 'candidates'}: left out by --at: {'; '.join(without)}")
    return left


def _in_pairs(choices: Sequence[Choice], arguments: Sequence[str], time_s: float) -> Iterator[Choice]:
    """Yield each choice with what pairs have shown of its candidates; any false "slower" has the rate `ALPHA`."""
    asked = [list(combinations([one for one in choice.left if MEDIAN_LATENCY in one.values], 2)) for choice in choices]
    until, left = monotonic() + time_s, sum(map(len, asked))
    alpha = ALPHA / max(1, left)
    for choice, couples in zip(choices, asked, strict=True):
        found, gates = {one.name: one for one in choice.candidates}, list[Gate]()
        for baseline, candidate in couples:
            shown = partial(_show, output.progress_line(), f"{candidate.name} against {baseline.name}")
            share, left = max(0.0, until - monotonic()) / left, left - 1
            settings = RivalSettings(arguments=arguments, alpha=alpha, time_s=share, progress=shown)
            old, new = (Measurement(test=one.test, label=one.label) for one in (baseline, candidate))
            now, gate = compare_rivals(old, new, settings)
            gates.append(gate)
            pairs = {**found[candidate.name].pairs, baseline.name: {now.key: now}}
            found[candidate.name] = replace(found[candidate.name], pairs=pairs)
        output.clear_progress()
        yield replace(choice, candidates=[*found.values()], gates=gates)


def _show(line: ProgressLine, what: str, progress: Progress) -> None:
    line.show(f"{what}: {progress.stage} pair {progress.pair} of {progress.of}")


def _code(of_test: Sequence[Choice]) -> int:
    """Return 0 where a candidate meets all requirements by its whole intervals, 3 where one may, else 1."""
    found = [of for choice in of_test for of in choice.requirements.values()]
    if any(all(one.outcome == "passed" for one in of) for of in found):
        return output.OK
    return output.INCONCLUSIVE if any(map(meets, found)) else output.FAILED


def _facts(choice: Choice) -> Iterator[Titled]:
    """Yield what is said of one test: requirements first, then how the candidates compare."""
    yield from _requirements(choice)
    for name, names in choice.lacking.items():
        whom = "any" if len(names) == len(choice.candidates) else "; ".join(names)
        reasons = dict.fromkeys(filter(None, (one.unmeasured.get(DIMENSIONS[name][0]) for one in choice.candidates)))
        why = f" ({'; '.join(reasons)})" if reasons else ""
        scored = "; its estimate enters the scores" if name in choice.estimated else ""
        yield Titled("left out", f"{name}, not measured for {whom}{why}{scored}")
    if choice.dimensions:
        yield Titled("pareto set", _names(choice.front))
        yield from _ranking(choice)
        yield from _best(choice)
    for one in choice.candidates:
        for name, found in one.pairs.items():
            yield from (Titled("pairs", f"{one.name} against {name}: {_pair(it)}") for it in found.values())
    yield from _hardware(choice)
    yield from (_quantisation(*worth) for worth in choice.worths)
    for one in choice.candidates:
        if lost := choice.lost_by(one):
            yield Titled("classes lost", f"{one.name} against {choice.reference.name}: {lost}")
    yield from _inconclusive(choice)
    advised = dict[str, list[Candidate]]()
    for one in choice.candidates:
        for text in bottlenecks(one, choice.requirements[one.name]):
            advised.setdefault(text, []).append(one)
    yield from (Titled("advice", f"{_names(of)}: {text}") for text, of in advised.items())


def _names(candidates: Iterable[Candidate]) -> str:
    return "; ".join(one.name for one in candidates)


def _requirements(choice: Choice) -> Iterator[Titled]:
    """Yield a line for each candidate, those that miss least first."""
    lines = list[tuple[float, str]]()
    for one in choice.candidates if choice.budgets else ():
        missed, doubts, guesses, excess = list[str](), list[str](), list[str](), 0.0
        for found in choice.requirements[one.name]:
            budget, metric, guessed = found.budget, METRICS[found.budget.metric], one.is_guessed(found.budget.key)
            excess += math.inf if found.excess is None else found.excess
            if found.excess != 0:
                value = units.show(found.estimate.value, metric.unit) if found.estimate else ""
                limit = units.show_limit(budget.limit, metric.unit, metric.better)
                by = f" by {units.show_excess(found.excess)}" if found.excess else ""
                doubt = ", inconclusive" if found.outcome == "inconclusive" else ""
                missed.append(f"{budget.keyword}{by} ({value}{' estimated' * guessed}, limit {limit}{doubt})")
            else:
                doubts += [f"{budget.keyword} is {found.outcome}"] if found.outcome != "passed" else []
                guesses += [f"{budget.keyword} is kept by an estimate"] if guessed else []
        doubts += guesses
        met = f"{one.name} {f'misses {missed[0]}' if missed else 'misses none' if doubts else 'meets all'}"
        lines.append((excess, "; ".join([met, *missed[1:], *doubts])))
    yield from (Titled("requirements", line) for _, line in sorted(lines, key=lambda line: line[0]))


def _ranking(choice: Choice) -> Iterator[Titled]:
    """Yield the candidates that meet the requirements, best first, with score and composite beside each other."""
    if choice.unranked:
        yield Titled("ranking", choice.unranked)
        return
    marks = dict.fromkeys(choice.estimated, " (estimated)")
    told = ", ".join(
        f"{name} {units.show_share(weight)}{marks.get(name, '')}" for name, weight in choice.weighted.items()
    )
    by_estimate = f", both with estimated {' and '.join(marks)}" if marks else ""
    yield Titled("ranking", f"by {choice.rank_by}; weights {told}; score 100 is {choice.reference.name}")
    for number, one in enumerate(choice.ranked, 1):
        doubt = ", inconclusive against the highest" if one.inconclusive else ""
        last = ", last since it is not worthwhile" if one.put_back else ""
        score = "– (a value of 0 has no ratio)"
        if one.score is not None:
            low, high = one.score.low, one.score.high
            score = units.show_number(one.score.value)
            if low is not None and high is not None and low != high:
                score += f" ({units.show_number(low)} .. {units.show_number(high)})"
        told = f"score {score}{doubt}, composite {one.composite:.3f}{by_estimate}{last}"
        yield Titled("ranking", f"{number}. {one.candidate.name}: {told}")


def _best(choice: Choice) -> Iterator[Titled]:
    """Yield the best candidate of each dimension, and which to take for which purpose."""
    for name, key in choice.dimensions.items() if choice.left else ():
        best, unit = best_by(choice.left, key), metric_of(key[0]).unit
        value, of_row = per_row(best.first, key), " a row" if name == "latency" else ""
        told = f"{best.first.name}: {units.show_interval(value.value, value.low, value.high, unit)}{of_row}"
        if value.low is None and value.high is None:
            told = f"{best.first.name}: {units.show(value.value, unit)}{of_row}, without an interval"
        told += f"; as good within the margin: {_names(best.as_good)}" if best.as_good else ""
        told += f"; inconclusive against: {_names(best.inconclusive)}" if best.inconclusive else ""
        yield Titled(f"best {name}", told)
    for one in matrix(choice.left, choice.dimensions) if choice.left else ():
        first, *others = one.candidates or (None,)
        more = f", as good as {units.counted(len(others), 'other')}" if others and one.dimension else ""
        more += f", inconclusive against {units.counted(len(one.inconclusive), 'other')}" if one.inconclusive else ""
        yield Titled(one.purpose, f"{first.name}{more}" if first else "not known")


def _pair(found: Comparison) -> str:
    """Say what pairs of fresh processes have shown of the median latency."""
    if found.change is None:
        return f"{found.outcome}: {found.reason}"
    why = f": {found.reason}" if found.reason else ""
    told = f"latency {units.show_change_interval(found.change.value, found.change.low, found.change.high, 'relative')}"
    return f"{told}, {units.counted(found.pairs, 'fresh pair')}, {found.outcome}{why}"


def _hardware(choice: Choice) -> Iterator[Titled]:
    """Yield what each kind of machine makes of it, and which is the cheapest; nothing where no kind is named."""
    found = on_hardware(choice.candidates, choice.prices)
    for one in found:
        told = [
            f"latency {_shown(one.latency, 's')}",
            f"throughput {_shown(one.throughput, '1/s')}",
            f"energy of a call {_shown(one.energy, 'J')}",
            f"a million calls cost {_shown(one.cost, '')}" if one.price_per_hour else "price not given",
        ]
        yield Titled("hardware", f"{one.candidate}: {', '.join(told)}")
    if cheapest := as_cheap(found):
        first, *tied = cheapest
        more = f"; not shown to be dearer: {'; '.join(one.candidate for one in tied)}" if tied else ""
        yield Titled("cheapest", f"{first.candidate}{more}")


def _shown(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return "not measured"
    if unit:
        return units.show_interval(estimate.value, estimate.low, estimate.high, unit)
    ends = [units.show_number(one) if one is not None else "not known" for one in (estimate.low, estimate.high)]
    return f"{units.show_number(estimate.value)} ({' .. '.join(ends)})"


def _quantisation(quantised: Candidate, reference: Candidate, found: Worth) -> Titled:
    """Say whether an INT8 form is worthwhile, by what it gains and what it loses."""
    batch = reference.conditions.get("batch_size", "")
    called = f"{quantised.scenario} against {reference.scenario}{f', batch {batch}' if batch else ''}"
    called += f" on {quantised.kind}" if quantised.kind else ""
    gain, loss = "its gain is unmeasured", "accuracy on the same examples is unmeasured"
    if found.gain is not None:
        ends = ["?" if end is None else f"{-100 * end:+.0f}" for end in (found.gain.high, found.gain.low)]
        gain = f"latency {0.0 - 100 * found.gain.value:+.0f} % ({ends[0]} .. {ends[1]}), {found.gain.method}"
        gain += f", asked for -{units.show_share(LEAST_GAIN)}"
    if found.loss and found.loss.low is not None and found.loss.high is not None:
        low, high = -100 * found.loss.high, -100 * found.loss.low
        loss = f"accuracy {0.0 - 100 * found.loss.value:+.2f} points ({low:+.2f} .. {high:+.2f})"
        loss += f" on {units.counted(found.loss.n, 'example')}, allowed {-100 * MOST_LOSS:+g}"
    return Titled("quantisation", f"{called}: {found.outcome}: {gain}; {loss}")


def _inconclusive(choice: Choice) -> Iterator[Titled]:
    """Yield which answers need more examples or pairs of fresh processes, and the command that measures them."""
    timed = {name: key for name, key in choice.dimensions.items() if choice.left and metric_of(key[0]).is_timed}
    doubtful = {name: best_by(choice.left, key) for name, key in timed.items()}
    names = [
        f"{name} of {best.first.name} and {_names(best.inconclusive)}"
        for name, best in doubtful.items()
        if best.inconclusive
    ]
    examples = list[str]()
    for one, other, found in choice.worths:
        if found.outcome == "inconclusive":
            (examples if found.is_fast else names).append(f"{one.name} against {other.name}")
    if examples:
        yield Titled("inconclusive", f"{'; '.join(examples)}: only accuracy is in doubt: give more labelled examples")
    if not names:
        return
    test = choice.candidates[0].test
    how = pairs_of([test]) if test else "hwperf compare OLD NEW --data ROWS"
    apart = units.show_share(math.expm1(between_processes()))
    what = f"timings of single processes of equal code differ by up to {apart}. Measure in pairs: {how}"
    if any(one.pairs for one in choice.candidates):
        what = "give the pairs more time with --time"
    yield Titled("inconclusive", f"{'; '.join(names)}: {what}")


_ARGUMENTS = (
    arg.option("file", "REPORT.json|FILE.csv", "read a report of --hwperf-report=FILE.json, or a CSV table", nargs="?"),
    arg.REQUIREMENTS,
    arg.option("--test", "ID", "take only tests with this in their id, parameters left out"),
    arg.several("--at", "CONDITION=VALUE", f"take only this {', '.join(CONDITIONS)}, e.g. batch_size=32"),
    arg.option(
        "--rank-by", None, "rank candidates by this", default="score", choices=["score", "composite", *DIMENSIONS]
    ),
    arg.option("--reference", "NAME", f"score against this scenario; default: {USUAL_REFERENCE}, else the first"),
    arg.several(
        "--weight", "DIMENSION=NUMBER", f"change one of {', '.join(f'{one}={w:g}' for one, w in WEIGHTS.items())}"
    ),
    arg.flag("--with-estimates", "score estimated energy if the report has no measured one"),
    arg.option("--hosts", "FILE.toml", "read prices per hour from the hosts of a fleet"),
    arg.flag("--pairs", "compare latencies in pairs of fresh processes; needs -- TEST"),
    arg.seconds("--time", 600.0, "limit the time of all pairs"),
    arg.written_json("the tables"),
)
COMMAND = arg.Subcommand(
    "tradeoffs",
    run,
    "choose among measured scenarios by requirements",
    _ARGUMENTS,
    "Compare the scenarios of each test with your requirements and with each other.",
    "%(prog)s [option ...] REPORT.json|FILE.csv, or: %(prog)s [option ...] -- TEST [PYTEST_ARGUMENT ...]",
    answers={
        0: "one candidate of every test meets all requirements",
        1: "every candidate of one test misses a requirement",
        3: "inconclusive, or the run was cut short",
        4: "usage, or pytest measured nothing",
    },
)
