"""The invariants of the architecture. Each check is shown a planted offence, so that it is known to be able to fail."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_hwperf"

# contract → (file, offending line, what of it is named): one for each contract of pyproject.toml
OFFENCES = {
    "The storeys": ("meters/process.py", "from pytest_hwperf.stores import json_files", "pytest_hwperf.stores"),
    "Records and decisions are pure": ("stats/figures/estimates.py", "import time", "time"),
    "Only the plugin knows pytest": ("measure/sampling.py", "import pytest", "pytest"),
    "No private pytest": ("plugin/session/parsers.py", "from _pytest.config import Config", "_pytest"),
    "Reports are pure and decide nothing": (
        *("reports/table.py", "from pytest_hwperf.stats.verdicts import judge"),
        "pytest_hwperf.stats.verdicts",
    ),
}
UNSAFE = (
    *("eval(text)", "pickle.loads(data)", "joblib.load(path)", "os.system(text)", "subprocess.run(x, shell=True)"),
    *("subprocess.getoutput(text)", "np.load(path, allow_pickle=True)", "np.load(path, allow_pickle=given)"),
    *("pd.read_pickle(path)", "torch.load(path)", "from joblib import load\nload(path)"),
    *("from pickle import loads as read\nread(data)", "import joblib as files\nfiles.load(path)"),
)
HARMLESS = ("np.load(path, allow_pickle=False)", "json.load(file)", "re.compile(text)")

# What a bare `import pytest` leaves loaded is taken away, then the plugin is imported under an audit.
AUDIT = """
import sys, pytest
before = set(sys.modules)
events = []
starts = ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "socket.connect")
sys.addaudithook(lambda event, _: events.append(event) if event in starts else None)
{code}
own = {{"pytest_hwperf"}} | set(sys.stdlib_module_names)
foreign = sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} - own)
import json
print(json.dumps([foreign, events]))
"""

# Calls that obey what they read, by their whole names; those of a reader by the last part, whatever it is called.
OBEYING = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen"),
    *("subprocess.getoutput", "subprocess.getstatusoutput"),
    *(f"{owner}.{name}" for owner in ("pickle", "joblib", "marshal", "torch") for name in ("load", "loads")),
}
COMPILED_ONLY = {"stats/causes/changed_code.py": ["compile"]}  # whose code is compared and never run
OBEYING_READERS = {"read_pickle", "Unpickler"}


def audited(code: str) -> tuple[list[str], list[str]]:
    """Run `code` in a fresh interpreter; return the third-party modules that it loaded and the processes it started."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plugins' loads are their own matter
    command = [sys.executable, "-c", AUDIT.format(code=code)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    foreign, started = json.loads(done.stdout.splitlines()[-1])
    return foreign, started


def late_libraries() -> set[str]:
    """Return what ruff lets be imported inside functions only: all that the package's parts may load."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    return set(lint["flake8-tidy-imports"]["banned-module-level-imports"])


class Seen(NamedTuple):
    """What a file of the package has. Trees are not kept: the garbage collector would look at them for seconds."""

    classes: list[str]
    of_git: int  # command lines
    unsafe: list[str]
    asks_platform: bool


@cache
def files() -> dict[str, Seen]:
    return {one.relative_to(PACKAGE).as_posix(): seen(one) for one in sorted(PACKAGE.rglob("*.py"))}


def seen(file: Path) -> Seen:
    nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    return Seen(classes, commands_of(nodes, "git"), unsafe_calls(nodes), asks_platform(nodes))


def unsafe_calls(nodes: list[ast.AST]) -> list[str]:
    """Name every call that would obey what it reads: eval and its kin, unpickling, a shell."""
    meant = dict[str, str]()  # a name in this file → what was imported by it
    for node in nodes:
        if isinstance(node, ast.Import):
            meant |= {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom):
            meant |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    found = []
    for node in nodes:
        if isinstance(node, ast.Call):
            owner, dot, name = ast.unparse(node.func).rpartition(".")
            called = f"{meant.get(owner, owner)}.{name}" if dot else meant.get(name, name)
            obeys = called in OBEYING or called.rpartition(".")[2] in OBEYING_READERS
            found.extend([called] if obeys else [])
            found.extend("shell=True" for word in node.keywords if word.arg == "shell")
            found.extend("allow_pickle" for word in node.keywords if word.arg == "allow_pickle" and not _is_off(word))
    return found


def _is_off(word: ast.keyword) -> bool:
    return isinstance(word.value, ast.Constant) and word.value.value is False


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package in which an offence can be planted."""
    shutil.copytree(PACKAGE, tmp_path / "pytest_hwperf", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, '.'); {code}", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_run_downward(copied: Path) -> None:
    """Storeys, and what each part may not know."""
    done = lint_imports(copied)
    assert "0 broken" in done.stdout
    assert done.returncode == 0


def test_a_planted_import_breaks_its_contract(copied: Path) -> None:
    """Of each contract one, all at once: each is named below its own."""
    for file, line, _ in OFFENCES.values():
        target = copied / "pytest_hwperf" / file
        target.write_text(f"{target.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    done = lint_imports(copied)
    rows, said = done.stdout.splitlines(), done.stdout.partition("Broken contracts\n")[2]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(OFFENCES) == len(settings["tool"]["importlinter"]["contracts"])
    for contract, (file, _, named) in OFFENCES.items():
        module = f"pytest_hwperf.{file.removesuffix('.py').replace('/', '.')}"
        assert 1 == sum(row.startswith(contract) and " BROKEN" in row for row in rows)
        below = said.partition(f"\n{contract}")[2].partition("\n\n\n")[0]
        assert f" {module} -> {named}" in below
    assert done.returncode == 1


def test_an_unplaced_module_breaks_the_storeys(copied: Path) -> None:
    """No `utils.py` can slip in."""
    (copied / "pytest_hwperf" / "utils.py").write_text("", encoding="utf-8")
    done = lint_imports(copied)
    assert done.returncode == 1
    assert "utils" in done.stdout


def test_an_unused_plugin_loads_and_starts_nothing() -> None:
    assert audited("import pytest_hwperf.plugin") == ([], [])


def test_a_planted_import_and_process_are_noticed() -> None:
    planted = "import pytest_hwperf.plugin\nimport numpy, subprocess; subprocess.run(['true'])"
    foreign, started = audited(planted)
    assert (["numpy"], "subprocess.Popen") == (foreign, started[0])


def session_of(folder: Path, body: str) -> tuple[set[str], list[str]]:
    """Run pytest with the plugin on a test with this body; return the late libraries it loaded, and what it started."""
    (folder / "test_it.py").write_text(f"def test_it():\n    {body}\n", encoding="utf-8")
    arguments = ["-q", "-p", "pytest_hwperf.plugin", "-p", "no:cacheprovider", str(folder)]
    foreign, started = audited(f"assert pytest.main({arguments!r}) == 0")
    return late_libraries() & set(foreign), started


def test_the_commands_are_listed_without_what_extras_bring() -> None:
    foreign, started = audited("from pytest_hwperf.cli import _parser; _parser().format_help()")
    assert ({"msgspec"}, []) == (late_libraries() & set(foreign), started)  # records rest on it


def test_a_session_that_measures_nothing_loads_and_starts_nothing(tmp_path: Path) -> None:
    """Also with the hooks run: options read, tests collected and passed."""
    body = (
        "import sys; own = {name for name in sys.modules if name.startswith('pytest_hwperf')}; "
        "parts = ['host', 'host.fakes', 'plugin', *('plugin.session' + end for end in ('', '.parsers', '.settings'))]; "
        "assert own == {'pytest_hwperf', *map('pytest_hwperf.'.__add__, parts)}"
    )
    assert session_of(tmp_path, body) == (set(), [])


def test_what_a_session_loads_and_starts_is_noticed(tmp_path: Path) -> None:
    loaded, started = session_of(tmp_path, "import psutil, subprocess; subprocess.run(['true'])")
    assert {"psutil"} == loaded
    assert started


def test_a_class_name_means_one_thing() -> None:
    found = Counter(name for one in files().values() for name in one.classes)
    assert len(found) > 100
    assert {} == {name: count for name, count in found.items() if count > 1}


def test_nothing_that_is_read_is_obeyed() -> None:
    """And a planted call is noticed."""
    assert COMPILED_ONLY == {path: one.unsafe for path, one in files().items() if one.unsafe}
    assert [*HARMLESS] == [one for one in (*UNSAFE, *HARMLESS) if not unsafe_calls([*ast.walk(ast.parse(one))])]


def commands_of(nodes: list[ast.AST], program: str) -> int:
    """Count the command lines that begin with this program."""
    words = [node.elts[0] for node in nodes if isinstance(node, ast.List) and node.elts]
    return sum(isinstance(word, ast.Constant) and word.value == program for word in words)


def test_git_is_run_in_one_place() -> None:
    """With settings by which it obeys no repository."""
    assert {"checkout/git.py": 1} == {path: one.of_git for path, one in files().items() if one.of_git}


def asks_platform(nodes: list[ast.AST]) -> bool:
    """Say whether code behaves differently on another system."""
    return any(isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.platform", "os.name") for node in nodes)


def test_only_the_host_asks_which_platform_it_is() -> None:
    """And a planted question is noticed."""
    assert [] == [path for path, one in files().items() if one.asks_platform and not path.startswith("host/")]
    assert asks_platform([*ast.walk(ast.parse("if sys.platform == 'win32': pass"))])


def test_the_public_names_are_there() -> None:
    """They are loaded on first use only."""
    import pytest_hwperf

    assert all(getattr(pytest_hwperf, name) is not None for name in pytest_hwperf.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        pytest_hwperf.nonsense  # noqa: B018 - the look is the test
