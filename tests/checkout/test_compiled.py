"""Compiled modules that one side alone has loaded, where each has an environment of its own."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from pytest_hwperf.checkout.isolation import check_compiled
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.records.errors import UsageProblem

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
