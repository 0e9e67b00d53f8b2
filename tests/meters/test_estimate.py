"""The estimate from CPU time: its coefficients, its label and its warnings."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes.hosts import settle_in
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.meters.estimate import EstimateMeter, Watts, estimate_meter, given_watts, watts_here, watts_of
from pytest_hwperf.meters.process import CpuTimeMeter
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Reading

if TYPE_CHECKING:
    from pytest_hwperf.records.contracts import Meter

SKYLAKE = Watts(processor="Skylake", idle_w=0.645, busy_w=4.19)


class Work:
    """CPU seconds that a test spends."""

    def __init__(self) -> None:
        self.cpu_s = 7.0

    def __call__(self) -> float:
        return self.cpu_s


def processor(name: str, family: str, model: str, stepping: str = "1") -> Mapping[str, str]:
    return {"model name": name, "cpu family": family, "model": model, "stepping": stepping}


def test_joules_are_cpu_seconds_times_what_work_adds() -> None:
    """2 CPU seconds on Skylake: 2 x (4.19 - 0.645) W = 7.09 J."""
    work = Work()
    meter = EstimateMeter(CpuTimeMeter(work, children=float), SKYLAKE)
    started = meter.start()
    work.cpu_s += 2.0
    assert 7.09 == pytest.approx(meter.end(started).value)


@given(spent=st.lists(st.floats(min_value=0, max_value=1e3), min_size=1, max_size=5))
def test_windows_add_up(spent: list[float]) -> None:
    """Windows one after another hold together what one window around them all holds; no work is no energy."""
    work = Work()
    meter = EstimateMeter(CpuTimeMeter(work, children=float), SKYLAKE)
    around, parts = meter.start(), list[float]()
    for cpu_s in spent:
        started = meter.start()
        work.cpu_s += cpu_s
        parts.append(meter.end(started).value or 0.0)
    assert meter.end(around).value == pytest.approx(sum(parts), abs=1e-9)
    assert Reading(value=0.0) == meter.end(meter.start())


class Silent:
    """A CPU time that cannot be read, and which notes that it was closed."""

    metric = "cpu_time"
    covers: Covered = "process"
    source = "nowhere"
    shortest_window_s = 0.0
    warnings: tuple[str, ...] = ()
    closed = False

    def start(self) -> None:
        return None

    def end(self, started: None) -> Reading:
        return Reading(value=started, reason="no CPU time today")

    def close(self) -> None:
        self.closed = True


def test_without_cpu_time_there_is_no_estimate() -> None:
    """Unmeasured, with the reason, never 0 J; closing closes the CPU time."""
    silent = Silent()
    meter = EstimateMeter(silent, SKYLAKE)
    assert Reading(value=None, reason="no CPU time today") == meter.end(meter.start())
    meter.close()
    assert silent.closed


def test_it_says_that_it_is_no_measurement_and_by_which_watts() -> None:
    """Label, error, coefficients and what was refused travel with every figure; a remedy's later lines do not."""
    refused = ("rapl: Only root can read it.\n  sudo do this", "perf: not permitted")
    meter: Meter = EstimateMeter(CpuTimeMeter(), SKYLAKE, refused=refused)
    kind, better = meter.warnings
    assert ("energy", "estimate:cpu-time", 0.0) == (meter.metric, meter.source, meter.shortest_window_s)
    assert kind.startswith("estimate: not a measurement, but 3.545 J per CPU second, from 0.645 W idle to 4.19 W busy ")
    assert "(Skylake;" in kind
    assert "; such estimators err up to 40 %" in kind
    assert "better sources refused: rapl: Only root can read it; perf: not permitted" == better


SERVERS = [
    (processor("AMD EPYC 7571", "23", "1"), 0.82, 2.55),
    (processor("AMD EPYC 7B12", "23", "49"), 0.474, 1.693),
    (processor("AMD EPYC 7R13 Processor", "25", "1"), 0.445, 2.019),
    (processor("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "6", "45", "7"), 2.17, 8.58),
    (processor("Intel(R) Xeon(R) CPU E5-2680 v2 @ 2.80GHz", "6", "62", "4"), 3.04, 8.25),
    (processor("Intel(R) Xeon(R) CPU E5-2666 v3 @ 2.90GHz", "6", "63", "2"), 1.90, 6.01),
    (processor("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "6", "79"), 0.713, 3.69),
    (processor("Intel(R) Xeon(R) D-1541 CPU @ 2.10GHz", "6", "86", "3"), 0.713, 3.69),
    (processor("Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz", "6", "85", "4"), 0.645, 4.19),
    (processor("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "6", "85", "7"), 0.639, 3.97),
    (processor("Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz", "6", "85", "5"), 0.639, 3.97),
    (processor("Intel(R) Xeon(R) E-2278G CPU @ 3.40GHz", "6", "158", "13"), 1.14, 5.42),
]
OTHERS: dict[str, Mapping[str, str]] = {
    "nothing known": {},
    "a generation without figures": processor("AMD EPYC", "25", "17"),
    "a desktop of a known family": processor("AMD Ryzen 7 1700", "23", "1"),
    "a desktop": processor("Intel(R) Core(TM) i7-6700 CPU @ 3.40GHz", "6", "94", "3"),
    "Cooper Lake": processor("Intel(R) Xeon(R) Platinum 8380H", "6", "85", "11"),
    "Kaby Lake": processor("Intel(R) Xeon(R) CPU E3-1230 v6", "6", "158", "9"),
    "a desktop, by stepping": processor("Intel(R) Core(TM) i7-8700", "6", "158", "10"),
    "no stepping": processor("Intel(R) Xeon(R)", "6", "85", "unknown"),
}


def test_known_servers_have_their_own_watts() -> None:
    """Family, model and, where it tells generations apart, stepping as these processors report them."""
    assert SERVERS == [(one, watts_of(one).idle_w, watts_of(one).busy_w) for one, _, _ in SERVERS]


def test_any_other_processor_has_the_generic_watts() -> None:
    """No neighbour in the table is taken for it, and the warning says so."""
    generic = Watts(processor="no known microarchitecture", idle_w=0.74, busy_w=3.5)
    assert [] == [name for name, described in OTHERS.items() if watts_of(described) != generic]


def test_the_processor_is_read_from_cpuinfo(tmp_path: Path) -> None:
    """The first processor speaks for all."""
    first = "processor\t: 0\ncpu family\t: 23\nmodel\t\t: 49\nmodel name\t: AMD EPYC 7B12\nstepping\t: 0\n\n"
    second = "processor\t: 1\ncpu family\t: 23\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7571\n\n"
    settle_in(tmp_path, {"proc/cpuinfo": first + second})
    assert "(EPYC 2nd generation;" in estimate_meter({}, root=tmp_path).warnings[0]


def test_another_system_has_the_generic_watts(tmp_path: Path) -> None:
    """It has no cpuinfo; the estimate works all the same."""
    meter = estimate_meter({}, refused=("rapl: not here",), root=tmp_path)
    assert "(no known microarchitecture;" in meter.warnings[0]
    assert "better source refused: rapl: not here" == meter.warnings[1]


def test_the_users_own_watts_replace_the_table() -> None:
    expected = Watts(processor="as given", idle_w=0.5, busy_w=2.1, origin="hwperf_watts")
    assert [expected] * 3 == [given_watts(text) for text in ("0.5..2.1", " 0.5 .. 2.1 ", "+0.50..2.10")]


def test_watts_that_cannot_be_are_refused() -> None:
    no_watts = ("0,5..2,1", "0.5-2.1", "2.1", "nan..1", "0...1", "watts.json")
    for text in (*no_watts, "2.1..0.5", "1..1", "-1..2", "0..-1", f"0..{'9' * 400}"):
        with pytest.raises(UsageProblem) as caught:
            given_watts(text)
        told = f"-o hwperf_watts={text} (or HWPERF_WATTS): give IDLE..BUSY in W per vCPU, such as 0.5..2.1"
        assert told in str(caught.value)


def test_without_watts_of_the_users_own_the_table_speaks(tmp_path: Path) -> None:
    assert watts_of({}) == watts_here({}, root=tmp_path) == watts_here({"HWPERF_WATTS": ""}, root=tmp_path)


def test_real_work_costs_something() -> None:
    """On the CPU time of this very process: work until the kernel has counted some."""
    meter = estimate_meter({})
    started = meter.start()
    while not (joules := meter.end(started).value):
        sum(range(10_000))
    assert 0 < joules
