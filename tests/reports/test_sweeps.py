"""A sweep as text, with a row for each point and the best for each goal, and as a picture."""

import pytest
from fakes import records as fake

from pytest_hwperf.host import extras
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.run import Figure
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.reports import plots
from pytest_hwperf.reports.document import as_text
from pytest_hwperf.reports.sweeps import document_of, notes_of
from pytest_hwperf.stats.choice.sweeps import row_of, sweep_of

LIMIT = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.010)


def figure(metric: str, statistic: str, value: float, per: str = "call") -> Figure:
    return fake.figure(metric, statistic, fake.estimate(value, value * 0.99, value * 1.01, 400), per=per)


def lines_of(sweep: Sweep, width: int) -> list[str]:
    return as_text(document_of(sweep), width)


def row(batch: int, p95: float, *, rate: float | None = None, scenario: str = "") -> SweepRow:
    point = SweepPoint(sweep="t", values={"batch_size": batch}, limits=(LIMIT,), rate=rate, scenario=scenario)
    throughput = figure("sample_throughput", "mean", 1000.0 * batch, "window")
    return row_of(point, [figure("latency", "p50", p95 / 2), figure("latency", "p95", p95), throughput])


def test_each_point_has_a_row_and_each_goal_a_best_point() -> None:
    skipped = SweepPoint(sweep="t", values={"batch_size": 64}, limits=(LIMIT,), skipped=state("said", text="too slow"))
    rows = [row(1, 0.001), row(8, 0.004), row(32, 0.02), row_of(skipped, ())]
    assert [
        "sweep of t.py::t",
        "  batch_size      p50      p95   samples          n  limits",
        "           1   500 µs  1.00 ms  1.00 k/s  400 calls  passed",
        "           8  2.00 ms  4.00 ms  8.00 k/s  400 calls  passed",
        "          32  10.0 ms  20.0 ms  32.0 k/s  400 calls  failed",
        "          64  skipped: too slow",
        "  limits: latency p95 <= 10 ms",
        "  sources: perf_counter",
        "  lowest latency: batch_size 1: latency p50 500 µs (495 .. 505), n=400 calls",
        "  highest throughput: batch_size 8: sample_throughput mean 8.00 k/s (7.92 .. 8.08), n=400 windows",
    ] == lines_of(sweep_of("t.py::t", rows), 120)


def test_ties_scenarios_and_the_fill_delay_are_said() -> None:
    lines = lines_of(sweep_of("t", [row(8, 0.004, rate=7000.0, scenario=name) for name in ("onnx", "sklearn")]), 120)
    assert "  scenario  batch_size      p50      p95   samples  fill delay          n  limits" == lines[1]
    assert "  limits: latency p95 <= 10 ms; of latencies, with the fill delay" in lines
    assert "it cannot be told apart from sklearn, batch_size 8" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [60, 80, 100])
def test_what_has_no_room_stands_in_a_further_table(width: int) -> None:
    """Each table begins with the names of its points; no line is longer than the terminal, and nothing is cut."""
    why = state("said", text="a smaller batch has missed the limit on latency p95 already")
    skipped = SweepPoint(sweep="t", values={"batch_size": 64}, limits=(LIMIT,), skipped=why)
    rows = [row(8, 0.004, rate=7000.0, scenario=name) for name in ("onnx_int8_dynamic", "sklearn_fp32")]
    sweep = sweep_of("t", [*rows, row_of(skipped, ())], state("collection order"))
    lines = as_text([*document_of(sweep), *notes_of([sweep])], width)
    assert [] == [line for line in lines if len(line) > width]
    heads = [line.split() for line in lines if line.split()[:2] == ["scenario", "batch_size"]]
    assert ["p50", "p95", "samples", "fill", "delay", "n", "limits"] == [word for head in heads for word in head[2:]]
    assert " ".join(str(why).split()) in " ".join(" ".join(lines).split())
    assert 1 == " ".join(lines).count("skipped")


def test_nothing_within_the_limits_is_said() -> None:
    lines = lines_of(sweep_of("t", [row(1, 0.02), row(8, 0.02), row(32, 0.01)]), 80)
    assert "  no point is known to keep the limits: 2 failed, 1 inconclusive" == lines[-1]


@pytest.mark.parametrize("rows", [[], [row_of(SweepPoint(sweep="t", values={"n": 1}), ())]], ids=["none", "unmeasured"])
def test_a_sweep_without_figures_can_be_drawn(rows: list[SweepRow]) -> None:
    assert not any("best" in line or "no point" in line for line in lines_of(sweep_of("t", rows), 80))


def test_a_note_of_several_sweeps_is_said_once() -> None:
    note = state("collection order")
    assert 1 == len(notes_of([sweep_of("a", [], note), sweep_of("b", [], note)]))


def test_a_time_below_a_step_of_the_clock_is_no_zero() -> None:
    drawn = "\n".join(lines_of(sweep_of("t", [row(1, 0.0)]), 120))
    assert 3 == drawn.count("< clock step")
    assert "0 s" not in drawn


def test_foreign_text_is_made_visible() -> None:
    assert "\x1b" not in lines_of(sweep_of("a\x1b[31m", []), 80)[0]


def test_a_parameter_may_be_named_like_a_column() -> None:
    points = [SweepPoint(sweep="t", values={"n": rows, "p95": "x"}) for rows in (500, 1000)]
    latency = figure("latency", "p95", 0.002)
    lines = lines_of(sweep_of("t", [row_of(point, [latency]) for point in points]), 120)
    assert ["n", "p95", "p95", "n"] == lines[1].split()[:4]
    assert ["500", "x", "2.00", "ms"] == lines[2].split()[:4]


def drawn(values: dict[str, int | float | str], seconds: float) -> SweepRow:
    found = fake.estimate(seconds, seconds * 0.9, None, 400)
    figures = [fake.figure("latency", statistic, found) for statistic in ("p50", "p95")]
    rate = fake.figure("throughput", "mean", fake.estimate(1 / seconds, None, 1.1 / seconds, 9))
    return row_of(SweepPoint(sweep="t", values=values, limits=(LIMIT,)), [*figures, rate])


@pytest.mark.runtime
@pytest.mark.parametrize(
    "sweep",
    [
        sweep_of("t.py::t[$x]", [drawn({"threads": n, "batch_size": b}, b / 1000) for n in (1, 2) for b in (1, 8)]),
        sweep_of("t", [drawn({"kind": "a"}, 0.1), drawn({"kind": "b"}, 0.2)]),
        sweep_of("t", []),
    ],
    ids=["numbers", "texts", "nothing"],
)
def test_a_sweep_is_drawn(sweep: Sweep) -> None:
    pytest.importorskip("matplotlib", reason="pictures need pytest-hwperf[plot]")
    assert plots.render_sweep(sweep).startswith(b"\x89PNG")


@pytest.mark.runtime
def test_ticks_are_written_with_units() -> None:
    pytest.importorskip("matplotlib", reason="pictures need pytest-hwperf[plot]")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    plots._scale(axes, "s")
    axes.set_ylim(1.5e-6, 2.5e-4)
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert {"2 µs", "50 µs", "100 µs"} <= set(shown)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(UsageProblem, match=r"pip install 'pytest-hwperf\[plot\]'"):
        plots.render_sweep(sweep_of("t", []))
