"""Calls that give work to a GPU: they return before it is done, and are timed until it is."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.nvml import FakeTorchCuda, torch_with
from fakes.streams import FakeClock, at_once

from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.sampling import RawSamples, Sampler
from pytest_hwperf.measure.stream import OwnLoop, Stream

MS = 1_000_000  # ns


class BusyGpu(FakeTorchCuda):
    """A GPU that works 5 ms for a call, which itself takes 1 ms."""

    def __init__(self, clock: FakeClock, *, allocates: bool = False) -> None:
        super().__init__(held=(0,))
        self._clock, self._allocates = clock, allocates
        self._until_ns = 0

    def call(self) -> Any:
        """Begin work, and return something on the host."""
        self._clock.now_ns += MS
        self._until_ns = self._clock.now_ns + 5 * MS
        if self._allocates:
            self.held = (int(self.held[0] or 0) + 1,)
        return 1.0

    def returning(self) -> Any:
        """Begin work, and return its tensor."""
        self.call()
        return SimpleNamespace(is_cuda=True)

    async def awaited(self) -> Any:
        return self.returning()

    def synchronize(self, device: int | None = None) -> None:
        super().synchronize(device)
        self._clock.now_ns = max(self._clock.now_ns, self._until_ns)


def measured(gpu: BusyGpu, name: str, clock: FakeClock, modules: Any = None) -> RawSamples:
    limits = SamplingLimits(max_time_s=0.2, min_time_s=0.05, min_calls=5)
    with closing(OwnLoop()) as loop:
        stream = Stream(getattr(gpu, name), None, loop, modules=torch_with(gpu) if modules is None else modules)
        return Sampler(stream, limits, clock).measure([], at_once)


@pytest.mark.parametrize(
    ("name", "allocates"),
    [("returning", False), ("awaited", False), ("call", True)],
    ids=["a tensor", "a tensor of an async call", "memory is taken"],
)
def test_a_call_on_a_gpu_lasts_until_its_work_is_done(name: str, allocates: bool) -> None:
    """1 ms of Python and 5 ms of work: by itself it would take 1 ms."""
    clock = FakeClock()
    found = measured(BusyGpu(clock, allocates=allocates), name, clock)
    assert {0.006} == {round(value, 9) for value in found.latency_s}
    assert 0.006 == pytest.approx(found.first_call_s)
    assert ["each timed call includes waiting for the GPU to finish"] == [
        str(one) for one in found.warnings if "GPU" in str(one)
    ]


@pytest.mark.parametrize("modules", [None, {}])
def test_other_calls_wait_for_nothing(modules: Any) -> None:
    """Although PyTorch has begun to use a GPU."""
    clock = FakeClock()
    gpu = BusyGpu(clock)
    found = measured(gpu, "call", clock, modules)
    assert ({0.001}, []) == ({round(value, 9) for value in found.latency_s}, gpu.waited)
    assert not any("GPU" in str(one) for one in found.warnings)
