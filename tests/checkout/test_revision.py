"""Revisions and histories, by the real git."""

import re
import shutil
from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.checkout.revision import (
    describe,
    ends,
    has_commit,
    history_between,
    named_revision,
    private_git_folder,
    resolve,
    revision_of,
    top_of,
)
from pytest_hwperf.checkout.worktree import worktree
from pytest_hwperf.records.errors import UsageProblem

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_the_revision_is_the_commit(repository: Path) -> None:
    clean = revision_of(repository)
    (repository / "model.py").write_text("new")
    assert (40, False) == (len(clean.commit), clean.changed)
    assert revision_of(repository) == (clean.commit, True, "")


def test_a_repository_without_a_commit_has_no_revision(tmp_path: Path) -> None:
    git(tmp_path, "init")
    found = revision_of(tmp_path)
    assert ("", "the repository has no commit yet; commit, then save again") == (found.commit, found.refused)
    for ref in ("HEAD", "main"):
        with pytest.raises(UsageProblem, match=f"'{ref}' is no revision, since this repository has no commit yet: com"):
            resolve(tmp_path, ref)


def test_a_long_text_is_refused_without_being_repeated(repository: Path) -> None:
    with pytest.raises(
        UsageProblem, match=r"^'x{100}'… \(5000 characters\) is no revision: a name has 1000 char"
    ) as it:
        resolve(repository, "x" * 5000)
    assert len(str(it.value)) < 300


def test_what_a_name_means_has_a_name_of_its_own(repository: Path) -> None:
    git(repository, "tag", "v1")
    names = {"main": "refs/heads/main", "v1": "refs/tags/v1", "./main": "", "none": "", "-x": ""}
    assert names == {name: named_revision(repository, name) for name in names}
    git(repository, "checkout", "--detach")
    assert git(repository, "rev-parse", "HEAD") == named_revision(repository, "HEAD")


def test_a_git_that_refuses_says_why_and_what_to_do(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the repository for that of another user, as in a container with a mounted folder.

    No revision is also the answer where there is no repository: they must not look alike.
    """
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    found = revision_of(repository)
    remedy = f"git recommends `git config --global --add safe.directory {repository}`"
    assert ("", False) == (found.commit, found.changed)
    assert f"detected dubious ownership in repository at '{repository}'; {remedy}" == found.refused
    for ask in (lambda: resolve(repository, "main"), lambda: top_of(repository)):
        with pytest.raises(UsageProblem, match=re.escape(remedy)):
            ask()


def test_where_there_is_nothing_to_tell_nothing_is_refused(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clean repository, none, no git."""
    (tmp_path / "none").mkdir()
    assert [""] * 2 == [revision_of(folder).refused for folder in (repository, tmp_path / "none")]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "" == revision_of(repository).refused


def test_files_that_may_have_changed_count_as_changed(repository: Path) -> None:
    """A state that git cannot tell must not pass for that of the commit."""
    commit = git(repository, "rev-parse", "HEAD")
    (repository / ".git" / "index").write_bytes(b"damaged")
    found = revision_of(repository)
    assert (commit, True) == (found.commit, found.changed)
    assert "index" in found.refused


def test_a_machine_without_git_has_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision_of(tmp_path).commit == ""
    with pytest.raises(UsageProblem, match="git is not installed: install it, or give the folder"):
        resolve(tmp_path, "main")


def test_branches_tags_and_expressions_name_their_commit(repository: Path) -> None:
    """An annotated tag is its commit, not its own object."""
    git(repository, "tag", "-a", "v1", "-m", "first")
    git(repository, "branch", "branch/with/slashes")
    refs = ("main", "v1", "HEAD", "main~0", "branch/with/slashes")
    assert {git(repository, "rev-parse", "HEAD")} == {resolve(repository, ref) for ref in refs}


@pytest.mark.parametrize(
    ("ref", "others", "said"),
    [
        ("main~0", ["refs/tags/main"], "refs/tags/main~0 or refs/heads/main~0"),
        ("HEAD...main", ["refs/tags/main"], "refs/tags/main or refs/heads/main"),
        ("main", ["refs/remotes/main/HEAD", "refs/main"], "refs/main or refs/heads/main or refs/remotes/main/HEAD"),
        ("heads/main", ["refs/remotes/heads/main"], "refs/heads/main or refs/remotes/heads/main"),
        ("{new}", ["refs/tags/{new}"], "refs/tags/{new} or {commit}"),
    ],
)
def test_a_name_of_several_revisions_is_refused_and_what_is_told_to_type_works(
    repository: Path, ref: str, others: list[str], said: str
) -> None:
    old = git(repository, "rev-parse", "HEAD")
    new = commit(repository, model__py="new")
    names = {"new": new[:8], "commit": new}
    for other in others:
        git(repository, "update-ref", other.format(**names), old)
    said = said.format(**names)
    with pytest.raises(UsageProblem, match=f"names more than one revision: type {re.escape(said)}$"):
        resolve(repository, ref.format(**names))
    assert {old, new} == {resolve(repository, one) for one in said.split(" or ")}


def test_names_that_cannot_mean_two_things_are_taken(repository: Path) -> None:
    """Names of one commit, a full name, HEAD, and git's own files."""
    old = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v1")
    git(repository, "branch", "v1")
    new = commit(repository, model__py="new")
    for other in ("refs/tags/refs/heads/main", "refs/tags/HEAD", "refs/heads/HEAD"):
        git(repository, "update-ref", other, old)
    git(repository, "update-ref", "ORIG_HEAD", old)
    assert (old, old) == (resolve(repository, "v1"), resolve(repository, "ORIG_HEAD"))
    assert (new, new) == (resolve(repository, "refs/heads/main"), resolve(repository, "HEAD"))


def test_a_replaced_commit_is_itself(repository: Path) -> None:
    """`git replace` keeps the name, and gives another commit's files."""
    old = git(repository, "rev-parse", "HEAD")
    git(repository, "replace", old, commit(repository, model__py="new"))
    with worktree(repository, old) as tree:
        assert "old" == (tree / "model.py").read_text()


NO_REVISION = {
    "mian": "'mian' is no revision of this repository; did you mean 'main'",
    "HAED": "did you mean 'HEAD'",
    "zzzzzz": "git branch --all",
    "feature": "did you mean 'origin/feature'",
    "": "'' is no revision: give a branch",
    "--output=written": "'--output=written' is no revision: give a branch",
    "-main": "'-main' is no revision: give a branch",
    "main..main": "is no revision of this repository",
    "^main": "is no revision of this repository",
    "main:model.py": "is no revision of this repository",
    "...": "'...' is no revision: give a branch",
    "mian...": "'mian' is no revision of this repository; did you mean 'main'",
    "main...mian": "'mian' is no revision of this repository; did you mean 'main'",
    "main...-x": "'-x' is no revision",
    "main.......": "is no revision of this repository",
}


def test_what_is_no_revision_is_refused_with_the_nearest(repository: Path) -> None:
    git(repository, "update-ref", "refs/remotes/origin/feature", "HEAD")
    for ref, message in NO_REVISION.items():
        with pytest.raises(UsageProblem, match=message):
            resolve(repository, ref)


def test_three_dots_name_where_two_lines_part(repository: Path) -> None:
    """What has come to `main` since is no part of the comparison."""
    parted = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-b", "topic")
    commit(repository, model__py="new")
    git(repository, "checkout", "main")
    commit(repository, model__py="other")
    git(repository, "checkout", "topic")
    assert parted != git(repository, "rev-parse", "main")
    assert [parted] * 4 == [resolve(repository, ref) for ref in ("main...", "...main", "main...topic", "topic...main")]


def test_lines_without_a_common_commit_have_no_such_point(repository: Path) -> None:
    git(repository, "checkout", "--orphan", "alone")
    commit(repository, model__py="alone")
    with pytest.raises(UsageProblem, match=r"'main\.\.\.': main and HEAD have no commit in common; give main itself"):
        resolve(repository, "main...")
    git(repository, "checkout", "--orphan", "empty")
    with pytest.raises(UsageProblem, match="'HEAD' is no revision of this repository; see its branches"):
        resolve(repository, "HEAD")


def test_a_shallow_clone_says_how_to_reach_where_two_lines_part(repository: Path, tmp_path: Path) -> None:
    """What it says to type works: first for a branch that the clone does not know, then for its history."""
    parted = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-b", "topic")
    commit(repository, model__py="new")
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "--depth", "1", "--branch", "topic", f"file://{repository}", "shallow")

    told = "fetch it with `git fetch --unshallow origin main:refs/remotes/origin/main` and give origin/main"
    with pytest.raises(UsageProblem, match=told):
        resolve(clone, "origin/main...")
    git(clone, "fetch", "--depth=1", "origin", "main:refs/remotes/origin/main")
    with pytest.raises(UsageProblem, match="does not reach back to where origin/main and HEAD part: get the history"):
        resolve(clone, "origin/main...")
    git(clone, "fetch", "--unshallow")
    assert parted == resolve(clone, "origin/main...")


def test_a_folder_outside_of_any_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"cannot be used as a git repository \(not a git repository.*pytest inside"):
        resolve(tmp_path, "main")
    with pytest.raises(UsageProblem, match="cannot be used as a git repository"):
        top_of(tmp_path)


def test_a_shallow_clone_says_how_to_fetch_and_that_works(repository: Path, tmp_path: Path) -> None:
    git(repository, "tag", "v1")
    first = git(repository, "rev-parse", "HEAD")
    commit(repository, model__py="new")
    git(tmp_path, "clone", "--depth", "1", "--no-tags", f"file://{repository}", "shallow")
    for ref, advice in {
        "v1": "`git fetch --depth=1 origin v1` and give FETCH_HEAD instead, or check out with `fetch-depth: 0`",
        "origin/old": "`git fetch --depth=1 origin old` and give",
        "HEAD~1": "`git fetch --unshallow`, or check out with `fetch-depth: 0`",
    }.items():
        with pytest.raises(UsageProblem, match=advice):
            resolve(tmp_path / "shallow", ref)
    git(tmp_path / "shallow", "fetch", "--depth=1", "origin", "v1")
    assert resolve(tmp_path / "shallow", "FETCH_HEAD") == first
    with worktree(tmp_path / "shallow", first) as tree:
        assert (tree / "model.py").read_text() == "old"


def test_only_commits_that_are_there_are_had(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert has_commit(repository, head)
    assert not has_commit(repository, "0" * 40)
    assert not has_commit(repository, git(repository, "rev-parse", "HEAD^{tree}"))
    assert not has_commit(repository, "main")


def test_the_top_is_found_from_within_and_through_links(repository: Path, tmp_path: Path) -> None:
    (repository / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(repository)
    assert top_of(tmp_path / "link" / "a" / "b") == repository.resolve()


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
    alone = history_between(repository, branched["start"], branched["merge"], first_parent=True)
    assert [branched["main"], branched["merge"]] == [one.name for one in alone.commits]


def test_of_branches_that_parted_the_common_commit_is_good(repository: Path, branched: dict[str, str]) -> None:
    assert (branched["start"], branched["main"]) == ends(repository, "side", branched["main"])
    assert (branched["main"], branched["merge"]) == ends(repository, branched["main"], "main")


def test_two_equal_ends_have_nothing_between(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    with pytest.raises(UsageProblem, match=r"has no commit that .* does not have: give the older one first"):
        history_between(repository, head, head, first_parent=False)


def test_a_commit_is_described(repository: Path) -> None:
    found = describe(repository, git(repository, "rev-parse", "HEAD"))
    assert ("t", "more") == (found.author, found.subject)
    assert found.date[:2] == "20"
    assert ("", "", "") == describe(repository, "0" * 40)[1:]
    assert repository / ".git" == private_git_folder(repository)
