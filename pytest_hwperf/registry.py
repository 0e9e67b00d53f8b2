"""The registry of scenarios, energy meters and stores: entry points, found by name, built-in ones too."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem

Group = Literal["scenarios", "energy_meters", "stores"]


def names(group: Group) -> tuple[str, ...]:
    """Return every registered name of that group, sorted."""
    return tuple(sorted(_registered(group)))


def check(group: Group, name: str) -> None:
    """Refuse a name that is not registered, without loading anything.

    Raises:
        UsageProblem: says which names there are and which is the nearest.
    """
    found = _registered(group)
    if name not in found:
        word = group.removesuffix("s").replace("_", " ")
        raise UsageProblem(f"unknown {word} {name!r}.{nearest(name, found)} Allowed: {', '.join(sorted(found))}")


def find(group: Group, name: str) -> Any:
    """Load what is registered under `name`: only now are its heavy libraries imported.

    Raises:
        UsageProblem: the name is not registered.
    """
    check(group, name)
    return _registered(group)[name].load()


def _registered(group: Group) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"pytest_hwperf.{group}")}
