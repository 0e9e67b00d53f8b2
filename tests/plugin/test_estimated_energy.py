"""The estimate with watts of the user's own: refused before anything runs, shown with every figure, never compared."""

import json
from pathlib import Path
from typing import Any

import pytest

QUICK = ("--hwperf-sample-time=0.3", "--hwperf-energy=estimate")
USAGE = pytest.ExitCode.USAGE_ERROR
MEASURED = """
    import pytest
    @pytest.mark.hwbudget(energy_budget_mj=1e6)
    @pytest.mark.hwregression(energy="5%")
    def test_it(): sum(range(20_000))
"""


def judgement(folder: Path) -> dict[str, Any]:
    """Return the only judgement of a report."""
    ((found),) = json.loads((folder / "report.json").read_text(encoding="utf-8"))["report"]["judgements"]
    return dict(found)


@pytest.mark.parametrize("watts", ["2.1..0.5", "-1..2", "0,5..2,1", "watts.json"])
def test_bad_watts_are_a_usage_error(pytester: pytest.Pytester, watts: str) -> None:
    """Before anything runs, and though energy is off: an estimate would be needed elsewhere."""
    pytester.makepyfile("def test_it(energy_meter): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess(f"-ohwperf_watts={watts}", "--hwperf-energy=off")
    assert USAGE == result.ret
    result.stderr.fnmatch_lines([f"ERROR: -o hwperf_watts={watts} (or HWPERF_WATTS): give IDLE..BUSY in W per vCPU, *"])


def test_the_ini_and_the_environment_are_asked_too(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line first, then the ini, then the environment."""
    pytester.makepyfile("def test_it(energy_meter): pass")
    monkeypatch.setenv("HWPERF_WATTS", "9..1")
    by_environment = pytester.runpytest_inprocess()
    pytester.makeini("[pytest]\nhwperf_watts = 8..1")
    by_ini = pytester.runpytest_inprocess()
    assert [USAGE, USAGE] == [by_environment.ret, by_ini.ret]
    by_environment.stderr.fnmatch_lines(["ERROR: -o hwperf_watts=9..1 (or HWPERF_WATTS): *"])
    by_ini.stderr.fnmatch_lines(["ERROR: -o hwperf_watts=8..1 (or HWPERF_WATTS): *"])
    pytester.runpytest_inprocess("-ohwperf_watts=1..2").assert_outcomes(passed=1)


@pytest.mark.live
def test_a_budget_judged_by_an_estimate_says_so(pytester: pytest.Pytester) -> None:
    """In the line of its verdict, in the table and in the footnotes, with the watts; so does what is stored."""
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess(*QUICK, "-v", "-ohwperf_watts=0.5..2.1", "--hwperf-report=report.json")
    found = judgement(pytester.path)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*estimate:cpu-time (energy)*", "*not a measurement, but *0.5 W idle to 2.1 W busy*"])
    assert ", estimate:cpu-time" in found["verdicts"][0]["reason"]
    assert "0.5 W idle to 2.1 W busy per vCPU (as given; hwperf_watts)" == found["run"]["context"]["energy_watts"]


@pytest.mark.live
def test_the_joules_are_those_of_the_watts(pytester: pytest.Pytester) -> None:
    """Energy over CPU time of the same report is what a CPU second costs, 10 J: both are of one reading."""
    pytester.makepyfile(MEASURED)
    pytester.runpytest_inprocess(*QUICK, "-ohwperf_watts=1..11", "--hwperf-report=report.json")
    found = {figure["metric"]: figure["estimate"]["value"] for figure in judgement(pytester.path)["figures"]}
    assert 10.0 == pytest.approx(found["energy"] / found["cpu_time"], rel=1e-9)


@pytest.mark.live
def test_estimates_by_other_watts_are_never_compared(pytester: pytest.Pytester) -> None:
    """Sixteen times the watts is no regression, and saying nothing would be no answer."""
    pytester.makepyfile(MEASURED)
    quick = (*QUICK, "-ohwperf_rerun=never")
    pytester.runpytest_inprocess(*quick, "-ohwperf_watts=0.5..2.1", "--hwperf-save").assert_outcomes(passed=1)
    options = ("-ohwperf_watts=1..26.6", "--hwperf-compare", "--hwperf-report=report.json")
    pytester.runpytest_inprocess(*quick, *options).assert_outcomes(passed=1)
    (energy,) = (
        verdict
        for verdict in judgement(pytester.path)["verdicts"]
        if verdict["subject"]["type"] == "Comparison" and verdict["subject"]["metric"] == "energy"
    )
    assert "not comparable" == energy["outcome"]
    assert "estimate:cpu-time holds nothing beyond CPU time and is never compared" in energy["reason"]
