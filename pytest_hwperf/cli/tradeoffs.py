"""`hwperf tradeoffs`: which candidates meet the requirements, which none is better than, and how they rank."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from time import monotonic

from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli import output
from pytest_hwperf.cli.inputs import CandidateGroups, measured_in, read_candidates, read_requirements
from pytest_hwperf.cli.pytest_session import run_pytest
from pytest_hwperf.cli.tradeoffs_text import document_of
from pytest_hwperf.fleet.hosts import prices_of, read_hosts
from pytest_hwperf.gate.models import RivalSettings, compare_rivals
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.progress import ProgressLine
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Gate, Measurement
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import SCHEMA, Estimate
from pytest_hwperf.records.structs import Number, Record
from pytest_hwperf.records.verdict import Budget, BudgetOutcome, Comparison
from pytest_hwperf.stats.candidates import (
    CONDITIONS,
    USUAL_REFERENCE,
    Choice,
    Ranked,
    choices_of,
    described,
    is_called,
    lies_at,
    parse_point,
    points_of,
)
from pytest_hwperf.stats.recommendations import OnHardware, on_hardware
from pytest_hwperf.stats.rivals import ALPHA, DIMENSIONS, Candidate, per_row
from pytest_hwperf.stats.tradeoffs import Requirement, Score, answers, meets, parse_weights


def in_pairs(choices: Sequence[Choice], arguments: Sequence[str], time_s: float) -> Iterator[Choice]:
    """Yield each choice with what pairs have shown of its candidates; all answers together are wrong at `ALPHA`."""
    asked = [list(combinations([one for one in choice.left if MEDIAN_LATENCY in one.values], 2)) for choice in choices]
    until, left = monotonic() + time_s, sum(map(len, asked))
    alpha = ALPHA / max(1, left)
    for choice, rivals in zip(choices, asked, strict=True):
        found, gates = {one.name: one for one in choice.candidates}, list[Gate]()
        for baseline, candidate in rivals:
            shown = partial(_show, output.progress_line(), f"{candidate.name} against {baseline.name}")
            share, left = max(0.0, until - monotonic()) / left, left - 1
            settings = RivalSettings(arguments=arguments, alpha=alpha, time_s=share, progress=shown)
            now, gate = compare_rivals(_measurement_of(baseline), _measurement_of(candidate), settings)
            gates.append(gate)
            pairs = {**found[candidate.name].pairs, baseline.name: {now.key: now}}
            found[candidate.name] = replace(found[candidate.name], pairs=pairs)
        output.clear_progress()
        yield replace(choice, candidates=[*found.values()], gates=gates)


def _measurement_of(candidate: Candidate) -> Measurement:
    return Measurement(test=candidate.test, label=candidate.label)


def _show(line: ProgressLine, what: str, progress: Progress) -> None:
    line.show(f"{what}: {progress.stage} pair {progress.pair} of {progress.of}")


class RequirementAnswer(Record, frozen=True, kw_only=True):
    """What one candidate makes of one requirement."""

    keyword: str
    limit: Number  # base units
    outcome: BudgetOutcome
    estimate: Estimate | None = None  # base units; None: unmeasured
    estimated: bool = False  # whether the value was estimated, and not measured
    excess: Number | None = None  # share of the limit by which it is missed; None: it is kept, or 0


class RankedCandidate(Record, frozen=True, kw_only=True):
    """One candidate."""

    name: str
    conditions: Mapping[str, str]
    meets: bool  # no value misses its limit; what is unmeasured bars nothing
    requirements: tuple[RequirementAnswer, ...]
    pairs: Mapping[str, tuple[Comparison, ...]] = {}  # name of another candidate, the baseline → what pairs have shown
    quantisation: str | None = None  # "worthwhile", "not worthwhile" or "inconclusive"; None: it is no INT8 form
    dimensions: Mapping[str, Estimate]  # that all candidates have, base units, latency per row
    is_pareto: bool | None  # None: there is no dimension that all candidates have
    rank: int | None = None  # from 1; None: it is not ranked
    score: Score | None = None
    composite: Number | None = None
    is_inconclusive: bool | None = None  # whether its score is not shown to be below the highest
    lost_classes: Statement | None = None  # against the reference; None: none is lost, or it is not known
    hardware: OnHardware | None = None  # None: no kind of machine is named


class TradeoffTable(Record, frozen=True, kw_only=True):
    """The candidates of one test at one operating point."""

    test: str  # "" where the file names none
    point: str  # "" where nothing tells it from others
    reference: str  # candidate whose score is 100
    weights: Mapping[str, Number]  # dimension → weight, of those that all candidates have
    estimated: tuple[str, ...] = ()  # of these, what scores and composites take by an estimate
    left_out: Mapping[str, tuple[str, ...]]  # dimension → candidates that lack it
    unranked: str  # why there is no ranking, "" where there is one
    candidates: tuple[RankedCandidate, ...]
    gates: tuple[Gate, ...] = ()  # what `pairs` of the candidates rest on


class TradeoffsFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf tradeoffs"):
    """Everything that was compared."""

    schema: int = SCHEMA
    tables: tuple[TradeoffTable, ...]


def table_of(choice: Choice) -> TradeoffTable:
    """Return the candidates of a choice with everything that the lines say of them, in the order of the file."""
    places = {one.candidate.name: (place, one) for place, one in enumerate(choice.ranked, 1)}
    return TradeoffTable(
        test=choice.test,
        point=choice.point,
        reference=choice.reference.name,
        weights=choice.weighted,
        estimated=choice.estimated,
        left_out={name: tuple(names) for name, names in choice.lacking.items()},
        unranked=choice.unranked,
        candidates=tuple(_candidate(one, choice, *places.get(one.name, (None, None))) for one in choice.candidates),
        gates=tuple(choice.gates),
    )


def _candidate(one: Candidate, choice: Choice, rank: int | None, found: Ranked | None) -> RankedCandidate:
    requirements = choice.requirements[one.name]
    return RankedCandidate(
        name=one.name,
        conditions=one.conditions,
        meets=meets(requirements),
        requirements=tuple(
            RequirementAnswer(
                keyword=asked.budget.keyword,
                limit=asked.budget.limit,
                outcome=asked.outcome,
                estimate=asked.estimate,
                estimated=one.is_guessed(asked.budget.key),
                excess=asked.excess or None,
            )
            for asked in requirements
        ),
        pairs={name: tuple(found.values()) for name, found in one.pairs.items()},
        quantisation=next((found.outcome for quantised, _, found in choice.worths if quantised is one), None),
        dimensions={name: per_row(one, key) for name, key in choice.dimensions.items()},
        is_pareto=one in choice.front if choice.dimensions else None,
        rank=rank,
        score=found and found.score,
        composite=found and found.composite,
        is_inconclusive=found and found.inconclusive,
        lost_classes=choice.lost_by(one),
        hardware=next(iter(on_hardware([one], choice.prices)), None),
    )


_A_DAY_S = 86_400
_TO_ITS_END = (0, 1)  # exit codes of pytest: all passed, some failed


def run(options: argparse.Namespace) -> int:
    """Print what is known of each test, and return the exit code."""
    arg.check_files(json=options.json)
    arg.check_time(options.time, _A_DAY_S, "600")
    if options.pairs and not options.handed_on:
        raise UsageProblem("--pairs runs tests: hwperf tradeoffs --pairs -- tests/test_models.py")
    budgets = read_requirements(options.requirements) if options.requirements else ()
    weights, at = parse_weights(options.weight), parse_point(options.at)
    prices = prices_of(read_hosts(options.hosts)) if options.hosts else {}
    measured = _measured(options)
    for remark in measured.remarks:
        output.say(remark)
    chosen = {test: found for test, found in measured.candidates.items() if not options.test or options.test in test}
    if not chosen:
        raise UsageProblem(f"--test={options.test}: no such test.{nearest(options.test, measured.candidates)}")
    for candidates in chosen.values():
        _check_reference(options.reference, candidates)
    chosen = _at(chosen, at)
    found = {
        test: {one.name: answers({**one.guesses, **one.values}, budgets) for one in candidates}
        for test, candidates in chosen.items()
    }
    choices = [
        choice
        for test, candidates in chosen.items()
        for choice in choices_of(
            test,
            candidates,
            requirements=found[test],
            called=options.reference or USUAL_REFERENCE,
            weights=weights,
            rank_by=options.rank_by,
            with_estimates=options.with_estimates,
            prices=prices,
        )
    ]
    tables = list[TradeoffTable]()
    for choice in in_pairs(choices, options.handed_on, options.time) if options.pairs else choices:
        tables.append(table_of(choice))
        output.show_document(document_of(choice))
    if options.json:
        output.write_record(options.json, TradeoffsFile(tables=tuple(tables)))
    codes = [_code(of_test, budgets) for of_test in found.values()]
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
    if session.report is None:
        raise UsageProblem(f"pytest ended with code {session.code} and wrote no report:\n{session.output}")
    if session.code:
        output.say(f"pytest ended with code {session.code}; what was measured counts all the same")
    if not session.report.judgements:
        raise UsageProblem("this run of pytest has no measurement")
    found = measured_in(session.report)
    return found if session.code in _TO_ITS_END else replace(found, partial=True)


def _at(tests: Mapping[str, Sequence[Candidate]], at: Mapping[str, str]) -> dict[str, Sequence[Candidate]]:
    """Return the candidates at an operating point, and say which are left out."""
    fitting = {test: [one for one in found if lies_at(one.conditions, at)] for test, found in tests.items()}
    left: dict[str, Sequence[Candidate]] = {test: found for test, found in fitting.items() if found}
    if not left:
        points = (described(point) for found in tests.values() for point in points_of([c.conditions for c in found]))
        there = "; ".join(dict.fromkeys(filter(None, points)))
        told = f"Measured: {there}" if there else "No measurement tells its point from others"
        raise UsageProblem(f"--at: nothing was measured at {described(tuple(at.items()))}. {told}")
    for test, found in tests.items():
        if without := [one.name for one in found if one not in left.get(test, ())]:
            output.say(f"{test or 'candidates'}: left out by --at: {'; '.join(without)}")
    return left


def _check_reference(name: str | None, candidates: Sequence[Candidate]) -> None:
    if name is not None and not any(is_called(one, name) for one in candidates):
        names = [one.name for one in candidates]
        raise UsageProblem(
            f"--reference={name}: no such candidate.{nearest(name, names)} There are: {'; '.join(names)}"
        )


def _code(found: Mapping[str, Sequence[Requirement]], budgets: Sequence[Budget]) -> int:
    """Return 0 where a candidate meets all requirements by its whole intervals, 3 where one may, else 1."""
    if not budgets or any(all(one.outcome == "passed" for one in of) for of in found.values()):
        return output.OK
    return output.INCONCLUSIVE if any(meets(of) for of in found.values()) else output.FAILED


COMMANDS = (
    arg.Subcommand(
        "tradeoffs",
        run,
        "choose among measured scenarios by requirements",
        (
            arg.option(
                "file", "REPORT.json|FILE.csv", "of pytest --hwperf-report=FILE.json, or a table of others", nargs="?"
            ),
            arg.option("--requirements", "FILE.yaml", "limits, with the names of hwbudget"),
            arg.option("--test", "ID", "only tests whose id contains this"),
            arg.several(
                "--at",
                "CONDITION=VALUE",
                f"only measurements at this operating point: {', '.join(CONDITIONS)}; repeatable",
            ),
            arg.option(
                "--rank-by", None, "default: score", default="score", choices=["score", "composite", *DIMENSIONS]
            ),
            arg.option("--reference", "NAME", f"of the score; default: {USUAL_REFERENCE}, else the first"),
            arg.several("--weight", "DIMENSION=NUMBER", f"of {', '.join(DIMENSIONS)}"),
            arg.flag("--with-estimates", "where no energy was measured, score the estimated one, and say so"),
            arg.option("--hosts", "FILE.toml", "of a fleet: prices per hour of kinds of machine"),
            arg.flag("--pairs", "compare latencies in pairs of fresh processes; needs -- TEST"),
            arg.seconds("--time", 600.0, "for all pairs"),
            arg.written_json("the tables"),
        ),
        "Compare the scenarios of each test with requirements and with each other. Exit code 0: of every test one "
        "meets all requirements; 1: of one none does; 3: none is known to, or the run has not come to its end; 4: "
        "usage, or pytest has measured nothing.",
        "%(prog)s [option ...] REPORT.json|FILE.csv, or: %(prog)s [option ...] -- TEST [PYTEST_ARGUMENT ...]",
    ),
)
