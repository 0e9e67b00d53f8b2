"""Which suspects of a drift a session names: of a few tests, by its store and by git."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import records as fake
from fakes.repositories import commit, git

from pytest_hwperf.plugin.reporting.drift import drift_warnings
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Judgement, Verdict

REGRESSION = Comparison(
    metric="latency", statistic="p50", outcome="regressed", change=fake.estimate(0.03, 0.025, 0.035, 17),
    scale="relative", margin=0.02,
)  # fmt: skip

Named = Callable[[int], list[str]]


def judged(test: str) -> Judgement:
    plain = fake.sklearn_judgement()
    verdict = Verdict(subject=REGRESSION, outcome="regressed", reason="", fails=True)
    return replace(plain, run=replace(plain.run, test=test, label=""), verdicts=(verdict,))


class Unreadable:
    """A store that has lost its connection."""

    def history_of(self, *_: object, **__: object) -> None:
        raise StoreError("gone")


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    """Name the suspects of so many tests, in a repository whose first commit is the release."""
    git(tmp_path, "init")
    release = commit(tmp_path, work__py="1")
    git(tmp_path, "tag", "v1.4")
    shared = SimpleNamespace(settings=SimpleNamespace(baseline="main"), store=Unreadable())
    monkeypatch.setattr("pytest_hwperf.plugin.reporting.drift.session_of", lambda _: shared)
    gate = Gate(
        against="anchor v1.4", revision=release, seed=0, evidence=Evidence(alpha=0.01, hypotheses=(), pairs=()),
        shared={}, seconds={},
    )  # fmt: skip
    config: Any = SimpleNamespace(rootpath=tmp_path)
    return lambda tests: [*drift_warnings(config, [judged(f"t.py::test_{n}") for n in range(tests)], [gate])]


def test_without_a_history_all_commits_since_the_release_are_named(named: Named, tmp_path: Path) -> None:
    """A store that cannot be read says so when it is saved to."""
    commit(tmp_path, work__py="2")
    commit(tmp_path, work__py="3")
    (line,) = named(1)
    assert line == (
        "drift of t.py::test_0, latency p50: its history of 1 run shows no change of level, which leaves all between "
        "v1.4 and HEAD, 2 commits; search them with hwperf bisect v1.4 HEAD -- t.py::test_0"
    )


def test_what_is_not_committed_is_not_searched_for(named: Named) -> None:
    assert [] == named(1)


def test_a_few_tests_are_named_and_the_others_counted(named: Named, tmp_path: Path) -> None:
    commit(tmp_path, work__py="2")
    found = named(5)
    assert ["t.py::test_0,", "t.py::test_1,", "t.py::test_2,"] == [line.split()[2] for line in found[:3]]
    assert ["drift of 2 other tests too: hwperf history TEST says since when"] == found[3:]


def test_where_git_cannot_tell_the_commits_are_not_counted(named: Named, tmp_path: Path) -> None:
    git(tmp_path, "tag", "--delete", "v1.4")
    (line,) = named(1)
    assert "all between v1.4 and HEAD; search them" in line
