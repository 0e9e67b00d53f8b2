"""Whether this process has an NVIDIA GPU: the one place that knows, by what the driver shows in /proc and /dev.

No library is needed, and none is asked: one that lacks something on a machine with a GPU says that there is none.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.host.files import read_text
from pytest_hwperf.records.errors import MeasurementError

_DRIVER = Path("proc/driver/nvidia")
_MODULE = Path("sys/module/nvidia/version")
_DEVICE = re.compile(r"nvidia\d+")  # in /dev; what sandboxes such as gVisor show, whose /proc lacks the driver's folder
_WSL = (Path("dev/dxg"), Path("usr/lib/wsl/lib/libcuda.so.1"))  # of Windows' driver; the first is there for any GPU
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_UNNAMED = "NVIDIA GPU"
_HIDING = ("", "-1", "none", "NoDevFiles")
_NUMBER = re.compile(r"\b\d{3}\.\d+(?:\.\d+)*\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaGpus:
    """GPUs that this process may use, in the order of their PCI addresses."""

    models: tuple[str, ...]  # () where there are none
    driver: str  # its version, "" where it does not tell
    why_none: str = ""  # where there are none

    @property
    def name(self) -> str:
        """What a program finds that takes the first one; where models differ, it is not known which that is."""
        return " or ".join(sorted(set(self.models)))

    def __str__(self) -> str:
        return f"{self.name}, driver {self.driver}" if self.driver else self.name


def find_nvidia_gpus(environ: Mapping[str, str], root: str | Path = "/") -> NvidiaGpus:
    """Find the GPUs of this machine; no process is started and nothing is loaded for it."""
    place = Path(root)
    driver = _NUMBER.search(read_text(place / _DRIVER / "version") or read_text(place / _MODULE))
    models = _models(place)
    hidden = environ.get(_VISIBLE)
    why = "" if models else f"there is none in {place / _DRIVER / 'gpus'}, and no {place / 'dev' / 'nvidia0'}"
    if models and hidden is not None and hidden.split(",")[0].strip() in _HIDING:
        models, why = (), f"{_VISIBLE}={hidden!r} hides all of them"
    return NvidiaGpus(models=models, driver=driver[0] if driver else "", why_none=why)


def _models(root: Path) -> tuple[str, ...]:
    """Return a name for each GPU: where the driver's folder is hidden there are only devices, which have none."""
    if found := sorted((root / _DRIVER / "gpus").glob("*/information")):
        names = (re.search(r"^Model:\s*(.+?)\s*$", read_text(file), re.MULTILINE) for file in found)
        return tuple(name[1] if name else _UNNAMED for name in names)
    devices = [file for file in (root / "dev").glob("nvidia*") if _DEVICE.fullmatch(file.name)]
    of_windows = all((root / part).exists() for part in _WSL)
    return (_UNNAMED,) * (len(devices) or of_windows)


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
    cuda = modules["torch"].cuda
    return tuple(
        _reported(lambda board: cuda.memory_stats(board).get(_ALLOCATED, 0), device, unknown=0)
        for device in range(cuda.device_count())
    )


def forget_peak(modules: Mapping[str, Any]) -> int:
    """Forget the peaks of PyTorch's allocator, which uses a GPU, and return the bytes that it has given out now."""
    cuda = modules["torch"].cuda
    _added_up(modules, cuda.reset_peak_memory_stats)
    return _added_up(modules, cuda.memory_allocated)


def memory_peak(modules: Mapping[str, Any]) -> int:
    """Return the most bytes that PyTorch's allocator has given out at once since then, on each device, added up."""
    return _added_up(modules, modules["torch"].cuda.max_memory_allocated)


def _added_up(modules: Mapping[str, Any], ask: Callable[[int], Any]) -> int:
    """Ask PyTorch's allocator about each device; the answers are bytes, or nothing."""
    try:
        return sum(int(ask(device) or 0) for device in range(modules["torch"].cuda.device_count()))
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
    """Wait for the current device and those with memory in use: waiting for an unused one would initialise it."""
    if torch.cuda.is_initialized():
        current = torch.cuda.current_device()
        for device in range(torch.cuda.device_count()):
            # Where a custom allocator does not report it, rather wait than count work that is not done.
            if device == current or _reported(torch.cuda.memory_reserved, device, unknown=1):
                torch.cuda.synchronize(device)


def _reported(ask: Callable[[int], Any], device: int, *, unknown: int) -> int:
    """Return a number of PyTorch's allocator on a device; what a custom allocator does not report is `unknown`."""
    try:
        return int(ask(device))
    except RuntimeError:
        return unknown
