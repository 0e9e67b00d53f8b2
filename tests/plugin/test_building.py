"""Both trees are built by the user's own command, each from its own sources."""

import shutil

import pytest
from fakes.reruns import INI, REPEATED, WORK, repository

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("quick_pairs", "fakes_in_reach"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

TESTS = """
from pathlib import Path
import work

BUILT = int(Path(__file__).with_name("built.txt").read_text())


def test_built(hwperf):
    hwperf(work.call)
    hwperf.record("built", BUILT, better="lower")
"""
MAKE = """
import pathlib, sys

source = pathlib.Path("source.txt").read_text()
assert sys.argv[1:] == ["a b"], sys.argv
pathlib.Path("built.txt").write_text(str(int(source)))
"""


def test_each_tree_is_built_from_its_own_sources(pytester: pytest.Pytester) -> None:
    """The present one before its tests are collected; a file that both have is not shared."""
    files = {"work.py": WORK, "pytest.ini": INI, "test_it.py": TESTS, "make.py": MAKE, ".gitignore": "built.txt\n"}
    project = repository(pytester, {**files, "source.txt": "1"})
    build = "--hwperf-build=python make.py 'a b'"
    project.write({"source.txt": "no number"})
    failed = project.run(build)
    project.write({"source.txt": "2"})
    result = project.run(REPEATED, build)
    assert pytest.ExitCode.USAGE_ERROR == failed.ret
    failed.stderr.fnmatch_lines(
        ["ERROR: hwperf: --hwperf-build=*, in the present tree, ended with code 1. *", "*number*"]
    )
    result.assert_outcomes(failed=1)
    assert "regressed" == project.compared("test_built", "built").outcome
    assert {} == project.gate().shared
    assert project.gate().seconds["build"] > 0
