"""Compiled modules that one side alone has loaded, where each has an environment of its own."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from pytest_hwperf.checkout.ignored import check_compiled
from pytest_hwperf.records.errors import UsageProblem

FAST = f"_fast{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Both trees have the source of one compiled module, in different layouts."""
    trees = (tmp_path / "candidate", tmp_path / "baseline")
    for root, folder in zip(trees, ("src/pkg", "pkg"), strict=True):
        (root / folder).mkdir(parents=True)
        (root / folder / "_fast.c").touch()
    return trees


def site(tmp_path: Path) -> Path:
    return tmp_path / "env" / "lib" / "python3" / "site-packages"


def test_code_compiled_in_place_with_a_pure_fallback_in_the_other_environment(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    """However slow the change made the compiled code, it is faster than Python."""
    loaded = [str(roots[0] / "src/pkg" / FAST), str(roots[0] / "src/pkg/__init__.py")]

    with pytest.raises(UsageProblem, match=r"loaded by the candidate only.*build it in the environment of"):
        check_compiled({"candidate": loaded, "baseline": [str(site(tmp_path) / "pkg/__init__.py")]}, *roots, [])


def test_code_compiled_in_the_environment_of_the_baseline_only(roots: tuple[Path, Path], tmp_path: Path) -> None:
    loaded = [str(site(tmp_path) / "pkg" / FAST), str(site(tmp_path) / "numpy" / FAST)]

    with pytest.raises(UsageProblem, match=rf"pkg/{FAST}: .*loaded by the baseline only.*build it in the present tree"):
        check_compiled({"candidate": [], "baseline": loaded}, *roots, [])


def test_what_both_have_loaded_is_right(roots: tuple[Path, Path], tmp_path: Path) -> None:
    here, there = str(roots[0] / "src/pkg" / FAST), str(site(tmp_path) / "pkg" / FAST)

    check_compiled({"candidate": [here], "baseline": [there]}, *roots, [])
    check_compiled({"candidate": [here]}, *roots, [])  # the other side was lost


def test_a_module_that_is_new_is_the_change_itself(roots: tuple[Path, Path]) -> None:
    (roots[1] / "pkg/_fast.c").unlink()
    (roots[1] / "pkg/_fast.pyi").touch()

    check_compiled({"candidate": [str(roots[0] / "src/pkg" / FAST)], "baseline": []}, *roots, [])
    check_compiled({"candidate": ["/elsewhere/_fast.so"], "baseline": []}, *roots, [])
