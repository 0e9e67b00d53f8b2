"""The little git repository whose two functions the gates judge: one baseline, and a candidate of every size."""

import os
import shutil
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

FUNCTIONS = ("numpy", "onnx")
CONDITIONS = {"unchanged": 100, "+5 %": 105, "+10 %": 110}  # units of work in the candidate; the baseline has 100
BASELINE = 100
# One thread for all, and nothing of this machine's settings for git.
_ENVIRONMENT = {
    **{f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}

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
'''

# One file for each tool, as its own users would write it.
_FILES = {
    "work.py": _WORK,
    "tests/test_work.py": """
        import work


        def test_numpy(hwperf):
            hwperf(work.numpy_products)


        def test_onnx(hwperf):
            hwperf(work.onnx_chain)
        """,
    "tests/test_work_benchmark.py": """
        import work


        def test_numpy(benchmark):
            benchmark(work.numpy_products)


        def test_onnx(benchmark):
            benchmark(work.onnx_chain)
        """,
    "perf_work.py": """
        import pyperf

        import work

        runner = pyperf.Runner()
        runner.bench_func("numpy", work.numpy_products)
        runner.bench_func("onnx", work.onnx_chain)
        """,
    # The folder above the one with the benchmarks comes first on asv's path: it must not hold another work.py.
    "asv/benchmarks/work_benchmarks.py": """
        import work


        def time_numpy():
            work.numpy_products()


        def time_onnx():
            work.onnx_chain()
        """,
    "asv/benchmarks/__init__.py": "",
    "asv.conf.json": """
        {
          "version": 1,
          "project": "work",
          "project_url": "https://example.org",
          "repo": ".",
          "branches": ["main"],
          "environment_type": "virtualenv",
          "matrix": {
            "req": {
              "numpy": ["%(numpy)s"], "onnx": ["%(onnx)s"], "onnxruntime": ["%(onnxruntime)s"], "setuptools": [""]
            }
          },
          "build_command": ["python -m pip wheel -q --no-deps --no-build-isolation -w {build_cache_dir} {build_dir}"],
          "install_command": ["in-dir={env_dir} python -m pip install -q --no-deps --force-reinstall {wheel_file}"],
          "benchmark_dir": "asv/benchmarks",
          "env_dir": "%(kept)s/asv-env",
          "results_dir": "asv/results",
          "html_dir": "asv/html"
        }
        """,
    "pyproject.toml": """
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
        """,
    ".gitignore": "*.json\n!asv.conf.json\n.*/\nasv/results/\n__pycache__/\n",
}


class Project:
    """A repository with a branch for every condition, each one commit above the same baseline."""

    def __init__(self, folder: Path, kept: Path, versions: Mapping[str, str]) -> None:
        """Make the repository in `folder`; asv's environment goes to `kept`, with these versions of what is needed."""
        self.root = folder
        self.kept = kept
        self.versions = versions
        self.environment = {**os.environ, **_ENVIRONMENT, "HOME": str(kept)}
        shutil.rmtree(folder, ignore_errors=True)
        self._write_baseline()
        for condition, units in CONDITIONS.items():
            self._write_candidate(condition, units)

    def restore(self, revision: str) -> None:
        """Check out a revision, without anything that an earlier build left, byte code above all."""
        self.git("checkout", "-q", "-f", revision)
        self.clean()

    def clean(self) -> None:
        """Remove what git does not know."""
        self.git("clean", "-ffdxq")

    def git(self, *words: str) -> str:
        """Run git in the repository and return what it prints."""
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def _write_baseline(self) -> None:
        for name, text in _FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            filled = text % {**self.versions, "kept": self.kept} if name == "asv.conf.json" else text
            path.write_text(textwrap.dedent(filled).lstrip())
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "gate")
        self.git("config", "user.email", "gate@example.org")
        self._commit("Baseline")

    def _write_candidate(self, condition: str, units: int) -> None:
        self.git("checkout", "-q", "-b", branch(condition), "main")
        path = self.root / "work.py"
        text = path.read_text().replace(f"UNITS = {BASELINE}", f"UNITS = {units}")
        path.write_text(f"{text}\n\n# A remark that changes nothing.\n")
        self._commit("Candidate")

    def _commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)


def branch(condition: str) -> str:
    """Return the branch of a condition's candidate."""
    return f"units-{CONDITIONS[condition]}-{'unchanged' if CONDITIONS[condition] == BASELINE else 'slower'}"
