"""Fixtures of scenarios."""

import pytest

from pytest_hwperf.scenarios import sources


@pytest.fixture
def as_installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the converters of this test module for those of an installed library."""
    name = request.module.__name__.partition(".")[0]
    monkeypatch.setattr(sources, "_LIBRARIES", sources._LIBRARIES | {name})
