"""Counters of energy as a meter sees them: whatever the kernel calls them, they go up, and some start again at 0."""

from dataclasses import dataclass
from typing import Protocol

from pytest_hwperf.core.errors import MeasurementError


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """One counter that belongs to the sum."""

    id: str  # for errors, unique: "intel-rapl:0:1", "energy-pkg of CPU 0", "GPU 0"
    name: str  # its domain, for the label: "package-0", "dram", "pkg", "ram", "0"
    joules: float  # per count
    last: int | None  # the last count before it starts again at 0; None = it never does, or nobody knows
    restless: bool  # whether standing still over a whole window is a defect, as of a package or a board

    def spent(self, before: int, after: int) -> int:
        """Return the counts between two values of a counter that started again at 0 once at most.

        The true modulus of RAPL is one unit (61 µJ at most) above `last`, so that a wrap is off by less than that.

        Raises:
            MeasurementError: it went down without a known range, or stood above its range.
        """
        if self.last is None:
            if after < before:
                raise MeasurementError(f"{self} went down, and where it starts again at 0 is not known")
            return after - before
        if max(before, after) > self.last:
            raise MeasurementError(f"{self} reads {max(before, after)}, above its range of {self.last}")
        return after - before if after >= before else after - before + self.last + 1

    def __str__(self) -> str:
        return f"{self.id} ({self.name})"


class Counters(Protocol):
    """The counters of one source, held open."""

    @property
    def registers(self) -> tuple[Register, ...]:
        """In the order of `read`."""
        ...

    def read(self) -> tuple[int, ...]:
        """Return all counts, read as close together as can be.

        Raises:
            MeasurementError: one of them gave none; says which, and what it answered.
        """
        ...

    def close(self) -> None:
        """Give back what is held open; closing twice does nothing."""
        ...
