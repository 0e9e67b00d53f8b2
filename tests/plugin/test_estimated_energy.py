"""Energy that is estimated by watts of the user's own, and carbon: shown with their inputs, never compared."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

QUICK = ("-v", "--hwperf-sample-time=0.3", "--hwperf-energy=estimate", "--hwperf-report=report.json")
USAGE = pytest.ExitCode.USAGE_ERROR
CARBON = """[pytest]
hwperf_carbon =
    intensity_g_per_kwh=400
    intensity_source=Ember 2024, DE
    embodied_kg=1000
    lifetime_years=4
"""


def judgements(folder: Path) -> list[Any]:
    return list(json.loads((folder / "report.json").read_text(encoding="utf-8"))["report"]["judgements"])


def test_watts_that_cannot_be_are_a_usage_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though energy is off. The command line is asked first, then the ini, then the environment."""
    pytester.makepyfile("def test_it(energy_meter): pass")
    monkeypatch.setenv("HWPERF_WATTS", "9..1")
    by_environment = pytester.runpytest_inprocess()
    pytester.makeini("[pytest]\nhwperf_watts = 8..1")
    by_ini = pytester.runpytest_inprocess("--hwperf-energy=off")
    assert [USAGE, USAGE] == [by_environment.ret, by_ini.ret]
    by_environment.stderr.fnmatch_lines(["ERROR: -o hwperf_watts=9..1 (or HWPERF_WATTS): *"])
    by_ini.stderr.fnmatch_lines(["ERROR: -o hwperf_watts=8..1 (or HWPERF_WATTS): *"])
    pytester.runpytest_inprocess("-ohwperf_watts=1..2").assert_outcomes(passed=1)


def test_carbon_without_an_intensity_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nhwperf_carbon =\n    embodied_kg=1000\n    lifetime_years=4\n")
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess()
    assert USAGE == result.ret
    result.stderr.fnmatch_lines(["ERROR: hwperf_carbon: intensity_g_per_kwh is missing*"])


@pytest.mark.live
def test_an_estimate_says_so_and_is_never_compared_with_one_by_other_watts(pytester: pytest.Pytester) -> None:
    """Energy over CPU time of one report is what a CPU second costs, 10 J: both are of one reading."""
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(energy_budget_mj=1e6)
        @pytest.mark.hwregression(energy="5%")
        def test_it(): sum(range(20_000))
        """
    )
    options = (*QUICK, "-ohwperf_rerun=never")
    result = pytester.runpytest_inprocess(*options, "-ohwperf_watts=1..11", "--hwperf-save")
    (found,) = judgements(pytester.path)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*estimate:cpu-time (energy)*", "*not a measurement, but *1 W idle to 11 W busy*"])
    assert ", estimate:cpu-time" in found["verdicts"][0]["reason"]
    assert "1 W idle to 11 W busy per vCPU (as given; hwperf_watts)" == found["run"]["context"]["energy_watts"]
    values = {figure["metric"]: figure["estimate"]["value"] for figure in found["figures"]}
    assert 10.0 == pytest.approx(values["energy"] / values["cpu_time"], rel=1e-9)

    pytester.runpytest_inprocess(*options, "-ohwperf_watts=1..26.6", "--hwperf-compare").assert_outcomes(passed=1)
    (found,) = judgements(pytester.path)
    (energy,) = (
        verdict
        for verdict in found["verdicts"]
        if verdict["subject"]["type"] == "Comparison" and verdict["subject"]["metric"] == "energy"
    )
    assert "not comparable" == energy["outcome"]
    assert "estimate:cpu-time holds nothing beyond CPU time and is never compared" in energy["reason"]


@pytest.mark.live
def test_both_parts_of_carbon_stand_in_every_report(pytester: pytest.Pytester) -> None:
    """Apart, with unit, n and source; of a call, where energy is of a row: eight rows take eight times the joules."""
    pytester.makeini(CARBON)
    pytester.makepyfile(
        """
        import numpy as np
        def test_call(hwperf): hwperf(sum, [1, 2, 3] * 1000)
        def test_rows(hwperf): hwperf(lambda X: X.sum(axis=1), np.ones((64, 1000)), batch_size=8)
        """
    )
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-report=csv")
    with (pytester.path / "csv" / "stat_benchmark_summary.csv").open(encoding="utf-8") as file:
        row, _ = csv.DictReader(file)

    result.assert_outcomes(passed=2)
    result.stdout.re_match_lines(
        [
            r".*SCI per call: +estimate:cpu-time x 400 g/kWh.*",
            r" *carbon_operational +\S+ \S?g .*\d+ windows?.*",
            r" *carbon_embodied +\S+ \S?g .*\d+ windows?.*",
        ]
    )
    for judgement, rows in zip(judgements(pytester.path), (1, 8), strict=True):
        found = {sample["metric"]: sample for sample in judgement["run"]["samples"]}
        grams = [rows * joules / 9000 for joules in found["energy"]["values"]]
        assert grams == pytest.approx(found["carbon_operational"]["values"])
        assert "SCI per call: perf_counter x 1000 kg over 4 years" == found["carbon_embodied"]["source"]
    assert "SCI per call: estimate:cpu-time x 400 g/kWh (Ember 2024, DE)" == row["carbon_operational_mean_mg_source"]
    assert 0 < float(row["carbon_operational_mean_mg"])
    assert "carbon_embodied_mean_mg_ci_high" in row
