"""How often a change is found in a series that has none, and in one that has: ours, and apache-otava's.

    python -m benchmarks change_points --series 300 --values 30 80 --otava /opt/otava/bin/otava

With `--otava` that program is asked too; it is installed apart, since it pins other versions.
"""

import argparse
import csv
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks import tables
from benchmarks.projects import RECORDING
from pytest_hwperf.stats.stored.change_points import change_points

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Draw = Callable[[np.random.Generator, int], Values]
_BURN_IN = 60  # values
NEAR = 3  # values: a change that is found so near was found
_HEAD = ("noise", "values", "false", "two sd in the middle", "two sd, eight from the end")
_TOP = """
tests:
  noise:
    type: csv
    file: {file}
    time_column: time
    metrics: [{names}]
"""


def correlated(rho: float, *, heavy: bool = False) -> Draw:
    """Return what draws values of which successive ones correlate by `rho`; heavy: by a t distribution with 3 df."""

    def draw(rng: np.random.Generator, count: int) -> Values:
        steps = rng.standard_t(3, count + _BURN_IN) / np.sqrt(3) if heavy else rng.normal(size=count + _BURN_IN)
        for place in range(1, len(steps)):
            steps[place] += rho * steps[place - 1]
        return np.asarray(steps[_BURN_IN:] * np.sqrt(1 - rho * rho))

    return draw


def bursts(rng: np.random.Generator, count: int) -> Values:
    """Draw values of which one in twenty begins a burst of three, each five standard deviations higher."""
    begins = rng.random(count) < 1 / 20
    high = begins | np.roll(begins, 1) | np.roll(begins, 2)
    return np.asarray(rng.normal(size=count) + 5.0 * high)


def recorded(rng: np.random.Generator, count: int) -> Values:
    """Take successive fresh processes of the recording, of either model, from a round that is drawn."""
    with np.load(RECORDING, allow_pickle=False) as recording:
        medians = np.log(np.median(recording["solo_ns"][:, :, 0], axis=-1))
    count = min(count, len(medians))
    begin = int(rng.integers(len(medians) - count + 1))
    return np.asarray(medians[begin : begin + count, int(rng.integers(2))] * 100)


NOISES: dict[str, Draw] = {
    "independent": correlated(0.0),
    "autocorrelation .3": correlated(0.3),
    "autocorrelation .6": correlated(0.6),
    "autocorrelation .9": correlated(0.9),
    "independent, t with 3 df": correlated(0.0, heavy=True),
    "bursts of three": bursts,
    "recorded processes": recorded,
}


def places_by_us(series: Sequence[Values]) -> list[list[int]]:
    """Return where we find changes at 1 % a series."""
    return [[one.place for one in change_points(list(values))] for values in series]


def places_by_otava(program: str, series: Sequence[Values]) -> list[list[int]]:
    """Return where apache-otava finds changes with its defaults; values are made 100 and more, for it divides by them.

    Raises:
        SystemExit: it ends with an error.
    """
    count, names = len(series[0]), [f"s{number}" for number in range(len(series))]
    days = [datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        data, config = Path(folder, "data.csv"), Path(folder, "otava.yaml")
        with data.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["time", *names])
            for place, day in enumerate(days):
                writer.writerow([day.isoformat(), *(f"{100 + values[place]:.6f}" for values in series)])
        config.write_text(_TOP.format(file=data, names=", ".join(names)))
        words = (program, "analyze", "--config-file", str(config), "noise", "--since", "2024-01-01", "--output", "json")
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")
    found: dict[str, list[int]] = {name: [] for name in names}
    for change in (change for one in json.loads(done.stdout)["noise"] for change in one["changes"]):
        found[change["metric"]].append(change["index"])
    return list(found.values())


def rows(judge: Callable[[Sequence[Values]], list[list[int]]], count: int, of: int) -> Iterator[tuple[object, ...]]:
    """Yield a row of the table for each noise: false changes, and found ones in the middle and near the end."""
    for name, draw in NOISES.items():
        rng = np.random.default_rng(1)
        series = [draw(rng, count) for _ in range(of)]
        length = len(series[0])
        cells = [percent(sum(map(bool, judge(series))), of)]
        sd = float(np.median([values.std() for values in series]))
        for begin in (length // 2, length - 8):
            moved = [values + 2 * sd * (np.arange(length) >= begin) for values in series]
            cells.append(percent(sum(any(abs(at - begin) <= NEAR for at in one) for one in judge(moved)), of))
        yield name, length, *cells


def percent(found: int, of: int) -> str:
    """Return a share with its interval."""
    return f"{100 * found / of:.1f} % ({tables.interval(found, of)})"


def main() -> None:
    """Print a table for each program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=500, help="of each kind (default: 500)")
    parser.add_argument("--values", type=int, nargs="+", default=[30, 80], help="of a series (default: 30 80)")
    parser.add_argument("--otava", help="program of apache-otava, installed apart")
    asked = parser.parse_args()
    programs: dict[str, Callable[[Sequence[Values]], list[list[int]]]] = {"ours, 1 % a series": places_by_us}
    if asked.otava:
        programs["apache-otava, defaults"] = lambda series: places_by_otava(asked.otava, series)
    for name, judge in programs.items():
        found = (row for count in asked.values for row in rows(judge, count, asked.series))
        print(f"{name}\n\n{tables.markdown(_HEAD, found)}\n", flush=True)
