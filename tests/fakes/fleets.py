"""Hosts that never were: a cluster whose news are told beforehand, on a clock that moves when somebody waits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fakes import shards

from pytest_hwperf.fleet.dask_cluster import DaskCluster, News
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.report import Host, HostAnswer, Task
from pytest_hwperf.reports import json_file

Script = Callable[
    [str, Task], Sequence[tuple[float, News]]
]  # job and task → seconds after its start, what is told then


def host(name: str, kind: str, machine: str = "") -> Host:
    return Host(name=name, kind=kind, machine=machine or name)


def answer(task: Task, *changes: float, exit_code: int = 0) -> HostAnswer:
    """The answer of a host on which a test has changed by each of `changes`."""
    report = shards.report_of(task.number, *(changes or (0.0,)), of=task.of, kind=task.kind)
    return HostAnswer(exit_code=exit_code, report=json_file.render(report).decode())


def good(job: str, task: Task) -> list[tuple[float, News]]:
    return [(5.0, News(job=job, sign="pytest: screen")), (9.0, News(job=job, answer=to_json(answer(task))))]


def dying(job: str, _: Task) -> list[tuple[float, News]]:
    return [(2.0, News(job=job, sign="pytest: rehearsal")), (4.0, News(job=job, died="its worker is gone"))]


def hanging(job: str, _: Task) -> list[tuple[float, News]]:
    return [(2.0, News(job=job, sign="pytest: rehearsal"))]


@dataclass(slots=True)
class FakeCluster(DaskCluster):
    """Each host does what its script says; the clock goes on by as much as somebody waits."""

    hosts: Sequence[Host]
    scripts: dict[str, Script]
    time_s: float = 0.0
    started: list[tuple[str, str, str]] = field(default_factory=list)  # host, kind, machine
    stopped: list[str] = field(default_factory=list)  # names of hosts
    most_at_once: int = 0  # gates on one machine
    interrupt_s: float | None = None  # when Ctrl-C comes
    mute: bool = False  # whether hosts say nothing when they are told to stop
    _due: list[tuple[float, str, News]] = field(default_factory=list)
    _jobs: dict[str, Host] = field(default_factory=dict)

    def now(self) -> float:
        return self.time_s

    def start(self, job: str, host: Host, task: Task) -> None:
        self._jobs[job] = host
        self.started.append((host.name, task.kind, host.machine))
        busy = [one for one in self._jobs.values() if one.machine == host.machine]
        self.most_at_once = max(self.most_at_once, len(busy))
        script = self.scripts.get(host.name, good)
        self._due += [(self.time_s + after, job, news) for after, news in script(job, task)]

    def stop(self, job: str) -> None:
        self.stopped.append(self._jobs[job].name)
        self._due = [one for one in self._due if one[1] != job]
        if not self.mute:
            self._due.append((self.time_s, job, News(job=job, answer=b"not wanted any more")))

    def wait(self, seconds: float) -> list[News]:
        self.time_s += seconds
        if self.interrupt_s is not None and self.time_s >= self.interrupt_s:
            self.interrupt_s = None
            raise KeyboardInterrupt
        found = [one for one in self._due if one[0] <= self.time_s]
        self._due = [one for one in self._due if one[0] > self.time_s]
        for _, job, news in found:
            if news.answer is not None or news.died:
                self._jobs.pop(job, None)
        return [news for _, _, news in found]
