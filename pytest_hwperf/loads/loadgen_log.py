"""What MLPerf LoadGen has written about a test: `mlperf_log_summary.txt`.

References:
    mlcommons/inference, loadgen/results.cc. Times are in ns there, and in s here.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.loads import LoadKind
from pytest_hwperf.core.structs import Count, Number, Record
from pytest_hwperf.host.files import is_file

_KINDS: Mapping[str, LoadKind] = MappingProxyType(
    {"SingleStream": "single_stream", "MultiStream": "multi_stream", "Server": "server", "Offline": "offline"}
)
SUMMARY, _DETAIL = "mlperf_log_summary.txt", "mlperf_log_detail.txt"
_QUERIES = re.compile(r'"key": "result_query_count", "value": (\d{1,15}),')
_LONGEST = 1_000_000  # characters: a summary has some 3,000
_LINE = re.compile(r"^ *([^:\n]+?) *: *([^\n]*?) *$", re.MULTILINE)
_PERCENTILE = re.compile(r"(\d+\.\d+) percentile latency \(ns\)")
_PROCESSED = re.compile(r"Processed at least \d+ queries \((\d+)\)")
_DISCARDED = re.compile(r"Would discard (\d+) highest latency queries")
_BOUND = re.compile(r"Early stopping (\d+\.\d+)th percentile estimate: (\d+)")
_RATES = ("Completed samples per second", "Samples per second", "QPS w/o loadgen overhead")


class LoadGenResult(Record, frozen=True, kw_only=True):
    """One test."""

    kind: LoadKind
    valid: bool
    percentiles: Mapping[str, Number]  # "99.00" → s
    bounds: Mapping[str, Number]  # "99.0" → s, that early stopping gives
    processed: Count | None  # queries that early stopping looked at; None where it says nothing of them
    discarded: Count | None  # the slowest of them, which it left out
    completed_qps: Number | None
    scheduled_qps: Number | None  # of a server load


def read_summary(text: str) -> LoadGenResult:
    """Read a summary.

    Raises:
        UsageProblem: it is none; says what is missing.
    """
    if len(text) > _LONGEST:
        raise UsageProblem(f"{len(text)} characters are no summary of LoadGen: it has some 3,000")
    values = dict(_LINE.findall(text))
    kind, result = _KINDS.get(values.get("Scenario", "")), values.get("Result is")
    if kind is None or result not in ("VALID", "INVALID"):
        raise UsageProblem(
            "no summary of LoadGen: `Scenario : ...` and `Result is : ...` are missing. Give mlperf_log_summary.txt"
        )
    return LoadGenResult(
        kind=kind,
        valid=result == "VALID",
        percentiles={
            found[1]: _seconds(value) for name, value in values.items() if (found := _PERCENTILE.fullmatch(name))
        },
        bounds={name: _seconds(value) for name, value in _BOUND.findall(text)},
        processed=_first(_PROCESSED, text),
        discarded=_first(_DISCARDED, text),
        completed_qps=next((_number(values[name]) for name in _RATES if name in values), None),
        scheduled_qps=_number(values["Scheduled samples per second"])
        if "Scheduled samples per second" in values
        else None,
    )


def read_folder(folder: Path) -> tuple[LoadGenResult, int]:
    """Read the logs of a test; return its result, and of how many queries it is.

    Raises:
        UsageProblem: no summary there, or files that are none of LoadGen.
    """
    texts = {}
    for name in (SUMMARY, _DETAIL):
        path = folder / name
        if not is_file(path) or path.stat().st_size > _LONGEST:
            raise UsageProblem(f"{path} is not there, or no file of LoadGen: give the folder of its mlperf_log_*.txt")
        texts[name] = path.read_text(encoding="utf-8", errors="replace")
    return read_summary(texts[SUMMARY]), _first(_QUERIES, texts[_DETAIL]) or 0


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None


def _seconds(nanoseconds: str) -> float:
    return _number(nanoseconds) / 1e9


def _number(text: str) -> float:
    if not re.fullmatch(r"\d{1,20}(\.\d{1,20})?", text):
        raise UsageProblem(f"no summary of LoadGen: {text[:40]!r} is no number")
    return float(text)
