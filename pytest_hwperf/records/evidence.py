"""The evidence of a build: what its pairs observed, from which every verdict on them can be computed again."""

from collections.abc import Mapping
from typing import Literal

from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import Better
from pytest_hwperf.records.profiles import Mover, MoverKind, ProfiledCalls
from pytest_hwperf.records.run import Classes, Values
from pytest_hwperf.records.structs import Count, ErrorRate, Number, Record, Share, Size
from pytest_hwperf.records.verdict import Margin

Side = Literal["baseline", "candidate"]
Stage = Literal["rehearsal", "screen", "confirm", "equivalence"]

COMMIT_DIGITS = 10  # that are shown


class Measurement(Record, frozen=True, kw_only=True):
    """One measurement of one test, the same on both sides."""

    test: str  # node id
    label: str  # "" unless the test makes several measurements


MeasurementKey = tuple[Measurement, str, str]  # with metric and statistic


class MeasuredStatistic(Record, frozen=True, kw_only=True):
    """A record about one statistic of one measurement."""

    measurement: Measurement
    metric: str
    statistic: str

    @property
    def key(self) -> MeasurementKey:
        return self.measurement, self.metric, self.statistic


class EnergyWindow(Record, frozen=True, kw_only=True):
    """Energy of one row over a window of calls, or why there is none."""

    joules: Number | None = None
    source: str = ""
    reason: str = ""
    needed_s: Size | None = None  # the window that the meter needs, where it was offered a shorter one


class Hypothesis(Record, frozen=True, kw_only=True):
    """One question to the pairs: is this statistic worse by more than its margin?"""

    measurement: Measurement
    margin: Margin  # names metric and statistic
    better: Better

    @property
    def key(self) -> MeasurementKey:
        return self.measurement, *self.margin.key


class Observation(MeasuredStatistic, frozen=True, kw_only=True):
    """One statistic in one pair: a value of each side per block or per process, or one of the whole pair."""

    baseline: Values  # base units, in time order, at least one
    candidate: Values  # base units, of the same blocks, equally many
    change: Number | None = None  # log of candidate over baseline, of both lines above; None: not defined for them
    preempted: Share | None = None  # share of the blocks in which the scheduler took the core away; None: not known
    warnings: tuple[str, ...] = ()  # noticed while it was taken
    apart: bool = False  # whether the sides were alive one after the other: a value of each process then, or of a side

    def __post_init__(self) -> None:
        if not len(self.baseline) == len(self.candidate) > 0:
            raise ValueError(f"{len(self.baseline)} values of the baseline and {len(self.candidate)} of the candidate")


class Assignment(Record, frozen=True, kw_only=True):
    """What was drawn at random for one measurement in one pair."""

    measurement: Measurement
    # B baseline, C candidate, a letter for every block in time order, as "BCCBCBBC"; of a pair whose processes were
    # alive one after the other, a letter for each of them
    turns: str
    processor: Count | None = None  # that both sides shared in their turns, of a pool the first; None: not chosen


SeenMetric = Literal["memory", "cold_start", "cpu_time", "first_call"]


class Seen(Record, frozen=True, kw_only=True):
    """What the processes of a pair have shown at no cost, whether or not it is asked for."""

    measurement: Measurement  # whose calls it is of; without a test: of the whole process
    metric: SeenMetric  # peak; start to first call; CPU of a call; first call
    baseline: Size  # B or s
    candidate: Size


class Pair(Record, frozen=True, kw_only=True):
    """One baseline and one candidate process, alive together and taking turns.

    Of tests that cannot bear both, four processes one after the other: two of each side, in the order ABBA.
    """

    number: Count  # from 1, in the order in which they were begun; several may run at once
    stage: Stage
    first: Side  # started first, by coin
    hash_seeds: Mapping[str, Count]  # side → PYTHONHASHSEED, drawn; "baseline 2" is that of its second process
    assignments: tuple[Assignment, ...]
    observations: tuple[Observation, ...]
    seen: tuple[Seen, ...] = ()
    lost: Statement | None = None  # why the pair ended early; what it had observed until then still counts


class FixedSample(Record, frozen=True, kw_only=True):
    """Values that are measured outside the pairs: of files, of fresh processes one by one, of examples."""

    hypothesis: Hypothesis
    per: Literal["file", "fresh process", "example"]
    baseline: Values  # base units
    candidate: Values  # the same examples, or processes in the order in which they were paired
    warnings: tuple[str, ...] = ()
    classes: Classes | None = None  # of the examples, where they are known

    def __post_init__(self) -> None:
        if not (self.baseline and self.candidate):
            raise ValueError("a side without values")
        if self.classes is not None and len(self.classes.of) != len(self.candidate):
            raise ValueError("as many classes as values are needed")


class Evidence(Record, frozen=True, kw_only=True):
    """Everything that the comparisons of a build rest on."""

    alpha: ErrorRate  # false-alarm rate of the whole build; of one comparison where a test has asked for it
    hypotheses: tuple[Hypothesis, ...]
    pairs: tuple[Pair, ...]
    fixed_samples: tuple[FixedSample, ...] = ()
    groups: tuple[Count, ...] = ()  # hypotheses of each group, in their order, that was started; none: all of them
    suspects: tuple[Hypothesis, ...] = ()  # of the hypotheses: a rehearsal showed a far slower call; not screened
    dropped: tuple[Hypothesis, ...] = ()  # of the hypotheses: gave no value again and again, and are waited for no more
    until_equivalent: bool = False  # whether what is inconclusive is asked in further pairs
    in_test: bool = False  # whether a test has asked for it, beside whatever else the build compares
    stopped: Statement | None = None  # why it ended before every hypothesis was decided

    def __post_init__(self) -> None:
        if len({hypothesis.key for hypothesis in self.hypotheses}) < len(self.hypotheses):
            raise ValueError("a hypothesis is there twice")
        if sum(self.groups) > len(self.hypotheses) or 0 in self.groups:
            raise ValueError(f"groups of {self.groups} among {len(self.hypotheses)} hypotheses")

    @property
    def unreached_tests(self) -> frozenset[str]:
        """Tests of which nothing was asked, since the time was up before."""
        return frozenset(one.measurement.test for one in self.unreached) if self.stopped else frozenset()

    @property
    def unreached(self) -> tuple[Hypothesis, ...]:
        return self.hypotheses[sum(self.groups) :] if self.groups else ()


class PairedProfiles(Record, frozen=True, kw_only=True):
    """Where the time of a call goes on both sides, each in a fresh process of its own."""

    measurement: Measurement
    baseline: ProfiledCalls
    candidate: ProfiledCalls


class Explanation(MeasuredStatistic, frozen=True, kw_only=True):
    """What moved on the way from the baseline to the candidate, of one comparison and by one kind of profile."""

    kind: MoverKind  # what was profiled
    baseline: Size  # of the comparison, in s or B: the pairs give the figures, and the profiles the shares
    candidate: Size
    movers: tuple[Mover, ...] = ()  # the largest first; none where nothing is known to have moved
    covered: Number = 0.0  # share of the change that the movers add up to
    withheld: Statement | None = None  # why no mover is named
    remarks: tuple[Statement, ...] = ()  # what has to be known of the movers: that they do not add up, and the like
    repeats: Count  # profiles of each side, each in a fresh process of its own
    method: str  # "stacks sampled every 0.5 ms", "onnxruntime profile", "memray"
    overhead: Number | None = None  # how much longer a call takes under the profiler, as a share; None: not measured
    # Of functions: frames from the measured callable inwards, joined by ";", each "qualified name (file)" as in the
    # candidate → s of a call in each repeat, scaled to `baseline` or `candidate`, without what is called from there.
    baseline_stacks: Mapping[str, tuple[Size, ...]] = {}
    candidate_stacks: Mapping[str, tuple[Size, ...]] = {}

    @property
    def change(self) -> float:
        return self.candidate - self.baseline


class Gate(Record, frozen=True, kw_only=True):
    """A paired gate: what was rerun against what, and the evidence."""

    against: str  # as asked for: "origin/main", a folder, "baseline main"
    revision: str  # of the baseline's code
    revision_date: str = ""  # of its author, YYYY-MM-DD
    seed: Count  # of every coin
    evidence: Evidence
    shared: Mapping[str, str]  # file of the candidate that the baseline was given → SHA-256
    seconds: Mapping[str, Size]  # where the time went: checkout, rehearsal, screen, confirm, processes
    at_once: Count = 1  # pairs that ran side by side, at most
    imports: str = ""  # what was imported once for both sides of a pair, and what was not
    warnings: tuple[str, ...] = ()
    profiles: tuple[PairedProfiles, ...] = ()  # of measurements that were asked where their time goes
    explanations: tuple[Explanation, ...] = ()  # of comparisons that were asked what moved
    kind: str = ""  # of the machine, as of its runs

    @property
    def beside(self) -> str:
        """How many pairs ran side by side, in brackets for a sentence; "" where it was one at a time."""
        return f" ({self.at_once} side by side)" if self.at_once > 1 else ""
