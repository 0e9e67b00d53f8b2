"""CUDA_VISIBLE_DEVICES in each of its forms, and waiting for PyTorch and CuPy, where they are there and busy."""

import pytest
from fakes.nvml import FakeCupy, FakeTorchCuda, torch_with

from pytest_hwperf.host.nvidia import synchronise, uses_cuda
from pytest_hwperf.meters.nvml_library import Board, visible_boards
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable

UUIDS = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-89a00000-0000-0000-0000-000000000001",
    "GPU-11111111-2222-3333-4444-555555555555",
)
INSTANCE = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"


def boards(*models: str) -> tuple[Board, ...]:
    return tuple(
        Board(index=index, uuid=UUIDS[index], model=model, handle=object()) for index, model in enumerate(models)
    )


THREE = boards("A100", "A100", "A100")
MIXED = boards("T4", "A100", "A100")


def holder(instance: str) -> str:
    return UUIDS[2] if instance == INSTANCE else ""


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("1", [1]),
        ("2,0", [0, 2]),
        (" 0 , 2 ", [0, 2]),
        ("0,2,-1,1", [0, 2]),
        ("0,7,1", [0]),
        ("0,nonsense,1", [0]),
        (UUIDS[1], [1]),
        ("GPU-893,GPU-1", [0, 2]),
        ("0,GPU-89,1", [0]),
        ("1,GPU-8932f937", [0, 1]),
        (INSTANCE, [2]),
        (f"MIG-{UUIDS[1]}/3/0", [1]),
    ],
)
def test_the_boards_are_those_that_cuda_shows(text: str, indices: list[int]) -> None:
    """Whatever follows an unknown or ambiguous name is hidden."""
    seen = visible_boards(THREE, {"CUDA_VISIBLE_DEVICES": text}, holder)
    assert indices == [board.index for board in seen]


@pytest.mark.parametrize("text", ["", "-1", "7", "NoDevFiles", "GPU-89", "GPU-9", "MIG-gone,0", f"MIG-{UUIDS[1]}0/3/0"])
def test_a_text_that_shows_no_board_is_refused(text: str) -> None:
    """Empty, unknown, or the beginning of two names."""
    with pytest.raises(MeterUnavailable) as caught:
        visible_boards(THREE, {"CUDA_VISIBLE_DEVICES": text}, holder)
    assert str(caught.value).startswith(f"CUDA_VISIBLE_DEVICES={text!r} shows this process no board. Unset it, or")


def test_without_the_variable_all_boards_are_visible() -> None:
    assert THREE == visible_boards(THREE, {}, holder)


def test_hidden_boards_are_named_with_what_to_write() -> None:
    with pytest.raises(MeterUnavailable, match=rf"Unset it, or name one of 0 \({UUIDS[0]}\), 1 \({UUIDS[1]}\), 2"):
        visible_boards(THREE, {"CUDA_VISIBLE_DEVICES": ""}, holder)


def test_a_number_among_unequal_boards_is_refused() -> None:
    """CUDA's 0 is the fastest board, NVML's the first by address: the energy would be another board's."""
    with pytest.raises(MeterUnavailable, match=r"among A100, T4\. Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name boards by"):
        visible_boards(MIXED, {"CUDA_VISIBLE_DEVICES": "0"}, holder)


@pytest.mark.parametrize(
    ("environ", "indices"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": UUIDS[0]}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "2,1,0"}, [0, 1, 2]),
        ({}, [0, 1, 2]),
    ],
)
def test_unequal_boards_are_chosen_by_what_cannot_be_mistaken(environ: dict[str, str], indices: list[int]) -> None:
    """By address, by UUID, or all of them in whatever order."""
    assert indices == [board.index for board in visible_boards(MIXED, environ, holder)]


def test_a_board_that_is_named_twice_is_refused() -> None:
    """CUDA shows no device then."""
    with pytest.raises(MeterUnavailable, match="names a board twice: CUDA shows none then"):
        visible_boards(THREE, {"CUDA_VISIBLE_DEVICES": "1,1"}, holder)


@pytest.mark.parametrize("text", ["9" * 5000, "\u0661"])
def test_numbers_that_cuda_does_not_read_are_no_boards(text: str) -> None:
    """Too long for a number, or digits of another script."""
    with pytest.raises(MeterUnavailable, match="shows this process no board"):
        visible_boards(THREE, {"CUDA_VISIBLE_DEVICES": text}, holder)


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


def test_work_that_failed_is_reported_in_one_line() -> None:
    cuda = FakeTorchCuda()
    cuda.failure = "CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA"
    with pytest.raises(MeasurementError) as caught:
        synchronise(torch_with(cuda))
    assert "torch could not be waited for: CUDA error: an illegal memory access was encountered" == str(caught.value)
