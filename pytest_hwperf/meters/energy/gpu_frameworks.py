"""Frameworks that may have work on a GPU: asked only where somebody has imported them already."""

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_hwperf.core.errors import MeasurementError


def synchronise(modules: Mapping[str, Any]) -> None:
    """Wait until PyTorch and CuPy have finished what was given to the boards.

    Calls return before their work is done. Other frameworks must be waited for in the measured call itself.

    Args:
        modules: those imported, by name.

    Raises:
        MeasurementError: the work has failed; says which framework's, and how.
    """
    for name, wait in (("torch", _wait_for_torch), ("cupy", _wait_for_cupy)):
        module = modules.get(name)
        if module is None:
            continue
        try:
            wait(module)
        except RuntimeError as error:  # so both of them tell what CUDA answers
            cause = str(error).partition("\n")[0]
            raise MeasurementError(f"{name} could not be waited for: {cause}") from error


def uses_cuda(modules: Mapping[str, Any]) -> bool:
    """Whether PyTorch has begun to use a GPU."""
    torch = modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _wait_for_torch(torch: Any) -> None:
    if torch.cuda.is_initialized():
        for device in _used(torch):
            torch.cuda.synchronize(device)


def _used(torch: Any) -> Iterator[int]:
    """The present device and those that hold memory: to wait for an unused one would start it up."""
    present = torch.cuda.current_device()
    for device in range(torch.cuda.device_count()):
        if device == present or _holds_memory(torch, device):
            yield device


def _holds_memory(torch: Any, device: int) -> bool:
    try:
        return bool(torch.cuda.memory_reserved(device))
    except RuntimeError:
        return True  # an allocator of the user's does not tell: better wait than count work that is not done


def _wait_for_cupy(cupy: Any) -> None:
    cupy.cuda.Device().synchronize()
