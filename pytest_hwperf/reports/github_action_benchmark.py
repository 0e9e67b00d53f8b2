"""A report as input of github-action-benchmark, whose custom tools take figures of one direction each.

References:
    https://github.com/benchmark-action/github-action-benchmark: `customSmallerIsBetter`, `customBiggerIsBetter`
"""

import json

from pytest_hwperf.core.foreign_text import visible, visible_json
from pytest_hwperf.core.metrics import Better
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.units import counted, show_number
from pytest_hwperf.reports.measures import Exported, Measure, measures_of, unmeasured

BIGGER = "github-action-benchmark-bigger"  # the export for `customBiggerIsBetter`


def render(report: Report, *, better: Better = "lower") -> Exported:
    """Write the figures of one direction."""
    every = measures_of(report)
    kept = [one for one in every if one.better == better]
    others = len(every) - len(kept)
    other = "higher" if better == "lower" else "lower"
    form = BIGGER if better == "lower" else "github-action-benchmark"
    beside = f"{counted(others, 'figure')} of which {other} is better: --as={form}"
    content = json.dumps([_entry(one) for one in kept], indent=2, ensure_ascii=False).encode()
    return Exported(
        content=visible_json(content) + b"\n",
        benchmarks=len({one.benchmark for one in kept}),
        left_out=(*([beside] if others else []), *unmeasured(report)),
    )


def _entry(measure: Measure) -> dict[str, str | float]:
    ends = ["?" if end is None else show_number(end, 4) for end in (measure.low, measure.high)]
    return {
        "name": visible(f"{measure.benchmark} {measure.name}"),
        "unit": measure.unit,
        "value": measure.value,
        **({} if measure.low is None and measure.high is None else {"range": f"{ends[0]} .. {ends[1]}"}),
        "extra": visible(measure.basis),
    }
