"""The registry of scenarios, energy meters and stores: entry points, found by name, built-in ones too."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.errors import MeterUnavailable, UsageProblem
from pytest_hwperf.records.markers import nearest_or_all

Group = Literal["scenarios", "energy_meters", "stores"]

# Tried in this order; the last one always works, and is labelled an estimate.
_ENERGY_SOURCES = ("rapl", "perf", "estimate")


def names(group: Group) -> tuple[str, ...]:
    """Return every registered name of that group, sorted."""
    return tuple(sorted(_registered(group)))


def check(group: Group, name: str) -> None:
    """Refuse a name that is not registered, without loading anything."""
    found = _registered(group)
    if name not in found:
        word = group.removesuffix("s").replace("_", " ")
        raise UsageProblem(f"unknown {word} {name!r}.{nearest_or_all(name, sorted(found))}")


def find(group: Group, name: str) -> Any:
    """Load what is registered under `name`: only now are its heavy libraries imported."""
    check(group, name)
    return _registered(group)[name].load()


def open_energy_meter(wanted: str, environment: Mapping[str, str], option: str) -> Meter | None:
    """Open the energy source that was asked for, None for `off`; `auto` takes the first that works."""
    if wanted == "off":
        return None
    refused = list[str]()
    for name in _ENERGY_SOURCES if wanted == "auto" else (wanted,):
        try:
            meter: Meter = find("energy_meters", name)(environment, refused=tuple(refused))
        except MeterUnavailable as reason:
            refused.append(f"{name}: {reason}")
        else:
            return meter
    raise UsageProblem(f"{option}={wanted}: {' '.join(refused)}")


def _registered(group: Group) -> Mapping[str, EntryPoint]:
    return _found(group, tuple(sys.path))


@cache
def _found(group: Group, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Look through all that is installed once for each `sys.path`; what is installed later is not seen."""
    del path
    return {point.name: point for point in entry_points(group=f"pytest_hwperf.{group}")}
