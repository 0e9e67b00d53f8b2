"""The whole report as JSON for other programs."""

from pytest_hwperf.core.report import Report, ReportFile
from pytest_hwperf.core.serialisation import to_json


def render(report: Report) -> bytes:
    """Write every record of a report, in base units, as one line of JSON with a schema number.

    `pytest_hwperf.core.serialisation.from_json(ReportFile, text).report` reads it back.

    Raises:
        SerialisationError: a record that could not be read back, such as one with NaN.
    """
    return to_json(ReportFile(report=report)) + b"\n"
