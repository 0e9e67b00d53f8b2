"""The obeying side, on scales and a clock that play back."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fakes.streams import FakeClock

from pytest_hwperf.duet.messages import Answer, decode_answer
from pytest_hwperf.duet.worker import reply, start_cold, weigh

MS = 1_000_000  # ns


class FakeScales:
    """Weighs what was put on it; a reset forgets the peak and keeps what still lies there."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.now = self.high = 0

    def put(self, amount: int) -> None:
        self.now += amount
        self.high = max(self.high, self.now)

    def idle(self) -> str:
        self.high = self.now
        return self.refusal

    def reset(self) -> str:
        self.high = self.now
        return ""

    def peak(self) -> int:
        return self.high

    def retained(self) -> int:
        return self.now


class Scripted:
    """Loading keeps 40; the first call peaks 25 above it and keeps 5, a later one peaks 10."""

    def __init__(self, scales: FakeScales) -> None:
        self.scales = scales
        self.calls = 0

    def load(self) -> Callable[[], object]:
        self.scales.put(40)
        return self.call

    def call(self) -> None:
        peak, kept = (25, 5) if self.calls == 0 else (10, 0)
        self.scales.put(peak)
        self.scales.put(kept - peak)
        self.calls += 1


def test_peaks_are_above_the_idle_process_and_apart() -> None:
    scales = FakeScales()
    scripted = Scripted(scales)
    answer = weigh([], scripted.load, scales)

    assert answer.values == {
        "memory": 65.0,  # 40 + 25
        "memory_first_call": 65.0,
        "memory_steady": 55.0,  # 45 + 10
        "memory_retained": 45.0,
    }
    assert scripted.calls == 6


def test_scales_that_refuse_give_a_reason_and_no_number() -> None:
    answer = weigh([], Scripted(FakeScales()).load, FakeScales("clear_refs may not be written"))

    assert answer.values == {}
    assert set(answer.reasons) == {"memory", "memory_first_call", "memory_steady", "memory_retained"}
    assert set(answer.reasons.values()) == {"clear_refs may not be written"}


def test_scales_that_refuse_later_give_no_number_either() -> None:
    class Failing(FakeScales):
        def reset(self) -> str:
            return "EIO"

    scales = Failing()

    assert weigh([], Scripted(scales).load, scales).values == {}


def test_a_cold_start_is_timed_in_parts() -> None:
    """Nothing to import, 30 ms of loading, 5 ms of first call."""
    clock = FakeClock()

    def call() -> None:
        clock.now_ns += 5 * MS

    def load() -> Callable[[], object]:
        clock.now_ns += 30 * MS
        return call

    answer = start_cold([], load, clock)

    assert answer.values == {"cold_import": 0.0, "cold_load": 0.03, "cold_first_call": 0.005, "cold_start": 0.035}
    assert answer.notes == []


def test_a_module_that_was_there_already_is_named() -> None:
    """Its import costs nothing here: without a word the cold start would look better than it is."""
    answer = start_cold(["json"], lambda: lambda: None, FakeClock())

    assert answer.notes == ["already imported before the cold start, so not part of it: json"]


def test_a_reply_appears_whole(tmp_path: Path) -> None:
    answer = Answer(values={"memory": 1.0}, reasons={}, notes=[], runs=[])
    reply(answer, str(tmp_path / "answer.json"))

    assert decode_answer((tmp_path / "answer.json").read_text(encoding="utf-8")) == answer
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]


def test_the_worker_side_imports_the_standard_library_only() -> None:
    """What it imported would be weighed, and would no longer be cold."""
    code = (
        "import sys; import pytest_hwperf.duet.worker; "
        "print(sorted({n.partition('.')[0] for n in sys.modules} - sys.stdlib_module_names - {'__main__'}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "['pytest_hwperf']"
