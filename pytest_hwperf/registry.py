"""The registry of scenarios, energy meters and stores: entry points, found by name, built-in ones too."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem

Kind = Literal["scenarios", "energy_meters", "stores"]


def names(kind: Kind) -> tuple[str, ...]:
    """Return every registered name of that kind, sorted."""
    return tuple(sorted(_registered(kind)))


def check(kind: Kind, name: str) -> None:
    """Refuse a name that is not registered, without loading anything.

    Raises:
        UsageProblem: says which names there are and which is the nearest.
    """
    found = _registered(kind)
    if name not in found:
        word = kind.removesuffix("s").replace("_", " ")
        raise UsageProblem(f"unknown {word} {name!r}.{nearest(name, found)} Allowed: {', '.join(sorted(found))}")


def find(kind: Kind, name: str) -> Any:
    """Load what is registered under `name`: only now are its heavy libraries imported.

    Raises:
        UsageProblem: the name is not registered.
    """
    check(kind, name)
    return _registered(kind)[name].load()


def _registered(kind: Kind) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"pytest_hwperf.{kind}")}
