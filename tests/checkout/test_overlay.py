"""What of the candidate's tree is laid over the baseline's, and what never is."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_hwperf.checkout.both import both_trees, commands, with_ini
from pytest_hwperf.checkout.overlay import candidate_ini, gone_tests, lay_over, remove_gone, share
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.launch import PytestCommand
from pytest_hwperf.records.errors import UsageProblem, WorkerError

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def tree(root: Path, files: Mapping[str, str]) -> Path:
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def content(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


# Each case: the candidate's files, the baseline's, the collected ones, and what the baseline takes over. A text says
# whose it is: "c" the candidate's, "b" the baseline's, "" an empty module.
LAYOUTS = {
    "tests apart from the code": (
        {"conftest.py": "c", "src/pkg/__init__.py": "c", "src/pkg/a.py": "c", "tests/test_a.py": "c"},
        {"conftest.py": "b", "src/pkg/__init__.py": "b", "src/pkg/a.py": "b", "tests/test_a.py": "b"},
        ["tests/test_a.py"],
        ["conftest.py", "tests/test_a.py"],
    ),
    "a test that the baseline lacks": (
        {"tests/unit/test_new.py": "c", "tests/unit/conftest.py": "c", "tests/__init__.py": ""},
        {"tests/test_a.py": "b"},
        ["tests/unit/test_new.py"],
        ["tests/__init__.py", "tests/unit/conftest.py", "tests/unit/test_new.py"],
    ),
    "tests as a package": (
        {"tests/__init__.py": "c", "tests/unit/__init__.py": "c", "tests/unit/test_a.py": "c"},
        {"tests/__init__.py": "b", "tests/unit/__init__.py": "b"},
        ["tests/unit/test_a.py"],
        ["tests/__init__.py", "tests/unit/__init__.py", "tests/unit/test_a.py"],
    ),
    "tests inside the package": (
        {"pkg/__init__.py": "c", "pkg/tests/__init__.py": "c", "pkg/tests/test_a.py": "c", "pkg/conftest.py": "c"},
        {"pkg/__init__.py": "b", "pkg/tests/__init__.py": "b"},
        ["pkg/tests/test_a.py"],
        ["pkg/conftest.py", "pkg/tests/__init__.py", "pkg/tests/test_a.py"],
    ),
    "two projects of a workspace": (
        {"a/src/a/__init__.py": "c", "a/tests/test_a.py": "c", "b/conftest.py": "c", "b/tests/test_b.py": "c"},
        {"a/src/a/__init__.py": "b", "a/tests/test_a.py": "b", "b/src/b/__init__.py": "b"},
        ["a/tests/test_a.py", "b/tests/test_b.py"],
        ["a/tests/test_a.py", "b/conftest.py", "b/tests/test_b.py"],
    ),
    "tests beside the code": (
        {"pkg/__init__.py": "x = 1", "pkg/a.py": "c", "pkg/fast.py": "c", "pkg/test_a.py": "c"},
        {"pkg/a.py": "b"},
        ["pkg/test_a.py"],
        ["pkg/test_a.py"],  # no fast.py and no __init__.py: the baseline would run the candidate's code
    ),
    "a package of tests by no usual name": (
        {"quality/__init__.py": '"""Speed."""', "quality/test_a.py": "c"},
        {},
        ["quality/test_a.py"],
        ["quality/__init__.py", "quality/test_a.py"],
    ),
    "such a package that both have": (
        {"quality/__init__.py": "", "quality/test_a.py": "c"},
        {"quality/__init__.py": "b"},
        ["quality/test_a.py"],
        ["quality/test_a.py"],
    ),
    "a module that is no Python": (
        {"quality/__init__.py": "def (", "quality/test_a.py": "c"},
        {},
        ["quality/test_a.py"],
        ["quality/test_a.py"],
    ),
    "helpers": (
        {"tests/known.py": "c", "tests/new.py": "c", "tests/a.csv": "c", "tests/far/b.py": "c", "tests/test_a.py": "c"},
        {"tests/known.py": "b"},
        ["tests/test_a.py"],
        ["tests/new.py", "tests/test_a.py"],
    ),
    "helpers above the tests, and a module that has become a package": (
        {"tests/new.py": "c", "tests/util/__init__.py": "c", "tests/util/a.py": "c", "tests/unit/test_a.py": "c"},
        {"tests/util/b.py": "b"},
        ["tests/unit/test_a.py"],
        ["tests/new.py", "tests/unit/test_a.py", "tests/util/__init__.py", "tests/util/a.py"],
    ),
    "modules at the top": (
        {"model.py": "c", "new.py": "c", "test_a.py": "c", "__init__.py": "c"},
        {"model.py": "b", "__init__.py": "b"},
        ["test_a.py"],
        ["test_a.py"],
    ),
    "tests that were not collected": (
        {"tests/test_a.py": "c", "tests/test_b.py": "c", "tests/unit/test_c.py": "c"},
        {"tests/test_b.py": "b"},
        ["tests/test_a.py"],
        ["tests/test_a.py"],
    ),
}  # fmt: skip


def test_the_benchmark_code_is_the_candidates_and_all_else_the_baselines(tmp_path: Path) -> None:
    for name, (of_candidate, of_baseline, collected, expected) in LAYOUTS.items():
        root = tree(tmp_path / name, {})
        candidate, baseline = tree(root / "candidate", of_candidate), tree(root / "baseline", of_baseline)
        laid = lay_over(candidate, baseline, [candidate / file for file in collected])
        assert (name, expected) == (name, laid)
        assert {**of_baseline, **{file: of_candidate[file] for file in expected}} == content(baseline)
        assert dict(of_candidate) == content(candidate)


# Each case: the candidate's files, the baseline's, the collected ones, and what the baseline loses.
GONE = {
    "what pytest loads on the way": (
        {"tests/unit/test_a.py": "c"},
        {"conftest.py": "b", "tests/conftest.py": "b", "tests/__init__.py": "b", "tests/unit/__init__.py": "b"},
        ["tests/unit/test_a.py"],
        ["conftest.py", "tests/__init__.py", "tests/conftest.py", "tests/unit/__init__.py"],
    ),
    "helpers, moved or deleted": (
        {"tests/unit/test_a.py": "c", "tests/unit/new.py": "c", "tests/known.py": "c"},
        {"tests/old.py": "b", "tests/known.py": "b", "tests/far/moved.py": "b", "tests/a.csv": "b", "pkg/old.py": "b"},
        ["tests/unit/test_a.py"],
        ["tests/far/moved.py", "tests/old.py"],
    ),
    "a package of helpers that is a module now": (
        {"bench/test_a.py": "c", "bench/helpers.py": "c"},
        {"bench/helpers/__init__.py": "b", "bench/helpers/data.json": "b"},
        ["bench/test_a.py"],
        ["bench/helpers/__init__.py"],
    ),
    "code beside and around the tests": (
        {"load_test/tests/test_a.py": "c", "quality/test_b.py": "c"},
        {"load_test/old.py": "b", "quality/old.py": "b", "quality/__init__.py": "b", "__init__.py": ""},
        ["load_test/tests/test_a.py", "quality/test_b.py"],
        [],
    ),
    "a package of tests by no usual name": (
        {"quality/test_a.py": "c"},
        {"quality/__init__.py": '"""Speed."""'},
        ["quality/test_a.py"],
        ["quality/__init__.py"],
    ),
}  # fmt: skip


def test_benchmark_code_that_the_candidate_lacks_does_not_stay_in_the_baseline(tmp_path: Path) -> None:
    for name, (of_candidate, of_baseline, collected, expected) in GONE.items():
        root = tree(tmp_path / name, {})
        candidate, baseline = tree(root / "candidate", of_candidate), tree(root / "baseline", of_baseline)
        gone = remove_gone(candidate, baseline, [candidate / file for file in collected])
        assert (name, expected) == (name, gone)
        assert {file: text for file, text in of_baseline.items() if file not in expected} == content(baseline)
        assert dict(of_candidate) == content(candidate)


def test_measured_tests_that_no_file_has_any_more_are_found(tmp_path: Path) -> None:
    """One that has moved to another file is there, and one that measures nothing is not missed."""
    measured, plain = "def test_{0}(hwperf): pass\n", "def test_{0}(): pass\n"
    there = {
        "tests/test_a.py": measured.format("kept") + measured.format("lost") + plain.format("plain"),
        "tests/sub/test_b.py": f"pytestmark = pytest.mark.hwbudget(a=1)\n{plain.format('gone')}{plain.format('moved')}",
        "tests/test_broken.py": "def (",
        "other/test_c.py": measured.format("elsewhere"),
    }
    here = {"tests/test_a.py": measured.format("kept") + plain.format("moved")}
    candidate, baseline = tree(tmp_path / "candidate", here), tree(tmp_path / "baseline", there)

    gone = gone_tests(candidate, baseline, [candidate / "tests/test_a.py"])
    assert ["tests/sub/test_b.py::test_gone", "tests/test_a.py::test_lost"] == gone


def test_a_root_or_a_file_behind_a_link_is_the_same_tree(tmp_path: Path) -> None:
    candidate = tree(tmp_path / "candidate", {"tests/test_a.py": "c", "shared/speed.py": "shared"})
    (candidate / "tests" / "test_link.py").symlink_to("../shared/speed.py")
    (tmp_path / "link").symlink_to(candidate)
    baseline = tree(tmp_path / "baseline", {})
    laid = lay_over(tmp_path / "link", baseline, [candidate / "tests/test_a.py", candidate / "tests/test_link.py"])
    assert ["tests/test_a.py", "tests/test_link.py"] == laid
    assert {"tests/test_a.py": "c", "tests/test_link.py": "shared"} == content(baseline)


def test_a_test_outside_of_the_tree_is_refused(tmp_path: Path) -> None:
    candidate = tree(tmp_path / "candidate", {})
    with pytest.raises(UsageProblem, match=r"test_a.py is not in .*candidate: tests to be compared must lie in"):
        lay_over(candidate, tmp_path, [tmp_path / "test_a.py"])


def test_nothing_is_written_or_removed_through_a_link_out_of_the_tree(tmp_path: Path) -> None:
    candidate = tree(tmp_path / "candidate", {"tests/unit/test_a.py": "c"})
    baseline, outside = tree(tmp_path / "baseline", {}), tree(tmp_path / "outside", {})
    (baseline / "tests").symlink_to(outside)

    with pytest.raises(
        WorkerError, match=r"cannot be given tests/unit/test_a.py: .*/tests is a link that leads out of its tree"
    ):
        lay_over(candidate, baseline, [candidate / "tests/unit/test_a.py"])
    assert not list(outside.iterdir())
    tree(outside, {"conftest.py": "theirs"})
    with pytest.raises(WorkerError, match=r"tests is a link that leads out of its tree"):
        remove_gone(candidate, baseline, [candidate / "tests/unit/test_a.py"])
    assert {"conftest.py": "theirs"} == content(outside)


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    """What it leads to is neither written nor made."""
    candidate = tree(tmp_path / "candidate", {"test_a.py": "c", "test_b.py": "c"})
    baseline, outside = tree(tmp_path / "baseline", {}), tree(tmp_path / "outside", {"victim": "theirs"})
    for name, victim in (("test_a.py", "victim"), ("test_b.py", "absent")):
        (baseline / name).symlink_to(outside / victim)
    lay_over(candidate, baseline, [candidate / "test_a.py", candidate / "test_b.py"])
    assert {"test_a.py": "c", "test_b.py": "c"} == content(baseline)
    assert {"victim": "theirs"} == content(outside)


def test_a_link_within_the_tree_is_followed(tmp_path: Path) -> None:
    candidate = tree(tmp_path / "candidate", {"tests/test_a.py": "c"})
    baseline = tree(tmp_path / "baseline", {"real/keep": "b"})
    (baseline / "tests").symlink_to("real")
    lay_over(candidate, baseline, [candidate / "tests/test_a.py"])
    assert {"keep": "b", "test_a.py": "c"} == content(baseline / "real")


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    candidate = tree(tmp_path / "candidate", {"tests/test_a.py": "c"})
    baseline = tree(tmp_path / "baseline", {"tests": "a file"})
    with pytest.raises(WorkerError, match=r"the baseline cannot be given tests/test_a.py: .*(exists|Not a directory)"):
        lay_over(candidate, baseline, [candidate / "tests/test_a.py"])


# The candidate's ini file, "" for none, the baseline's files, and what of the baseline's stays.
INI: tuple[tuple[str, dict[str, str], str], ...] = (
    ("pyproject.toml", {"pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src", "a b"]'}, "src 'a b'"),
    ("pyproject.toml", {"pyproject.toml": '[tool.pytest.ini_options]\npythonpath = "src lib"'}, "src lib"),
    ("pyproject.toml", {"pyproject.toml": '[tool.pytest]\npythonpath = ["src"]'}, "src"),
    ("pyproject.toml", {"pyproject.toml": "[project]\nname = 'x'"}, ""),
    ("pyproject.toml", {"pyproject.toml": "is not TOML"}, ""),
    ("pyproject.toml", {"pyproject.toml": "tool = 3"}, ""),
    ("pyproject.toml", {}, ""),
    ("part/setup.cfg", {"part/setup.cfg": "[tool:pytest]\npythonpath = src\n"}, "src"),
    ("setup.cfg", {"setup.cfg": "[pytest]\npythonpath = src\n"}, ""),
    ("tox.ini", {"tox.ini": "[tox]\nx = %(y)s\n[pytest]\npythonpath =\n  src\n  lib\n"}, "src lib"),
    ("pytest.ini", {"pytest.ini": "[pytest]\npythonpath = src\n"}, "src"),
    ("pytest.toml", {"pytest.toml": '[pytest]\npythonpath = ["src"]'}, "src"),
    # The settings were moved to another file since; pytest would find them there.
    ("pyproject.toml", {"setup.cfg": "[tool:pytest]\npythonpath = src\n", "pyproject.toml": "[project]"}, "src"),
    ("pyproject.toml", {"pytest.ini": "", "tox.ini": "[pytest]\npythonpath = src\n"}, ""),
    ("pyproject.toml", {"pytest.toml": "", "tox.ini": "[pytest]\npythonpath = src\n"}, ""),
    ("", {"pytest.ini": "[pytest]\npythonpath = src\naddopts = -v\n"}, "src"),
)


def test_the_ini_file_is_the_candidates_but_for_where_the_code_lies(tmp_path: Path) -> None:
    for number, (name, theirs, kept) in enumerate(INI):
        root = tree(tmp_path / str(number), {})
        candidate, baseline = tree(root / "candidate", {name: "c"} if name else {}), tree(root / "baseline", theirs)
        arguments = candidate_ini(candidate / name if name else None, candidate, baseline)
        path = Path(name or "pytest.ini")  # what it says of `testpaths` and `pythonpath` is relative to its folder
        shown = name if name.startswith("pytest.") else str(path.with_name(f"hwperf-candidate-{path.name}"))
        assert ["-c", str(baseline / shown), "-o", f"pythonpath={kept}"] == arguments
        assert {**theirs, shown: "c" if name else ""} == content(baseline)


def test_the_baseline_keeps_its_own_folders_however_often_it_is_started(tmp_path: Path) -> None:
    """Its ini file is gone after the first time, where the candidate's has the same name."""
    text = "[pytest]\npythonpath = {}\n"
    candidate = tree(tmp_path / "candidate", {"pytest.ini": text.format("src")})
    baseline = tree(tmp_path / "baseline", {"pytest.ini": text.format("lib")})
    given = PytestCommand(
        inherited=(),
        neutral=(),
        of_plugins={},
        root=candidate,
        inipath=candidate / "pytest.ini",
        directory=candidate,
        environment={},
    )
    trees = with_ini(Trees(candidate=candidate, baseline=baseline), given.inipath)
    for _ in range(2):
        arguments = commands(given, trees, [], None)["baseline"].arguments
        assert ["-c", str(baseline / "pytest.ini"), "-o", "pythonpath=lib"] == [*arguments[:4]]
    assert text.format("src") == (baseline / "pytest.ini").read_text()


def test_tests_outside_of_the_tree_are_refused(tmp_path: Path) -> None:
    """By a link too."""
    outside = tree(tmp_path / "outside", {"test_a.py": ""})
    root = tree(tmp_path / "root", {"work.py": ""})
    (root / "tests").symlink_to(outside)
    wanted = "tests to be compared must lie in the tree that is compared"
    with pytest.raises(UsageProblem, match=wanted), both_trees(root, root, [root / "tests/test_a.py"]):
        pass


def test_an_ini_file_outside_of_the_tree_serves_both(tmp_path: Path) -> None:
    ini = tree(tmp_path, {"pytest.ini": "c"}) / "pytest.ini"
    assert ["-c", str(ini)] == candidate_ini(ini, tmp_path / "candidate", tmp_path / "baseline")


@pytest.mark.live
def test_pytest_takes_the_candidates_markers_and_the_baselines_code(tmp_path: Path) -> None:
    name = "pyproject.toml"
    text = '[tool.pytest.ini_options]\naddopts="--strict-markers"\npythonpath=["{}"]\nmarkers=["{}: m"]\n'
    test = "import model, pytest\n@pytest.mark.new\ndef test_a():\n    assert model.side == 'baseline'\n"
    candidate = tree(
        tmp_path / "candidate",
        {name: text.format("lib", "new"), "lib/model.py": "side='candidate'", "tests/test_a.py": test},
    )
    files = {name: text.format("code dir", "old"), "code dir/model.py": "side='baseline'"}
    baseline = tree(tmp_path / "baseline", files)
    lay_over(candidate, baseline, [candidate / "tests/test_a.py"])
    arguments = candidate_ini(candidate / name, candidate, baseline)

    command = [sys.executable, "-m", "pytest", "-p", "no:hwperf", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, f"--rootdir={baseline}", "tests/test_a.py"],
        cwd=baseline, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    candidate = tree(
        tmp_path / "candidate",
        {
            "models/a.onnx": "weights",
            "models/deep/b.onnx": "more",
            "models/pointer.onnx": "fetched",
            "models/known.onnx": "c",
            "models/read.me": "c",
            ".git/c.onnx": "no",
            "env/pyvenv.cfg": "",
            "env/lib/d.onnx": "no",
        },
    )
    return candidate, tree(tmp_path / "baseline", {"models/pointer.onnx": POINTER, "models/known.onnx": "b"})


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("models/*.onnx", ["models/a.onnx", "models/pointer.onnx"]),
        ("**/*.onnx", ["models/a.onnx", "models/deep/b.onnx", "models/pointer.onnx"]),
        ("models", ["models/a.onnx", "models/deep/b.onnx", "models/pointer.onnx", "models/read.me"]),
        ("models/known.onnx", []),
    ],
)
def test_files_that_the_baseline_lacks_are_shared(sides: tuple[Path, Path], glob: str, expected: list[str]) -> None:
    """A pointer of git-LFS is no file; a file that the baseline has is never replaced."""
    candidate, baseline = sides
    shared = share([glob], candidate, baseline)
    assert expected == list(shared)
    assert [hashlib.sha256((candidate / name).read_bytes()).hexdigest() for name in expected] == list(shared.values())
    assert [(candidate / name).read_text() for name in expected] == [(baseline / name).read_text() for name in expected]
    assert (baseline / "models/known.onnx").read_text() == "b"


def test_a_shared_file_is_a_copy(sides: tuple[Path, Path], tmp_path: Path) -> None:
    """A test of the baseline that writes to it changes nothing of the user's, be it a link to a store of models."""
    candidate, baseline = sides
    store = tree(tmp_path / "store", {"big.onnx": "stored"})
    (candidate / "models/linked.onnx").symlink_to(store / "big.onnx")
    assert ["models/linked.onnx"] == list(share(["models/linked.onnx"], candidate, baseline))
    (baseline / "models/linked.onnx").write_text("overwritten")
    assert (store / "big.onnx").read_text() == "stored"


def test_a_glob_that_leads_out_or_matches_nothing_is_refused(sides: tuple[Path, Path]) -> None:
    """The repository's own files and virtual environments are nothing to share."""
    for glob in ("/etc/*", "../baseline/*", "models/../../x", "", "."):
        with pytest.raises(UsageProblem, match=r"is not allowed: give a glob inside .*candidate, relative to it"):
            share([glob], *sides)
    for glob in ("*.pt", "env/lib/*", ".git/*", "nowhere/x"):
        with pytest.raises(UsageProblem, match=r"--hwperf-share=.* matches no file in .*: give a glob relative to it"):
            share([glob], *sides)


def test_a_pointer_on_both_sides_is_refused(sides: tuple[Path, Path]) -> None:
    candidate, baseline = sides
    (candidate / "models/a.onnx").write_text(POINTER)
    with pytest.raises(UsageProblem, match=r"models/a.onnx is only a git-LFS pointer here too: .*`git lfs pull`"):
        share(["models/a.onnx"], candidate, baseline)
