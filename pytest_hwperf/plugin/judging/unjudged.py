"""What the pairs have decided and the session has not judged: it is added to the report, and a regression fails."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_hwperf.gate.result import GateResult
from pytest_hwperf.plugin.judging.failure import Failure
from pytest_hwperf.plugin.judging.judge import failures, judged_by
from pytest_hwperf.plugin.measuring.run import empty_run
from pytest_hwperf.plugin.session.state import Ends, session_of, test_of
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.report import ReportPart
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Judgement, uncompared

ADDED = "xfail added"  # how pytest's last line counts tests whose failure a new `xfail` hides


def note_xfail(item: pytest.Item, report: pytest.TestReport) -> None:
    """Mark an expected failure by verdicts whose `xfail` the candidate has added; --hwperf-strict fails it."""
    test, gate = test_of(item), session_of(item.config).gate
    if gate is None or not _is_new(item.config, gate, item.nodeid):
        return
    if not session_of(item.config).settings.strict:
        test.counted = ADDED
        report.hwperf_hidden = True  # type: ignore[attr-defined] # pytest lets plugins add to a report
        return
    del report.wasxfail
    _fail(report, f"{test.failure}\nthe xfail of this test is new, and hides nothing with --hwperf-strict")


def report_unjudged(config: pytest.Config, gate: GateResult, results: dict[str, str], ends: Ends) -> list[str]:
    """Add what was decided and not judged to `results`, and fail tests that regressed and were failed by nothing."""
    parts = {test: from_json(ReportPart, text) for test, text in results.items()}
    decided = _by_test(gate)
    for test in dict.fromkeys((*decided, *ends.skipped, *sorted(one.test for one in gate.gone))):
        part = parts.get(test, ReportPart(judgements=()))
        added = [*_unjudged(config, gate, test, part, decided.get(test, {})), *_gone(config, gate, test, part)]
        whole = replace(part, judgements=(*part.judgements, *added))
        excused = test in ends.hidden or (test in ends.xfailed and not _is_new(config, gate, test))
        lost = [one for one in whole.judgements if one.fails] if test not in ends.failed and not excused else []
        if added:
            results[test] = to_json(whole).decode()
        if lost:
            config.hook.pytest_runtest_logreport(report=_failed(test, lost))
    return [test for test in decided if test not in ends.over]


def _by_test(gate: GateResult) -> Mapping[str, Mapping[str, list[Comparison]]]:
    """Return what the pairs have decided: test → label → comparisons."""
    found = defaultdict[str, defaultdict[str, list[Comparison]]](lambda: defaultdict(list))
    for (measurement, _, _), comparison in gate.answers.comparisons.items():
        found[measurement.test][measurement.label].append(comparison)
    return found


def _unjudged(
    config: pytest.Config, gate: GateResult, test: str, part: ReportPart, by_label: Mapping[str, list[Comparison]]
) -> Iterator[Judgement]:
    """Yield judgements of what the test itself was not judged by."""
    asked = (*gate.gate.evidence.hypotheses, *(one.hypothesis for one in gate.gate.evidence.fixed_samples))
    better = {one.key[1]: one.better for one in asked if one.measurement.test == test}
    judged: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in part.judgements:
        judged[one.run.label] |= {comparison.key for comparison in one.comparisons}
    for label, comparisons in by_label.items():
        left = [one for one in comparisons if one.key not in judged[label]]
        if label in {one.run.label for one in part.judgements}:  # what it does not measure here is not asked of it
            left = [one for one in left if one.outcome == "regressed" and not gate.is_blind_to(_path(config, test))]
        if left:
            run = replace(empty_run(config, test, label), directions=better)
            yield judged_by(session_of(config), run, left)


def _gone(config: pytest.Config, gate: GateResult, test: str, part: ReportPart) -> Iterator[Judgement]:
    """Yield judgements of what only the baseline measures: it may be what has become slow."""
    margin = DEFAULT_MARGINS["latency_p50"]
    labels = {one.label for one in gate.gone if one.test == test} - {one.run.label for one in part.judgements}
    for label in sorted(labels):
        run = empty_run(config, test, label)
        found = gate.answers.of(Measurement(test=test, label=label), [margin], {margin.key}, ())
        lacking = [uncompared(margin, "not comparable", one.cause) for one in found.values()]
        yield judged_by(session_of(config), run, lacking)


def _failed(test: str, lost: Collection[Judgement]) -> pytest.TestReport:
    text = "\n".join([*failures(list(lost)), "decided by the pairs; in this session the test was not failed by it"])
    place = (test.partition("::")[0], None, test.partition("::")[2])
    report = pytest.TestReport(test, place, {}, "failed", None, "call")
    _fail(report, text)
    return report


def _fail(report: pytest.TestReport, text: str) -> None:
    """Let a report fail by a text, whose first line stands in pytest's summary."""
    report.outcome = "failed"
    report.longrepr = Failure(text, SimpleNamespace(reprcrash=SimpleNamespace(message=text)))  # type: ignore[assignment] # pytest asks for these methods only


def _is_new(config: pytest.Config, gate: GateResult, test: str) -> bool:
    return gate.has_new_xfail(_path(config, test), test.partition("::")[2])


def _path(config: pytest.Config, test: str) -> Path:
    return config.rootpath / test.partition("::")[0]
