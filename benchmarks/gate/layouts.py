"""Usual layouts of projects, each a repository with one change: whether the gate can compare it.

    python -m benchmarks layouts [NAME …]

Without `--pairs` the rehearsal is run and the pairs are not: whether both sides can be compared, each with its own
code, takes seconds a layout. Every test writes the code that it ran into the file that NOTES names.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import arms, tables
from benchmarks.projects import ROOT, commit

MODEL = "SIDE = 'baseline'\n\n\ndef call():\n    return sum(range(30000))\n"
TEST = (
    "import os\nimport pathlib\n\nfrom {module} import SIDE, call\n\n\ndef test_call():\n"
    "    if not hasattr(call, 'noted'):\n"
    "        call.noted = True\n"
    "        with pathlib.Path(os.environ['NOTES']).open('a') as notes:\n"
    "            print(SIDE, file=notes)\n"
    "    assert call() > 0\n"
)
DOCTEST = '"""\n>>> 1 + 1\n2\n"""\n'
PYPROJECT = "[project]\nname = 'pkg'\nversion = '0.1'\n[tool.pytest.ini_options]\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A project; `pkg/model.py`, wherever it lies, is what changes."""

    files: Mapping[str, str]
    options: Sequence[str] = ()
    folder: str = "."  # in which pytest is started
    path: Sequence[str] = ()  # folders of PYTHONPATH, in the place of an editable install
    environment: Mapping[str, str] = field(default_factory=dict)


def flat(options: str = "", **others: str) -> dict[str, str]:
    """Return a flat layout with its tests beside it."""
    ini = f"{PYPROJECT}pythonpath = ['.']\n{options}"
    test = TEST.format(module="pkg.model")
    return {"pyproject.toml": ini, "pkg/__init__.py": "", "pkg/model.py": MODEL, "tests/test_pkg.py": test, **others}


LAYOUTS = {
    "import-mode=append": Layout(files=flat(), options=["--import-mode=append"]),
    "import-mode=importlib": Layout(files=flat(), options=["--import-mode=importlib"]),
    "filterwarnings=error": Layout(files=flat("filterwarnings = ['error']\n")),
    "strict-config": Layout(files=flat("addopts = ['--strict-config', '--strict-markers']\n")),
    "strict, no cache": Layout(files=flat("addopts = ['--strict-config', '-pno:cacheprovider']\n")),
    "doctest-modules": Layout(
        files={**flat("addopts = ['--doctest-modules']\n"), "pkg/model.py": f"{DOCTEST}{MODEL}"},
        options=["pkg", "tests"],
    ),
    "tests inside the package": Layout(
        files={
            "pyproject.toml": f"{PYPROJECT}",
            "pkg/__init__.py": "",
            "pkg/model.py": MODEL,
            "pkg/tests/__init__.py": "",
            "pkg/tests/test_pkg.py": TEST.format(module="pkg.model"),
        },
        options=["--pyargs", "pkg"],
    ),
    "tests inside a src package": Layout(
        files={
            "pyproject.toml": PYPROJECT,
            "src/pkg/__init__.py": "",
            "src/pkg/model.py": MODEL,
            "src/pkg/tests/__init__.py": "",
            "src/pkg/tests/test_pkg.py": TEST.format(module="..model"),
        },
        path=["src"],
    ),
    "namespace over two source trees": Layout(
        files={
            "pyproject.toml": f"{PYPROJECT}addopts = ['--import-mode=importlib']\n",
            "core/src/org/pkg/__init__.py": "",
            "core/src/org/pkg/model.py": MODEL,
            "extra/src/org/more/__init__.py": "NAME = 'more'\n",
            "extra/tests/test_more.py": f"import org.more\n{TEST.format(module='org.pkg.model')}",
        },
        path=["core/src", "extra/src"],
    ),
    "sub-project of a monorepo": Layout(
        files={
            "services/api/pyproject.toml": f"{PYPROJECT}pythonpath = ['src']\n",
            "services/api/src/pkg/__init__.py": "",
            "services/api/src/pkg/model.py": MODEL,
            "services/api/tests/test_pkg.py": TEST.format(module="pkg.model"),
            "services/web/pyproject.toml": PYPROJECT,
        },
        folder="services/api",
    ),
    "uv workspace": Layout(
        files={
            "pyproject.toml": "[project]\nname = 'all'\nversion = '0'\n[tool.uv.workspace]\nmembers = ['packages/*']\n"
            "[tool.pytest.ini_options]\n",
            "uv.lock": "version = 1\n",
            "packages/pkg/pyproject.toml": "[project]\nname = 'pkg'\nversion = '0.1'\n",
            "packages/pkg/src/pkg/__init__.py": "",
            "packages/pkg/src/pkg/model.py": MODEL,
            "packages/pkg/tests/test_pkg.py": TEST.format(module="pkg.model"),
            "packages/other/pyproject.toml": "[project]\nname = 'other'\nversion = '0.1'\n",
            "packages/other/src/other/__init__.py": "",
        },
        path=["packages/pkg/src", "packages/other/src"],
        options=["packages/pkg"],
    ),
    "conda environment": Layout(
        files={**flat(), ".gitignore": "conda-env/\n"},
        environment={"CONDA_PREFIX": "conda-env", "CONDA_DEFAULT_ENV": "work"},
    ),
}


def main() -> None:
    """Run the layouts that were named, or all, and print a line for each."""
    parser = arms.parser(__doc__, "layouts.jsonl")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(LAYOUTS)}")
    parser.add_argument("--pairs", action="store_true", help="run the pairs too")
    parser.add_argument("--verbose", action="store_true", help="show what pytest has written")
    asked = parser.parse_args()
    turns = [{"layout": name} for name in asked.names or LAYOUTS]

    def build(turn: arms.Turn) -> dict[str, object]:
        with tempfile.TemporaryDirectory(prefix="layout-") as folder:
            return outcome(LAYOUTS[turn["layout"]], Path(folder), pairs=asked.pairs, verbose=asked.verbose)

    records = arms.run(asked, turns, build)
    rows = ([one[key] for key in ("layout", "exit code", "sides", "said")] for one in records)
    print(tables.markdown(("layout", "exit code", "sides that ran their own code", "said"), rows))


def outcome(layout: Layout, place: Path, *, pairs: bool, verbose: bool) -> dict[str, object]:
    """Make the project, change it, and return what the gate said."""
    project, notes = place / "project", place / "notes"
    project.mkdir()
    commit(project, layout.files)
    (model,) = project.glob("**/pkg/model.py")
    model.write_text(model.read_text(encoding="utf-8").replace("baseline", "candidate"), encoding="utf-8")
    if "CONDA_PREFIX" in layout.environment:
        (project / "conda-env" / "conda-meta").mkdir(parents=True)
    done = _run(layout, project, notes, pairs=pairs)
    if verbose:
        print(done.stdout, done.stderr)
    sides = sorted(set(notes.read_text(encoding="ascii").splitlines())) if notes.exists() else []
    said = next((one for one in (done.stderr + done.stdout).splitlines() if "ERROR" in one or "compared" in one), "")
    return {"exit code": done.returncode, "sides": ", ".join(sides) or "none", "said": said}


def _run(layout: Layout, project: Path, notes: Path, *, pairs: bool) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "--hwperf-all", "--hwperf-against=HEAD", "--hwperf-energy=off"]
    rehearsed = [] if pairs else ["-pfakes.instant_pairs"]
    own = [str(project / folder) for folder in layout.path]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    environment = {
        **kept,
        **{name: str(project / value) for name, value in layout.environment.items()},
        "PYTHONPATH": os.pathsep.join([*own, str(ROOT / "tests")]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_hwperf.plugin",
        "NOTES": str(notes),
    }
    return subprocess.run(
        [*command, *rehearsed, "--hwperf-sample-time=0.1", *layout.options],
        cwd=project / layout.folder, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
