"""`hwperf fleet`: what it refuses, what it makes of the answers of hosts, and the lines that show them."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes.fleets import FakeCluster, answer, dying, host
from fakes.repositories import repository_with

from pytest_hwperf.cli import USAGE, fleet, main
from pytest_hwperf.cli.fleet import HostLines
from pytest_hwperf.cli.inputs import read_report
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.fleet.dask_cluster import News
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.report import HostAnswer, Order, Task

ARM, X86 = host("a1", "arm"), host("x1", "x86")


@dataclass(slots=True)
class Loaded(FakeCluster):
    """A cluster that keeps what its hosts were ordered."""

    kinds: tuple[str, ...] = ("arm", "x86")
    unreached: tuple[str, ...] = ()
    left: list[str] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    order_for: Any = None

    def load(self, _: bytes, order_for: Any) -> None:
        self.order_for = order_for

    def start(self, job: str, host: Any, task: Task) -> None:
        self.orders.append(self.order_for(job, task))
        super(Loaded, self).start(job, host, task)


class Fleet:
    """The command in a repository, on hosts that never were."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster = Loaded([ARM, X86], {})
        self._capsys = capsys
        monkeypatch.chdir(repository_with(folder / "project", a__py="1"))
        monkeypatch.setattr(fleet, "clustered", self._clustered)
        monkeypatch.setattr(fleet, "check_tools", lambda **_: None)
        monkeypatch.setattr(fleet, "monotonic", lambda: self.cluster.time_s)

    @contextmanager
    def _clustered(self, *_: object, **__: object) -> Iterator[Loaded]:
        yield self.cluster

    def __call__(self, *options: str, pytest: tuple[str, ...] = ()) -> tuple[int, str, str]:
        code = main(["fleet", *options, "--", *pytest])
        said = self._capsys.readouterr()
        return code, " ".join(said.out.split()), said.err


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fleet:
    return Fleet(tmp_path, monkeypatch, capsys)


def slower(job: str, task: Task) -> list[tuple[float, News]]:
    return [(3.0, News(job=job, answer=to_json(answer(task, 0.3, exit_code=1))))]


def test_all_kinds_have_one_report_and_one_code(run: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    code, said, lines = run(f"--output={file}", "--no-install", pytest=("-k", "x"))
    assert OK == code
    assert "arm: No regression found in 1 test" in said
    assert "over all 2 kinds of machine at most 2 % false alarms" in said
    assert ("arm", "x86") == read_report(str(file)).kinds
    assert "a1: arm: ended with pytest's exit code 0" in lines
    assert [("-k", "x", "--hwperf-only", f"--hwperf-machine-kind={kind}") for kind in ("arm", "x86")] == [
        one.arguments for one in run.cluster.orders
    ]
    assert {None} == {one.install for one in run.cluster.orders}


def test_a_regression_on_one_kind_fails_the_build(run: Fleet) -> None:
    run.cluster.scripts["x1"] = slower
    code, said, _ = run("--split-alpha")
    assert FAILED == code
    assert "x86: 1 of 1 test regressed" in said
    assert "--hwperf-machine-kind=arm/2" in run.cluster.orders[0].arguments


def test_a_host_that_was_lost_is_in_the_report(run: Fleet) -> None:
    run.cluster.hosts = [host("a0", "arm"), ARM, X86]
    run.cluster.scripts["a0"] = dying
    run.cluster.unreached, run.cluster.left = ("a9: SSH cannot reach it",), ["a0: something stays"]
    code, said, lines = run()
    assert OK == code
    assert "warning: arm was run again on a1: a0: its worker is gone" in said
    assert "warning: a9: SSH cannot reach it" in said
    assert "hwperf: a0: something stays" in lines


def test_a_kind_that_no_host_has_answered_for_is_missing(run: Fleet) -> None:
    run.cluster.scripts["x1"] = dying
    code, said, _ = run()
    assert INCONCLUSIVE == code
    assert "x86 was not run: x1: its worker is gone; no host of kind x86 is left" in said
    assert "x86 is missing" in said


def test_without_any_report_the_end_of_a_log_is_shown(run: Fleet) -> None:
    def wrong(job: str, _: Task) -> list[tuple[float, News]]:
        return [
            (1.0, News(job=job, answer=to_json(HostAnswer(exit_code=4, log="usage: pytest\nERROR: no such option"))))
        ]

    ended = "arm on a1: pytest's exit code was 4: usage: pytest; ERROR: no such option"
    for first, code in ((wrong, USAGE), (dying, INCONCLUSIVE)):
        run.cluster = Loaded([ARM, X86], {"a1": first, "x1": dying})
        got, _, errors = run()
        assert (code, code == USAGE) == (got, ended in errors)
        assert "no host has sent a report" in errors


def test_shards_are_tasks_of_their_own(run: Fleet) -> None:
    run.cluster.hosts = [ARM]
    run.cluster.kinds = ("arm",)
    code, said, _ = run("--shards=2")
    assert OK == code
    assert "false alarms over all 2 shards of this kind" in said
    assert ["--hwperf-shard=1/2", "--hwperf-shard=2/2"] == [one.arguments[-1] for one in run.cluster.orders]


def test_ctrl_c_ends_the_hosts_and_the_command(run: Fleet) -> None:
    run.cluster.interrupt_s = 3.0
    assert (130, ["a1", "x1"]) == (run()[0], run.cluster.stopped)


def test_wrong_options_are_usage_errors(run: Fleet, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.toml"
    hosts.write_text('[[host]]\naddress = "a"\nkind = "k"\nuser = "-oProxyCommand=id"\n')
    for options, said in (
        (["--hosts=h.toml", "--scheduler=tcp://a"], "give one of them"),
        (["--install=.", "--no-install"], "give one of them"),
        (["--shards=0"], "--shards=0: a whole number from 1 to 256"),
        (["--silence=4"], "--silence=4: a number of seconds from 5 to 86400"),
        (["--silence=nan"], "--silence=nan: a number of seconds"),
        (["--longest=0"], "--longest=0: a number of seconds from 1"),
        (["--longest=1e9"], "--longest=1e+09: a number of seconds"),
        (["--output=all.txt"], "--output=all.txt: the name has to end in .json, .md, .html"),
        (["--hosts=none.toml"], "none.toml cannot be read"),
        ([f"--hosts={hosts}"], "user '-oProxyCommand=id' begins with -"),  # ssh would take it for an option
    ):
        code, _, errors = run(*options)
        assert (options, USAGE) == (options, code)
        assert said in errors
    run.cluster.kinds = tuple(f"k{number}" for number in range(101))
    assert (USAGE, True) == ((got := run())[0], "101 kinds of machine; 100 are the most" in got[2])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_every_host_has_a_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "30")
    lines = HostLines()
    lines.show({"a1": "arm: starting", "x1": "waiting"})
    lines.show({"a1": "arm: pytest: " + "x" * 100, "x1": "waiting"})
    shown = screen.getvalue()
    lines.close()
    blank = f"\r{' ' * 29}\r"
    cut = f"a1: arm: pytest: {'x' * 10}…"
    assert f"{blank}a1: arm: starting\nx1: waiting{blank}\033[A{blank}{cut}\nx1: waiting" == shown
    assert f"{shown}{blank}\033[A{blank}" == screen.getvalue()
    lines.close()


def test_without_a_terminal_only_begin_and_end_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    lines = HostLines()
    for text in ("arm: starting", "arm: pytest: 1 of 9", "arm: pytest: 2 of 9", "arm: lost, it hung"):
        lines.show({"a1": text, "x1": "waiting"})
        lines.show({"a1": text, "x1": "waiting"})
    lines.close()
    assert "a1: arm: starting\na1: arm: lost, it hung\n" == capsys.readouterr().err
