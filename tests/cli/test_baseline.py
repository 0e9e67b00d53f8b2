"""`hwperf baseline accept`: the twin of `--hwperf-store`, from a shell."""

from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf import registry
from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.baseline import NONE_HELD, OK
from pytest_hwperf.core.records import replace
from pytest_hwperf.host.machine import describe_machine
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
def test_a_held_run_becomes_the_baseline(held: Path, capsys: pytest.CaptureFixture[str], store: list[str]) -> None:
    """By default, and by the URL in each of its forms."""
    options = [option.format(here=held) for option in store]

    assert OK == main(["baseline", "accept", *options, fake.TEST])
    assert f"accepted as baseline main: {fake.TEST}\n" == capsys.readouterr().out
    assert [fake.session()] == list(JsonStore(held / ".hwperf").load("main", fake.machine(), fake.TEST, ""))
    assert [".hwperf"] == [path.name for path in held.iterdir()]


def test_the_folder_that_was_looked_at_is_named(held: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Started in another folder than the tests, it finds nothing."""
    assert NONE_HELD == main(["baseline", "accept", "--store=other", "*"])
    assert f"hwperf: no held run matches '*' in baseline main of {held}/other; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("store", "reported"),
    [
        ("json:", "hwperf: --store='json:' names no place. Give a folder, such as json:.hwperf"),
        ("sql:runs.db", "hwperf: unknown store 'sql'. Allowed: json"),
    ],
)
def test_a_store_that_cannot_be_meant_is_refused(capsys: pytest.CaptureFixture[str], store: str, reported: str) -> None:
    assert USAGE == main(["baseline", "accept", f"--store={store}", "*"])
    assert reported in capsys.readouterr().err


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


def test_what_was_saved_anew_after_an_update_is_removed(held: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of other machines, and those that have no newer one yet, stay."""
    store, here = JsonStore(held / ".hwperf"), describe_machine()
    earlier, elsewhere = replace(here, python="CPython 3.1"), replace(here, cpu_model="another")
    kept = [fake.session(at=here), fake.session(at=elsewhere), fake.session(at=earlier, test="t.py::not_yet")]
    store.save("main", [*kept, fake.session(at=earlier)])

    assert OK == main(["baseline", "prune"])
    assert f"removed runs of earlier versions from baseline main: {fake.TEST}\n" == capsys.readouterr().out
    assert sorted(map(str, kept)) == sorted(map(str, JsonStore(held / ".hwperf").newest("main")))
    assert OK == main(["baseline", "prune"])
    assert "nothing to remove from baseline main of " in capsys.readouterr().out
    assert OK == main(["baseline", "prune", "--baseline=none"])
