"""The estimate with watts of the user's own: refused before anything runs, shown with every figure, never compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.host.machine import name_processor, read_processor
from pytest_hwperf.meters.energy.calibration import Calibration, write_calibration

QUICK = ("--hwperf-max-time=0.3", "--hwperf-energy=estimate")
USAGE = pytest.ExitCode.USAGE_ERROR
MEASURED = """
    import pytest
    @pytest.mark.hwbudget(energy_budget_mj=1e6)
    @pytest.mark.hwregression(energy="5%")
    def test_it(): sum(range(20_000))
"""


def calibrated(path: Path, cpu_model: str) -> None:
    """Write a calibration file of a processor."""
    found = Calibration(
        cpu_model=cpu_model, idle_w=1.5, busy_w=4.0, source="rapl:package-0", cpus=2.0, window_s=2.0, measured_at="2026"
    )
    write_calibration(path, found)


def judgement(folder: Path) -> dict[str, Any]:
    """Return the only judgement of a report."""
    ((found),) = json.loads((folder / "report.json").read_text(encoding="utf-8"))["report"]["judgements"]
    return dict(found)


@pytest.mark.parametrize(
    ("watts", "reported"),
    [
        (
            "2.1..0.5",
            "--hwperf-watts=2.1..0.5 (or HWPERF_WATTS): watts are never negative, and a busy vCPU draws more than",
        ),
        ("-1..2", "--hwperf-watts=-1..2 (or HWPERF_WATTS): watts are never negative"),
        (
            "0,5..2,1",
            "/0,5..2,1 (or HWPERF_WATTS): the file cannot be read (*): *Give IDLE..BUSY in W per vCPU",
        ),
        (
            "none.json",
            "/none.json (or HWPERF_WATTS): the file cannot be read (*): make one with hwperf calibrate",
        ),
        ("other.json", "/other.json (or HWPERF_WATTS): the file has the watts of 'another', the processor here is "),
        ("damaged.json", "/damaged.json (or HWPERF_WATTS): the file is not whole JSON"),
    ],
)
def test_bad_watts_are_a_usage_error(pytester: pytest.Pytester, watts: str, reported: str) -> None:
    """Before anything runs, and though energy is off: an estimate would be needed elsewhere."""
    calibrated(pytester.path / "other.json", "another")
    pytester.path.joinpath("damaged.json").write_text('{"what"', encoding="utf-8")
    pytester.makepyfile("def test_it(energy_meter): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess(f"--hwperf-watts={watts}", "--hwperf-energy=off")

    assert USAGE == result.ret
    result.stderr.fnmatch_lines([f"ERROR: *{reported}*"])


def test_the_ini_and_the_environment_are_asked_too(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line first, then the ini, then the environment."""
    pytester.makepyfile("def test_it(energy_meter): pass")
    monkeypatch.setenv("HWPERF_WATTS", "9..1")
    by_environment = pytester.runpytest_inprocess()
    pytester.makeini("[pytest]\nhwperf_watts = 8..1")
    by_ini = pytester.runpytest_inprocess()

    assert [USAGE, USAGE] == [by_environment.ret, by_ini.ret]
    by_environment.stderr.fnmatch_lines(["ERROR: --hwperf-watts=9..1 (or HWPERF_WATTS): *"])
    by_ini.stderr.fnmatch_lines(["ERROR: --hwperf-watts=8..1 (or HWPERF_WATTS): *"])
    pytester.runpytest_inprocess("--hwperf-watts=1..2").assert_outcomes(passed=1)


def test_a_file_in_the_ini_lies_beside_the_ini(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever pytest was started; on the command line it lies where that was."""
    pytester.makeini("[pytest]\nhwperf_watts = none.json")
    test = pytester.makepyfile("def test_it(energy_meter): pass")
    monkeypatch.chdir(pytester.mkdir("elsewhere"))
    by_ini = pytester.runpytest_inprocess(str(test))
    typed = pytester.runpytest_inprocess(str(test), "--hwperf-watts=none.json")

    by_ini.stderr.fnmatch_lines([f"ERROR: --hwperf-watts={pytester.path}/none.json (or HWPERF_WATTS): *"])
    typed.stderr.fnmatch_lines([f"ERROR: --hwperf-watts={pytester.path}/elsewhere/none.json (or HWPERF_WATTS): *"])


@pytest.mark.live
def test_a_budget_judged_by_an_estimate_says_so(pytester: pytest.Pytester) -> None:
    """In the line of its verdict, in the table and in the footnotes, with the watts; so does what is stored."""
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess(*QUICK, "-v", "--hwperf-watts=0.5..2.1", "--hwperf-json=report.json")
    found = judgement(pytester.path)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*estimate:cpu-time (energy)*", "*not a measurement, but *0.5 W idle to 2.1 W busy*"])
    assert ", estimate:cpu-time" in found["verdicts"][0]["reason"]
    assert "0.5 W idle to 2.1 W busy per vCPU (as given; --hwperf-watts)" == found["run"]["context"]["energy_watts"]


@pytest.mark.live
def test_the_joules_are_those_of_the_watts(pytester: pytest.Pytester) -> None:
    """Energy over CPU time of the same report is what a CPU second costs, 10 J: both are of one reading."""
    pytester.makepyfile(MEASURED)
    pytester.runpytest_inprocess(*QUICK, "--hwperf-watts=1..11", "--hwperf-json=report.json")
    found = {figure["metric"]: figure["estimate"]["value"] for figure in judgement(pytester.path)["figures"]}

    assert 10.0 == pytest.approx(found["energy"] / found["cpu_time"], rel=1e-9)


@pytest.mark.live
def test_estimates_by_other_watts_are_never_compared(pytester: pytest.Pytester) -> None:
    """Sixteen times the watts is no regression, and saying nothing would be no answer."""
    pytester.makepyfile(MEASURED)
    quick = (*QUICK, "--hwperf-rerun=never")
    pytester.runpytest_inprocess(*quick, "--hwperf-watts=0.5..2.1", "--hwperf-save").assert_outcomes(passed=1)
    options = ("--hwperf-watts=1..26.6", "--hwperf-compare", "--hwperf-json=report.json")
    pytester.runpytest_inprocess(*quick, *options).assert_outcomes(passed=1)
    (energy,) = (
        verdict
        for verdict in judgement(pytester.path)["verdicts"]
        if verdict["subject"]["type"] == "Comparison" and verdict["subject"]["metric"] == "energy"
    )

    assert "not comparable" == energy["outcome"]
    assert "estimate:cpu-time holds nothing beyond CPU time and is never compared" in energy["reason"]


@pytest.mark.live
def test_a_calibration_of_this_processor_is_used(pytester: pytest.Pytester) -> None:
    model = name_processor(read_processor())
    if not model:
        pytest.skip("this system does not name its processor")
    calibrated(pytester.path / "watts.json", model)
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-watts=watts.json", "--hwperf-json=report.json")

    result.assert_outcomes(passed=1)
    assert judgement(pytester.path)["run"]["context"]["energy_watts"] == (
        f"1.5 W idle to 4 W busy per vCPU ({model}; calibrated by rapl:package-0 at 2026)"
    )
