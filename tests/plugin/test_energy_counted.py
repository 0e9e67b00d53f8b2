"""Energy through the whole plugin, on counters of 20 W that follow the real clock exactly: no writer can be late."""

import re
import time
from functools import partial
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters, meter_on_counters
from fakes.powercap import AMD_RANGE, Tree, bare_metal, plant
from fakes.streams import FakeMeter

from pytest_hwperf import registry
from pytest_hwperf.meters.access import Files
from pytest_hwperf.meters.counter_check import check_counters
from pytest_hwperf.meters.energy_window import idle_watts
from pytest_hwperf.meters.rapl import rapl_meter
from pytest_hwperf.plugin.judging.gate import _energy
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.run import Reading
from pytest_hwperf.stats.pairs.hypotheses import EnergySource

QUICK = ("-pfakes.simulated_time", "--hwperf-sample-time=0.2")

WATTS = 20.0
TICK_S = 0.001
WRAP_AFTER_UJ = 45_000_000


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Let `rapl` read a package of 20 W that starts again at 0 after 2.25 s."""
    tree = plant(tmp_path / "machine", {"intel-rapl:0": ("package-0", AMD_RANGE - WRAP_AFTER_UJ, AMD_RANGE)})
    begun = time.monotonic()
    real = Files()
    counters = set[int]()

    def opener(path: str, flags: int) -> int:
        descriptor = real.open(path, flags)
        (counters.add if path.endswith("/energy_uj") else counters.discard)(descriptor)
        return descriptor

    def reader(descriptor: int, count: int, offset: int) -> bytes:
        if descriptor not in counters:
            return real.pread(descriptor, count, offset)
        steps = int((time.monotonic() - begun) / TICK_S)
        uj = AMD_RANGE - WRAP_AFTER_UJ + round(steps * TICK_S * WATTS * 1e6)
        return b"%d\n" % (uj % (AMD_RANGE + 1))

    host = bare_metal(tmp_path / "machine", files=Files(open=opener, pread=reader), check=check_counters)
    find = registry.find

    def found(kind: registry.Group, name: str) -> Any:
        return partial(rapl_meter, access=host) if (kind, name) == ("energy_meters", "rapl") else find(kind, name)

    monkeypatch.setattr(registry, "find", found)
    return tree


@pytest.mark.live
@pytest.mark.usefixtures("counting")
def test_windows_of_a_users_block_keep_their_bound_and_a_budget_is_judged_by_five(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 windows of half a second, begun one after the other, with a start at 0 in the middle of some of them.

    A call of 10 ms or more at 20 W takes 200 mJ or more, all of which the idle machine would have taken too.
    """
    alone = partial(idle_watts, busy=lambda: None)  # whatever else this machine does meanwhile
    monkeypatch.setattr("pytest_hwperf.plugin.measuring.meters.idle_watts", alone)
    pytester.makepyfile(
        f"""
        import time
        from contextlib import ExitStack
        import pytest

        def test_windows(energy_meter):
            open_windows, readings = [], []
            for _ in range(100):
                stack = ExitStack()
                readings.append(stack.enter_context(energy_meter.window()))
                open_windows.append(stack)
                if len(open_windows) > 20:
                    open_windows.pop(0).close()
                time.sleep(0.03)
            time.sleep(0.6)
            for stack in open_windows:
                stack.close()
            assert all(reading.reason == "" for reading in readings)
            assert all(19.0 <= reading.watts <= 21.0 for reading in readings)
            assert {{"rapl:package-0"}} == {{reading.source for reading in readings}}
            assert all(0 < reading.bound <= 0.004 for reading in readings)
            kept = [
                abs(reading.joules / ({WATTS} * reading.window_s) - 1) <= reading.bound for reading in readings
            ]
            assert sum(kept) >= 95, kept

        @pytest.mark.hwbudget(energy_budget_mj=100)
        def test_broken(hwperf): hwperf(time.sleep, 0.01)
        """
    )
    result = pytester.runpytest_inprocess("--hwperf-energy=rapl", "-vv")
    shown = result.stdout.str()

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["energy *limit 100 mJ; 5 windows, rapl:package-0"])
    assert float(re.search(r"energy +(\d+(?:\.\d+)?) mJ", shown)[1]) >= 190  # type: ignore[index] # else it fails
    assert "energy_net" in shown
    assert "above the idle machine's 20.0 W" in shown


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed in /proc")
@pytest.mark.usefixtures("counting")
def test_a_counter_is_not_waited_for_where_nobody_asks_and_closed_at_the_end(pytester: pytest.Pytester) -> None:
    """Five windows of half a second for every test of a suite would be minutes."""
    pytester.makepyfile(
        """
        from fakes.simulated_time import spend
        def test_measured(hwperf):
            run = hwperf(spend, 1000)
            assert "name energy in a budget or a margin, or save" in str(run.unmeasured["energy"])
        def test_block(energy_meter):
            with energy_meter.window() as reading:
                pass
            assert reading.joules is None
            assert reading.reason.endswith("500 ms needed"), reading.reason
        """
    )
    before = sorted(Path("/proc/self/fd").iterdir())
    pytester.runpytest_inprocess(*QUICK, "--hwperf-energy=rapl").assert_outcomes(passed=2)
    assert before == sorted(Path("/proc/self/fd").iterdir())


class Boards(FakeMeter):
    """Stands for the boards that a process uses: 2 J in every window."""

    def __init__(self) -> None:
        super().__init__("gpu_energy", repeat(Reading(value=2.0)), source="nvml:0")


ASKS_FOR_ENERGY = """
    import pytest
    from fakes.simulated_time import spend
    {}
    def test_it(hwperf):
        run = hwperf(spend, 1000)
        reported = {{sample.metric: sample.source for sample in run.samples}}
        assert reported.get("gpu_energy") == {!r}, reported
        assert reported["energy"] == "estimate:cpu-time"
        assert {!r} in str(run.unmeasured.get("gpu_energy", ""))
        assert {!r} == ("carbon_operational" in run.unmeasured)
"""
BUDGET = "@pytest.mark.hwbudget(energy_budget_mj=1e9)"
CARBON = "-ohwperf_carbon=intensity_g_per_kwh=400\nintensity_source=grid 2024"


def test_boards_stand_beside_the_processor_where_they_are_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another source leaves them out, that is told: carbon of the processor alone would pass for the whole."""

    def refused(*_: object, **__: object) -> Boards:
        raise MeterUnavailable("GPU 0 counts no energy")

    monkeypatch.setenv("HWPERF_POWERCAP_ROOT", str(pytester.mkdir("empty")))
    for used, opened, marker, options, expected, reason in (
        (True, lambda *_, **__: Boards(), BUDGET, [], "nvml:0", ""),
        (False, lambda *_, **__: Boards(), BUDGET, [], None, ""),
        (True, refused, BUDGET, [], None, "counts no energy"),
        (True, refused, "", ["--hwperf-energy=estimate", CARBON], None, "counts no board; auto would"),
    ):
        monkeypatch.setattr("pytest_hwperf.meters.nvml.in_use", lambda _environ, used=used: used)
        monkeypatch.setattr("pytest_hwperf.meters.nvml.nvml_meter", opened)
        pytester.makepyfile(test_it=ASKS_FOR_ENERGY.format(marker, expected, reason, CARBON in options))
        pytester.runpytest_inprocess(*QUICK, *options).assert_outcomes(passed=1)


def test_an_absent_source_ends_sessions_that_would_read_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team that sets it for its CI can still run other tests on a laptop; under xdist nobody knows what will run."""
    monkeypatch.setenv("HWPERF_POWERCAP_ROOT", str(pytester.mkdir("empty")))
    pytester.makeini("[pytest]\nhwperf_energy = rapl\n")
    metered = pytester.makepyfile(test_metered="def test_it(energy_meter): pass")
    plain = pytester.makepyfile(test_plain="def test_it(): pass")
    ended = {
        (metered, ()): pytest.ExitCode.USAGE_ERROR,
        (metered, ("--hwperf-disable",)): pytest.ExitCode.OK,
        (metered, ("--collect-only",)): pytest.ExitCode.OK,
        (plain, ()): pytest.ExitCode.OK,
        (plain, ("-n1",)): pytest.ExitCode.USAGE_ERROR,
    }
    assert ended == {(file, more): pytester.runpytest_inprocess(file, *more).ret for file, more in ended}


def test_a_disabled_plugin_meters_no_block(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(energy_meter):
            with energy_meter.window() as reading: pass
            assert reading.joules is None
            assert reading.reason == "nothing is measured (--hwperf-disable)"
        """
    )
    pytester.runpytest_inprocess("--hwperf-disable").assert_outcomes(passed=1)


def test_pairs_are_asked_for_energy_that_is_counted_in_the_steps_of_its_counter(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step as a share of the shortest window."""
    clock = PassingClock()
    stepping = meter_on_counters(SteadyCounters(clock, [Load(watts=1.0)]), clock, kind="rapl", tick_s=0.03)
    for meter, asked in (
        (stepping, EnergySource(source="rapl:package-0", step=0.03 / 0.5)),
        (
            FakeMeter("energy", source="bench:supply", shortest_window_s=0.5),
            EnergySource(source="bench:supply", step=0.0),
        ),
        (FakeMeter("energy", covers="estimate"), None),
        (None, None),
    ):
        monkeypatch.setattr(
            "pytest_hwperf.plugin.judging.gate.session_of", lambda _, meter=meter: SimpleNamespace(energy=meter)
        )
        assert asked == _energy(pytester.parseconfig())
