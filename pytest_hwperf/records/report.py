"""The report of a run of pytest, for every output format, with its sweeps, and what hosts of a fleet exchange of it."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from pytest_hwperf.records.codec import from_file
from pytest_hwperf.records.errors import SerialisationError, UsageProblem
from pytest_hwperf.records.evidence import COMMIT_DIGITS, Gate
from pytest_hwperf.records.markers import BATCH
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import SCHEMA, Figure, Key, Machine, replace
from pytest_hwperf.records.structs import Count, ErrorRate, Number, Record, Size
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import show_limit, show_measured
from pytest_hwperf.records.verdict import Budget, BudgetOutcome, Judgement, Policy, Skip

MOST_SHARDS = 256
MOST_KINDS = 100
_KIND = r"[A-Za-z][A-Za-z0-9._-]{0,39}"  # no number, which is a number of kinds; nothing that has a meaning elsewhere


class Shard(Record, frozen=True, kw_only=True):
    """One shard of a build: what it was given, and how it ended."""

    number: Count  # from 1
    of: Count  # shards of the build
    alpha: ErrorRate  # false-alarm rate of all shards together
    selected: Count  # tests that were selected, of all shards
    selection: str  # SHA-256 of their node ids; "" where it is not known
    settings: Mapping[str, str]  # option → value, of those on which verdicts depend: alike in all shards
    exit_code: Count  # of this session of pytest
    failed: tuple[str, ...] = ()  # node ids of tests that failed, by a verdict or by themselves
    kind: str = ""  # of the machine, as its user calls it; "" where the build is for one kind
    kinds: Count = 1  # of machines that the false-alarm rate is divided among

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of <= MOST_SHARDS:
            raise ValueError(f"no shard has the number {self.number} of {self.of}")
        if not 1 <= self.kinds <= MOST_KINDS or (self.kind and not re.fullmatch(_KIND, self.kind)):
            raise ValueError(f"no kind of machine is called {self.kind[:100]!r}, of {self.kinds}")

    @property
    def own_alpha(self) -> float:
        return self.alpha / self.of / self.kinds


def parse_shard(text: str) -> tuple[int, int] | None:
    """Turn `2/4`, the second of four shards, into (2, 4); "" into None."""
    if not text:
        return None
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text, re.ASCII)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of <= MOST_SHARDS:
        raise UsageProblem(f"{text!r} is no shard: K/N, with K from 1 to N and N up to {MOST_SHARDS}, such as 2/4")
    return number, of


def parse_kind(text: str) -> tuple[str, int] | None:
    """Turn `arm` into ("arm", 1), `arm/3`, one of three kinds that share the rate, into ("arm", 3); "" into None."""
    if not text:
        return None
    match = re.fullmatch(rf"({_KIND})(?:/(\d{{1,6}}))?", text, re.ASCII)
    kinds = int(match[2] or 1) if match else 0
    if match is None or not 1 <= kinds <= MOST_KINDS:
        raise UsageProblem(
            f"{text!r} is no kind of machine: a letter, then up to 39 letters, digits, '.', '_' or '-', such as arm64; "
            f"with /N, up to {MOST_KINDS}, where N kinds share the false-alarm rate"
        )
    return match[1], kinds


def parse_kinds(text: str) -> tuple[tuple[str, ...], int]:
    """Turn `arm,x86`, the kinds that a build is for, into (("arm", "x86"), 2), and `2` into ((), 2)."""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_KINDS:
        return (), int(text)
    names = tuple(name.strip() for name in text.split(","))
    wrong = [name for name in names if not re.fullmatch(_KIND, name)]
    if wrong or len(set(names)) < len(names) or len(names) > MOST_KINDS:
        raise UsageProblem(f"{text!r}: the names of different kinds of machine, such as arm64,x86, or their number")
    return names, len(names)


def shard_of(name: str, of: int) -> int:
    """Return the number of the shard that a test belongs to, from 1."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8]) % of + 1


def selection_of(tests: Iterable[str]) -> str:
    """Return the digest of the node ids of a selection, whatever their order."""
    lines = "\n".join(sorted(tests))
    return hashlib.sha256(lines.encode(errors="surrogatepass")).hexdigest()


def named_code(name: str, commit: str, date: str) -> str:
    """Write which code something is: `origin/main 4f2c1e9d4f (2026-11-02)`."""
    short = commit[:COMMIT_DIGITS]
    return " ".join(filter(None, [name, "" if short in name else short, date and f"({date})"]))


def present_code(commit: str, date: str, *, changed: bool) -> str:
    """Write which code the candidate is; without git nobody knows."""
    name = "working tree on" if changed else "HEAD"
    return named_code(name, commit, date) if commit else "the present code"


def baseline_code(gate: Gate) -> str:
    return named_code(gate.against, gate.revision, gate.revision_date)


Goal = Literal["latency", "throughput", "energy"]
# Goal → the statistics that may answer it; the first that every eligible point has is taken.
GOALS: Mapping[Goal, tuple[Key, ...]] = {
    "latency": (("latency", "p50"),),
    "throughput": (("sample_throughput", "mean"), ("throughput", "mean")),
    "energy": (("energy", "mean"),),
}
_ORDER: tuple[BudgetOutcome, ...] = ("failed", "inconclusive", "unmeasured", "passed")  # the worst first


class SweepPoint(Record, frozen=True, kw_only=True):
    """One point of a sweep, and what it has to keep."""

    sweep: str  # what is swept: a test without its point and scenario, or a model
    scenario: str = ""
    values: Mapping[str, int | Number | str]  # swept name → value
    limits: tuple[Budget, ...] = ()
    rate: Size | None = None  # rows that arrive per second
    serving_batch: Count = 0  # rows that are served together; 0: not declared
    skipped: Statement | None = None  # why it was not measured

    @property
    def named(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.values.items())

    @property
    def fill_s(self) -> float | None:
        """How long the first row of a batch waits for the last one, where the rate of arrivals is declared."""
        rows = self.values.get(BATCH)
        return (rows - 1) / self.rate if self.rate and isinstance(rows, int) else None


class Answer(Record, frozen=True, kw_only=True):
    """What the figures of a point say about one limit."""

    limit: Budget
    outcome: BudgetOutcome
    value: Number | None = None  # base units, with the fill delay of the batch in a latency; None: unmeasured

    def __str__(self) -> str:
        metric = metric_of(self.limit.metric)
        limit = show_limit(self.limit.limit, metric.unit, metric.better)
        seen = "unmeasured" if self.value is None else show_measured(self.value, metric.unit)
        return f"{self.limit.metric} {self.limit.statistic} {limit} ({seen})"


class SweepRow(Record, frozen=True, kw_only=True):
    """A point with what was measured at it."""

    point: SweepPoint
    figures: tuple[Figure, ...] = ()
    answers: tuple[Answer, ...] = ()  # one a limit

    @property
    def outcome(self) -> BudgetOutcome | None:
        """The worst answer; None without limits, or where nothing was measured."""
        found = {answer.outcome for answer in self.answers}
        return next((outcome for outcome in _ORDER if outcome in found), None)

    @property
    def is_measured(self) -> bool:
        """Whether it was measured; of a point that was left out later the memory may be known."""
        return bool(self.figures) and self.point.skipped is None

    @property
    def is_eligible(self) -> bool:
        """Whether it was measured and every limit is kept, by the whole interval."""
        return self.is_measured and self.outcome in (None, "passed")


class Best(Record, frozen=True, kw_only=True):
    """The best point for one goal."""

    goal: Goal
    metric: str
    statistic: str
    rows: tuple[Count, ...]  # positions in the sweep: the best one first, then those whose interval overlaps with its


class Sweep(Record, frozen=True, kw_only=True):
    """All points of one sweep, and the best of them for each goal."""

    name: str
    rows: tuple[SweepRow, ...]
    best: tuple[Best, ...]  # none for a goal that no point is known to answer within the limits
    notes: tuple[Statement, ...] = ()


class ReportPart(Record, frozen=True, kw_only=True):
    """What one test adds to a report; it travels on the test's own report."""

    judgements: tuple[Judgement, ...]
    skips: tuple[Skip, ...] = ()
    gates: tuple[Gate, ...] = ()
    point: SweepPoint | None = None  # of a sweep, measured or skipped


class Report(Record, frozen=True, kw_only=True):
    """What a run of pytest measured and judged, with the evidence."""

    machine: Machine
    revision: str  # of the tests, "" where there is none
    revision_date: str = ""  # of its author, YYYY-MM-DD
    changed: bool = False  # whether files differed from it
    started_at: str  # ISO 8601, UTC
    baseline: str  # name of the baseline compared with or saved to, "" for none
    judgements: tuple[Judgement, ...]
    policy: Policy = Policy()  # what was done about answers that are not clear
    skips: tuple[Skip, ...] = ()
    warnings: tuple[str, ...] = ()  # of the whole run: machine drift, workers side by side, …
    partial: bool = False  # interrupted: the tests that are here are complete, others are missing
    hidden: tuple[str, ...] = ()  # node ids of tests that fail, and do not by an `xfail` that the candidate has added
    failed: tuple[str, ...] = ()  # node ids of tests that failed, by a verdict or not; those of shards stand there
    gates: tuple[Gate, ...] = ()  # how the paired comparisons were decided; none where no pairs ran
    sweeps: tuple[Sweep, ...] = ()
    shards: tuple[Shard, ...] = ()  # that it is made of; none where the build was not divided
    options: tuple[str, ...] = ()  # of this plugin, as typed, by which a test is measured and compared
    missing_kinds: tuple[str, ...] = ()  # of machines that are not in it; "" where the name of one is not known

    @property
    def present_code(self) -> str:
        return present_code(self.revision, self.revision_date, changed=self.changed)

    @property
    def compared_with(self) -> tuple[str, ...]:
        """What it was compared with as every surface names it; none where nothing was."""
        if self.gates:
            return tuple(dict.fromkeys(baseline_code(gate) for gate in self.gates))
        is_compared = any(one.comparisons for one in self.judgements)
        return (f"stored runs of baseline {self.baseline}",) if self.baseline and is_compared else ()

    @property
    def failed_otherwise(self) -> tuple[str, ...]:
        """Node ids of tests that failed without a verdict, which a report holds nothing else of."""
        judged = {judgement.run.test for judgement in self.judgements if judgement.fails}
        every = (*self.failed, *(test for shard in self.shards for test in shard.failed))
        return tuple(dict.fromkeys(test for test in every if test not in judged))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of machine that it holds, in their order; none where nobody named any."""
        return tuple(dict.fromkeys(shard.kind for shard in self.shards if shard.kind))

    def of_kind(self, kind: str) -> "Report":
        """Return what one kind of machine has shown, without what was noticed of all of them."""
        judgements = tuple(one for one in self.judgements if one.run.kind == kind)
        tests = {one.run.test for one in judgements}
        return replace(
            self,
            judgements=judgements,
            hidden=tuple(test for test in self.hidden if test in tests),
            skips=tuple(one for one in self.skips if one.kind == kind),
            gates=tuple(one for one in self.gates if one.kind == kind),
            shards=tuple(one for one in self.shards if one.kind == kind),
            warnings=(),
            sweeps=(),
            partial=False,  # the exit codes of its shards say whether it is
            missing_kinds=(),
        )

    @property
    def missing_shards(self) -> tuple[int, ...]:
        """Numbers of the shards of the build that are not in it, of one kind of machine."""
        of = max((one.of for one in self.shards), default=0)
        return tuple(sorted({*range(1, of + 1)} - {one.number for one in self.shards}))


class ReportFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf report"):
    """A report as a file for other programs."""

    schema: int = SCHEMA
    report: Report


class SweepFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf sweep"):
    """What `hwperf sweep` has shown, as a file for other programs."""

    schema: int = SCHEMA
    machine: Machine
    model: str
    started_at: str  # ISO 8601, UTC
    seed: Count  # of the order of the points in each round
    rounds: Count  # that are whole
    partial: bool = False  # interrupted
    sweep: Sweep


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
