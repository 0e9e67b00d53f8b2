"""Does each side of a gate run its own code? The candidate is three times slower in each build: failed, or refused.

    python -m benchmarks own_code --only flag variable

What is installed lies in an environment of its own, and reads what the tree has done before its import. A build that
passes has measured the same code twice, unless it says what it could not tell.
"""

import argparse
import os
import re
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import tables
from benchmarks.projects import commit, write

FAST, SLOW = "5000", "15000"
_LIMIT_S = 150.0
_LOOP = """
def work():
    total = 0
    for number in range(ROUNDS):
        total += number
    return total
"""
# What is installed keeps its rounds in a closure, so that no value of a module tells them.
_ENGINE = """
def made(rounds):
    def run():
        total = 0
        for number in range(rounds):
            total += number
        return total
    return run
"""
_CONF = "class Settings:\n    rounds = 5000\n"
_BY_CONF = {"conf.py": _CONF, "engine.py": f"import conf\n{_ENGINE}\nrun = made(conf.Settings.rounds)\n"}
_USES_ENGINE = "from engine import run as work\n"
_TEST = "from code_of_tree import work\n\ndef test_it():\n    work()\n"
_PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "tree"
version = "{rounds}.0"
[project.entry-points."rounds"]
r{rounds} = "code_of_tree:work"
[tool.setuptools]
py-modules = ["code_of_tree"]
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A repository in which `{rounds}` differs between the sides, and what a gate may say of it."""

    tree: Mapping[str, str]
    installed: Mapping[str, str] = field(default_factory=dict)
    right: Sequence[str] = ("1 regressed",)  # of which one has to be in the output
    environment: Mapping[str, str] = field(default_factory=dict)
    is_installed: bool = False  # whether pip installs the tree in editable mode, in each state


CASES: Mapping[str, Case] = {
    "flag of an installed package": Case(
        tree={"code_of_tree.py": f"import conf\nconf.Settings.rounds = {{rounds}}\n{_USES_ENGINE}"}, installed=_BY_CONF
    ),
    "flag set by a plugin of conftest.py": Case(
        tree={
            "conftest.py": "pytest_plugins = ['chosen']\n",
            "chosen.py": "import conf\nconf.Settings.rounds = {rounds}\n",
            "code_of_tree.py": _USES_ENGINE,
        },
        installed=_BY_CONF,
    ),
    "file that is looked for along sys.path": Case(
        tree={"engine.ini": "{rounds}", "code_of_tree.py": _USES_ENGINE},
        installed={
            "engine.py": f"import pathlib, sys\n{_ENGINE}\n"
            "found = [pathlib.Path(one, 'engine.ini') for one in sys.path]\n"
            "run = made(int(next(one for one in found if one.is_file()).read_text()))\n"
        },
    ),
    "plugin that is found by its name": Case(
        tree={"engine_plugin.py": "ROUNDS = {rounds}\n", "code_of_tree.py": _USES_ENGINE},
        installed={
            "engine.py": f"import importlib\n{_ENGINE}\nrun = made(importlib.import_module('engine_plugin').ROUNDS)\n"
        },
    ),
    "settings module that a variable names": Case(
        tree={"chosen.py": "ROUNDS = {rounds}\n", "code_of_tree.py": _USES_ENGINE},
        installed={
            "engine.py": f"import importlib, os\n{_ENGINE}\n"
            "run = made(importlib.import_module(os.environ['ENGINE_SETTINGS']).ROUNDS)\n"
        },
        environment={"ENGINE_SETTINGS": "chosen"},
    ),
    "variable that the tree sets before the import": Case(
        tree={"code_of_tree.py": f"import os\nos.environ['ENGINE_ROUNDS'] = '{{rounds}}'\n{_USES_ENGINE}"},
        installed={"engine.py": f"import os\n{_ENGINE}\nrun = made(int(os.environ.get('ENGINE_ROUNDS', 5000)))\n"},
    ),
    "module that the tree puts into sys.modules": Case(
        tree={
            "code_of_tree.py": "import sys, types\nsys.modules['conf'] = types.SimpleNamespace(Settings="
            f"types.SimpleNamespace(rounds={{rounds}}))\n{_USES_ENGINE}"
        },
        installed=_BY_CONF,
    ),
    "subclass of an installed class": Case(
        tree={"code_of_tree.py": f"import conf\nclass Own(conf.Settings):\n    rounds = {{rounds}}\n{_USES_ENGINE}"},
        installed={
            "conf.py": _CONF,
            "engine.py": f"import conf\n{_ENGINE}\nfound = conf.Settings.__subclasses__()\n"
            "run = made(max(one.rounds for one in [conf.Settings, *found]))\n",
        },
    ),
    "variable that the tree sets unless it is there": Case(
        tree={
            "code_of_tree.py": "import os\nos.environ.setdefault('TREE_ROUNDS', '{rounds}')\n"
            f"ROUNDS = int(os.environ['TREE_ROUNDS'])\n{_LOOP}"
        }
    ),
    "the same, one side at a time": Case(
        tree={
            "code_of_tree.py": "import os\nos.environ.setdefault('TREE_ROUNDS', '{rounds}')\n"
            f"ROUNDS = int(os.environ['TREE_ROUNDS'])\n{_LOOP}",
            "test_it.py": f"import pytest\n{_TEST.replace('def test', '@pytest.mark.hwserial' + chr(10) + 'def test')}",
        }
    ),
    "file in the home folder that the tree makes": Case(
        tree={
            "code_of_tree.py": "import pathlib\nkept = pathlib.Path.home() / '.rounds'\nif not kept.exists():\n"
            f"    kept.write_text('{{rounds}}')\nROUNDS = int(kept.read_text())\n{_LOOP}"
        },
        right=("not comparable: both sides use",),
    ),
    "file that an installed package keeps for itself": Case(
        tree={"code_of_tree.py": f"import conf\nconf.Settings.rounds = {{rounds}}\n{_USES_ENGINE}"},
        installed={
            "conf.py": _CONF,
            "engine.py": f"import conf, pathlib\n{_ENGINE}\nkept = pathlib.Path(__file__).with_suffix('.kept')\n"
            "if not kept.exists():\n    kept.write_text(str(conf.Settings.rounds))\n"
            "run = made(int(kept.read_text()))\n",
        },
        right=("1 regressed", "a package keeps for itself"),
    ),
    "version of an editable install": Case(
        tree={
            "pyproject.toml": _PROJECT,
            "code_of_tree.py": "from importlib.metadata import version\n"
            f"ROUNDS = int(version('tree').partition('.')[0])\n{_LOOP}",
        },
        right=("1 regressed", "not comparable: "),
        is_installed=True,
    ),
    "entry point of an editable install": Case(
        tree={
            "pyproject.toml": _PROJECT,
            "code_of_tree.py": "from importlib.metadata import entry_points\n"
            f"ROUNDS = max(int(one.name[1:]) for one in entry_points(group='rounds'))\n{_LOOP}",
        },
        right=("1 regressed", "not comparable: "),
        is_installed=True,
    ),
    "result of map": Case(
        tree={
            "code_of_tree.py": "def slow(number):\n    return sum(range({rounds} // 10))\n\n"
            "def work():\n    return map(slow, range(10))\n",
            "test_it.py": "from code_of_tree import work\n\ndef test_it(hwperf):\n    hwperf(work)\n",
        }
    ),
    "result whose __iter__ is a generator": Case(
        tree={
            "code_of_tree.py": "class Rows:\n    def __iter__(self):\n        for _ in range(10):\n"
            "            yield sum(range({rounds} // 10))\n\ndef work():\n    return Rows()\n",
            "test_it.py": "from code_of_tree import work\n\ndef test_it(hwperf):\n    hwperf(work)\n",
        }
    ),
    "clock that ticks when it is read": Case(
        tree={
            "code_of_tree.py": f"ROUNDS = {{rounds}}\n{_LOOP}",
            "test_it.py": "import freezegun, pytest\nfrom code_of_tree import work\n\n@pytest.fixture\n"
            "def ticking():\n    with freezegun.freeze_time('2026-01-01', auto_tick_seconds=1):\n        yield\n\n"
            "def test_it(ticking):\n    work()\n",
        }
    ),
    "calls that fail from the 150th on": Case(
        tree={
            "code_of_tree.py": "import itertools\ncalls = itertools.count(1)\n\ndef work():\n"
            "    if {rounds} > 5000 and next(calls) > 150:\n        raise RuntimeError('used up')\n"
            "    return sum(range(10000))\n"
        },
        right=("regressed: call_failures",),
    ),
    "parameters whose ids are positions": Case(
        tree={
            "code_of_tree.py": "def slow():\n    return sum(range(15000))\n\n"
            "def fast():\n    return sum(range(5000))\n\n"
            "chosen = [fast, slow] if {rounds} == 5000 else [slow, slow, fast]\n",
            "test_it.py": "import pytest\nfrom code_of_tree import chosen\n\n"
            "@pytest.mark.parametrize('f', chosen, ids=[f'f{number}' for number in range(len(chosen))])\n"
            "def test_it(f):\n    f()\n",
        },
        right=("the same test id stands for another parameter",),
    ),
}


def main() -> None:
    """Gate each repository, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="words of which one is in the name of a case")
    parser.add_argument("--show", action="store_true", help="print the whole output of each gate")
    options, rows = parser.parse_args(), []
    for name, case in CASES.items():
        if not any(word in name for word in options.only):
            continue
        began = time.monotonic()
        status, text = gated(case)
        found = next((one for one in case.right if one in text), "")
        says = found or re.sub(
            r"\s+", " ", next(iter(re.findall(r"^(?:comparisons|ERROR):.*", text, re.MULTILINE)), text[-100:])
        )
        rows.append((name, "right" if found and (status or found != "1 regressed") else "WRONG", status, says))
        print(*rows[-1], f"{time.monotonic() - began:.0f} s", text if options.show else "", flush=True)
    print(tables.markdown(["what differs", "verdict", "exit code", "said"], rows))


def gated(case: Case) -> tuple[int, str]:
    """Make the repository and its environment, and return the exit code and the output of a gate, in one line each."""
    with tempfile.TemporaryDirectory(prefix="own-code-") as name:
        top = Path(name)
        tree, home = top / "tree", top / "home"
        for folder in (tree, home):
            folder.mkdir()
        python = _environment(top / "venv", case.installed)
        files = {"test_it.py": _TEST, **case.tree}
        commit(tree, {**_filled(files, FAST), ".gitignore": "__pycache__\n*.egg-info\nbuild\n"})
        write(tree, _filled(files, SLOW))
        if case.is_installed:
            _install(python, tree)
        left = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "HWPERF"))}
        done = subprocess.run(
            [
                *(str(python), "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", "--hwperf-all"),
                *("--hwperf-against=HEAD", "--hwperf-explain=never", "--hwperf-energy=off"),
            ],
            cwd=tree,
            env={**left, "HOME": str(home), "COLUMNS": "1000", **case.environment},
            check=False,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        return done.returncode, done.stdout + done.stderr


def _filled(files: Mapping[str, str], rounds: str) -> dict[str, str]:
    return {name: text.replace("{rounds}", rounds) for name, text in files.items()}


def _environment(folder: Path, installed: Mapping[str, str]) -> Path:
    """Make an environment that finds these files, and then what this one has; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (sites,) = (folder / "lib").glob("python3*/site-packages")
    outer = "".join(f"import site; site.addsitedir({place!r})\n" for place in site.getsitepackages())
    write(sites, {**installed, "outer.pth": outer})
    return folder / "bin" / "python"


def _install(python: Path, tree: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install"]
    how = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--editable", "."]
    subprocess.run([*command, *how], cwd=tree, check=True)


if __name__ == "__main__":
    main()
