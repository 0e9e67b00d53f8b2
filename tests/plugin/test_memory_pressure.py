"""The memory pressure index: memory in MB over rows per second, as a figure, a limit and a column."""

from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc"),
]


def test_a_limit_on_it_measures_what_it_is_made_of(pytester: pytest.Pytester) -> None:
    """50 MB at less than 1000 calls a second are above 0.05, and far below 1000."""
    pytester.makepyfile(
        """
        import time
        import pytest

        @pytest.mark.hwbudget(memory_pressure_max=1000)
        def test_kept(hwperf):
            hwperf(lambda: time.sleep(0.001))

        @pytest.mark.hwbudget(memory_pressure_max=0.01)
        def test_missed(hwperf):
            hwperf(lambda: (time.sleep(0.001), bytearray(b"x") * 50_000_000))
        """
    )
    quick = ("--hwperf-sample-time=0.2", "--hwperf-energy=off", "-p", "no:cacheprovider", "--hwperf-report=out")
    result = pytester.runpytest_subprocess(*quick)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*memory_pressure_index*limit*0.01*"])
    for name in ("stat_benchmark_summary.csv", "hardware_tradeoffs.csv"):
        assert "memory_pressure_index_p50" in (pytester.path / "out" / name).read_text(encoding="utf-8")
