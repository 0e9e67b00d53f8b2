"""What a scheduler or a host sends is not unpickled: the real protocol of dask, with a message that would do harm."""

from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.fleet.dask_cluster import refuse_pickles

protocol = pytest.importorskip("distributed.protocol", reason="the extra fleet is not installed")


class Harm:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


@pytest.fixture(params=["result", "marked", "exception", "type"])
def message(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    harm = Harm(tmp_path / "harm")
    if request.param == "result":
        return {"status": "OK", "data": protocol.to_serialize(harm)}
    if request.param == "marked":
        from distributed.protocol.serialize import ToPickle

        return {"status": "OK", "data": ToPickle(harm)}
    return {"op": "task-erred", request.param: protocol.pickle.dumps(harm)}


def read(message: Any) -> Any:
    """Read a message as a client does, with what it unpickles in a second step."""
    got = protocol.loads([*map(bytes, protocol.dumps(message))])
    for name in ("exception", "type"):
        if name in got:
            got[name] = protocol.pickle.loads(got[name])
    return got


def test_a_message_that_would_do_harm_is_a_text(message: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.pickle, "pickle", protocol.pickle.pickle)  # as it was, afterwards
    refuse_pickles()
    refuse_pickles()
    got = read(message)
    assert "(pickled by a host, and not read)" in got.values()
    assert not (tmp_path / "harm").exists()


def test_without_it_the_same_message_does_harm(message: Any, tmp_path: Path) -> None:
    """Else the test above could not fail."""
    for value in read(message).values():
        if hasattr(value, "close"):
            value.close()
    assert (tmp_path / "harm").exists()
