"""`hwperf report --from`: files of other programs as reports; they may come from anyone."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.origins import bencher, foreign, github_action_benchmark, onnxruntime, otava, pytest_benchmark
from pytest_hwperf.cli.report import OK
from pytest_hwperf.core.errors import HwperfError, UsageProblem
from pytest_hwperf.core.records import Estimate, Key
from pytest_hwperf.core.report import Report
from pytest_hwperf.reports import bencher as to_bencher
from pytest_hwperf.reports import github_action_benchmark as to_action
from pytest_hwperf.reports import json_file
from pytest_hwperf.reports import otava as to_otava
from pytest_hwperf.reports import pytest_benchmark as to_pytest_benchmark

READERS: Mapping[str, Callable[[bytes], Report]] = {
    "pytest-benchmark": pytest_benchmark.read,
    "bencher": bencher.read,
    "github-action-benchmark": github_action_benchmark.read,
    "otava": otava.read,
    "onnxruntime": partial(onnxruntime.read, name="p.json"),
}
# Ten rounds: mean 2 ms, deviation 0.1 ms.
STATS: Mapping[str, Any] = {
    "min": 0.0018, "max": 0.0023, "mean": 0.002, "stddev": 0.0001, "rounds": 10, "median": 0.00199, "iqr": 0.0001,
    "iterations": 1,
}  # fmt: skip
PROFILE = [
    {"cat": "Session", "name": "model_run", "ts": 0, "dur": 900, "ph": "X", "args": {}},
    {"cat": "Session", "name": "model_run", "ts": 2000, "dur": 80},
    {"cat": "Node", "name": "a_kernel_time", "ts": 2001, "dur": 60, "args": {"op_name": "Gemm", "provider": "CPU"}},
    {"cat": "Node", "name": "b\u202e_kernel_time", "ts": 2062, "dur": 9, "args": {"op_name": "Relu"}},
]


def written(**stats: object) -> bytes:
    benchmark = {"fullname": "tests/test_a.py::test_a", "name": "test_a", "group": None, "stats": {**STATS, **stats}}
    commit = {"id": "4f2c1e9", "dirty": True, "branch": "main"}
    return json.dumps({"benchmarks": [benchmark], "commit_info": commit, "datetime": fake.STARTED}).encode()


def estimates(report: Report, place: int = 0) -> Mapping[Key, Estimate]:
    return {figure.key: figure.estimate for figure in report.judgements[place].figures}


def test_statistics_of_rounds_give_an_interval_of_the_mean_alone() -> None:
    """t(9, 0.95) = 1.8331: 2 ms ± 1.8331 × 0.1 ms / sqrt(10) = 0.057968 ms."""
    report = pytest_benchmark.read(written())
    found = estimates(report)

    assert pytest.approx((0.002 - 57.968e-6, 0.002 + 57.968e-6), rel=1e-6) == (
        found["latency", "mean"].low,
        found["latency", "mean"].high,
    )
    assert (0.00199, None, None, 10) == tuple(
        getattr(found["latency", "p50"], name) for name in ("value", "low", "high", "n")
    )
    assert 0.0023 == found["latency", "max"].value
    run = report.judgements[0].run
    assert ("tests/test_a.py::test_a", "4f2c1e9", True, fake.STARTED) == (
        run.test,
        run.revision,
        run.changed,
        run.started_at,
    )
    assert {"pytest-benchmark: statistics of rounds"} == {one.source for one in report.judgements[0].figures}


def test_one_round_has_no_interval() -> None:
    found = estimates(pytest_benchmark.read(written(rounds=1, stddev=0)))["latency", "mean"]

    assert (0.002, None, None) == (found.value, found.low, found.high)


def test_rounds_that_were_saved_are_read_as_readings() -> None:
    """Five rounds of 4 calls each."""
    report = pytest_benchmark.read(written(data=[0.001, 0.002, 0.003, 0.004, 0.005], rounds=5, iterations=4))
    found = estimates(report)["latency", "p50"]

    assert (0.003, 5) == (found.value, found.n)
    assert found.low is not None
    assert "batch of 4 calls" == report.judgements[0].figures[0].per


@pytest.mark.parametrize(
    ("render", "read"),
    [
        (to_bencher.render, bencher.read),
        (to_action.render, github_action_benchmark.read),
        (to_otava.render, otava.read),
    ],
)
def test_what_was_exported_is_read_as_it_was(render: Any, read: Any) -> None:
    report = read(render(fake.report()).content)
    before = {
        (one.run.test, one.run.label, figure.key): figure
        for one in fake.report().judgements
        for figure in one.figures
        if figure.statistic != "max"
    }

    for judgement in report.judgements:
        for figure in judgement.figures:
            if figure.metric not in judgement.run.directions:
                test = judgement.run.test.removesuffix(" long text")
                label = "long text" if test != judgement.run.test else ""
                one = before.pop((test, label, figure.key))
                assert figure.estimate.value == pytest.approx(one.estimate.value)
                assert figure.estimate.low is None
                assert figure.estimated == one.estimated
    higher = {("throughput", "mean"), ("accuracy", "mean")} if render is to_action.render else set()
    assert {key for _, _, key in before} == higher


def test_the_mean_of_exported_rounds_is_read_again() -> None:
    report = pytest_benchmark.read(to_pytest_benchmark.render(fake.report()).content)

    assert [0.00639, 42e-6, 0.0063] == [
        pytest.approx(estimates(report, place)["latency", "p50"].value) for place in range(3)
    ]


def test_measures_of_bencher_keep_their_names_and_units_of_its_own() -> None:
    text = {"a": {"latency": {"value": 88.0, "lower_value": 87.4}, "memory": {"value": 2}}, "b": {}}
    report = bencher.read(json.dumps(text).encode())

    assert {("latency_ns", "p50"): 88.0, ("bencher_memory", "p50"): 2.0} == {
        key: one.value for key, one in estimates(report).items()
    }
    assert "bencher does not say whether more or less is better of 2 metrics" in report.warnings
    assert [one for one in report.warnings if "lower and upper values" in one]


def test_an_entry_of_the_action_has_its_unit_in_its_name() -> None:
    entries = [{"name": "fib 20", "unit": "ns/iter", "value": 37182, "range": "± 329"}]
    report = github_action_benchmark.read(json.dumps(entries).encode())

    assert ("fib 20", {("value_ns_iter", "p50"): 37182.0}) == (
        report.judgements[0].run.test,
        {key: one.value for key, one in estimates(report).items()},
    )


def test_the_last_row_of_otava_is_shown() -> None:
    text = b"time,commit,branch,metric1,metric2\n2024-01-01,aaa0,main,154023,10.43\n2024-01-02,aaa1,main,138455,nan\n"
    report = otava.read(text)

    assert {("metric1", "p50"): 138455.0} == {key: one.value for key, one in estimates(report).items()}
    assert ("aaa1", "2024-01-02") == (report.revision, report.started_at)
    assert "the last row is shown, and not the 1 above it" in report.warnings


def test_a_profile_of_onnx_runtime_gives_shares_of_a_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """60.5, 9.5 and 80.5 µs, with half of what the profile has cut: 75.2 % and 11.8 %."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PROFILE), encoding="utf-8")

    assert OK == main(["report", f"--from=onnxruntime:{path}", f"--json={tmp_path / 'report.json'}"])
    shown = capsys.readouterr().out
    assert "n=1 call, under the profiler" in shown
    assert ["Gemm", "1", "75.2", "%", "60.5", "µs", "a"] in [line.split() for line in shown.splitlines()]
    assert r"b\u202e" in shown
    assert OK == main(["report", str(tmp_path / "report.json")])


def test_the_cost_of_the_profiler_is_said_where_operators_are_short() -> None:
    """Five operators in 80 µs."""
    more = [{**PROFILE[3], "ts": 2072 + k, "dur": 1} for k in (0, 2, 4)]

    doubt = "operators of this profile take less than 20 µs"
    assert onnxruntime.read(json.dumps(PROFILE + more).encode(), "p").warnings[0].startswith(doubt)
    assert not onnxruntime.read(json.dumps(PROFILE).encode(), "p").warnings[0].startswith(doubt)


HOSTILE = [
    b"",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"a": NaN}',
    b'[{"name": "x", "unit": "s", "value": 1e999}]',
    b'[{"name": "x", "cat": "Node", "ts": -1, "dur": 1}]',
    b'{"benchmarks": [{"fullname": "x", "stats": {"mean": "1"}}]}',
    b'{"benchmarks": []}',
    b'{"a": {"b": {"value": true}}}',
    b"{}",
    b"[]",
    b"time\n",
    b"time,a\n1\n",
    b"time,a,a\n1,2,3\n",
    b"time,commit\n1,2\n",
    b"null",
]


@pytest.mark.parametrize("program", READERS)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40].decode("latin-1"))
def test_what_is_no_such_file_is_refused_with_a_sentence(program: str, text: bytes) -> None:
    with pytest.raises(HwperfError) as caught:
        READERS[program](text)
    assert len(str(caught.value)) > 20


def test_names_of_any_length_and_kind_do_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "x.json", tmp_path / "out.json"
    entry = {"name": "\x1b[2J\u202e<script>" + "x" * 3000, "unit": "\x1b", "value": 1}
    path.write_text(json.dumps([entry]), encoding="utf-8")

    assert OK == main(["report", f"--from=github-action-benchmark:{path}", f"--json={out}"])
    shown = capsys.readouterr().out
    assert not set("\x1b\u202e") & set(shown)
    assert "x" * 1200 not in shown
    assert json.loads(out.read_bytes())["report"]["judgements"]


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("bencher:none.json", "none.json cannot be read (No such file or directory): give a file of bencher"),
        ("bencher", "FORMAT:FILE with pytest-benchmark, bencher, github-action-benchmark, otava, onnxruntime"),
        ("bencher:/dev/null", "/dev/null cannot be read (not a regular file)"),
    ],
)
def test_a_file_that_is_not_there_is_a_usage_error(origin: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["report", f"--from={origin}"])
    assert said in capsys.readouterr().err


def test_a_file_of_another_kind_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(json_file.render(fake.report()))

    assert USAGE == main(["report", f"--from=pytest-benchmark:{path}"])
    assert f"{path}: this is no file of pytest-benchmark (--benchmark-json): " in capsys.readouterr().err


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "_LARGEST", 3)
    path = tmp_path / "x.json"
    path.write_bytes(b"[   ]")

    with pytest.raises(UsageProblem, match="larger than"):
        foreign.read_text(str(path), "otava")


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"cannot be read"):
        foreign.read_text(str(tmp_path / ("x" * 300)), "otava")
