"""Where the time of a call goes, as a table below the report."""

from typing import Any

from fakes import records as fake

from pytest_hwperf.records.messages import said
from pytest_hwperf.records.profiles import Operator, OperatorProfile
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Run, replace
from pytest_hwperf.records.work import PeakRate, Work
from pytest_hwperf.reports.explained import OperatorTable, operator_tables
from pytest_hwperf.reports.terminal import render
from pytest_hwperf.stats.roofline import roofline_of

NODES = 10


def operator(number: int, name: str = "") -> Operator:
    return Operator(name=name or f"node_{number}", kind=f"Gemm{number}", calls=1, share=0.09, seconds=9e-5)


def profile(*operators: Operator) -> OperatorProfile:
    return OperatorProfile(source="fake profile", calls=20, latency_s=1e-3, coverage=0.9, operators=operators)


def report_of(found: OperatorProfile | None, run: Run | None = None) -> Report:
    report = fake.report()
    measured = replace(run or report.judgements[0].run, operators=found)
    return replace(report, judgements=(replace(report.judgements[0], run=measured),), gates=())


def table(found: OperatorProfile, *, every: bool = False) -> OperatorTable:
    (only,) = operator_tables(report_of(found), every=every)
    return only


def test_the_slowest_are_listed_and_the_rest_is_one_row() -> None:
    """Rows add up to the whole call."""
    shown = table(profile(*map(operator, range(NODES))))
    assert ("operator", "calls", "share", "time", "node") == shown.rows[0]
    assert ("Gemm0", "1", "9.0 %", "90.0 µs", "node_0") == shown.rows[1]
    assert [("2 others", "2", "18.0 %", "180 µs", ""), ("framework", "", "10.0 %", "100 µs", "")] == [*shown.rows[-2:]]
    assert shown.setting.startswith("90 % of 1.00 ms a call; fake profile, n=20 calls")


def test_verbose_lists_every_operator() -> None:
    assert NODES + 2 == len(table(profile(*map(operator, range(NODES))), every=True).rows)


def test_long_names_keep_their_end() -> None:
    name = "/".join(f"layer{n}" for n in range(20))
    assert table(profile(operator(0, name))).rows[1][-1] == f"…{name[-39:]}"


def test_what_is_withheld_says_why() -> None:
    withheld = replace(profile(), withheld=said("as it is"))
    assert ("withheld: as it is (fake profile)", ()) == (table(withheld).setting, table(withheld).rows)
    assert table(replace(withheld, source="")).setting == "withheld: as it is"


def test_without_profiles_there_is_no_table() -> None:
    assert () == operator_tables(report_of(None), every=True)


def test_the_scenario_is_named_once() -> None:
    run = fake.run(test="t.py::test[onnx_fp32]", scenario="onnx_fp32", label="a")
    assert ["operators of t.py::test[onnx_fp32] a", "operators of t.py::test onnx_fp32"] == [
        operator_tables(report_of(profile(), one), every=False)[0].title
        for one in (run, fake.run(test="t.py::test", scenario="onnx_fp32"))
    ]


def test_a_narrow_terminal_shows_names_below() -> None:
    """And text from outside cannot steer it."""
    report = report_of(profile(operator(0, "a\x1b[31mb"), operator(1, "x" * 40)))
    lines = {width: [text for text, _ in render(report, width=width, color=False)] for width in (50, 200)}
    assert ["    Gemm0      1      9.0 %   90.0 µs", "      a\\x1b[31mb"] == [
        line for line in lines[50] if "Gemm0" in line or "x1b" in line
    ]
    assert "    Gemm0      1      9.0 %   90.0 µs  a\\x1b[31mb" in lines[200]


PEAK = PeakRate(threads=1, flops_per_s=100e9, bytes_per_s=10e9)


def work_shown(flops: float, moved: float, latency_s: float = 15e-3, **others: Any) -> tuple[str, ...]:
    work = Work(flops=flops, moved_bytes=moved, nodes=3, **others)
    found = roofline_of(work, latency_s, PEAK, 1)
    report = report_of(profile(operator(0)))
    run = replace(report.judgements[0].run, roofline=found)
    report = replace(report, judgements=(replace(report.judgements[0], run=run),))
    (only,) = operator_tables(report, every=False)
    return only.work


def test_the_work_of_a_call_and_what_limits_it_stand_below() -> None:
    work, verdict = work_shown(1e9, 1e6)
    assert work.startswith("a call: 1.00 GFLOP, 1.00 MB (weights + inputs + outputs, each moved once); 1000 FLOP/B; ")
    assert work.endswith("; over its median 66.7 GFLOP/s and 66.7 MB/s")
    assert verdict.startswith(
        "compute-bound: at the rates that numpy reaches here (100 GFLOP/s and 10.0 GB/s, 1 thread) "
    )
    assert verdict.endswith("it would take 67 % of its time")


def test_a_call_that_is_faster_than_numpy_says_so() -> None:
    """No share above 100 % is shown."""
    faster = "compute-bound: ×2.0 as fast as numpy here (100 GFLOP/s and 10.0 GB/s, 1 thread)"
    cached = "its data move ×2.0 as fast as numpy reads memory here: they come from caches"
    assert faster == work_shown(1e9, 1e6, 5e-3)[1]
    assert f"what limits it is not known: {cached}" == work_shown(1e6, 1e8, 5e-3)[1]


def test_what_is_not_counted_makes_a_lower_bound_and_no_verdict() -> None:
    shown = work_shown(0, 0, uncounted={"Loop": 1}, integer_ops=2e3)
    assert shown[0].startswith("a call: at least 2.00 kOP on integers, 0 B (weights")
    assert shown[1].startswith("what limits it is not known: not counted are Loop (1), 33 % of the operators")
    assert work_shown(0, 0)[0].startswith("a call: no operation, 0 B")
    unknown = work_shown(0, 1e3, 1e-3, uncounted={"TreeEnsembleClassifier": 1})[0]
    assert unknown.startswith("a call: no operation was counted, at least 1.00 kB (weights")
    assert unknown.endswith("moved once); over its median 1.00 MB/s")


def test_the_work_is_shown_where_shares_are_withheld() -> None:
    report = report_of(replace(profile(), withheld=said("as it is")))
    found = roofline_of(Work(flops=1e9, moved_bytes=1e6, nodes=1), 15e-3, PEAK, 1)
    run = replace(report.judgements[0].run, roofline=found)
    lines = render(replace(report, judgements=(replace(report.judgements[0], run=run),)), width=200, color=False)
    assert ["  compute-bound:"] == [text[:16] for text, _ in lines if "compute-bound" in text]
