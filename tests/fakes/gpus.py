"""PyTorch with a GPU, as far as scenarios use it: what is asked of it is noted in order."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class FakeTensor:
    """A tensor that notes where it goes."""

    def __init__(self, events: list[str], *, floating: bool = True) -> None:
        self.events = events
        self._floating = floating

    def is_floating_point(self) -> bool:
        return self._floating

    def to(self, *where: object) -> "FakeTensor":
        self.events.append(f"to {' '.join(map(str, where))}")
        return self

    def cpu(self) -> "FakeTensor":
        self.events.append("cpu")
        return self


class FakeTorch:
    """PyTorch, which finds a GPU or not."""

    def __init__(self, *, built: str | None = "13.0", available: bool = True) -> None:
        self.events: list[str] = []
        self.version = SimpleNamespace(cuda=built)
        self.cuda = SimpleNamespace(
            is_available=lambda: available,
            synchronize=lambda device: self.events.append(f"synchronise {device}"),
        )

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        self.events.append("inference")
        yield
        self.events.append("over")

    def module(self, rows: Any) -> Any:
        """Compute."""
        self.events.append("compute")
        return rows
