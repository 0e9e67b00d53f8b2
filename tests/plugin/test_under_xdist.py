"""Sessions whose tests run in workers of pytest-xdist: measured and judged there, saved and reported here."""

import re
from collections.abc import Callable

import pytest

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import Report, ReportFile

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("fakes_in_reach")]

QUICK = ("-p", "xdist", "-pfakes.simulated_time", "--hwperf-sample-time=0.05", "--hwperf-energy=off")
GOOD = """
import pytest
from fakes.simulated_time import spend

@pytest.mark.hwbudget(latency_p95_ms=10000)
@pytest.mark.parametrize("number", range(4))
def test_good(number): spend(100 + number)
"""
BAD = """
import pytest
from fakes.simulated_time import spend

@pytest.mark.hwbudget(latency_p95_ms=0.000001)
def test_bad(): spend(100)
"""
SWEPT = """
import pytest
from fakes.simulated_time import spend

@pytest.mark.hwsweep(batch_size=[1, 8], latency_p50_ms=1e-12)
def test_swept(hwperf, batch_size): hwperf(lambda rows: spend(len(rows)), [0] * 64, batch_size=batch_size)
"""
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Start a session with workers; its controller is this process."""
    return lambda *options: pytester.runpytest_inprocess(*QUICK, *options)


def report(pytester: pytest.Pytester, name: str = "report.json") -> Report:
    return from_json(ReportFile, (pytester.path / name).read_text(encoding="utf-8")).report


def test_results_are_whole_saved_once_and_neighbours_are_named(pytester: pytest.Pytester, run: Run) -> None:
    """Files stay together, so that one worker has all points of a sweep; it stops by its own misses alone."""
    pytester.makepyfile(test_good=GOOD, test_bad=BAD, test_swept=SWEPT)
    saved = run("-n2", "--dist=loadfile", "--hwperf-save", "--hwperf-report=report.json")
    compared = run("-n1", "--hwperf-compare", "-kgood")

    saved.assert_outcomes(passed=5, failed=1, skipped=1)
    assert 6 == len(report(pytester).judgements)
    saved.stdout.fnmatch_lines(
        [
            "warning: 2 test workers shared the processors, which disturbs timings: measure *",
            "note: under pytest-xdist a worker skips larger batches only after a miss *",
            "hwperf: 5 runs saved*",
        ]
    )
    files = [*(pytester.path / ".hwperf").rglob("test_*.jsonl")]  # one is held; each begins with what it is
    assert [2] * 6 == [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    compared.assert_outcomes(passed=4)
    compared.stdout.no_fnmatch_line("*no baseline*")


def test_an_empty_shard_passes(pytester: pytest.Pytester, run: Run) -> None:
    """Its workers alone collect, and tell what they have found; a selection without tests is one as ever."""
    pytester.makepyfile(test_a="def test_one(hwperf):\n    hwperf.record('tokens', 4.0, better='lower')\n")
    found = [
        run("-n1", "-k", select, f"--hwperf-shard={number}/2", f"--hwperf-report={number}.json")
        for number, select in ((1, "nothing"), (1, "one"), (2, "one"))
    ]
    said = [line for result in found[1:] for line in result.outlines if line.startswith("hwperf: shard ")]
    shards = [report(pytester, f"{number}.json") for number in (1, 2)]
    assert [pytest.ExitCode.NO_TESTS_COLLECTED, 0, 0] == [int(result.ret) for result in found]
    assert [0, 1] == sorted(len(one.judgements) for one in shards)
    assert [1, 1] == [one.shards[0].selected for one in shards]
    assert ["0 of 1 tests", "1 of 1 tests"] == sorted(line.partition(" runs ")[2] for line in said)


def test_bad_markers_keep_their_texts_and_exit_code(pytester: pytest.Pytester, run: Run) -> None:
    """Raised in an xdist worker, a usage error would lose its text; a failed collection report does not."""
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latncy_p95_ms=1)
        def test_limit(): raise SystemExit('ran')
        @pytest.mark.hwscenarios("onnx_fp23")
        def test_name(hwperf, scenario): raise SystemExit('ran')
        """
    )
    result = run("-n1")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    assert {"latency_p95_ms", "onnx_fp32"} <= {*re.findall(r"Did you mean '(\w+)'\?", result.stdout.str())}
