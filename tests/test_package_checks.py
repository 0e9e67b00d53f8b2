"""What tox asks of sdist and wheel: files that do not belong there, and those that are missing, are named."""

import package_checks

WHEEL = ["pytest_hwperf/__init__.py", "pytest_hwperf-0.1.0.dist-info/METADATA"]
SDIST = ["p-0.1.0/LICENSE", "p-0.1.0/docs/index.md"]


def test_a_wheel_holds_the_package_alone() -> None:
    assert [] == [*package_checks.foreign(WHEEL)]
    for stray in ("tests/test_a.py", "benchmarks/a.py", "pytest_hwperf-0.1.0.data/scripts/a", "LICENSE"):
        assert [f"the wheel holds {stray}: only pytest_hwperf/ belongs there"] == [
            *package_checks.foreign([*WHEEL, stray])
        ]


def test_an_sdist_holds_the_files_and_folders_that_it_includes() -> None:
    assert [] == [*package_checks.lacking(SDIST, ["LICENSE", "docs"])]
    lacking = package_checks.lacking([*SDIST, "p-0.1.0/docs.md"], ["LICENSE", "doc", "tests"])
    assert [f"the sdist lacks {one}, which pyproject.toml includes" for one in ("doc", "tests")] == [*lacking]
