"""Reports of earlier runs, read strictly: they may come from anyone."""

import json
from pathlib import Path

from pytest_hwperf.core.errors import SerialisationError, UsageProblem
from pytest_hwperf.core.report import Report, ReportFile
from pytest_hwperf.core.serialisation import foreign, from_plain

_LARGEST = 512 * 2**20  # bytes
_GIVE = "give a file of pytest --hwperf-json"


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
        raise UsageProblem(f"{path} cannot be read ({error.strerror}): {_GIVE}") from error
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"{path} is not whole JSON: {_GIVE}") from error
    if problem := foreign(plain, "pytest-hwperf report", other=_GIVE, older="write it anew with pytest --hwperf-json"):
        raise UsageProblem(f"{path} {problem}")
    try:
        return from_plain(ReportFile, plain).report
    except SerialisationError as error:
        raise UsageProblem(f"{path} holds no valid report ({error})") from error
