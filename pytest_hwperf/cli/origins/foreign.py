"""What reading the files of other programs has in common: the file, what its numbers are called, and their report."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pytest_hwperf.core.errors import SerialisationError, UsageProblem
from pytest_hwperf.core.estimates import REPORTED_CONFIDENCE
from pytest_hwperf.core.metrics import METRICS, Better, is_stage
from pytest_hwperf.core.operators import OperatorProfile
from pytest_hwperf.core.records import Estimate, Figure, Judgement, Run, Sample, replace
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.serialisation import from_foreign
from pytest_hwperf.core.structs import Record
from pytest_hwperf.core.units import EXPORT_UNITS, counted, exported_name
from pytest_hwperf.host.files import read_file
from pytest_hwperf.host.machine import describe_machine

T = TypeVar("T")
UNKNOWN_TIME = "1970-01-01T00:00:00+00:00"
_LARGEST = 256 * 2**20  # bytes
_LONGEST_NAME = 1000  # characters; a metric's is a tenth of it
_ESTIMATE = "_estimate_"  # in the names of figures that nothing has measured
_ELSEWHERE = "the machine of this report is the one that reads it, not the one that measured"


class Named(Record, frozen=True, kw_only=True):
    """What the name of a number says about it."""

    metric: str
    statistic: str
    factor: float  # base units per unit of the number
    estimated: bool = False
    known: bool = True  # whether it is a metric of this program


def read_text(path: str, program: str) -> bytes:
    """Read a whole file.

    Raises:
        UsageProblem: no such file, or a larger one than any of that program.
    """
    try:
        return read_file(Path(path), _LARGEST)
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read ({error.strerror}): give a file of {program}") from error


def decode(form: type[T], text: bytes, program: str) -> T:
    """Build what a file of JSON holds.

    Raises:
        UsageProblem: something else is in it; says where.
    """
    try:
        return from_foreign(form, text)
    except SerialisationError as error:
        raise UsageProblem(f"this is no file of {program}: {error}") from error


def what_is(name: str, program: str) -> Named:
    """Find the figure that an export of this program calls so, as `latency_p95_ms`; else it is a number of its own."""
    metric, statistic = name.rsplit("_", 1) if "_" in name else (name, "")
    found = _KNOWN.get(name.replace(_ESTIMATE, "_", 1))
    if found:
        metric, statistic, factor = found
        return Named(metric=metric, statistic=statistic, factor=factor, estimated=_ESTIMATE in name)
    taken = name in METRICS or is_stage(name) or not name
    own = f"{program.replace('-', '_')}_{name}" if taken else name
    return Named(metric=own[: _LONGEST_NAME // 10], statistic="p50", factor=1.0, known=False)


def plain_figure(named: Named, value: float, source: str) -> Figure:
    """Return a number of which nothing else is known as a figure without an interval."""
    estimate = Estimate(
        value=value * named.factor,
        low=None,
        high=None,
        confidence=REPORTED_CONFIDENCE,
        n=1,
        method=f"as the file has it, no interval ({source})",
    )
    return Figure(
        metric=named.metric,
        statistic=named.statistic,
        estimate=estimate,
        source=source,
        per="value",
        estimated=named.estimated,
    )


def foreign_run(
    test: str,
    *,
    revision: str = "",
    changed: bool = False,
    started_at: str = UNKNOWN_TIME,
    samples: tuple[Sample, ...] = (),
    operators: OperatorProfile | None = None,
) -> Run:
    """Return a run of another program, with as much of it as is known."""
    return Run(
        test=test[:_LONGEST_NAME],
        label="",
        scenario="",
        machine=describe_machine(),
        revision=revision,
        changed=changed,
        started_at=started_at,
        samples=samples,
        conditions={},
        context={},
        operators=operators,
    )


def judgement_of(run: Run, figures: Iterable[tuple[Named, Figure]]) -> Judgement:
    """Return figures that were read as those of a run; the first of each metric and statistic counts.

    A run needs a direction for each metric that this program does not know, which no file has; nothing is judged by it.
    """
    kept = dict[tuple[str, str], Figure]()
    directions = dict[str, Better]()
    for named, figure in figures:
        kept.setdefault(figure.key, figure)
        if not named.known:
            directions[figure.metric] = "lower"
    whole = replace(run, directions=directions)
    return Judgement(run=whole, figures=tuple(kept.values()), verdicts=())


def report_of(judgements: Sequence[Judgement], *warnings: str) -> Report:
    """Return runs of another program as a report, which has no verdicts."""
    first = judgements[0].run
    return Report(
        machine=first.machine,
        revision=first.revision,
        changed=first.changed,
        started_at=first.started_at,
        baseline="",
        judgements=tuple(judgements),
        warnings=(*warnings, _ELSEWHERE),
    )


def of_unknown_direction(judgements: Iterable[Judgement], program: str) -> tuple[str, ...]:
    """Say that a file does not tell what is better, of how many metrics."""
    found = {metric for judgement in judgements for metric in judgement.run.directions}
    of = counted(len(found), "metric")
    return (f"{program} does not say whether more or less is better of {of}",) if found else ()


_KNOWN = {
    exported_name(f"{metric.name}_{statistic}", metric.unit): (
        metric.name,
        statistic,
        1 / EXPORT_UNITS[metric.unit][1],
    )
    for metric in METRICS.values()
    for statistic in metric.statistics
}
