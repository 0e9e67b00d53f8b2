"""What MLPerf LoadGen writes is read strictly; the text has the lines of version 6.0.17."""

import pytest

from pytest_hwperf.core.early_stopping import rank_from_above
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.loads.loadgen_log import read_summary

SINGLE = """\
================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : SingleStream
Mode     : PerformanceOnly
90.0th percentile latency (ns) : 506211
Result is : VALID
  Min duration satisfied : Yes
Early Stopping Result:
 * Processed at least 64 queries (5251).
 * Would discard 473 highest latency queries.
 * Early stopping 90.0th percentile estimate: 506852
 * Early stopping 99.0th percentile estimate: 4457278

QPS w/ loadgen overhead         : 1749.76
QPS w/o loadgen overhead        : 1755.99

50.00 percentile latency (ns)   : 502626
99.90 percentile latency (ns)   : 8459239
"""
SERVER = """\
Scenario : Server
Completed samples per second    : 495.42
Result is : INVALID
Scheduled samples per second : 495.51
99.00 percentile latency (ns)   : 3313213
"""


def test_a_single_stream_is_read() -> None:
    found = read_summary(SINGLE)

    assert (found.kind, found.valid) == ("single_stream", True)
    assert found.percentiles == {"50.00": 0.000502626, "99.90": 0.008459239}
    assert found.bounds == {"90.0": 0.000506852, "99.0": 0.004457278}
    assert found.completed_qps == 1755.99
    assert found.scheduled_qps is None


def test_our_early_stopping_leaves_out_as_many() -> None:
    found = read_summary(SINGLE)
    assert found.processed is not None

    assert found.discarded == rank_from_above(found.processed, 0.90) - 1


def test_a_server_load_is_read() -> None:
    found = read_summary(SERVER)

    assert (found.kind, found.valid) == ("server", False)
    assert (found.completed_qps, found.scheduled_qps) == (495.42, 495.51)
    assert found.processed is found.discarded is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no summary of LoadGen: `Scenario : ...` and `Result is : ...` are missing*"),
        (SERVER.replace("Server", "Other"), "no summary of LoadGen*"),
        (SERVER.replace("INVALID", "PERHAPS"), "no summary of LoadGen*"),
        (SERVER.replace("3313213", "3e"), "no summary of LoadGen: '3e' is no number"),
        (SERVER.replace("495.42", "inf"), "no summary of LoadGen: 'inf' is no number"),
        (SERVER * 10_000, "* characters are no summary of LoadGen*"),
    ],
)
def test_anything_else_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        read_summary(text)

    pytest.LineMatcher([str(caught.value)]).fnmatch_lines([said])
