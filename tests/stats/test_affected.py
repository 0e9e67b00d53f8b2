"""Which tests a change cannot have reached, by what their processes have used."""

from collections.abc import Mapping

from pytest_hwperf.records.evidence import Side
from pytest_hwperf.stats.causes.changed_code import (
    MODULE,
    Changes,
    Split,
    Usage,
    own_change,
    split,
    watch_of,
    why_every_test,
)

ONE, TWO, OTHER = "tests/test_a.py::test_one", "tests/test_a.py::Test::test_two[x]", "tests/test_b.py::test_other"
KEYS: Mapping[Side, tuple[str, ...]] = {"baseline": ("slow:3",), "candidate": ("slow:4",)}
LOADED: Mapping[Side, list[str]] = {"baseline": ["work.py"], "candidate": ["work.py"]}


def used(baseline: Mapping[str, tuple[str, ...]], candidate: Mapping[str, tuple[str, ...]]) -> Split:
    usages: Mapping[Side, Usage] = {"baseline": Usage(used=baseline), "candidate": Usage(used=candidate)}
    return split([ONE, TWO, OTHER], usages, LOADED)


def test_tests_that_use_nothing_are_left() -> None:
    """What either side has used keeps a test in: one may run what the other no longer does."""
    found = used({ONE: ("work.py::slow",)}, {TWO: ("data.csv",)})
    assert {ONE: "baseline: work.py::slow", TWO: "candidate: data.csv"} == found.affected
    assert (OTHER,) == found.left
    assert not found.is_proof


def test_processes_in_which_nothing_was_used_are_a_proof() -> None:
    found = used({ONE: ()}, {})
    assert found.is_proof
    assert found.left == (ONE, TWO, OTHER)


def test_what_a_file_uses_keeps_its_tests_in() -> None:
    """While a file is collected its imports are run, which all of its tests share."""
    kept = {"tests/test_a.py": {ONE, TWO}, "tests/test_a.py::Test": {TWO}, "tests/test_a": set(), "": {ONE, TWO, OTHER}}
    assert kept == {context: {*used({context: ("work.py::<module>",)}, {}).affected} for context in kept}


def test_a_side_of_which_nothing_is_known_keeps_every_test_in() -> None:
    assert not split([ONE], {"candidate": Usage()}, LOADED).left


def test_code_that_one_side_alone_has_loaded_keeps_every_test_in() -> None:
    """Where sides import otherwise, they do not do the same."""
    usages: Mapping[Side, Usage] = {"baseline": Usage(), "candidate": Usage()}
    found = split([ONE], usages, {"baseline": ["a.py"], "candidate": ["a.py", "b.py", "c.py"]})
    assert {ONE: "b.py and 1 more is loaded on one side only"} == found.affected
    assert not found.is_proof


def test_what_cannot_be_attributed_reaches_every_test() -> None:
    table: list[tuple[Changes, str]] = [
        (Changes(changed={"work.py": KEYS}, other=frozenset({"data.csv", "README.md"})), ""),
        (Changes(changed={}, only={"new.py": "candidate"}), ""),
        (Changes(changed={}, only={"tests/conftest.py": "candidate"}, laid_over=frozenset({"tests/conftest.py"})), ""),
        (Changes(changed={}, other=frozenset({"sub/pyproject.toml"})), "sub/pyproject.toml has changed"),
        (Changes(changed={}, other=frozenset({"uv.lock", "requirements-dev.txt"})), "requirements-dev.txt and 1 more"),
        *(
            (Changes(changed={}, other=frozenset({name})), f"{name} has changed")
            for name in (
                *(
                    "requirements/ci/dev.txt",
                    "dev-requirements.txt",
                    "Requirements.in",
                    "pylock.toml",
                    "pylock.gpu.toml",
                ),
                *("conda-lock.yml", "uv.lock", "a/b.pth", "constraints.txt"),
            )
        ),
        (
            Changes(
                changed={"requirements.py": KEYS},
                other=frozenset({"pad-lock.svg", "my_requirements.png"}),
            ),
            "",
        ),  # code is followed
        (Changes(changed={"setup.py": KEYS}), "setup.py has changed, which says how every test is run"),
        (Changes(changed={}, only={"model.bin": "baseline"}), "model.bin is there on one side only"),
    ]
    for changes, why in table:
        found = why_every_test(changes)
        assert bool(found) == bool(why)
        assert found.startswith(why)


def test_changed_tests_and_what_their_folders_give_them_keep_them_in() -> None:
    """These files are run on both sides as they are now, so that the processes themselves show no change of them."""
    table = [
        ("tests/test_a.py", "", "tests/test_a.py"),
        ("tests/conftest.py", "", "tests/conftest.py"),
        ("conftest.py", "", "conftest.py"),
        ("tests/deep/conftest.py", "", ""),
        ("tests/test_b.py", "", ""),
        ("tests/test_a.py", "sub", ""),
        ("sub/tests/test_a.py", "sub", "sub/tests/test_a.py"),
        ("sub/tests/__init__.py", "sub", "sub/tests/__init__.py"),
    ]
    for file, root, why in table:
        changes = Changes(changed={file: KEYS}, laid_over=frozenset({file}))
        assert why == own_change(ONE, changes, root, {"tests/test_a.py", "tests/test_b.py", "sub/tests/test_a.py"})


def test_each_side_watches_its_own_version() -> None:
    """Lines differ between sides; of what one side has alone the other can only look for the module."""
    changes = Changes(
        changed={"pkg/work.py": KEYS, "tests/test_a.py": KEYS},
        other=frozenset({"data.csv"}),
        only={"pkg/new/__init__.py": "candidate", "pkg/old.py": "baseline", "tests/test_new.py": "candidate"},
        laid_over=frozenset({"tests/test_a.py", "tests/test_new.py"}),
        folders=frozenset({"pkg/new", "pkg/new.data"}),
    )
    watches = {side: watch_of(side, "/root", changes) for side in KEYS}
    laid = {"tests/test_a.py": (MODULE,), "tests/test_new.py": (MODULE,)}
    assert {"pkg/work.py": ("slow:3",), "pkg/old.py": (MODULE,), **laid} == watches["baseline"].code
    assert {"pkg/work.py": ("slow:4",), "pkg/new/__init__.py": (MODULE,), **laid} == watches["candidate"].code
    for watch in watches.values():
        assert ("data.csv",) == watch.files
        assert ("new", "old") == watch.modules
        assert (".", "pkg", "pkg/new") == watch.listed
    assert ("__init__",) == watch_of("baseline", "/", Changes(changed={}, only={"__init__.py": "candidate"})).modules
