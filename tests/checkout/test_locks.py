"""Exact versions of a baseline's lock file, for this interpreter and system."""

from collections.abc import Mapping
from pathlib import Path, PurePath

import pytest

from pytest_hwperf.checkout.needs import Lock, lock_of

UV = """
version = 1

[[package]]
name = "NumPy"
version = "1.26.4"
source = { registry = "https://pypi.org/simple" }
resolution-markers = ["python_version < '3'", "python_version >= '3'"]

[[package]]
name = "numpy"
version = "1.20.0"
source = { registry = "https://pypi.org/simple" }
resolution-markers = ["python_version < '3'"]

[[package]]
name = "torch"
version = "2.1.0+cpu"
source = { registry = "https://download.pytorch.org/whl/cpu" }

[[package]]
name = "pytest-hwperf"
version = "0.1.0"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "member"
version = "1.0"
source = { editable = "packages/member" }

[[package]]
name = "dynamic"
source = { registry = "https://pypi.org/simple" }
"""
PYLOCK = """
lock-version = "1.0"

[[packages]]
name = "numpy"
version = "1.26.4"
marker = "python_version >= '3'"

[[packages]]
name = "old"
version = "1"
marker = "python_version < '3'"

[[packages]]
name = "odd"
version = "1"
marker = "no marker"

[[packages]]
name = "forked"
version = "1"
vcs = { type = "git", url = "https://example.org" }
"""
REQUIREMENTS = """
# made by pip-compile
numpy==1.26.4 \\
    --hash=sha256:00 \\
    --hash=sha256:11
scipy==1.11.0 ; python_version >= '3'  # via x
old==1 ; python_version < '3'
loose>=1
star==1.*
-r other.txt
mine @ https://example.org/mine.whl
"""


def lock(tmp_path: Path, files: Mapping[str, str], folder: str = ".") -> Lock:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return lock_of(tmp_path, [PurePath(folder)])


def test_a_lock_of_uv_names_what_comes_from_an_index(tmp_path: Path) -> None:
    """Of a version for each system that of this one; a local version is that which it satisfies."""
    expected = Lock(files=("uv.lock",), versions={"numpy": "1.26.4", "torch": "2.1.0"})
    assert expected == lock(tmp_path, {"uv.lock": UV, "pylock.toml": PYLOCK, "requirements.txt": REQUIREMENTS})


def test_a_lock_of_the_standard_is_read(tmp_path: Path) -> None:
    assert Lock(files=("pylock.toml",), versions={"numpy": "1.26.4"}) == lock(tmp_path, {"pylock.toml": PYLOCK})


def test_requirements_count_where_they_are_exact(tmp_path: Path) -> None:
    """They list what is needed; of a package that two files name differently nothing is known."""
    files = {"requirements.txt": REQUIREMENTS, "requirements-dev.txt": "scipy==1.12\npytest==9.0\n"}
    names = ("requirements-dev.txt", "requirements.txt")
    assert Lock(files=names, versions={"pytest": "9.0", "numpy": "1.26.4"}, lists_needs=True) == lock(tmp_path, files)


def test_the_lock_of_a_workspace_lies_above_its_projects(tmp_path: Path) -> None:
    found = lock(tmp_path, {"uv.lock": UV, "packages/a/requirements.txt": "loose\n"}, "packages/a")
    assert ("uv.lock",) == found.files


@pytest.mark.parametrize("text", ["[", "package = 1\n", "package = [1]\n", "[[package]]\nname = 1\n"])
def test_a_damaged_lock_names_nothing(tmp_path: Path, text: str) -> None:
    assert {} == lock(tmp_path, {"uv.lock": text}).versions


def test_without_a_lock_there_are_no_versions(tmp_path: Path) -> None:
    assert Lock() == lock(tmp_path, {"requirements.txt": "loose\n"})
    (tmp_path / "requirements.txt").write_bytes(b"\xff==1\n")
    assert Lock() == lock(tmp_path, {})
