"""Files that one side lacks since git ignores them, and compiled modules that one side alone has loaded."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.checkout import trees as trees_module
from pytest_hwperf.checkout.ignored import check_ignored
from pytest_hwperf.checkout.isolation import check_compiled, same_code
from pytest_hwperf.checkout.sharing import missing_files
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Side

COMPILED = f"pkg/fast{EXTENSION_SUFFIXES[0]}"
ONNX = (
    "NoSuchFile: [ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from {file} failed:Load model {file} failed. "
    "File doesn't exist"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that ignores what is generated, and a baseline beside it that has nothing."""
    monkeypatch.setattr(trees_module, "PREFIXES", (str(tmp_path / "project/.venv"),))
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init")
    commit(folder, __gitignore="*_generated.py\n*.so\n.venv\n__pycache__\n")
    (tmp_path / "baseline").mkdir()
    return folder


def put(folder: Path, *files: str) -> None:
    """Write empty files."""
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True, parents=True)
        (folder / file).write_bytes(b"")


def check(project: Path, *files: str, side: Side = "candidate") -> None:
    """Let a side have loaded these of its files."""
    baseline = project.parent / "baseline"
    root = baseline if side == "baseline" else project
    put(root, *files)
    check_ignored(Trees(candidate=project, baseline=baseline), {side: [str(root / file) for file in files]})


def test_an_ignored_module_is_refused_with_the_option_that_shares_it(project: Path) -> None:
    with pytest.raises(UsageProblem, match="loaded by the tests and ignored by git") as caught:
        check(project, "pkg/a_generated.py", "b b_generated.py")
    assert "--hwperf-share='b b_generated.py'" in str(caught.value)
    assert "--hwperf-share=pkg/a_generated.py" in str(caught.value)


def test_code_compiled_in_place_is_refused_with_the_interpreter_to_give(project: Path) -> None:
    compiled = [f"pkg/fast{number}{EXTENSION_SUFFIXES[0]}" for number in range(5)]
    with pytest.raises(UsageProblem, match=r"fast2.* and 2 more: compiled in place, .*--hwperf-base-python=PATH"):
        check(project, "pkg/plain_generated.py", *compiled)


def test_compiled_code_that_git_neither_ignores_nor_has_is_refused_too(project: Path) -> None:
    """In a repository that keeps it, the baseline has another file, or none."""
    commit(project, __gitignore="")
    with pytest.raises(UsageProblem, match=r"fast.*: compiled in place"):
        check(project, COMPILED)
    commit(project)
    check(project, COMPILED)


def test_code_compiled_in_the_baseline_only_is_refused_with_how_to_build_it(project: Path) -> None:
    """A folder without git, in which somebody has built."""
    with pytest.raises(UsageProblem, match=r"fast.*: compiled in the baseline only, .*build it here .*`pip install -e"):
        check(project, COMPILED, side="baseline")


def test_without_git_the_source_on_the_other_side_tells_what_was_compiled(project: Path) -> None:
    (project / ".git").rename(project.parent / "away")
    sides: tuple[Side, ...] = ("candidate", "baseline")
    for side in sides:
        check(project, "a_generated.py", side=side)
        compiled = COMPILED.replace("fast", side)
        check(project, compiled, side=side)  # nothing of it there: it may be new, or no longer needed
        put(project if side == "baseline" else project.parent / "baseline", f"pkg/{side}.py")
        with pytest.raises(UsageProblem, match=rf"{side}.*: compiled in "):
            check(project, compiled, side=side)


def test_a_module_that_only_the_baseline_has_generated_is_refused(project: Path) -> None:
    with pytest.raises(UsageProblem, match=r"a_generated.py: loaded by the tests of the baseline .*generate it here"):
        check(project, "a_generated.py", side="baseline")


def test_what_both_have_or_git_does_not_ignore_is_no_trouble(project: Path) -> None:
    """A new module, one that was shared, one of an environment inside the tree, one that a process made for itself."""
    put(project.parent / "baseline", "shared_generated.py")
    environment = (".venv/lib/x_generated.py", "lib/site-packages/y_generated.py", f"__pycache__/{Path(COMPILED).name}")
    check(project, "new.py", "shared_generated.py", *environment)
    check(project, "old.py", side="baseline")


def test_what_is_part_of_a_revision_is_not_ignored_whatever_the_rules_say(project: Path) -> None:
    """A file that was added by force, and one that was deleted and is generated and ignored since."""
    baseline = project.parent / "baseline"
    git(baseline, "init")
    for root, side, name in ((project, "candidate", "a_generated.py"), (baseline, "baseline", "b_generated.py")):
        put(root, name)
        git(root, "add", "--force", name)
        check(project, name, side=side)  # type: ignore[arg-type] # a side


def test_data_that_the_baseline_lacks_is_found_in_what_it_says(project: Path) -> None:
    """Wherever it was opened: libraries say the path in their own words."""
    baseline = project.parent / "baseline"
    put(project, "models/a b.onnx", "models/c.onnx", "tests/rows.csv", "both.csv", "new.py", "weights", "model/c")
    put(project.parent, "secret.txt")
    put(baseline, "both.csv")
    both = Trees(candidate=project, baseline=baseline)
    said: tuple[tuple[str, list[str]], ...] = (
        ("FileNotFoundError: [Errno 2] No such file or directory: 'models/a b.onnx'", ["models/a b.onnx"]),
        ("NoSuchFile: : 3 : NO_SUCHFILE : Load model from models/c.onnx failed:Load", ["models/c.onnx"]),
        (ONNX.format(file="weights"), ["weights"]),
        (ONNX.format(file="model/c"), ["model/c"]),
        ("NoSuchFile: the model weights", ["weights"]),
        ("No such file or directory: the folder model", []),
        (f"no such file: '{baseline}/models/c.onnx', 'models/c.onnx'", ["models/c.onnx"]),
        ("FileNotFoundError: 'rows.csv'", ["tests/rows.csv"]),
        ("NotADirectoryError: 'models'", ["models"]),
        ("TypeError: models() got an unexpected keyword argument 'tests'", []),
        ("AssertionError: this isn't " + "x" * 5000 + " what it doesn't say, 'models/c.onnx'", ["models/c.onnx"]),
        (f"FileNotFoundError: '{baseline}/tests/../models/c.onnx'", ["models/c.onnx"]),
        (f"FileNotFoundError: '{baseline}/../secret.txt'", []),
        ("FileNotFoundError: '../secret.txt', '/etc/hostname', 'both.csv', 'neither.csv', 'new.py'", []),
    )
    assert list(said) == [(text, missing_files(text, both, [project, project / "tests"])) for text, _ in said]


def test_compiled_code_that_is_shared_is_the_same_on_both_sides(tmp_path: Path) -> None:
    both = Trees(candidate=tmp_path / "project", baseline=tmp_path, shared={COMPILED: "0", "a.py": "0"})
    (said,) = same_code(both, {"baseline": [str(tmp_path / COMPILED), str(tmp_path / "a.py")]})
    assert said.endswith(f"same compiled code of it: {COMPILED}")
    assert [] == [*same_code(both, {"baseline": [str(tmp_path / "a.py")]}), *same_code(both, {})]


FAST = f"_fast{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    """Both trees have the source of one compiled module, in different layouts."""
    found = Trees(candidate=tmp_path / "candidate", baseline=tmp_path / "baseline")
    for folder in (found.candidate / "src/pkg", found.baseline / "pkg"):
        folder.mkdir(parents=True)
        (folder / "_fast.c").touch()
    return found


def site(tmp_path: Path) -> Path:
    return tmp_path / "env" / "lib" / "python3" / "site-packages"


def test_code_compiled_in_place_with_a_pure_fallback_in_the_other_environment(trees: Trees, tmp_path: Path) -> None:
    """However slow the change made the compiled code, it is faster than Python."""
    loaded = [str(trees.candidate / "src/pkg" / FAST), str(trees.candidate / "src/pkg/__init__.py")]
    with pytest.raises(UsageProblem, match=r"loaded by the candidate only.*build it in the environment of"):
        check_compiled(trees, {"candidate": loaded, "baseline": [str(site(tmp_path) / "pkg/__init__.py")]})


def test_code_compiled_in_the_environment_of_the_baseline_only(trees: Trees, tmp_path: Path) -> None:
    loaded = [str(site(tmp_path) / "pkg" / FAST), str(site(tmp_path) / "numpy" / FAST)]
    with pytest.raises(UsageProblem, match=rf"pkg/{FAST}: .*loaded by the baseline only.*build it in the present tree"):
        check_compiled(trees, {"candidate": [], "baseline": loaded})


def test_what_both_have_loaded_is_right(trees: Trees, tmp_path: Path) -> None:
    here, there = str(trees.candidate / "src/pkg" / FAST), str(site(tmp_path) / "pkg" / FAST)
    check_compiled(trees, {"candidate": [here], "baseline": [there]})
    check_compiled(trees, {"candidate": [here]})  # the other side was lost


def test_a_module_that_is_new_is_the_change_itself(trees: Trees) -> None:
    (trees.baseline / "pkg/_fast.c").unlink()
    (trees.baseline / "pkg/_fast.pyi").touch()
    check_compiled(trees, {"candidate": [str(trees.candidate / "src/pkg" / FAST)], "baseline": []})
    check_compiled(trees, {"candidate": ["/elsewhere/_fast.so"], "baseline": []})
