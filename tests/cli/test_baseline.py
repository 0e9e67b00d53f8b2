"""`hwperf baseline accept`: the twin of `--hwperf-store`, from a shell."""

from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake
from fakes.commands import Told

from pytest_hwperf import registry
from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.records.evidence import COMMIT_DIGITS
from pytest_hwperf.records.run import replace
from pytest_hwperf.stores.json_files import JsonStore


class FakeStore:
    """A stranger's store; notes what it was asked."""

    asked: list[str]

    def __init__(self, location: str) -> None:
        self.asked.append(location)

    def check(self, baseline: str, *, writing: bool) -> None:
        self.asked.append(f"check {baseline}, writing {writing}")

    def accept(self, baseline: str, pattern: str) -> tuple[str, ...]:
        self.asked.append(f"accept {pattern} in {baseline}")
        return (pattern,)


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a held run; it is the current folder."""
    monkeypatch.chdir(tmp_path)
    JsonStore(tmp_path / ".hwperf").hold("main", [fake.session()])
    return tmp_path


@pytest.mark.parametrize(
    "store", [[], ["--store=.hwperf"], ["--store=json:.hwperf"], ["--store", "json:{here}/.hwperf"]]
)
def test_a_held_run_becomes_the_baseline(held: Path, told: Told, store: list[str]) -> None:
    """By default, and by the URL in each of its forms."""
    options = [option.format(here=held) for option in store]
    assert f"accepted as baseline main: {fake.TEST}\n" == told(OK, "baseline", "accept", *options, fake.TEST).out
    assert [fake.session()] == list(JsonStore(held / ".hwperf").load("main", fake.machine(), fake.TEST, ""))
    assert [".hwperf"] == [path.name for path in held.iterdir()]


def test_the_folder_that_was_looked_at_is_named(held: Path, told: Told) -> None:
    """Started in another folder than the tests, it finds nothing."""
    answer = told(FAILED, "baseline", "accept", "--store=other", "*").err
    assert f"hwperf: no held run matches '*' in baseline main of {held}/other; " in answer


@pytest.mark.parametrize(
    ("store", "reported"),
    [
        ("json:", "hwperf: --store='json:' names no place. Give a folder, such as json:.hwperf"),
        ("shelf:runs.db", "hwperf: unknown store 'shelf'. Allowed: json, sql"),
        ("sql:runs.db", "hwperf: --store=sql:… names no database that can be used. Give a file, as sql:sqlite:///team"),
    ],
)
def test_a_store_that_cannot_be_meant_is_refused(told: Told, store: str, reported: str) -> None:
    assert reported in told(USAGE, "baseline", "accept", f"--store={store}", "*").err


def test_a_strangers_store_comes_through_the_registry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(kind: str, name: str) -> Any:
        assert ("stores", "shelf") == (kind, name)
        return FakeStore

    monkeypatch.setattr(registry, "find", find)
    monkeypatch.setattr(FakeStore, "asked", [], raising=False)
    assert OK == main(["baseline", "accept", "--store=shelf:third", "--baseline=arm", "t.py::*"])
    assert ["third", "check arm, writing True", "accept t.py::* in arm"] == FakeStore.asked
    assert "accepted as baseline arm: t.py::*\n" == capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["baseline"]])
def test_without_a_command_the_help_is_shown(command: list[str], told: Told) -> None:
    """It is no answer."""
    shown = told(USAGE, *command)
    assert shown.out.startswith(f"usage: {' '.join(['hwperf', *command])} ")
    assert "" == shown.err


@pytest.fixture
def stored(held: Path) -> Path:
    """Two stored runs of one test, one of another one, and the held run."""
    changed = fake.session(revision="9" * 40)
    other = fake.session(test="t.py::other[8]", label="small")
    first = fake.session(median_s=1.0)
    JsonStore(held / ".hwperf").save("main", [first, replace(changed, run=replace(changed.run, changed=True))])
    JsonStore(held / ".hwperf").save("arm", [other])
    return held


@pytest.mark.usefixtures("stored")
def test_every_baseline_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    here = f"{fake.STARTED}, machine {fake.machine().fingerprint} (AMD EPYC 7B13)"
    assert OK == main(["baseline", "list"])
    assert [
        f"arm: t.py::other[8] [small]: 1 run, the newest of 4f2c1e9, {here}",
        f"main: {fake.TEST}: 2 runs, the newest of {'9' * COMMIT_DIGITS}+changes, {here}",
        f"main: {fake.TEST}: 1 failed run waiting to be accepted, the newest of 4f2c1e9, {here}",
    ] == capsys.readouterr().out.splitlines()
    assert OK == main(["baseline", "list", "--baseline=arm"])
    assert 1 == len(capsys.readouterr().out.splitlines())


@pytest.mark.usefixtures("stored")
def test_the_newest_run_is_shown_with_its_figures(told: Told) -> None:
    """6.31 ms, by 412 calls; a bracket of a test id is no wildcard."""
    first, second = told(OK, "baseline", "show", "t.py::other[8]", "--baseline=arm").out.splitlines()
    assert first.startswith("t.py::other[8] [small]: of 4f2c1e9, ")
    assert "  latency p50 6.31 ms (6.18 .. 6.44), n=412 calls, perf_counter" == second


def test_what_is_removed_is_removed_everywhere(stored: Path, told: Told) -> None:
    """The stored and the held runs; the other baseline stays."""
    assert f"removed from baseline main: {fake.TEST}\n" == told(OK, "baseline", "remove", "tests/*").out
    store = JsonStore(stored / ".hwperf")
    assert ((), (), 1) == (
        store.histories("main", held=False),
        store.histories("main", held=True),
        len(store.histories("arm", held=False)),
    )


@pytest.mark.parametrize("arguments", [["list"], ["list", "--baseline=arm"], ["show", "*"], ["remove", "*"]])
def test_nothing_is_stored_yet(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """And nothing is written by looking."""
    monkeypatch.chdir(tmp_path)
    assert f"{tmp_path}/.hwperf; " in told(FAILED, "baseline", *arguments).err
    assert [] == list(tmp_path.iterdir())


def test_what_is_no_baseline_is_not_listed(held: Path) -> None:
    (held / ".hwperf" / "file").touch()
    (held / ".hwperf" / "no name").mkdir()
    assert ("main",) == JsonStore(held / ".hwperf").baselines()


def test_what_was_saved_again_after_an_update_is_removed(held: Path, told: Told) -> None:
    """Runs of other machines, and those that have no newer one yet, stay."""
    store, here = JsonStore(held / ".hwperf"), describe_machine()
    earlier, elsewhere = replace(here, python="CPython 3.1"), replace(here, cpu_model="another")
    kept = [fake.session(at=here), fake.session(at=elsewhere), fake.session(at=earlier, test="t.py::not_yet")]
    store.save("main", [*kept, fake.session(at=earlier)])
    assert f"removed runs of other versions from baseline main: {fake.TEST}\n" == told(OK, "baseline", "prune").out
    assert sorted(map(str, kept)) == sorted(map(str, JsonStore(held / ".hwperf").newest("main")))
    assert "nothing to remove from baseline main of " in told(OK, "baseline", "prune").out
    assert OK == main(["baseline", "prune", "--baseline=none"])
