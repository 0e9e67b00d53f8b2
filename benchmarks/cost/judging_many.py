"""Seconds to judge and write a thousand results of five metrics, stage by stage."""

import os
import random
import shutil
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmarks.cost.intervals import Row, answer
from benchmarks.cost.judging_peer import peer_seconds
from pytest_hwperf.host import machine
from pytest_hwperf.plugin.session.state import without_collection
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.markers import closest_margins, parse_budgets, parse_margins
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Figure, Machine, Run, Sample, StoredRun
from pytest_hwperf.records.verdict import Comparison, Judgement, Policy
from pytest_hwperf.reports import csv_files, json_file, terminal
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.stored.compare import Criteria, Stored, compare_with_stored, stored_run_of
from pytest_hwperf.stats.verdicts import judge
from pytest_hwperf.stores.baseline_folder import place, render
from pytest_hwperf.stores.json_files import JsonStore

TARGET_S = 1.5
CALLS = 300  # latencies of one result: what a bound of p99 takes
METRICS = 5
_STARTED = "2000-01-01T00:00:00+00:00"
_BUDGETS = parse_budgets(
    {
        "latency_p95_ms": 2,
        "throughput_min_qps": 100,
        "accuracy_min": 0.5,
        "memory_max_mb": 100,
        "cpu_time_max_ms": 10,
    }
)
_MARGINS = closest_margins([parse_margins({"throughput": "2%", "cpu_time": "5%"})])

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Seconds of one stage."""

    name: str
    wall_s: float
    cpu_s: float


def measure(folder: Path, results: int, stored: int, repeats: int, seed: int) -> list[Row]:
    """Take every stage `repeats` times, first with no stored session, then with `stored` of each test.

    Args:
        folder: empty; stores and reports are written below it.
        results: judged tests.
        stored: sessions of each test that it is compared with in the second case.
        repeats: of the whole, each in a new store.
        seed: of the values.
    """
    import scipy.special  # noqa: F401 - a session imports it once, however much it judges

    rows = []
    for case, count in (("no stored session", 0), (f"{stored} stored sessions each", stored)):
        passes = _passes(folder / f"stored {count}", results, count, repeats, seed)
        rows.extend(_rows(f"judge and write {results} results, {case}, median of {repeats}", passes))
    theirs = [peer_seconds(folder / f"peer {i}", results, CALLS, seed + i) for i in range(repeats)]
    names = dict.fromkeys(name for took in theirs for name in took)
    rows.append(
        Row(
            quantity=f"{results} results of 1 metric, 1 stored session, median of {repeats} (wall)",
            target="",
            hwperf="",
            benchmark=f"{median(sum(took.values()) for took in theirs):.2f} s",
        )
    )
    rows.extend(
        Row(quantity=f"  {name} (wall)", target="", hwperf="", benchmark=f"{_middle(theirs, name):.2f} s")
        for name in names
    )
    flushed = median(_flushed(folder / f"flushed {i}", results) for i in range(repeats))
    scale = f"  for scale: {results} empty files, flushed and renamed one by one (wall)"
    return [*rows, Row(quantity=scale, target="", hwperf=f"{flushed:.2f} s", benchmark="")]


def judged_report(results: int, stored: int, seed: int) -> Report:
    """Return the report of made-up results, each judged against `stored` runs; nothing is written."""
    chance, here = random.Random(seed), machine.describe_machine()
    runs = [_run(f"tests/test_many.py::test_{i}", here, chance) for i in range(results)]
    found = [figures(run) for run in runs]
    before = [tuple(_stored(_run(run.test, here, chance)) for _ in range(stored)) for run in runs]
    judged = _judged(runs, found, _compared(runs, found, before, [()] * results))
    return _report([to_json(judgement) for judgement in judged])


def _passes(folder: Path, results: int, stored: int, repeats: int, seed: int) -> list[list[Stage]]:
    chance, here = random.Random(seed), machine.describe_machine()
    runs = [_run(f"tests/test_many.py::test_{i}", here, chance) for i in range(results)]
    filled = _filled(folder / "store", [[_run(run.test, here, chance) for _ in range(stored)] for run in runs])
    return [_stages(_copied(filled, folder / f"store {i}"), runs, folder / f"out {i}") for i in range(repeats)]


def _rows(what: str, passes: Sequence[Sequence[Stage]]) -> list[Row]:
    """Judge the CPU time, since the wall time is also that of everything else on the machine."""
    stages = [
        Stage(name=same[0].name, wall_s=median(s.wall_s for s in same), cpu_s=median(s.cpu_s for s in same))
        for same in zip(*passes, strict=True)
    ]
    wall, cpu = (
        median(totals)
        for totals in zip(*((sum(s.wall_s for s in one), sum(s.cpu_s for s in one)) for one in passes), strict=True)
    )
    return [
        Row(
            quantity=f"{what} (CPU, wall)",
            target="<= 1.5 s",
            hwperf=f"{cpu:.2f}, {wall:.2f} s, {METRICS} metrics",
            benchmark="",
            met=answer(cpu, TARGET_S),
        ),
        *(
            Row(quantity=f"  {s.name} (CPU, wall)", target="", hwperf=f"{s.cpu_s:.2f}, {s.wall_s:.2f} s", benchmark="")
            for s in stages
        ),
    ]


def _middle(taken: Sequence[dict[str, float]], name: str) -> float:
    return median(one[name] for one in taken)


def _run(test: str, here: Machine, chance: random.Random) -> Run:
    """Make a run of five metrics as a scenario gives them, with 1 % noise."""

    def around(value: float, count: int) -> "array[float]":
        return array("d", (value * chance.lognormvariate(0, 0.01) for _ in range(count)))

    labels = array("d", (float(chance.random() < 0.9) for _ in range(150)))  # noqa: PLR2004 - a fair classifier
    return Run(
        test=test,
        label="",
        scenario="",
        machine=here,
        revision="0" * 40,
        started_at=_STARTED,
        samples=(
            Sample(metric="latency", values=around(1e-3, CALLS), per="call", source="perf_counter"),
            Sample(metric="throughput", values=around(900, 6), per="window", source="perf_counter"),
            Sample(metric="cpu_time", values=around(1e-3, 6), per="window", source="rusage:self+children"),
            Sample(metric="memory", values=around(20e6, 3), per="fresh process", source="VmHWM after clear_refs"),
            Sample(metric="accuracy", values=labels, per="example", source="callable"),
        ),
        conditions={"load": "single_stream", "batch_size": "1"},
        context={"interference": "none seen"},
    )


def _filled(folder: Path, before: Sequence[Sequence[Run]]) -> Path:
    """Write the stored sessions without the flushes of `save`, which would take most of the benchmark's time."""
    folder.mkdir(parents=True)
    for runs in filter(None, before):
        sessions = tuple(map(_stored, runs))
        path = folder / "main" / place(runs[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(render(sessions))
    return folder


def _stored(run: Run) -> StoredRun:
    return stored_run_of(Judgement(run=run, figures=figures(run), verdicts=()))


def _copied(filled: Path, place: Path) -> JsonStore:
    shutil.copytree(filled, place)
    return JsonStore(place)


def _stages(store: JsonStore, runs: Sequence[Run], out: Path) -> list[Stage]:
    """Go the road of the plugin, one stage after the other for all runs."""
    took: list[Stage] = []

    def stage(name: str, work: Callable[[], T]) -> T:
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        took.append(Stage(name=name, wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu))
        return done

    with without_collection():  # as a session does
        stage("check the store", lambda: store.check("main", writing=True))
    found = stage("take figures", lambda: [figures(run) for run in runs])
    stored = stage("load stored sessions", lambda: [store.load("main", r.machine, r.test, r.label) for r in runs])
    others = stage("look for other machines where there are none", lambda: _elsewhere(store, runs, stored))
    compared = stage("compare", lambda: _compared(runs, found, stored, others))
    judged = stage("judge", lambda: _judged(runs, found, compared))
    texts = stage("put on the tests' reports", lambda: [to_json(judgement) for judgement in judged])
    with without_collection():  # as the end of a session does
        report = stage("gather", lambda: _report(texts))
        stage("save in the store", lambda: store.save("main", [stored_run_of(one) for one in report.judgements]))
        stage("write JSON and CSV", lambda: _write(out, report))
        stage("draw the terminal's table", lambda: terminal.render_summary(report, width=120))
    return took


def _elsewhere(
    store: JsonStore, runs: Sequence[Run], stored: Sequence[tuple[StoredRun, ...]]
) -> list[tuple[Machine, ...]]:
    return [
        () if sessions else store.machines("main", run.test, run.label)
        for run, sessions in zip(runs, stored, strict=True)
    ]


def _compared(
    runs: Sequence[Run],
    found: Sequence[tuple[Figure, ...]],
    stored: Sequence[tuple[StoredRun, ...]],
    others: Sequence[tuple[Machine, ...]],
) -> list[tuple[Comparison, ...]]:
    criteria = Criteria(margins=_MARGINS)
    return [
        compare_with_stored(run, mine, Stored(runs=sessions, elsewhere=elsewhere), criteria)
        for run, mine, sessions, elsewhere in zip(runs, found, stored, others, strict=True)
    ]


def _judged(
    runs: Sequence[Run], found: Sequence[tuple[Figure, ...]], compared: Sequence[tuple[Comparison, ...]]
) -> list[Judgement]:
    return [
        Judgement(run=run, figures=mine, verdicts=judge(run, mine, held, _BUDGETS, Policy()))
        for run, mine, held in zip(runs, found, compared, strict=True)
    ]


def _report(texts: Sequence[bytes]) -> Report:
    judgements = tuple(from_json(Judgement, one) for one in texts)
    run = judgements[0].run
    return Report(
        machine=run.machine, revision=run.revision, started_at=_STARTED, baseline="main", judgements=judgements
    )


def _write(out: Path, report: Report) -> None:
    out.mkdir()
    files = {"hwperf.json": json_file.render(report, judgements_read=True), **csv_files.render(report)}
    for name, content in files.items():
        (out / name).write_bytes(content)


def _flushed(folder: Path, count: int) -> float:
    """Return the seconds that the disk takes for `count` files written as safely as the store writes them."""
    folder.mkdir()
    place = os.open(folder, os.O_RDONLY)
    started = time.perf_counter()
    for i in range(count):
        path = folder / f"{i}.tmp"
        with path.open("wb") as file:
            file.write(b"{}")
            file.flush()
            os.fsync(file.fileno())
        path.replace(folder / f"{i}.json")
        os.fsync(place)
    took = time.perf_counter() - started
    os.close(place)
    return took
