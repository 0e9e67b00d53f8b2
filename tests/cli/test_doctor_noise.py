"""What equal pairs mean for finding a slowdown."""

import math
from collections.abc import Sequence

import pytest

from pytest_hwperf.cli.doctor_noise import PairsNeeded, listen, noise_of, read_noise, render_noise
from pytest_hwperf.gate.models import SelfComparison
from pytest_hwperf.host.disturbance import MachineCpuTime, Snapshot
from pytest_hwperf.records.errors import WorkerError

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
