"""When sampling stops, through the plugin: on a clock that moves only with the calls."""

import json
from functools import partial

import pytest
from fakes.streams import FakeClock, TimedCall

from pytest_hwperf.measure.sampling import Sampler

MS = 1_000_000  # ns


class Provided:
    """Gives the inner run a call that takes a scripted time of a fake clock."""

    def __init__(self, call: TimedCall) -> None:
        self._call = call

    @pytest.fixture
    def work(self) -> TimedCall:
        """Take the scripted time."""
        return self._call


@pytest.mark.parametrize(("limit_ms", "calls"), [(5, 300), (1, 2000)], ids=["clear of the limit", "on the limit"])
def test_sampling_goes_on_until_every_budget_is_clear(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, limit_ms: int, calls: int
) -> None:
    """Calls take 0.5 and 1.5 ms in turn: however many there are, the interval of their median is 0.5 .. 1.5 ms.

    0.3 s of calls are the least that is sampled, and 2 s the most.
    """
    clock = FakeClock()
    call = TimedCall(clock, *[MS // 2, 3 * MS // 2] * 3000)
    monkeypatch.setattr("pytest_hwperf.plugin.measuring.run.Sampler", partial(Sampler, clock_ns=clock))
    pytester.makepyfile(
        f"""
        import pytest
        @pytest.mark.hwbudget(latency_p50_ms={limit_ms})
        def test_it(hwperf, work): hwperf(work)
        """
    )
    pytester.inline_run("--hwperf-energy=off", "--hwperf-report=report.json", plugins=[Provided(call)])
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    (latency,) = [one for one in report["judgements"][0]["run"]["samples"] if one["metric"] == "latency"]
    assert calls == latency["values"]["n"]
