"""The git repositories whose functions the gates judge: a baseline, and one commit above it for every condition."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gate.releases import source
from benchmarks.projects import OURS, commit, git

_UNITS = 100  # of work in the baseline
_REMARK = "\n\n# A remark that changes nothing.\n"
_VERSION = "src/packaging/version.py"
# One thread for all.
ENVIRONMENT = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")} | OURS

_WORK = '''
"""Work in units of a matrix product each: a candidate of 105 units does 5 % more of it."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

UNITS = 100

_SQUARE = np.random.default_rng(0).random((48, 48), dtype=np.float32)
_ROWS = np.random.default_rng(1).random((8, 64), dtype=np.float32)


def numpy_products():
    for _ in range(UNITS):
        product = _SQUARE @ _SQUARE
    return product


def _chain():
    weights = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32) / 8
    nodes, name = [], "rows"
    for layer in range(UNITS):
        nodes.append(helper.make_node("MatMul", [name, "weights"], [f"product{layer}"]))
        nodes.append(helper.make_node("Relu", [f"product{layer}"], [f"layer{layer}"]))
        name = f"layer{layer}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor("weights", TensorProto.FLOAT, [64, 64], weights.ravel())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


_SESSION = _chain()


def onnx_chain():
    return _SESSION.run(None, {"rows": _ROWS})


CALLS = {"numpy": numpy_products, "onnx": onnx_chain}
'''


_RELEASED = """
'''A call of two releases of packaging, between which parsing a version became 8 to 10 % faster.'''

from packaging.version import Version

_TEXTS = ["1.0.0", "2.3.4.0", "1.2.3rc1", "0.0.1.dev3+local.7", "2026.1.0"] * 4

CALLS = {"versions": lambda: [Version(text)._key for text in _TEXTS]}
"""

_PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "work"
version = "1"

[tool.setuptools]
py-modules = ["work"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""

_ASV_FILE = "asv/benchmarks/work_benchmarks.py"
_IMPORT = "from work import CALLS\n"
# One file for each tool, as its own users would write it: what comes after the calls, and that for each of them.
_TOOL_FILES = {
    "{tests}/test_work.py": ("", "\n\ndef test_{0}(hwperf):\n    hwperf(CALLS['{0}'])\n"),
    "{tests}/test_work_benchmark.py": ("", "\n\ndef test_{0}(benchmark):\n    benchmark(CALLS['{0}'])\n"),
    "perf_work.py": (
        "\nimport pyperf\n\nrunner = pyperf.Runner()\n",
        "runner.bench_func('{0}', CALLS['{0}'])\n",
    ),
    _ASV_FILE: ("", "\n\ndef time_{0}():\n    CALLS['{0}']()\n"),
}
_ASV = """
{
  "version": 1,
  "project": "work",
  "project_url": "https://example.org",
  "repo": ".",
  "branches": ["main"],
  "environment_type": "virtualenv",
  "matrix": {"req": {%(required)s}},
  "build_command": ["python -m pip wheel -q --no-deps --no-build-isolation -w {build_cache_dir} {build_dir}"],
  "install_command": ["in-dir={env_dir} python -m pip install -q --no-deps --force-reinstall {wheel_file}"],
  "benchmark_dir": "asv/benchmarks",
  "env_dir": "%(kept)s/asv-env",
  "results_dir": "asv/results",
  "html_dir": "asv/html"
}
"""
_IGNORED = "*.json\n!asv.conf.json\n.*/\nasv/results/\n__pycache__/\n"


Texts = Mapping[str, str]  # path in the repository → text


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Code whose speed is known to change from a baseline to each candidate, or not to."""

    functions: Sequence[str]  # that are judged
    conditions: Sequence[str]  # one for each candidate
    files: Callable[[], tuple[Texts, Sequence[Texts]]]  # of the baseline, and those that differ in each candidate
    builds_with: str  # the package in asv's environment that its build needs
    needs: Sequence[str] = ()  # packages that the code itself needs, in the versions that are installed here
    installed: str = _IMPORT  # how asv's benchmarks come to the calls: they see only what is installed
    path: str = ""  # folder that comes first where modules are looked for; "": none


def _units() -> tuple[Texts, Sequence[Texts]]:
    """Return functions that are made of units of work: of a candidate of 105 units, 5 % more of it."""
    texts = (_WORK.replace(f"UNITS = {_UNITS}", f"UNITS = {units}") for units in (_UNITS, 105, 110))
    return {"work.py": _WORK, "pyproject.toml": _PYPROJECT}, [{"work.py": text + _REMARK} for text in texts]


def _releases() -> tuple[Texts, Sequence[Texts]]:
    """Return packaging 26.0rc3, which a candidate turns back into the release before."""
    with tempfile.TemporaryDirectory() as folder:
        late, early = (_texts(source("packaging", release, Path(folder))) for release in ("26.0rc3", "26.0rc2"))
    return {**late, "work.py": _RELEASED}, [{_VERSION: late[_VERSION] + _REMARK}, early]


def tool_files(calls: str, functions: Sequence[str], tests: str, *, of_asv: str) -> dict[str, str]:
    """Return the file of each tool, with its path: code that makes CALLS, and what measures these functions of it.

    `of_asv` is that code for asv's file: its benchmarks see only what is installed.
    """
    files = {
        name.format(tests=tests): (of_asv if name == _ASV_FILE else calls)
        + after
        + "".join(each.format(function) for function in functions)
        for name, (after, each) in _TOOL_FILES.items()
    }
    return {**files, "asv/benchmarks/__init__.py": ""}


SUBJECTS = {
    "units": Subject(
        functions=("numpy", "onnx"),
        conditions=("unchanged", "+5 %", "+10 %"),
        files=_units,
        builds_with="setuptools",
        needs=("numpy", "onnx", "onnxruntime"),
    ),
    "packaging": Subject(
        functions=("versions",),
        conditions=("unchanged", "the slower release"),
        files=_releases,
        builds_with="flit-core",
        installed=_RELEASED,
        path="src",
    ),
}


def _texts(release: Path) -> dict[str, str]:
    """Return the files of a source distribution that are needed to build it."""
    files = [*release.glob("src/packaging/**/*.py"), release / "pyproject.toml", *release.glob("README*")]
    files += [*release.glob("LICENSE*"), *release.glob("src/packaging/py.typed")]
    return {str(file.relative_to(release)): file.read_text(encoding="utf-8") for file in files}


class Project:
    """A repository with a branch for every condition, each one commit above the same baseline."""

    def __init__(
        self, folder: Path, kept: Path, subject: Subject, versions: Mapping[str, str], before: str = ""
    ) -> None:
        """Make the repository in `folder`; asv's environment goes to `kept`, with these versions of what is needed.

        `before` is the Python that has an earlier version of this package.
        """
        self.root = folder
        self.kept = kept
        self.python = sys.executable
        self.before = before
        self.subject = subject
        self.functions = subject.functions
        self.tests = "tests"
        self.options: Sequence[str] = ()
        own = {"PYTHONPATH": str(folder / subject.path)} if subject.path else {}
        self.environment: Mapping[str, str] = {**os.environ, **ENVIRONMENT, "HOME": str(kept), **own}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        baseline, candidates = subject.files()
        self._write_baseline(baseline, versions)
        for condition, files in zip(subject.conditions, candidates, strict=True):
            self._write_candidate(condition, files)

    def restore(self, revision: str) -> None:
        """Check out a revision, without anything that an earlier build left, byte code above all."""
        self.git("checkout", "-q", "-f", revision)
        self.git("clean", "-ffdxq")

    def git(self, *words: str) -> str:
        """Run git in the repository and return what it prints."""
        return git(self.root, *words)

    def _write_baseline(self, files: Texts, versions: Mapping[str, str]) -> None:
        required = {**{name: versions[name] for name in self.subject.needs}, self.subject.builds_with: ""}
        listed = ", ".join(f'"{name}": ["{version}"]' for name, version in required.items())
        tools = tool_files(_IMPORT, self.functions, self.tests, of_asv=self.subject.installed)
        asv = _ASV % {"required": listed, "kept": self.kept}
        self._commit({**files, **tools, "asv.conf.json": asv, ".gitignore": _IGNORED})

    def _write_candidate(self, condition: str, files: Texts) -> None:
        self.git("checkout", "-q", "-b", self.branch(condition), "main")
        self._commit(files)

    def _commit(self, files: Texts) -> None:
        commit(self.root, {name: text.lstrip() for name, text in files.items()})

    def branch(self, condition: str) -> str:
        """Return the branch of a condition's candidate."""
        return f"candidate-{self.subject.conditions.index(condition)}"
