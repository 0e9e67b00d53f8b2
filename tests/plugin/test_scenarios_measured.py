"""Real models in real runtimes, through the fixtures."""

import pytest

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off")

CONFTEST = """
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_iris(return_X_y=True)
X = X.astype("float32")

@pytest.fixture(scope="session")
def hwperf_data():
    return X[::3], y[::3], X[1::3]

@pytest.fixture(scope="session")
def logistic():
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)

@pytest.fixture(scope="session")
def forest():
    return RandomForestClassifier(5, random_state=0).fit(X, y)
"""
MODEL = "import pytest\n@pytest.fixture\ndef hwperf_model({name}): return {name}\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*QUICK, *options)


@pytest.mark.live
def test_three_scenarios_of_one_model_are_measured(project: pytest.Pytester) -> None:
    project.makepyfile(
        MODEL.format(name="logistic")
        + "@pytest.mark.hwbudget(accuracy_min=0.8, flip_rate_max=0.1, probability_diff_max=0.2)\n"
        + "@pytest.mark.hwbudget(latency_max_ms=60000, model_size_max_mb=1)\n"
        + "def test_it(hwperf, scenario):\n"
        + "    run = hwperf(scenario)\n"
        + "    assert run.scenario == scenario.name and run.result.shape == (1, 3)\n"
    )
    result = run(project, "-vv")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["*test_it*sklearn_fp32*PASSED*", "*test_it*onnx_fp32*PASSED*", "*test_it*onnx_int8*PASSED*"]
    )
    told = " ".join(result.stdout.str().split())
    assert "against onnx_fp32 (flip_rate of onnx_int8, sklearn_fp32, probability_diff of " in told
    assert "against sklearn_fp32 (flip_rate of onnx_fp32, probability_diff of onnx_fp32)" in told
    result.stdout.fnmatch_lines(["budgets: *15 passed*"])


@pytest.mark.live
def test_a_forest_skips_int8_with_the_reason(project: pytest.Pytester) -> None:
    """An FP32 model is never measured under the name of INT8; the skip stands in the table too."""
    project.makepyfile(MODEL.format(name="forest") + "def test_it(hwperf, scenario): hwperf(scenario, batch_size=10)")
    result = run(project, "-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.re_match_lines([r"SKIPPED .*onnx_int8: .*TreeEnsembleClassifier.*"])
    assert "TreeEnsembleClassifier" in result.stdout.str().partition("= hwperf =")[2]


@pytest.mark.live
def test_scenarios_are_built_by_hand(project: pytest.Pytester) -> None:
    """Those without a form are left out and listed."""
    project.makepyfile(
        """
        def test_it(hwperf, forest, hwperf_data):
            X, y, _ = hwperf_data
            found = hwperf.scenarios(forest, X, y)
            assert set(found) == {"sklearn_fp32", "onnx_fp32"}
            assert repr(found["onnx_fp32"]) == "<scenario onnx_fp32>"
            runs = [hwperf(scenario, label=name) for name, scenario in found.items()]
            assert all(run.sample("accuracy") is not None for run in runs)
        """
    )
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 skipped*"])


@pytest.mark.live
def test_a_skip_in_set_up_alone_is_reported(project: pytest.Pytester) -> None:
    project.makepyfile(
        MODEL.format(name="forest")
        + "@pytest.mark.hwscenarios('onnx_int8')\ndef test_it(hwperf, scenario): hwperf(scenario)"
    )
    result = run(project)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*1 skipped*"])


@pytest.mark.parametrize(
    ("returned", "reported"),
    [
        ("{'rows': X}", "hwperf_data holds 'rows'; 'X' is needed, 'y' and 'X_calibration' are allowed"),
        ("(X, y, X, y)", "hwperf_data returned 4 parts; return (X, y) or (X, y, X_calibration)"),
        ("(X, y, X)", "occur"),
        ("X[:0]", "no rows"),
    ],
)
def test_bad_data_is_refused_in_one_sentence(project: pytest.Pytester, returned: str, reported: str) -> None:
    project.makepyfile(
        MODEL.format(name="logistic")
        + f"from conftest import X, y\n@pytest.fixture\ndef hwperf_data(): return {returned}\n"
        + "@pytest.mark.hwscenarios('onnx_int8')\ndef test_it(hwperf, scenario): hwperf(scenario)"
    )
    result = run(project, "--import-mode=prepend")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"*{reported}*"])
    assert "Traceback" not in result.stdout.str()
    assert "During handling" not in result.stdout.str()
    assert "pytest_hwperf/plugin" not in result.stdout.str()


def test_a_missing_model_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf, scenario): pass")
    result = run(pytester)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*define a fixture hwperf_model in conftest.py that returns a fitted estimator"])


def test_missing_data_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.fixture\ndef hwperf_model(): return 1\ndef test_it(hwperf, scenario): pass"
    )
    result = run(pytester)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*define a fixture hwperf_data in conftest.py that returns (X, y)*"])


@pytest.mark.parametrize(("model", "kind"), [("'model'", "str"), ("None", "NoneType")])
def test_what_is_no_model_is_reported(project: pytest.Pytester, model: str, kind: str) -> None:
    project.makepyfile(
        f"import pytest\n@pytest.fixture\ndef hwperf_model(): return {model}\n"
        "@pytest.mark.hwscenarios('sklearn_fp32')\ndef test_it(hwperf, scenario): pass"
    )
    result = run(project)

    result.assert_outcomes(errors=1)
    reported = (
        f"the model is a {kind}, which is no scikit-learn estimator with predict: give a fitted estimator, or measure"
    )
    result.stdout.fnmatch_lines([f"{reported} a callable by hwperf(function, X)"])
    assert "During handling" not in result.stdout.str()
    assert "pytest_hwperf/scenarios" not in result.stdout.str()


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        ("hwperf('onnx_fp32')", "UsageProblem: hwperf('onnx_fp32'): give the fixture scenario"),
        ("hwperf('grpc://a:1/m', [1])", "(Triton: http://127.0.0.1:8000/v2/models/MODEL/infer)"),
        ("hwperf([0] * 1000)", "UsageProblem: hwperf([0, 0, 0, 0, 0, 0, ...]): give the fixture scenario"),
        ("hwperf(len, [1]); hwperf(len, [1])", "UsageProblem: a second measurement without a label"),
        ("hwperf(len, [1], label='a'); hwperf(len, [1], label='a')", "label='a' is used twice"),
        ("hwperf(len, [1], label=3)", "label=3: a label is printable text of at most 200 characters, such as "),
        ("hwperf(len, [1], label='x' * 200_000)", f"label='{'x' * 100}'… (200000 characters): a label is printable"),
        ("hwperf(asyncio.sleep(0))", "UsageProblem: hwperf(...) was given a coroutine, which can be awaited once"),
        ("hwperf(list, ['1'], y_true=[1])", "MeasurementError: predictions are of type"),
        ("hwperf(list, [1], y_true=[1, 2])", "MeasurementError: 1 predictions for 2 labels in y_true"),
        ("hwperf(list, [], y_true=[])", "MeasurementError: the data has no rows"),
        (
            "hwperf(lambda r: [float('nan')], [1.0], y_true=[1.0])",
            "MeasurementError: 1 of 1 values in predictions are NaN",
        ),
        ("hwperf(numpy.full, 3, float('nan'))", "MeasurementError: 3 of 3 outputs of one batch are NaN"),
        ("hwperf.record('latency', 1, better='lower')", "the name is a built-in metric"),
        ("hwperf.record('a b', 1, better='lower')", "the name is no identifier"),
        ("hwperf.record('a' * 201, 1, better='lower')", "(201 characters)): a name has 200 characters at most"),
        (
            "hwperf.compare({'a': 'a.onnx', 'b' * 999: 'b.onnx'}, [])",
            "(1009 characters) is longer than a label of 200 characters; give label=",
        ),
        ("hwperf.record('a', float('nan'), better='lower')", "the value is a finite number"),
        ("hwperf.record('a', 1, better='more')", "allowed are 'lower' and 'higher'"),
        ("hwperf.record('a', 1, better='lower', margin=2)", "a margin is a percentage"),
        ("hwperf.record('a', 1, better='lower'); hwperf.record('a', 1, better='lower')", "recorded twice in one test"),
    ],
)
def test_a_bad_call_points_at_the_users_line(pytester: pytest.Pytester, call: str, reported: str) -> None:
    """One sentence under the line that was written, and none of our frames."""
    pytester.makepyfile(f"import asyncio\nimport numpy\ndef test_it(hwperf):\n    {call}")
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *{reported.replace('[', '[[]')}*"])
    assert "pytest_hwperf/plugin" not in result.stdout.str()


@pytest.mark.live
def test_a_regressor_that_gives_nan_fails_its_test(project: pytest.Pytester) -> None:
    """For the last row alone, which no look at a first call would see; nothing is shown of it."""
    project.makepyfile(
        """
        import pytest
        from sklearn.base import BaseEstimator, RegressorMixin
        from conftest import X

        class Broken(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                self.n_features_in_ = X.shape[1]
                return self
            def predict(self, X):
                values = X[:, 0].copy()
                values[X[:, 0] == 9] = float("nan")
                return values

        @pytest.fixture
        def hwperf_model(): return Broken().fit(X, X)
        @pytest.fixture
        def hwperf_data():
            rows = X[:6].copy()
            rows[5, 0] = 9
            return rows, None
        @pytest.mark.hwscenarios("sklearn_fp32")
        def test_it(hwperf, scenario): hwperf(scenario)
        """
    )
    result = run(project, "--import-mode=prepend")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *MeasurementError: 1 of 1 outputs of one batch are NaN: the model is broken here"])
    assert "latency" not in result.stdout.str()


def test_a_callable_that_raises_shows_its_own_traceback(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def broken(): raise ZeroDivisionError("own")
        def test_it(hwperf): hwperf(broken)
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*def broken(): raise ZeroDivisionError*", "E *ZeroDivisionError: own"])


def test_the_energy_meter_measures_the_users_own_block(pytester: pytest.Pytester) -> None:
    """Where there is no counter it is an estimate and says so."""
    pytester.makepyfile(
        """
        def test_it(energy_meter):
            with energy_meter.window() as reading:
                sum(range(8_000_000))
            assert reading.joules > 0 and reading.watts > 0 and reading.window_s > 0
            assert reading.source == "estimate:cpu-time"
        """
    )
    pytester.runpytest_inprocess("--hwperf-energy=estimate").assert_outcomes(passed=1)


def test_energy_that_is_off_is_unmeasured(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(energy_meter):
            with energy_meter.window() as reading: pass
            assert reading.joules is None and "off" in reading.reason
        """
    )
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.live
def test_auto_says_why_a_better_source_was_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWPERF_POWERCAP_ROOT", str(pytester.mkdir("empty")))
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(energy_budget_mj=1e6)
        def test_it(): sum(range(1000))
        """
    )
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0.3", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*estimate:cpu-time*", "*not a measurement*", "*rapl: *"])


@pytest.mark.live
def test_a_metric_of_the_users_own_joins_the_measured_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(hwperf):
            hwperf(sum, [1])
            hwperf.record("rouge_l", 0.41, better="higher")
            hwperf.record("words", 12, better="lower")
        """
    )
    result = run(pytester, "-vv")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*rouge_l*0.410*", "*words*12.0*"])


@pytest.mark.live
def test_a_metric_of_the_users_own_needs_no_measurement(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf): hwperf.record('rouge_l', 0.41, better='higher')")
    result = run(pytester, "-vv")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*rouge_l*0.410*"])
