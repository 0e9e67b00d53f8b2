"""When the baseline's project has to be built, what is installed of it, and what its tree is given of that."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution
from pathlib import Path, PurePath
from types import ModuleType

import pytest
from fakes.repositories import repository_with

from pytest_hwperf.checkout import building
from pytest_hwperf.checkout.building import fill, projects_in, ways_to_install, why_not_shared
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.records.errors import WorkerError

FAST = f"_fast{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose package lies in `src`, and which ignores what is compiled; `baseline` beside it is empty."""
    folder = repository_with(tmp_path / "project", __gitignore="*.so\n")
    put(folder / "src/pkg/__init__.py")
    put(tmp_path / "baseline/src/pkg/__init__.py")
    monkeypatch.syspath_prepend(folder / "src")
    return folder


def put(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def note(site: Path, source: Path, *files: str, lines: Sequence[str] = ()) -> Path:
    """Write what pip notes of an install of `pkg` from a folder, and its files."""
    folder = site / "pkg-1.0.dist-info"
    put(folder / "METADATA", "\n".join(["Metadata-Version: 2.1", "Name: pkg", "Version: 1.0", *lines, ""]))
    put(folder / "direct_url.json", json.dumps({"url": source.as_uri(), "dir_info": {}}))
    put(folder / "RECORD", "".join(f"{file},,\n" for file in files))
    for file in files:
        put(site / file, "built")
    return site


def both(tree: Path) -> Trees:
    return Trees(candidate=tree, baseline=tree.with_name("baseline"))


def reason(tree: Path, *loaded: str, modules: Mapping[str, str] | None = None) -> str:
    """Return why the environment cannot be shared, of what has loaded these files."""
    made = {name: ModuleType(name) for name in modules or {}}
    for name, file in (modules or {}).items():
        made[name].__file__ = file
    return why_not_shared(both(tree), loaded, made)


def test_code_that_a_path_leads_to_is_shared(tree: Path) -> None:
    package = str(tree / "src/pkg/__init__.py")
    assert "" == reason(tree, package, modules={"pkg": package, "pkg.sub": "/x", "os": "/usr/lib/os.py"})


def test_code_that_is_compiled_in_place_is_not(tree: Path) -> None:
    assert f"src/pkg/{FAST}: compiled in place" == reason(tree, put(tree / "src/pkg" / FAST))


def test_an_installed_copy_is_not(tree: Path, tmp_path: Path) -> None:
    """Unless code of the tree is loaded too, as where the copy is that of an older install."""
    copy = put(tmp_path / "site-packages/pkg/__init__.py")
    (tree / "src/pkg").rename(tree / "pkg")
    assert f"the package under test is installed as a copy, {Path(copy).parent}" == reason(tree, copy)
    assert "" == reason(tree, copy, str(tree / "pkg/__init__.py"))


def test_an_editable_install_by_a_finder_is_not(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of meson-python and scikit-build-core: no entry of the path leads to it."""
    monkeypatch.setattr(sys, "path", [str(tree)])
    files = {"pkg": str(tree / "src/pkg/__init__.py"), "odd": "", "work": put(tree / "work.py")}
    del files["odd"]
    assert "the editable install of pkg cannot be led to another tree" == reason(tree, *files.values(), modules=files)


def test_what_was_installed_of_the_tree_is_installed_of_the_baseline(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extras of which everything is here; a folder that nothing can be installed from is left out."""
    lines = [
        *("Requires-Dist: pytest", "Requires-Dist: no-such-package; extra == 'rare'"),
        *("Requires-Dist: pytest>1; extra == 'test'", "Provides-Extra: rare", "Provides-Extra: test"),
    ]
    site = note(tmp_path / "site", tree / "python", lines=lines)
    monkeypatch.setattr(building, "distributions", lambda: Distribution.discover(path=[str(site)]))
    monkeypatch.setattr(building, "is_here", lambda text: not text.startswith("no-such"))
    baseline = tree.with_name("baseline")
    assert {} == projects_in(both(tree))
    put(baseline / "python/pyproject.toml")
    assert {PurePath("python"): ("test",)} == projects_in(both(tree))


def test_what_is_not_installed_is_installed_from_the_root(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "distributions", list)
    put(tree.with_name("baseline") / "setup.py")
    assert {PurePath(): ()} == projects_in(both(tree))


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("[build-system]\nrequires = ['pytest>1', 'other; python_version < \"3\"']\n", 2),
        ("[build-system]\nrequires = ['no-such-package']\n", 1),
        ("[build-system]\nrequires = ['pytest<1']\n", 1),
        ("[build-system]\nrequires = ['???']\n", 1),
    ],
)
def test_what_builds_a_project_is_loaded_only_if_it_is_not_here(tmp_path: Path, text: str, ways: int) -> None:
    put(tmp_path / "sub/pyproject.toml", text)
    found = list(ways_to_install(tmp_path, {PurePath("sub"): ("test", "fast")}))
    assert ways == len(found)
    assert [f"{tmp_path}/sub[test,fast]"] == found[-1]
    assert ["--no-build-isolation"] * (ways - 1) == [way[0] for way in found[:-1]]


def test_a_damaged_file_names_nothing_that_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a project is built by setuptools, or refused by pip."""
    put(tmp_path / "pyproject.toml", "[")
    monkeypatch.setattr(building, "is_here", lambda one: one.startswith("setuptools"))

    what = str(tmp_path)
    assert [["--no-build-isolation", what], [what]] == list(ways_to_install(tmp_path, {PurePath(): ()}))


def test_the_tree_is_given_what_was_built_and_it_lacks(tree: Path, tmp_path: Path) -> None:
    """Never what it has itself, nor what would lie outside of its packages."""
    files = (f"pkg/{FAST}", "pkg/__init__.py", "pkg/m.pyc", "other/x.py", "top.py", "../../bin/pkg")
    site, baseline = note(tmp_path / "lib/python3/site", tree, *files), tree.with_name("baseline")
    assert [f"src/pkg/{FAST}"] == fill(baseline, {PurePath(): ()}, site)
    assert "built" == (baseline / "src/pkg" / FAST).read_text()
    assert "" == (baseline / "src/pkg/__init__.py").read_text()


def test_a_tree_that_cannot_be_given_a_file_says_so(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = note(tmp_path / "site", tree, f"pkg/{FAST}")

    def full(source: Path, target: Path) -> None:
        raise OSError(f"no space left for {source.name} in {target.parent}")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(WorkerError, match="the baseline cannot be given pkg/_fast"):
        fill(tree.with_name("baseline"), {PurePath(): ()}, site)
