"""The whole report as JSON for other programs."""

from pytest_hwperf.core.foreign_text import visible_json
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.report import Report, ReportFile
from pytest_hwperf.core.serialisation import to_json


def render(report: Report, *, judgements_read: bool = False) -> bytes:
    """Write every record of a report, in base units, as one line of JSON with a schema number.

    `pytest_hwperf.core.serialisation.from_json(ReportFile, text).report` reads it back.

    Args:
        report: the whole run.
        judgements_read: whether its judgements were read from JSON, as those of all tests are; they are then not
            read back once more.

    Raises:
        SerialisationError: a record that could not be read back, such as one with NaN.
    """
    if judgements_read:
        to_json(replace(report, judgements=()))
    return visible_json(to_json(ReportFile(report=report), check=not judgements_read)) + b"\n"
