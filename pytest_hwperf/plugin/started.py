"""How this session was started, before any test or `conftest.py` was loaded: what these change is theirs alone."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What fresh processes are started with: they run the same code, which makes the same changes in them."""

    environment: Mapping[str, str]
    path: Sequence[str]  # of imports
    since: float  # instant, in seconds since 1970

    @classmethod
    def now(cls) -> "Started":
        return cls(environment=dict(os.environ), path=tuple(sys.path), since=time.time())


STARTED: pytest.StashKey[Started] = pytest.StashKey()
