"""What a session says of tests that drift away from a pinned release."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from pytest_hwperf.checkout.revision import ends, history_between
from pytest_hwperf.plugin.session.state import session_of
from pytest_hwperf.records.errors import HwperfError, StoreError
from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.stored.history import Series, drifted, explained, suspects_of

_NAMED = 3  # tests
_NEWEST = 1000  # runs


def drift_warnings(config: pytest.Config, judgements: Sequence[Judgement], gates: Sequence[Gate]) -> Iterator[str]:
    """Yield a sentence on each of some tests that are worse than the pinned release, and one on the others."""
    found = [*drifted(judgements, gates)]
    if not found:
        return
    chosen = found[:_NAMED]
    history: Sequence[Series] = ()
    with suppress(StoreError):  # there is none, or it cannot be read, which saving says
        shared, measured = session_of(config), [(one.run.test, one.run.label) for one, _, _ in chosen]
        history = shared.store.history_of(shared.settings.baseline, measured, newest=_NEWEST)
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
