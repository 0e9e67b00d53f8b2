"""What pytest keeps of a measured call, log records and warnings, is kept of the first calls alone."""

from pathlib import Path

import pytest

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile

SUITE = """
import logging
import warnings
import pytest

log = logging.getLogger("svc")
kept = {}

def handlers():
    return [one for one in logging.getLogger().handlers if hasattr(one, "records")]

def work():
    log.warning("it works")
    warnings.warn("old", DeprecationWarning)

def test_plain(hwperf):
    hwperf(work)
    assert handlers() and all(1 <= len(one.records) <= 20 for one in handlers())
    log.warning("after it")
    assert all("after it" == one.records[-1].getMessage() for one in handlers())

def test_reader(hwperf, caplog):
    hwperf(work)
    assert len(caplog.records) > 20

@pytest.mark.filterwarnings("error")
def test_error(hwperf):
    with pytest.raises(DeprecationWarning):
        hwperf(work)

def test_caught(hwperf):
    with pytest.warns(DeprecationWarning):
        hwperf(work)
"""


def test_records_of_the_first_calls_alone_are_kept(pytester: pytest.Pytester) -> None:
    """A test that reads them by caplog is given all, and its figures say so; warnings may still be errors."""
    pytester.makepyfile(test_it=SUITE)
    options = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "--hwperf-report=report.json", "-pno:cacheprovider")
    result = pytester.runpytest_inprocess(*options)
    result.assert_outcomes(passed=4, warnings=result.parseoutcomes().get("warnings", 0))
    assert result.parseoutcomes().get("warnings", 0) < 100
    report = from_json(ReportFile, Path("report.json").read_text(encoding="utf-8")).report
    notes = {
        one.run.test.rpartition("::")[2]: [str(text) for sample in one.run.samples for text in sample.warnings]
        for one in report.judgements
    }
    said = "time and memory include pytest's copies of "
    assert any(text.startswith(said) and text.endswith("the test uses caplog") for text in notes["test_reader"])
    assert not any(text.startswith(said) for text in notes["test_plain"])
