"""Switches of PyTorch that a scenario sets: the layout of images, and oneDNN, which PyTorch calls mkldnn."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.scenarios.torch_modules import FittedModule

_IMAGE = 3  # axes of a row: channels, height, width
_KERNEL = 4  # axes of the weights of a convolution of images


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What a scenario asks of PyTorch; by default what the program has."""

    channels_last: bool = False  # weights and rows of images are laid out with the channels last
    without_mkldnn: bool = False  # operators are PyTorch's own, where oneDNN has faster ones

    def require(self, fitted: FittedModule) -> None:
        """Refuse a module or a PyTorch for which a switch changes nothing."""
        import torch

        kernels = any(one.dim() == _KERNEL for one in fitted.model.parameters())
        if self.channels_last and not (len(fitted.shape) == _IMAGE and kernels):
            raise ScenarioUnavailable(
                f"channels_last is about convolutions of images, rows of shape (channels, height, width): "
                f"{fitted.kind} takes rows of shape {fitted.shape}" + ("" if kernels else " and has no convolution")
            )
        if self.without_mkldnn and not torch.backends.mkldnn.is_available():
            raise ScenarioUnavailable("this PyTorch has no oneDNN (torch.backends.mkldnn.is_available())")

    def conditions(self) -> dict[str, str]:
        """Return what is not as usual; the program itself may have switched oneDNN off."""
        import torch

        off = self.without_mkldnn or not torch.backends.mkldnn.enabled
        return {
            **({"memory_format": "channels_last"} if self.channels_last else {}),
            **({"mkldnn": "off"} if off else {}),
        }

    def module(self, module: Any) -> Any:
        """Lay the weights of a module out, which is a copy."""
        import torch

        return module.to(memory_format=torch.channels_last) if self.channels_last else module

    def rows(self, rows: Any) -> Any:
        """Lay a tensor of rows out, before any call is timed."""
        import torch

        return rows.contiguous(memory_format=torch.channels_last) if self.channels_last else rows

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the switches while calls are made, and give the program back its own."""
        import torch

        before = torch.backends.mkldnn.enabled
        torch.backends.mkldnn.enabled = before and not self.without_mkldnn
        try:
            yield
        finally:
            torch.backends.mkldnn.enabled = before


AS_IT_IS = Switches()
CHANNELS_LAST = Switches(channels_last=True)
WITHOUT_MKLDNN = Switches(without_mkldnn=True)


_TRACE = "torch.__trace"


@contextmanager
def untraced_compiler() -> Iterator[None]:
    """Take away whoever listens to the trace beside PyTorch itself, which TORCH_TRACE asks to write it to a file.

    pytest listens to every logger that keeps its records to itself: hundreds of them would be made within the timed
    first call, and shown with a failed test.
    """
    log = logging.getLogger(_TRACE)
    others = [handler for handler in log.handlers if type(handler).__module__.partition(".")[0] != "torch"]
    for handler in others:
        log.removeHandler(handler)
    try:
        yield
    finally:
        for handler in others:
            log.addHandler(handler)
