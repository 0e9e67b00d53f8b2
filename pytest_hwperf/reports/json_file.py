"""The whole report as JSON for other programs."""

import json

from pytest_hwperf.core.codec import SCHEMA, to_plain
from pytest_hwperf.core.report import Report

WHAT = "pytest-hwperf report"


def render(report: Report) -> bytes:
    """Write every record of a report, in base units, as one line of JSON with a schema number.

    `pytest_hwperf.core.codec.from_plain(Report, json.loads(text)["report"])` reads it back.

    Raises:
        CodecError: a record that could not be read back, such as one with NaN.
    """
    whole = {"report": to_plain(report), "schema": SCHEMA, "what": WHAT}
    return (json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")
