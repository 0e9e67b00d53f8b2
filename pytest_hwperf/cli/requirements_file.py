"""Requirements of a model, read from YAML with the names of `hwbudget`; the file may come from anyone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_hwperf.core.budgets import nearest_or_all, parse_budgets
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Budget
from pytest_hwperf.host.files import read_file

_LARGEST = 1 << 16  # bytes
_KEY = "requirements"  # below which limits may stand
_EXAMPLE = "a line for each limit, such as latency_p95_ms: 100"


def read_requirements(file: str) -> tuple[Budget, ...]:
    """Read limits, one a line."""
    import yaml

    try:
        content = read_file(Path(file), _LARGEST).decode("utf-8")
        node = yaml.compose(content, Loader=yaml.SafeLoader)  # nothing is made of it: aliases stay what they are
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(
            f"--requirements={file} cannot be read ({getattr(error, 'strerror', error)}): give {_EXAMPLE}"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageProblem(f"--requirements={file} is no YAML ({error}): give {_EXAMPLE}") from error
    node = _below_requirements(file, node)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise UsageProblem(f"--requirements={file} has no limits: give {_EXAMPLE}")
    if not all(isinstance(name, yaml.ScalarNode) for name, _ in node.value):  # whose text could be exponentially long
        raise UsageProblem(f"--requirements={file}: a list or mapping stands where a name should be: give {_EXAMPLE}")
    pairs = list(_pairs(node))
    if len(dict(pairs)) < len(pairs):
        raise UsageProblem(f"--requirements={file}: a name stands there twice; give each once")
    try:
        return parse_budgets(dict(pairs))
    except UsageProblem as problem:
        told = str(problem).replace("hwbudget(", "(")
        raise UsageProblem(f"--requirements={file}:\n{told}") from problem


def _below_requirements(file: str, node: Any) -> Any:
    """Return what stands below a key `requirements:`, which tables of others begin with; else the node itself."""
    import yaml

    entries = node.value if isinstance(node, yaml.MappingNode) else []
    below = [of for name, of in entries if name.value == _KEY]
    if not below and len(entries) == 1 and isinstance(entries[0][1], yaml.MappingNode):
        name = str(entries[0][0].value)
        raise UsageProblem(f"--requirements={file}: unknown keyword {name!r}.{nearest_or_all(name, [_KEY])}")
    if below and len(entries) > 1:
        raise UsageProblem(f"--requirements={file}: a name stands beside requirements: put every limit below it")
    return below[0] if below else node


def _pairs(node: Any) -> Iterator[tuple[str, object]]:
    """Yield the names of a mapping, each with its number; with the text where that is none."""
    for name, limit in node.value:
        text = str(limit.value) if isinstance(limit.value, str) else "a list or mapping"
        try:
            number: object = float(text)
        except ValueError:
            number = text
        yield name.value, number
