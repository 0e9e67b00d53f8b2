"""Watts measured by a counter: the arithmetic on a simulated machine, what is refused, and the file."""

import json
from pathlib import Path

import pytest
from fakes.idling import Idling
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.core.errors import MeasurementError, UsageProblem
from pytest_hwperf.core.records import replace
from pytest_hwperf.meters.energy.calibration import (
    Calibration,
    Processors,
    calibrate_watts,
    read_calibration,
    write_calibration,
)

MODEL = "Intel(R) Xeon(R) Gold 6230 (family 6 model 85)"
AT = "2026-03-02T09:30:00+00:00"
FOUND = Calibration(
    cpu_model=MODEL, idle_w=2.5, busy_w=6.5, source="rapl:package-0+dram", cpus=2.0, window_s=2.0, measured_at=AT
)


def calibrated(machine: Idling, *, online: int = 4, allotted: int = 2) -> Calibration:
    return calibrate_watts(
        machine,
        Processors(model=MODEL, online=online, allotted=allotted),
        work=machine.work,
        clock=machine.clock,
        sleep=machine.sleep,
        now=lambda: AT,
    )


def test_what_work_adds_is_shared_among_the_processors_at_work() -> None:
    """10 W idle on 4 processors, 18 W with 2 of them busy: 2.5 W idle, and 4 W more for each that works."""
    assert calibrated(Idling(idle_w=10, each_w=4, busy=2)) == FOUND


@given(st.floats(1, 500), st.floats(0.1, 50), st.integers(1, 64), st.floats(0.91, 1))
def test_any_machines_watts_are_found(idle_w: float, each_w: float, cores: int, part: float) -> None:
    """However many cores it has, and though they were not kept busy all of the time."""
    found = calibrated(Idling(idle_w=idle_w, each_w=each_w, busy=cores * part), online=64, allotted=cores)

    assert idle_w / 64 == pytest.approx(found.idle_w, rel=1e-6)
    assert each_w == pytest.approx(found.busy_w - found.idle_w, rel=1e-6)
    assert cores * part == pytest.approx(found.cpus)


def test_windows_are_long_enough_for_the_counter() -> None:
    """2 s, or a quarter more than the counter's shortest; each begins half a second after what was before."""
    usual, slow = Idling(), Idling()
    slow.shortest_window_s = 4.0

    assert (2.0, 5.0) == (calibrated(usual).window_s, calibrated(slow).window_s)
    assert [1000.5, 1003.0, 1005.5] == usual.began


def test_an_estimate_cannot_be_calibrated_by_an_estimate() -> None:
    machine = Idling()
    machine.source, machine.covers = "estimate:cpu-time", "estimate"

    with pytest.raises(MeasurementError, match="estimate:cpu-time is no measurement"):
        calibrated(machine)


def test_what_no_processor_draws_is_not_calibrated() -> None:
    """The file would be refused: a counter with a wrong unit."""
    with pytest.raises(MeasurementError, match=r"the result has 2\.5 W idle and 3002\.5 W busy"):
        calibrated(Idling(each_w=3000.0))


def test_a_window_that_gave_nothing_ends_it() -> None:
    machine = Idling()
    machine.refusal = "package-0 answers EIO"

    with pytest.raises(MeasurementError, match=r"rapl:package-0\+dram gave no value: package-0 answers EIO"):
        calibrated(machine)


def test_cores_that_others_used_too_are_refused() -> None:
    with pytest.raises(MeasurementError, match=r"only 1\.70 of 2 cores could be kept busy: other work, or a quota"):
        calibrated(Idling(busy=1.7))


def test_a_machine_that_was_not_quiet_is_refused() -> None:
    """10 W before and 10.5 W after are 6 % of the 8 W that work added."""
    machine = Idling()
    machine.afterwards_w = 10.5

    with pytest.raises(MeasurementError, match=r"work added 7\.75 W, and the idle machine changed by 0\.500 W"):
        calibrated(machine)


def test_work_that_adds_nothing_is_refused() -> None:
    """A counter that shows no work is not of this processor."""
    with pytest.raises(MeasurementError, match="work added 0 W"):
        calibrated(Idling(each_w=0.0))


def test_a_calibration_reads_back(tmp_path: Path) -> None:
    """And the file is all that is left."""
    write_calibration(tmp_path / "watts.json", FOUND)

    assert read_calibration(tmp_path / "watts.json", MODEL) == FOUND
    assert ["watts.json"] == [path.name for path in tmp_path.iterdir()]


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "watts.json"
    write_calibration(path, FOUND)
    plain = json.loads(path.read_text(encoding="utf-8"))

    assert ("pytest-hwperf watts", 1, 2.5, "rapl:package-0+dram", AT) == tuple(
        plain[key] for key in ("what", "schema", "idle_w", "source", "measured_at")
    )


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"what": "pytest-hwperf report"}, "the file holds no pytest-hwperf watts"),
        ({"schema": 2}, "the file was written by a newer pytest-hwperf (schema 2, this one reads 1)"),
        ({"schema": None}, "the file holds no pytest-hwperf watts"),
        (
            {"idle_w": "2.5"},
            "holds no valid pytest-hwperf watts (Calibration: Expected `float`, got `str` - at `$.idle",
        ),
        ({"idle_w": float("nan")}, "is not whole JSON"),
        ({"more": 1}, "unknown field `more`"),
        ({"idle_w": -1.0}, "the file has -1 W idle and 6.5 W busy"),
        ({"idle_w": 6.5}, "the file has 6.5 W idle and 6.5 W busy"),
        ({"busy_w": 2000.1}, "the file has 2.5 W idle and 2000.1 W busy"),
        ({"busy_w": 1e9}, "the file has 2.5 W idle and 1e+09 W busy"),
        ({"cpus": -1.0}, "the file has -1 CPUs busy in windows of 2 s"),
        ({"cpus": 0.0}, "the file has 0 CPUs busy"),
        ({"window_s": -3.0}, "the file has 2 CPUs busy in windows of -3 s"),
        ({"window_s": 1.9}, "windows of 1.9 s"),
        ({"source": "estimate:cpu-time"}, "watts by 'estimate:cpu-time', which is no counter of the processor"),
        ({"source": "psys:platform"}, "watts by 'psys:platform', which is no counter of the processor"),
        ({"source": "rapl:a\x1b[31m\n[9] forged"}, r"more than plain text in its source, 'rapl:a\x1b[31m\n[9] forged'"),
        ({"measured_at": "2026\u202e"}, r"or its time, '2026\u202e'"),
        ({"cpu_model": "AMD EPYC"}, f"the file has the watts of 'AMD EPYC', the processor here is '{MODEL}'"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, changed: dict[str, object], shown: str) -> None:
    """It may come from anyone: what is wrong is said, and what makes a right one."""
    path = tmp_path / "watts.json"
    write_calibration(path, FOUND)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changed}), encoding="utf-8")

    with pytest.raises(UsageProblem) as caught:
        read_calibration(path, MODEL)

    assert shown in str(caught.value)
    what_to_do = (
        "upgrade pytest-hwperf" if "newer" in shown else "make one with hwperf calibrate FILE where RAPL can be"
    )
    assert what_to_do in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"", "is not whole JSON"),
        (b'{"what": "pytest-hwperf wat', "is not whole JSON"),
        (b"\xff\xfe", "is not whole JSON"),
        (b"[" * 9_999, "is not whole JSON"),
        (b'"' + b"x" * 20_000 + b'"', "larger than"),  # more than is ever written: not read to its end
        (b"[]", "holds no pytest-hwperf watts"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes, reported: str) -> None:
    path = tmp_path / "watts.json"
    path.write_bytes(content)

    with pytest.raises(UsageProblem, match=reported):
        read_calibration(path, MODEL)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"the file cannot be read \(No such file or directory\)"):
        read_calibration(tmp_path / "absent.json", MODEL)


def test_a_processor_without_a_name_is_never_the_same(tmp_path: Path) -> None:
    """Two machines that name nothing are not thereby alike."""
    path = tmp_path / "watts.json"
    write_calibration(path, replace(FOUND, cpu_model=""))

    with pytest.raises(UsageProblem, match="the processor here is without a name"):
        read_calibration(path, "")
