"""NVIDIA GPUs: as their driver shows them, and whether a call has given them work."""

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fakes.nvml import FakeCupy, FakeTorchCuda, torch_with

from pytest_hwperf.host.nvidia import allocations, find_nvidia_gpus, is_on_gpu, waiter

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (root@)"


def machine(root: Path, *models: str) -> Path:
    folder = root / "proc" / "driver" / "nvidia"
    for number, model in enumerate(models):
        place = folder / "gpus" / f"0000:0{number}:00.0"
        place.mkdir(parents=True)
        place.joinpath("information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 16\n")
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("version").write_text(f"{VERSION}\nGCC version:  gcc version 12.2.0\n")
    return root


def test_models_and_driver_are_those_of_the_driver(tmp_path: Path) -> None:
    found = find_nvidia_gpus({}, machine(tmp_path, "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"))
    assert 2 == len(found.models)
    assert ("NVIDIA H100 80GB HBM3", "560.35.03", "") == (found.name, found.driver, found.why_none)


def test_one_without_a_name_is_one_and_which_of_different_ones_is_used_is_not_known(tmp_path: Path) -> None:
    root = machine(tmp_path, "Tesla T4", "NVIDIA A100")
    assert "NVIDIA A100 or Tesla T4" == find_nvidia_gpus({"CUDA_VISIBLE_DEVICES": "0"}, root).name
    next(root.rglob("information")).write_text("")
    assert "NVIDIA GPU" in find_nvidia_gpus({}, root).models


@pytest.mark.parametrize("hidden", ["", "-1", " -1,0", "NoDevFiles"])
def test_the_environment_may_hide_all(tmp_path: Path, hidden: str) -> None:
    found = find_nvidia_gpus({"CUDA_VISIBLE_DEVICES": hidden}, machine(tmp_path, "Tesla T4"))
    assert () == found.models
    assert f"CUDA_VISIBLE_DEVICES={hidden!r} hides all of them" == found.why_none


def test_a_machine_without_says_where_it_was_looked_for(tmp_path: Path) -> None:
    found = find_nvidia_gpus({}, tmp_path)
    assert ((), "") == (found.models, found.driver)
    assert f"there is none in {tmp_path}/proc/driver/nvidia/gpus, and no {tmp_path}/dev/nvidia0" == found.why_none


def touched(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("535.183.06\n")
    return root


@pytest.mark.parametrize(
    ("files", "count", "driver"),
    [
        (("dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "sys/module/nvidia/version"), 2, "535.183.06"),
        (("dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-caps/nvidia-cap1"), 0, ""),  # devices of the driver itself
        (("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"), 1, ""),
        (("dev/dxg",), 0, ""),  # a GPU of another maker
    ],
    ids=["a sandbox", "a container without a GPU", "WSL", "WSL without CUDA"],
)
def test_devices_show_it_where_the_driver_has_no_folder(
    tmp_path: Path, files: tuple[str, ...], count: int, driver: str
) -> None:
    found = find_nvidia_gpus({}, touched(tmp_path, *files))
    assert (("NVIDIA GPU",) * count, driver) == (found.models, found.driver)
    assert bool(found.why_none) == (count == 0)


def test_a_gpu_is_named_with_its_driver_if_that_is_known(tmp_path: Path) -> None:
    named = find_nvidia_gpus({}, machine(tmp_path, "Tesla T4"))
    nameless = find_nvidia_gpus({}, touched(tmp_path / "other", "dev/nvidia0"))
    assert ("Tesla T4, driver 560.35.03", "NVIDIA GPU") == (str(named), str(nameless))


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


@pytest.mark.parametrize(("held", "waited"), [((0,), [0]), ((0, 0, 4096), [0, 2])])
def test_a_single_board_is_waited_for_and_of_several_those_in_use(held: tuple[int, ...], waited: list[int]) -> None:
    cuda = FakeTorchCuda(held=held)
    waiter(torch_with(cuda))()
    assert waited == cuda.waited


def test_cupy_is_waited_for_too() -> None:
    cupy, cuda = FakeCupy(), FakeTorchCuda()

    waiter({**torch_with(cuda), "cupy": cupy})()
    assert (1, [0]) == (cupy.waits, cuda.waited)
