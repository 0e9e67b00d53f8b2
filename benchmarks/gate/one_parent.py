"""Pairs forked from one parent beside pairs of two processes: their spread, their time, and what they find.

    python -m benchmarks one_parent --rounds 100 --out idle.jsonl

`--busy 4` runs beside so many busy processes. A round is one pair of each kind and of one planted change, in drawn
order.
"""

import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from benchmarks import arms, tables
from benchmarks.arms import Record
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.lockstep import Chance, Program
from pytest_hwperf.gate.pair.run import Holder
from pytest_hwperf.gate.pair.shared_imports import SharedImports
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.pinning import processors
from pytest_hwperf.records.evidence import Hypothesis, Measurement, Side
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.figures.ranks import hodges_lehmann
from pytest_hwperf.stats.pairs.hypotheses import SIDES
from pytest_hwperf.stats.pairs.paired import pair_value
from pytest_hwperf.stats.pairs.timetable import PAIR_PLAN

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
MARGIN = Margin(metric=MEDIAN_LATENCY[0], statistic=MEDIAN_LATENCY[1], size=0.02)
NODES = [f"test_it.py::test_{name}" for name in ("logistic", "forest", "products", "words", "frames")]
ASKED = [Hypothesis(measurement=Measurement(test=node, label=""), margin=MARGIN, better="lower") for node in NODES]


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
        shared = self.shared.get(way)
        program = Program(
            nodes=NODES,
            asked=ASKED,
            also=[MEDIAN_LATENCY],  # no turns end early
            plan=PAIR_PLAN,
            chance=Chance(self.random, processors()),
            stage="confirm",
        )
        holder = Holder(
            commands=self.commands, logs=self.logs, plant=plant, watches={}, clock=time.monotonic, numbers=self.numbers
        )
        if shared and shared.ahead:  # as during the pair before
            shared.try_out(FOREVER)
        began = time.monotonic()
        trace = holder.hold(program, shared=shared)
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
        start_s = min(trace.reached.values()) - began if trace.reached else None
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


def shown(records: Sequence[Record]) -> Iterator[str]:
    """Yield the spread of equal pairs and what pairs took, and what planted work was seen as."""
    whole = [record for record in records if not record["lost"]]
    names = sorted({name for record in records for name in record["values"]})

    def values(way: str, plant: float) -> list[list[float]]:
        mine = [one for one in whole if (one["way"], one["plant"]) == (way, plant)]
        return [[one["values"][name] for one in mine] for name in names] if mine else []

    rows = []
    for way in WAYS:
        if found := values(way, 0.0):
            starts, walls = (
                [one[key] for one in whole if one["way"] == way and one[key]] for key in ("start_s", "wall_s")
            )
            times = (f"{statistics.median(seconds):.2f} s" if seconds else "" for seconds in (starts, walls))
            rows.append((way, len(found[0]), *(f"{100 * spread(one):.2f}" for one in found), *times))
    yield tables.markdown(("equal code, spread in %", "pairs", *names, "start", "whole pair"), rows)
    rows = []
    for plant in (0.0, *PLANTED):
        for way in WAYS:
            if found := values(way, plant):
                cells = (f"{100 * hodges_lehmann(one):.2f} ({100 * spread(one):.2f})" for one in found)
                rows.append((f"{100 * math.log1p(plant):.2f}", way, len(found[0]), *cells))
    yield tables.markdown(("planted (log, %)", "seen in %, Hodges-Lehmann (spread)", "pairs", *names), rows)
    yield f"pairs lost or not forked: {sum(bool(record['lost']) for record in records)}"


def main() -> None:
    """Record the pairs that are missing, then print the tables."""
    parser = arms.parser(__doc__, "one_parent.jsonl")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=FOREVER, help="no pair begins after that")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile (default: 0)")
    parser.add_argument("--way", action="append", choices=WAYS, help="of these alone; may be repeated")
    asked = parser.parse_args()
    ways, until = asked.way or WAYS, time.monotonic() + asked.seconds
    kinds = [*((way, False) for way in ways), *((way, True) for way in ways[:2])]
    turns = (
        {"round": number, "way": way, "plant": PLANTED[number % len(PLANTED)] if is_planted else 0.0}
        for number, (way, is_planted) in arms.drawn(kinds, asked.rounds)
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(arms.busy(asked.busy))

        @cache
        def recorder() -> Recorder:  # made by the first pair
            made = Recorder(folder, seed=len(arms.read(asked)))
            stack.callback(made.end)
            return made

        records = arms.run(
            asked,
            takewhile(lambda _: time.monotonic() < until, turns),
            lambda turn: recorder().pair(turn["way"], turn["plant"]),
            say=lambda one: f"{one['round']} {one['way']}, {one['plant']:.0%} planted: {one['lost'] or one['values']}",
        )
    print(*shown(records), sep="\n\n")
