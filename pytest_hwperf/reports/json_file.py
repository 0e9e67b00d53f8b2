"""The whole report as JSON for other programs."""

from pytest_hwperf.core.codec import to_json
from pytest_hwperf.core.foreign_text import visible_json
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.report import Report, ReportFile


def render(report: Report, *, judgements_read: bool = False) -> bytes:
    """Write every record of a report, in base units, as one line of JSON with a schema number.

    `pytest_hwperf.core.codec.from_json(ReportFile, text).report` reads it back.
    """
    if judgements_read:
        to_json(replace(report, judgements=()))
    return visible_json(to_json(ReportFile(report=report), check=not judgements_read)) + b"\n"
