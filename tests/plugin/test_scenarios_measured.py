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
def test_scenarios_are_measured_where_the_model_has_a_form(project: pytest.Pytester) -> None:
    """An FP32 model is never measured under the name of INT8: the skip has its reason, and stands in the table too.

    Scenarios that are built by hand are left out without a form, and listed.
    """
    project.makepyfile(
        test_three=MODEL.format(name="logistic")
        + "@pytest.mark.hwbudget(accuracy_min=0.8, flip_rate_max=0.1, probability_diff_max=0.2)\n"
        + "@pytest.mark.hwbudget(latency_max_ms=60000, model_size_max_mb=1)\n"
        + "def test_it(hwperf, scenario):\n"
        + "    run = hwperf(scenario)\n"
        + "    assert run.scenario == scenario.name\n"
        + "    assert run.result.shape == ((1,) if scenario.name == 'sklearn_fp32' else (1, 3))\n",
        test_forest=MODEL.format(name="forest") + "def test_it(hwperf, scenario): hwperf(scenario, batch_size=10)",
        test_hand="""
        def test_it(hwperf, forest, hwperf_data):
            X, y, _ = hwperf_data
            found = hwperf.scenarios(forest, X, y)
            assert set(found) == {"sklearn_fp32", "onnx_fp32"}
            assert repr(found["onnx_fp32"]) == "<scenario onnx_fp32>"
            runs = [hwperf(scenario, label=name) for name, scenario in found.items()]
            assert all(run.sample("accuracy") is not None for run in runs)
        """,
    )
    result = run(project, "-vv", "-rs")
    told = " ".join(result.stdout.str().split())
    result.assert_outcomes(passed=6, skipped=1)
    for name in ("sklearn_fp32", "onnx_fp32", "onnx_int8"):
        result.stdout.fnmatch_lines([f"test_three.py::test_it*{name}*PASSED*"])
    assert "against model.predict(X) (flip_rate, probability_diff)" in told
    assert 2 == result.stdout.str().partition("= hwperf =")[2].count("skipped: ")
    result.stdout.fnmatch_lines(["budgets: *15 passed*"])
    result.stdout.re_match_lines([r"SKIPPED .*onnx_int8: .*TreeEnsembleClassifier.*"])


DECIDES = """
import json
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neural_network import MLPClassifier

X, y = make_classification(6000, weights=[.9], flip_y=.05, random_state=0)

@pytest.fixture
def hwperf_data(): return X[3000:], y[3000:]
"""


@pytest.mark.live
def test_the_accuracy_of_a_threshold_is_that_of_its_own_decisions(pytester: pytest.Pytester) -> None:
    """The argmax of its probabilities would be right for 90.5 % of the rows, and pass."""
    pytester.makepyfile(
        DECIDES
        + """
@pytest.fixture
def hwperf_model(): return FixedThresholdClassifier(LogisticRegression(), threshold=.1).fit(X[:3000], y[:3000])
@pytest.mark.hwbudget(accuracy_min=.85)
@pytest.mark.hwscenarios("sklearn_fp32")
def test_it(hwperf, scenario, hwperf_model):
    run = hwperf(scenario, batch_size=512)
    assert sum(run.sample("accuracy").values) / 3000 == hwperf_model.score(X[3000:], y[3000:])
"""
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["accuracy 0.786 (*), limit >= 0.85; 3,000 examples, sklearn_fp32"])


@pytest.mark.live
def test_the_agreement_of_dynamic_int8_is_that_of_the_batch_that_is_measured(pytester: pytest.Pytester) -> None:
    """It counts as many labels as the metric of the same run."""
    pytester.makepyfile(
        DECIDES
        + """
@pytest.fixture
def hwperf_model(): return MLPClassifier((32, 32), max_iter=200, random_state=0).fit(X[:3000], y[:3000])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.hwscenarios("onnx_int8_dynamic")
@pytest.mark.parametrize("size", [1, 3000])
def test_it(hwperf, scenario, size):
    run = hwperf(scenario, batch_size=size)
    flips = int(sum(run.sample("flip_rate").values))
    assert f"{flips} of 3000 labels differ" in run.context["agreement"]
    assert "from model.predict(X)" in run.context["agreement"]
    assert "parity" not in run.context
"""
    )
    run(pytester).assert_outcomes(passed=2)


@pytest.mark.live
def test_a_skip_in_set_up_alone_is_reported(project: pytest.Pytester) -> None:
    project.makepyfile(
        MODEL.format(name="forest")
        + "@pytest.mark.hwscenarios('onnx_int8')\ndef test_it(hwperf, scenario): hwperf(scenario)"
    )
    result = run(project)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*1 skipped*"])


ONE = "@pytest.mark.hwscenarios('onnx_int8')\ndef test_it(hwperf, scenario): hwperf(scenario)\n"
DATA = {
    "{'rows': X}": "hwperf_data holds 'rows'; 'X' is needed, 'y', 'X_calibration' and 'classes' are allowed",
    "(X, y, X, y)": "hwperf_data returned 4 parts; return (X, y) or (X, y, X_calibration)",
    "(X, y, X)": "occur",
    "X[:0]": "no rows",
}
NO_MODEL = "the model is a {}, which is no scikit-learn estimator with predict: give a fitted estimator, or measure"


def test_bad_models_and_data_are_refused_in_one_sentence(project: pytest.Pytester) -> None:
    files = {
        f"test_data_{n}": f"{MODEL.format(name='logistic')}from conftest import X, y\n@pytest.fixture\n"
        f"def hwperf_data(): return {returned}\n{ONE}"
        for n, returned in enumerate(DATA)
    }
    models = ["'model'", "None"]
    for n, model in enumerate(models):
        files[f"test_model_{n}"] = f"import pytest\n@pytest.fixture\ndef hwperf_model(): return {model}\n{ONE}"
    project.makepyfile(**files)
    result = run(project, "--import-mode=prepend")
    shown = result.stdout.str()
    result.assert_outcomes(errors=6)
    assert [] == [reason for reason in DATA.values() if reason not in shown]
    for kind in ("str", "NoneType"):
        result.stdout.fnmatch_lines([f"{NO_MODEL.format(kind)} a callable by hwperf(function, X)"])
    assert [] == [one for one in ("Traceback", "During handling", "pytest_hwperf/") if one in shown]


def test_a_missing_model_and_missing_data_are_reported(pytester: pytest.Pytester) -> None:
    model = "import pytest\n@pytest.fixture\ndef hwperf_model(): return 1\n"
    test = "def test_it(hwperf, scenario): pass"
    pytester.makepyfile(test_none=test, test_model=model + test)
    result = run(pytester)
    result.assert_outcomes(errors=6)
    result.stdout.fnmatch_lines(["*define a fixture hwperf_model in conftest.py that returns a fitted estimator"])
    result.stdout.fnmatch_lines(["*define a fixture hwperf_data in conftest.py that returns (X, y)*"])


BAD_CALLS = [
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
]


def test_a_bad_call_points_at_the_users_line(pytester: pytest.Pytester) -> None:
    """One sentence under the line that was written, and none of our frames."""
    tests = "".join(f"def test_{n}(hwperf):\n    {call}\n" for n, (call, _) in enumerate(BAD_CALLS))
    pytester.makepyfile(f"import asyncio\nimport numpy\n{tests}")
    result = run(pytester)
    said = [line for line in result.outlines if line.startswith("E  ")]
    result.assert_outcomes(failed=len(BAD_CALLS))
    assert [] == [one for (_, one), line in zip(BAD_CALLS, said, strict=True) if one not in line]
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


def test_a_metric_of_the_users_own_joins_the_measured_run_or_needs_none(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(hwperf):
            hwperf(sum, [1])
            hwperf.record("rouge_l", 0.41, better="higher")
            hwperf.record("words", 12, better="lower")

        def test_alone(hwperf): hwperf.record("bleu", 0.32, better="higher")
        """
    )
    result = run(pytester, "-vv")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*rouge_l*0.410*", "*words*12.0*", "*bleu*0.320*"])
