"""Bad markers and options end the session before anything runs, in one clear sentence."""

import pytest

from pytest_hwperf.host.machine import count_usable_cores

USAGE = pytest.ExitCode.USAGE_ERROR


BAD_MARKERS = (  # marker, fixtures of its test, what is reported
    ("hwbudget(latncy_p95_ms=1)", "", "unknown keyword 'latncy_p95_ms'. Did you mean 'latency_p95_ms'?"),
    ("hwbudget(latency=1, memory=2)", "", "unknown keyword 'latency'."),
    ("hwbudget(latency=1, memory=2)", "", "unknown keyword 'memory'."),
    ("hwbudget(100)", "", "hwbudget(100): only keywords are taken, such as hwbudget(latency_p95_ms=100)"),
    ("hwbudget()", "hwperf", "hwbudget(): name at least one keyword"),
    ("hwbudgett(latency_p95_ms=1)", "", "unknown marker 'hwbudgett'. Did you mean 'hwbudget'?"),
    ("hwbudgett(latency_p95_ms=1)", "hwperf", "unknown marker 'hwbudgett'. Did you mean 'hwbudget'?"),
    ("hwregression(latency_p50=2)", "hwperf", "a margin is a percentage, such as '2%'"),
    ('hwregression(latency_p50="2%")', "", "nothing of this test is measured; add the fixture hwperf"),
    ("hwload(kind='servr', qps=2)", "hwperf", "kind='servr' is no load. Did you mean 'server'? Allowed: "),
    ("hwload('server')", "hwperf", "hwload('server'): only keywords are taken, such as hwload(kind="),
    ("hwload()", "hwperf", "hwload(): name at least one keyword, such as hwload(kind="),
    ("hwload(kind='server', qps=2, second=3)", "hwperf", "Did you mean 'seconds'? Allowed: qps, seconds, "),
    ("hwload(kind='server', qps=2)", "", "hwload: nothing of this test is measured"),
    ("hwserial(True)", "", "hwserial(True): it takes no arguments: write @pytest.mark.hwserial"),
    ("hwserial(port=80)", "hwperf", "hwserial(port=80): it takes no arguments"),
    ('hwscenarios("onnx_fp23")', "hwperf, scenario", "unknown scenario 'onnx_fp23'. Did you mean 'onnx_fp32'?"),
    ("hwscenarios()", "hwperf, scenario", "give names of scenarios"),
    ("hwscenarios(5)", "hwperf, scenario", "give names of scenarios"),
    ("hwscenarios('onnx_fp32', name='onnx_int8')", "hwperf, scenario", "give names of scenarios"),
    ('hwscenarios("onnx_fp32", "onnx_fp32")', "hwperf, scenario", "a scenario is named twice"),
    ('hwscenarios("onnx_fp32")', "", "the test does not use the fixture scenario; add it"),
)


def test_all_bad_markers_are_reported_at_once_and_nothing_runs(pytester: pytest.Pytester) -> None:
    """By test, with what is allowed and the nearest match.

    pytest by itself only warns of a misspelt marker, and the budget would be judged by nobody.
    """
    tests = (
        f"@pytest.mark.{marker}\ndef test_{number}({fixtures}): raise SystemExit('ran')\n"
        for number, (marker, fixtures, _) in enumerate(BAD_MARKERS)
    )
    pytester.makepyfile(test_it="import pytest\n" + "".join(tests))
    result = pytester.runpytest_inprocess("-W", "default")
    told = " ".join(result.errlines).removeprefix("ERROR: ").split("test_it.py::")
    assert USAGE == result.ret
    assert [] == [
        row
        for number, row in enumerate(BAD_MARKERS)
        if not any(text.startswith((f"test_{number}: ", f"test_{number}[")) and row[-1] in text for text in told)
    ]


def test_a_registered_marker_of_a_similar_name_is_somebody_elses(pytester: pytest.Pytester) -> None:
    """With a text, with arguments, or bare."""
    pytester.makeini("[pytest]\nmarkers =\n  hwbudgets: limits of the hardware team\n  hwloads(limit)\n  hwserials")
    marks = "".join(f"@pytest.mark.{name}(1)\n" for name in ("hwbudgets", "hwloads", "hwserials", "hardware"))
    pytester.makepyfile(f"import pytest\n{marks}def test_it(): pass")
    pytester.runpytest_inprocess("-W", "ignore").assert_outcomes(passed=1)


UNMEASURABLE = """
import unittest
import pytest

budget = pytest.mark.hwbudget(latency_p50_ms=1)

def test_other(): pass

@budget
async def test_yields(): yield

class TestAsync(unittest.IsolatedAsyncioTestCase):
    @budget
    def test_async(self): pass

class TestOwn(unittest.TestCase):
    run = None
    @budget
    def test_own(self): pass
"""


def test_bodies_that_cannot_be_measured_fail_alone(pytester: pytest.Pytester) -> None:
    """The others of their file run; each failure names its line."""
    pytester.makepyfile(test_it=UNMEASURABLE)
    result = pytester.runpytest_inprocess()

    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "test_it.py:8: hwbudget: a body that yields is no test of pytest*",
            "test_it.py:12: hwbudget: an IsolatedAsyncioTestCase is set up on a loop that only unittest runs*",
            "test_it.py:17: hwbudget: its class prepares each test in a run of its own*",
        ]
    )
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


CORES = count_usable_cores()
LONG = "x" * 300
BAD_OPTIONS = (
    ("--hwperf-undecided=pas", "--hwperf-undecided='pas': unknown value. Did you mean 'pass'? Allowed: point, "),
    ("-ohwperf_rerun=nevr", "hwperf_rerun='nevr': unknown value. Did you mean 'never'? Allowed: auto, never"),
    ("--hwperf-instructions=pref", "='pref': unknown value. Did you mean 'perf'? Allowed: auto, perf, callgrind, off"),
    ("--hwperf-sample-time=0", "--hwperf-sample-time='0': a number of seconds above 0 up to 3600, such as 2"),
    ("-ohwperf_silence=soon", "hwperf_silence='soon': a number of seconds above 0 up to 86400"),
    ("--hwperf-sample-time=nan", "a number of seconds above 0"),
    ("--hwperf-parallel=0", f"--hwperf-parallel='0': give a number of pairs from 1 to {CORES}, the processors that"),
    (f"--hwperf-parallel={CORES + 1}", f": give a number of pairs from 1 to {CORES}, the processors that"),
    ("--hwperf-parallel=²", f"--hwperf-parallel='²': give a number of pairs from 1 to {CORES}, the processors that"),
    ("-ohwperf_parallel=auto", "--hwperf-parallel='auto': give a number of pairs from 1 to "),
    ("--hwperf-alpha=50%", "--hwperf-alpha='50%': a rate above 0 up to 20 %"),
    ("--hwperf-margin=latency_p95=much", "--hwperf-margin: latency_p95=much: a margin is a percentage"),
    ("-ohwperf_budgets=latency_p95=5", "unknown keyword 'latency_p95'"),
    ("--hwperf-baseline=../up", "--hwperf-baseline='../up': a name is made of letters"),
    ("--hwperf-baseline=test_it.py::test_it", "a name is made of letters"),
    (f"--hwperf-baseline={LONG}", f"{'x' * 100}'… (300 characters): a name has 100 at most, such as main"),
    ("--hwperf-baseline=con", "--hwperf-baseline='con': no folder can have this name on Windows, "),
    ("--hwperf-baseline=Lpt1.old", "--hwperf-baseline='Lpt1.old': no folder can have this name on Windows, "),
    ("--hwperf-baseline=v1.", "--hwperf-baseline='v1.': no folder can have this name on Windows, "),
    ("--hwperf-machine-kind=3090", "--hwperf-machine-kind: '3090' is no kind of machine: a letter, then "),
    ("--hwperf-shard=5/4", "--hwperf-shard: '5/4' is no shard: K/N, "),
    ("-ohwperf_serving_batch=x", "hwperf_serving_batch='x': a whole number of rows, such as 32"),
    ("-ohwperf_serving_batch=-1", "hwperf_serving_batch='-1': a whole number of rows, such as 32"),
    ("--hwperf-energy=rappel", "unknown energy meter 'rappel'. Did you mean 'rapl'? Allowed: estimate, nvml,"),
    ("--hwperf-store=mongo:x --hwperf-save", "unknown store 'mongo'. Allowed: json, sql"),
    ("--hwperf-store=json:", "--hwperf-store='json:' names no place"),
    (f"--hwperf-store={LONG} --hwperf-compare", "names no folder (File name too long): choose another"),
    (f"--hwperf-base-python={LONG} --hwperf-against=folder", "(300 characters) is no file; give an"),
    ("--hwperf-report=test_it.py", "--hwperf-report='test_it.py' looks like a test"),
    ("--hwperf-report=tests::test_it", "--hwperf-report='tests::test_it' looks like a test"),
    ("--hwperf-report=a.txt", "--hwperf-report='a.txt': no format of this name; end it in .html, .json, .md, or"),
    ("--hwperf-report=file", "--hwperf-report='file' is a file; give a folder, or a file that ends in .html, "),
    ("--hwperf-report=folder.json", "--hwperf-report='folder.json' is a folder; give a file in it"),
    ("--hwperf-report=no/such/a.json", "--hwperf-report='no/such/a.json': there is no folder "),
    ("--hwperf-report=no/such/a", "--hwperf-report='no/such/a': there is no folder "),
    ("--hwperf-report=file/a.html", "--hwperf-report='file/a.html': Not a directory; give another path"),
    (f"--hwperf-report={LONG}", f"--hwperf-report='{'x' * 100}'… (300 characters): File name too long; give an"),
    (
        "--hwperf-report=a.md --hwperf-report=./a.md",
        "--hwperf-report='a.md' and --hwperf-report='./a.md' name one path",
    ),
    ("--hwperf-report=a.json --junitxml=./a.json", "--junitxml and --hwperf-report='a.json' name one path"),
    (
        "--hwperf-report=b --hwperf-report=b/benchmark_summary.json",
        "benchmark_summary.json of --hwperf-report='b' and --hwperf-report='b/benchmark_summary.json' name one",
    ),
    (
        "--hwperf-report=a.json --hwperf-store=sql:sqlite:///a.json",
        "--hwperf-report='a.json' and --hwperf-store name one path",
    ),
)


def test_a_bad_option_is_refused(pytester: pytest.Pytester) -> None:
    for name in ("a.txt", "file"):
        (pytester.path / name).touch()
    for name in ("folder", "folder.json"):
        pytester.mkdir(name)
    refused = dict[str, str]()
    for options, _ in BAD_OPTIONS:
        with pytest.raises(pytest.UsageError) as raised:
            pytester.parseconfigure(*options.split())
        refused[options] = str(raised.value)

    assert [] == [(refused[options], said) for options, said in BAD_OPTIONS if said not in refused[options]]


def test_a_bad_option_ends_the_session_before_anything_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0")
    assert USAGE == result.ret
    result.stderr.fnmatch_lines(["ERROR: --hwperf-sample-time='0': *"])


def test_markers_and_fixtures_document_themselves(pytester: pytest.Pytester) -> None:
    markers = pytester.runpytest_inprocess("--markers").stdout.str()
    fixtures = pytester.runpytest_inprocess("--fixtures").stdout.str()
    assert all(f"@pytest.mark.{name}(" in markers for name in ("hwbudget", "hwregression", "hwscenarios"))
    assert all(f"{name} " in fixtures for name in ("hwperf", "scenario", "hwperf_model", "hwperf_data", "energy_meter"))
    own = fixtures.partition("fixtures defined from pytest_hwperf.plugin")[2].partition("------ fixtures")[0]
    assert own
    assert "no docstring available" not in own


def test_what_cannot_bear_both_sides_may_be_said_of_a_whole_module(pytester: pytest.Pytester) -> None:
    """Also of tests in it that are not measured; pytest knows the marker."""
    pytester.makepyfile("import pytest\npytestmark = pytest.mark.hwserial\ndef test_it(): pass\ndef test_that(): pass")
    pytester.runpytest_inprocess("--strict-markers").assert_outcomes(passed=2)
