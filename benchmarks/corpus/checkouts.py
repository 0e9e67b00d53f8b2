"""A row as a repository whose last commit is judged against the one before, and an environment that runs it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from benchmarks.corpus.rows import Row
from benchmarks.gate.subjects import ENVIRONMENT, tool_files
from benchmarks.projects import git, write
from pytest_hwperf.checkout.layer import make_layer, name_of_interpreter
from pytest_hwperf.host.launch import interpreter_of

TESTS = "measured_here"
FUNCTION = "call"
# The project's own settings of pytest may ask for plugins that are not installed.
_SETTINGS = "[pytest]\n"
_ASV = {
    "version": 1,
    "project": "work",
    "project_url": "https://example.org",
    "repo": ".",
    "branches": ["main"],
    "environment_type": "virtualenv",
    "build_command": [],  # only code that needs no build is in the corpus: each commit's own tree is imported
    "uninstall_command": [],
    "benchmark_dir": "asv/benchmarks",
    "results_dir": "asv/results",
    "html_dir": "asv/html",
}


class Checkout:
    """The repository of a row, below a folder: the branch `main` has the baseline, `candidate` one commit more."""

    def __init__(self, row: Row, folder: Path, mirror: Path | None, *, backwards: bool = False) -> None:
        """Get both commits, and add the files of the tools to each; `backwards` makes the later one the baseline.

        `mirror` has git directories OWNER+NAME/repo that stand for the addresses.
        """
        self.row = row
        self.root = folder / ("backwards" if backwards else "forwards")
        self.kept = folder / "kept"
        self.before = ""
        self.functions: Sequence[str] = (FUNCTION,)
        self.tests = TESTS
        self.options: Sequence[str] = ("-c", f"{TESTS}/pytest.ini")
        self._mirror = mirror
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        commits = [row.base, row.head][:: -1 if backwards else 1] if row.repository else []
        if commits:
            self.git("fetch", "-q", "--depth=1", self._source(), *dict.fromkeys(commits))
            self.git("checkout", "-q", "-f", "-B", "main", commits[0])
        self._commit("Baseline")
        self.git("checkout", "-q", "-b", "candidate")
        if commits:
            self.git("read-tree", "--reset", "-u", commits[1])
        self._commit("Candidate")

    @cached_property
    def python(self) -> str:
        """An environment above the one that runs this, with what the row needs; made when it is first asked for."""
        key = [name_of_interpreter(), sys.prefix, *sorted(self.row.needs)]
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
        folder = self.kept.parent.parent / "environments" / name
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            python = make_layer(folder, self.root)
            if self.row.needs:
                _run(sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *self.row.needs)
            (folder / "whole").touch()
        return str(interpreter_of(folder))

    @property
    def environment(self) -> Mapping[str, str]:
        path = os.pathsep.join(str(self.root / one) for one in self.row.path.split(":")) if self.row.repository else ""
        return {**os.environ, **ENVIRONMENT, "HOME": str(self.kept), "PYTHONPATH": path}

    def git(self, *words: str) -> str:
        """Run git in the repository and return what it prints."""
        return git(self.root, *words)

    def restore(self, revision: str) -> None:
        """Check out a revision, without anything that an earlier build left."""
        self.git("checkout", "-q", "-f", revision)
        self.git("clean", "-ffdxq")

    def _source(self) -> str:
        if self._mirror is None:
            return self.row.repository
        owner, name = self.row.repository.rstrip("/").split("/")[-2:]
        return (self._mirror / f"{owner}+{name}" / "repo").as_uri()

    def _commit(self, message: str) -> None:
        calls = f"{self.row.code.strip()}\n\n\nCALLS = {{{FUNCTION!r}: {FUNCTION}}}\n"
        files = {**tool_files(calls, self.functions, self.tests, of_asv=calls), f"{self.tests}/pytest.ini": _SETTINGS}
        write(self.root, {**files, "asv.conf.json": self._of_asv()})
        self.git("add", "--force", "--", *files, "asv.conf.json")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def _of_asv(self) -> str:
        needed = dict(one.split("==") for one in self.row.needs)
        point = "import sys, sysconfig, pathlib; pathlib.Path(sysconfig.get_path('purelib'), 'work.pth').write_text("
        places = "'import sys; sys.path[:0] = ' + repr(sys.argv[1:]))"  # before what asv's environment has itself
        paths = " ".join(f"{{build_dir}}/{one}" for one in self.row.path.split(":"))
        asked = {
            **_ASV,
            "env_dir": str(self.kept / "asv-env"),
            "matrix": {"req": {name: [version] for name, version in needed.items()}},
            "install_command": [f'python -c "{point}{places}" {paths}'],
        }
        return json.dumps(asked, indent=1)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
