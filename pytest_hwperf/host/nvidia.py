"""NVIDIA GPUs of this machine and their driver, as it shows them in /proc; no library is needed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.host.files import read_text

_DRIVER = Path("proc/driver/nvidia")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
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


def find_nvidia_gpus(environ: Mapping[str, str], root: str | Path = "/") -> NvidiaGpus:
    """Find the GPUs of this machine; no process is started and nothing is loaded for it.

    Args:
        environ: CUDA_VISIBLE_DEVICES may hide them all.
        root: parent of /proc.
    """
    folder = Path(root) / _DRIVER
    driver = _NUMBER.search(read_text(folder / "version") or "")
    found = sorted((folder / "gpus").glob("*/information"))
    models = tuple(_model(read_text(file) or "") for file in found)
    hidden = environ.get(_VISIBLE)
    why = "" if models else f"there is none in {folder / 'gpus'}"
    if models and hidden is not None and hidden.split(",")[0].strip() in _HIDING:
        models, why = (), f"{_VISIBLE}={hidden!r} hides all of them"
    return NvidiaGpus(models=models, driver=driver[0] if driver else "", why_none=why)


def _model(information: str) -> str:
    """Return the model that the text of a GPU names, as "NVIDIA H100 80GB HBM3"."""
    found = re.search(r"^Model:\s*(.+?)\s*$", information, re.MULTILINE)
    return found[1] if found else "NVIDIA GPU"
