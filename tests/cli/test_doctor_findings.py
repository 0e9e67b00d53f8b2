"""What the doctor found, in text: whose energy it is, what a bad setting hides, and what no terminal obeys."""

import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.hosts import settle_in
from fakes.patients import measurable_memory, patient
from fakes.powercap import bare_metal, plant

from pytest_hwperf.cli.doctor import Probes, run
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.records.contracts import Covered, Meter
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.run import Reading


def options(*require: str) -> Namespace:
    return Namespace(json=False, require=list(require), seconds=0.0)


@pytest.fixture
def cloud(tmp_path: Path) -> Probes:
    """A virtual machine without counters."""
    measurable_memory(tmp_path)
    return patient(bare_metal(tmp_path, flags="fpu hypervisor"))


class Boards:
    """A meter of boards that was asked for by name, so that what it counts is called energy."""

    metric = "energy"
    shortest_window_s = 2.0
    warnings: tuple[str, ...] = ()

    def __init__(self, source: str, covers: Covered = "boards") -> None:
        self.source = source
        self.covers = covers

    def start(self) -> object:
        return None

    def end(self, started: object) -> Reading:
        return Reading(value=None, reason=f"nothing since {started}")

    def close(self) -> None:
        """Hold nothing open."""


@pytest.mark.parametrize(
    ("name", "label", "code"),
    [("nvml", "nvml:0+2", FAILED), ("nvml", "nvml-power:0", FAILED), ("psys", "rapl:psys", OK)],
)
def test_boards_alone_are_not_the_energy_of_the_processors(cloud: Probes, name: str, label: str, code: int) -> None:
    """Though they can be measured; the counter of the whole platform holds the processors."""

    def open_one(asked: str) -> Meter:
        return Boards(label, "boards" if name == "nvml" else "processors") if asked == name else cloud.open_one(asked)

    place = replace(cloud, open_one=open_one)
    assert OK == run(options(name), place)
    assert code == run(options("energy"), place)


def test_bad_watts_are_reported_where_the_estimate_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They say nothing of all the rest."""
    measurable_memory(tmp_path)
    place = patient(bare_metal(tmp_path, flags="fpu hypervisor"), environ={"HWPERF_WATTS": "junk"})
    assert FAILED == run(options("memory", "estimate"), place)
    said = capsys.readouterr()
    out = " ".join(said.out.split())
    assert "estimate no -o hwperf_watts=junk (or HWPERF_WATTS): give IDLE..BUSY in W per vCPU" in out
    assert "memory yes peaks by VmHWM" in out
    assert "required and missing here: estimate\n" in said.err


def test_what_was_read_commands_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of zones, clocks, governors and sources, and warnings: shown as escapes, on lines of their own row."""
    evil = "a\x1b[31mRED\n[9] forged"
    settle_in(tmp_path)
    plant(tmp_path, {"intel-rapl:0": (evil, 5, 1000)})
    for path in ("cpu/cpu0/cpufreq/scaling_governor", "clocksource/clocksource0/current_clocksource"):
        file = tmp_path / "sys/devices/system" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(evil)
    boards = Boards(evil)
    boards.warnings = (evil,)

    def open_one(name: str) -> Meter:
        if name == "nvml":
            return boards
        raise MeterUnavailable(f"\x1b]0;title\x07 of {name}\nsudo \x1b[2J")

    run(options(), replace(patient(bare_metal(tmp_path)), open_one=open_one))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert not re.search(r"^\s*\[9\]", out, re.MULTILINE)
    assert 5 == " ".join(out.split()).count(r"a\x1b[31mRED\n[9] forged")
    assert "  rapl      no   \\x1b]0;title\\x07 of rapl\n                 sudo \\x1b[2J\n" in out
