"""A disk that fails under the baselines: before anything is measured, or when all is done."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes.closed_paths import close
from fakes.repositories import repository_with

from pytest_hwperf import registry
from pytest_hwperf.stores import baseline_folder
from pytest_hwperf.stores.json_files import JsonStore

SAVE = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "--hwperf-save")


def failing(error: int) -> Callable[[Path], Any]:
    """Return what creates files, or tries whether it could, on a disk that refuses them."""

    def create(_: Path) -> None:
        raise OSError(error, os.strerror(error))

    return create


def use(monkeypatch: pytest.MonkeyPatch, create: Callable[[Path], int]) -> None:
    """Let every store of this process create its files so, although it has seemed that they can be created."""
    real = registry.find

    def find(kind: Any, name: str) -> Any:
        return partial(JsonStore, create=create) if kind == "stores" else real(kind, name)

    monkeypatch.setattr(registry, "find", find)


def test_a_disk_that_fills_up_fails_the_session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build whose baseline is lost must not be green, though every test of it passed."""
    use(monkeypatch, failing(errno.ENOSPC))
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    result = pytester.runpytest_inprocess(*SAVE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "hwperf: 0 runs saved to baseline main in *",
            "hwperf: not saved: *.jsonl cannot be written (No space left on device): what was there is intact; *",
        ]
    )


def test_a_disk_that_fills_up_leaves_the_exit_code_of_an_interrupted_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost baseline must not turn Ctrl-C into a failed test."""
    use(monkeypatch, failing(errno.ENOSPC))
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])\ndef test_stop(): raise KeyboardInterrupt")
    result = pytester.runpytest_inprocess(*SAVE, no_reraise_ctrlc=True)
    result.stdout.fnmatch_lines(["hwperf: not saved: *.jsonl cannot be written (No space left on device)*"])
    assert pytest.ExitCode.INTERRUPTED == result.ret


def test_a_read_only_store_is_a_usage_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline_folder, "check_writable", failing(errno.EROFS))
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess(*SAVE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: * cannot be written to (Read-only file system): make it writable, or choose *"]
    )


def test_a_store_that_may_not_be_read_is_a_usage_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a missing baseline it would pass the session, and every later one."""
    close(monkeypatch, f"{pytester.path}/.hwperf")
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess(*SAVE[:-1], "--hwperf-compare")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: */.hwperf cannot be read (Permission denied): make the folders above it *"])


def test_a_file_where_the_store_would_be_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    pytester.maketxtfile(taken="")
    for store in ("json:taken.txt", "taken.txt/below"):
        result = pytester.runpytest_inprocess(*SAVE, f"--hwperf-store={store}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: */taken.txt is not a folder: choose another place *"])


def test_a_revision_that_git_does_not_tell_is_missed_aloud(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container whose folders belong to another user; later comparisons cannot rerun what was saved."""
    repository_with(pytester.path / "project", test_it__py="def test_it(hwperf): hwperf(sum, [1])")
    monkeypatch.chdir(pytester.path / "project")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    result = pytester.runpytest_inprocess(*SAVE)
    assert result.ret == pytest.ExitCode.OK
    warning = (
        "hwperf: warning: saved without a revision, so that --hwperf-compare cannot rerun it: *dubious ownership*; "
    )
    remedy = "git recommends `git config --global --add safe.directory *`"
    result.stdout.fnmatch_lines(["hwperf: 1 run saved to baseline main in *", f"{warning}{remedy}"])
