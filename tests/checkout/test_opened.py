"""Files that lead from one side to the other, and files that only one side reads."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from pytest_hwperf.checkout.isolation import check_told
from pytest_hwperf.checkout.opened import check_opened
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.errors import UsageProblem, WorkerError


def put(root: Path, *names: str) -> list[str]:
    """Write empty files; return their paths."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return [str(root / name) for name in names]


def check(
    tmp_path: Path, candidate: Sequence[str] = (), baseline: Sequence[str] = (), written: Sequence[str] = ()
) -> list[str]:
    """Let both sides have read these files, and written the last."""
    here, there = (Opened(read=tuple(read), written=tuple(written)) for read in (candidate, baseline))
    return check_opened(both(tmp_path), {"candidate": here, "baseline": there})


def both(tmp_path: Path) -> Trees:
    return Trees(candidate=tmp_path / "here", baseline=tmp_path / "there", since=0)


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of both sides lies in the candidate's tree."""
    monkeypatch.setattr("pytest_hwperf.checkout.trees.PREFIXES", (str(tmp_path / "here/.venv"),))


def test_each_its_own_files_are_nothing_to_say(tmp_path: Path) -> None:
    assert [] == check(tmp_path, put(tmp_path / "here", "model.txt"), put(tmp_path / "there", "model.txt"))
    assert [] == check_opened(both(tmp_path), {})


def test_data_of_the_candidates_that_the_baseline_has_read_is_named(tmp_path: Path) -> None:
    model = put(tmp_path / "here", "model.txt")
    (said,) = check(tmp_path, model, model + put(tmp_path / "there", "model.txt"))
    assert said.startswith(f"both sides have read {model[0]} of the present tree, so that a change of it is not seen")


def test_data_of_the_candidates_that_differs_from_the_baselines_own_is_refused(tmp_path: Path) -> None:
    model = put(tmp_path / "here", "model.txt")
    put(tmp_path / "there", "model.txt")
    Path(*model).write_text("slow", encoding="ascii")
    with pytest.raises(UsageProblem, match=r"not comparable: the baseline has read .*/here/model.txt of the present"):
        check(tmp_path, model, model)


@pytest.mark.parametrize("name", ["helper.py", "libfast.so"])
def test_code_of_the_candidates_that_the_baseline_has_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkerError, match=f"the baseline has read .*/here/{name} of the present tree"):
        check(tmp_path, [], put(tmp_path / "here", name))


def test_what_tools_read_there_is_none_of_the_code(tmp_path: Path) -> None:
    """Names of installed packages, environments, what git keeps."""
    names = (
        ".venv/model.txt",
        "src/pkg.egg-info/PKG-INFO",
        ".git/HEAD",
        "lib/site-packages/a.txt",
        "__pycache__/a.nbi",
    )
    assert [] == check(tmp_path, [], put(tmp_path / "here", *names))


def test_data_that_one_side_alone_has_read_is_named(tmp_path: Path) -> None:
    """The baseline lacks what git ignores; code with a fallback for it would hide that."""
    absent, other = put(tmp_path / "here", "big.bin", "other.txt")
    put(tmp_path / "there", "other.txt")
    gone = put(tmp_path / "there", "gone.txt", "hwperf-candidate-pyproject.toml")

    lacking = "read by the present code only, and not there in the baseline: big.bin"
    assert [
        "read by the baseline only, and not there in the present tree: gone.txt",
        f"{lacking}; if git does not keep it, give it with --hwperf-share=big.bin",
        "read by the candidate only: other.txt",
    ] == check(tmp_path, [absent, other], gone)


def test_a_file_that_both_ask_about_and_one_side_has_is_named(tmp_path: Path) -> None:
    """A deleted switch: the sides take different ways. One that a side makes itself is no difference."""
    here, there = tmp_path / "here", tmp_path / "there"
    uses = {"candidate": {f"{here}/fast": "n", f"{here}/old": "s"}, "baseline": {f"{there}/fast": "s"}}
    uses["baseline"] |= {f"{there}/old": "nw", f"{there}/.git/x": "s"}
    opened = {side: Opened(uses=used) for side, used in uses.items()}

    (said,) = check_opened(both(tmp_path), opened)  # type: ignore[arg-type] # sides
    assert "both sides ask whether it exists, and only the baseline has it: fast" == said


def test_what_a_side_has_made_itself_is_no_difference(tmp_path: Path) -> None:
    made = put(tmp_path / "here", "cache.bin")
    assert [] == check(tmp_path, made, [], made)


@pytest.mark.parametrize(
    ("told", "is_refused"),
    [
        ("{here}", True),
        ("{here}/run.py", True),
        ("cd {here} && make", True),
        ("import sys; sys.path.insert(0, '{here}/src')", True),
        ("{link}/src", True),
        ("{there}/run.py", False),
        ("{here}2/run.py", False),
        ("{here}/.venv/bin/python", False),
        ("/usr/bin/git", False),
    ],
)
def test_a_program_of_the_baseline_that_is_told_a_path_of_the_candidates_tree_is_refused(
    tmp_path: Path, told: str, *, is_refused: bool
) -> None:
    places = {name: tmp_path / name for name in ("here", "link")} | {"there": tmp_path / "here/temporary/there"}
    put(places["here"], "src/run.py", ".venv/bin/python")
    put(places["there"], "run.py")
    places["link"].symlink_to(places["here"])
    trees = Trees(candidate=places["here"], baseline=places["there"])
    opened = {"baseline": Opened(told={"python run.py": ("/", told.format(**places))})}

    with pytest.raises(UsageProblem, match=r"starts `python run.py` in your tree") if is_refused else nullcontext():
        check_told(trees, opened, [])  # type: ignore[arg-type] # of one side
