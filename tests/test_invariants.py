"""The invariants of the architecture. Each check is shown a planted offence, so that it is known to be able to fail."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_hwperf"

# contract → (file, offending line): one for each contract of pyproject.toml
OFFENCES = {
    "Three storeys": ("meters/cpu_time.py", "from pytest_hwperf.stores import json_files"),
    "The core is layered too": ("core/records.py", "from pytest_hwperf.core import verdicts"),
    "The core is pure": ("core/estimates.py", "import time"),
    "Only the plugin knows pytest": ("measure/sampling.py", "import pytest"),
    "No private pytest": ("plugin/options.py", "from _pytest.config import Config"),
    "Nothing that was read is unpickled": ("stores/json_files.py", "import pickle"),
    "Reports meet only at the table": ("reports/text.py", "from pytest_hwperf.reports import json_report"),
    "Reports are pure": ("reports/text.py", "import pathlib"),
}

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
print("foreign", foreign, "started", events)
"""


def audited(code: str) -> str:
    """Run `code` in a fresh interpreter; return the third-party modules that it loaded and the processes it started."""
    done = subprocess.run([sys.executable, "-c", AUDIT.format(code=code)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def unsafe_calls(source: str) -> list[str]:
    """Name every call that would obey what it reads: eval and its kin, unpickling, a shell."""
    bad = {"eval", "exec", "compile", "__import__", "os.system", "os.popen"}
    bad |= {f"{owner}.{name}" for owner in ("pickle", "joblib", "marshal") for name in ("load", "loads")}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            owner = getattr(getattr(node.func, "value", None), "id", "")
            called = f"{owner}.{name}" if owner else name
            found.extend([called] if called in bad else [])
            found.extend("shell=True" for word in node.keywords if word.arg == "shell")
    return found


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
    """Storeys, the layers of the core, and what each part may not know."""
    done = lint_imports(copied)

    assert "0 broken" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("contract", OFFENCES)
def test_a_planted_import_breaks_its_contract(copied: Path, contract: str) -> None:
    file, line = OFFENCES[contract]
    target = copied / "pytest_hwperf" / file
    target.write_text(f"{target.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    done = lint_imports(copied)

    assert done.returncode == 1
    assert any(row.startswith(contract) and row.rstrip().endswith("BROKEN") for row in done.stdout.splitlines())


def test_every_contract_has_a_planted_offence() -> None:
    contracts = [
        row for row in (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines() if row.startswith("name = ")
    ]
    named = [row for row in contracts if any(f'name = "{offence}' in row for offence in OFFENCES)]

    assert len(named) == len(OFFENCES) == len(contracts) - 1  # the first name is the project's


def test_an_unplaced_module_breaks_the_storeys(copied: Path) -> None:
    """No `utils.py` can slip in."""
    (copied / "pytest_hwperf" / "utils.py").write_text("", encoding="utf-8")
    done = lint_imports(copied)

    assert done.returncode == 1
    assert "utils" in done.stdout


def test_an_unused_plugin_loads_and_starts_nothing() -> None:
    assert audited("import pytest_hwperf.plugin") == "foreign [] started []"


@pytest.mark.parametrize(
    ("offence", "told"),
    [
        ("import numpy", "foreign ['numpy'] started []"),
        ("import subprocess; subprocess.run(['true'])", "foreign [] started ['subprocess.Popen'"),
    ],
)
def test_a_planted_import_or_process_is_noticed(offence: str, told: str) -> None:
    assert audited(f"import pytest_hwperf.plugin\n{offence}").startswith(told)


def test_a_session_that_measures_nothing_loads_nothing(pytester: pytest.Pytester) -> None:
    """Also with the hooks run: options read, tests collected and passed."""
    pytester.makepyfile(
        """
        import sys
        def test_it():
            heavy = {"numpy", "scipy", "sklearn", "onnxruntime", "pandas", "psutil", "joblib", "filelock"}
            assert heavy.isdisjoint(sys.modules)
            assert not any(name.startswith("pytest_hwperf.core") for name in sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "no:benchmark", "-p", "no:hypothesispytest").assert_outcomes(passed=1)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_that_is_read_is_obeyed(path: Path) -> None:
    assert unsafe_calls(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "offence",
    ["eval(text)", "pickle.loads(data)", "joblib.load(path)", "os.system(text)", "subprocess.run(x, shell=True)"],
)
def test_a_planted_unsafe_call_is_noticed(offence: str) -> None:
    assert unsafe_calls(offence) != []


def test_the_public_names_are_there() -> None:
    """They are loaded on first use only."""
    import pytest_hwperf

    assert all(getattr(pytest_hwperf, name) is not None for name in pytest_hwperf.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        pytest_hwperf.nonsense  # noqa: B018 - the look is the test
