"""A session of pytest that a command starts, with a report in a temporary file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.cli.inputs import read_report
from pytest_hwperf.host.launch import run_to_end
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.report import Report

_LAST_WORDS = 2000  # characters of what pytest has said


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of pytest that has ended."""

    code: int
    report: Report | None  # None: it has written none
    output: str  # the end of it


def run_pytest(
    arguments: Sequence[str], *, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> Session:
    """Run pytest on measured tests alone, and read its report."""
    with workdir() as folder:
        file = folder / "report.json"
        command = ["-m", "pytest", "-q", "--hwperf-only", *arguments, f"--hwperf-report={file}"]
        done = run_to_end(command, directory=directory, environment=environment)
        output = (done.stdout + done.stderr)[-_LAST_WORDS:]
        return Session(code=done.returncode, report=read_report(str(file)) if file.exists() else None, output=output)
