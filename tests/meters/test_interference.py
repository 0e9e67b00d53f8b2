"""What is noted of a measurement's surroundings, and what is warned of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_hwperf.meters.interference import Interference, Snapshot, snapshot

QUIET = Snapshot(switches=10, steal=100, total=10_000, load=0.5, wall_s=50.0)
_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """A second snapshot, `_SECONDS` after the quiet one."""

    switches: int = 14
    steal: int | None = 100
    total: int | None = 10_400
    load: float | None = 0.5
    seconds: float = _SECONDS

    def reader(self) -> Callable[[], Snapshot]:
        after = Snapshot(
            switches=self.switches,
            steal=self.steal,
            total=self.total,
            load=self.load,
            wall_s=QUIET.wall_s + self.seconds,
        )
        return iter([QUIET, after]).__next__


def watch(case: Case) -> tuple[dict[str, str], tuple[str, ...]]:
    return Interference(case.reader(), cores=2).end()


def test_a_quiet_machine_is_noted_without_a_warning() -> None:
    """4 switches; none of 400 ticks stolen."""
    assert ({"involuntary_switches": "4", "load_1min": "0.50", "steal": "0.0%"}, ()) == watch(Case())


def test_a_host_that_took_time_is_warned_of() -> None:
    """20 of 400 ticks are 5 %."""
    context, warnings = watch(Case(steal=120))

    assert "5.0%" == context["steal"]
    assert ("the host took 5% of the CPU time for others (steal)",) == warnings


def test_preemption_is_warned_of() -> None:
    """400 switches in 2 s."""
    assert ("preempted 200 times a second: other work wanted the same cores",) == watch(Case(switches=410))[1]


def test_load_is_warned_of_by_the_cores_there_are() -> None:
    """1.5 running processes per core are the limit: 3 on these 2."""
    assert () == watch(Case(load=3.0))[1]
    assert ("load 3.1 on 2 cores: other work disturbed the timings",) == watch(Case(load=3.1))[1]


@pytest.mark.parametrize("case", [Case(steal=None), Case(total=None)])
def test_a_system_that_tells_no_steal_has_no_entry(case: Case) -> None:
    """Unknown is not 0 %."""
    assert ({"involuntary_switches": "4", "load_1min": "0.50"}, ()) == watch(case)


def test_a_system_that_tells_no_load_has_no_entry() -> None:
    assert "load_1min" not in watch(Case(load=None))[0]


def test_a_measurement_of_no_length_divides_by_nothing() -> None:
    """No tick and no second has passed."""
    context, warnings = watch(Case(total=10_000, seconds=0.0))

    assert ("0.0%", ()) == (context["steal"], warnings)


def test_ticks_are_read_by_their_place(tmp_path: Path) -> None:
    """User, nice, system, idle, iowait, irq, softirq, steal make 36; guest ticks are within user's."""
    (tmp_path / "stat").write_text("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    read = snapshot(tmp_path / "stat")

    assert (8, 36) == (read.steal, read.total)


@pytest.mark.parametrize("text", [None, "cpu  1 2 3 4\n", ""])
def test_a_stat_that_is_absent_or_old_tells_no_ticks(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    read = snapshot(tmp_path / "stat")

    assert (None, None) == (read.steal, read.total)


def test_this_machine_can_be_watched() -> None:
    context, _ = Interference().end()

    assert int(context["involuntary_switches"]) >= 0
