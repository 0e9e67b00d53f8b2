"""Tiny repositories, made by the real git."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    settings = ["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]
    command = ["git", *identity, *settings, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def repository_with(folder: Path, **files: str) -> Path:
    """Make a repository with one commit; `__` in a name is a dot."""
    folder.mkdir(parents=True)
    git(folder, "init")
    commit(folder, **files)
    return folder


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--allow-empty", "-m", "more")
    return git(folder, "rev-parse", "HEAD")


def line_of(folder: Path, commits: int) -> list[str]:
    """Put so many commits on the branch `main` at once, one after the other; return them, the oldest first."""
    person, lines = "t <t@example.org> 1790000000 +0000", list[str]()
    for number in range(commits):
        parent = ["from refs/heads/main^0"] if number == 0 else []
        lines += ["commit refs/heads/main", f"author {person}", f"committer {person}", "data 4", "more", *parent]
        lines += ["M 644 inline model.py", f"data {len(str(number))}", str(number)]
    text = "\n".join([*lines, ""])
    command = ["git", "-C", str(folder), "fast-import", "--quiet"]
    subprocess.run(command, check=True, capture_output=True, text=True, input=text)
    git(folder, "reset", "--hard")
    return git(folder, "rev-list", "--reverse", f"--max-count={commits}", "HEAD").split()
