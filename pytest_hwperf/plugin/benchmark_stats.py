"""What pytest-benchmark tells a test of its times, for bodies that look at it; it decides nothing here."""

from collections.abc import Sequence
from typing import Any, Protocol

from pytest_hwperf.core.round_statistics import Stats


class Described(Protocol):
    """What pytest-benchmark keeps of a test beside its statistics."""

    name: str
    fullname: str
    group: str | None
    param: str | None
    params: Any
    extra_info: dict[str, Any]


_MISSING = object()


class Metadata:
    """`benchmark.stats`: the statistics by name, as items or under `stats`, and what the test is called."""

    def __init__(self, described: Described, data: Sequence[float]) -> None:
        """Of the times of a test."""
        self.stats = Stats(data)
        self.name, self.fullname, self.group = described.name, described.fullname, described.group
        self.param, self.params, self.extra_info = described.param, described.params, described.extra_info

    def __getitem__(self, name: str) -> Any:
        found = self.get(name, _MISSING)
        if found is _MISSING:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return one statistic, or one name of the test."""
        return getattr(self.stats, name, getattr(self, name, default))
