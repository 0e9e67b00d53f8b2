"""A sweep as a picture."""

import pytest
from fakes import records as fake

from pytest_hwperf.host import extras
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.reports import plots
from pytest_hwperf.stats.sweeps import row_of, sweep_of

LIMIT = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.010)


def row(values: dict[str, int | float | str], seconds: float) -> SweepRow:
    found = fake.estimate(seconds, seconds * 0.9, None, 400)
    figures = [fake.figure("latency", statistic, found) for statistic in ("p50", "p95")]
    rate = fake.figure("throughput", "mean", fake.estimate(1 / seconds, None, 1.1 / seconds, 9))
    return row_of(SweepPoint(sweep="t", values=values, limits=(LIMIT,)), [*figures, rate])


@pytest.mark.runtime
@pytest.mark.parametrize(
    "sweep",
    [
        sweep_of("t.py::t[$x]", [row({"threads": n, "batch_size": b}, b / 1000) for n in (1, 2) for b in (1, 8)]),
        sweep_of("t", [row({"kind": "a"}, 0.1), row({"kind": "b"}, 0.2)]),
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
