"""Files that both sides use: which of them lead from one side to the other."""

import os
import time
from pathlib import Path

import pytest

from pytest_hwperf.checkout import opened
from pytest_hwperf.checkout.opened import check_shared
from pytest_hwperf.records.errors import UsageProblem

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


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("w", "r", True),
        ("sw", "sw", True),  # made where it is not there yet, and used without being read
        ("r", "r", True),  # made by nobody knows whom
        ("s", "s", True),
        ("n", "s", True),
        ("m", "m", True),  # by native code in a folder that both have made
        ("w", "l", True),
        ("ar", "a", True),
        ("f", "f", True),  # named, and opened by native code
        ("wf", "wf", False),  # named, and opened by Python to write
        ("w", "w", False),  # nobody looks at it
        ("sa", "sa", False),  # a log
        ("w", "m", False),  # of which the other need not know
        ("l", "l", False),
        ("swr", "", False),
    ],
)
def test_what_one_side_makes_and_the_other_may_know_is_shared(
    file: Path, one: str, other: str, *, expected: bool
) -> None:
    assert expected == is_shared(one, other, file)


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
