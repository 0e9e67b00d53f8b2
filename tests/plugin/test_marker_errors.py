"""Bad markers and options end the session before anything runs, in one clear sentence."""

import pytest

from pytest_hwperf.host.machine import count_usable_cores

USAGE = pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("marker", "reported"),
    [
        ("hwbudget(latncy_p95_ms=1)", "unknown keyword 'latncy_p95_ms'. Did you mean 'latency_p95_ms'?"),
        ("hwbudget(latency_p95_ms=-1)", "a limit is never negative"),
        ("hwbudget(latency_p95_ms='1')", "a limit is a finite number, such as 100 or 0.85"),
        ("hwbudget(accuracy_min=85)", "a share between 0 and 1"),
        ("hwbudget(100)", "hwbudget(100): only keywords are taken, such as hwbudget(latency_p95_ms=100)"),
        ("hwbudget()", "hwbudget(): name at least one keyword"),
        ("hwregression(latency_p50=2)", "a margin is a percentage, such as '2%'"),
        ("hwregression(latencyp50='2%')", "Did you mean 'latency_p50'?"),
        ("hwserial(True)", "hwserial(True): it takes no arguments: write @pytest.mark.hwserial"),
        ("hwserial(port=80)", "hwserial(port=80): it takes no arguments"),
    ],
)
@pytest.mark.parametrize("fixture", ["", "hwperf"])
def test_a_bad_marker_is_a_usage_error(pytester: pytest.Pytester, marker: str, reported: str, fixture: str) -> None:
    """Test id, keyword, what is allowed and the nearest match, with or without the fixture; nothing ran."""
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it({fixture}): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess()
    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f"ERROR: test_*.py::test_it: *{_literal(reported)}*"])


@pytest.mark.parametrize(
    ("marker", "fixtures", "reported"),
    [
        ('hwscenarios("onnx_fp23")', "hwperf, scenario", "unknown scenario 'onnx_fp23'. Did you mean 'onnx_fp32'?"),
        ("hwscenarios()", "hwperf, scenario", "give names of scenarios"),
        ("hwscenarios(5)", "hwperf, scenario", "give names of scenarios"),
        ('hwscenarios("onnx_fp32", "onnx_fp32")', "hwperf, scenario", "a scenario is named twice"),
        ('hwscenarios("onnx_fp32")', "", "the test does not use the fixture scenario; add it"),
        ('hwregression(latency_p50="2%")', "", "nothing of this test is measured; add the fixture hwperf"),
    ],
)
def test_a_marker_that_its_test_cannot_use_is_a_usage_error(
    pytester: pytest.Pytester, marker: str, fixtures: str, reported: str
) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it({fixtures}): raise SystemExit")
    result = pytester.runpytest_inprocess()
    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f"ERROR: test_*.py::test_it: *{_literal(reported)}*"])


@pytest.mark.parametrize("fixture", ["", "hwperf"])
def test_a_misspelt_marker_is_a_usage_error(pytester: pytest.Pytester, fixture: str) -> None:
    """Pytest by itself only warns, and the budget would be judged by nobody."""
    pytester.makepyfile(f"import pytest\n@pytest.mark.hwbudgett(latency_p95_ms=1)\ndef test_it({fixture}): pass")
    result = pytester.runpytest_inprocess("-W", "default")
    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["ERROR: test_*.py::test_it: unknown marker 'hwbudgett'. Did you mean 'hwbudget'?*"])


@pytest.mark.parametrize(
    "markers",
    ["hwbudgets: limits of the hardware team", "hwbudgets(limit)", "hwbudgets"],
)
def test_a_registered_marker_of_a_similar_name_is_somebody_elses(pytester: pytest.Pytester, markers: str) -> None:
    pytester.makeini(f"[pytest]\nmarkers = {markers}")
    pytester.makepyfile("import pytest\n@pytest.mark.hwbudgets(1)\n@pytest.mark.hardware\ndef test_it(): pass")
    pytester.runpytest_inprocess("-W", "ignore").assert_outcomes(passed=1)


def test_all_bad_markers_are_reported_at_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency=1, memory=2)
        def test_one(): pass
        @pytest.mark.hwregression(latency_p50="much")
        def test_two(hwperf): pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.stderr.fnmatch_lines(["*::test_one: *'latency'*", "*::test_one: *'memory'*", "*::test_two: *'much'*"])


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("async def test_it(): yield", "a body that yields is no test of pytest"),
        (
            "import unittest\nclass TestIt(unittest.IsolatedAsyncioTestCase):\n    @MARK\n    def test_it(self): pass",
            "an IsolatedAsyncioTestCase is set up on a loop that only unittest runs",
        ),
        (
            "import unittest\nclass TestIt(unittest.TestCase):\n    run = None\n    @MARK\n    def test_it(self): pass",
            "its class prepares each test in a run of its own",
        ),
    ],
)
def test_a_body_that_cannot_be_measured_fails_alone(pytester: pytest.Pytester, source: str, reported: str) -> None:
    """The others of its file run; the failure names its line."""
    mark = "pytest.mark.hwbudget(latency_p50_ms=1)"
    marked = source.replace("MARK", mark) if "MARK" in source else f"@{mark}\n{source}"
    pytester.makepyfile(f"import pytest\ndef test_other(): pass\n{marked}")
    result = pytester.runpytest_inprocess()

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines([rf"test_a_body_\S+\.py:\d+: hwbudget: {reported}"])
    assert "Traceback" not in result.stdout.str()


def test_an_async_test_runs_where_nothing_is_measured(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import asyncio, pytest
        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(pyfuncitem):
            asyncio.run(pyfuncitem.obj())
            return True
        """
    )
    pytester.makepyfile("import pytest\n@pytest.mark.hwbudget(latency_p50_ms=1)\nasync def test_it(): pass")
    pytester.runpytest_inprocess("--hwperf-disable").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--hwperf-undecided=pas"], "--hwperf-undecided='pas': unknown value. Did you mean 'pass'? Allowed: point, "),
        (["--hwperf-sample-time=0"], "--hwperf-sample-time='0': a number of seconds above 0"),
        (["--hwperf-sample-time=nan"], "a number of seconds above 0"),
        (["--hwperf-sample-time=fast"], "a number of seconds above 0"),
        (["--hwperf-parallel=0"], "--hwperf-parallel='0': give a number of pairs from 1 to "),
        (["--hwperf-parallel=100000"], f" from 1 to {count_usable_cores()}, the processors that pytest may use here"),
        (["--hwperf-parallel=auto"], "--hwperf-parallel='auto': give a number of pairs from 1 to "),
        (["-o", "hwperf_parallel=auto"], "--hwperf-parallel='auto': give a number of pairs from 1 to "),
        (["--hwperf-time-limit=0"], "--hwperf-time-limit='0': a number of seconds above 0 up to 86400"),
        (["--hwperf-time-limit=90000"], "--hwperf-time-limit='90000': a number of seconds above 0 up to 86400"),
        (["--hwperf-time-limit=soon"], "a number of seconds above 0 up to 86400"),
        (["-ohwperf_rerun=nevr"], "hwperf_rerun='nevr': unknown value. Did you mean 'never'? Allowed: auto, never"),
        (["--hwperf-alpha=50%"], "--hwperf-alpha='50%': a rate above 0 up to 20 %"),
        (["--hwperf-alpha=x"], "a rate above 0"),
        (["--hwperf-margin=latency_p95=much"], "a margin is a percentage"),
        (["--hwperf-margin=latncy=1%"], "unknown keyword 'latncy'"),
        (["--hwperf-baseline=../up"], "--hwperf-baseline='../up': a name is made of letters"),
        (["--hwperf-baseline=test_it.py::test_it"], "a name is made of letters"),
        ([f"--hwperf-baseline={'x' * 300}"], f"{'x' * 100}'… (300 characters): a name has 100 at most, such as main"),
        (["--hwperf-baseline=con"], "--hwperf-baseline='con': no folder can have this name on Windows, "),
        (["--hwperf-baseline=Lpt1.old"], "--hwperf-baseline='Lpt1.old': no folder can have this name on Windows, "),
        (["--hwperf-baseline=v1."], "--hwperf-baseline='v1.': no folder can have this name on Windows, "),
        (["--hwperf-machine-kind=3090"], "--hwperf-machine-kind: '3090' is no kind of machine: a letter, then "),
        (["--hwperf-shard=5/4"], "--hwperf-shard: '5/4' is no shard: K/N, "),
        (["--hwperf-shard=0/4"], "--hwperf-shard: '0/4' is no shard: K/N, "),
        (["--hwperf-shard=half"], "--hwperf-shard: 'half' is no shard: K/N, "),
        (["-ohwperf_serving_batch=x"], "hwperf_serving_batch='x': a whole number of rows, such as 32"),
        (["-ohwperf_serving_batch=-1"], "hwperf_serving_batch='-1': a whole number of rows, such as 32"),
        (["--hwperf-energy=rappel"], "unknown energy meter 'rappel'. Did you mean 'rapl'? Allowed: estimate, nvml,"),
        (["--hwperf-store=mongo:x", "--hwperf-save"], "unknown store 'mongo'. Allowed: json, sql"),
        (["--hwperf-store=json:"], "names no place"),
        (["--hwperf-report=test_it.py"], "--hwperf-report='test_it.py' looks like a test"),
        (["--hwperf-report=a.txt"], "--hwperf-report='a.txt': no format of this name; end it in .html, .json, .md, or"),
        (["--hwperf-report=file"], "--hwperf-report='file' is a file; give a folder, or a file that ends in .html, "),
        (["--hwperf-report=folder.json"], "--hwperf-report='folder.json' is a folder; give a file in it"),
        (["--hwperf-report=no/such/a.json"], "--hwperf-report='no/such/a.json': there is no folder "),
        (["--hwperf-report=no/such/a"], "--hwperf-report='no/such/a': there is no folder "),
        (["--hwperf-report=file/a.html"], "--hwperf-report='file/a.html': Not a directory; give another path"),
        (["--hwperf-report=/dev/null"], "--hwperf-report='/dev/null': Not a directory; give another path"),
        (
            ["--hwperf-report=a.md", "--hwperf-report=./a.md"],
            "--hwperf-report='a.md' and --hwperf-report='./a.md' name one path",
        ),
        (["--hwperf-report=a.json", "--junitxml=./a.json"], "--junitxml and --hwperf-report='a.json' name one path"),
        (
            ["--hwperf-report=b", "--hwperf-report=b/benchmark_summary.json"],
            "benchmark_summary.json of --hwperf-report='b' and --hwperf-report='b/benchmark_summary.json' name one",
        ),
        (
            ["--hwperf-report=a.json", "--hwperf-store=sql:sqlite:///a.json"],
            "--hwperf-report='a.json' and --hwperf-store name one path",
        ),
        (["--hwperf-store=sql:sqlite:///:memory:"], "--hwperf-store='sql:sqlite:///:memory:' would be gone with"),
        (
            [f"--hwperf-report={'x' * 300}"],
            f"--hwperf-report='{'x' * 100}'… (300 characters): File name too long; give an",
        ),
        ([f"--hwperf-store={'x' * 300}", "--hwperf-compare"], "names no folder (File name too long): choose another"),
        ([f"--hwperf-base-python={'x' * 300}", "--hwperf-against=folder"], "(300 characters) is no file; give an"),
        (["-o", "hwperf_budgets=latency_p95=5"], "unknown keyword 'latency_p95'"),
    ],
)
def test_a_bad_option_is_a_usage_error(pytester: pytest.Pytester, options: list[str], reported: str) -> None:
    pytester.makepyfile(test_it="def test_it(): raise SystemExit('ran')")
    for name in ("a.txt", "file"):
        (pytester.path / name).touch()
    pytester.mkdir("folder")
    pytester.mkdir("folder.json")
    result = pytester.runpytest_inprocess(*options)
    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f"ERROR: *{_literal(reported)}*"])


@pytest.mark.live
@pytest.mark.parametrize("marker", ["hwbudget(latncy_p95_ms=1)", 'hwscenarios("onnx_fp23")'])
def test_a_bad_marker_in_a_worker_keeps_its_text_and_exit_code(pytester: pytest.Pytester, marker: str) -> None:
    """Raised in an xdist worker, a usage error would lose its text; a failed collection report does not."""
    fixtures = "hwperf, scenario" if "scenarios" in marker else ""
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it({fixtures}): raise SystemExit('ran')")
    result = pytester.runpytest_subprocess("-p", "xdist", "-n", "2")
    assert result.ret == USAGE
    result.stdout.fnmatch_lines(["*Did you mean '*'?*"])


def test_markers_and_fixtures_document_themselves(pytester: pytest.Pytester) -> None:
    markers = pytester.runpytest_inprocess("--markers").stdout.str()
    fixtures = pytester.runpytest_inprocess("--fixtures").stdout.str()
    assert all(f"@pytest.mark.{name}(" in markers for name in ("hwbudget", "hwregression", "hwscenarios"))
    assert all(f"{name} " in fixtures for name in ("hwperf", "scenario", "hwperf_model", "hwperf_data", "energy_meter"))
    own = fixtures.partition("fixtures defined from pytest_hwperf.plugin")[2].partition("------ fixtures")[0]
    assert own
    assert "no docstring available" not in own


def _literal(text: str) -> str:
    """Escape what fnmatch would read as a pattern."""
    return text.replace("[", "[[]").replace("?", "[?]")


def test_what_cannot_bear_both_sides_may_be_said_of_a_whole_module(pytester: pytest.Pytester) -> None:
    """Also of tests in it that are not measured; pytest knows the marker."""
    pytester.makepyfile("import pytest\npytestmark = pytest.mark.hwserial\ndef test_it(): pass\ndef test_that(): pass")
    pytester.runpytest_inprocess("--strict-markers").assert_outcomes(passed=2)
