"""Dependency groups of the baseline: those of which this environment has what the present project asks for."""

from pathlib import Path, PurePath

from pytest_hwperf.checkout.needs import requirements_of_groups

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
    return requirements_of_groups(tmp_path / "now", tmp_path / "then", folders, lambda one: one.startswith("here"))


def test_groups_that_are_installed_here_are_those_of_the_baseline(tmp_path: Path) -> None:
    """Without what comes from no index, and each once, though they name each other."""
    assert ["here==1", "older", "???"] == requirements(tmp_path)


def test_a_damaged_file_has_no_groups(tmp_path: Path) -> None:
    assert [] == requirements(tmp_path, then="[")
    assert [] == requirements(tmp_path, now="dependency-groups = 1\n")
    assert [] == requirements(tmp_path, then="project = 1\ntool = 1\n")
