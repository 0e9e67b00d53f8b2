"""`hwperf compare`: two versions of a model on one data file, and whether the new one is rolled out."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf import __version__
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli import output
from pytest_hwperf.cli.inputs import read_data, read_requirements
from pytest_hwperf.gate.models.compare import CompareSettings, MeasuredVersions, contender, measure_versions
from pytest_hwperf.gate.models.requests import headers_of
from pytest_hwperf.gate.models.targets import TargetKind, check_target, shown
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.files import digest_of
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.host.progress import ProgressLine
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.false_alarms import parse_rate
from pytest_hwperf.records.markers import DEFAULT_MARGINS, LONGEST_S, MODELS_COMPARED, parse_margin_lines
from pytest_hwperf.records.metrics import ACCURACY, METRICS
from pytest_hwperf.records.verdict import Budget, Comparison, Policy
from pytest_hwperf.reports.rollout import document_of, render
from pytest_hwperf.stats.choice.rollout import P95, Contender, Decision, decide, requirements_of
from pytest_hwperf.stats.choice.rollout_plan import RolloutFile, Rows, VersionRecord, plan_of
from pytest_hwperf.stats.verdicts import explain, judge_comparison

_WIDEST = 80
_KINDS: tuple[TargetKind, ...] = ("ONNX file", "estimator", "function", "address")


def run(options: argparse.Namespace) -> int:
    """Compare, decide, say it, write what was asked for, and return the exit code."""
    settings = _checked(options)
    budgets = read_requirements(options.requirements) if options.requirements else ()
    X, y = read_data(options.data, options.target)
    settings = replace(settings, classes=_classes(options.classes, y))
    versions = [contender(target) for target in (options.old, options.new)]  # found before the time is spent
    _check_margins(options.margin, versions, labelled=y is not None)
    measured = measure_versions(options.old, options.new, X, y, settings, budgets)
    output.clear_progress()
    rows = Rows(file=options.data, sha256=digest_of(Path(options.data)), count=len(X), labelled=y is not None)
    file = _decided(settings, budgets, measured, rows, _command(options))
    verdicts = verdicts_of(file)
    output.show_document(document_of(file, verdicts), _WIDEST)
    if options.markdown:
        output.write_file(options.markdown, render(file, verdicts))
    if options.record:
        output.write_record(options.record, file.record)
    if options.json:
        output.write_record(options.json, file)
    return exit_code(file.record.decision, accept_inconclusive=options.accept_inconclusive)


def _classes(given: str | None, y: Any | None) -> Any | None:
    """Return what the columns of scores stand for, in the type of the labels; None where nobody says."""
    import numpy as np

    if given is None:
        return None
    if y is None:
        raise UsageProblem(
            "--classes: the data has no labels: add y to the .npz, or name a column of the .csv with --target"
        )
    names = [name.strip() for name in given.split(",")]
    if y.dtype.kind not in "biuf":
        return np.asarray(names)
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        raise UsageProblem(f"--classes={given}: the labels are {y.dtype}: give numbers, such as 3,7") from None
    whole = all(number.is_integer() for number in numbers)
    return np.asarray([int(number) for number in numbers] if whole else numbers)


def verdicts_of(file: RolloutFile) -> list[str]:
    """Say what was found of each statistic."""
    return [explain(judge_comparison(METRICS[one.metric], one, Policy())) for one in file.comparisons]


def exit_code(decision: Decision, *, accept_inconclusive: bool = False) -> int:
    """Return 0 for go, 1 for no-go, 3 for inconclusive.

    A comparison that observed something may be accepted although it is inconclusive; one that could not be made, or
    that observed nothing, never is, and no requirement.
    """
    if decision.outcome == "no-go":
        return output.FAILED
    doubts = [one.subject for one in decision.reasons]
    accepted = accept_inconclusive and doubts and all(map(_has_values, doubts))
    return output.OK if decision.outcome == "go" or accepted else output.INCONCLUSIVE


def _has_values(subject: object) -> bool:
    """Whether it is a comparison whose values do not decide: doubt about them may be accepted."""
    if not isinstance(subject, Comparison) or subject.outcome not in ("inconclusive", "equivalent"):
        return False
    return subject.change is not None or (subject.cause is not None and subject.cause.kind == "processes disagree")


def _checked(options: argparse.Namespace) -> CompareSettings:
    """Refuse what cannot be meant before anything is measured."""
    for target in (options.old, options.new):
        check_target(target, _KINDS)
    arg.check_seconds(arg.A_DAY_S, "600", time=options.time)
    arg.check_seconds(LONGEST_S, "10", timeout=options.timeout)
    try:
        margins = {one.key: one for one in (*MODELS_COMPARED, *parse_margin_lines(options.margin))}
    except UsageProblem as problem:
        raise UsageProblem(f"--margin: {problem}") from problem
    if not all(METRICS[margin.metric].between_models for margin in margins.values()):
        *others, last = (name for name, metric in METRICS.items() if metric.between_models)
        raise UsageProblem(f"hwperf compare knows margins of {', '.join(others)} and {last}")
    return CompareSettings(
        margins=tuple(margins.values()),
        alpha=parse_rate("--alpha", options.alpha),
        batch_size=options.batch_size,
        threads=options.threads,
        time_s=options.time,
        until_equivalent=True,
        trust=options.trust,
        headers=headers_of(options.header),
        timeout_s=options.timeout,
        progress=partial(_show, output.progress_line()),
    )


def _check_margins(margins: Sequence[str], versions: Sequence[Contender], *, labelled: bool) -> None:
    """Refuse a margin of what these versions cannot be compared by: no decision would rest on it."""
    asked = {one.metric for one in parse_margin_lines(margins)}
    if ACCURACY in asked and not labelled:
        raise UsageProblem(
            "--margin=accuracy: the data has no labels: add y to the .npz, or name a column of the .csv with --target"
        )
    if "model_size" in asked and any(one.size is None for one in versions):
        raise UsageProblem("--margin=model_size: functions and addresses have no size: leave this margin out")


def _decided(
    settings: CompareSettings, budgets: Sequence[Budget], measured: MeasuredVersions, rows: Rows, command: Iterable[str]
) -> RolloutFile:
    """Decide, and put everything together."""
    old, new = measured.old, measured.new
    requirements = requirements_of(new, budgets)
    decision = decide(measured.comparisons, requirements, old, new)
    margins = {one.key: one for one in (DEFAULT_MARGINS["latency_p95"], *settings.margins)}
    record = VersionRecord(
        decided_at=datetime.now(UTC).isoformat(timespec="seconds"),
        decision=decision,
        old=old,
        new=new,
        rows=rows,
        batch_size=settings.batch_size,
        threads=settings.threads,
        machine=describe_machine(),
        hwperf=__version__,
        alpha=settings.alpha,
        margins=tuple(settings.margins),
        pairs=len(measured.gate.evidence.pairs),
        requirements=requirements,
        command=tuple(command),
    )
    planned = None
    if decision.outcome == "go":
        planned = plan_of(old, new, budgets, margins[P95].size, settings.alpha, settings.batch_size)
    return RolloutFile(record=record, comparisons=measured.comparisons, plan=planned, gate=measured.gate)


def _command(options: argparse.Namespace) -> Iterator[str]:
    """Yield the command that repeats it; passwords and values of headers are left out."""
    yield from ("hwperf", "compare", shown(options.old), shown(options.new))
    for name in ("data", "target", "classes", "batch_size", "threads", "alpha", "requirements", "time", "timeout"):
        value = getattr(options, name)
        if value is not None:
            yield f"--{name.replace('_', '-')}={f'{value:g}' if isinstance(value, float) else value}"
    yield from (f"--margin={one}" for one in options.margin)
    yield from (f"--trust={one}" for one in options.trust)
    yield from (f"--header={name}: …" for name in headers_of(options.header))
    yield from ["--accept-inconclusive"] * options.accept_inconclusive


def _show(line: ProgressLine, progress: Progress) -> None:
    left = "" if progress.left_s is None else f", about {progress.left_s:.0f} s left"
    line.show(f"{progress.stage} pair {progress.pair} of {progress.of}", left)


_ARGUMENTS = (
    arg.option("old", "OLD", "compare this served version: ONNX or .skops file, module:function, http://…"),
    arg.option("new", "NEW", "judge this new version, given in the same forms"),
    arg.option("--data", "FILE", arg.DATA, required=True),
    arg.TARGET,
    arg.option("--classes", "LABEL,…", "name the labels of the model's columns of scores, e.g. 3,7"),
    *(arg.BATCH_SIZE, arg.THREADS),
    arg.option("--alpha", "PERCENT", "accept this rate of false alarms, over all comparisons", default="1%"),
    arg.REQUIREMENTS,
    arg.several("--margin", "[METRIC=]SIZE", "ignore smaller changes, e.g. latency_p95=10%% or accuracy=0.5pp"),
    arg.seconds("--time", 600.0, "limit the time of all pairs"),
    arg.flag("--accept-inconclusive", "exit with 0 if only measured changes are inconclusive"),
    arg.several("--trust", "MODULE.TYPE", "load this type from a .skops file, running its code"),
    arg.HEADER,
    arg.TIMEOUT,
    arg.option("--record", "FILE", "write a record of NEW for your repository"),
    arg.option("--markdown", "FILE", "write the decision as Markdown"),
    arg.written_json("the decision and its evidence"),
)
COMMAND = arg.Subcommand(
    "compare",
    run,
    "decide whether to roll out a new version of a model",
    _ARGUMENTS,
    "Compare two versions of a model on the same rows, in pairs of fresh processes, and decide on the roll-out.",
    answers={
        0: "go: every loss is within its margin, and every requirement is met",
        1: "no-go: something got worse, or a requirement is missed",
        3: "inconclusive: for example, more examples or pairs are needed",
    },
)
