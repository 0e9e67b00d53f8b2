"""Estimators in files of skops, which may come from anyone: a type that is not trusted is named, and never made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible

_SHOWN = 10  # types that are named


def load_estimator(path: Path, trust: Sequence[str] = ()) -> Any:
    """Load an estimator; skops looks at every type in the file before it imports or makes one."""
    try:
        from skops import io
    except ImportError:
        raise UsageProblem(
            f"{path} is read by skops, which is not installed: pip install 'pytest-hwperf[skops]'"
        ) from None
    try:
        unknown = [name for name in io.get_untrusted_types(file=path) if name not in trust]
    except Exception as error:  # damaged archives and schemas raise a dozen unrelated kinds
        raise UsageProblem(f"{path} is no file of skops ({_told(error)}): write one with skops.io.dump") from error
    if unknown:
        raise UsageProblem(_refusal(path, unknown))
    try:
        estimator = io.load(path, trusted=[*trust])
    except Exception as error:
        raise UsageProblem(f"{path} cannot be loaded: {_told(error)}") from error
    if not callable(getattr(estimator, "predict", None)):
        raise UsageProblem(f"{path} holds a {type(estimator).__name__}, which has no method predict")
    return estimator


def _refusal(path: Path, unknown: Sequence[str]) -> str:
    more = f" and {len(unknown) - _SHOWN} others" if len(unknown) > _SHOWN else ""
    names, options = (sep.join(map(visible, unknown[:_SHOWN])) for sep in (", ", " --trust="))
    return (
        f"{path} holds types that are not trusted: {names}{more}. Loading one runs its code: look at them, and if you "
        f"trust them, give --trust={options}"
    )


def _told(error: Exception) -> str:
    return visible(f"{type(error).__name__}: {error}"[:300])
