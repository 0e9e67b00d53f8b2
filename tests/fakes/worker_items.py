"""A test as a fresh process with one task has it."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.plugin.session.state import begin_session


def item_in_a_fresh_process(nodeid: str) -> Any:
    """Return a test whose session has begun and attributes nothing."""
    config: Any = SimpleNamespace(stash=pytest.Stash())
    state: Any = SimpleNamespace(own_work=nullcontext)
    begin_session(config, state)
    return SimpleNamespace(nodeid=nodeid, config=config, stash=pytest.Stash())
