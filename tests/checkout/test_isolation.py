"""The proof that each side of a rerun ran its own code."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_hwperf.checkout import trees
from pytest_hwperf.checkout.isolation import check_isolation
from pytest_hwperf.checkout.trees import Trees, own_paths, translated
from pytest_hwperf.host.source_files import is_of_tests, loaded_files, modules_before_pytest
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.text import shell_word


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path / "candidate")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return made(tmp_path / "baseline")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return made(tmp_path / "env" / "lib" / "python3" / "site-packages")


@pytest.fixture
def finder() -> Iterator[ModuleType]:
    """A module like that which setuptools writes for an editable install."""
    module = ModuleType("__editable___pkg_0_1_finder")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def file(folder: Path, name: str, text: str = "") -> str:
    made((folder / name).parent)
    (folder / name).write_text(text)
    return str(folder / name)


def test_own_paths_are_those_in_the_tree_in_their_order(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The empty entry is the working directory."""
    monkeypatch.chdir(made(root / "sub"))
    assert [root / "sub"] == own_paths([""], root)
    paths = [str(made(root / "src")), str(made(tmp_path / "elsewhere")), str(root), str(root / "src"), str(root / "no")]
    assert [root / "src", root] == own_paths(paths, root)


def test_environments_in_the_tree_are_not_its_code(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the one in use nor others, of tox or of the baseline."""
    monkeypatch.setattr(trees, "PREFIXES", (str(root / ".venv"),))
    entries = [
        made(root / name)
        for name in (".venv/lib/python3", ".venv/lib/python3/site-packages", ".tox/py/lib/site-packages", "src")
    ]
    assert [root / "src"] == own_paths([str(entry) for entry in entries], root)


def test_a_prefix_around_the_tree_does_not_hide_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /usr around /usr/src/app, or an environment made in the root itself."""
    entries = [str(made(root / "src")), str(made(root / "lib" / "python3" / "site-packages"))]
    for prefix in (root, root / ".."):
        monkeypatch.setattr(trees, "PREFIXES", (str(prefix),))
        assert [root / "src"] == own_paths(entries, root)


def test_links_do_not_hide_the_tree(root: Path, tmp_path: Path) -> None:
    made(root / "src")
    (tmp_path / "link").symlink_to(root)
    assert [root / "src"] == own_paths([str(tmp_path / "link" / "src")], root)
    assert [root / "src"] == own_paths([str(root / "src")], tmp_path / "link")


def test_editable_installs_by_setuptools_finder_are_own_paths(root: Path, finder: ModuleType, tmp_path: Path) -> None:
    file(root, "src/pkg/__init__.py")
    file(root, "mods/single.py")
    file(root, "name/space/part/__init__.py")
    file(root, "odd/__init__.py")
    file(tmp_path, "elsewhere/far/__init__.py")
    mapping = {
        "pkg": root / "src/pkg",
        "single": root / "mods/single.py",
        "space.part": root / "name/space/part",
        "renamed": root / "odd",  # no path can make `import renamed` find it
        "far": tmp_path / "elsewhere/far",
    }
    assert [] == own_paths([], root)  # a finder without a mapping
    finder.__dict__["MAPPING"] = {name: str(path) for name, path in mapping.items()}
    assert [root / "src", root / "mods", root / "name"] == own_paths([], root)


def test_paths_are_translated_to_the_other_tree(root: Path, other: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert [other / "src", other] == translated([root / "src", tmp_path / "link"], root, other)


def test_files_of_modules_and_libraries_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links are resolved; what is no module, or a lazy one, is not woken."""

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> object:
            pytest.fail(f"{name} was asked for")

    (tmp_path / "links").symlink_to(made(tmp_path / "real"))
    file(tmp_path, "real/a.py")
    (tmp_path / "b.py").symlink_to(tmp_path / "real" / "a.py")
    for number, path in enumerate((tmp_path / "links" / "a.py", tmp_path / "b.py", tmp_path / "gone.py")):
        module = ModuleType(f"hw{number}")
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "hw_lazy", Lazy("hw_lazy"))
    monkeypatch.setitem(sys.modules, "hw_number", 3)
    monkeypatch.setitem(sys.modules, "hw_none", None)

    files = loaded_files()
    assert {str(tmp_path / "real" / "a.py"), str(tmp_path / "gone.py"), os.path.realpath(__file__)} <= set(files)
    assert str(tmp_path / "b.py") not in files
    assert sorted(set(files)) == files


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is mapped")
def test_tests_and_plugins_are_not_imported_before_pytest() -> None:
    """It rewrites their assertions, and warns where it comes too late; a package says that it needs none of that."""
    found = modules_before_pytest()
    assert __file__ == sys.modules[__name__].__file__
    assert __name__ not in found
    assert {"json", "pytest", "pytest_hwperf.host.source_files"} <= found.keys()
    assert found["json"] == json.__file__


def test_mapped_libraries_are_loaded_files() -> None:
    files = loaded_files()
    assert any("/libc.so." in name or "/ld-" in name for name in files)


def test_folders_of_tests_are_known_by_name() -> None:
    named = ["tests", "test", "pkg/tests/unit", "benchmarks", "perf_tests", "tests_slow"]
    assert named == [folder for folder in (*named, "src/pkg", "testing", "contest", "") if is_of_tests(Path(folder))]


def check(baseline: list[str], candidate: list[str], other: Path, root: Path, *, own_interpreter: bool = False) -> bool:
    tests = [root / "tests" / "test_a.py", root / "test_b.py"]
    both = Trees(candidate=root, baseline=other)
    return check_isolation(both, {"baseline": baseline, "candidate": candidate}, tests, own_interpreter=own_interpreter)


# What both sides have loaded, and what is said of it, or whether own code was seen.
LOADED: dict[str, tuple[list[str], list[str], str | bool]] = {
    "own code on each side": (["base/src/pkg/a.py", "site/numpy.py"], ["src/pkg/a.py", "site/numpy.py"], True),
    "an extension module": (["base/pkg/a.cpython-311.so"], ["pkg/a.cpython-311.so"], True),
    "code of the candidate in the baseline": (
        ["base/src/pkg/a.py", "src/pkg/b.py", "src/pkg/c.py"],
        ["src/pkg/a.py"],
        r"the baseline has loaded .*/candidate/src/pkg/b.py and 1 more of the cand",
    ),
    "a test of the candidate in the baseline": (
        ["base/src/pkg/a.py", "tests/test_a.py"],
        ["src/pkg/a.py"],
        r"the baseline has loaded .*/candidate/tests/test_a.py of the candidate's",
    ),
    "one side without own code": (
        ["base/tests/test_a.py"],
        ["src/pkg/a.py"],
        r"the baseline has loaded no code of its own tree .*/baseline, but the other",
    ),
    "tests of a model file alone, which need no package": (
        ["base/tests/test_a.py", "site/onnxruntime/__init__.py", "site/pkg_tests/__init__.py"],
        ["tests/test_a.py", "site/onnxruntime/__init__.py", "site/pkg_tests/__init__.py", "pkg_tests/__init__.py"],
        False,
    ),
}


def test_own_code_is_proof_and_that_of_the_other_side_a_leak(root: Path, other: Path, site: Path) -> None:
    places = {"base": other, "site": site}

    def of(files: list[str]) -> list[str]:
        parts = (one.partition("/") for one in files)
        return [file(places.get(top, root), rest if top in places else f"{top}/{rest}") for top, _, rest in parts]

    for name, (theirs, ours, expected) in LOADED.items():
        if isinstance(expected, bool):
            assert (name, expected) == (name, check(of(theirs), of(ours), other, root))
            continue
        for own_interpreter in {False, "candidate in" in name}:
            with pytest.raises(WorkerError, match=expected):
                check(of(theirs), of(ours), other, root, own_interpreter=own_interpreter)


def test_environments_in_the_candidates_tree_are_no_leak(
    root: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "PREFIXES", (str(root / ".venv"),))
    installed = [
        file(root, ".venv/lib/python3/site-packages/numpy/__init__.py"),
        file(root, ".venv/lib/python3/json.py"),
        file(root, ".tox/py/lib/python3/site-packages/scipy.py"),
    ]
    check([file(other, "pkg/a.py"), *installed], [file(root, "pkg/a.py"), *installed], other, root)


def test_the_baselines_tree_may_lie_inside_the_candidates(root: Path) -> None:
    """As with a temporary folder in the repository; what it holds is no code of the candidate."""
    other = made(root / "tmp" / "baseline")
    check([file(other, "pkg/a.py")], [file(root, "pkg/a.py")], other, root)
    with pytest.raises(WorkerError, match=r"the candidate has loaded no code of its own tree"):
        check([file(other, "pkg/a.py")], [file(other, "pkg/a.py")], other, root)


def test_roots_behind_links_are_resolved(root: Path, other: Path, tmp_path: Path) -> None:
    """As /tmp on macOS."""
    (tmp_path / "link").symlink_to(tmp_path)
    link = tmp_path / "link"
    own = [file(other, "pkg/a.py")], [file(root, "pkg/a.py")]
    check(*own, link / "baseline", link / "candidate")
    with pytest.raises(WorkerError, match="the baseline has loaded"):
        check([*own[0], *own[1]], own[1], link / "baseline", link / "candidate")


LAID_OVER = ["tests/test_a.py", "test_b.py", "conftest.py", "tests/__init__.py", "tests/helper.py"]


def test_tests_prove_nothing(root: Path, other: Path, site: Path) -> None:
    """Both sides have the candidate's: a package that is imported from elsewhere must still be found."""
    package = file(site, "pkg/__init__.py")
    file(root, "src/pkg/__init__.py")

    with pytest.raises(WorkerError) as caught:
        check(
            [*(file(other, name) for name in LAID_OVER), package],
            [*(file(root, name) for name in LAID_OVER), package],
            other,
            root,
        )
    assert (
        f"the package under test is imported from {site / 'pkg'}, not from either tree; install it with "
        f"`pip install -e {root}`, or give --hwperf-base-python=PATH, the Python of an environment with the baseline "
        "installed, or have one built with -o hwperf_base_env=build"
    ) == str(caught.value)


def test_an_installed_copy_is_known_by_the_name_in_the_tree(root: Path, other: Path, site: Path) -> None:
    module = file(site, "pkg.cpython-311-x86_64-linux-gnu.so")
    for place in ("pkg/__init__.py", "src/pkg/__init__.py", "lib/pkg.py", "python/pkg.py"):
        path = file(root, place)
        with pytest.raises(
            WorkerError, match=r"is imported from .*/site-packages/pkg.cpython-311-x86_64-linux-gnu.so, not"
        ):
            check([module], [module], other, root)
        Path(path).unlink()


def installed_from(url: str, site: Path, *, editable: bool = False, record: str = "") -> str:
    direct = {"url": url, "dir_info": {"editable": editable}}
    file(site, "odd_name-0.1.dist-info/direct_url.json", json.dumps(direct))
    file(site, "odd_name-0.1.dist-info/RECORD", record or "inner/__init__.py,,\n../../../bin/odd,,\n")
    return file(site, "inner/__init__.py")


def test_an_installed_copy_is_known_by_what_pip_notes(root: Path, other: Path, site: Path) -> None:
    """In whichever folder of the tree it is, and whatever it is called there (PEP 610); a wheel is the tree's."""
    part, wheel = made(root / "packages" / "odd name"), Path(file(root, "dist/odd.whl"))
    for origin, editable in ((part, part), (wheel, root)):
        module = installed_from(origin.as_uri(), site)
        with pytest.raises(
            WorkerError, match=rf"from {site}/inner, not from either .*`pip install -e {shell_word(str(editable))}`"
        ):
            check([module], [module], other, root)


def test_a_package_from_elsewhere_is_a_dependency(root: Path, other: Path, site: Path) -> None:
    urls: tuple[Any, ...] = ("https://example.org/odd.whl", "file:///elsewhere", "", 3)
    for url in urls:
        module = installed_from(url, site)
        check([module], [module], other, root)


def test_an_editable_install_is_no_installed_copy(root: Path, other: Path, site: Path) -> None:
    """Its finder is loaded from the site whether or not the package was."""
    finder = file(site, "__editable___inner_finder.py")
    installed_from(root.as_uri(), site, editable=True, record="__editable___inner_finder.py,,\n")
    check([finder], [finder], other, root)


def test_code_of_the_baselines_own_interpreter_is_its_code(root: Path, other: Path, site: Path, tmp_path: Path) -> None:
    """Unless it shares the package."""
    theirs = file(made(tmp_path / "base" / "site-packages"), "pkg/__init__.py")
    file(root, "src/pkg/__init__.py")
    own, installed = file(root, "src/pkg/a.py"), file(site, "pkg/__init__.py")
    assert check([theirs], [own], other, root, own_interpreter=True)
    assert check([theirs], [installed], other, root, own_interpreter=True)
    with pytest.raises(WorkerError, match="the package under test is imported from"):
        check([installed], [installed], other, root, own_interpreter=True)
