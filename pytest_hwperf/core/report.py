"""The report of a run of pytest, for every output format."""

from pytest_hwperf.core.evidence import COMMIT_DIGITS, Gate
from pytest_hwperf.core.records import SCHEMA, Judgement, Machine, Policy, Skip, replace
from pytest_hwperf.core.shards import Shard
from pytest_hwperf.core.structs import Count, Record
from pytest_hwperf.core.sweeps import Sweep, SweepPoint


def named_code(name: str, commit: str, date: str) -> str:
    """Write which code something is: `origin/main 4f2c1e9d4f (2026-11-02)`."""
    short = commit[:COMMIT_DIGITS]
    return " ".join(filter(None, [name, "" if short in name else short, date and f"({date})"]))


def present_code(commit: str, date: str, *, changed: bool) -> str:
    """Write which code the candidate is; without git nobody knows."""
    name = "working tree on" if changed else "HEAD"
    return named_code(name, commit, date) if commit else "the present code"


def baseline_code(gate: Gate) -> str:
    """Write which code the baseline of a gate is."""
    return named_code(gate.against, gate.revision, gate.revision_date)


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
    gates: tuple[Gate, ...] = ()  # how the paired comparisons were decided; none where no pairs ran
    sweeps: tuple[Sweep, ...] = ()
    shards: tuple[Shard, ...] = ()  # that it is made of; none where the build was not divided
    options: tuple[str, ...] = ()  # of this plugin, as typed, by which a test is measured and compared
    missing_kinds: tuple[str, ...] = ()  # of machines that are not in it; "" where the name of one is not known

    @property
    def present_code(self) -> str:
        """Its revision as every surface names it."""
        return present_code(self.revision, self.revision_date, changed=self.changed)

    @property
    def compared_with(self) -> tuple[str, ...]:
        """What it was compared with as every surface names it; none where nothing was."""
        if self.gates:
            return tuple(dict.fromkeys(baseline_code(gate) for gate in self.gates))
        is_compared = any(one.comparisons for one in self.judgements)
        return (f"stored runs of baseline {self.baseline}",) if self.baseline and is_compared else ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of machine that it holds, in their order; none where nobody named any."""
        return tuple(dict.fromkeys(shard.kind for shard in self.shards if shard.kind))

    def of_kind(self, kind: str) -> "Report":
        """Return what one kind of machine has shown, without what was noticed of all of them."""
        return replace(
            self,
            judgements=tuple(one for one in self.judgements if one.run.kind == kind),
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
