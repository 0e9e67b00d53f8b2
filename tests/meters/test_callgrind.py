"""Instructions under Valgrind: the calls that are made, the requests that are sent, and the difference of lengths."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_hwperf.host.launch import Command
from pytest_hwperf.meters.callgrind import count_calls, slopes, under_callgrind, valgrind_requests
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable

RUNNING, WRITE, ZERO, START, STOP = 0x1001, 0x43540000, 0x43540001, 0x43540004, 0x43540005
NAMES = {RUNNING: "running", WRITE: "write", ZERO: "zero", START: "start", STOP: "stop"}


class Played:
    """Valgrind, and a subject whose calls take so many seconds; notes what happens."""

    def __init__(self, call_s: float, *, running: bool = True) -> None:
        self.seen = list[str]()
        self.now_s = 0.0
        self._call_s = call_s
        self._running = running

    def calls(self, count: int) -> None:
        self.seen.append(f"{count} calls")
        self.now_s += count * self._call_s

    def ask(self, request: int) -> int:
        self.seen.append(NAMES[request])
        return int(self._running)


def lengths_of(played: Played) -> list[int]:
    return count_calls(played.calls, played.ask, lambda: played.now_s)


def test_three_lengths_are_counted_apart_after_a_warm_up() -> None:
    """Nothing is counted before the interpreter has translated a call."""
    played = Played(0.001)
    assert [50, 150, 250] == lengths_of(played)
    assert ["running", "5 calls", "start", "1 calls", "1 calls"] == played.seen[:5]
    assert [*("zero", "50 calls", "write"), *("zero", "150 calls", "write"), *("zero", "250 calls", "write")] == (
        played.seen[5:-1]
    )
    assert "stop" == played.seen[-1]


def test_slow_calls_are_counted_less_often() -> None:
    """Nine times the shortest length fit into 20 s, or one call each."""
    for call_s, shortest in ((0.0, 50), (0.1, 22), (1.0, 2), (60.0, 1)):
        assert [shortest, 3 * shortest, 5 * shortest] == lengths_of(Played(call_s))


def test_without_valgrind_nothing_is_called() -> None:
    played = Played(0.001, running=False)
    with pytest.raises(MeasurementError, match="does not run under Valgrind"):
        lengths_of(played)
    assert ["running"] == played.seen


def dumps(folder: Path, contents: Mapping[int, str]) -> Path:
    for number, content in contents.items():
        (folder / f"callgrind.out.{number}").write_text(content, encoding="utf-8")
    return folder


def test_the_difference_of_two_lengths_is_the_calls_own(tmp_path: Path) -> None:
    """As recorded of ONNX Runtime on an MLP of 64: 10,354 instructions of each length belong to no call."""
    folder = dumps(
        tmp_path,
        {
            1: "events: Ir\nsummary: 2510354\n\ntotals: 2523350\n",
            2: "summary: 7510328\n",
            3: "summary: 12514508\n",
        },
    )
    assert [49999.74, 50041.80] == slopes(folder, [50, 150, 250])


def test_a_count_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"has written no callgrind.out.2"):
        slopes(dumps(tmp_path, {1: "summary: 1\n"}), [50, 150])
    with pytest.raises(MeasurementError, match="has no summary"):
        slopes(dumps(tmp_path, {2: "torn"}), [50, 150])


def test_a_process_runs_under_valgrind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    plain = Command(arguments=["t.py"], directory=tmp_path, environment={"A": "1"}, interpreter="python")
    found = under_callgrind(plain, tmp_path, machine="x86_64")
    assert {"A": "1", "PYTHONHASHSEED": "0"} == found.environment
    assert ["/bin/valgrind", "--tool=callgrind", "--instr-atstart=no"] == found.line(tmp_path)[:3]
    assert f"--callgrind-out-file={tmp_path / 'callgrind.out'}" in found.line(tmp_path)
    assert plain.line(tmp_path) == found.line(tmp_path)[5:]


def test_without_valgrind_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    bare = Command(arguments=[], directory=tmp_path, environment={})
    for machine, why in (("aarch64", "on x86-64 only"), ("x86_64", "valgrind is not installed: sudo apt-get")):
        with pytest.raises(MeterUnavailable, match=why):
            under_callgrind(bare, tmp_path, machine=machine)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its instructions are those of x86-64")
def test_a_request_does_nothing_outside_of_valgrind() -> None:
    """The real instructions: they answer with what was given."""
    assert 0 == valgrind_requests()(RUNNING)


WORK = """
from pytest_hwperf.meters.callgrind import count_calls

def calls(count):
    for _ in range(count):
        sum(range({size}))

print(*count_calls(calls))
"""


@pytest.mark.live
@pytest.mark.runtime
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_a_real_call_is_counted_under_valgrind(tmp_path: Path) -> None:
    """An addition takes some hundred instructions, whatever else runs; both differences of lengths agree."""
    bare = Command(arguments=[], directory=tmp_path, environment={})
    under = under_callgrind(bare, tmp_path).under
    done = subprocess.run(
        [*under, sys.executable, "-c", WORK.format(size=1000)], check=True, capture_output=True, text=True, timeout=120
    )
    first, second = slopes(tmp_path, [int(word) for word in done.stdout.split()])
    assert 10_000 < first < 1_000_000
    assert pytest.approx(first, rel=0.02) == second
