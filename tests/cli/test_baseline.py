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


def test_a_held_run_becomes_the_baseline(held: Path, told: Told) -> None:
    """By default, and by the URL in each of its forms."""
    store, accepted = JsonStore(held / ".hwperf"), f"accepted as baseline main: {fake.TEST}\n"
    for options in ([], ["--store=.hwperf"], ["--store=json:.hwperf"], [f"--store=json:{held}/.hwperf"]):
        store.remove("main", "*")
        store.hold("main", [fake.session()])
        assert accepted == told(OK, "baseline", "accept", *options, fake.TEST).out
        assert [fake.session()] == list(store.load("main", fake.machine(), fake.TEST, ""))
    assert [".hwperf"] == [path.name for path in held.iterdir()]


@pytest.mark.usefixtures("held")
def test_what_cannot_be_accepted_is_refused(told: Told) -> None:
    """Started in another folder than the tests, it finds nothing, and names where it has looked."""
    answer = told(FAILED, "baseline", "accept", "--store=other", "*").err
    assert f"hwperf: no held run matches '*' in baseline main of {Path.cwd()}/other; " in answer
    refused = {
        "json:": "hwperf: --store='json:' names no place. Give a folder, such as json:.hwperf",
        "shelf:runs.db": "hwperf: unknown store 'shelf'. Allowed: json, sql",
        "sql:runs.db": "hwperf: --store=sql:… names no database that can be used. Give a file, as sql:sqlite:///team",
        "sql:sqlite:///:memory:": "would be gone with this process",
    }
    said = {store: told(USAGE, "baseline", "accept", f"--store={store}", "*").err for store in refused}
    assert {} == {store: said[store] for store, reported in refused.items() if reported not in said[store]}


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


def test_without_a_command_the_help_is_shown(told: Told) -> None:
    """It is no answer."""
    for command in ([], ["baseline"]):
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


def test_every_baseline_is_listed_and_the_newest_run_shown(stored: Path, told: Told) -> None:
    """What is no baseline is not; 6.31 ms, by 412 calls; a bracket of a test id is no wildcard."""
    (stored / ".hwperf" / "file").touch()
    (stored / ".hwperf" / "no name").mkdir()
    here = f"{fake.STARTED}, machine {fake.machine().fingerprint} (AMD EPYC 7B13)"
    listed = [
        f"arm: t.py::other[8] [small]: 1 run, the newest of 4f2c1e9, {here}",
        f"main: {fake.TEST}: 2 runs, the newest of {'9' * COMMIT_DIGITS}+changes, {here}",
        f"main: {fake.TEST}: 1 failed run waiting to be accepted, the newest of 4f2c1e9, {here}",
    ]
    assert listed == told(OK, "baseline", "list").out.splitlines()
    assert listed[:1] == told(OK, "baseline", "list", "--baseline=arm").out.splitlines()
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


def test_nothing_is_stored_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """And nothing is written by looking."""
    monkeypatch.chdir(tmp_path)
    for arguments in (["list"], ["list", "--baseline=arm"], ["show", "*"], ["remove", "*"]):
        assert f"{tmp_path}/.hwperf; " in told(FAILED, "baseline", *arguments).err
    assert [] == list(tmp_path.iterdir())


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
