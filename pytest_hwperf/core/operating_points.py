"""Operating points: batch size, threads and load at which something was measured; only what shares one is ranked."""

from collections.abc import Mapping, Sequence

from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem

CONDITIONS: Mapping[str, str] = {"batch_size": "", "threads": "", "load": "single_stream"}  # → unless declared

Point = tuple[tuple[str, str], ...]  # conditions that tell points apart, each with its value


def points_of(declared: Sequence[Mapping[str, str]]) -> list[Point]:
    """Return the operating point of each measurement, by the conditions that it declares.

    A condition tells points apart if several values of it are declared; then those that declare none have a point of
    their own. Where all that declare it agree, the others are taken to agree too.
    """
    known = {name: {one.get(name, usual) for one in declared} - {""} for name, usual in CONDITIONS.items()}
    telling = [name for name, values in known.items() if len(values) > 1]
    return [tuple((name, one.get(name, CONDITIONS[name])) for name in telling) for one in declared]


def described(point: Point) -> str:
    """Write a point as `batch_size=32, threads=1`; "" where nothing tells it from others."""
    return ", ".join(f"{name}={value or 'not declared'}" for name, value in point)


def parse_point(texts: Sequence[str]) -> dict[str, str]:
    """Turn `batch_size=32` into the conditions that are asked for."""
    found = dict[str, str]()
    for text in texts:
        name, _, value = text.partition("=")
        if name not in CONDITIONS:
            raise UsageProblem(
                f"--at={text}: unknown condition.{nearest(name, CONDITIONS)} Allowed: {', '.join(CONDITIONS)}"
            )
        if not value or found.get(name, value) != value:
            raise UsageProblem(f"--at={text}: one value for each condition, such as --at batch_size=32")
        found[name] = value
    return found


def lies_at(conditions: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether a measurement declares the conditions that are asked for."""
    return all(conditions.get(name, CONDITIONS[name]) == value for name, value in asked.items())
