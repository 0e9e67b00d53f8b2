"""`hwperf calibrate`: on a simulated machine, and what it says where nothing can be measured."""

import os
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fakes.hosts import settle_in
from fakes.idling import Idling

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.calibrate import OK, WORK, CalibrationTools, keep_busy, processors_of_machine, run
from pytest_hwperf.core.errors import MeterUnavailable, UsageProblem
from pytest_hwperf.meters.energy.calibration import Processors, read_calibration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MODEL = "AMD EPYC 7B12 (family 23 model 49)"


@pytest.fixture
def machine() -> Idling:
    """A machine of four processors, two of them allotted, on a clock of its own."""
    simulated = Idling()
    simulated.source = "perf:pkg+ram"
    return simulated


def tools(machine: Idling) -> CalibrationTools:
    """RAPL hides, and perf answers."""
    found: Mapping[str, Callable[[Any], Any]] = {"rapl": refusing, "perf": lambda _environ: machine}
    return CalibrationTools(
        find=found.__getitem__,
        processors=lambda: Processors(model=MODEL, online=4, allotted=2),
        work=lambda _count: machine.work(),
        clock=machine.clock,
        sleep=machine.sleep,
    )


def refusing(_environ: Any) -> Any:
    raise MeterUnavailable("no zones\nsudo modprobe intel_rapl_msr")


def asked(path: Path, energy: str | None = None) -> Namespace:
    return Namespace(file=str(path), energy=energy)


def test_the_first_counter_that_answers_calibrates(
    tmp_path: Path, machine: Idling, capsys: pytest.CaptureFixture[str]
) -> None:
    """10 W idle on four processors, 4 W more for each of the two at work."""
    path = tmp_path / "watts.json"

    assert OK == run(asked(path), tools(machine))
    assert [
        "AMD EPYC 7B12 (family 23 model 49): 2.5 W idle, 6.5 W busy per vCPU",
        "measured by perf:pkg+ram, 2 s each idle, with 2 CPUs busy, and idle again",
        f"wrote {path}; on machines with this processor: pytest --hwperf-watts={path}",
    ] == capsys.readouterr().out.splitlines()
    assert (2.5, 6.5) == ((found := read_calibration(path, MODEL)).idle_w, found.busy_w)
    assert machine.closed


def test_where_nothing_can_be_read_the_remedy_is_reported(tmp_path: Path, machine: Idling) -> None:
    """Of the counter that was asked for, in full."""
    path = tmp_path / "watts.json"

    with pytest.raises(UsageProblem, match=r"\nrapl: no zones\nsudo modprobe intel_rapl_msr$"):
        run(asked(path, "rapl"), tools(machine))

    assert not path.exists()


def test_what_cannot_be_trusted_is_not_written(tmp_path: Path, machine: Idling) -> None:
    machine.refusal = "pkg answers EIO"
    path = tmp_path / "watts.json"

    with pytest.raises(UsageProblem, match=r"not calibrated: perf:pkg\+ram gave no value: pkg answers EIO"):
        run(asked(path), tools(machine))

    assert not path.exists()
    assert machine.closed


@pytest.mark.parametrize("name", [".", "absent/watts.json"])
def test_a_place_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert USAGE == main(["calibrate", str(tmp_path / name)])
    assert "give a file in a folder that exists, such as watts.json" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_reported_before_the_time_is_spent(tmp_path: Path, machine: Idling) -> None:
    """Here by a name that has no room for its draft's."""
    with pytest.raises(UsageProblem, match=r"cannot be written \(File name too long\): give another place"):
        run(asked(tmp_path / ("x" * 255)), tools(machine))

    assert [] == machine.began


def test_a_place_that_turns_out_not_to_be_written_is_reported(tmp_path: Path, machine: Idling) -> None:
    """Its folder becomes a file while the machine is measured."""
    folder = tmp_path / "away"
    folder.mkdir()

    def counted() -> Processors:
        folder.rmdir()
        folder.touch()
        return Processors(model=MODEL, online=4, allotted=2)

    with pytest.raises(UsageProblem, match=r"cannot be written \(File exists\): give another place"):
        run(asked(folder / "watts.json"), replace(tools(machine), processors=counted))

    assert machine.closed


def test_a_machine_without_zones_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole command, on this machine with a powercap root that holds nothing."""
    monkeypatch.setenv("HWPERF_POWERCAP_ROOT", str(tmp_path))

    assert USAGE == main(["calibrate", str(tmp_path / "watts.json"), "--energy=rapl"])
    assert "watts can only be calibrated where a counter of energy can be read.\nrapl: " in capsys.readouterr().err


def test_a_processor_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="does not name its processor"):
        processors_of_machine(tmp_path)


def test_the_processors_of_this_machine_are_counted(tmp_path: Path) -> None:
    cpuinfo = "model name\t: AMD EPYC 7B12\ncpu family\t: 23\nmodel\t\t: 49\n"
    found = processors_of_machine(settle_in(tmp_path, {"proc/cpuinfo": cpuinfo}))

    assert MODEL == found.model
    assert 1 <= found.allotted <= found.online


@pytest.mark.live
def test_work_takes_cpu_time_and_ends() -> None:
    """Two processes compute until the block ends; then none of them is left."""
    import psutil

    with keep_busy(2) as cpu_seconds:
        workers = psutil.Process().children()
        while cpu_seconds() == 0:
            pass

    assert 2 <= len(workers)
    assert not any(worker.is_running() for worker in workers)


@pytest.mark.live
def test_ctrl_c_reaches_no_worker() -> None:
    """It goes to all processes of a session's foreground group: theirs is another."""
    import psutil

    others = set(psutil.Process().children())
    with keep_busy(2):
        sessions = [os.getsid(worker.pid) for worker in set(psutil.Process().children()) - others]

    assert 2 == len(set(sessions))
    assert os.getsid(0) not in sessions


@pytest.mark.live
def test_a_worker_computes_until_nobody_is_left_to_end_it() -> None:
    """However long a window is; its input ends with the process that holds the other end."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", WORK], stdin=subprocess.PIPE) as worker:
        assert worker.poll() is None
        worker.communicate(timeout=30)

    assert 0 == worker.returncode


def test_work_that_is_given_no_time_limit_has_none() -> None:
    """A counter of coarse steps makes windows of minutes: cores that went idle there would be called others' work."""
    assert "time" not in WORK
    assert "while True" in WORK
