"""`hwperf report --from`: files of other programs as reports; they may come from anyone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake
from fakes.commands import Told

from pytest_hwperf.cli import USAGE, foreign, main
from pytest_hwperf.cli.output import OK
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.reports import exports, json_file

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


def rounds_in(text: bytes) -> Report:
    return foreign.FORMS["pytest-benchmark"](text, "b.json")


def estimates(report: Report, place: int = 0) -> Mapping[Key, Estimate]:
    return {figure.key: figure.estimate for figure in report.judgements[place].figures}


def test_statistics_of_rounds_give_an_interval_of_the_mean_alone() -> None:
    """t(9, 0.95) = 1.8331: 2 ms ± 1.8331 × 0.1 ms / sqrt(10) = 0.057968 ms; of one round there is none."""
    report = rounds_in(written())
    found, run = estimates(report), report.judgements[0].run
    mean, median = found["latency", "mean"], found["latency", "p50"]
    assert pytest.approx((0.002 - 57.968e-6, 0.002 + 57.968e-6), rel=1e-6) == (mean.low, mean.high)
    assert (0.00199, None, None, 10) == (median.value, median.low, median.high, median.n)
    assert 0.0023 == found["latency", "max"].value
    assert ("tests/test_a.py::test_a", "4f2c1e9") == (run.test, run.revision)
    assert (True, fake.STARTED) == (run.changed, run.started_at)
    assert {"pytest-benchmark: statistics of rounds"} == {one.source for one in report.judgements[0].figures}
    mean = estimates(rounds_in(written(rounds=1, stddev=0)))["latency", "mean"]
    assert (0.002, None, None) == (mean.value, mean.low, mean.high)


def test_rounds_that_were_saved_are_read_as_readings() -> None:
    """Five rounds of 4 calls each."""
    report = rounds_in(written(data=[0.001, 0.002, 0.003, 0.004, 0.005], rounds=5, iterations=4))
    found = estimates(report)["latency", "p50"]
    assert (0.003, 5) == (found.value, found.n)
    assert found.low is not None
    assert "batch of 4 calls" == report.judgements[0].figures[0].per


def timed_by(timer: str, **stats: object) -> Report:
    file = json.loads(written(**stats))
    file["benchmarks"][0]["options"] = {"timer": timer, "min_rounds": 5}
    return rounds_in(json.dumps(file).encode())


@pytest.mark.parametrize("timer", ["process_time", "thread_time"])
def test_cpu_seconds_are_no_latency(timer: str) -> None:
    """A call that sleeps for 0.2 s takes 20 µs of CPU time: `--benchmark-timer=time.process_time`."""
    for stats in ({}, {"data": [2e-5, 2e-5, 2e-5]}):
        report = timed_by(timer, **stats)
        assert {"cpu_time"} == {figure.metric for figure in report.judgements[0].figures}
        assert all(timer in figure.source for figure in report.judgements[0].figures)


@pytest.mark.parametrize("timer", ["perf_counter", "monotonic", "time"])
def test_every_clock_of_the_wall_gives_a_latency(timer: str) -> None:
    report = timed_by(timer)
    assert 0.00199 == estimates(report)["latency", "p50"].value
    assert not any("timed by" in warning for warning in report.warnings)


def test_nanoseconds_that_were_taken_for_seconds_become_seconds() -> None:
    """`--benchmark-timer=time.perf_counter_ns` writes a median of 1,990,000 "seconds" for 1.99 ms."""
    counts: dict[str, object] = {name: STATS[name] * 1e9 for name in ("mean", "median", "stddev", "max")}
    found = estimates(timed_by("perf_counter_ns", **counts))
    assert pytest.approx(0.00199) == found["latency", "p50"].value
    assert pytest.approx(0.002) == found["latency", "mean"].value
    assert pytest.approx(2e-5) == estimates(timed_by("process_time_ns", data=[20_000.0]))["cpu_time", "mean"].value


def test_what_an_own_timer_counts_is_marked() -> None:
    """A function of the user, such as one that reads the events of a GPU."""
    report = timed_by("gpu_seconds")
    assert report.warnings[0].startswith("timed by 'gpu_seconds', a timer of the benchmarks' own: ")
    assert {"pytest-benchmark: statistics of rounds by 'gpu_seconds'"} == {
        figure.source for figure in report.judgements[0].figures
    }


def test_the_mean_of_exported_rounds_is_read_again() -> None:
    report = rounds_in(exports.render_pytest_benchmark(fake.report()).content)
    assert [0.00639, 42e-6, 0.0063] == [
        pytest.approx(estimates(report, place)["latency", "p50"].value) for place in range(3)
    ]


def test_a_profile_of_onnx_runtime_gives_shares_of_a_call(tmp_path: Path, told: Told) -> None:
    """60.5, 9.5 and 80.5 µs, with half of what the profile has cut: 75.2 % and 11.8 %."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PROFILE), encoding="utf-8")
    shown = told(OK, "report", f"--from=onnxruntime:{path}", f"--output={tmp_path / 'report.json'}").out
    assert "n=1 call, under the profiler" in shown
    assert ["Gemm", "1", "75.2", "%", "60.5", "µs", "a"] in [line.split() for line in shown.splitlines()]
    assert r"b\u202e" in shown
    assert OK == main(["report", str(tmp_path / "report.json")])


def test_the_cost_of_the_profiler_is_said_where_operators_are_short() -> None:
    """Five operators in 80 µs."""
    more = [{**PROFILE[3], "ts": 2072 + k, "dur": 1} for k in (0, 2, 4)]
    doubt = "operators of this profile take less than 20 µs"
    short, long = (foreign.FORMS["onnxruntime"](json.dumps(one).encode(), "p") for one in (PROFILE + more, PROFILE))
    assert short.warnings[0].startswith(doubt)
    assert not long.warnings[0].startswith(doubt)


HOSTILE = [
    b"",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"a": NaN}',
    b'[{"name": "x", "cat": "Node", "ts": -1, "dur": 1}]',
    b'{"benchmarks": [{"fullname": "x", "stats": {"mean": "1"}}]}',
    b'{"benchmarks": [{"fullname": "x", "stats": {"mean": 1e999}}]}',
    b'{"benchmarks": []}',
    b"{}",
    b"[]",
    b"null",
]


def test_what_is_no_such_file_is_refused_with_a_sentence() -> None:
    for program in foreign.FORMS:
        for text in HOSTILE:
            with pytest.raises(HwperfError) as caught:
                foreign.FORMS[program](text, "x")
            assert len(str(caught.value)) > 20, (program, text[:40])


def test_names_of_any_length_and_kind_do_no_harm(tmp_path: Path, told: Told) -> None:
    path, out = tmp_path / "x.json", tmp_path / "out.json"
    entry = {"fullname": "\x1b[2J\u202e<script>" + "x" * 3000, "stats": STATS}
    path.write_text(json.dumps({"benchmarks": [entry], "datetime": "\x1b"}), encoding="utf-8")
    shown = told(OK, "report", f"--from=pytest-benchmark:{path}", f"--output={out}").out
    assert not set("\x1b\u202e") & set(shown)
    assert "x" * 1200 not in shown
    assert json.loads(out.read_bytes())["report"]["judgements"]


def test_what_cannot_be_read_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    (other := tmp_path / "other.json").write_bytes(json_file.render(fake.report()))
    forms = "write FORMAT:FILE, where FORMAT is pytest-benchmark or onnxruntime"
    for origin, said in (
        ("onnxruntime:none.json", "none.json cannot be read (No such file or directory): give a file of onnxruntime"),
        ("onnxruntime", forms),
        ("bencher:x.json", forms),
        ("onnxruntime:/dev/null", "/dev/null cannot be read (not a regular file)"),
        (f"onnxruntime:{'x' * 300}", "cannot be read"),
        (f"pytest-benchmark:{other}", f"{other}: this is no file of pytest-benchmark (--benchmark-json): "),
    ):
        assert said in told(USAGE, "report", f"--from={origin}").err
    monkeypatch.setattr(foreign, "_LARGEST", 3)
    (large := tmp_path / "x.json").write_bytes(b"[   ]")
    assert "larger than" in told(USAGE, "report", f"--from=onnxruntime:{large}").err
