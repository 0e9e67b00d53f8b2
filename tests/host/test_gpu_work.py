"""Whether a call has given work to a GPU, and how it is waited for."""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fakes.nvml import FakeCupy, FakeTorchCuda, torch_with

from pytest_hwperf.host.nvidia import allocations, is_on_gpu, waiter

TENSOR = SimpleNamespace(is_cuda=True)
CUPY_ARRAY = type("ndarray", (), {"__module__": "cupy"})()


@pytest.mark.parametrize(
    ("value", "there"),
    [
        (TENSOR, True),
        ((TENSOR, 1), True),
        ({"logits": TENSOR}, True),
        (CUPY_ARRAY, True),
        (SimpleNamespace(is_cuda=False), False),
        ([], False),
        ({}, False),
        (None, False),
        ("text", False),
    ],
)
def test_values_on_a_gpu_are_known(value: Any, there: bool) -> None:
    assert there == is_on_gpu(value)


def test_memory_that_was_taken_on_a_gpu_is_counted() -> None:
    """A board whose allocator does not tell counts nothing."""
    assert (7, 0) == allocations(torch_with(FakeTorchCuda(held=(7, None))))


@pytest.mark.parametrize("modules", [{}, torch_with(FakeTorchCuda(initialised=False))])
def test_without_a_gpu_in_use_nothing_is_counted(modules: dict[str, ModuleType]) -> None:
    assert () == allocations(modules)


def test_a_single_board_is_waited_for_directly() -> None:
    cuda = FakeTorchCuda()

    waiter(torch_with(cuda))()
    assert [0] == cuda.waited


def test_of_several_boards_those_in_use_are_waited_for() -> None:
    cuda = FakeTorchCuda(held=(0, 0, 4096))
    waiter(torch_with(cuda))()
    assert [0, 2] == cuda.waited


def test_cupy_is_waited_for_too() -> None:
    cupy, cuda = FakeCupy(), FakeTorchCuda()

    waiter({**torch_with(cuda), "cupy": cupy})()
    assert (1, [0]) == (cupy.waits, cuda.waited)
