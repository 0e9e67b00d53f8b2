"""A plugin for runs of pytest within tests: a measured call takes as long as it says, on however busy a machine.

`-p fakes.simulated_time` reaches the fresh processes of such a run too, since they get its options; PYTHONPATH must
lead there. Latency and throughput go by it, in this process and in pairs, and work that a self-check plants. CPU time,
cold starts, deadlines and what is read of the machine stay real.
"""

import os
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from pytest_hwperf.measure import pair_target
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.plugin.measuring import run as measurement

_READ_NS = 50  # that reading the clock takes
_SPREAD = 0.02  # standard deviation of a call's time, as a share of it

_IDLE = 1000  # readings in a row between which nothing has spent time

_state = {"now_ns": 0, "idle": 0}
_noise = Random(os.getpid())  # the sides of a pair differ, by far less than any margin


def spend(microseconds: float) -> None:
    """Be called by what is measured: let that much time pass, give or take 2 %."""
    _state["idle"] = 0
    _state["now_ns"] += round(1000 * microseconds * abs(_noise.gauss(1, _SPREAD)))


def now_ns() -> int:
    """Stand for `time.perf_counter_ns`.

    Raises:
        RuntimeError: what is measured spends nothing, so that no time passes.
    """
    _state["idle"] += 1
    if _state["idle"] > _IDLE:
        raise RuntimeError("in simulated time a measured call has to `spend` some")
    _state["now_ns"] += _READ_NS
    return _state["now_ns"]


def begin(patch: pytest.MonkeyPatch) -> None:
    """Let measurements of this process go by simulated time, and planted work too."""
    patch.setattr(measurement, "Sampler", partial(Sampler, clock_ns=now_ns))
    for name in ("time_named", "time_chained"):
        patch.setattr(measurement, name, partial(getattr(measurement, name), clock_ns=now_ns))
    patch.setattr(pair_target, "perf_counter_ns", now_ns)
    patch.setattr(pair_target, "planted", _planted)


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    begin(patch)


def _planted(stream: Stream, share: float) -> Callable[..., Any]:
    """Stand for `pair_target.planted`; only of calls that are not awaited."""
    function = stream.function

    def slower(*arguments: Any) -> Any:
        before = _state["now_ns"]
        result = function(*arguments)
        spend(share * (_state["now_ns"] - before) / 1000)
        return result

    return slower
