"""What a baseline needs beside its project: exact versions of its lock file, and its dependency groups."""

from collections.abc import Mapping
from pathlib import Path, PurePath

import pytest

from pytest_hwperf.checkout import layer
from pytest_hwperf.checkout.layer import Needs, locked_versions, needs_of, requirements_of_groups
from pytest_hwperf.checkout.trees import Trees

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


def lock(tmp_path: Path, files: Mapping[str, str], folder: str = ".") -> Needs:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return locked_versions(tmp_path, [PurePath(folder)])


def test_a_lock_of_uv_names_what_comes_from_an_index(tmp_path: Path) -> None:
    """Of a version for each system that of this one; a local version is that which it satisfies."""
    expected = Needs(files=("uv.lock",), versions={"numpy": "1.26.4", "torch": "2.1.0"})
    assert expected == lock(tmp_path, {"uv.lock": UV, "pylock.toml": PYLOCK, "requirements.txt": REQUIREMENTS})


def test_a_lock_of_the_standard_is_read(tmp_path: Path) -> None:
    assert Needs(files=("pylock.toml",), versions={"numpy": "1.26.4"}) == lock(tmp_path, {"pylock.toml": PYLOCK})


def test_requirements_count_where_they_are_exact(tmp_path: Path) -> None:
    """They list what is needed; of a package that two files name differently nothing is known."""
    files = {"requirements.txt": REQUIREMENTS, "requirements-dev.txt": "scipy==1.12\npytest==9.0\n"}
    names, needed = ("requirements-dev.txt", "requirements.txt"), ["pytest==9.0", "numpy==1.26.4"]
    expected = Needs(files=names, versions={"pytest": "9.0", "numpy": "1.26.4"}, requirements=needed)
    assert expected == lock(tmp_path, files)


def test_the_lock_of_a_workspace_lies_above_its_projects(tmp_path: Path) -> None:
    found = lock(tmp_path, {"uv.lock": UV, "packages/a/requirements.txt": "loose\n"}, "packages/a")
    assert ("uv.lock",) == found.files


def test_without_a_lock_or_with_a_damaged_one_there_are_no_versions(tmp_path: Path) -> None:
    assert Needs() == lock(tmp_path, {"requirements.txt": "loose\n"})
    (tmp_path / "requirements.txt").write_bytes(b"\xff==1\n")
    assert Needs() == lock(tmp_path, {})
    damaged = ["[", "package = 1\n", "package = [1]\n", "[[package]]\nname = 1\n"]
    assert [{}] * 4 == [lock(tmp_path, {"uv.lock": text}).versions for text in damaged]


def test_exact_versions_bind_what_is_installed(tmp_path: Path) -> None:
    needs = Needs(files=("uv.lock",), versions={"b": "2", "a": "1"}, requirements=["x"])
    assert ["x", "-c", str(tmp_path / "hwperf-locked.txt")] == needs.arguments(tmp_path)
    assert "a==1\nb==2\n" == (tmp_path / "hwperf-locked.txt").read_text()
    assert ", with the versions of its uv.lock" == needs.shown


def test_without_a_lock_nothing_is_bound(tmp_path: Path) -> None:
    assert ["x"] == Needs(requirements=["x"]).arguments(tmp_path)
    assert "" == Needs().shown
    assert [True, False] == [Needs(requirements=["x"]).is_any, Needs().is_any]


def test_a_list_of_requirements_is_installed_as_far_as_this_environment_has_it(tmp_path: Path) -> None:
    """A lock file names all that might be needed; the project says what is."""
    (tmp_path / "requirements.txt").write_text("PyTest==1.0\nno-such-package==1\n")
    trees = Trees(candidate=tmp_path, baseline=tmp_path)
    listed = needs_of(trees, [PurePath()])
    (tmp_path / "pylock.toml").write_text("[[packages]]\nname = 'pytest'\nversion = '1.0'\n")
    assert ["pytest==1.0"] == list(listed.requirements)
    assert {"pytest": "1.0", "no-such-package": "1"} == listed.versions
    assert [] == list(needs_of(trees, [PurePath()]).requirements)


NOW = """
[project]
name = "My_Project"

[dependency-groups]
Test = ["here>=2", {include-group = "plugins"}]
plugins = ["here-too", {include-group = "test"}]
docs = ["absent"]
empty = []
odd = 1
"""
THEN = """
[project]
name = "My_Project"

[dependency-groups]
test = ["here==1", "my-project[fast]", "pytest-hwperf", "local", {include-group = "plugins"}, {other = 1}]
plugins = ["older", "???"]
docs = ["absent"]

[tool.uv.sources]
local = { path = "packages/local" }
"""


def requirements(tmp_path: Path, now: str = NOW, then: str = THEN) -> list[str]:
    for name, text in (("now", now), ("then", then)):
        (tmp_path / name / "sub").mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "sub" / "pyproject.toml").write_text(text)
    folders = [PurePath("sub"), PurePath("without")]
    trees = Trees(candidate=tmp_path / "now", baseline=tmp_path / "then")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer, "is_here", lambda one: one.startswith("here"))
        return requirements_of_groups(trees, folders)


def test_groups_that_are_installed_here_are_those_of_the_baseline(tmp_path: Path) -> None:
    """Without what comes from no index, and each once, though they name each other."""
    assert ["here==1", "older", "???"] == requirements(tmp_path)


def test_a_damaged_file_has_no_groups(tmp_path: Path) -> None:
    assert [] == requirements(tmp_path, then="[")
    assert [] == requirements(tmp_path, now="dependency-groups = 1\n")
    assert [] == requirements(tmp_path, then="project = 1\ntool = 1\n")
