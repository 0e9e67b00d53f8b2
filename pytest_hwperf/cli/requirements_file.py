"""Requirements of a model, read from YAML with the names of `hwbudget`; the file may come from anyone."""

from pathlib import Path

from pytest_hwperf.core.budgets import parse_budgets
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Budget

_LARGEST = 1 << 20  # bytes
_EXAMPLE = "a line for each limit, such as latency_p95_ms: 100"


def read_requirements(file: str) -> tuple[Budget, ...]:
    """Read limits, one a line.

    Raises:
        UsageProblem: no such file, no YAML, an unknown name with the nearest one, or a limit that cannot be meant.
    """
    import yaml

    try:
        with Path(file).open(encoding="utf-8") as text:
            content = yaml.safe_load(text.read(_LARGEST))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"--requirements={file} cannot be read ({error}): give {_EXAMPLE}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageProblem(f"--requirements={file} is no YAML ({error}): give {_EXAMPLE}") from error
    if not isinstance(content, dict) or not content:
        raise UsageProblem(f"--requirements={file} has no limits: give {_EXAMPLE}")
    try:
        return parse_budgets({str(name): limit for name, limit in content.items()})
    except UsageProblem as problem:
        told = str(problem).replace("hwbudget(", "(")
        raise UsageProblem(f"--requirements={file}:\n{told}") from problem
