"""The gates of a fleet: each is started on a free host of its kind, and elsewhere again if that host dies or hangs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hwperf.fleet.dask_cluster import DaskCluster
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.report import Host, HostAnswer, Task, why_useless
from pytest_hwperf.records.text import visible

_ATTEMPTS = 3  # of a task: what ends three hosts is the task itself
_PAUSE_S = 1.0  # longest wait for news: how late a silence is noticed
_LONGEST_TEXT = 200  # characters of a sign of life that are shown
_GRACE_S = 20.0  # for hosts to end what runs on them and to remove it


@dataclass(slots=True, kw_only=True)
class RunningGate:
    """One gate on one host."""

    task: Task
    host: Host
    seen_s: float  # last sign of life
    text: str = "starting"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a task."""

    task: Task
    host: str = ""  # that has answered; "" where none has
    answer: HostAnswer | None = None
    trouble: list[str] = field(default_factory=list)  # hosts that did not answer, and why


class Dispatch:
    """All tasks of a fleet, until each of them has an answer or no host is left for it."""

    def __init__(
        self,
        cluster: DaskCluster,
        tasks: Sequence[Task],
        *,
        silence_s: float,
        now: Callable[[], float],
        show: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> None:
        self._cluster, self._silence_s, self._now, self._show = cluster, silence_s, now, show
        self._outcomes = {task: Outcome(task=task) for task in tasks}
        self._open = [*tasks]
        self._running: dict[str, RunningGate] = {}
        self._gone: set[str] = set()  # names of hosts that are asked no more
        self._states = {host.name: "waiting" for host in cluster.hosts}
        self._jobs = 0

    def run(self) -> list[Outcome]:
        """Run everything; if this is interrupted, hosts are told to end what they do."""
        try:
            while self._open or self._running:
                for task in [*self._open]:
                    self._start(task)
                if self._running:
                    self._take_news()
        finally:
            with uninterrupted():
                self._end_all()
        return [*self._outcomes.values()]

    def _start(self, task: Task) -> None:
        """Start a task on a free host; let go of one for which no host is left, or on which several were lost."""
        hosts = [one for one in self._cluster.hosts if one.kind == task.kind and one.name not in self._gone]
        trouble = self._outcomes[task].trouble
        if not hosts or len(trouble) >= _ATTEMPTS:
            trouble.append(f"no host of kind {task.kind} is left" if len(trouble) < _ATTEMPTS else "it was given up")
            self._open.remove(task)
            return
        busy = {one.host.machine for one in self._running.values()}
        if (host := next((one for one in hosts if one.machine not in busy), None)) is not None:
            self._jobs += 1
            job = f"{task} #{self._jobs}"
            self._open.remove(task)
            self._running[job] = RunningGate(task=task, host=host, seen_s=self._now())
            self._tell(host, f"{task}: starting")
            self._cluster.start(job, host, task)

    def _take_news(self) -> None:
        for news in self._cluster.wait(_PAUSE_S):
            running = self._running.get(news.job)
            if running is None:  # of a job that was given up
                continue
            running.seen_s = self._now()
            if news.answer is None and not news.died:
                running.text = visible(news.sign)[:_LONGEST_TEXT]
                self._tell(running.host, f"{running.task}: {running.text}")
                continue
            answer, why = None, news.died
            if news.answer is not None:
                try:
                    answer = from_json(HostAnswer, news.answer)
                    why = visible(why_useless(answer, running.task))
                except SerialisationError as error:
                    why = f"it sent no answer ({error})"
            if answer is None or why:
                self._lose(news.job, why)
                continue
            del self._running[news.job]
            outcome = self._outcomes[running.task]
            outcome.host, outcome.answer = running.host.name, answer
            self._tell(running.host, f"{running.task}: ended with pytest's exit code {answer.exit_code}")
        for job, running in [*self._running.items()]:
            if self._now() - running.seen_s > self._silence_s:
                self._cluster.stop(job)
                self._lose(job, f"no sign of life for {self._silence_s:g} s, after: {running.text}")

    def _lose(self, job: str, why: str) -> None:
        """Ask a host no more, and give its task to another one."""
        running = self._running.pop(job)
        self._gone.add(running.host.name)
        self._outcomes[running.task].trouble.append(f"{running.host.name}: {why}")
        self._open.append(running.task)
        self._tell(running.host, f"{running.task}: lost, {why}")

    def _tell(self, host: Host, text: str) -> None:
        if self._states[host.name] != text:
            self._states[host.name] = text
            self._show(self._states)

    def _end_all(self) -> None:
        """Tell hosts to end what still runs, and wait until they have, or for a while; another Ctrl-C waits as well."""
        for job, running in self._running.items():
            self._tell(running.host, f"{running.task}: ending, within {_GRACE_S:g} s")
            self._cluster.stop(job)
        until = self._now() + _GRACE_S
        while self._running and self._now() < until:
            for news in self._cluster.wait(_PAUSE_S):
                if (news.answer is not None or news.died) and (ended := self._running.pop(news.job, None)):
                    self._tell(ended.host, f"{ended.task}: ended, since the fleet was interrupted")
        for running in self._running.values():
            self._tell(running.host, f"{running.task}: has not said that it has ended")
