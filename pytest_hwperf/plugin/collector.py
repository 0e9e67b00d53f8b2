"""The collector of all results of a session."""

from typing import TYPE_CHECKING

import pytest

from pytest_hwperf.core.foreign_text import visible_lines
from pytest_hwperf.plugin.failure import draw_failure

if TYPE_CHECKING:
    from pytest_hwperf.core.report import Report
    from pytest_hwperf.core.shards import Shard
    from pytest_hwperf.plugin.options import Settings


class Collector:
    """One per session, in the process that reports: under xdist the controller."""

    def __init__(self, config: pytest.Config, settings: "Settings") -> None:
        """Collect for `config`."""
        self._config = config
        self._settings = settings
        self._results: dict[str, str] = {}  # node id → its part of the report; a rerun replaces the first try
        self._failed: dict[str, None] = {}  # node ids of tests that failed, for whatever reason
        self._accepted: set[str] = set()  # node ids that passed in every phase
        self._usage_problem = False  # a worker refused a marker
        self._lines: list[str] = []  # messages of saving and writing
        self._trouble: list[str] = []  # why saving or writing failed
        self._report: Report | None = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember that an xdist worker refused a marker."""
        self._usage_problem |= getattr(report, "hwperf_usage", False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a test, and whether it passed: nothing of a failed or xfailed one becomes a baseline."""
        draw_failure(report)
        if report.failed:
            self._failed[report.nodeid] = None
        result = getattr(report, "hwperf", None)
        if result is not None:
            self._results[report.nodeid] = result
            if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
                self._accepted.add(report.nodeid)
        elif report.failed:
            self._accepted.discard(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Save and write what was asked for; a failure to do so fails the session."""
        if self._usage_problem:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        if not self._results and not self._settings.shard:
            if self._settings.save or self._settings.compare:
                self._lines.append("nothing was measured, so that nothing was saved or compared")
            return
        from pytest_hwperf.plugin.garbage import without_collection
        from pytest_hwperf.plugin.report_files import write
        from pytest_hwperf.plugin.reporting import report_of, save

        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        with without_collection():
            report = report_of(self._config, self._results, partial=interrupted, shards=self._shards(exitstatus))
            self._report = report if self._results else None
            for lines, trouble in (save(self._config, report, self._accepted), write(self._config, report)):
                self._lines.extend(lines)
                self._trouble.extend(trouble)
        if self._trouble and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _shards(self, exitstatus: int) -> "tuple[Shard, ...]":
        """Return what is to be known of this session where it is a shard."""
        if not self._settings.shard:
            return ()
        from pytest_hwperf.plugin.shards import shard_of_session

        return (shard_of_session(self._config, exitstatus, tuple(self._failed)),)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the table; every verdict was made before."""
        if self._report is not None:
            from pytest_hwperf.plugin.reporting import show

            show(terminalreporter, self._report)
        for line in self._lines:
            terminalreporter.write_line(visible_lines(f"hwperf: {line}"))
        for line in self._trouble:
            terminalreporter.write_line(visible_lines(f"hwperf: {line}"), red=True, bold=True)
