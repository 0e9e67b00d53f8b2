"""Whether this process has an NVIDIA GPU: the one place that knows, by what the driver shows in /proc and /dev.

No library is needed, and none is asked: one that lacks something on a machine with a GPU says that there is none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.host.files import read_text

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
    driver = _NUMBER.search(read_text(place / _DRIVER / "version") or read_text(place / _MODULE) or "")
    models = _models(place)
    hidden = environ.get(_VISIBLE)
    why = "" if models else f"there is none in {place / _DRIVER / 'gpus'}, and no {place / 'dev' / 'nvidia0'}"
    if models and hidden is not None and hidden.split(",")[0].strip() in _HIDING:
        models, why = (), f"{_VISIBLE}={hidden!r} hides all of them"
    return NvidiaGpus(models=models, driver=driver[0] if driver else "", why_none=why)


def _models(root: Path) -> tuple[str, ...]:
    """Return a name for each GPU: where the driver's folder is hidden there are only devices, which have none."""
    found = sorted((root / _DRIVER / "gpus").glob("*/information"))
    if found:
        return tuple(_model(read_text(file) or "") for file in found)
    devices = [file for file in (root / "dev").glob("nvidia*") if _DEVICE.fullmatch(file.name)]
    of_windows = all((root / part).exists() for part in _WSL)
    return (_UNNAMED,) * (len(devices) or of_windows)


def _model(information: str) -> str:
    """Return the model that the text of a GPU names, as "NVIDIA H100 80GB HBM3"."""
    found = re.search(r"^Model:\s*(.+?)\s*$", information, re.MULTILINE)
    return found[1] if found else _UNNAMED
