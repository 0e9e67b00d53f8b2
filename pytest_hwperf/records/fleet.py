"""What a fleet and its hosts exchange: an order to run one gate, and the answer, both as JSON."""

from pytest_hwperf.records.codec import from_file
from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.structs import Count, Record, Size
from pytest_hwperf.records.text import visible

ENDED = (0, 1)  # exit codes of a pytest that has come to its end
_SAME_EVERYWHERE = (2, 4, 5)  # no report, but an answer: it could not collect tests, was used wrongly, found none
_KILL = -9


class Host(Record, frozen=True, kw_only=True):
    """A machine that runs one gate at a time."""

    name: str  # as in hosts.toml, with a number where it stands there several times
    kind: str
    machine: str  # hosts of one machine never run at the same time


class Task(Record, frozen=True, kw_only=True):
    """One gate: all of a build on one kind of machine, or one shard of it."""

    kind: str
    number: Count = 1  # of the shard
    of: Count = 1

    def __str__(self) -> str:
        return self.kind if self.of == 1 else f"{self.kind} {self.number}/{self.of}"


class Order(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf order"):
    """What a host is to do."""

    version: str  # of pytest-hwperf: both sides have to have the same
    job: str
    arguments: tuple[str, ...]  # of pytest
    folder: str  # within the project, in which pytest is started
    candidate: str  # commit
    snapshot: str  # commit of the work tree, the same where nothing differs
    install: tuple[str, ...] | None  # arguments of pip for the project's environment; None: the host's own python
    limit_s: Size  # after which the gate is ended


class HostAnswer(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf answer"):
    """What came of it."""

    exit_code: int | None = None  # of pytest; None: it was not started
    report: str = ""  # the JSON of pytest --hwperf-report=FILE.json; "" where it has written none
    log: str = ""  # the end of what was written
    problem: str = ""  # why the host could not do it; "" where pytest has ended

    def read(self) -> Report | None:
        if not self.report:
            return None
        again = "the host runs another version of pytest-hwperf"
        return from_file(ReportFile, self.report.encode(), other=again, older=again).report


def last_lines(log: str) -> str:
    return "; ".join(visible(line.strip()) for line in log.splitlines()[-8:] if line.strip())


def why_useless(answer: HostAnswer, task: Task) -> str:
    """Say why an answer tells nothing of its task, so that another host is asked; "" where it does.

    A usage error of pytest is an answer, as is a file that it cannot collect: it is the same everywhere.
    """
    if answer.problem:
        return answer.problem
    if answer.exit_code is None:
        return "pytest was not started, and it does not say why"
    if answer.exit_code < 0:
        memory = ", as by a system that runs out of memory" if answer.exit_code == _KILL else ""
        return f"pytest was killed by signal {-answer.exit_code}{memory}"
    try:
        report = answer.read()
    except SerialisationError as error:
        return f"what it sent as a report {error}"
    if report is None:
        without = (
            f"pytest ended with code {answer.exit_code} and without a report: {last_lines(answer.log) or 'no word'}"
        )
        return "" if answer.exit_code in _SAME_EVERYWHERE else without
    shards = [(one.kind, one.number, one.of) for one in report.shards]
    return "" if shards == [(task.kind, task.number, task.of)] else "it sent the report of something else"
