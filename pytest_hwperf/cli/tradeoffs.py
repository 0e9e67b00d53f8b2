"""`hwperf tradeoffs`: which candidates meet the requirements, which none is better than, and how they rank."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_hwperf.cli.arguments import add_shared, check_files, check_time, write_record
from pytest_hwperf.cli.candidates_file import Measured, measured_in, read_candidates
from pytest_hwperf.cli.output import say, say_lines
from pytest_hwperf.cli.pytest_session import run_pytest
from pytest_hwperf.cli.requirements_file import read_requirements
from pytest_hwperf.cli.tradeoffs_file import TradeoffsFile, TradeoffTable, table_of
from pytest_hwperf.cli.tradeoffs_pairs import in_pairs
from pytest_hwperf.cli.tradeoffs_text import Choice, lines_of
from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.candidates import USUAL_REFERENCE, is_called
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.operating_points import CONDITIONS, described, lies_at, parse_point, points_of
from pytest_hwperf.core.records import Budget
from pytest_hwperf.core.rivals import DIMENSIONS, Candidate
from pytest_hwperf.core.tradeoffs import Answer, answers, meets, parse_weights
from pytest_hwperf.fleet.hosts import prices_of, read_hosts

OK, NONE_MEETS, INCONCLUSIVE = 0, 1, 3
_A_DAY_S = 86_400
_TO_ITS_END = (0, 1)  # exit codes of pytest: all passed, some failed


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "tradeoffs",
        help="choose among measured scenarios by requirements",
        description="Compare the scenarios of each test with requirements and with each other. Exit code 0: of every "
        "test one meets all requirements; 1: of one none does; 3: none is known to, or the run has not come to its "
        "end; 4: usage, or pytest has measured nothing.",
        usage="%(prog)s [option ...] REPORT.json|FILE.csv, or: %(prog)s [option ...] -- TEST [PYTEST_ARGUMENT ...]",
    )
    parser.add_argument(
        "file",
        nargs="?",
        metavar="REPORT.json|FILE.csv",
        help="of pytest --hwperf-report=FILE.json, or a table of others",
    )
    parser.add_argument("--requirements", metavar="FILE.yaml", help="limits, with the names of hwbudget")
    parser.add_argument("--test", metavar="ID", help="only tests whose id contains this")
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="CONDITION=VALUE",
        help=f"only measurements at this operating point: {', '.join(CONDITIONS)}; repeatable",
    )
    parser.add_argument(
        "--rank-by", default="score", choices=["score", "composite", *DIMENSIONS], help="default: score"
    )
    parser.add_argument("--reference", metavar="NAME", help=f"of the score; default: {USUAL_REFERENCE}, else the first")
    parser.add_argument(
        "--weight", action="append", default=[], metavar="DIMENSION=NUMBER", help=f"of {', '.join(DIMENSIONS)}"
    )
    parser.add_argument(
        "--with-estimates",
        action="store_true",
        help="where no energy was measured, score the estimated one, and say so",
    )
    parser.add_argument("--hosts", metavar="FILE.toml", help="of a fleet: prices per hour of kinds of machine")
    parser.add_argument(
        "--pairs", action="store_true", help="compare latencies in pairs of fresh processes; needs -- TEST"
    )
    parser.add_argument("--time", type=float, default=600.0, metavar="SECONDS", help="for all pairs; default: 600")
    add_shared(parser, "--json", help="write the tables as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what is known of each test, and return the exit code."""
    check_files(json=options.json)
    check_time(options.time, _A_DAY_S, "600")
    if options.pairs and not options.handed_on:
        raise UsageProblem("--pairs runs tests: hwperf tradeoffs --pairs -- tests/test_models.py")
    budgets = read_requirements(options.requirements) if options.requirements else ()
    weights, at = parse_weights(options.weight), parse_point(options.at)
    prices = prices_of(read_hosts(options.hosts)) if options.hosts else {}
    measured = _measured(options)
    for remark in measured.remarks:
        say(remark)
    chosen = {test: found for test, found in measured.candidates.items() if not options.test or options.test in test}
    if not chosen:
        raise UsageProblem(f"--test={options.test}: no such test.{nearest(options.test, measured.candidates)}")
    for candidates in chosen.values():
        _check_reference(options.reference, candidates)
    chosen = _at(chosen, at)
    found = {test: {one.name: answers(one, budgets) for one in candidates} for test, candidates in chosen.items()}
    choices = [
        replace(choice, prices=prices)
        for test, candidates in chosen.items()
        for choice in _choices(test, candidates, found[test], options, weights)
    ]
    tables = list[TradeoffTable]()
    for choice in in_pairs(choices, options.handed_on, options.time) if options.pairs else choices:
        tables.append(table_of(choice))
        for line in lines_of(choice):
            say_lines(line)
    codes = [_code(of_test, budgets) for of_test in found.values()]
    if options.json:
        write_record(options.json, TradeoffsFile(tables=tuple(tables)))
    if measured.partial:
        say("the run has not come to its end: what it has not reached might be better")
        codes.append(INCONCLUSIVE)
    return NONE_MEETS if NONE_MEETS in codes else max(codes)


def _measured(options: argparse.Namespace) -> Measured:
    """Read a file, or run pytest."""
    if bool(options.file) == bool(options.handed_on):
        raise UsageProblem("give a report or a CSV, or tests to run: hwperf tradeoffs -- tests/test_models.py")
    if options.file:
        return read_candidates(options.file)
    session = run_pytest(options.handed_on)
    if session.report is None:
        raise UsageProblem(f"pytest ended with code {session.code} and wrote no report:\n{session.output}")
    if session.code:
        say(f"pytest ended with code {session.code}; what was measured counts all the same")
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
            say(f"{test or 'candidates'}: left out by --at: {'; '.join(without)}")
    return left


def _choices(
    test: str,
    candidates: Sequence[Candidate],
    found: Mapping[str, Sequence[Answer]],
    options: argparse.Namespace,
    weights: Mapping[str, float],
) -> Iterator[Choice]:
    """Yield a choice for each operating point of a test, in their order."""
    points = points_of([one.conditions for one in candidates])
    for point in dict.fromkeys(points):
        here = [one for one, its in zip(candidates, points, strict=True) if its == point]
        yield Choice(
            test=test,
            point=described(point),
            candidates=here,
            answers={one.name: found[one.name] for one in here},
            reference=_reference(options.reference, here),
            weights=weights,
            rank_by=options.rank_by,
            with_estimates=options.with_estimates,
        )


def _check_reference(name: str | None, candidates: Sequence[Candidate]) -> None:
    if name is not None and not any(is_called(one, name) for one in candidates):
        names = [one.name for one in candidates]
        raise UsageProblem(
            f"--reference={name}: no such candidate.{nearest(name, names)} There are: {'; '.join(names)}"
        )


def _reference(name: str | None, candidates: Sequence[Candidate]) -> Candidate:
    """Return the reference of a point: the first candidate where it has none of that name, as its table says."""
    return next((one for one in candidates if is_called(one, name or USUAL_REFERENCE)), candidates[0])


def _code(found: Mapping[str, Sequence[Answer]], budgets: Sequence[Budget]) -> int:
    """Return 0 where a candidate meets all requirements by its whole intervals, 3 where one may, else 1."""
    if not budgets or any(all(one.outcome == "passed" for one in of) for of in found.values()):
        return OK
    return INCONCLUSIVE if any(meets(of) for of in found.values()) else NONE_MEETS
