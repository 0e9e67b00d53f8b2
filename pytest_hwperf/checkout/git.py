"""The user's own git, run without shell, hooks, prompt or the environment of a surrounding hook."""

import os
import subprocess
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.host import signals
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import end_group
from pytest_hwperf.records.errors import WorkerError

# What git sets for its hooks: with them, every command here would work on the hook's repository. See
# `git rev-parse --local-env-vars`; configuration (GIT_CONFIG_COUNT …) is kept, since it is the user's.
_OF_ANOTHER_REPOSITORY = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE"),
    *("GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY"),
    *("GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)
# No program that a repository names is run: no hook, no monitor of the file system. Folders of a repository that look
# like a bare repository, with settings of their own, are not taken for one (git 2.38; earlier ones ignore this).
_SETTINGS = (
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.fsmonitor="),
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "submodule.recurse=false"),
)
# No host is asked for what a clone lacks, nor a person for a password; a commit is what its name says. Another folder
# is asked neither (GIT_ALLOW_PROTOCOL): a program that the repository may name does that, `remote.NAME.uploadpack`.
# Git-LFS leaves a pointer of what it would have to download, and reads what is here. Nor does git begin to ask
# (GIT_NO_LAZY_FETCH, git 2.39.4): it would first write a filter to the user's configuration.
_CLOSED = {
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_ABSENT = 127  # exit code of a shell for a command that is not there
_LATE = 124  # exit code of timeout(1)

_LAST_WORK_S = 5.0  # to remove what is half made


@dataclass(frozen=True, slots=True, kw_only=True)
class GitResult:
    """The outcome of a git command."""

    code: int  # 0 for success
    output: str  # without the last line's end
    complaint: str  # line that it wrote about what went wrong, with the command that git itself recommends

    @property
    def is_absent(self) -> bool:
        """Whether there is no git on this machine."""
        return self.code == _ABSENT


def git(folder: Path | str, *arguments: str, timeout_s: float = 60.0, protocol: str = "none") -> GitResult:
    """Run one git command in `folder`; it fails by its code, never by an exception; `protocol` is what it may use."""
    own = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    command = ["git", *_SETTINGS, "-C", os.fspath(folder), *arguments]
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Untranslated messages, and no lock of the index only to ask for the state.
            env={**own, "LANGUAGE": "en", "GIT_OPTIONAL_LOCKS": "0", **_CLOSED, "GIT_ALLOW_PROTOCOL": protocol},
            start_new_session=True,  # without a terminal, ssh cannot ask for a password
        )
    except FileNotFoundError:
        return GitResult(code=_ABSENT, output="", complaint="git is not installed")
    try:
        signals.own(process)
    except WorkerError as error:
        return GitResult(code=_ABSENT, output="", complaint=str(error))
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return GitResult(code=_LATE, output="", complaint=f"no answer within {timeout_s:g} s")
    except BaseException:  # Ctrl-C: it does not reach another session by itself
        with uninterrupted():
            _kill(process)
        raise
    finally:
        signals.let_go(process.pid)
    return GitResult(
        code=process.returncode,
        output=os.fsdecode(output).removesuffix("\n"),
        complaint=_complaint(os.fsdecode(errors)) or f"git {arguments[0]} ended with code {process.returncode}",
    )


def ignored_files(folder: Path, files: Sequence[str]) -> list[str]:
    """Return those that git ignores; none where it cannot tell, as outside of a repository."""
    found = git(folder, "-c", "core.quotePath=off", "check-ignore", "--no-index", "--", *files) if files else None
    return found.output.splitlines() if found and not found.code else []


def tracked_files(folder: Path, files: Sequence[str]) -> Collection[str] | None:
    """Return those that are part of a revision; None where git cannot tell."""
    if not files:
        return ()
    kept = git(folder, "--literal-pathspecs", "ls-files", "-z", "--", *files)
    return None if kept.code else kept.output.split("\0")


def _complaint(errors: str) -> str:
    lines = errors.strip().splitlines() or [""]
    fatal = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
    remedy = next((line.strip() for line in lines if line.startswith("\tgit ")), "")
    return f"{fatal}; git recommends `{remedy}`" if remedy else fatal


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End it with what it has started: a fetch runs in a process of its own; first it may remove what is half made."""
    for at_once in (False, True):
        end_group(process, at_once=at_once)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_LAST_WORK_S)
            return
