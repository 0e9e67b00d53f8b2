"""`hwperf sweep`: what it takes, what it writes, and how it ends."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import records as fake
from fakes.commands import Told
from fakes.onnx_models import save_onnx

from pytest_hwperf.cli import INTERRUPTED, USAGE, main, sweep
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.cli.sweep import exit_code
from pytest_hwperf.gate.models import sweeps
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import SweepFile, SweepPoint, SweepRow
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.choice.sweeps import row_of, sweep_of

QUICK = ["--time=0.012", "--energy=off", "--seed=3"]
P95 = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.010)

FUNCTIONS = """
def total(X):
    return X.sum(axis=1)

def few(X):
    if len(X) > 4:
        raise ValueError("too many")
    return X.sum(axis=1)
"""


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A file that doubles its rows, 16 rows, and a module of functions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # and taken out again, with what the command adds
    save_onnx("m.onnx", [("Add", ["x", "x"], "y")], {"x": 4}, {"y": 4})
    np.savez("rows.npz", X=np.ones((16, 4), dtype="float32"))
    Path("swept_models.py").write_text(FUNCTIONS, encoding="utf-8")
    return "m.onnx"


@pytest.mark.live
def test_a_file_is_swept_and_written(told: Told) -> None:
    given = ["--batch-size=1,8", "--latency-p95-ms=1e6", "--json=s.json", *QUICK]
    out, err = told(OK, "sweep", "m.onnx", "--data=rows.npz", *given)
    assert "highest throughput: batch_size " in out
    assert "wrote s.json" in out
    assert err.startswith("sweep: rehearsal\nsweep: round 1 of 6\n")
    written = from_json(SweepFile, Path("s.json").read_bytes())
    assert (3, 6, False) == (written.seed, written.rounds, written.partial)
    assert [6, 6] == [row.figures[0].estimate.n for row in written.sweep.rows]
    assert "pytest-hwperf sweep" == json.loads(Path("s.json").read_bytes())["what"]


@pytest.mark.live
def test_a_function_is_swept_with_its_energy(told: Told) -> None:
    given = ["--data=rows.npz", "--batch-size=16", "--time=0.012", "--energy=estimate", "--goal=energy"]
    answer = told(OK, "sweep", "swept_models:total", *given).out
    assert "lowest energy: batch_size 16, threads 1: energy mean " in answer


@pytest.mark.live
def test_every_miss_gives_1() -> None:
    assert FAILED == main(["sweep", "m.onnx", "--data=rows.npz", "--batch-size=1,8", "--latency-p50-ms=1e-9", *QUICK])


def test_an_interrupted_sweep_is_written_as_partial(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps.ModelAtPoints, "measure", pressed)
    answer = told(INTERRUPTED, "sweep", "m.onnx", "--data=rows.npz", "--batch-size=1", "--json=s.json", *QUICK).out
    assert "note: interrupted: 0 whole rounds of 6 before it" in answer
    assert from_json(SweepFile, Path("s.json").read_bytes()).partial


REFUSED: Sequence[tuple[Sequence[str], str]] = (
    (["gone.onnx"], "gone.onnx is neither a file nor of the form module:function"),
    (["m.onnx", "--batch-size=1,x"], "--batch-size=1,x: give whole numbers with commas between them"),
    (["m.onnx", "--batch-size=largest"], "searches within a limit on memory: add --memory-max-mb"),
    (["m.onnx", "--batch-size=0"], "(batch_size=[0]): 0 is no whole number from 1 on"),
    (["m.onnx", "--batch-size=32"], "--batch-size: 32 rows a call, and the data has 16"),
    (["m.onnx", "--time=0"], "--time=0: a number of seconds above 0 up to 3600, such as 2"),
    (["m.onnx", "--seed=-1"], "--seed=-1: a whole number from 0 up to 2147483647"),
    (["m.onnx", "--latency-p95-ms=-1"], "(latency_p95_ms=-1.0): a limit is never negative"),
    (["m.onnx", "--batch-size=1", "--json=gone/s.json"], "--json=gone/s.json cannot be written (No such file"),
    (["m.onnx", "--batch-size=1", "--energy=off", "--goal=energy"], "--goal=energy needs a source of energy"),
    (["m.onnx", "--batch-size=1", "--energy=rappel"], "Did you mean 'rapl'?"),
    (["swept_models:gone", "--batch-size=1"], "swept_models:gone cannot be imported"),
    (
        ["swept_models:few", "--batch-size=1,8", "--time=0.06", "--energy=off"],
        "swept_models:few at batch_size 8, threads 1 cannot be called: ValueError: too many",
    ),
)


def test_what_cannot_be_swept_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: Told) -> None:
    assert [] == [one for one in REFUSED if one[1] not in told(USAGE, "sweep", *one[0], "--data=rows.npz").err]
    monkeypatch.setenv("HWPERF_POWERCAP_ROOT", str(tmp_path))
    told(USAGE, "sweep", "m.onnx", "--data=rows.npz", "--batch-size=1", "--energy=rapl")


def points(p95: Sequence[float]) -> list[SweepRow]:
    """Return a row for each latency, which is known to two percent."""
    rows = []
    for position, value in enumerate(p95):
        point = SweepPoint(sweep="m", values={"batch_size": position + 1}, limits=(P95,))
        found = fake.estimate(value, value * 0.98, value * 1.02, 100)
        rows.append(row_of(point, [fake.figure("latency", statistic, found) for statistic in ("p50", "p95")]))
    return rows


def test_the_exit_code_is_about_the_goal() -> None:
    """9.9 ms reaches 10.1 ms.

    Where the smallest batch is left out, its memory says whether every point misses. That the memory of a batch that
    was left out is known is no doubt.
    """
    for p95, code in (([0.02, 0.03], FAILED), ([0.02, 0.0099], INCONCLUSIVE), ([0.001, 0.02], OK)):
        assert (p95, code) == (p95, exit_code(sweep_of("m", points(p95)), "latency"))
    limit = Budget(keyword="memory_max_mb", metric="memory", statistic="p50", limit=6e6)
    for most, code in ((7e6, FAILED), (4.5e6, INCONCLUSIVE)):
        skipped = state("not known to fit", limit="")
        point = SweepPoint(sweep="m", values={"batch_size": 1}, limits=(limit,), skipped=skipped)
        size = fake.figure("memory", "p50", fake.estimate(most + 1.5e6, most + 1e6, most + 2e6, 3))
        assert (most, code) == (most, exit_code(sweep_of("m", [row_of(point, [size])]), "throughput"))
    missing = SweepPoint(sweep="m", values={"batch_size": 1}, limits=(P95,))
    left_out = replace(missing, values={"batch_size": 8}, skipped=state("said", text="beyond"))
    late, known = (fake.estimate(value, value, value, n) for value, n in ((0.02, 100), (5e6, 3)))
    rows = [
        row_of(missing, [fake.figure("latency", "p95", late)]),
        row_of(left_out, [fake.figure("memory", "p50", known)]),
    ]
    assert FAILED == exit_code(sweep_of("m", rows), "latency")


@pytest.mark.live
@pytest.mark.runtime
def test_a_picture_is_written() -> None:
    pytest.importorskip("matplotlib", reason="pictures need pytest-hwperf[plot]")
    main(["sweep", "m.onnx", "--data=rows.npz", "--batch-size=1,8", "--plot=s.png", *QUICK])
    assert Path("s.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.live
def test_the_largest_batch_is_searched_within_the_rows_of_the_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def memory(_: str, __: Path, point: SweepPoint) -> Any:
        size = 1e6 * int(point.values["batch_size"])
        return [fake.figure("memory", "p50", fake.estimate(size, size, size, 3), source="VmHWM", per="fresh process")]

    monkeypatch.setattr(sweep, "memory_of", memory)
    for limit, told in (("9", "is batch_size 9, threads 1: memory p50"), ("99", "fit in one call, batch_size 16")):
        given = ["--batch-size=largest", f"--memory-max-mb={limit}", *QUICK]
        assert OK == main(["sweep", "m.onnx", "--data=rows.npz", *given])
        assert told in " ".join(capsys.readouterr().out.split())


@pytest.mark.live
def test_memory_is_measured_in_fresh_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three of them, of which one answers for all."""
    processes = list[int]()

    def ask_one(task: WorkerTask, commands: Sequence[Command]) -> list[WorkerResult]:
        processes.append(len(commands))
        return ask(task, commands[:1]) * len(commands)

    monkeypatch.setattr(sweeps, "ask", ask_one)
    assert OK == main(["sweep", "m.onnx", "--data=rows.npz", "--batch-size=8", "--memory-max-mb=1000", *QUICK])
    assert [3] == processes
    assert "memory" in capsys.readouterr().out.splitlines()[1]
