"""Does a fake of the project reach hwperf? Each of them, in each way of measuring: right, or unmeasured with a reason.

    python -m benchmarks faked --only freezegun gate

A test of each cell calls a function that takes a known time, and a test after it has no fake. Signals go through a
recorder that is in place before anything is imported, and that lets none pass which means more than one process.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.projects import commit, write

WORK = "def work():\n    return sum(i * i for i in range({rounds}))\n"
# Whatever this process and those that it starts send is noted; nothing is sent that means several processes of others.
RECORDER = """
import os
def recorded(name, real):
    def send(number, kind):
        if type(number) is int and number > 1:
            return real(number, kind)
        with open(os.environ["FAKED_SIGNALS"], "a") as file:
            file.write(f"{name}({type(number).__name__}, {kind})\\n")
        raise ProcessLookupError
    return send
os.kill, os.killpg = recorded("kill", os.kill), recorded("killpg", os.killpg)
"""
_PATCHED = "import pytest\n\n@pytest.fixture\ndef faked(mocker):\n    mocker.patch({})\n"
_WITH = "import pytest\n{}\n\n@pytest.fixture\ndef faked():\n    with {}:\n        yield\n"
_NONE = "import pytest\n\n@pytest.fixture\ndef faked():\n    pass\n"
_ASKS = "import pytest\n\n@pytest.fixture\ndef faked({}):\n    pass\n"
_FREEZE = "from freezegun import freeze_time"
FAKES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # name → conftest.py and options
    "no fake": (_NONE, ()),
    "mocker Popen": (_PATCHED.format('"subprocess.Popen"'), ()),
    "mocker Popen autospec": (_PATCHED.format('"subprocess.Popen", autospec=True'), ()),
    "mocker subprocess.run": (_PATCHED.format('"subprocess.run"'), ()),
    "mocker os.listdir": (_PATCHED.format('"os.listdir", return_value=[]'), ()),
    "mocker os.open": (_PATCHED.format('"os.open"'), ()),
    "mocker os.stat": (_PATCHED.format('"os.stat"'), ()),
    "mocker os.kill": (_PATCHED.format('"os.kill"'), ()),
    "mocker os.getpid": (_PATCHED.format('"os.getpid", return_value=1'), ()),
    "mocker open": (_PATCHED.format('"builtins.open", mocker.mock_open(read_data="7")'), ()),
    "mocker mkdtemp": (_PATCHED.format('"tempfile.mkdtemp", return_value="/nonexistent"'), ()),
    "mocker Path.read_text": (_PATCHED.format('"pathlib.Path.read_text", return_value="x"'), ()),
    "mocker Path.exists": (_PATCHED.format('"pathlib.Path.exists", return_value=False'), ()),
    "mocker time.time": (_PATCHED.format('"time.time", return_value=1.0'), ()),
    "mocker time.sleep": (_PATCHED.format('"time.sleep"'), ()),
    "mocker monotonic": (_PATCHED.format('"time.monotonic", return_value=1.0'), ()),
    "mocker perf_counter_ns": (_PATCHED.format('"time.perf_counter_ns", return_value=42'), ()),
    "mocker random": (_PATCHED.format('"random.Random"'), ()),
    "mocker urandom": (_PATCHED.format('"os.urandom", return_value=b"0" * 8'), ()),
    "mocker socket": (_PATCHED.format('"socket.socket"'), ()),
    "mocker selectors": (_PATCHED.format('"selectors.DefaultSelector"'), ()),
    "freezegun": (_WITH.format(_FREEZE, 'freeze_time("2026-01-01")'), ()),
    "freezegun tick": (_WITH.format(_FREEZE, 'freeze_time("2026-01-01", tick=True)'), ()),
    "freezegun auto_tick": (_WITH.format(_FREEZE, 'freeze_time("2026-01-01", auto_tick_seconds=15)'), ()),
    "freezegun session": (_FREEZE + '\nfreeze_time("2026-01-01").start()\n' + _NONE, ()),
    "time-machine": (_WITH.format("import time_machine", 'time_machine.travel("2026-01-01", tick=False)'), ()),
    "pyfakefs": (_ASKS.format("fs"), ()),
    "pytest-socket conftest": ("import pytest_socket\npytest_socket.disable_socket()\n" + _NONE, ()),
    "pytest-socket option": (_NONE, ("--disable-socket",)),
    "pytest-socket fixture": (_ASKS.format("socket_disabled"), ()),
    "pytest-subprocess": (_ASKS.format("fp"), ()),
    "responses": (_WITH.format("import responses", "responses.RequestsMock(assert_all_requests_are_fired=False)"), ()),
    "moto": (_WITH.format("from moto import mock_aws", "mock_aws()"), ()),
}
_TEST = "{mark}\ndef test_{name}({fixtures}):\n    {body}\n\n"
_HEAD = "import lib\nimport pytest\n\n"
_BUDGET = "@pytest.mark.hwbudget({})"
_LOAD = "@pytest.mark.hwload(kind='server', qps=100, seconds=0.5, seed=1)\n"
PLAIN = _TEST.format(mark=_BUDGET.format("latency_p50_ms=500"), name="plain", fixtures="", body="lib.work()")
GATE = ("--hwperf-all", "--hwperf-against=HEAD", "--hwperf-time-limit=60")
WAYS: Mapping[str, tuple[str, str, str]] = {  # mark, fixtures and body of a test
    "fixture": ("", "hwperf, faked", "hwperf(lib.work)"),
    "budget": (_BUDGET.format("latency_p50_ms=500"), "faked", "lib.work()"),
    "memory": (_BUDGET.format("memory_max_mb=50"), "faked", "lib.work()"),
    "cold": (_BUDGET.format("cold_start_ms=60000"), "faked", "lib.work()"),
    "load": (_LOAD + _BUDGET.format("latency_p50_ms=500"), "faked", "lib.work()"),
    "all": ("", "faked", "lib.work()"),
    "gate": ("", "faked", "lib.work()"),
}
OPTIONS: Mapping[str, tuple[str, ...]] = {"all": ("--hwperf-all",), "gate": GATE}  # of a way of measuring
METRICS = {"memory": "memory_call", "cold": "cold_first_call"}  # a fake itself is part of the fixtures
_ROUNDS = 6000
_GATE_TIMES = 3  # as long as other sessions: eight pairs of processes and what moved take some 24 s without a fake
_SLIGHT = {"memory": 1e6}  # bytes
_MOST = 20.0  # times the value without a fake: the machine may be busy, and a faked figure is further away


def main() -> None:
    """Run each cell, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="words of which one is in the name of a fake")
    parser.add_argument("--ways", nargs="*", default=[*WAYS], choices=[*WAYS])
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of a session, after which it hangs")
    options = parser.parse_args()
    usual, rows = dict[str, float](), []
    for name in FAKES:
        if name != "no fake" and not any(word in name for word in options.only):
            continue
        answers = dict[str, str]()
        for way in options.ways:
            start = time.monotonic()
            limit_s = options.limit * (_GATE_TIMES if way == "gate" else 1)
            answers |= run(name, [way], OPTIONS.get(way, ()), usual, limit_s)
            answers[way] += f" ({time.monotonic() - start:.0f} s)"
        print(name, answers, flush=True)
        rows.append((name, *answers.values()))
    print(tables.markdown(["fake", *options.ways], rows))


def run(
    fake: str, ways: Sequence[str], options: Sequence[str], usual: dict[str, float], limit_s: float
) -> dict[str, str]:
    """Run a session of tests with this fake, each measured in a way of its own, and of one without it at the end.

    Returns what became of each way; a session that takes longer than `limit_s` is killed, and said to hang.
    """
    conftest, more = FAKES[fake]
    with tempfile.TemporaryDirectory(prefix="faked-") as name:
        folder = Path(name)
        here, signals = folder / "here", folder / "signals"
        here.mkdir()
        write(folder / "first", {"sitecustomize.py": RECORDER})
        tests = [
            _TEST.format(mark=mark, name=way.replace(" ", "_"), fixtures=fixtures, body=body)
            for way in ways
            for mark, fixtures, body in [WAYS[way]]
        ]
        plain = "" if "gate" in ways else PLAIN
        files = {"lib.py": WORK.format(rounds=_ROUNDS), "conftest.py": conftest}
        commit(here, {**files, "test_it.py": _HEAD + "".join(tests) + plain})
        if "gate" in ways:
            write(here, {"lib.py": WORK.format(rounds=3 * _ROUNDS)})
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--hwperf-report={folder / 'r.json'}",
        ]
        command += ["-W", "ignore", "--hwperf-sample-time=0.5", "--hwperf-energy=off", *options, *more]
        path = os.pathsep.join([str(folder / "first"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "FAKED_SIGNALS": str(signals)}
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=here, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return dict.fromkeys(ways, "HANGS")
        if signals.exists():
            return dict.fromkeys(ways, f"SIGNAL {signals.read_text().splitlines()[0]}")
        return dict(_judged(ways, usual, folder, (folder / "log").read_text()))


def _judged(ways: Sequence[str], usual: dict[str, float], folder: Path, log: str) -> Iterator[tuple[str, str]]:
    report = folder / "r.json"
    read = json.loads(report.read_text())["report"]["judgements"] if report.exists() else []
    found = {one["run"]["test"].rpartition("::")[2].removeprefix("test_"): one for one in read}
    harmed = "" if "gate" in ways or _value(found.get("plain"), "latency") else ", THE LATER TEST TOO"
    for way in ways:
        one = found.get(way)
        value, before = _value(one, METRICS.get(way, "latency")), usual.get(way)
        if one is None:
            yield way, f"NO RESULT {_last(log)}{harmed}"
        elif way == "gate":
            outcomes = {verdict["outcome"] for verdict in one["verdicts"]}
            yield way, "right" if "regressed" in outcomes else f"{outcomes} {one['run']['unmeasured']} {_last(log)}"
        elif value is None:
            yield way, f"unmeasured: {one['run']['unmeasured']}{harmed}"
        elif before is not None and not before / _MOST - _SLIGHT.get(way, 0) <= value <= before * _MOST + _SLIGHT.get(
            way, 0
        ):
            yield way, f"WRONG: {value:.3g} for {before:.3g}{harmed}"
        else:
            usual.setdefault(way, value)
            yield way, f"right{harmed}"


def _value(judged: Mapping[str, Any] | None, metric: str) -> float | None:
    """Return the median of a metric, or its largest value where it has none; None where it is not measured."""
    figures = judged["figures"] if judged else []
    found = {one["statistic"]: one["estimate"]["value"] for one in figures if one["metric"] == metric}
    value: float | None = found.get("p50", max(found.values(), default=None))
    return value


def _last(log: str) -> str:
    lines = [line for line in log.splitlines() if line.startswith(("E  ", "ERROR"))] or log.splitlines()[-2:]
    return " / ".join(lines)[:300]
