"""The system call itself, tried on the clock that every Linux kernel counts in software."""

import os
import platform
import struct
from pathlib import Path

import pytest

from pytest_hwperf.meters.energy.perf_event import attributes, open_event

_SOFTWARE, _CPU_CLOCK = 1, 0  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK: nanoseconds
_NO_PMU = 2**31 - 1

on_x86_64_linux = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the call's number is that of x86-64 Linux"
)


def test_the_attributes_name_pmu_size_and_event_and_nothing_else() -> None:
    """Flags that exclude the kernel or the user would be refused by the power PMU."""
    packed = attributes(23, 2)

    assert 64 == len(packed)
    assert (23, 64, 2) == struct.unpack_from("=IIQ", packed)
    assert bytes(48) == packed[16:]


@on_x86_64_linux
def test_what_the_kernel_refuses_is_an_os_error() -> None:
    """There is no such PMU; without the right to ask, that is told first."""
    with pytest.raises(OSError, match="perf_event_open on CPU 0"):
        open_event(_NO_PMU, 0, 0)


@on_x86_64_linux
def test_an_opened_event_counts_from_now_on() -> None:
    """CPU 0's clock goes on by itself between two readings; the descriptor is not inherited."""
    try:
        descriptor = open_event(_SOFTWARE, _CPU_CLOCK, 0)
    except OSError as error:
        pytest.skip(f"this process may not count events of a whole CPU: {error}")
    first, second = (int.from_bytes(os.read(descriptor, 8), "little") for _ in range(2))
    inherited = os.get_inheritable(descriptor)
    os.close(descriptor)

    assert 0 < first < second
    assert not inherited
    assert not Path(f"/proc/self/fd/{descriptor}").exists()
