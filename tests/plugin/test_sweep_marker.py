"""`hwsweep`: one test at several points, each judged by itself, and the best of them."""

import json
from typing import Any

import pytest

QUICK = ("-p", "no:cacheprovider", "-p", "no:benchmark", "--hwperf-energy=off", "--hwperf-sample-time=0.02")
SIMULATED = (*QUICK, "-p", "fakes.simulated_time")
MODEL = """
    import numpy as np, pytest
    from sklearn.linear_model import LogisticRegression

    X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)

    @pytest.fixture(scope="session")
    def hwperf_data(): return X

    @pytest.fixture(scope="session")
    def hwperf_model(): return LogisticRegression().fit(X, X[:, 0] > 0)

    @pytest.mark.hwscenarios("sklearn_fp32")
"""


def callable_test(marker: str, arguments: str = "batch_size") -> str:
    return f"""
        import pytest
        from fakes.simulated_time import spend
        ROWS = list(range(64))

        @pytest.mark.hwsweep({marker})
        def test_it(hwperf, {arguments}):
            hwperf(lambda rows: spend(100), ROWS, batch_size=batch_size)
    """


def sweeps_of(pytester: pytest.Pytester) -> Any:
    return json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["report"]["sweeps"]


def test_a_scenario_is_measured_at_the_batch_size_and_threads_of_its_point(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"{MODEL}    @pytest.mark.hwsweep(batch_size=[1, 8], threads=[1])\n"
        "    def test_it(hwperf, scenario): hwperf(scenario)"
    )
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-report=r.json", "-v")
    (sweep,) = sweeps_of(pytester)

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::test_it[[]sklearn_fp32-batch_size:8-threads:1[]]*"])
    result.stdout.fnmatch_lines(
        ["sweep of *::test_it", "*lowest latency: batch_size ?, threads 1: *", "note: the points*"]
    )
    assert [{"batch_size": 1, "threads": 1}, {"batch_size": 8, "threads": 1}] == [
        row["point"]["values"] for row in sweep["rows"]
    ]
    report = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["report"]
    assert ["1", "8"] == [judgement["run"]["conditions"]["batch_size"] for judgement in report["judgements"]]


def test_larger_batches_than_one_that_misses_a_limit_are_skipped(pytester: pytest.Pytester) -> None:
    """The limit belongs to the search and fails no test; no call takes a femtosecond."""
    pytester.makepyfile(callable_test("batch_size=[8, 1, 32, 64], latency_p50_ms=1e-12"))
    result = pytester.runpytest_inprocess(*SIMULATED, "--hwperf-report=r.json")
    (sweep,) = sweeps_of(pytester)

    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(
        ["*skipped: batch_size 8 misses latency p50 <= * and a larger batch takes more", "*no point is known to keep *"]
    )
    assert ["failed", "failed", None, None] == [
        answers[0]["outcome"] if (answers := row["answers"]) else None for row in sweep["rows"]
    ]


def test_without_a_reason_to_stop_every_point_is_measured(pytester: pytest.Pytester) -> None:
    """Such as a measurement of a point that keeps the limits, though another misses them."""
    pytester.makepyfile(
        test_go=callable_test("batch_size=[1, 8], latency_p50_ms=1e-12, stop=False"),
        test_free=callable_test("batch_size=[1, 8]"),
        test_one="""
            import pytest, time

            @pytest.mark.hwsweep(batch_size=[1, 8], latency_p50_ms=0.5)
            def test_it(hwperf, batch_size):
                hwperf(time.sleep, 0.001, label="slow")
                hwperf(len, [1], label="quick")
                hwperf.record("size", batch_size, better="lower")
        """,
    )
    pytester.runpytest_inprocess(*QUICK).assert_outcomes(passed=6)


def test_where_runs_are_compared_every_point_is_measured(pytester: pytest.Pytester) -> None:
    """One of them can be selected by its values."""
    pytester.makepyfile(callable_test("batch_size=[1, 8, 16], latency_p50_ms=1e-12"))
    result = pytester.runpytest_inprocess(
        *SIMULATED, "--hwperf-compare", "-ohwperf_rerun=never", "-k", "not batch_size:16"
    )
    result.assert_outcomes(passed=2, deselected=1)


def test_budgets_are_kept_point_by_point(pytester: pytest.Pytester) -> None:
    budget = "@pytest.mark.hwbudget(latency_p50_ms=0.05)\n        @pytest"
    pytester.makepyfile(callable_test("batch_size=[1, 8]").replace("@pytest", budget, 1))
    result = pytester.runpytest_inprocess(*SIMULATED)
    result.assert_outcomes(failed=1, skipped=1)


def test_other_parameters_make_a_sweep_each(pytester: pytest.Pytester) -> None:
    source = callable_test("batch_size=[1, 8]", "batch_size, kind")
    pytester.makepyfile(source.replace("@py", '@pytest.mark.parametrize("kind", ["a", "b"])\n        @py', 1))
    result = pytester.runpytest_inprocess(*SIMULATED, "--hwperf-report=r.json")
    result.assert_outcomes(passed=4)
    assert ["test_it[a]", "test_it[b]"] == [sweep["name"].partition("::")[2] for sweep in sweeps_of(pytester)]


WRONG = {
    "hwsweep(batch_size=[0])": "0 is no whole number from 1 on",
    "hwsweep(8)": "hwsweep(8): only keywords are taken, such as hwsweep(batch_size=[1, 8, 32])",
    "hwsweep(threads=[1, 2])": "nothing uses threads: make it an argument of the test, or measure the fixture",
    "hwsweep(batchsize=[1, 2])": "make it an argument of the test. Did you mean 'batch_size'?",
    "hwsweep(size=[1, 2])": "hwsweep(size=[1, 2]): nothing uses size: make it an argument of the test",
}


def test_a_sweep_that_cannot_be_meant_is_a_usage_error(pytester: pytest.Pytester) -> None:
    tests = "".join(
        f"@pytest.mark.{marker}\ndef test_{n}(hwperf): raise SystemExit('ran')\n" for n, marker in enumerate(WRONG)
    )
    pytester.makepyfile(test_it=f"import pytest\n{tests}")
    wrong = pytester.runpytest_inprocess()
    pytester.makepyfile(test_it="import pytest\n@pytest.mark.hwsweep(n=[1])\ndef test_it(n): pass")
    unmeasured = pytester.runpytest_inprocess()
    said = " ".join(wrong.stderr.str().split()).split("test_it.py::")[1:]
    assert [pytest.ExitCode.USAGE_ERROR] * 2 == [wrong.ret, unmeasured.ret]
    assert [] == [
        one for (n, one), text in zip(enumerate(WRONG.values()), said, strict=True)
        if not (text.startswith(f"test_{n}: ") and one in text)
    ]  # fmt: skip


def test_the_body_of_a_test_with_a_budget_is_swept_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p50_ms=1e6)
        @pytest.mark.hwsweep(n=[10, 100])
        def test_it(n): sum(range(n))
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["sweep of *::test_it", "*passed", "*passed", "*limits: latency p50 <= 1000 s"])


def test_the_batch_that_is_served_belongs_to_the_sweep(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(callable_test("batch_size=[1, 8]"))
    other, same = (pytester.runpytest_inprocess(*SIMULATED, f"-ohwperf_serving_batch={rows}").stdout for rows in (4, 8))
    other.fnmatch_lines(["*batches of 4 are served, and batches of 1, 8 were measured*"])
    same.no_fnmatch_line("*are served*")
