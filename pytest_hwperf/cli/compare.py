"""`hwperf compare`: two models on one data file, a line for each comparison."""

import argparse
from functools import partial
from typing import Any

from pytest_hwperf.cli.arguments import add_shared, check_model, check_time
from pytest_hwperf.cli.output import say
from pytest_hwperf.cli.progress import ProgressLine, clear_progress
from pytest_hwperf.cli.rows_file import read_data
from pytest_hwperf.core.budgets import MODELS_COMPARED, parse_margin_lines
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.records import Comparison, Policy
from pytest_hwperf.core.units import counted, parse_rate
from pytest_hwperf.core.verdicts import explain, judge_comparison
from pytest_hwperf.gate.models import CompareSettings, compare_models
from pytest_hwperf.pairs.conductor import Progress

OK, REGRESSED, UNDECIDED = 0, 1, 3
_A_DAY_S = 86_400


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    compare = commands.add_parser(
        "compare",
        help="compare two models in pairs of fresh processes",
        description="Let two models take turns on the same rows. Exit code 0: nothing is worse by more than its "
        "margin; 1: something is; 3: nothing is known to be, but something could not be decided in the time; 4: usage.",
    )
    compare.add_argument("old", metavar="OLD", help="an ONNX file, or module:function")
    compare.add_argument("new", metavar="NEW", help="the same")
    add_shared(compare, "--data", "--target", "--batch-size", "--threads", "--alpha")
    compare.add_argument(
        "--margin", action="append", default=[], metavar="[METRIC=]SIZE", help="as latency_p95=10%% or accuracy=0.5pp"
    )
    compare.add_argument("--time", type=float, default=600.0, metavar="SECONDS", help="for all pairs; default: 600")
    compare.add_argument("--accept-inconclusive", action="store_true", help="exit code 0 instead of 3 for inconclusive")
    compare.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare, print a line for each comparison, and return the exit code."""
    for model in (options.old, options.new):
        check_model(model)
    check_time(options.time, _A_DAY_S, "600")
    X, y = read_data(options.data, options.target)
    settings = CompareSettings(
        margins=_margins(options.margin),
        alpha=parse_rate("--alpha", options.alpha),
        batch_size=options.batch_size,
        threads=options.threads,
        time_s=options.time,
        until_equivalent=True,
        progress=partial(_show, ProgressLine()),
    )
    comparisons, gate = compare_models(options.old, options.new, X, y, settings)
    clear_progress()
    pairs = counted(len(gate.evidence.pairs), "pair of fresh processes")
    say(f"{options.new} against {options.old}: {pairs}")
    for comparison in comparisons:
        metric = METRICS[comparison.metric]
        say(explain(judge_comparison(metric, comparison, Policy())))
    return exit_code(comparisons, accept_inconclusive=options.accept_inconclusive)


def exit_code(comparisons: tuple[Comparison, ...], *, accept_inconclusive: bool = False) -> int:
    """Return 1 where something regressed, 3 where something was left undecided, else 0.

    An `inconclusive` comparison may be accepted; one that could not be made, or that observed nothing, never is.
    """
    if any(comparison.outcome == "regressed" for comparison in comparisons):
        return REGRESSED
    accepted = (
        comparison.outcome in ("equivalent", "improved") or (accept_inconclusive and _is_doubtful(comparison))
        for comparison in comparisons
    )
    return OK if comparisons and all(accepted) else UNDECIDED


def _is_doubtful(comparison: Comparison) -> bool:
    """Whether values were observed that do not decide: doubt about them may be accepted."""
    unseeded = comparison.cause is not None and comparison.cause.kind == "processes disagree"
    return comparison.outcome == "inconclusive" and (comparison.change is not None or unseeded)


def _margins(given: list[str]) -> tuple[Any, ...]:
    try:
        named = parse_margin_lines(given)
    except UsageProblem as problem:
        raise UsageProblem(f"--margin: {problem}") from problem
    margins = {margin.key: margin for margin in (*MODELS_COMPARED, *named)}
    if not all(METRICS[margin.metric].between_models for margin in margins.values()):
        *others, last = (name for name, metric in METRICS.items() if metric.between_models)
        raise UsageProblem(f"hwperf compare knows margins of {', '.join(others)} and {last}")
    return tuple(margins.values())


def _show(line: ProgressLine, progress: Progress) -> None:
    left = "" if progress.left_s is None else f", about {progress.left_s:.0f} s left"
    line.show(f"{progress.stage} pair {progress.pair} of {progress.of}", left)
