"""What makes a machine noisy and what is left unsaid; what equal pairs mean for finding a slowdown."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.hosts import LAPTOP, settle_in
from fakes.patients import ONE_THREAD

from pytest_hwperf.cli.doctor_noise import (
    Fact,
    PairsNeeded,
    allotment,
    libraries,
    listen,
    memory_and_load,
    noise_of,
    processor,
    read_conditions,
    read_noise,
    read_threads,
    render_noise,
)
from pytest_hwperf.gate.models import SelfComparison
from pytest_hwperf.host.disturbance import ClockRate, MachineCpuTime, Snapshot, SystemState, Throttling
from pytest_hwperf.meters.access import Access
from pytest_hwperf.records.errors import WorkerError

CALM = ClockRate(
    governors=("performance",), turbo=False, turbo_switch="/f", turbo_off="1", sibling_threads=False,
    clock_rate_hz=2e9, highest_clock_rate_hz=None, heat_throttle_count=0,
)  # fmt: skip
IDLE = SystemState(load_1min=0.1, steal_share=0.0, swap_bytes=1000, swap_used_bytes=0, huge_pages="never")
UNKNOWN = SystemState(load_1min=None, steal_share=None, swap_bytes=None, swap_used_bytes=None, huge_pages=None)
BUSY = SystemState(
    load_1min=3.5, steal_share=0.03, swap_bytes=2_048_000, swap_used_bytes=1_536_000, huge_pages="always"
)


def look_at(root: Path, system: SystemState = UNKNOWN) -> dict[str, Fact]:
    access = Access(root=str(root), system="Linux", architecture="x86_64")
    found = read_conditions(access, usable=2, online=4, allotted=2, threads=ONE_THREAD, system=system)
    return {one.key: one for one in found}


def test_a_calm_machine_is_reported_without_a_judgement() -> None:
    found = [
        *processor(CALM, virtual=False), *allotment(4, 8, 4, None, None), *memory_and_load(None, IDLE, 8),
        *libraries(ONE_THREAD, 4),
    ]  # fmt: skip
    assert [] == [one for one in found if one.judgement]


def test_what_is_not_shown_is_unknown_and_not_judged(tmp_path: Path) -> None:
    """An empty machine: no value is made up."""
    rows = look_at(tmp_path)
    unknown = {key for key, row in rows.items() if row.text == "unknown"}
    assert {
        *("virtual", "governor", "turbo", "smt", "clock_rate", "heat_throttles", "load", "steal", "swap", "huge_pages")
    } == unknown
    assert [] == [key for key, row in rows.items() if row.judgement]


def test_a_noisy_laptop_is_judged_in_plain_words(tmp_path: Path) -> None:
    """Everything that can be wrong is, with its figure and its remedy."""
    rows = look_at(settle_in(tmp_path), BUSY)
    assert {
        "virtual": "no",
        "governor": "powersave",
        "turbo": "on",
        "smt": "on",
        "clock_rate": "3.40 GHz now, at most 4.70 GHz",
        "heat_throttles": "counters at 7",
        "cores": "2 usable of 4, by affinity",
        "quota": "1.50 cores",
        "memory_limit": "2.00 GB",
        "load": "3.50 on 4 cores",
        "steal": "3.00 % of the CPU time since the start",
        "swap": "1.54 MB of 2.05 MB used",
        "huge_pages": "always",
    } == {key: row.text for key, row in rows.items() if key not in ("blas", "onnxruntime", "thread_settings")}
    remedies = {
        "governor": "sudo cpupower frequency-set -g performance",
        "turbo": "depends on heat and neighbours; off, timings are longer and steadier: "
        "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
        "smt": "a busy sibling takes a part of the core",
        "heat_throttles": "it has happened since the machine started",
        "quota": "in 7 periods so far, for 250 ms of CPU time",
        "load": "other work is running",
        "steal": "trust comparisons in pairs only",
        "swap": "missing from peaks",
        "huge_pages": "steps of up to 2 MiB",
    }
    assert remedies.keys() == {key for key, row in rows.items() if row.judgement}
    assert [] == [key for key, words in remedies.items() if words not in rows[key].judgement]


def test_a_virtual_machine_says_what_it_cannot_show(tmp_path: Path) -> None:
    flags = LAPTOP["proc/cpuinfo"] + "flags\t\t: fpu hypervisor"
    found = look_at(settle_in(tmp_path, {"proc/cpuinfo": flags}))
    assert {"virtual_machine": True} == found["virtual"].value
    assert "heat, sibling threads and neighbours are not shown here" in found["virtual"].judgement


def test_a_quota_that_has_not_stopped_anything_is_explained() -> None:
    """Two of four usable cores."""
    _, quota = allotment(4, 8, 4, 2.0, Throttling(0, 0.0))
    assert "more than 2.0 busy threads are stopped until the next period begins" == quota.judgement
    assert "" == allotment(4, 8, 4, 4.0, None)[1].judgement


def test_one_core_is_interrupted_by_everything() -> None:
    assert "whatever else runs interrupts the measurement" == allotment(1, 8, 1, None, None)[0].judgement


def test_pools_larger_than_the_allotted_cores_are_judged() -> None:
    blas, *_ = libraries({**ONE_THREAD, "blas_threads": {"openblas 0.3": 8, "openmp": 2}}, 4)
    assert "openblas 0.3: 8 threads, openmp: 2 threads" == blas.text
    assert "more than the 4 allotted cores" in blas.judgement
    assert "set OMP_NUM_THREADS=4 and OPENBLAS_NUM_THREADS=4 before Python starts" in blas.judgement


def test_thread_settings_are_shown_as_they_are() -> None:
    settings = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "1"}
    threads = {**ONE_THREAD, "blas_threads": {}, "onnxruntime_default_threads": 3, "thread_settings": settings}
    assert [
        "none",
        "1.31: by itself 3 threads; a scenario 1 thread that does not spin, or its threads=",
        "OMP_NUM_THREADS=2, MKL_NUM_THREADS=1",
    ] == [one.text for one in libraries(threads, 4)]


@pytest.mark.parametrize(("total", "text"), [(0, "none"), (1000, "0 B of 1.00 kB used")])
def test_swap_is_reported_with_its_size(total: int, text: str) -> None:
    system = replace(IDLE, swap_bytes=total, swap_used_bytes=0)
    assert text == {one.key: one.text for one in memory_and_load(None, system, 8)}["swap"]


def test_the_libraries_of_this_process_are_asked() -> None:
    """The BLAS of numpy has a pool, and ONNX Runtime decides by itself where nothing is set."""
    found = read_threads({"OMP_NUM_THREADS": "1"})
    assert min(found["blas_threads"].values()) >= 1
    assert (0, 1) == (found["onnxruntime_default_threads"], found["onnxruntime_scenario_threads"])
    assert {"OMP_NUM_THREADS": "1"} == found["thread_settings"]


EIGHT = (-0.004, -0.003, -0.002, -0.001, 0.001, 0.002, 0.003, 0.004)  # log ratios
QUIET = Snapshot(switches=0, cpu=MachineCpuTime(1.0, 0.0, 100.0), load=0.1, wall_s=0.0)


def calm() -> Snapshot:
    return QUIET


def seen(changes: Sequence[float], lost: str = "") -> SelfComparison:
    return SelfComparison(
        changes=tuple(changes), latency_s=1e-4 if changes else None, seconds=1.5 * len(changes), lost=lost
    )


def text_of(changes: Sequence[float], lost: str = "") -> str:
    return "\n".join(render_noise(read_noise(lambda: seen(changes, lost), calm)))


def test_a_quiet_machine_needs_the_fewest_pairs() -> None:
    """Eight, by 2^-8 < 0.4 %; 2 % is the margin itself."""
    noise = noise_of(seen(EIGHT))
    assert (
        PairsNeeded(change=0.02, pairs=None, reason="within the margin"),
        PairsNeeded(change=0.05, pairs=8, reason=""),
        PairsNeeded(change=0.10, pairs=8, reason=""),
    ) == noise.needs
    assert (0.01, 0.004, 0.02, 8) == (noise.alpha, noise.level, noise.margin, noise.pairs)


def test_ten_times_the_noise_takes_more_pairs() -> None:
    """The smallest value lies 4 % below the centre and 5 % leave 0.029 of log above the margin: 8 × (0.04 / 0.029)²."""
    small = noise_of(seen([10 * change for change in EIGHT])).needs[1]
    room = math.log1p(0.05) - math.log1p(0.02)
    assert math.ceil(8 * (0.04 / room) ** 2) == small.pairs == 16


def test_noise_beyond_every_build_says_so() -> None:
    """30 % between the sides."""
    noise = noise_of(seen([75 * change for change in EIGHT]))
    assert (None, "more than 60 pairs") == (noise.needs[1].pairs, noise.needs[1].reason)
    assert "a 5 % slowdown needs more than 60 pairs" in text_of([75 * change for change in EIGHT])


def test_the_reading_is_reported_in_plain_words() -> None:
    """With its n, its method and what a pair takes."""
    text = text_of(EIGHT)
    assert "8 pairs of equal fresh processes took 12.0 s" in text
    assert "differed by -0.40 % .. +0.40 %, by +0.00 % in the median pair" in text
    assert "On this machine now a 5 % slowdown needs about 8 pairs of fresh processes (12 s)" in text
    assert "a 2 % slowdown is never called, as it lies within the default margin." in text
    assert "exact signed ranks beyond a margin of 2 %, at 0.4 %, the first look of 1 % false alarms per build" in text


def test_too_few_pairs_are_no_reading() -> None:
    """Seven values have no bound at this level."""
    text = text_of(EIGHT[:7])
    assert "the gate's test takes 8 pairs at least. Give more --seconds." in text
    assert "slowdown needs about" not in text
    assert ["too few pairs to say"] * 2 == [need.reason for need in noise_of(seen(EIGHT[:7])).needs[1:]]


def test_no_pair_at_all_is_reported() -> None:
    assert "No pair of equal processes gave a value: the time was too short; give more." == text_of(())


def test_a_process_that_was_lost_is_reported_and_the_rest_goes_on() -> None:
    def read() -> SelfComparison:
        raise WorkerError("the process ended with code 3")

    noise = read_noise(read, calm)
    assert (0, "the process ended with code 3") == (noise.pairs, noise.reason)
    assert "gave a value: the process ended with code 3." in "\n".join(render_noise(noise))


def test_a_reading_that_ended_early_says_why() -> None:
    assert "It ended early: 3 pairs were lost." in text_of(EIGHT, "3 pairs were lost")


def test_what_disturbed_the_reading_stands_below_it() -> None:
    moments = iter([QUIET, QUIET._replace(cpu=MachineCpuTime(1.0, 10.0, 200.0), wall_s=1.0)])
    noise = read_noise(lambda: seen(EIGHT), lambda: next(moments))
    assert "Meanwhile the host took 10 % of the CPU time for others (steal)." == render_noise(noise)[-1]


@pytest.mark.live
def test_equal_processes_really_take_turns() -> None:
    """However noisy the machine: at least one pair is completed, and its values are ratios of like to like."""
    noise = listen(8.0)
    assert "" == noise.reason
    assert noise.pairs >= 1
    assert noise.latency_s is not None
    assert all(-0.9 < difference < 9 for difference in noise.differences)
