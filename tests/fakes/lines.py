"""The far end of a line: a process of a pair that plays a script, and dies where the script says so."""

from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_hwperf.pairs.channel import WorkerLostError
from pytest_hwperf.pairs.frames import Frame

Taken = Callable[[int], int]  # number of a call, from 0 → its nanoseconds


@dataclass(kw_only=True)
class FakeMeasurement:
    """One `hwperf(...)` of a test."""

    label: str = ""
    taken: Taken = lambda _: 1_000_000
    facts: Mapping[str, Any] = field(default_factory=dict)
    exact: Mapping[str, Any] = field(default_factory=lambda: {"samples": [], "missing": {}})
    joules: float | None = None
    energy_source: str = "rapl:package-0"
    energy_window_s: float = 0.0  # asked for where the offered one is shorter
    cold: tuple[int, int] = (0, 0)  # first calls of a block, and how many nanoseconds more they take
    threads: int = 1
    switches: int = 0  # involuntary, in every block
    sits: Callable[[int], str] = lambda _: ""  # why it cannot stay on a processor
    dies_at_block: int | None = None  # the process ends in that turn, from 0
    fails_at_block: int | None = None  # the call raises in that turn


@dataclass(kw_only=True)
class FakeTest:
    """One test of the process."""

    measurements: Sequence[FakeMeasurement] = (FakeMeasurement(),)
    outcome: str = "passed"
    reason: str = ""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    dies: bool = False  # before it measures anything


class FakeLine:
    """Implements the protocol Endpoint; answers what a worker would, at once."""

    def __init__(
        self, tests: Mapping[str, FakeTest], errors: Mapping[str, str] | None = None, files: Sequence[str] = ()
    ) -> None:
        self._said = self._session(tests, errors or {}, files)
        self._heard: Frame | None = None
        self.told: list[Frame] = []  # all that was said to it

    def send(self, kind: str, **fields: Any) -> None:
        self._heard = Frame(kind=kind, fields=fields)
        self.told.append(self._heard)

    def receive(self, deadline_s: float) -> Frame:
        assert deadline_s > 0
        try:
            return next(self._said)
        except StopIteration:
            raise WorkerLostError("ended with code -9 in the middle of the pair") from None

    def _session(
        self, tests: Mapping[str, FakeTest], errors: Mapping[str, str], files: Sequence[str]
    ) -> Iterator[Frame]:
        yield Frame(kind="collected", fields={"nodes": list(tests), "errors": dict(errors)})
        heard = self._heard
        assert heard is not None
        assert heard.kind == "select"
        for node in heard.fields["nodes"]:
            test = tests[node]
            if test.dies:
                return
            for index, measurement in enumerate(test.measurements):
                ended = yield from self._measured(node, index, measurement)
                if ended == "dead":
                    return
                if ended == "failed":
                    break
            came = {"outcome": test.outcome, "reason": test.reason, "recorded": dict(test.recorded)}
            yield Frame(kind="tested", fields={"node": node, **came})
        yield Frame(kind="bye", fields={"files": list(files)})

    def _measured(self, node: str, index: int, measurement: FakeMeasurement) -> Generator[Frame, None, str]:
        yield Frame(
            kind="ready",
            fields={"node": node, "index": index, "label": measurement.label, "facts": dict(measurement.facts)},
        )
        calls, blocks = 0, 0
        while True:
            heard = self._heard
            assert heard is not None
            if heard.kind == "finish":
                return "on"
            if heard.kind == "exact":
                yield Frame(kind="exact", fields=measurement.exact)
                continue
            if heard.kind == "pin":
                number = heard.fields["processor"]
                yield Frame(kind="pin", fields={"reason": "" if number is None else measurement.sits(number)})
                continue
            if heard.kind == "energy":
                yield Frame(kind="energy", fields=_energy(measurement, heard.fields["seconds"]))
                continue
            if blocks == measurement.dies_at_block:
                return "dead"
            if blocks == measurement.fails_at_block:
                return "failed"
            count, batch = heard.fields["calls"], heard.fields["batch"]
            cold_calls, cold_ns = measurement.cold
            taken = array(
                "q", (batch * measurement.taken(calls + n) + cold_ns * (n < cold_calls) for n in range(count))
            )
            calls, blocks = calls + count, blocks + 1
            wall = sum(taken)
            fields = {"cpu_ns": wall * measurement.threads, "thread_ns": wall, "switches": measurement.switches}
            yield Frame(kind="latencies", numbers=taken, fields=fields)


def _energy(measurement: FakeMeasurement, seconds: float) -> Mapping[str, Any]:
    if seconds < measurement.energy_window_s:
        needed_s = measurement.energy_window_s
        return {"needed_s": needed_s, "reason": f"windows of {needed_s:g} s are needed"}
    return {"joules": measurement.joules, "reason": "no meter", "source": measurement.energy_source}
