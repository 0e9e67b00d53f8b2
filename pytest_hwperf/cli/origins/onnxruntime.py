"""Profiles of ONNX Runtime, which are Chrome traces: the operators of a call under the profiler, with their shares."""

import json

from pytest_hwperf.cli.origins.foreign import decode, foreign_run, report_of
from pytest_hwperf.core.operators import profiler_costs, under_profiler
from pytest_hwperf.core.records import Judgement
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import ForeignRecord, Size
from pytest_hwperf.scenarios.profiles import parse_calls

_COSTS = (
    "operators of this profile take less than 20 µs on average, of which the profiler's own cost of about 5 µs each "
    "is a large part: the shares are of calls under the profiler"
)


class _Arguments(ForeignRecord, frozen=True, kw_only=True):
    op_name: str = ""


class _Event(ForeignRecord, frozen=True, kw_only=True):
    name: str
    cat: str = ""
    ts: Size = 0.0  # µs
    dur: Size = 0.0  # µs
    args: _Arguments = _Arguments()


def read(text: bytes, name: str) -> Report:
    """Read the profile of a session that was run at least twice: the first run is none of the others.

    Args:
        text: content of the file.
        name: of the file, which the report shows.

    Raises:
        UsageProblem: it is no such profile.
        MeasurementError: it holds fewer than two runs.
    """
    events = decode(list[_Event], text, "ONNX Runtime's profiler")
    plain = [
        {"name": one.name, "cat": one.cat, "ts": one.ts, "dur": one.dur, "args": {"op_name": one.args.op_name}}
        for one in events
    ]
    profiled = parse_calls(json.dumps(plain), rows=0)
    run = foreign_run(name, operators=under_profiler(profiled))
    doubts = (_COSTS,) if profiler_costs(profiled) else ()
    return report_of([Judgement(run=run, figures=(), verdicts=())], *doubts)
