"""The store that a command names."""

from pathlib import Path

from pytest_hwperf import registry
from pytest_hwperf.core.contracts import Store
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.history import HistoryStore
from pytest_hwperf.stores.location import locate

DEFAULT = "json:.hwperf"
HELP = "as --hwperf-store, a folder or file being relative to the current folder"


def open_store(url: str, given: str = "--store") -> tuple[Store, str]:
    """Open a store; return also where it is."""
    try:
        scheme, location = locate(url, Path.cwd())
    except ValueError as problem:
        raise UsageProblem(f"{given}={problem}") from problem
    store: Store = registry.find("stores", scheme)(location)
    return store, str(location)


def open_history(url: str) -> HistoryStore:
    """Open a store that remembers runs over time."""
    store, _ = open_store(url)
    if not isinstance(store, HistoryStore):
        raise UsageProblem(f"--store={url} keeps no history: give json:… or sql:…")
    return store
