"""The gate on projects of others: releases between which a speed is known to have changed, or not to.

    python -m benchmarks strangers --equal=5

The source distributions of two releases become two commits of a repository, from an index of packages in reach. Its
environment is a fresh one, with the project installed from that repository and this package. Each project is gated
forwards, backwards, and against itself. The texts of the table say what is known of the change from elsewhere.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import arms, tables
from benchmarks.gate.releases import source
from benchmarks.projects import ROOT, commit, git

_LONGEST_S = 1800
_TEST = "test_measured_here.py"
_KEPT = {".git", _TEST}
_EQUAL = ("equivalent", "inconclusive")  # a comparison need not decide that nothing has changed
_EXPECTED: Mapping[str, Mapping[str, Sequence[str]]] = {  # what is known of the later release → direction → outcomes
    "faster": {"forwards": ("improved",), "backwards": ("regressed",), "equal": _EQUAL},
    "same": {"forwards": _EQUAL, "backwards": _EQUAL, "equal": _EQUAL},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Two releases of a package, and a call of it."""

    package: str
    releases: tuple[str, str]  # the earlier one, the later one
    known: str  # of the later one: "faster" or "same"
    by: str  # as its authors, or measurements elsewhere, say
    test: str
    needs: Sequence[str] = ()
    arguments: Sequence[str] = field(default=())  # of pytest


PROJECTS: Mapping[str, Project] = {
    "packaging requirements": Project(
        package="packaging",
        releases=("25.0", "26.0"),
        known="faster",
        by="×2.2",
        test="""
from packaging.requirements import Requirement

TEXTS = ["requests [security,tests] >= 2.8.1, == 2.8.* ; python_version < '2.7'", "name>=1,<2", "a @ https://b/c.zip"]


def test_requirements(hwperf):
    hwperf(lambda: [Requirement(text) for text in TEXTS])
""",
    ),
    "packaging versions": Project(
        package="packaging",
        releases=("26.0rc2", "26.0rc3"),
        known="faster",
        by="8 to 10 %",
        test="""
from packaging.version import Version

TEXTS = ["1.0.0", "2.3.4.0", "1.2.3rc1", "0.0.1.dev3+local.7", "2026.1.0"] * 4


def test_versions(hwperf):
    hwperf(lambda: [Version(text)._key for text in TEXTS])
""",
    ),
    "onnx-ir": Project(
        package="onnx-ir",
        releases=("0.1.13", "0.1.14"),
        known="faster",
        by="66 %",
        test="""
import onnx_ir


def test_op_identifier(hwperf):
    node = onnx_ir.Node("", "Add", [])
    hwperf(lambda: [node.op_identifier() for _ in range(100)])
""",
    ),
    "markdown-it-py": Project(
        package="markdown-it-py",
        releases=("4.0.0", "4.1.0"),
        known="faster",
        by="0.28 to 0.13 s, and 90 to 21 MB at the peak",
        test="""
from markdown_it import MarkdownIt


def test_emphasis(hwperf):
    hwperf(MarkdownIt().render, "a" + "_b" * 6000)
""",
    ),
    "sqlglot": Project(
        package="sqlglot",
        releases=("30.10.0", "30.11.0"),
        known="faster",
        by="24 to 35 %",
        test="""
from pathlib import Path

import pytest
import sqlglot
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

TEXT = Path(__file__).with_name("tests").joinpath("fixtures", "optimizer", "tpc-h", "tpc-h.sql").read_text()
QUERIES = [sqlglot.parse_one(one) for one in TEXT.split(";")[:20:2] if "select" in one.lower()]
TABLES = {
    "lineitem": "l_orderkey l_partkey l_suppkey l_linenumber l_quantity l_extendedprice l_discount l_tax l_returnflag "
    "l_linestatus l_shipdate l_commitdate l_receiptdate l_shipinstruct l_shipmode l_comment",
    "orders": "o_orderkey o_custkey o_orderstatus o_totalprice o_orderdate o_orderpriority o_clerk o_shippriority "
    "o_comment",
    "customer": "c_custkey c_name c_address c_nationkey c_phone c_acctbal c_mktsegment c_comment",
    "part": "p_partkey p_name p_mfgr p_brand p_type p_size p_container p_retailprice p_comment",
    "supplier": "s_suppkey s_name s_address s_nationkey s_phone s_acctbal s_comment",
    "partsupp": "ps_partkey ps_suppkey ps_availqty ps_supplycost ps_comment",
    "nation": "n_nationkey n_name n_regionkey n_comment",
    "region": "r_regionkey r_name r_comment",
}


def test_qualify(hwperf):
    schema = MappingSchema({name: dict.fromkeys(columns.split(), "int") for name, columns in TABLES.items()})
    hwperf(lambda: [qualify(query.copy(), schema=schema) for query in QUERIES])
""",
    ),
    "pyod": Project(
        package="pyod",
        releases=("3.5.0", "3.5.1"),
        known="same",
        by="0.21 and 0.22 s: the function is compiled by numba",
        test="""
import numpy as np
from pyod.models.sos import SOS

ROWS = np.random.default_rng(0).normal(size=(200, 5))


def test_sos(hwperf):
    SOS().fit(ROWS)
    hwperf(lambda: SOS().fit(ROWS))
""",
        needs=("numba",),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A project that can be gated."""

    project: Project
    tree: Path
    commits: Sequence[str]  # the earlier one, the later one
    python: Path


def main() -> None:
    """Gate the projects one after the other, and print what was found."""
    parser = arms.parser(__doc__, "strangers.jsonl")
    parser.add_argument("--projects", nargs="+", choices=PROJECTS, default=[*PROJECTS])
    parser.add_argument("--equal", type=int, default=1, help="builds of equal code for each project")
    asked = parser.parse_args()
    ways = [("forwards", 0), ("backwards", 0), *(("equal", number) for number in range(asked.equal))]
    turns = [{"project": name, "direction": way, "round": n} for name in asked.projects for way, n in ways]
    with tempfile.TemporaryDirectory() as folder:
        ready = cache(lambda name: _ready(PROJECTS[name], Path(folder) / name))  # by the first build
        records = arms.run(asked, turns, lambda turn: _gated(ready(turn["project"]), turn["direction"]))
    rows = (
        (
            one["project"],
            PROJECTS[one["project"]].by,
            *(one[key] for key in ("direction", "found", "change", "seconds")),
        )
        for one in records
    )
    print(tables.markdown(("project", "known", "direction", "found", "median", "s"), rows))


def _ready(project: Project, folder: Path) -> Ready:
    """Make the repository of a project, and an environment with it and with this package."""
    tree = folder / "tree"
    commits = _committed(project, folder, tree)
    _run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    _run(python, "-m", "pip", "install", "-q", "--editable", tree, ROOT, *project.needs)
    return Ready(project=project, tree=tree, commits=commits, python=python)


def _gated(ready: Ready, direction: str) -> dict[str, object]:
    """Gate in one direction; return the outcome, the change and the seconds."""
    early, late = ready.commits
    base, head = {"forwards": (early, late), "backwards": (late, early), "equal": (late, late)}[direction]
    git(ready.tree, "checkout", "-q", "--force", head)
    began = time.monotonic()
    outcome, change = _gate(ready.project, ready.python, ready.tree, base)
    wanted = _EXPECTED[ready.project.known][direction]
    told = outcome if outcome in wanted else f"{outcome}, not {' or '.join(wanted)}"
    return {"found": told, "change": change, "seconds": round(time.monotonic() - began)}


def _committed(project: Project, folder: Path, tree: Path) -> list[str]:
    """Make a repository whose two commits are the releases, each with the test."""
    tree.mkdir(parents=True)
    commits = []
    for release in project.releases:
        unpacked = source(project.package, release, folder)
        for path in tree.iterdir():
            if path.name not in _KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(unpacked, tree, dirs_exist_ok=True, symlinks=True)
        commits.append(commit(tree, {_TEST: project.test}, "--force"))
    return commits


def _gate(project: Project, python: Path, tree: Path, base: str) -> tuple[str, str]:
    """Gate the present commit against another one; return the outcome and the change of the median latency."""
    report = tree.parent / "report.json"
    report.unlink(missing_ok=True)
    asked = [f"--hwperf-against={base}", f"--hwperf-report={report}", "--hwperf-energy=off", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [python, "-m", "pytest", "-q", _TEST, *asked, *project.arguments],
        cwd=tree,
        check=False,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
    )
    if not report.exists():
        return f"exit code {done.returncode}", " ".join((done.stdout + done.stderr)[-200:].split())
    judgements = json.loads(report.read_text(encoding="utf-8"))["report"]["judgements"]
    subjects = [verdict["subject"] for judgement in judgements for verdict in judgement["verdicts"]]
    found = [one for one in subjects if "outcome" in one and _is_median(one)]
    if not found:
        return f"exit code {done.returncode}", " ".join(done.stdout[-200:].split())
    return found[0]["outcome"], _change(found[0])


def _is_median(comparison: Mapping[str, Any]) -> bool:
    return (comparison["metric"], comparison["statistic"]) == ("latency", "p50")


def _change(comparison: Mapping[str, Any]) -> str:
    change = comparison["change"]
    if change is None:
        return str(comparison["cause"])
    ends = ("?" if end is None else f"{100 * end:+.1f}" for end in (change["low"], change["high"]))
    return f"{100 * change['value']:+.1f} % ({' .. '.join(ends)})"


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
