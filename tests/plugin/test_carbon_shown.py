"""Carbon of a run: reported where its inputs are given, refused without an intensity, judged never."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

QUICK = ("--hwperf-sample-time=0.3",)
GRID = "    intensity_g_per_kwh=400\n    intensity_source=Ember 2024, DE\n"
SERVER = "    embodied_kg=1000\n    lifetime_years=4\n"
MEASURED = """
    import pytest
    def test_it(hwperf): hwperf(sum, [1, 2, 3] * 1000)
"""


def ini(pytester: pytest.Pytester, lines: str) -> None:
    pytester.makeini(f"[pytest]\nhwperf_carbon =\n{lines}")


def run_of(folder: Path) -> dict[str, Any]:
    ((found),) = json.loads((folder / "report.json").read_text(encoding="utf-8"))["report"]["judgements"]
    return dict(found["run"])


def samples(run: dict[str, Any]) -> dict[str, Any]:
    return {sample["metric"]: sample for sample in run["samples"]}


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        (SERVER, "intensity_g_per_kwh is missing"),
        ("    intensity_g_per_kwh=400\n", "intensity_source is missing. Say who published the intensity"),
        (
            f"{GRID}    embodid_kg=1\n",
            "unknown key 'embodid_kg'. Did you mean 'embodied_kg'[?] Allowed: intensity_g_per",
        ),
    ],
)
def test_bad_inputs_are_a_usage_error(pytester: pytest.Pytester, lines: str, reported: str) -> None:
    ini(pytester, lines)
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess()
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: hwperf_carbon: {reported}*"])


@pytest.mark.live
def test_both_parts_stand_in_every_report(pytester: pytest.Pytester) -> None:
    """Apart, with unit, n and source, and marked as an estimate where the energy is one."""
    ini(pytester, GRID + SERVER)
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess(
        *QUICK, "-v", "--hwperf-energy=estimate", "--hwperf-report=report.json", "--hwperf-report=csv"
    )
    found = samples(run_of(pytester.path))
    with (pytester.path / "csv" / "stat_benchmark_summary.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)

    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines(
        [
            r".*SCI per call: +estimate:cpu-time x 400 g/kWh.*",
            r" *carbon_operational +\S+ \S?g .*\d+ windows?.*",
            r" *carbon_embodied +\S+ \S?g .*\d+ windows?.*",
        ]
    )
    assert [joules / 9000 for joules in found["energy"]["values"]] == pytest.approx(
        found["carbon_operational"]["values"]
    )
    assert "SCI per call: perf_counter x 1000 kg over 4 years" == found["carbon_embodied"]["source"]
    assert "SCI per call: estimate:cpu-time x 400 g/kWh (Ember 2024, DE)" == row["carbon_operational_mean_mg_source"]
    assert 0 < float(row["carbon_operational_mean_mg"])
    assert "carbon_embodied_mean_mg_ci_high" in row


@pytest.mark.live
def test_carbon_is_of_a_call_and_energy_of_a_row(pytester: pytest.Pytester) -> None:
    """Eight rows in a call: eight times the joules of a row."""
    ini(pytester, GRID)
    pytester.makepyfile(
        """
        import numpy as np
        def test_it(hwperf): hwperf(lambda X: X.sum(axis=1), np.ones((64, 1000)), batch_size=8)
        """
    )
    pytester.runpytest_inprocess(*QUICK, "--hwperf-energy=estimate", "--hwperf-report=report.json")
    run = run_of(pytester.path)
    found = samples(run)
    assert [8 * joules / 9000 for joules in found["energy"]["values"]] == pytest.approx(
        found["carbon_operational"]["values"]
    )
    assert "no embodied carbon" == run["unmeasured"]["carbon_embodied"]["kind"]


@pytest.mark.live
def test_without_energy_the_operational_part_is_unmeasured(pytester: pytest.Pytester) -> None:
    """Never 0; what making the machine has cost needs no energy."""
    ini(pytester, GRID + SERVER)
    pytester.makepyfile(MEASURED)
    pytester.runpytest_inprocess(*QUICK, "--hwperf-energy=off", "--hwperf-report=report.json").assert_outcomes(passed=1)
    run = run_of(pytester.path)
    assert "carbon_embodied" in samples(run)
    cause = run["unmeasured"]["carbon_operational"]
    assert ("part unmeasured", "energy is off (--hwperf-energy=off)") == (cause["kind"], cause["texts"]["why"])


@pytest.mark.live
def test_nobody_asked_nothing_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MEASURED)
    pytester.runpytest_inprocess(*QUICK, "--hwperf-energy=off", "--hwperf-report=report.json").assert_outcomes(passed=1)
    run = run_of(pytester.path)
    assert not any(metric.startswith("carbon") for metric in [*samples(run), *run["unmeasured"]])


@pytest.mark.live
def test_carbon_is_never_compared(pytester: pytest.Pytester) -> None:
    """A grid that got ten times dirtier since the baseline is no regression of the code."""
    ini(pytester, GRID + SERVER)
    pytester.makepyfile(MEASURED)
    options = (
        *QUICK,
        "--hwperf-energy=off",
        "-ohwperf_rerun=never",
        "--hwperf-strict",
        "--hwperf-margin=latency_p50=99%",
    )
    pytester.runpytest_inprocess(*options, "--hwperf-save")
    ini(pytester, GRID.replace("400", "4000") + SERVER.replace("1000", "10000"))
    pytester.runpytest_inprocess(*options, "--hwperf-compare", "--hwperf-report=report.json")
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    compared = [verdict["subject"]["metric"] for verdict in report["judgements"][0]["verdicts"]]
    assert "latency" in compared
    assert not any(metric.startswith("carbon") for metric in compared)
