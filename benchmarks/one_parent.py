"""Pairs whose sides are forked from one parent beside pairs of two processes: their spread, their time, what they find.

From the root of the repository: `python -m benchmarks.one_parent --rounds 100 --out idle.jsonl`, and `--busy 4` beside
so many busy processes. A round is one pair of each kind and of each planted change, in drawn order; a line of the file
is one pair. A killed run goes on where it was; `--show` prints the tables alone.
"""

import argparse
import json
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.busy import busy
from pytest_hwperf.core.evidence import Side
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.paired import pair_value
from pytest_hwperf.core.ranks import hodges_lehmann
from pytest_hwperf.core.timetable import PAIR_PLAN
from pytest_hwperf.host.launch import Command
from pytest_hwperf.pairs.chance import Chance
from pytest_hwperf.pairs.conductor import Conductor
from pytest_hwperf.pairs.holding import Holder
from pytest_hwperf.pairs.lockstep import Program
from pytest_hwperf.pairs.shared_imports import SharedImports
from pytest_hwperf.pairs.turns import processors

FOREVER = math.inf
WAYS = ("two processes", "one parent", "one parent, ahead")
PLANTED = (0.03, 0.05, 0.10)
WORKLOADS = """
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

X = np.random.default_rng(0).normal(size=(256, 20))
Y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
A = np.random.default_rng(0).random((48, 48), dtype=np.float32)
TEXT = "the quick brown fox jumps over the lazy dog " * 200
FRAME = pd.DataFrame({"k": np.arange(400) % 7, "a": np.arange(400.0), "b": np.arange(400.0)})
LOGISTIC = LogisticRegression().fit(X, Y)
FOREST = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, Y)


def words():
    counts = {}
    for word in TEXT.split():
        counts[word] = counts.get(word, 0) + 1


def products():
    for _ in range(40):
        A @ A


def test_logistic(hwperf):
    hwperf(LOGISTIC.predict, X)


def test_forest(hwperf):
    hwperf(FOREST.predict, X)


def test_products(hwperf):
    hwperf(products)


def test_words(hwperf):
    hwperf(words)


def test_frames(hwperf):
    hwperf(lambda: FRAME.groupby("k")["a"].mean())
"""
NODES = [f"test_it.py::test_{name}" for name in ("logistic", "forest", "products", "words", "frames")]


def command(folder: Path, side: Side) -> Command:
    """Return how a side is started: in a folder of its own, as two checkouts are."""
    place = folder / side[:4]
    place.mkdir(exist_ok=True)
    (place / "test_it.py").write_text(WORKLOADS, encoding="utf-8")
    (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(place)}
    words = [str(place / "test_it.py"), f"--rootdir={place}", "-c", str(place / "pytest.ini")]
    return Command(arguments=[*words, "--hwperf-energy=off"], directory=place, environment={**os.environ, **own})


class Recorder:
    """Runs pairs of each kind, of the same two commands."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Rehearse once."""
        self.commands = {side: command(folder, side) for side in SIDES}
        conductor = Conductor(commands=self.commands, logs=folder / "logs", processors=processors(), seed=seed)
        trace = conductor.rehearse(NODES)
        if trace.lost:
            raise SystemExit(f"the rehearsal failed: {trace.lost}")
        self.random, self.numbers, self.logs = random.Random(seed), count(1), folder / "logs"
        self.shared = {
            way: SharedImports(self.commands, trace, self.random, ahead=way.endswith("ahead")) for way in WAYS[1:]
        }

    def pair(self, way: str, plant: float) -> dict[str, Any]:
        """Run one pair; return its values by workload, and what it took."""
        shared, reached = self.shared.get(way), list[float]()
        program = Program(
            nodes=NODES,
            wanted=lambda _: [MEDIAN_LATENCY],
            plan=PAIR_PLAN,
            watch=lambda _: reached.append(time.monotonic()),
            draw=Chance(self.random, processors()).processor,
        )
        holder = Holder(
            commands=self.commands, logs=self.logs, plant=plant, watches={}, clock=time.monotonic, numbers=self.numbers
        )
        if shared and shared.ahead:  # as during the pair before
            shared.try_out(FOREVER)
        began = time.monotonic()
        trace = holder.hold("confirm", program, FOREVER, Chance(self.random, processors()), shared=shared)
        seen = {
            here.test.rpartition("_")[2]: one
            for here, found in trace.interleavings.items()
            for one in found.observations
        }
        values = {name: pair_value(one) for name, one in seen.items()}
        blocks = {
            name: [round(math.log(new / old), 6) for old, new in zip(one.baseline, one.candidate, strict=True)]
            for name, one in seen.items()
        }
        why = shared.why_not if shared else ""
        start_s = reached[0] - began if reached else None
        return {
            "values": values,
            "blocks": blocks,
            "start_s": start_s,
            "wall_s": trace.wall_s,
            "lost": str(trace.lost or why or ""),
        }

    def end(self) -> None:
        """End what is left."""
        for one in self.shared.values():
            one.close()


def spread(values: Sequence[float]) -> float:
    """Return 1.4826 times the median absolute distance from the median."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def tables(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the spread of equal pairs, what planted work was seen as, and what pairs took."""
    names = sorted({name for row in rows for name in row["values"]})
    yield f"{'equal code: spread, %':30}" + "".join(f"{name:>12}" for name in names)
    for way in WAYS:
        of = [row for row in rows if row["way"] == way and not row["plant"] and not row["lost"]]
        found = [[row["values"][name] for row in of] for name in names]
        yield f"{way:22}n={len(of):<6}" + "".join(f"{100 * spread(one):12.2f}" if one else "" for one in found)
        yield f"{'  Hodges-Lehmann':30}" + "".join(f"{100 * hodges_lehmann(one):12.2f}" for one in found if one)
    for plant in PLANTED:
        yield f"+{100 * plant:g} % planted ({100 * math.log1p(plant):.2f} as logarithm): Hodges-Lehmann, spread"
        for way in WAYS:
            of = [row for row in rows if row["way"] == way and row["plant"] == plant and not row["lost"]]
            found = [[row["values"][name] for row in of] for name in names]
            shown = (f"{100 * hodges_lehmann(one):6.2f} {100 * spread(one):5.2f}" for one in found if one)
            if of:
                yield f"{way:22}n={len(of):<6}" + "".join(shown)
    for way in WAYS:
        of = [row for row in rows if row["way"] == way and not row["lost"]]
        starts = [row["start_s"] for row in of if row["start_s"]]
        if starts:
            walls = [row["wall_s"] for row in of]
            yield f"{way:22}start {statistics.median(starts):.2f} s, pair {statistics.median(walls):.2f} s (medians)"
    yield f"pairs lost or not forked: {sum(bool(row['lost']) for row in rows)}"


def main() -> None:
    """Record the rounds that are missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=FOREVER, help="no round begins after that")
    parser.add_argument("--busy", type=int, default=0, help="busy processes beside")
    parser.add_argument("--way", action="append", choices=WAYS, help="of these alone; may be repeated")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    first, until = len({row["round"] for row in rows}), time.monotonic() + asked.seconds
    if not asked.show:
        with tempfile.TemporaryDirectory() as folder, busy(asked.busy) if asked.busy else nullcontext():
            recorder = Recorder(Path(folder), seed=first)
            try:
                for number in range(first, asked.rounds):
                    if time.monotonic() > until:
                        break
                    plant = PLANTED[number % len(PLANTED)]
                    ways = asked.way or WAYS
                    kinds = [*((way, 0.0) for way in ways), *((way, plant) for way in ways[:2])]
                    recorder.random.shuffle(kinds)
                    for way, share in kinds:
                        row = {"round": number, "way": way, "plant": share, **recorder.pair(way, share)}
                        row["load"] = round(os.getloadavg()[0], 2)
                        rows.append(row)
                        with asked.out.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(row) + "\n")
            finally:
                recorder.end()
    print(*tables(rows), sep="\n")


if __name__ == "__main__":
    main()
