"""A report in the Bencher Metric Format: for each benchmark its measures, each with a value and its bounds.

References:
    https://bencher.dev/docs/reference/bencher-metric-format
"""

import json

from pytest_hwperf.core.foreign_text import shortened, visible, visible_json
from pytest_hwperf.core.report import Report
from pytest_hwperf.reports.measures import Exported, Measure, measures_of, unmeasured

_LONGEST_BENCHMARK, _LONGEST_MEASURE = 1024, 64  # characters


def render(report: Report) -> Exported:
    """Write every figure; a bound that is not known is left out."""
    whole: dict[str, dict[str, dict[str, float]]] = {}
    left_out = [*unmeasured(report)]
    for measure in measures_of(report):
        benchmark = visible(measure.benchmark)
        if len(benchmark) > _LONGEST_BENCHMARK or len(measure.full_name) > _LONGEST_MEASURE:
            left_out.append(f"{shortened(benchmark)} {measure.full_name}: Bencher takes no name as long as that")
        else:
            whole.setdefault(benchmark, {})[visible(measure.full_name)] = _metric(measure)
    content = json.dumps(whole, indent=2, ensure_ascii=False).encode()
    return Exported(content=visible_json(content) + b"\n", benchmarks=len(whole), left_out=tuple(left_out))


def _metric(measure: Measure) -> dict[str, float]:
    found = {"value": measure.value, "lower_value": measure.low, "upper_value": measure.high}
    return {name: value for name, value in found.items() if value is not None}
