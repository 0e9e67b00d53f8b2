"""`hwperf doctor`: text, data and exit codes on simulated machines, and what no terminal obeys."""

import io
import json
import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake
from fakes.commands import Told
from fakes.hosts import settle_in
from fakes.patients import measurable_memory, patient
from fakes.powercap import AMD, bare_metal, plant

from pytest_hwperf.cli import doctor, main
from pytest_hwperf.cli.doctor import Probes, keep_peaks, parse_required, run, thread_counts
from pytest_hwperf.cli.doctor_noise import Noise, noise_of
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.gate.models import CompareSettings, SelfComparison
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.peaks import read_peaks
from pytest_hwperf.meters.access import Access
from pytest_hwperf.records.contracts import Covered, Meter
from pytest_hwperf.records.errors import MeterUnavailable, UsageProblem
from pytest_hwperf.records.profiles import PeakRate, Peaks
from pytest_hwperf.records.run import Reading

USAGE = 4
HEADINGS = [
    *("Energy", "RAPL zones", "Memory and time", "What makes timings noisy"),
    *("What numpy reaches, by which --hwperf-operators says what limits a call", "Noise now"),
]


def options(*, json: bool = False, require: tuple[str, ...] = (), seconds: float = 0.0) -> Namespace:
    return Namespace(json=json, require=list(require), seconds=seconds)


def listen(seconds: float) -> Noise:
    changes = tuple(0.001 * n for n in range(-4, 5))
    return noise_of(SelfComparison(changes=changes, latency_s=1e-4, seconds=seconds, lost=""))


@pytest.fixture
def server(tmp_path: Path) -> Probes:
    """Bare metal with RAPL."""
    plant(tmp_path, AMD)
    measurable_memory(tmp_path)
    return patient(bare_metal(tmp_path))


@pytest.fixture
def cloud(tmp_path: Path) -> Probes:
    """A virtual machine without counters."""
    measurable_memory(tmp_path)
    return patient(bare_metal(tmp_path, flags="fpu hypervisor"))


def data_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_sections_stand_one_below_the_other(server: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    """All lines fit, whatever the terminal."""
    assert OK == run(options(seconds=20.0), server, listen)
    lines = capsys.readouterr().out.splitlines()
    assert HEADINGS == [line for line in lines if line and not line.startswith(" ")][1:]
    assert max(map(len, lines)) <= 100


def test_a_machine_with_counters_names_them(server: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    run(options(), server)
    out = capsys.readouterr().out
    assert "  rapl      yes  rapl:package-0: moves every 1.00 ms, windows from 500 ms on\n" in out
    assert "  intel-rapl:0:0  core: never added: it lies inside its package\n" in out


def test_a_cloud_machine_names_the_hypervisor(cloud: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    """And has no zones to list."""
    run(options(), cloud)
    out = capsys.readouterr().out
    assert "  rapl      no   The hypervisor of this virtual machine hides RAPL" in out
    assert "RAPL zones" not in out
    assert "Noise now" not in out


def test_the_same_refusal_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which of them stands above is said."""

    def refuse(_: str) -> Meter:
        raise MeterUnavailable("Nothing is counted here.")

    place = patient(Access(root=str(tmp_path), system="Darwin", architecture="arm64"))
    run(options(), replace(place, open_one=refuse))
    out = " ".join(capsys.readouterr().out.split())
    assert "rapl no Nothing is counted here. perf no as rapl nvml no as rapl" in out


def test_the_noise_is_read_for_as_long_as_was_asked(server: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    asked = list[float]()

    def listened(seconds: float) -> Noise:
        asked.append(seconds)
        return listen(seconds)

    run(options(seconds=7.5), server, listened)
    assert [7.5] == asked
    assert "On this machine now a 5 % slowdown needs about" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("required", "code", "missing"),
    [
        ((), OK, ""),
        (("memory,cpu,clock",), OK, ""),
        (("estimate",), OK, ""),
        (("energy",), FAILED, "energy"),
        (("rapl,memory", "perf"), FAILED, "rapl, perf"),
    ],
)
def test_what_is_required_and_missing_fails(
    cloud: Probes, capsys: pytest.CaptureFixture[str], required: tuple[str, ...], code: int, missing: str
) -> None:
    """The estimate is no energy that was measured."""
    assert code == run(options(require=required), cloud)
    said = capsys.readouterr().err
    assert said == (f"hwperf: required and missing here: {missing}\n" if missing else "")


def test_measured_energy_fulfils_the_requirement(server: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == run(options(require=("energy", "rapl"), json=True), server)
    assert {"energy": True, "rapl": True} == data_of(capsys)["required"]


def test_memory_that_cannot_be_measured_fails_the_requirement(tmp_path: Path) -> None:
    assert FAILED == run(options(require=("memory",)), patient(bare_metal(tmp_path)))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("enrgy", r"--require=enrgy: unknown ability 'enrgy'\. Did you mean 'energy'\?"),
        ("", "unknown ability ''"),
        ("memory,", "unknown ability ''"),
        ("rapl;perf", r"unknown ability 'rapl;perf'\. Did you mean "),
    ],
)
def test_a_requirement_that_nobody_knows_is_refused(given: str, complaint: str) -> None:
    with pytest.raises(UsageProblem, match=complaint):
        parse_required([given])


def test_strangers_sources_can_be_required() -> None:
    assert ["smart_plug", "rapl"] == parse_required(["smart_plug,rapl", "rapl"], {"smart_plug"})


@pytest.mark.parametrize("seconds", [-1.0, 3601.0, float("nan"), float("inf")])
def test_a_time_that_cannot_be_meant_is_refused(server: Probes, seconds: float) -> None:
    with pytest.raises(UsageProblem, match="a number from 0 up to an hour, such as 20"):
        run(options(seconds=seconds), server, listen)


def test_a_typo_is_a_usage_error_of_the_command(told: Told) -> None:
    """Before anything is looked at."""
    assert "Did you mean 'memory'?" in told(USAGE, "doctor", "--require=memroy").err


def test_the_data_have_stable_keys_with_units(server: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that goes or changes its meaning takes another schema number."""
    run(options(json=True, seconds=3.0), server, listen)
    found = data_of(capsys)
    assert ("pytest-hwperf doctor", 1) == (found["what"], found["schema"])
    assert {
        *("what", "schema", "machine", "abilities", "required", "energy", "rapl_zones", "memory", "cpu_time", "clock"),
        *("conditions", "judgements", "noise", "peaks"),
    } == found.keys()
    assert {
        *("available", "measured", "covers", "metric", "label", "tick_s", "shortest_window_s", "warnings", "reason"),
    } == found["energy"]["rapl"].keys()
    assert {"id", "name", "max_energy_range_uj", "answers", "role"} == found["rapl_zones"][0].keys()
    assert {
        *("available", "reason", "peak_source", "present_source", "resettable", "resolution_bytes", "warnings"),
    } == found["memory"].keys()
    assert {"available", "source", "step_s", "cost_s", "batched_below_s"} == found["clock"].keys()
    assert {
        *("virtual_machine", "governors", "turbo", "sibling_threads", "clock_rate_hz", "highest_clock_rate_hz"),
        *("heat_throttle_count", "cores_online", "cores_usable", "cores_allotted", "quota_cores"),
        *("quota_stopped_periods", "quota_stopped_s", "memory_limit_bytes", "load_1min", "steal_share", "swap_bytes"),
        *("swap_used_bytes", "huge_pages", "blas_threads", "onnxruntime_version", "onnxruntime_default_threads"),
        *("onnxruntime_scenario_threads", "thread_settings"),
    } == found["conditions"].keys()
    assert {
        *("pairs", "seconds", "latency_s", "differences", "alpha", "level", "margin", "needs", "disturbances"),
        "reason",
    } == found["noise"].keys()


def test_unknown_facts_are_null_and_no_zero(cloud: Probes, capsys: pytest.CaptureFixture[str]) -> None:
    run(options(json=True), cloud)
    found = data_of(capsys)
    shown = found["conditions"]
    assert [None] * 6 == [
        shown[key]
        for key in ("governors", "turbo", "clock_rate_hz", "heat_throttle_count", "load_1min", "quota_stopped_s")
    ]
    assert found["noise"] is None
    assert found["energy"]["rapl"]["label"] is None
    assert "virtual" in found["judgements"]


def test_a_machine_that_shows_everything_is_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = patient(Access(root=str(settle_in(tmp_path)), system="Linux", architecture="x86_64"))
    run(options(json=True), place)
    shown = data_of(capsys)["conditions"]
    assert (["powersave"], True, 3.4e9, 7, 7, 0.25, 2_000_000_000) == (
        shown["governors"],
        shown["turbo"],
        shown["clock_rate_hz"],
        shown["heat_throttle_count"],
        shown["quota_stopped_periods"],
        shown["quota_stopped_s"],
        shown["memory_limit_bytes"],
    )


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
        settings.progress(Progress(stage="screen", pair=1, of=6, test="", decided=0, hypotheses=1, left_s=None))
        return SelfComparison(changes=(), latency_s=None, seconds=settings.time_s, lost="")

    monkeypatch.setattr("pytest_hwperf.cli.doctor_noise.compare_with_itself", compared)
    monkeypatch.setattr("sys.stderr", shown)
    assert OK == run(options(seconds=1.0), server)
    written = [text.strip() for text in shown.getvalue().split("\r")]
    assert ["", "", "equal processes take turns: screen", "", ""] == written


@pytest.mark.live
def test_this_machine_is_examined_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it has, its own clock and CPU time are there, and the estimate always works."""
    assert OK == main(["doctor", "--seconds=0", "--json", "--require=clock,cpu,estimate"])
    found = data_of(capsys)
    assert {"clock": True, "cpu": True, "estimate": True} == found["required"]
    assert found["conditions"]["cores_usable"] >= 1


@pytest.mark.live
def test_the_command_listens_to_this_machine(told: Told) -> None:
    """A tenth of a second is too little for a pair: that is said, and is no error."""
    shown = " ".join(told(OK, "doctor", "--seconds=0.1").out.split())
    assert "No pair of equal processes gave a value: " in shown
    assert "the time of 0.1 s was up before" in shown


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


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (0, [1])])
def test_one_thread_all_cores_and_powers_of_two(cores: int, counts: list[int]) -> None:
    assert counts == thread_counts(cores)


def test_peaks_are_kept_for_later_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]) -> None:
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    *rates, file = keep_peaks(fake.machine(cores=4))
    kept = read_peaks(fake.machine(cores=4))
    assert [1, 2, 4] == asked
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
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(file))
    found = keep_peaks(fake.machine(cores=1))
    assert [1] == asked
    assert ["1 thread", "kept"] == [one.label for one in found]
    assert found[1].value["file"] is None
    assert found[1].text == f"no: {found[1].value['reason']}"
