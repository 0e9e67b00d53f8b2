"""The whole report as JSON for other programs."""

from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import visible_json


def render(report: Report, *, judgements_read: bool = False) -> bytes:
    """Write every record of a report, in base units, as one line of JSON with a schema number.

    `pytest_hwperf.records.codec.from_json(ReportFile, text).report` reads it back.
    """
    if judgements_read:
        to_json(replace(report, judgements=()))
    return visible_json(to_json(ReportFile(report=report), check=not judgements_read)) + b"\n"
