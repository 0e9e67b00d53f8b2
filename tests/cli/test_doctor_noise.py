"""What equal pairs mean for finding a slowdown, and how busy the machine was meanwhile."""

import math
from collections.abc import Callable, Sequence

from pytest_hwperf.cli.doctor_noise import PairsNeeded, noise_of, read_noise, read_threads, render_noise
from pytest_hwperf.gate.models.compare import SelfComparison
from pytest_hwperf.host.disturbance import MachineCpuTime, Snapshot
from pytest_hwperf.records.errors import WorkerError


def test_the_libraries_of_this_process_are_asked() -> None:
    """The BLAS of numpy has a pool, and ONNX Runtime decides by itself where nothing is set."""
    found = read_threads({"OMP_NUM_THREADS": "1"})
    assert min(found["blas_threads"].values()) >= 1
    assert (0, 1) == (found["onnxruntime_default_threads"], found["onnxruntime_scenario_threads"])
    assert {"OMP_NUM_THREADS": "1"} == found["thread_settings"]


EIGHT = (-0.004, -0.003, -0.002, -0.001, 0.001, 0.002, 0.003, 0.004)  # log ratios
QUIET = Snapshot(switches=0, cpu=MachineCpuTime(1.0, 0.0, 100.0), load=0.1, wall_s=0.0)


def seen(changes: Sequence[float], lost: str = "") -> SelfComparison:
    return SelfComparison(
        changes=tuple(changes), latency_s=1e-4 if changes else None, seconds=1.5 * len(changes), lost=lost
    )


def lost() -> SelfComparison:
    raise WorkerError("the process ended with code 3")


MOMENTS = (QUIET, QUIET._replace(cpu=MachineCpuTime(1.0, 10.0, 200.0), wall_s=1.0))  # the host took a tenth
READINGS: Sequence[tuple[Callable[[], SelfComparison], Sequence[Snapshot]]] = (
    (lambda: seen(EIGHT), (QUIET, QUIET)),
    (lambda: seen([75 * change for change in EIGHT]), (QUIET, QUIET)),  # 30 % between the sides
    (lambda: seen(EIGHT[:7]), (QUIET, QUIET)),  # seven values have no bound at this level
    (lambda: seen(()), (QUIET, QUIET)),
    (lost, (QUIET, QUIET)),
    (lambda: seen(EIGHT, "3 pairs were lost"), MOMENTS),
)


def test_readings_are_told_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    """With their n, their method and what a pair takes; what disturbed them stands below."""
    told = [[*render_noise(read_noise(read, iter(moments).__next__)), ""] for read, moments in READINGS]
    golden("doctor/noise.txt", "\n".join(line for lines in told for line in lines).encode())


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
