"""Work that this process has given to GPUs: whether there is any, and how it is waited for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pytest_hwperf.core.errors import MeasurementError

_ALLOCATED = "allocation.all.allocated"  # how often PyTorch's allocator has given memory, ever


def synchronise(modules: Mapping[str, Any]) -> None:
    """Wait until PyTorch and CuPy have finished their work on the boards.

    Calls return before their work is done. Other frameworks must be waited for in the measured call itself.
    """
    for name, wait in (("torch", _wait_for_torch), ("cupy", lambda cupy: cupy.cuda.Device().synchronize())):
        module = modules.get(name)
        if module is None:
            continue
        try:
            wait(module)
        except RuntimeError as error:  # both raise it with the answer of CUDA
            cause = str(error).partition("\n")[0]
            raise MeasurementError(f"{name} could not be waited for: {cause}") from error


def uses_cuda(modules: Mapping[str, Any]) -> bool:
    """Whether PyTorch has begun to use a GPU."""
    torch = modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def waiter(modules: Mapping[str, Any]) -> Callable[[], object]:
    """Return what waits for all work, as cheap as it can be: it is called after each timed call."""
    torch = modules.get("torch")
    if torch is not None and modules.get("cupy") is None and torch.cuda.device_count() == 1:
        wait: Callable[[], object] = torch.cuda.synchronize
        return wait
    return partial(synchronise, modules)


def allocations(modules: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how often PyTorch has taken memory on each board: what a call on a GPU increases; () without its use."""
    if not uses_cuda(modules):
        return ()
    torch = modules["torch"]
    return tuple(_allocated(torch, device) for device in range(torch.cuda.device_count()))


def forget_peak(modules: Mapping[str, Any]) -> int:
    """Forget the peaks of PyTorch's allocator, which uses a GPU, and return the bytes that it has given out now."""
    cuda = modules["torch"].cuda
    with _told():
        for device in range(cuda.device_count()):
            cuda.reset_peak_memory_stats(device)
        return sum(int(cuda.memory_allocated(device)) for device in range(cuda.device_count()))


def memory_peak(modules: Mapping[str, Any]) -> int:
    """Return the most bytes that PyTorch's allocator has given out at once since then, on each device, added up."""
    cuda = modules["torch"].cuda
    with _told():
        return sum(int(cuda.max_memory_allocated(device)) for device in range(cuda.device_count()))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise MeasurementError(f"PyTorch's allocator does not report its memory: {error}") from error


def is_on_gpu(value: Any) -> bool:
    """Whether a value is an array on a GPU, or a sequence or mapping that begins with one."""
    if isinstance(value, Mapping):
        value = next(iter(value.values()), None)
    elif isinstance(value, list | tuple):
        value = next(iter(value), None)
    return bool(getattr(value, "is_cuda", False)) or type(value).__module__.partition(".")[0] == "cupy"


def _wait_for_torch(torch: Any) -> None:
    if torch.cuda.is_initialized():
        for device in _used_devices(torch):
            torch.cuda.synchronize(device)


def _used_devices(torch: Any) -> Iterator[int]:
    """Yield the current device and those with memory in use: waiting for an unused one would initialise it."""
    current = torch.cuda.current_device()
    for device in range(torch.cuda.device_count()):
        if device == current or _has_memory(torch, device):
            yield device


def _has_memory(torch: Any, device: int) -> bool:
    try:
        return bool(torch.cuda.memory_reserved(device))
    except RuntimeError:
        return True  # a custom allocator does not report it: rather wait than count work that is not done


def _allocated(torch: Any, device: int) -> int:
    try:
        return int(torch.cuda.memory_stats(device).get(_ALLOCATED, 0))
    except RuntimeError:
        return 0  # as above
