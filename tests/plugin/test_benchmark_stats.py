"""What a body finds under `benchmark.stats`."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.plugin.benchmark import Metadata


def test_statistics_are_items_too() -> None:
    described: Any = SimpleNamespace(
        name="test_it", fullname="t.py::test_it", group="g", param=None, params=None, extra_info={"k": 1}
    )
    found = Metadata(described, [1.0, 3.0])
    assert (2.0, "g", {"k": 1}) == (found["mean"], found["group"], found["extra_info"])
    assert (2.0, None) == (found.stats.mean, found.get("no such"))
    with pytest.raises(KeyError, match="no such"):
        found["no such"]
