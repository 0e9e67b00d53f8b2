"""Fakes that projects put in the place of Python's library, in whole sessions: figures are true, and nothing is harmed.

Each session is one of `python -m benchmarks faked`, which tries many more. Signals go through a recorder.
"""

from importlib.util import find_spec

import pytest

from benchmarks.code import faked

pytestmark = pytest.mark.live

LIMIT_S = 300.0  # of a session that ends by itself; none takes it, also on a machine that is busy


@pytest.fixture(scope="module")
def usual() -> dict[str, float]:
    """What each way of measuring shows without a fake."""
    ways = ("fixture", "budget", "cold", "load")
    found = dict[str, float]()
    assert dict.fromkeys(ways, "right") == faked.run("no fake", ways, (), found, LIMIT_S)
    return found


@pytest.mark.parametrize(
    ("fake", "package", "ways"),
    [
        ("freezegun auto_tick", "freezegun", ("fixture", "budget", "load")),
    ],
)
def test_a_fake_changes_no_figure(usual: dict[str, float], fake: str, package: str, ways: tuple[str, ...]) -> None:
    """Nor does it reach the test after it, and no signal goes to anything but one process that was started."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    assert dict.fromkeys(ways, "right") == faked.run(fake, ways, (), dict(usual), LIMIT_S)


@pytest.mark.parametrize(
    ("fake", "package"), [("pytest-socket conftest", "pytest_socket"), ("freezegun auto_tick", "freezegun")]
)
def test_pairs_find_a_slowdown_beside_a_fake(fake: str, package: str) -> None:
    """Their processes talk by sockets, and read clocks, that no conftest.py and no fixture takes away."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    assert {"gate": "right"} == faked.run(fake, ("gate",), faked.GATE, {}, LIMIT_S)
