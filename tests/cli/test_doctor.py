"""`hwperf doctor`: text, data and exit codes on simulated machines, and what no terminal obeys."""

import errno
import io
import json
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake
from fakes.commands import Told
from fakes.hosts import settle_in
from fakes.patients import ONE_THREAD, measurable_memory, patient
from fakes.powercap import AMD, CLIENT, COARSE_PSYS, Layout, bare_metal, describe_processor, plant, refusing

from pytest_hwperf.cli import doctor
from pytest_hwperf.cli.doctor import Probes, keep_peaks, open_source, parse_required, read_call_clock, run
from pytest_hwperf.cli.doctor_noise import Noise, noise_of
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.gate.models.compare import CompareSettings, SelfComparison
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.clocks import ClockPrecision
from pytest_hwperf.host.disturbance import SystemState
from pytest_hwperf.host.machine import read_peaks
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.process import CpuTimeMeter
from pytest_hwperf.records.contracts import Covered, Meter
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable, UsageProblem
from pytest_hwperf.records.profiles import PeakRate, Peaks
from pytest_hwperf.records.run import Reading

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="what these machines show is read by calls of Linux")

USAGE = 4
HEADINGS = [
    *("Energy", "RAPL zones", "Memory and time", "What makes timings noisy"),
    *("What numpy reaches, by which --hwperf-operators says what limits a call", "Noise now"),
]
BUSY = SystemState(
    load_1min=3.5, steal_share=0.03, swap_bytes=2_048_000, swap_used_bytes=1_536_000, huge_pages="always"
)
IDLE = SystemState(load_1min=0.1, steal_share=0.0, swap_bytes=0, swap_used_bytes=0, huge_pages="never")


def options(*, json: bool = False, require: tuple[str, ...] = (), seconds: float = 0.0) -> Namespace:
    return Namespace(json=json, require=list(require), seconds=seconds)


def listen(seconds: float) -> Noise:
    changes = tuple(0.001 * n for n in range(-4, 5))
    return noise_of(SelfComparison(changes=changes, latency_s=1e-4, seconds=seconds, lost=""))


def with_zones(root: Path, layout: Layout = AMD, **parts: Any) -> Probes:
    plant(root, layout)
    measurable_memory(root)
    return patient(bare_metal(root, **parts))


def virtual(root: Path) -> Probes:
    """As clouds have them, without counters."""
    measurable_memory(root)
    return patient(bare_metal(root, flags="fpu hypervisor"))


def contained(root: Path) -> Probes:
    host = bare_metal(root)
    describe_processor(root, "fpu", mark=".dockerenv")
    return patient(host)


def dangling(root: Path) -> Probes:
    """The class folder is there, what it leads to is not; the kernel refuses to reset a peak."""
    shutil.rmtree(plant(root, CLIENT).nested)
    measurable_memory(root)
    (root / "proc/self/clear_refs").mkdir()
    return patient(bare_metal(root))


def silent_zone(root: Path) -> Probes:
    """One answers an error, another an odd text."""
    (plant(root, AMD).zone("intel-rapl:0:0") / "energy_uj").write_text("soon\n")
    return patient(bare_metal(root, files=refusing(errno.EIO, "intel-rapl:0/energy_uj")))


def laptop(root: Path) -> Probes:
    """Everything that can be wrong is."""
    threads = {**ONE_THREAD, "blas_threads": {"openblas 0.3": 8, "openmp": 2}}
    place = patient(Access(root=str(settle_in(root)), system="Linux", architecture="x86_64"))
    return replace(place, online=lambda: 4, system=lambda _: BUSY, threads=lambda _: threads)


def calm(root: Path) -> Probes:
    """A machine on which nothing is judged, with libraries that are set up otherwise, and a clock that stands."""
    quiet = {"cpu0/cpufreq/scaling_governor": "performance", "intel_pstate/no_turbo": "1", "smt/active": "0"}
    settle_in(root, {f"sys/devices/system/cpu/{name}": text for name, text in quiet.items()})
    settings = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "1"}
    threads = {**ONE_THREAD, "blas_threads": {}, "onnxruntime_default_threads": 3, "thread_settings": settings}
    place = replace(patient(bare_metal(root)), system=lambda _: IDLE, threads=lambda _: threads)
    return replace(place, cpu_step=lambda: None, clock=lambda: ClockPrecision(step_s=None, cost_s=1.2e-6))


def alone(root: Path) -> Probes:
    """One core, whose quota has not stopped anything."""
    quota = {"proc/self/cgroup": "0::/one", "sys/fs/cgroup/one/cpu.max": "50000 100000"}
    place = patient(Access(root=str(settle_in(root, quota)), system="Linux", architecture="x86_64"))
    return replace(place, usable=lambda: 1)


MACHINES: Mapping[str, Callable[[Path], Probes]] = {
    "server": with_zones,
    "client": lambda root: with_zones(root, CLIENT),
    "coarse psys": lambda root: with_zones(root, COARSE_PSYS),
    "unknown zone": lambda root: with_zones(root, {"intel-rapl:0": ("board", 5, 1000)}),
    "for root only": lambda root: with_zones(root, CLIENT, files=refusing(errno.EACCES, "energy_uj")),
    "silent zone": silent_zone,
    "cloud": virtual,
    "container": contained,
    "dangling links": dangling,
    "arm server": lambda root: patient(bare_metal(root, architecture="aarch64")),
    "macos": lambda root: patient(Access(root=str(root), system="Darwin", architecture="arm64")),
    "plan 9": lambda root: patient(Access(root=str(root), system="Plan9")),
    "laptop": laptop,
    "calm": calm,
    "alone": alone,
}


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_is_shown_as_agreed(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    golden: Callable[[str, bytes], None],
) -> None:
    """Each ability with its source or its remedy, each zone with its role, and what makes timings noisy."""
    monkeypatch.setenv("COLUMNS", "1000")  # a path of any length breaks no line
    monkeypatch.setattr(doctor, "_WIDEST", 1000)
    run(options(), MACHINES[name](tmp_path))
    text = capsys.readouterr().out.partition("\n")[2]  # the first line is about this machine
    text = re.sub(r"within \d+ kB", "within … kB", text.replace(str(tmp_path), "ROOT"))
    golden(f"doctor/{name.replace(' ', '_')}.txt", text.encode())


@pytest.fixture
def server(tmp_path: Path) -> Probes:
    """Bare metal with RAPL."""
    return with_zones(tmp_path)


@pytest.fixture
def cloud(tmp_path: Path) -> Probes:
    return virtual(tmp_path)


def data_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_noise_is_read_for_as_long_as_was_asked(server: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    """Sections stand one below the other, and all lines fit, whatever the terminal."""
    asked = list[float]()

    def listened(seconds: float) -> Noise:
        asked.append(seconds)
        return listen(seconds)

    assert OK == run(options(seconds=7.5), server, listened)
    out = capsys.readouterr().out
    assert [7.5] == asked
    assert "On this machine now a 5 % slowdown needs about" in " ".join(out.split())
    lines = out.splitlines()
    assert HEADINGS == [line for line in lines if line and not line.startswith(" ")][1:]
    assert max(map(len, lines)) <= 100


def test_what_is_required_and_missing_fails(cloud: Probes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate is no energy that was measured."""
    cases: Sequence[tuple[tuple[str, ...], int, str]] = (
        ((), OK, ""),
        (("memory,cpu,clock",), OK, ""),
        (("estimate",), OK, ""),
        (("energy",), FAILED, "energy"),
        (("rapl,memory", "perf"), FAILED, "rapl, perf"),
    )
    for required, code, missing in cases:
        assert (required, code) == (required, run(options(require=required), cloud))
        said = f"hwperf: required and missing here: {missing}\n" if missing else ""
        assert said == capsys.readouterr().err
    (bare := tmp_path / "bare").mkdir()
    assert FAILED == run(options(require=("memory",)), patient(bare_metal(bare)))


def test_what_nobody_knows_is_refused(server: Probes, told: Told) -> None:
    """Before anything is looked at; sources of strangers can be required."""
    for given, complaint in (
        ("enrgy", "--require=enrgy: unknown ability 'enrgy'. Did you mean 'energy'?"),
        ("", "unknown ability ''"),
        ("memory,", "unknown ability ''"),
        ("rapl;perf", "unknown ability 'rapl;perf'. Did you mean "),
    ):
        assert complaint in told(USAGE, "doctor", f"--require={given}").err
    assert ["smart_plug", "rapl"] == parse_required(["smart_plug,rapl", "rapl"], {"smart_plug"})
    for seconds in (-1.0, 3601.0, float("nan"), float("inf")):
        with pytest.raises(UsageProblem, match="a number from 0 up to an hour, such as 20"):
            run(options(seconds=seconds), server, listen)


def test_the_data_are_as_agreed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[str, bytes], None]
) -> None:
    """Base units, null for what is unknown; a key that goes or changes its meaning takes another schema number."""
    found = {}
    for name, require, seconds in (("server", ("energy", "rapl"), 3.0), ("cloud", (), 0.0), ("laptop", (), 0.0)):
        (place := tmp_path / name).mkdir()
        assert OK == run(options(json=True, require=require, seconds=seconds), MACHINES[name](place), listen)
        found[name] = data_of(capsys)
        found[name]["machine"] = sorted(found[name]["machine"])  # is this one
        assert found[name]["memory"].pop("resolution_bytes") > 0
        del found[name]["memory"]["warnings"], found[name]["energy"]["estimate"]["warnings"]  # are in its text
    golden("doctor/data.json", json.dumps(found, indent=1).encode())


def test_a_source_that_breaks_is_reported_as_missing() -> None:
    """A third-party library is not there, or a counter answers nonsense: the rest is still reported."""
    for error, reason in (
        (MeasurementError("plug answers EIO"), "plug answers EIO"),
        (ImportError("No module named 'plug'"), "It cannot be loaded: No module named 'plug'."),
    ):

        def open_one(_: str, error: Exception = error) -> Meter:
            raise error

        found = doctor.read_sources(open_one, ("estimate", "plug", "rapl"))
        assert ["rapl", "perf", "nvml", "plug", "estimate"] == [one.key for one in found]
        assert {reason} == {one.text for one in found}


def test_every_meter_that_was_opened_is_closed() -> None:
    closed = list[str]()

    class Closing(CpuTimeMeter):
        def close(self) -> None:
            closed.append(self.source)

    found = doctor.read_sources(lambda _: Closing(), ())
    assert len(found) == len(closed)
    assert {"cpu_time"} == {one.value["metric"] for one in found}


def test_this_installation_opens_its_own_sources_and_no_others() -> None:
    meter = open_source("estimate", {})
    meter.close()
    assert "estimate:cpu-time" == meter.source
    with pytest.raises(MeterUnavailable, match="has no such source"):
        open_source("steam_engine", {})


def test_a_coarse_clock_times_no_calls() -> None:
    """More than a twentieth of 20 µs."""
    found = [read_call_clock(ClockPrecision(step_s=step, cost_s=1e-6), None) for step in (1e-6, 1.1e-6, None)]
    assert [True, False, False] == [one.value["available"] for one in found]


def test_the_documented_output_has_the_facts_of_a_run(server: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the machine: the same headings and facts in the same order, but for the zones."""
    page = (Path(__file__).parents[2] / "docs/meters.md").read_text(encoding="utf-8")
    shown = page.partition("## The doctor\n")[2].partition("```text\n")[2].partition("```")[0]
    run(options(seconds=20.0), server, listen)
    ours = labels_of(capsys.readouterr().out)
    assert labels_of(shown) == [label for label in ours if "RAPL" not in label and "intel-rapl" not in label]
    assert len(ours) > 25


def labels_of(text: str) -> list[str]:
    """Return the headings and the labels of the rows, without what a machine says behind them."""
    table = text.partition("\nEnergy\n")[2].partition("Noise now")[0]
    return re.findall(r"^(\w.*|  \S+(?: \S+)*)(?=  |$)", table, re.MULTILINE)


class Terminal(io.StringIO):
    """Standard error of somebody who watches."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_that_pairs_are_run(server: Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the line is gone afterwards."""
    shown = Terminal()

    def compared(_: object, __: object, settings: CompareSettings) -> SelfComparison:
        settings.progress(Progress(stage="screen", pair=1, of=6, test="", decided=0, tests=1, left_s=None))
        return SelfComparison(changes=(), latency_s=None, seconds=settings.time_s, lost="")

    monkeypatch.setattr("pytest_hwperf.cli.doctor_noise.compare_with_itself", compared)
    monkeypatch.setattr("sys.stderr", shown)
    assert OK == run(options(seconds=1.0), server)
    written = [text.strip() for text in shown.getvalue().split("\r")]
    assert ["", "", "equal processes take turns: screen", "", ""] == written


@pytest.mark.live
def test_this_machine_is_examined_whole(told: Told) -> None:
    """Whatever it has, its own clock and CPU time are there, and the estimate always works.

    A tenth of a second is too little for a pair: that is said, and is no error.
    """
    found = json.loads(told(OK, "doctor", "--seconds=0.1", "--json", "--require=clock,cpu,estimate").out)
    assert {"clock": True, "cpu": True, "estimate": True} == found["required"]
    assert found["conditions"]["cores_usable"] >= 1
    assert "the time of 0.1 s was up before" in found["noise"]["reason"]


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


def test_boards_alone_are_not_the_energy_of_the_processors(cloud: Probes) -> None:
    """Though they can be measured; the counter of the whole platform holds the processors."""
    for name, label, code in (("nvml", "nvml:0+2", FAILED), ("psys", "rapl:psys", OK)):
        boards = Boards(label, "boards" if name == "nvml" else "processors")

        def open_one(asked: str, name: str = name, boards: Meter = boards) -> Meter:
            return boards if asked == name else cloud.open_one(asked)

        place = replace(cloud, open_one=open_one)
        assert OK == run(options(require=(name,)), place)
        assert code == run(options(require=("energy",)), place)


def test_bad_watts_are_reported_where_the_estimate_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They say nothing of all the rest."""
    measurable_memory(tmp_path)
    place = patient(bare_metal(tmp_path, flags="fpu hypervisor"), environ={"HWPERF_WATTS": "junk"})
    assert FAILED == run(options(require=("memory", "estimate")), place)
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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found = list[int]()

    def measure(threads: Sequence[int], _: object) -> Peaks:
        found.extend(threads)
        return Peaks(rates=tuple(PeakRate(threads=n, flops_per_s=1e11 * n, bytes_per_s=1e10) for n in threads))

    monkeypatch.setattr(doctor, "measure_peaks", measure)
    return found


def test_peaks_are_kept_for_later_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]) -> None:
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    *rates, file = keep_peaks(fake.machine(cores=6))
    kept = read_peaks(fake.machine(cores=6))
    assert [1, 2, 4, 6] == asked
    assert kept is not None
    assert [one.flops_per_s for one in kept.rates] == [one.value["flops_per_s"] for one in rates]
    assert Path(file.text).is_relative_to(tmp_path)
    assert ("2 threads", "200 GFLOP/s by a float32 matrix product, 10.0 GB/s by a triad in memory") == (
        rates[1].label,
        rates[1].text,
    )


def test_what_cannot_be_kept_is_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    (file := tmp_path / "file").touch()
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(file))
    found = keep_peaks(fake.machine(cores=1))
    assert ([1], ["1 thread", "kept"]) == (asked, [one.label for one in found])
    assert found[1].value["file"] is None
    assert found[1].text == f"no: {found[1].value['reason']}"
