"""The suspects of a drift: what the store's history of the anchored changes, and git, say about a red gate."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from pytest_hwperf.core.errors import HwperfError, StoreError
from pytest_hwperf.core.evidence import Gate
from pytest_hwperf.core.history import HistoryStore, Series
from pytest_hwperf.core.records import Judgement
from pytest_hwperf.core.suspects import drifted, explained, suspects_of
from pytest_hwperf.core.units import counted
from pytest_hwperf.plugin.session import session_of
from pytest_hwperf.trees.history import ends, history_between

_NAMED = 3  # tests
_NEWEST = 1000  # runs


def named(config: pytest.Config, judgements: Sequence[Judgement], gates: Sequence[Gate]) -> Iterator[str]:
    """Yield a sentence on each of some tests that are worse than the pinned release, and one on the others."""
    found = [*drifted(judgements, gates)]
    if not found:
        return
    chosen = found[:_NAMED]
    history = _history(config, [(one.run.test, one.run.label) for one, _, _ in chosen])
    for judgement, compared, gate in chosen:
        suspects = suspects_of(judgement, compared, gate, history)
        commits = None
        with suppress(HwperfError):  # a shallow clone, or a store of another repository
            good, bad = ends(config.rootpath, suspects.good, suspects.bad)
            if good == bad:
                continue  # what is slower is not committed
            commits = len(history_between(config.rootpath, good, bad, first_parent=False).commits)
        yield explained(suspects, commits)
    if len(found) > _NAMED:
        yield f"drift of {counted(len(found) - _NAMED, 'other test')} too: hwperf history TEST says since when"


def _history(config: pytest.Config, measured: Sequence[tuple[str, str]]) -> Sequence[Series]:
    """Read what the store has of some tests; nothing where there is none or it cannot be read, which saving says."""
    settings = session_of(config).settings
    with suppress(StoreError):
        store = session_of(config).store
        if isinstance(store, HistoryStore):
            return store.history_of(settings.baseline, measured, newest=_NEWEST)
    return ()
