"""What `--hwperf-against` names: a folder, a revision, neither or both; said before anything is collected."""

import subprocess

import pytest
from fakes.repositories import git, repository_with


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository with a branch `old`, whose only test must not run."""
    folder = repository_with(pytester.path / "project", test_it__py="def test_it(hwperf): raise SystemExit('ran')")
    git(folder, "branch", "old")
    monkeypatch.chdir(folder)
    return pytester


def refusal(project: pytest.Pytester, against: str) -> str:
    result = project.runpytest_inprocess(f"--hwperf-against={against}")
    (line,) = (line for line in result.errlines if line.startswith("ERROR: "))
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    return line.removeprefix("ERROR: --hwperf-against: ")


@pytest.mark.parametrize(("name", "revision"), [("old", "refs/heads/old"), ("HEAD", "refs/heads/main")])
def test_a_folder_and_a_revision_of_one_name_are_told_apart(project: pytest.Pytester, name: str, revision: str) -> None:
    """What is offered is taken."""
    project.mkdir(f"project/{name}")
    choice = f"give ./{name} for the folder, or {revision} for the revision"
    assert f"'{name}' is a folder and a revision: {choice}" == refusal(project, name)
    for against in (f"./{name}", revision):
        result = project.runpytest_inprocess(f"--hwperf-against={against}", "-k", "nothing")
        result.stderr.fnmatch_lines([f"ERROR: --hwperf-against={against}: nothing to compare: no test was selected"])


def test_a_repository_that_only_the_environment_names_is_not_followed_and_it_is_said_why(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.path / "project"
    (folder / ".git").rename(project.path / "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(project.path / "elsewhere"))
    said = refusal(project, "no-such")
    told = 'echo "gitdir: $GIT_DIR" > .git'
    assert (
        f"hwperf does not follow GIT_DIR, which hooks set for another one: let its root lead there with `{told}`"
        in said
    )
    subprocess.run(["sh", "-c", told], cwd=folder, check=True)
    assert "'no-such' is no revision of this repository" in refusal(project, "no-such")


def test_a_name_that_no_file_system_takes_is_refused(project: pytest.Pytester) -> None:
    for against in ("x" * 5000, "x/" * 2500, "x" * 300):
        said = refusal(project, against)
        assert said.startswith(f"'{against[:100]}")
        assert "is no revision" in said
        assert len(said) < 600
