"""Leaks, the runtime's own allocator, sites and the user's own blocks, each in real processes."""

import sys
from pathlib import Path

import pytest

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.run import Sample

MIB = 2**20
GROWING = ("--hwperf-sample-time=0.2", "--hwperf-energy=off", "--hwperf-report=report.json")
QUICK = (*GROWING, "-p", "fakes.short_growth")

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("fakes_in_reach"),
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc"),
]

# What the tests call of memray, with the records of a peak of 64 MB.
FAKE_MEMRAY = """
class Record:
    def __init__(self, size, *frames): self.size, self.n_allocations, self.frames = size, 1, frames
    def stack_trace(self): return list(self.frames)

class Tracker:
    def __init__(self, path): open(path, "x").close()
    def __enter__(self): {enter}
    def __exit__(self, *_): pass

class FileReader:
    def __init__(self, path): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def get_high_watermark_allocation_records(self, merge_threads):
        own = ("build\\x1b[2J", {here!r} + "/test_it.py", 3)
        yield Record(1_000_000, ("other", "/elsewhere/a.py", 9))
        yield Record(60_000_000, ("ones", "/elsewhere/numpy.py", 7), own)
        yield Record(4_000_000, ("ones", "/elsewhere/numpy.py", 7), own)
        yield Record(5, ("tiny", "/elsewhere/a.py", 10))
"""


def samples(pytester: pytest.Pytester) -> list[dict[str, Sample]]:
    """Return the samples of each measurement by metric."""
    found = from_json(ReportFile, (pytester.path / "report.json").read_bytes()).report
    return [{sample.metric: sample for sample in judgement.run.samples} for judgement in found.judgements]


def test_a_leak_is_found_and_a_budget_on_it_decides_instead_of_the_warning(pytester: pytest.Pytester) -> None:
    """100 kB with every call; others leave it to the collector, or hold it once."""
    pytester.makepyfile(
        """
        import pytest
        kept = []
        def leak(): kept.append(bytearray(b"x") * 100_000)
        def cycle():
            held = [bytearray(b"x") * 100_000]
            held.append(held)
        def cache():
            if len(kept) < 8: leak()  # two beyond the warm-up, however few calls a slow machine has time for
        @pytest.mark.hwbudget(memory_max_mb=100)
        @pytest.mark.parametrize("call", [leak, cycle, cache])
        def test_it(hwperf, call): hwperf(call)
        @pytest.mark.hwbudget(memory_leak_max_kb=50)
        @pytest.mark.parametrize("size", [100_000, 1])
        def test_limited(hwperf, size): hwperf(lambda: kept.append(bytearray(b"x") * size))
        """
    )
    result = pytester.runpytest_inprocess(*GROWING)
    leak, cycle, cache, *_ = (found["memory_leak"] for found in samples(pytester))

    result.assert_outcomes(passed=4, failed=1)
    (warned,) = [line for line in result.outlines if "memory leaks: " in line]
    result.stdout.fnmatch_lines(["*memory leaks: 10? kB (*) more is held after each of * calls, in each of 3 fresh *"])
    assert "test_limited" not in warned
    result.stdout.re_match_lines(
        [r"memory_leak 10\d kB( \(.*\))?, limit 50 kB; 3 fresh processes, Rss of smaps_rollup.*"]
    )
    assert list(leak.values) == pytest.approx([100_000] * 3, rel=0.05)
    assert [0.0] * 6 == [*cycle.values, *cache.values]
    assert () == cycle.warnings == cache.warnings


def test_onnx_load_and_run_repeats_and_tells_its_arena(pytester: pytest.Pytester) -> None:
    """Three fresh processes within half a MiB; the arena is measured too, without an interval."""
    pytester.makepyfile(
        """
        import numpy as np, pytest
        from sklearn.linear_model import LinearRegression
        X = np.random.default_rng(0).normal(size=(64, 16)).astype("float32")
        @pytest.fixture
        def hwperf_model(): return LinearRegression().fit(X, X @ np.ones((16, 4)))
        @pytest.fixture
        def hwperf_data(): return X
        @pytest.mark.hwscenarios("onnx_fp32")
        @pytest.mark.hwbudget(memory_max_mb=1000)
        def test_it(hwperf, scenario): hwperf(scenario, batch_size=16)
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    (onnx,) = samples(pytester)

    result.assert_outcomes(passed=1)
    assert max(onnx["memory"].values) - min(onnx["memory"].values) <= MIB / 2
    assert {"arena_in_use", "arena_held"} <= {*onnx}
    assert ("onnxruntime profile", 1) == (onnx["arena_held"].source, len(onnx["arena_held"].values))


def test_a_missed_budget_without_memray_says_what_would_name_the_lines(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "memray", None)
    result = pytester.runpytest_inprocess(*QUICK, missed(pytester))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["memory *, limit *", "pip install 'pytest-hwperf?memray?' and the lines that hold *"])


@pytest.mark.parametrize(
    ("enter", "reported"),
    [
        (
            "pass",
            [
                "allocated at the peak of load and calls, in a process of its own, by memray:",
                r"  64.0 MB in 2 allocations: ones, /elsewhere/numpy.py:7, called at test_it.py:3",
                "  1.00 MB in 1 allocation: other, /elsewhere/a.py:9",
                "details: pytest test_it.py::test_it -vv*",
                "*= hwperf =*",
            ],
        ),
        (
            "raise RuntimeError('No more than one Tracker instance can be active at the same time')",
            ["memray named no lines: memray cannot watch a fresh process: No more than one Tracker *"],
        ),
        ("__import__('os')._exit(5)", ["memray named no lines: a fresh process ended with code 5 and gave no answer."]),
    ],
)
@pytest.mark.usefixtures("traced")
def test_a_missed_budget_names_the_lines_that_hold_most(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, enter: str, reported: list[str]
) -> None:
    """By a process of its own; where that fails, it is reported and hides no verdict."""
    monkeypatch.delitem(sys.modules, "memray", raising=False)
    pytester.syspathinsert()
    pytester.makepyfile(memray=FAKE_MEMRAY.format(enter=enter, here=str(pytester.path)))
    result = pytester.runpytest_inprocess(*QUICK, missed(pytester))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["memory *, limit *", *reported], consecutive=True)
    result.stdout.no_fnmatch_line("*\x1b*")


def missed(pytester: pytest.Pytester) -> str:
    """Return the file of a test that misses its memory budget."""
    pytester.makepyfile(
        test_it="""
        import pytest
        @pytest.mark.hwbudget(memory_max_mb=10)
        def test_it(): bytearray(16 << 20).count(1)
        """
    )
    return "test_it.py"


def test_the_users_own_blocks_are_measured_in_a_measured_test_too(pytester: pytest.Pytester) -> None:
    """A window inside the measured call resets the peak there, and neither loses its own.

    In a process of its own: this one has freed much, which would be handed out again unseen.
    """
    pytester.makepyfile(
        """
        import pytest
        MIB = 1 << 20
        def near(found, mebibytes): return abs(found / MIB - mebibytes) < 1
        def test_blocks(memory_meter):
            with memory_meter.window() as outer:
                bytearray(24 * MIB).count(1)
                with memory_meter.window() as inner:
                    kept = bytearray(b"x") * (16 * MIB)
            assert near(outer.peak_bytes, 24) and near(inner.peak_bytes, 16) and near(inner.retained_bytes, 16)
            assert outer.source == "VmHWM after clear_refs" and outer.reason == "" and len(outer.warnings) == 3
        @pytest.mark.hwbudget(memory_max_mb=1000)
        def test_call(hwperf, memory_meter):
            def call():
                bytearray(24 * MIB).count(1)
                with memory_meter.window() as reading: bytearray(8 * MIB).count(1)
                assert reading.peak_bytes is not None
            hwperf(call)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:benchmark", *QUICK)
    result.assert_outcomes(passed=2)
    assert list(samples(pytester)[0]["memory"].values) == pytest.approx([24 * MIB] * 3, abs=MIB / 2)


def test_what_hooks_of_a_conftest_hold_counts_and_no_other_profiler_watches(pytester: pytest.Pytester) -> None:
    """A model that is loaded when pytest is configured, one before each test, and one by a plugin that is an object.

    As pytest-memray does by an ini, a marker or the environment: its own memory would be measured.
    """
    pytester.makeconftest(
        """
        HELD = []

        class Plugin:
            def pytest_runtest_setup(self):
                HELD.append(b"x" * (8 << 20))

        class Manager:
            def pytest_runtest_call(self, item):
                with open("watched", "a") as file:
                    file.write("watched\\n")

        def pytest_configure(config):
            config.pluginmanager.register(Plugin())
            config.pluginmanager.register(Manager(), "memray_manager")
            HELD.append(b"x" * (24 << 20))

        def pytest_runtest_setup():
            HELD.append(b"x" * (8 << 20))
        """
    )
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(memory_max_mb=1000)
        def test_it(hwperf): hwperf(sum, [1])
        """
    )
    pytester.runpytest_subprocess(*QUICK).assert_outcomes(passed=1)
    assert list(samples(pytester)[0]["memory"].values) == pytest.approx([40 << 20] * 3, abs=1 << 20)
    assert "watched\n" == (pytester.path / "watched").read_text(encoding="utf-8")  # by this session alone
