"""Files that lead from one side to the other, and files that only one side reads."""

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from pytest_hwperf.checkout import opened
from pytest_hwperf.checkout.isolation import check_told
from pytest_hwperf.checkout.opened import check_opened, check_shared
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.workdirs import PREFIX, private_folder
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


def test_code_of_the_candidates_that_the_baseline_has_read_is_refused(tmp_path: Path) -> None:
    for name in ("helper.py", "libfast.so"):
        with pytest.raises(WorkerError, match=f"the baseline has read .*/here/{name} of the present tree"):
            check(tmp_path, [], put(tmp_path / "here", name))


def test_a_new_file_that_packages_keep_for_themselves_is_named(tmp_path: Path) -> None:
    """Where both sides have read the same; what is in a folder of this plugin, or byte code, comes and goes."""
    names = ["cache.json", "lib/__pycache__/m.nbi", "of one side"]
    own = f"{private_folder()}/{PREFIX}1/model.onnx"
    here, there = Opened(kept=(*names, own)), Opened(kept=(*names[:2], own))
    (said,) = check_opened(both(tmp_path), {"candidate": here, "baseline": there})
    assert said.startswith("both sides have read cache.json, which was made or changed since this session began")


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


def test_a_program_of_the_baseline_that_is_told_a_path_of_the_candidates_tree_is_refused(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("here", "link")} | {"there": tmp_path / "here/temporary/there"}
    put(places["here"], "src/run.py", ".venv/bin/python")
    put(places["there"], "run.py")
    places["link"].symlink_to(places["here"])
    trees = Trees(candidate=places["here"], baseline=places["there"])
    for told, is_refused in {
        "{here}": True,
        "{here}/run.py": True,
        "cd {here} && make": True,
        "import sys; sys.path.insert(0, '{here}/src')": True,
        "{link}/src": True,
        "{there}/run.py": False,
        "{here}2/run.py": False,
        "{here}/.venv/bin/python": False,
        "/usr/bin/git": False,
    }.items():
        opened = {"baseline": Opened(told={"python run.py": ("/", told.format(**places))})}
        with pytest.raises(UsageProblem, match=r"starts `python run.py` in your tree") if is_refused else nullcontext():
            check_told(trees, opened, [])  # type: ignore[arg-type] # of one side


NEVER = 1e12  # an instant after which nothing was made
ALWAYS = 0.0


def is_shared(one: str, other: str, file: Path, since: float = ALWAYS) -> bool:
    """Whether it is refused that both sides have used a file so."""
    try:
        check_shared({"baseline": {str(file): one}, "candidate": {str(file): other}}, since)
    except UsageProblem:
        return True
    return False


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_text("1")
    return path


# How both sides have used a file.
SHARED = [
    ("w", "r"),
    ("sw", "sw"),  # made where it is not there yet, and used without being read
    ("r", "r"),  # made by nobody knows whom
    ("s", "s"),
    ("n", "s"),
    ("m", "m"),  # by native code in a folder that both have made
    ("w", "l"),
    ("ar", "a"),
    ("f", "f"),  # named, and opened by native code
]
APART = [
    ("wf", "wf"),  # named, and opened by Python to write
    ("w", "w"),  # nobody looks at it
    ("sa", "sa"),  # a log
    ("w", "m"),  # of which the other need not know
    ("l", "l"),
    ("swr", ""),
]


def test_what_one_side_makes_and_the_other_may_know_is_shared(file: Path) -> None:
    assert SHARED == [(one, other) for one, other in SHARED + APART if is_shared(one, other, file)]


def test_what_is_older_is_not_shared_unless_it_is_put_there_by_name(file: Path) -> None:
    assert [False, True] == [is_shared(uses, "r", file, NEVER) for uses in ("rw", "p")]


def test_what_has_gone_is_shared_if_it_was_there(tmp_path: Path) -> None:
    assert [True, True, False] == [is_shared(uses, "n", tmp_path / "gone") for uses in ("w", "s", "n")]


@pytest.mark.parametrize(
    ("filled", "one", "other", "expected"),
    [
        ("", {"folder": "nm"}, {"folder": "s"}, False),  # `if not exists: makedirs` by both
        ("", {"folder": "n"}, {"folder": "s"}, True),  # made by nobody knows whom
        ("native", {"folder": "nm"}, {"folder": "s"}, True),
        ("python", {"folder": "nm", "folder/python": "w"}, {"folder": "s"}, True),
        ("python", {"folder": "nm", "folder/python": "w"}, {"folder": "s", "folder/own": "w"}, False),
    ],
)
def test_a_folder_that_one_side_makes_and_the_other_asks_about_is_shared_with_what_is_in_it(
    tmp_path: Path, filled: str, one: dict[str, str], other: dict[str, str], *, expected: bool
) -> None:
    (tmp_path / "folder").mkdir()
    if filled:
        (tmp_path / "folder" / filled).write_text("1")
    uses = [{str(tmp_path / name): letters for name, letters in side.items()} for side in (one, other)]
    refused = []
    for baseline, candidate in (uses, uses[::-1]):
        try:
            check_shared({"baseline": baseline, "candidate": candidate}, ALWAYS)
        except UsageProblem:
            refused.append(True)
    assert [True] * 2 * expected == refused


def test_a_pipe_that_was_not_there_before_is_shared(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert [True, False] == [is_shared(uses, "s", tmp_path / "pipe") for uses in ("n", "s")]


def test_a_file_is_found_by_all_its_names(file: Path, tmp_path: Path) -> None:
    """A link, a folder that was listed or made, a folder that was moved there."""
    (tmp_path / "link").symlink_to(file)
    folder, link = str(tmp_path), str(tmp_path / "link")
    for baseline, candidate in (({link: "r"}, {str(file): "w"}), ({folder: "l"}, {str(file): "w"})):
        with pytest.raises(UsageProblem, match="not comparable"):
            check_shared({"baseline": baseline, "candidate": candidate}, ALWAYS)
    with pytest.raises(UsageProblem, match="not comparable"):
        check_shared({"baseline": {str(file): "r"}, "candidate": {folder: "p"}}, NEVER)


def test_a_lock_an_environment_and_byte_code_are_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be read in an empty file, but it may say that something is done."""
    monkeypatch.setattr(opened, "PREFIXES", (str(tmp_path),))
    names = ("model.lock", "lib/table", "__pycache__/table.nbi", "done", "block")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1" if "table" in name else "")
    assert [False, False, False, True, True] == [is_shared("sw", "sr", tmp_path / one) for one in names]
    assert not is_shared("w", "r", tmp_path / "done")


def test_the_time_of_a_change_cannot_be_set_back(file: Path) -> None:
    since = time.time() - 60
    os.utime(file, (1, 1))
    assert is_shared("w", "r", file, since)
