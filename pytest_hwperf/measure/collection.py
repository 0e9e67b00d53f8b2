"""Python's garbage collector while calls are timed: as the program has set it, or held until the calls are over."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_INTERPRETERS_OWN = 1000  # objects that may be frozen when Python starts: 375 in 3.12


@contextmanager
def collection(*, held: bool, freezes: bool = True) -> Iterator[None]:
    """Freeze existing objects, and keep the collector out of timed calls where it is to be held.

    Frozen objects are not scanned, so that a collection costs the same however many objects the session has. To find
    the garbage first takes 30 to 75 ms where pandas and scikit-learn are loaded: calls by which nothing is judged do
    without both, unless the collector is held.
    """
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > _INTERPRETERS_OWN
    has_collected = freezes or held
    if has_collected:
        gc.collect()
    if has_frozen := has_collected and not was_frozen:  # else the user's own freeze would be undone too
        gc.freeze()
    if held:
        gc.disable()
    try:
        yield
    finally:
        if has_frozen:
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def collect_between(*, held: bool) -> None:
    """Collect the garbage of calls during which the collector was held; else it does so by itself, in its own time."""
    if held:
        gc.collect()
