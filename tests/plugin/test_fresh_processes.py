"""Memory, cold starts and repeats in fresh pytest processes, each started for real."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import numpy as np
import psutil
import pytest
from fakes.onnx_models import save_onnx
from fakes.processes import ends
from fakes.records import budget_verdict, run

from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.meters.memory import MISSING
from pytest_hwperf.plugin.judging.again import lines_of_sites
from pytest_hwperf.plugin.session.command import drop
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.run import Run, Sample
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.pairs.hypotheses import PROCESSES

MIB = 2**20
QUICK = ("--hwperf-sample-time=0.1", "--hwperf-energy=off", "-p", "fakes.short_growth", "--hwperf-report=report.json")

pytestmark = pytest.mark.usefixtures("fakes_in_reach")

needs_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")


def runs(folder: Path) -> list[Run]:
    """Return the runs that a session in this folder has reported."""
    found = from_json(ReportFile, (folder / "report.json").read_bytes()).report
    return [judgement.run for judgement in found.judgements]


def sample(of: Run, metric: str) -> Sample:
    found = of.sample(metric)
    assert found is not None, metric
    return found


def values(of: Run, metric: str) -> list[float]:
    return list(sample(of, metric).values)


@needs_linux
@pytest.mark.live
def test_memory_is_what_imports_fixtures_body_and_calls_take(pytester: pytest.Pytester) -> None:
    """In each of three fresh processes within half a MiB, and numpy, which is no part of the project, is left out."""
    pytester.makepyfile(own="import numpy\nkept = bytearray(3 << 20)\n")
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef model():\n    return bytearray(50 << 20)\n")
    pytester.makepyfile(
        """
        import own, pytest
        @pytest.mark.hwbudget(memory_max_mb=20)
        def test_it(hwperf, model):
            rows = bytearray(10 << 20)
            hwperf(lambda: bytearray(5 << 20).count(1))
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    (found,) = runs(pytester.path)

    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"memory 7[01]\.\d MB \(.*\), limit .*; 3 fresh processes, VmHWM .*"])
    parts = {"memory": 68, "memory_import": 3, "memory_fixtures": 60, "memory_call": 5, "memory_steady": 5}
    for metric, mebibytes in parts.items():
        assert values(found, metric) == pytest.approx([mebibytes * MIB] * 3, abs=MIB / 2), metric
    assert values(found, "memory_retained") == pytest.approx([0] * 3, abs=MIB / 2)


@pytest.mark.live
def test_a_cold_start_begins_before_the_first_own_import(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In five fresh processes, here two; the fixture that trains is named, before the first of them too."""
    assert 5 == PROCESSES["cold"]
    monkeypatch.setitem(PROCESSES, "cold", 2)
    pytester.makepyfile(own="import time\ntime.sleep(0.3)\n")
    pytester.makepyfile(
        """
        import own, time, pytest
        calls = []
        def work():
            if not calls: time.sleep(0.2)
            calls.append(1)
        class Model:
            def fit(self): time.sleep(1)
        def train(model): model.fit()
        @pytest.fixture
        def model(): train(Model())
        @pytest.mark.hwbudget(cold_start_ms=1200)
        def test_it(hwperf, model): hwperf(work)
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    (found,) = runs(pytester.path)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["hwperf: *: the fixture model trained for 1.* s, and trains again in each of 2 *"])
    least = {"cold_start": 1.5, "cold_own_import": 0.3, "cold_fixtures": 1.0, "cold_first_call": 0.2}
    assert [2] * len(least) == [len(values(found, metric)) for metric in least]
    assert all(min(values(found, metric)) >= seconds for metric, seconds in least.items())
    assert max(values(found, "cold_warm_call")) < 0.2
    warnings = map(str, sample(found, "cold_start").warnings)
    assert 1 == sum("the fixture model trains a model" in warning for warning in warnings)


@needs_linux
@pytest.mark.live
def test_a_leak_is_found_and_a_budget_on_it_decides_instead_of_the_warning(pytester: pytest.Pytester) -> None:
    """100 kB with every call."""
    pytester.makepyfile(
        """
        import pytest
        kept = []
        def leak(): kept.append(bytearray(b"x") * 100_000)
        @pytest.mark.hwbudget(memory_max_mb=100)
        def test_it(hwperf): hwperf(leak)
        @pytest.mark.hwbudget(memory_leak_max_kb=50)
        def test_limited(hwperf): hwperf(leak)
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    leak, _ = runs(pytester.path)

    result.assert_outcomes(passed=1, failed=1)
    (warned,) = [line for line in result.outlines if "memory leaks: " in line]
    result.stdout.fnmatch_lines(["*memory leaks: 10? kB (*) more is held after each of * calls, in each of 3 fresh *"])
    assert "test_limited" not in warned
    result.stdout.re_match_lines(
        [r"memory_leak 10\d kB( \(.*\))?, limit 50 kB; 3 fresh processes, Rss of smaps_rollup.*"]
    )
    assert values(leak, "memory_leak") == pytest.approx([100_000] * 3, rel=0.05)


@needs_linux
@pytest.mark.live
def test_onnx_load_and_run_repeats_and_tells_its_arena(pytester: pytest.Pytester) -> None:
    """Three fresh processes within half a MiB; the arena is measured too, without an interval."""
    save_onnx(pytester.path / "linear.onnx", [("MatMul", ["x", "w"], "y")], {"x": 16}, {"y": 4}, w=np.ones((16, 4)))
    pytester.makepyfile(
        """
        import numpy as np, pytest
        @pytest.fixture
        def hwperf_model(): return "linear.onnx"
        @pytest.fixture
        def hwperf_data(): return np.random.default_rng(0).normal(size=(64, 16)).astype("float32")
        @pytest.mark.hwscenarios("onnx_file")
        @pytest.mark.hwbudget(memory_max_mb=1000)
        def test_it(hwperf, scenario): hwperf(scenario, batch_size=16)
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    (onnx,) = runs(pytester.path)

    result.assert_outcomes(passed=1)
    assert max(values(onnx, "memory")) - min(values(onnx, "memory")) <= MIB / 2
    assert {"arena_in_use", "arena_held"} <= {one.metric for one in onnx.samples}
    arena = sample(onnx, "arena_held")
    assert ("onnxruntime profile", 1) == (arena.source, len(arena.values))


# What the tests call of memray, with the records of a peak of 64 MB.
FAKE_MEMRAY = """
import os

class Record:
    def __init__(self, size, *frames): self.size, self.n_allocations, self.frames = size, 1, frames
    def stack_trace(self): return list(self.frames)

class Tracker:
    def __init__(self, path): open(path, "x").close()
    def __enter__(self): pass
    def __exit__(self, *_): pass

class FileReader:
    def __init__(self, path): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def get_high_watermark_allocation_records(self, merge_threads):
        own = ("build\\x1b[2J", os.getcwd() + "/test_missed.py", 3)
        yield Record(1_000_000, ("other", "/elsewhere/a.py", 9))
        yield Record(60_000_000, ("ones", "/elsewhere/numpy.py", 7), own)
        yield Record(4_000_000, ("ones", "/elsewhere/numpy.py", 7), own)
        yield Record(5, ("tiny", "/elsewhere/a.py", 10))
"""
HELD = 40  # MiB, by hooks of the conftest, before each measurement
PROJECT: Mapping[str, str] = {
    "pytest.ini": "[pytest]\npythonpath = .\naddopts = --maxfail=99 --strict-markers -k 'not other'\n",
    "memray.py": FAKE_MEMRAY,
    "conftest.py": """
        import os
        from pytest_hwperf.stats.pairs.hypotheses import PROCESSES

        HELD = []

        class Plugin:
            def pytest_runtest_setup(self):
                HELD.append(b"x" * (8 << 20))

        class Manager:
            def pytest_runtest_call(self, item):
                print(os.getpid(), file=open("watched", "a"))

        def pytest_configure(config):
            config.pluginmanager.register(Plugin())
            config.pluginmanager.register(Manager(), "memray_manager")
            HELD.append(b"x" * (24 << 20))

        def pytest_runtest_setup(item):
            HELD.append(b"x" * (8 << 20))
            PROCESSES["memory"] = 2 if item.name == "test_missed" else 1  # one decides no budget
        """,
    "test_blocks.py": """
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
        """,
    "test_labels.py": """
        import os, pathlib, pytest
        fresh = "MALLOC_MMAP_THRESHOLD_" in os.environ
        @pytest.mark.hwbudget(memory_max_mb=1000, memory_pressure_max=1000)
        def test_labels(hwperf):
            def note(name):
                if fresh: print(os.getpid(), file=pathlib.Path(name).open("a"))
            try: hwperf(lambda: bytearray(16 << 20).count(1), label="small")
            except BaseException: note("caught")
            hwperf(lambda: (bytearray(48 << 20).count(1), note("second")), label="large")
        @pytest.mark.hwbudget(memory_max_mb=1000)
        @pytest.mark.parametrize("odd", ["-k x::y [a b/c] [é✓] $(exit 1)"], ids=str)
        def test_odd(odd): bytearray(4 << 20).count(1)
        def test_other(): pass
        """,
    "test_lost.py": """
        import os, subprocess, sys, pytest
        pytestmark = pytest.mark.hwbudget(memory_max_mb=20)
        FRESH = "MALLOC_MMAP_THRESHOLD_" in os.environ
        def test_exits(hwperf):
            if FRESH: os._exit(3)
            hwperf(sum, [1])
        def test_raises(hwperf):
            if FRESH:
                print("noise", flush=True)
                raise ValueError("only there")
            hwperf(sum, [1])
        def test_child(hwperf):
            if FRESH: subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", os.getcwd()])
            hwperf(lambda: subprocess.run([sys.executable, "-c", "kept = bytearray(50 << 20)"]))
        """,
    "test_missed.py": """
        import pytest
        @pytest.mark.hwbudget(memory_max_mb=10)
        def test_missed(): bytearray(16 << 20).count(1)
        """,
    "test_pressure.py": """
        import time, pytest
        @pytest.mark.hwbudget(memory_pressure_max=0.01)
        def test_pressure(hwperf): hwperf(lambda: (time.sleep(0.001), bytearray(b"x") * 50_000_000))
        """,
}


class Session(NamedTuple):
    folder: Path
    result: pytest.RunResult
    runs: Mapping[str, Run]  # by test and label

    def peak(self, name: str) -> float:
        """Return the peak of the only fresh process in MiB, above what hooks hold."""
        (peak,) = values(self.runs[name], "memory")
        return peak / MIB - HELD


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """One session under xdist, whose worker asks a fresh process for each measurement."""
    folder = tmp_path_factory.mktemp("fresh")
    for name, text in PROJECT.items():
        (folder / name).write_text(dedent(text), encoding="utf-8")
    left_out = ("PYTEST_", "HWPERF_WORKER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    path = os.pathsep.join([str(Path(__file__).parents[1]), kept.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    plugins = ("-ppytest_hwperf.plugin", "-pxdist", "-n1")
    given = ("-k", "not other", "--junitxml=junit.xml", "--basetemp=base", "--hwperf-report=out")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *QUICK, *given],
        cwd=folder, env={**kept, **own}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    result = pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)
    found = {f"{one.test.partition('::')[2]} {one.label}".strip(): one for one in runs(folder)}
    return Session(folder, result, found)


@needs_linux
@pytest.mark.live
def test_under_xdist_a_worker_of_a_worker_measures(session: Session) -> None:
    """`-k`, `--junitxml` and `addopts` of the asking session leave the worker whole and its files alone."""
    session.result.assert_outcomes(passed=4, failed=5)
    assert 'tests="9"' in (session.folder / "junit.xml").read_text(encoding="utf-8")


@needs_linux
@pytest.mark.live
def test_what_hooks_of_a_conftest_hold_counts_and_no_other_profiler_watches(session: Session) -> None:
    """A model that is loaded when pytest is configured, one before each test, and one by a plugin that is an object.

    As pytest-memray does by an ini, a marker or the environment: its own memory would be measured.
    """
    (peak,) = values(session.runs["test_call"], "memory")
    assert (HELD + 24) * MIB == pytest.approx(peak, abs=MIB / 2)  # a window inside the measured call loses no peak
    watched = (session.folder / "watched").read_text(encoding="ascii").split()
    assert (9, 1) == (len(watched), len({*watched}))  # by the worker of xdist alone


@needs_linux
@pytest.mark.live
def test_each_label_is_measured_apart_and_odd_ids_reach_the_fresh_process(session: Session) -> None:
    """The other measurement of the test is called once on the way; node ids never stand on a command line."""
    peaks = [session.peak(f"test_labels {label}") for label in ("small", "large")]
    assert [16, 48] == pytest.approx(peaks, abs=0.5)
    (odd,) = [name for name in session.runs if name.startswith("test_odd[")]
    assert "-k x::y" in odd
    assert 4 == pytest.approx(session.peak(odd), abs=0.5)


@needs_linux
@pytest.mark.live
def test_who_has_answered_measures_nothing_more(session: Session) -> None:
    """Even where the body catches whatever it can: a second answer would be one of a warm process."""
    (measured_first,) = (session.folder / "caught").read_text(encoding="ascii").split()
    (measured_second,) = {*(session.folder / "second").read_text(encoding="ascii").split()}
    assert measured_first != measured_second


@needs_linux
@pytest.mark.live
@pytest.mark.parametrize(
    "shown",
    [
        "memory unmeasured, limit 20 MB: the test starts processes, whose memory is not counted*",
        "*a fresh process ended with code 3 and gave no answer*",
        "*ValueError: only there*",
    ],
)
def test_what_no_fresh_process_answers_is_no_silent_pass(session: Session, shown: str) -> None:
    """A test whose process dies fails, and the end of the log is quoted."""
    session.result.stdout.fnmatch_lines([shown])


@needs_linux
@pytest.mark.live
def test_a_child_that_outlives_its_fresh_process_is_ended(session: Session) -> None:
    """The process group goes with the worker."""
    left = [one.pid for one in psutil.process_iter(["cmdline"]) if str(session.folder) in (one.info["cmdline"] or [])]
    assert [] == [pid for pid in left if not ends(pid)]


@needs_linux
@pytest.mark.live
def test_a_missed_budget_names_the_lines_that_hold_most(session: Session) -> None:
    """By a process of its own; 16 MiB are of the body, the others of hooks."""
    reported = [
        "memory 58.* MB*, limit 10 MB; 2 *",
        "allocated at the peak of load and calls, in a process of its own, by memray:",
        "  64.0 MB in 2 allocations: ones, /elsewhere/numpy.py:7, called at test_missed.py:3",
        "  1.00 MB in 1 allocation: other, /elsewhere/a.py:9",
        "details: pytest test_missed.py::test_missed -vv*",
    ]
    session.result.stdout.fnmatch_lines(reported, consecutive=True)
    session.result.stdout.no_fnmatch_line("*\x1b*")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no memray for it")
def test_what_names_no_lines_is_reported(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends and one that cannot be watched hide no verdict; without memray a line says what to type."""

    def ended(*_: object, **_given: object) -> list[WorkerResult]:
        raise WorkerError("a fresh process ended with code 5 and gave no answer.")

    def watched(*_: object, **_given: object) -> list[WorkerResult]:
        return [WorkerResult(reasons={"sites": "memray cannot watch a fresh process: No more than one Tracker\x1b"})]

    verdict = budget_verdict("memory_max_mb", "memory", "p50", 1e7, "failed")
    missed, told = [Judgement(run=run(), figures=(), verdicts=(verdict,))], list[str]()
    monkeypatch.setitem(sys.modules, "memray", sys)  # any module
    for ask in (ended, watched):
        monkeypatch.setattr("pytest_hwperf.plugin.judging.again.ask_fresh", ask)
        told += lines_of_sites(request.node, missed)
    monkeypatch.setitem(sys.modules, "memray", None)
    assert [
        "memray named no lines: a fresh process ended with code 5 and gave no answer.",
        "memray named no lines: memray cannot watch a fresh process: No more than one Tracker\\x1b",
        MISSING,
    ] == [*told, *lines_of_sites(request.node, missed)]


@needs_linux
@pytest.mark.live
def test_a_limit_on_memory_pressure_measures_what_it_is_made_of(session: Session) -> None:
    """50 MB at less than 1000 calls a second are above 0.05, and far below 1000."""
    session.result.stdout.fnmatch_lines(["*memory_pressure_index*limit*0.01*"])
    for name in ("stat_benchmark_summary.csv", "hardware_tradeoffs.csv"):
        assert "memory_pressure_index_p50" in (session.folder / "out" / name).read_text(encoding="utf-8")


def test_a_foreign_order_is_a_usage_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWPERF_WORKER", "1")
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "HWPERF_WORKER" in os.environ


def test_what_a_worker_inherits() -> None:
    """The user's own options reach it; what selects, stops or writes does not."""
    table = [
        (["-x", "tests", "-s"], ["tests"], ["-s"]),
        (["-n", "4", "-p", "xdist"], [], ["-p", "xdist"]),
        (["-n4", "-kname", "-mslow", "-m", "slow"], [], []),
        (["--maxfail=1", "--junitxml", "a.xml", "--junit-xml=b"], [], []),
        (["--model=a", "--size", "big", "t.py::test"], ["t.py::test"], ["--model=a", "--size", "big"]),
        (["--hwperf-save", "--hwperf-sample-time=1", "--hwperf-report=a"], [], ["--hwperf-sample-time=1"]),
        (["t.py", "--ignore", "t.py"], ["t.py"], ["--ignore", "t.py"]),
        (["--cov", "t.py", "--no-cov"], ["t.py"], []),
        (["--cov", "package", "--cov-report", "xml", "--cov=more", "--cov", "--cov"], [], []),
        (["--timeout", "9", "--timeout-method=thread", "--session-timeout=99"], [], []),
    ]
    assert [] == [(given, kept) for given, tests, kept in table if kept != drop(given, tests)]
