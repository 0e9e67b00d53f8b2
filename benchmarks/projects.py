"""Git repositories that benchmarks make and gate."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "tests" / "data" / "recorded_rounds.npz"
OURS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}  # nothing of this machine's settings
_IDENTITY = ("-c", "user.name=benchmarks", "-c", "user.email=benchmarks@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """Run git in a repository and return what it prints."""
    done = subprocess.run(
        ["git", *_IDENTITY, *words],
        cwd=folder,
        env={**os.environ, **OURS},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, each with its path below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def commit(folder: Path, files: Mapping[str, str], *options: str) -> str:
    """Write files and commit all that is there, in a new repository where there is none; return the commit.

    Options are those of `git add`.
    """
    write(folder, files)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "--all", *options)
    git(folder, "commit", "-q", "--allow-empty", "-m", "Change")
    return git(folder, "rev-parse", "HEAD")
