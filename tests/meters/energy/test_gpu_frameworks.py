"""Waiting for PyTorch and CuPy, where they are there and busy."""

import pytest
from fakes.nvml import FakeCupy, FakeTorchCuda, torch_with

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.meters.energy.gpu_frameworks import synchronise, uses_cuda


def test_torch_is_waited_for_on_the_devices_that_hold_memory() -> None:
    """Device 1 is unused, and waiting for it would start it up; device 3 does not tell."""
    cuda = FakeTorchCuda(held=(0, 0, 4096, None), present=0)
    synchronise(torch_with(cuda))

    assert [0, 2, 3] == cuda.waited


def test_torch_that_has_not_begun_is_left_alone() -> None:
    cuda = FakeTorchCuda(initialised=False)
    modules = torch_with(cuda)
    synchronise(modules)

    assert ([], False) == (cuda.waited, uses_cuda(modules))


def test_torch_that_has_begun_uses_a_board() -> None:
    assert uses_cuda(torch_with(FakeTorchCuda()))


def test_cupy_is_waited_for() -> None:
    cupy = FakeCupy()
    synchronise({"cupy": cupy})

    assert 1 == cupy.waits


def test_nothing_is_imported() -> None:
    """A module that is not there, or was barred with None, is nobody's work."""
    modules = {"torch": None}
    synchronise(modules)

    assert ({"torch": None}, False) == (modules, uses_cuda(modules))
    assert not uses_cuda({})


def test_work_that_failed_is_told_in_one_line() -> None:
    cuda = FakeTorchCuda()
    cuda.failure = "CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA"

    with pytest.raises(MeasurementError) as caught:
        synchronise(torch_with(cuda))
    assert "torch could not be waited for: CUDA error: an illegal memory access was encountered" == str(caught.value)
