"""The collector of all results of a session."""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_hwperf.host.fakes import fakes_aside
from pytest_hwperf.plugin.judging.failure import draw_failure
from pytest_hwperf.plugin.session.state import Ends, session_of
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import visible, visible_lines
from pytest_hwperf.records.units import counted, some_of

if TYPE_CHECKING:
    from pytest_hwperf.gate.result import GateResult
    from pytest_hwperf.plugin.session.settings import Settings
    from pytest_hwperf.records.report import Report, Shard


class Collector:
    """One per session, in the process that reports: under xdist the controller."""

    def __init__(self, config: pytest.Config, settings: "Settings") -> None:
        self._config = config
        self._settings = settings
        self._results: dict[str, str] = {}  # node id → its part of the report; a rerun replaces the first try
        self._ends = Ends()
        self._accepted: set[str] = set()  # node ids that passed in every phase
        self._usage_problem = False  # a worker refused a marker
        self._lines: list[str] = []  # messages of saving and writing
        self._trouble: list[str] = []  # why saving or writing failed
        self._report: Report | None = None
        self._shard: Report | None = None  # that was written of this session, where it is a shard
        self._ended: pytest.Session | None = None  # when all plugins have ended it

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._usage_problem |= getattr(report, "hwperf_usage", False)

    @pytest.hookimpl(tryfirst=True)
    @fakes_aside()
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a test, and whether it passed: nothing of a failed or xfailed one becomes a baseline."""
        draw_failure(report)
        self._ends.note(report)
        result = getattr(report, "hwperf", None)
        if result is not None:
            self._results[report.nodeid] = result
            if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
                self._accepted.add(report.nodeid)
        elif report.failed:
            self._accepted.discard(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        """Save and write what was asked for, before anyone else ends the session; note that it has come to its end."""
        with fakes_aside():
            self._finish(session, exitstatus)
        result = yield
        self._ended = session
        return result

    @fakes_aside()
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Correct the exit code in the report of a shard, where another plugin has changed it since."""
        code = self._ended.exitstatus if self._ended else pytest.ExitCode.INTERNAL_ERROR
        if self._shard is None or (shards := self._shards(code)) == self._shard.shards:
            return
        from pytest_hwperf.plugin.reporting.saving import write

        _, trouble = write(config, replace(self._shard, shards=shards))
        for line in trouble:
            config.get_terminal_writer().line(visible_lines(f"hwperf: {line}"), red=True, bold=True)

    def _finish(self, session: pytest.Session, exitstatus: int) -> None:
        """Save and write what was asked for; a failure to do so fails the session."""
        if self._usage_problem:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        twice = len(session.items) - len({item.nodeid for item in session.items})
        partial = exitstatus == pytest.ExitCode.INTERRUPTED or len(self._ends.over) < session.testscollected - twice
        if (gate := session_of(self._config).gate) is not None:
            partial |= self._add_unjudged(session, gate)
        if not self._results and not self._settings.shard:
            self._lines.extend(self._nothing())
            return
        from pytest_hwperf.plugin.reporting.report import not_compared, report_of
        from pytest_hwperf.plugin.reporting.saving import save, write
        from pytest_hwperf.plugin.session.state import without_collection

        with without_collection():
            shards = self._shards(session.exitstatus)
            report = report_of(
                self._config,
                self._results,
                partial=partial,
                hidden=tuple(self._ends.hidden),
                failed=() if shards else tuple(self._ends.failed),
                shards=shards,
            )
            self._report = report if self._results else None
            self._shard = report if shards else None
            self._lines.extend(not_compared(self._settings, session.items, report))
            for lines, trouble in (save(self._config, report, self._accepted), write(self._config, report)):
                self._lines.extend(lines)
                self._trouble.extend(trouble)
        if self._trouble and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _nothing(self) -> Iterator[str]:
        """Yield what a session did not do because it measured nothing: an old report stays, and is not its own."""
        lacks = ["nothing was saved or compared"] if self._settings.keeps_runs else []
        lacks += ["no report was written"] if self._settings.reports else []
        if lacks and not self._config.option.collectonly:
            yield f"nothing was measured: {', and '.join(lacks)}"

    def _add_unjudged(self, session: pytest.Session, gate: "GateResult") -> bool:
        """Fail the session by what the pairs have decided; return whether a test of theirs did not run after them."""
        from pytest_hwperf.plugin.judging.unjudged import report_unjudged

        before, passes = len(self._ends.failed), (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        left = report_unjudged(self._config, gate, self._results, self._ends)
        if left:
            named = some_of(sorted(map(visible, left)))
            self._trouble.append(f"{counted(len(left), 'test')} compared in pairs and not run after them ({named})")
        if len(self._ends.failed) > before and session.exitstatus in passes:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return bool(left)

    def _shards(self, exitstatus: int) -> "tuple[Shard, ...]":
        if not self._settings.shard:
            return ()
        from pytest_hwperf.plugin.session.shards import shard_of_session

        return (shard_of_session(self._config, exitstatus, tuple(self._ends.failed)),)

    @fakes_aside()
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._report is not None:
            from pytest_hwperf.plugin.reporting.saving import show

            show(terminalreporter, self._report)
        for line in self._lines:
            terminalreporter.write_line(visible_lines(f"hwperf: {line}"))
        for line in self._trouble:
            terminalreporter.write_line(visible_lines(f"hwperf: {line}"), red=True, bold=True)
