"""`hwperf tradeoffs --pairs` with real processes: scenarios of a test, and measurements within one, take turns."""

import re
from pathlib import Path

import pytest

from pytest_hwperf.cli import main
from pytest_hwperf.cli.output import OK
from pytest_hwperf.records.codec import from_file
from pytest_hwperf.reports.tradeoff_files import TradeoffsFile

pytestmark = pytest.mark.live

# In the process of the session the quick one is the slower one: as of three runs of one code, one said the opposite.
TESTS = """
import os
import pytest
from fakes.simulated_time import spend

QUICK_US = 150 if "HWPERF_SHARES_COMPILED" in os.environ else 230


@pytest.mark.parametrize("us", [200, QUICK_US], ids=["steady", "quick"])
def test_parametrised(hwperf, us):
    hwperf(spend, us)


def test_labelled(hwperf):
    assert hwperf(spend, 200, label="steady").samples
    assert hwperf(spend, QUICK_US, label="quick").samples


def test_alone(hwperf):
    hwperf(spend, 200)
"""


@pytest.mark.usefixtures("fakes_in_reach")
def test_pairs_decide_what_single_processes_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test_models.py").write_text(TESTS, encoding="utf-8")
    code = main(["tradeoffs", "--pairs", "--json=found.json", "--", "-p", "fakes.simulated_time", "test_models.py"])
    said = " ".join(capsys.readouterr().out.split())
    tables = from_file(TradeoffsFile, Path("found.json").read_bytes(), other="", older="").tables
    assert OK == code
    for steady, quick in (
        ("test_models.py::test_parametrised[steady]", "test_models.py::test_parametrised[quick]"),
        ("test_models.py::test_labelled, steady", "test_models.py::test_labelled, quick"),
    ):
        assert re.search(re.escape(f"pairs {quick} against {steady}: latency -2") + r"[45]\.\d % \(-[^%]+\), ", said)
        assert f"low latency {quick} critical accuracy" in said
        assert f"pareto set {quick} ranking" in said
    assert "Measure in pairs" not in said
    assert ["improved"] * 2 == [table.candidates[1].pairs[table.candidates[0].name][0].outcome for table in tables[:2]]
    assert [1, 1, 0] == [len(table.gates) for table in tables]
