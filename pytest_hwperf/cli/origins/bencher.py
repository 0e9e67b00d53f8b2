"""Files in the Bencher Metric Format: numbers of measures; what their bounds mean, the format does not say."""

from pytest_hwperf.cli.origins.foreign import (
    decode,
    foreign_run,
    judgement_of,
    of_unknown_direction,
    plain_figure,
    report_of,
    what_is,
)
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import ForeignRecord, Number

_PROGRAM = "bencher"
_BUILT_IN = {"latency": "latency_ns", "throughput": "throughput_ops_per_s"}  # measures that Bencher gives a unit


class _Metric(ForeignRecord, frozen=True, kw_only=True):
    value: Number
    lower_value: Number | None = None
    upper_value: Number | None = None


def read(text: bytes) -> Report:
    """Read the benchmarks of a file.

    Raises:
        UsageProblem: it is none of Bencher, or empty.
    """
    benchmarks = decode(dict[str, dict[str, _Metric]], text, "Bencher's metric format")
    judgements = []
    for name, measures in benchmarks.items():
        named = [(what_is(_BUILT_IN.get(measure, measure), _PROGRAM), metric) for measure, metric in measures.items()]
        figures = [(one, plain_figure(one, metric.value, f"{_PROGRAM}: value")) for one, metric in named]
        if figures:
            judgements.append(judgement_of(foreign_run(name), figures))
    if not judgements:
        raise UsageProblem("this file of Bencher's metric format holds no measures")
    bounded = [
        metric
        for measures in benchmarks.values()
        for metric in measures.values()
        if metric.lower_value is not None or metric.upper_value is not None
    ]
    lost = ("the format does not say what its lower and upper values are bounds of: they are not shown",)
    return report_of(judgements, *of_unknown_direction(judgements, _PROGRAM), *(lost if bounded else ()))
