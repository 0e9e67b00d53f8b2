"""What moved, its stacks as files, and where the time of a call goes."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from fakes import gates
from fakes import records as fake
from fakes.profiles import repeats

from pytest_hwperf.records.evidence import Explanation, Measurement
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.profiles import Operator, OperatorProfile, PeakRate, Work
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Run, replace
from pytest_hwperf.reports.explained import OperatorTable, lines_of, operator_tables, safe_name
from pytest_hwperf.reports.explained import render as files_of
from pytest_hwperf.reports.terminal import render, render_summary
from pytest_hwperf.stats.causes.explanations import explain_functions, explain_nothing
from pytest_hwperf.stats.causes.roofline import roofline_of
from pytest_hwperf.stats.pairs.sequence import decide

SLOWER = gates.hypothesis(0)
BEFORE = {"predict>tokenize": 1, "predict>embed": 4, "predict>score": 5}


def explanation(**after: float) -> Explanation:
    comparison = decide(gates.build([0.3], Random(1)))[SLOWER]
    change = replace(comparison.change, value=0.3, low=None, high=None) if comparison.change else None
    comparison = replace(comparison, baseline=10e-3, change=change)
    now = {**BEFORE, **{f"predict>{name}": ms for name, ms in after.items()}}
    return explain_functions(SLOWER, comparison, repeats(BEFORE, {"tokenize": 1}), repeats(now, {"tokenize": 3}))


def explained(*explanations: Explanation) -> Report:
    return replace(fake.empty_report(), gates=(replace(gates.report(1).gates[0], explanations=explanations),))


def cases() -> Iterator[tuple[str, Report]]:
    both, small = explanation(tokenize=3.2, embed=4.8), replace(explanation(tokenize=3, embed=5), remarks=())
    yield "all movers are listed with their share and its spread", explained(both)
    alike = tuple(replace(mover, baseline_calls=1.0, candidate_calls=1.001) for mover in small.movers)
    yield (
        "a small cost of the profiler is said, and no number of calls that is as before",
        explained(replace(small, movers=alike, overhead=0.25)),
    )
    sizes = {"kind": "allocation", "baseline": 1e6, "candidate": 2e6, "low": 1e6, "high": 1e6}
    movers = tuple(replace(mover, **sizes) for mover in small.movers)
    yield (
        "movers of memory are bytes",
        explained(replace(small, kind="allocation", movers=movers, baseline=100e6, candidate=102e6, overhead=None)),
    )
    only = replace(explanation(tokenize=4), remarks=())
    yield "a single mover of what regressed stands with the verdict", explained(only, replace(only, movers=()))
    improved = fake.comparison_verdict(only.metric, only.statistic, "improved", (-0.3, -0.4, -0.2))
    run = fake.run(test=only.measurement.test, label=only.measurement.label)
    judgement = replace(fake.plain_judgement(), run=run, verdicts=(improved,))
    yield "of what improved it is listed, since no failure names it", replace(explained(only), judgements=(judgement,))


def test_movers_are_listed_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    shown = [(f"# {name}", *lines_of(report, 80)) for name, report in cases()]
    golden("text/movers_80.txt", "".join(f"{line}\n" for lines in shown for line in lines).encode())


def test_movers_stand_above_the_counts_and_not_where_little_is_asked_for() -> None:
    report = explained(explanation(tokenize=3.2, embed=4.8))
    drawn = {quiet: [text for text, _ in render_summary(report, width=80, quiet=quiet)] for quiet in (False, True)}
    assert lines_of(report, 80) == drawn[False][: len(lines_of(report, 80))]
    assert [] == [line for line in drawn[True] if "what moved" in line]
    assert "what moved" in str(render(report, width=80))


def test_hostile_names_keep_the_width_and_move_no_cursor() -> None:
    one = explanation(tokenize=3, embed=5)
    odd = tuple(replace(mover, name="\x1b[2J" + "x" * 300, where="\u202e" * 20) for mover in one.movers)
    test = Measurement(test="t.py::" + "\x07" * 200, label="")
    for width in (40, 80, 200):
        lines = lines_of(explained(replace(one, movers=odd, measurement=test)), width)
        assert all(line.isprintable() and len(line) <= width for line in lines)


CALLS = {"predict": 1, "predict>tokenize": 3}


@pytest.fixture(scope="module")
def profiled() -> Explanation:
    comparison = decide(gates.build([0.3], Random(1)))[SLOWER]
    return replace(
        explain_functions(SLOWER, comparison, repeats(CALLS), repeats({**CALLS, "predict>embed": 1.2})),
        baseline_stacks={"predict": (1e-3, 3e-3), "predict;tokenize (a b.py)": (1e-3, 1e-3)},
    )


def test_collapsed_stacks_have_the_nanoseconds_of_a_mean_call(profiled: Explanation) -> None:
    files = files_of(explained(profiled))
    name = f"explain/{safe_name(profiled)}"
    assert b"predict 2000000\npredict;tokenize (a b.py) 1000000\n" == files[f"{name}.baseline.collapsed"]
    assert 3 == files[f"{name}.candidate.collapsed"].count(b"\n")


def test_a_trace_shows_both_sides_with_what_is_called_within_its_caller(profiled: Explanation) -> None:
    trace = json.loads(files_of(explained(profiled))[f"explain/{safe_name(profiled)}.trace.json"])
    first, second, third, *others = trace["traceEvents"]
    assert ("M", "baseline, a mean call") == (first["ph"], first["args"]["name"])
    assert {"name": "predict", "ph": "X", "ts": 0.0, "dur": 3000.0, "pid": 1, "tid": 1} == second
    assert ("tokenize (a b.py)", 0.0, 1000.0) == (third["name"], third["ts"], third["dur"])
    assert ["candidate, a mean call"] == [one["args"]["name"] for one in others if one["ph"] == "M"]
    embed, tokenize = (next(one for one in others if one["name"].startswith(name)) for name in ("embed", "tokenize"))
    assert pytest.approx(embed["ts"] + embed["dur"], abs=0.01) == tokenize["ts"]


def test_any_id_gives_a_harmless_name_of_its_own(profiled: Explanation) -> None:
    def name_of(test: str, label: str = "a/b\\c") -> str:
        return safe_name(replace(profiled, measurement=Measurement(test=test, label=label)))

    long = "t.py::" + 300 * "a"
    for test in ("../../../etc/passwd", "t.py::test[../../x]", long, "t.py::\x1b[2J\u202e", "CON", ""):
        name = name_of(test)
        assert name.replace("-", "").replace("_", "").isalnum()
        assert name.isascii()
        assert len(name) < 100
    assert 3 == len({name_of(f"t.py::test[{one}]", "") for one in "é!?"})


def test_what_has_no_stacks_has_no_file(profiled: Explanation) -> None:
    comparison = decide(gates.build([0.3], Random(1)))[SLOWER]
    assert {} == files_of(explained(explain_nothing(SLOWER, comparison, "function", said("none"))))
    assert {} == files_of(explained(replace(profiled, baseline_stacks={"a": ()}, candidate_stacks={})))


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
    """Rows add up to the whole call; verbose lists every operator, and of a long name its end."""
    shown = table(profile(*map(operator, range(NODES))))
    assert ("operator", "calls", "share", "time", "node") == shown.rows[0]
    assert ("Gemm0", "1", "9.0 %", "90.0 µs", "node_0") == shown.rows[1]
    assert [("2 others", "2", "18.0 %", "180 µs", ""), ("framework", "", "10.0 %", "100 µs", "")] == [*shown.rows[-2:]]
    assert shown.setting.startswith("90 % of 1.00 ms a call; fake profile, n=20 calls")
    assert NODES + 2 == len(table(profile(*map(operator, range(NODES))), every=True).rows)
    name = "/".join(f"layer{n}" for n in range(20))
    assert table(profile(operator(0, name))).rows[1][-1] == f"…{name[-39:]}"
    assert () == operator_tables(report_of(None), every=True)


def test_what_is_withheld_says_why() -> None:
    withheld = replace(profile(), withheld=said("as it is"))
    assert ("withheld: as it is (fake profile)", ()) == (table(withheld).setting, table(withheld).rows)
    assert table(replace(withheld, source="")).setting == "withheld: as it is"


def test_the_scenario_is_named_once() -> None:
    run = fake.run(test="t.py::test[onnx_fp32]", scenario="onnx_fp32", label="a")
    assert ["operators of t.py::test[onnx_fp32] a", "operators of t.py::test onnx_fp32"] == [
        operator_tables(report_of(profile(), one), every=False)[0].title
        for one in (run, fake.run(test="t.py::test", scenario="onnx_fp32"))
    ]


def test_a_narrow_terminal_shows_names_below() -> None:
    """And text from outside cannot steer it."""
    report = report_of(profile(operator(0, "a\x1b[31mb"), operator(1, "x" * 40)))
    lines = {width: [text for text, _ in render(report, width=width)] for width in (50, 200)}
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


WORKS = {
    "what limits a call": work_shown(1e9, 1e6),
    "faster than numpy: no share above 100 %": work_shown(1e9, 1e6, 5e-3),
    "data from caches": work_shown(1e6, 1e8, 5e-3),
    "what is not counted makes a lower bound and no verdict": work_shown(0, 0, uncounted={"Loop": 1}, integer_ops=2e3),
    "no operation": work_shown(0, 0),
    "nothing counted but bytes": work_shown(0, 1e3, 1e-3, uncounted={"TreeEnsembleClassifier": 1}),
}


def test_the_work_of_a_call_is_told_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    lines = (line for name, (work, verdict) in WORKS.items() for line in (f"# {name}", work, verdict))
    golden("text/work.txt", "".join(f"{line}\n" for line in lines).encode())


def test_the_work_is_shown_where_shares_are_withheld() -> None:
    report = report_of(replace(profile(), withheld=said("as it is")))
    found = roofline_of(Work(flops=1e9, moved_bytes=1e6, nodes=1), 15e-3, PEAK, 1)
    run = replace(report.judgements[0].run, roofline=found)
    lines = render(replace(report, judgements=(replace(report.judgements[0], run=run),)), width=200)
    assert ["  compute-bound:"] == [text[:16] for text, _ in lines if "compute-bound" in text]
