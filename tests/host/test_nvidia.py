"""NVIDIA GPUs: as their driver shows them, and whether a call has given them work."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def test_the_environment_may_hide_all(tmp_path: Path) -> None:
    root = machine(tmp_path, "Tesla T4")
    for hidden in ("", "-1", " -1,0", "NoDevFiles"):
        found = find_nvidia_gpus({"CUDA_VISIBLE_DEVICES": hidden}, root)
        assert ((), f"CUDA_VISIBLE_DEVICES={hidden!r} hides all of them") == (found.models, found.why_none)


def test_a_machine_without_says_where_it_was_looked_for(tmp_path: Path) -> None:
    found = find_nvidia_gpus({}, tmp_path)
    assert ((), "") == (found.models, found.driver)
    assert f"there is none in {tmp_path}/proc/driver/nvidia/gpus, and no {tmp_path}/dev/nvidia0" == found.why_none


def touched(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("535.183.06\n")
    return root


def test_devices_show_it_where_the_driver_has_no_folder(tmp_path: Path) -> None:
    places: dict[str, tuple[tuple[str, ...], int, str]] = {
        "a sandbox": (("dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "sys/module/nvidia/version"), 2, "535.183.06"),
        "only the driver's": (("dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-caps/nvidia-cap1"), 0, ""),
        "WSL": (("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"), 1, ""),
        "a GPU of another maker": (("dev/dxg",), 0, ""),
    }
    for name, (files, count, driver) in places.items():
        found = find_nvidia_gpus({}, touched(tmp_path / name, *files))
        assert (("NVIDIA GPU",) * count, driver) == (found.models, found.driver)
        assert bool(found.why_none) == (count == 0)


def test_a_gpu_is_named_with_its_driver_if_that_is_known(tmp_path: Path) -> None:
    named = find_nvidia_gpus({}, machine(tmp_path, "Tesla T4"))
    nameless = find_nvidia_gpus({}, touched(tmp_path / "other", "dev/nvidia0"))
    assert ("Tesla T4, driver 560.35.03", "NVIDIA GPU") == (str(named), str(nameless))


TENSOR = SimpleNamespace(is_cuda=True)
CUPY_ARRAY = type("ndarray", (), {"__module__": "cupy"})()


def test_values_on_a_gpu_are_known() -> None:
    there: list[Any] = [TENSOR, (TENSOR, 1), {"logits": TENSOR}, CUPY_ARRAY]
    assert there == [v for v in (*there, SimpleNamespace(is_cuda=False), [], {}, None, "text") if is_on_gpu(v)]


def test_memory_that_was_taken_on_a_gpu_is_counted() -> None:
    """A board whose allocator does not tell counts nothing."""
    assert (7, 0) == allocations(torch_with(FakeTorchCuda(held=(7, None))))


def test_without_a_gpu_in_use_nothing_is_counted() -> None:
    assert () == allocations({}) == allocations(torch_with(FakeTorchCuda(initialised=False)))


def test_a_single_board_is_waited_for_and_of_several_those_in_use() -> None:
    for held, waited in (((0,), [0]), ((0, 0, 4096), [0, 2])):
        cuda = FakeTorchCuda(held=held)
        waiter(torch_with(cuda))()
        assert waited == cuda.waited


def test_cupy_is_waited_for_too() -> None:
    cupy, cuda = FakeCupy(), FakeTorchCuda()
    waiter({**torch_with(cuda), "cupy": cupy})()
    assert (1, [0]) == (cupy.waits, cuda.waited)
