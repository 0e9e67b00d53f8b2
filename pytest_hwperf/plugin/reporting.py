"""The report of a session: made, saved and shown."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hwperf.host.extras import missing
from pytest_hwperf.host.files import create_file, leads_out, replace_files
from pytest_hwperf.plugin.command import published
from pytest_hwperf.plugin.markers import sweeps_of
from pytest_hwperf.plugin.options import REPORTS
from pytest_hwperf.plugin.session import is_measured, session_of, without_collection
from pytest_hwperf.plugin.unjudged import named
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import StoreError, install
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report, ReportPart, Shard
from pytest_hwperf.records.run import StoredRun
from pytest_hwperf.records.text import shell_line, shell_word
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.reports import csv_files, explained, json_file, markdown, plots, tradeoff_files
from pytest_hwperf.reports import sweeps as sweep_report
from pytest_hwperf.reports import terminal as terminal_report
from pytest_hwperf.reports.document import StyledLine, as_text
from pytest_hwperf.reports.headline import hidden_by_xfails
from pytest_hwperf.reports.table import families
from pytest_hwperf.stats.advice import advice
from pytest_hwperf.stats.candidates import candidate_of, pairs_of, slower_than_fp32
from pytest_hwperf.stats.history import Annotation, Series
from pytest_hwperf.stats.hypotheses import one_side_only, why_not_rerun
from pytest_hwperf.stats.merging import assigned
from pytest_hwperf.stats.stored import gone_from, machine_drift, may_hide_a_change, stored_run_of
from pytest_hwperf.stats.tradeoffs import measured_together
from pytest_hwperf.stats.verdicts import baseline_failed, pairs_failed

if TYPE_CHECKING:
    from pytest_hwperf.plugin.settings import Settings
    from pytest_hwperf.reports.table import Detail
    from pytest_hwperf.stores.store import Store


_NAMED = 3  # tests in a warning
_MOST_TURNS = 0.5  # of a comparison, interrupted: then nothing else helps it
_OFFERED = 5  # commands that accept one test each
_LAST_LINE, _ROWS, _ALL_FIGURES = -2, 1, 2  # verbosity: the counts alone with -qq, every row with -v, all with -vv

Notices = tuple[list[str], list[str]]  # what was done, and what went wrong


def report_of(
    config: pytest.Config,
    results: Mapping[str, str],
    *,
    partial: bool,
    hidden: tuple[str, ...] = (),
    shards: tuple[Shard, ...] = (),
    failed: tuple[str, ...] = (),
) -> Report:
    """Make the report of everything that was judged, in the order in which it ran."""
    shared = session_of(config)
    settings = shared.settings
    parts = [from_json(ReportPart, text) for text in results.values()]
    judgements = [judgement for part in parts for judgement in part.judgements]
    comparisons = [comparison for judgement in judgements for comparison in judgement.comparisons]
    gates = tuple([shared.gate.gate] if shared.gate else []) + tuple(gate for part in parts for gate in part.gates)
    swept = {one.run.test for part in parts for one in part.judgements if part.point is not None}
    advised = map(str, advice(judgements, served=settings.serving_batch, swept=swept))
    remarks = [hidden_by_xfails(hidden), *_warnings(judgements, comparisons), *named(config, judgements, gates)]
    whole = [test for test, part in zip(results, parts, strict=True) if not (part.skips or part.point)]
    remarks.append(_gone(config, _named(whole), judgements))
    report = Report(
        machine=shared.machine,
        revision=shared.revision.commit,
        revision_date=shared.revision_date,
        changed=shared.revision.changed,
        started_at=shared.started_at,
        baseline=settings.baseline if settings.keeps_runs else "",
        judgements=tuple(judgements),
        skips=tuple(skip for part in parts for skip in part.skips),
        warnings=tuple(filter(None, [*remarks, *advised])),
        partial=partial,
        hidden=hidden,
        failed=failed,
        shards=shards,
        policy=shared.policy,
        sweeps=sweeps_of(parts, workers=bool(getattr(config.option, "tx", None))),
        gates=gates,
        options=published(config),
    )
    return assigned(report, settings.machine_kind[0]) if settings.machine_kind else report


def _gone(config: pytest.Config, tests: Collection[str], judgements: Sequence[Judgement]) -> str:
    """Name the measurements that the stored baseline has of these tests and the session did not make; "" for none."""
    shared = session_of(config)
    measured = {Measurement(test=one.run.test, label=one.run.label) for one in judgements}
    gone = list[Measurement]()
    with suppress(StoreError):  # the tests say that it cannot be read
        stored = shared.store.newest(shared.settings.baseline) if shared.settings.compare else ()
        alike = [one.run for one in stored if one.run.machine.is_alike(shared.machine, ())]
        gone = gone_from(alike, tests, measured)
    named = _some([f"{one.test}: {one_side_only(one, 'baseline')}" for one in gone])
    return f"{counted(len(gone), 'stored measurement')} not compared: {named}" if gone else ""


def _warnings(judgements: Sequence[Judgement], comparisons: Sequence[Comparison]) -> Iterator[str | None]:
    """Yield what has to be known of a whole session; "" or None for what is as it should be."""
    yield machine_drift(comparisons)
    if comparisons and all(one.outcome == "not comparable" for one in comparisons):
        none = f"none of {len(comparisons)} comparisons could be made: {comparisons[0].reason}"
        yield f"{none}; --hwperf-strict fails them"
    yield from _not_run(judgements)
    yield from _slower_int8(judgements)
    yield from _lost_classes(judgements)
    doubts = (one for judgement in judgements for sample in judgement.run.samples for one in sample.warnings)
    yield next((str(one) for one in doubts if isinstance(one, Statement) and one.kind == "workers"), None)
    yield _interrupted(comparisons)
    yield from _shared_causes(judgements)


def _not_run(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield warnings that name the tests which the baseline has and could not run, or which do not run in pairs."""
    comparisons = [(judgement.run.test, one) for judgement in judgements for one in judgement.comparisons]
    compared = {test for test, one in comparisons if one.outcome not in ("no baseline", "not comparable")}
    for failed, who in ((baseline_failed, "the baseline"), (pairs_failed, "the pairs")):
        reasons = {test: one.reason for test, one in comparisons if test not in compared and failed(one)}
        if reasons:
            tests, named = counted(len(reasons), "test"), _some([f"{test}: {why}" for test, why in reasons.items()])
            yield f"{tests} not compared, since {who} could not run them; --hwperf-strict fails them: {named}"


def _some(sentences: Sequence[str]) -> str:
    more = [f"and {counted(len(sentences) - _NAMED, 'other')}"] if len(sentences) > _NAMED else []
    return "; ".join([*sentences[:_NAMED], *more])


def _slower_int8(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield warnings that name the tests in which INT8 is slower than FP32, and those in which it may be."""
    measured = [list(map(candidate_of, family.judgements)) for family in families(judgements, ())]
    found = [one for candidates in measured for one in slower_than_fp32(candidates)]
    for kind, verb in (("slower than fp32", "is"), ("may be slower than fp32", "may be")):
        slower = [one for one in found if one.kind == kind]
        pairs = f". Measure in pairs: {pairs_of(one.texts['test'] for one in slower)}" if verb == "may be" else ""
        if slower:
            yield f"INT8 {verb} slower than FP32, median of a call: {_some([*map(str, slower)])}{pairs}"


def _lost_classes(judgements: Sequence[Judgement]) -> Iterator[str]:
    found = [
        f"{one.name} of {measured.test} against {measured.reference.name}: {lost}"
        for measured in measured_together(judgements)
        for one in measured.candidates
        if (lost := measured.lost_by(one))
    ]
    found += [
        f"{judgement.run.test} against the baseline: {one.moved}"
        for judgement in judgements
        for one in judgement.comparisons
        if one.outcome != "regressed" and one.moved and one.moved.kind == "class lost"
    ]
    if found:
        yield f"classes are lost: {_some(found)}"


def _shared_causes(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Say once what several tests regressed by: each of their failures shows its own part of it."""
    tests = dict[str, set[str]]()
    for judgement in judgements:
        for one in judgement.comparisons:
            if one.outcome == "regressed" and one.moved and {"name", "where"} <= one.moved.texts.keys():
                cause = f"{one.moved.texts['name']} ({one.moved.texts['where']})"
                tests.setdefault(cause, set()).add(judgement.run.test)
    yield from (
        f"{len(found)} tests regressed by one cause: {cause}" for cause, found in tests.items() if len(found) > 1
    )


def _interrupted(comparisons: Sequence[Comparison]) -> str:
    """Say what helps where other work has left comparisons inconclusive, "" elsewhere."""
    inconclusive = [one for one in comparisons if one.outcome == "inconclusive"]
    most = sum((one.interference or 0.0) > _MOST_TURNS for one in inconclusive)
    told = f"other work interrupted most turns of {counted(most, 'inconclusive comparison')}"
    return f"{told}: stop it, or run on a machine with a free processor" if most else ""


_UNASKED = ("latency_p95", "memory")  # any test has them, and none is compared by them that does not name them
_GREEN = {"equivalent", "improved"}


def not_compared(settings: "Settings", items: Sequence[pytest.Item], report: Report) -> Iterator[str]:
    """Say after a green comparison which tests and statistics it left out, and how to include them."""
    made = [one for judgement in report.judgements for one in judgement.comparisons if not one.is_left_out]
    if not made or {one.outcome for one in made} - _GREEN or any(one.fails for one in report.judgements):
        return
    left, silent = list[str](), [item for item in items if not is_measured(item)]
    if silent and not settings.all:
        are_benchmarks = all("benchmark" in getattr(item, "fixturenames", ()) for item in silent)
        option = "--hwperf-benchmark" if are_benchmarks else "--hwperf-all"
        left.append(f"{counted(len(silent), 'test')} that measure{'s' * (len(silent) == 1)} nothing (add {option})")
    for name in _UNASKED:
        margin = DEFAULT_MARGINS[name]
        if margin.key not in {one.key for one in made}:
            statistic = METRICS[margin.metric].called(margin.statistic)
            left.append(f"{statistic} (add --hwperf-margin={name}={100 * margin.size:g}%)")
    if left:
        yield f"not compared: {', '.join(left)}"


def save(config: pytest.Config, report: Report, accepted: Collection[str]) -> Notices:
    """Save the sound runs of accepted tests to the baseline; keep the others aside until they are accepted."""
    settings = session_of(config).settings
    if not settings.save:
        return [], []
    store = session_of(config).store
    # A run without figures, such as that of a comparison of models, holds nothing to compare with later.
    measured = [judgement for judgement in report.judgements if judgement.figures]
    sound = {one.run.test for one in measured} & _named(accepted)
    sound -= {one.run.test for one in measured if may_hide_a_change(one.comparisons)}
    passed = [stored_run_of(judgement) for judgement in measured if judgement.run.test in sound]
    failed = [stored_run_of(judgement) for judgement in measured if judgement.run.test not in sound]
    saved, unsaved = _stored(store.save, settings.baseline, passed)
    held, unheld = _stored(store.hold, settings.baseline, failed)
    unkept = list[str]()
    try:
        store.keep(settings.baseline, report)
    except StoreError as error:
        unkept.append(f"verdicts not kept: {error}")
    lines = [f"{counted(len(saved), 'run')} saved to baseline {settings.baseline} in {settings.location}"]
    if refused := session_of(config).revision.refused:
        lines.append(f"warning: saved without a revision, so that --hwperf-compare cannot rerun it: {refused}")
    elif saved and (reason := why_not_rerun(passed[0].run, known=True, crowded=False)):
        lines.append(
            f"--hwperf-compare cannot rerun this revision, since {reason}, and compares later timings with the stored "
            "ones: commit and save again"
        )
    lines += _to_accept(settings, held)
    return lines, [*unsaved, *unheld, *unkept]


def _named(nodes: Collection[str]) -> set[str]:
    """Return node ids as they are, and without the `@group` of pytest-xdist: the names of runs leave it out."""
    return {name for node in nodes for name in accumulate(node.split("@"), "{}@{}".format)}


def _to_accept(settings: "Settings", held: Sequence[str]) -> list[str]:
    """Return what to type to accept the runs of `held`: a command for each of some tests, and one for all."""
    url, tests = f"{settings.store}:{settings.location}", list(dict.fromkeys(held))
    command = shell_line(["hwperf", "baseline", "accept", "--baseline", settings.baseline, "--store", url])
    commands = [f"{command} {'-- ' * test.startswith('-')}{shell_word(test)}" for test in tests[:_OFFERED]]
    if len(tests) > 1:
        commands.append(f"for every run that waits there: {command} '*'")
    said = f"{counted(len(held), 'run')} not saved to the baseline: failed, or perhaps worse. "
    return [f"{said}Where this is the new normal: {commands[0]}", *commands[1:]] if held else []


def _stored(
    keep: Callable[[str, Sequence[StoredRun]], Sequence[str | StoreError]], baseline: str, runs: Sequence[StoredRun]
) -> Notices:
    """Return the tests whose runs were stored, and what kept the others from it."""
    try:
        answers = keep(baseline, runs)
    except StoreError as error:
        return [], [f"not saved: {error}"]
    tests = [run.run.test for run, answer in zip(runs, answers, strict=True) if isinstance(answer, str)]
    return tests, [f"not saved: {answer}" for answer in answers if isinstance(answer, StoreError)]


def show(terminal: pytest.TerminalReporter, report: Report) -> None:
    writer, verbosity = terminal.config.get_terminal_writer(), terminal.config.get_verbosity()
    gate = session_of(terminal.config).gate
    if verbosity > _LAST_LINE:
        terminal.write_sep("=", "hwperf")
    if gate and gate.completeness.shortfall:
        terminal.write_line(gate.completeness.shortfall, yellow=True, bold=True)
    with without_collection():
        lines = _lines(report, verbosity, writer.fullwidth)
    for line, style in lines or [("nothing was measured: tests measure by calling their fixture, hwperf(...)", {})]:
        terminal.write_line(line, **style)
    if verbosity <= _LAST_LINE:
        return
    for sweep in report.sweeps:
        for line in as_text(sweep_report.document_of(sweep), writer.fullwidth):
            terminal.write_line(line)
    for line in as_text(sweep_report.notes_of(report.sweeps), writer.fullwidth):
        terminal.write_line(line, yellow=True)


def _lines(report: Report, verbosity: int, width: int) -> list[StyledLine]:
    """Draw as much of a report as the verbosity asks for: its counts, what is not well, a line a test, every row."""
    if verbosity <= _LAST_LINE:
        return terminal_report.render_counts(report, width=width)
    if verbosity < _ROWS:
        return terminal_report.render_summary(report, width=width, quiet=verbosity < 0)
    detail: Detail = "verbose" if verbosity >= _ALL_FIGURES else "normal"
    return terminal_report.render(report, width=width, detail=detail)


def write(config: pytest.Config, report: Report) -> Notices:
    settings, files = session_of(config).settings, dict[Path, bytes]()
    places = [config.invocation_params.dir / name for name in settings.reports]
    folders = [place for place in places if not place.name.endswith(REPORTS)]
    for place in places:
        files |= {path: content for path, content in _made(config, report, place) if path not in files}
    out = [path for path in files if leads_out(path, config.rootpath)]
    trouble = [f"{path} not written: a link in {config.rootpath} leads out of it; give another path" for path in out]
    failed = replace_files({path: content for path, content in files.items() if path not in out}, create_file)
    trouble += [
        f"{path} not written: {error.strerror}; give another path or free some space" for path, error in failed.items()
    ]
    written = [path for path in files if path not in out and path not in failed]
    own = [path for path in written if path in places]
    lines = [f"wrote {path}" for path in own]
    for folder in folders:
        within = [path for path in written if path not in own and path.is_relative_to(folder)]
        lines += [f"wrote {counted(len(within), 'file')} to {folder}"] if within else []
    if folders and missing("matplotlib"):
        lines.append(f"no pictures drawn: {install('plot')}")
    return lines, trouble


def _made(config: pytest.Config, report: Report, place: Path) -> Iterator[tuple[Path, bytes]]:
    if place.suffix == ".json":
        yield place, json_file.render(report, judgements_read=True)
    elif place.suffix == ".html":
        yield place, _page(config, report)
    elif place.suffix == ".md":
        yield place, markdown.render(report)
    else:
        yield from ((place / name, content) for name, content in _artifacts(report).items())


def _artifacts(report: Report) -> dict[str, bytes]:
    found = {**csv_files.render(report), **tradeoff_files.render(report), **explained.render(report)}
    if not missing("matplotlib"):
        drawn = [sweep for sweep in report.sweeps if any(row.is_measured for row in sweep.rows)]
        found |= {f"sweep-{place}.png": plots.render_sweep(sweep) for place, sweep in enumerate(drawn, 1)}
        found |= plots.render_tradeoffs(report)
    return found


def _page(config: pytest.Config, report: Report) -> bytes:
    from pytest_hwperf.reports.html import page

    settings, store = session_of(config).settings, session_of(config).store
    asked = settings.keeps_runs or settings.is_anchored
    read = partial(_history, store, settings.baseline) if asked else None
    return page.render(report, history=read)


def _history(
    store: "Store", baseline: str, measured: Sequence[tuple[str, str]], newest: int
) -> tuple[Sequence[Series], Sequence[Annotation]]:
    """Read the history of some tests; a store that cannot be read has none here: the comparison has said so."""
    with suppress(StoreError):
        return store.history_of(baseline, measured, newest=newest), store.annotations()
    return (), ()
