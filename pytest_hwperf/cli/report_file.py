"""Reports of earlier runs, read strictly: they may come from anyone."""

from pathlib import Path

from pytest_hwperf.core.errors import SerialisationError, UsageProblem
from pytest_hwperf.core.report import Report, ReportFile
from pytest_hwperf.core.serialisation import from_file
from pytest_hwperf.host.files import read_file

_LARGEST = 512 * 2**20  # bytes
_OTHER, _OLDER = (
    "give a file of pytest --hwperf-report=FILE.json",
    "write it again with pytest --hwperf-report=FILE.json",
)


def read_report(path: str) -> Report:
    """Read a file of `pytest --hwperf-report=FILE.json`."""
    try:
        return from_file(ReportFile, read_file(Path(path), _LARGEST), other=_OTHER, older=_OLDER).report
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read ({error.strerror}): {_OTHER}") from error
    except SerialisationError as error:
        raise UsageProblem(f"{path} {error}") from error
