"""A server of PostgreSQL for all tests of stores."""

from collections.abc import Iterator

import pytest
from fakes import postgres


@pytest.fixture(scope="session")
def running_server() -> Iterator[postgres.Server]:
    if why := postgres.why_missing():
        pytest.skip(why)
    with postgres.server() as started:
        yield started


@pytest.fixture
def server(running_server: postgres.Server, monkeypatch: pytest.MonkeyPatch) -> postgres.Server:
    """The server, with the passwords where libpq looks for them."""
    monkeypatch.setenv("PGPASSFILE", str(running_server.passwords))
    return running_server
