"""What the files of a project say of its package, for each builder: what is unlike, and what does not count."""

from pathlib import Path

import pytest

from pytest_hwperf.checkout.described import described
from pytest_hwperf.host.asked_metadata import GROUP, NEEDS, VERSION, WHOLE

ENGINES = f"{GROUP}app.engines"
PROJECT = "[project]\nname = 'pkg'\n"
SETUP = "from setuptools import setup\nsetup(name='pkg', {})\n"
GIVEN = "[project.entry-points.'app.engines']\nmain = 'pkg:{}'\n"


def unlike(tmp_path: Path, file: str, then: str, now: str, asked: str) -> list[str]:
    sides = []
    for name, text in (("then", then), ("now", now)):
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sides.append(described(tmp_path / name))
    return [*sides[1].unlike(sides[0], asked)]


@pytest.mark.parametrize(
    ("file", "then", "now", "asked"),
    [
        ("pyproject.toml", PROJECT + "version = '1'\n", PROJECT + "version = '2'\n", VERSION),
        ("pyproject.toml", "[tool.poetry]\nversion = '1'\n", "[tool.poetry]\nversion = '2'\n", VERSION),
        ("setup.cfg", "[metadata]\nversion = 1\n", "[metadata]\nversion = 2\n", VERSION),
        ("setup.py", SETUP.format("version='1'"), SETUP.format("version='2'"), VERSION),
        ("pkg/__init__.py", "__version__ = '1'\n", "__version__ = '2'\n", VERSION),
        ("src/pkg/_version.py", "version: str = '1'\n", "version: str = '2'\n", VERSION),
        ("VERSION", "1\n", "2\n", VERSION),
        ("pyproject.toml", PROJECT + "dependencies = ['a']\n", PROJECT + "dependencies = ['b']\n", NEEDS),
        ("setup.cfg", "[options]\ninstall_requires = a\n", "[options]\ninstall_requires = b\n", NEEDS),
        ("setup.py", SETUP.format("install_requires=['a']"), SETUP.format("install_requires=['b']"), NEEDS),
        ("setup.py", "a = ['a']\n" + SETUP.format("install_requires=a"), SETUP.format("install_requires=a"), NEEDS),
        ("pyproject.toml", GIVEN.format("slow"), GIVEN.format("fast"), ENGINES),
        (
            "pyproject.toml",
            "[tool.poetry.plugins.'app.engines']\nmain = 'pkg:a'\n",
            "[tool.poetry.plugins.'app.engines']\nmain = 'pkg:b'\n",
            ENGINES,
        ),
        (
            "setup.cfg",
            "[options.entry_points]\napp.engines =\n  main = pkg:a\n",
            "[options.entry_points]\napp.engines =\n  main = pkg:b\n",
            ENGINES,
        ),
        (
            "setup.py",
            SETUP.format("entry_points={'app.engines': ['main = pkg:a']}"),
            SETUP.format("entry_points={'app.engines': ['main = pkg:b']}"),
            ENGINES,
        ),
        (
            "setup.py",
            SETUP.format("entry_points='[app.engines]\\nmain = pkg:a\\n'"),
            SETUP.format("entry_points='[app.engines]\\nmain = pkg:b\\n'"),
            ENGINES,
        ),
        (
            "pyproject.toml",
            PROJECT + "[project.scripts]\nrun = 'pkg:a'\n",
            PROJECT + "[project.scripts]\nrun = 'pkg:b'\n",
            f"{GROUP}console_scripts",
        ),
        ("pyproject.toml", PROJECT + "keywords = ['a']\n", PROJECT + "keywords = ['b']\n", WHOLE),
    ],
)
def test_what_a_package_says_differs_where_its_files_do(
    tmp_path: Path, file: str, then: str, now: str, asked: str
) -> None:
    assert [asked] == unlike(tmp_path, file, then, now, asked)
    assert [] == unlike(tmp_path / "again", file, now, now, asked)


@pytest.mark.parametrize(
    ("file", "then", "now"),
    [
        (
            "pyproject.toml",
            PROJECT,
            PROJECT + "[tool.ruff]\nline-length = 100\n[tool.pytest.ini_options]\nxfail_strict = 1",
        ),
        ("pyproject.toml", PROJECT, PROJECT + "description = 'more'\n"),
        ("setup.py", SETUP.format("version='1'"), "# a comment\n" + SETUP.format("version = '1'")),
        ("setup.cfg", "[metadata]\nname = pkg\n", "[metadata]\nname = pkg\n[flake8]\nmax-line-length = 100\n"),
        ("pkg/__init__.py", "x = 1\n", "x = 2\n"),
        ("setup.cfg", "no section\n", "no section either\n"),
        ("setup.py", "(\n", ")\n"),
    ],
)
def test_settings_of_tools_comments_and_code_say_nothing_of_a_package(
    tmp_path: Path, file: str, then: str, now: str
) -> None:
    every = (VERSION, NEEDS, WHOLE, GROUP, ENGINES)
    assert [] == [
        one for number, asked in enumerate(every) for one in unlike(tmp_path / str(number), file, then, now, asked)
    ]


def test_all_entry_points_are_those_of_every_group_and_one_group_is_no_other(tmp_path: Path) -> None:
    then, now = GIVEN.format("slow"), GIVEN.format("fast")
    assert [ENGINES] == unlike(tmp_path / "all", "pyproject.toml", then, now, GROUP)
    assert [] == unlike(tmp_path / "other", "pyproject.toml", then, now, f"{GROUP}other")


def test_a_version_that_no_file_of_both_trees_holds_may_come_from_git(tmp_path: Path) -> None:
    for name in ("then", "now"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text("[tool.setuptools_scm]\n" + PROJECT + "dynamic = ['version']\n")
    (tmp_path / "now" / "_version.py").write_text("version = '1.dev2'\n", encoding="utf-8")
    sides = [described(tmp_path / name) for name in ("then", "now")]
    assert not sides[1].knows_version_of(sides[0])
    assert [] == [*sides[1].unlike(sides[0], VERSION)]
