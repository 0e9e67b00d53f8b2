"""The commits between two revisions, from real repositories."""

from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.checkout.revision import describe, ends, history_between, private_git_folder
from pytest_hwperf.records.errors import UsageProblem


@pytest.fixture
def branched(repository: Path) -> dict[str, str]:
    """`start` ── `main` ──── `merge`, with `side` merged into it."""
    start = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "-b", "side")
    side = commit(repository, side="1")
    git(repository, "checkout", "-q", "main")
    main = commit(repository, main="1")
    git(repository, "merge", "-q", "--no-ff", "-m", "Merge", "side")
    return {"start": start, "side": side, "main": main, "merge": git(repository, "rev-parse", "HEAD")}


def test_what_good_has_is_left_out_and_each_commit_follows_its_parents(
    repository: Path, branched: dict[str, str]
) -> None:
    history = history_between(repository, branched["start"], branched["merge"], first_parent=False)
    assert {branched["side"], branched["main"], branched["merge"]} == {one.name for one in history.commits}
    assert branched["merge"] == history.commits[-1].name
    assert 3 == history.reach[branched["merge"]].bit_count()
    assert 1 == history.reach[branched["side"]].bit_count()


def test_with_first_parent_a_merge_stands_for_its_branch(repository: Path, branched: dict[str, str]) -> None:
    history = history_between(repository, branched["start"], branched["merge"], first_parent=True)
    assert [branched["main"], branched["merge"]] == [one.name for one in history.commits]


def test_of_branches_that_parted_the_common_commit_is_good(repository: Path, branched: dict[str, str]) -> None:
    assert (branched["start"], branched["main"]) == ends(repository, "side", branched["main"])
    assert (branched["main"], branched["merge"]) == ends(repository, branched["main"], "main")


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [("nowhere", "HEAD", "'nowhere' is no revision"), ("HEAD", "--all", "'--all' is no revision")],
)
def test_what_is_no_revision_is_refused(repository: Path, good: str, bad: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        ends(repository, good, bad)


def test_two_equal_ends_have_nothing_between(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    with pytest.raises(UsageProblem, match=r"has no commit that .* does not have: give the older one first"):
        history_between(repository, head, head, first_parent=False)


def test_a_commit_is_described(repository: Path) -> None:
    found = describe(repository, git(repository, "rev-parse", "HEAD"))
    assert ("t", "more") == (found.author, found.subject)
    assert found.date[:2] == "20"


def test_a_commit_that_is_not_there_has_no_description(repository: Path) -> None:
    assert ("", "", "") == describe(repository, "0" * 40)[1:]


def test_the_folder_of_the_repository_is_its_own(repository: Path) -> None:
    assert repository / ".git" == private_git_folder(repository)
