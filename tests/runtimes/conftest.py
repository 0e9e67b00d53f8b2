"""Fixtures of scenarios."""

import pytest

from pytest_hwperf.runtimes import cache


@pytest.fixture
def as_installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the converters of this test module for those of an installed library."""
    name = request.module.__name__.partition(".")[0]
    monkeypatch.setattr(cache, "_LIBRARIES", cache._LIBRARIES | {name})
