"""What dask has started is closed within a time, also while signals come, and whatever its close raises."""

import signal
from dataclasses import dataclass, field

import pytest

from pytest_hwperf.fleet.closing import closing
from pytest_hwperf.host.interruption import interruptible


@dataclass
class Cluster:
    error: type[Exception] | None = None
    signals: int = 0
    closed: list[float] = field(default_factory=list)

    def close(self, timeout: float) -> None:
        for _ in range(self.signals):
            signal.raise_signal(signal.SIGINT)
        self.closed.append(timeout)
        if self.error:
            raise self.error


@pytest.mark.parametrize("error", [None, TimeoutError, OSError, RuntimeError, AssertionError])
def test_it_is_closed_within_a_time_and_what_that_raises_is_no_error(error: type[Exception] | None) -> None:
    with closing(Cluster(error)) as cluster:
        assert [] == cluster.closed
    assert [10.0] == cluster.closed


def test_another_ctrl_c_waits_until_it_is_closed() -> None:
    cluster = Cluster(signals=2)
    with pytest.raises(KeyboardInterrupt), interruptible(), closing(cluster):
        raise KeyboardInterrupt
    assert [10.0] == cluster.closed
