"""Terminals and logs that keep what is written to them."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class FakeScreen:
    """Implements the protocol Screen."""

    is_live: bool = True
    width: int = 100
    written: list[str] = field(default_factory=list)
    told: Callable[[], None] = lambda: None  # is called before each writing

    def write(self, text: str) -> None:
        self.told()
        self.written.append(text)

    @property
    def texts(self) -> list[str]:
        """What was shown one after the other, "" where the line was removed."""
        return [text.rpartition("\r")[2] for text in self.written]
