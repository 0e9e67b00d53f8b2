"""Reports of earlier runs, read strictly: they may come from anyone."""

import json
from pathlib import Path

from pytest_hwperf.core.codec import SCHEMA, from_plain
from pytest_hwperf.core.errors import CodecError, UsageProblem
from pytest_hwperf.core.report import Report

_WHAT = "pytest-hwperf report"
_LARGEST = 512 * 2**20  # bytes


def read_report(path: str) -> Report:
    """Read a file of `pytest --hwperf-json`.

    Raises:
        UsageProblem: no such file, or something else in it; says what.
    """
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise UsageProblem(f"{path} has over {_LARGEST / 1e6:.0f} MB, more than any report of pytest-hwperf")
        plain = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read ({error.strerror}): give a file of pytest --hwperf-json") from error
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"{path} is not whole JSON: give a file of pytest --hwperf-json") from error
    if not isinstance(plain, dict) or plain.get("what") != _WHAT:
        raise UsageProblem(f"{path} is no report of pytest-hwperf: give a file of pytest --hwperf-json")
    if plain.get("schema") != SCHEMA:
        raise UsageProblem(
            f"{path} has schema {plain.get('schema')!r}, this version reads {SCHEMA}: use the version that wrote it"
        )
    try:
        return from_plain(Report, plain.get("report"))
    except CodecError as error:
        raise UsageProblem(f"{path} holds no valid report ({error})") from error
