"""`hwperf tradeoffs`: which candidates meet the requirements, which none is better than, and how they rank."""

import argparse
from collections.abc import Mapping, Sequence

from pytest_hwperf.cli.candidates_file import read_candidates, test_of
from pytest_hwperf.cli.output import say_lines
from pytest_hwperf.cli.requirements_file import read_requirements
from pytest_hwperf.cli.tradeoffs_text import Choice, lines_of
from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Budget
from pytest_hwperf.core.tradeoffs import DIMENSIONS, Answer, Candidate, answers, meets, parse_weights

OK, NONE_MEETS, UNDECIDED = 0, 1, 3
_REFERENCE = "onnx_fp32"


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "tradeoffs",
        help="choose among measured scenarios by requirements",
        description="Compare the scenarios of each test with requirements and with each other. Exit code 0: of every "
        "test one meets all requirements; 1: of one none does; 3: none is known to; 4: usage.",
    )
    parser.add_argument("file", metavar="REPORT.json|FILE.csv", help="of pytest --hwperf-json, or a table of others")
    parser.add_argument("--requirements", metavar="FILE.yaml", help="limits, with the names of hwbudget")
    parser.add_argument("--test", metavar="ID", help="only tests whose id contains this")
    parser.add_argument(
        "--rank-by", default="score", choices=["score", "composite", *DIMENSIONS], help="default: score"
    )
    parser.add_argument("--reference", metavar="NAME", help=f"of the score; default: {_REFERENCE}, else the first")
    parser.add_argument(
        "--weight", action="append", default=[], metavar="DIMENSION=NUMBER", help=f"of {', '.join(DIMENSIONS)}"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what is known of each test, and return the exit code."""
    budgets = read_requirements(options.requirements) if options.requirements else ()
    weights = parse_weights(options.weight)
    tests, judgements = read_candidates(options.file)
    chosen = {test: found for test, found in tests.items() if not options.test or options.test in test}
    if not chosen:
        raise UsageProblem(f"--test={options.test}: no such test.{nearest(options.test, tests)}")
    codes = list[int]()
    for test, candidates in chosen.items():
        found = {one.name: answers(one, budgets) for one in candidates}
        choice = Choice(
            test=test,
            candidates=candidates,
            answers=found,
            reference=_reference(options.reference, candidates),
            weights=weights,
            rank_by=options.rank_by,
            judgements=[one for one in judgements if test_of(one) == test],
        )
        for line in lines_of(choice):
            say_lines(line)
        codes.append(_code(found, budgets))
    return NONE_MEETS if NONE_MEETS in codes else max(codes)


def _reference(name: str | None, candidates: Sequence[Candidate]) -> Candidate:
    wanted = _REFERENCE if name is None else name
    fitting = [one for one in candidates if one.name == wanted or one.name.startswith(f"{wanted},")]
    if fitting:
        return fitting[0]
    if name is None:
        return candidates[0]
    names = [one.name for one in candidates]
    raise UsageProblem(f"--reference={name}: no such candidate.{nearest(name, names)} There are: {'; '.join(names)}")


def _code(found: Mapping[str, Sequence[Answer]], budgets: Sequence[Budget]) -> int:
    """Return 0 where a candidate meets all requirements by its whole intervals, 3 where one may, else 1."""
    if not budgets or any(all(one.outcome == "passed" for one in of) for of in found.values()):
        return OK
    return UNDECIDED if any(meets(of) for of in found.values()) else NONE_MEETS
