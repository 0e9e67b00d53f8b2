"""Both trees of a rerun: the candidate's, and the baseline's with the candidate's tests laid over it."""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Protocol

from pytest_hwperf.checkout.differences import changes_between, code_of_tree, is_same, joined, laid_over
from pytest_hwperf.checkout.git import git
from pytest_hwperf.checkout.ignored import check_compiled, is_compiled, named
from pytest_hwperf.checkout.isolation import Tree, check_isolation, is_of_tests, own_paths, python_path, translated
from pytest_hwperf.checkout.layer import Interpreter, installed_from
from pytest_hwperf.checkout.opened import check_opened, own_data
from pytest_hwperf.checkout.overlay import (
    Translation,
    candidate_ini,
    gone_tests,
    lay_over,
    remove_gone,
    share,
    spellings,
)
from pytest_hwperf.checkout.revision import resolve, revision_of, top_of
from pytest_hwperf.checkout.worktree import copy_of, fill_submodules, follow_links_out, lfs_pointers, worktree
from pytest_hwperf.host.files import read_file
from pytest_hwperf.host.launch import Command, PytestCommand, undisturbed
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.workdirs import PREFIX, private_folder
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import COMMIT_DIGITS, Side
from pytest_hwperf.records.text import visible
from pytest_hwperf.stats.affected import Changes
from pytest_hwperf.stats.changed_code import Xfails, xfails_of_file

_UNSEEN = "what these test files do themselves is not compared"
_LONGEST = 100  # characters of a command that is shown
_NO_CODE = (
    "nothing to compare: your tests import no code of this repository, so that only files that they read can differ; "
    "import the code, or install it with pip install -e"
)
_LARGEST = 10_000_000  # bytes of a test file
PREFIXES = tuple(dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """The candidate's tree, and the baseline's with the candidate's tests laid over it."""

    candidate: Path  # root of the user's own tree; only read
    baseline: Path  # root of a temporary tree
    revision: str  # commit of the baseline, "" for a folder
    shared: Mapping[str, str]  # file that the baseline was given → SHA-256
    changed: frozenset[Path] = frozenset()  # test files that are not the baseline's own, in the candidate's tree
    warnings: tuple[str, ...] = ()
    changes: Changes | None = None  # between both, where they were asked for
    laid: frozenset[str] = frozenset()  # the candidate's benchmark code that the baseline was given
    xfails: Mapping[Path, Xfails] = field(default_factory=dict)  # test file or conftest → what has an `xfail`
    origin: Path | None = None  # folder that the baseline is a copy of, without what git ignores there
    since: float = field(default_factory=time.time)  # instant at which they were there, in seconds since 1970


class LoadedFiles(Protocol):
    """What both sides have loaded and opened."""

    @property
    def files(self) -> Mapping[Side, Sequence[str]]:
        """Files of loaded modules and libraries."""

    @property
    def opened(self) -> Mapping[Side, Opened]:
        """Files that were opened."""


@contextmanager
def both_trees(
    root: Path, against: Path | str, files: Sequence[Path], globs: Sequence[str] = (), *, compares: bool = False
) -> Iterator[Trees]:
    """Make the baseline's tree for a git revision or a folder; it is gone afterwards."""
    here = root.resolve()
    if isinstance(against, Path):
        commit, top, tree = "", tree_of(here), copy_of(against)
    else:
        commit, top = resolve(here, against), top_of(here)
        tree = worktree(top, commit)
    with tree as baseline:
        warnings = [*fill_submodules(top, baseline), *_same_commit(top, commit)] if commit else []
        if links := follow_links_out(baseline, top):
            warnings.append(f"links lead out of the tree, so that both sides use the same there: {named(links)}")
        shared = share(globs, top, baseline) if globs else {}
        if pointers := lfs_pointers(baseline):
            remedy = f"; get it with `git lfs fetch origin {commit[:COMMIT_DIGITS]}`" if commit else ""
            warnings.append(f"not there in the baseline, only a git-LFS pointer: {named(pointers)}{remedy}")
        made = Trees(candidate=top, baseline=baseline, revision=commit, shared=shared, warnings=tuple(warnings))
        made = _with_tests(made, here, files, compares=compares)
        yield replace(made, origin=against.resolve() if isinstance(against, Path) else None, since=time.time())


def _with_tests(made: Trees, here: Path, files: Sequence[Path], *, compares: bool) -> Trees:
    """Lay the candidate's tests over the baseline, and note which of them are others there."""
    top, baseline, warnings = made.candidate, made.baseline, [*made.warnings]
    changed = frozenset(_changed(files, top, baseline))
    near = {path for file in files for path in _benchmark_code(file, top)}
    xfails = {path: _xfails(path, _moved(path, top, baseline)) for path in near}
    if changed:
        names = ", ".join(sorted(os.path.relpath(file, here) for file in changed))
        warnings.append(f"changed since the baseline, and run on both sides as now, so that {_UNSEEN}: {names}")
    if lost := gone_tests(top, baseline, files):
        warnings.append(f"measured by the baseline, and deleted or renamed since: {named(lost)}")
    if gone := remove_gone(top, baseline, files):
        changed |= {top / file for file in gone}
        warnings.append(f"not in your tree any more, and removed from the baseline's: {named(gone)}")
    found = changes_between(top, baseline) if compares else None
    laid = lay_over(top, baseline, files)
    made = replace(made, changes=laid_over(found, laid) if found else None, laid=frozenset(laid))
    return replace(made, changed=changed, xfails=xfails, warnings=tuple(warnings))


def commands(
    given: PytestCommand, trees: Trees, files: Sequence[Path], base_python: Interpreter | None
) -> dict[Side, Command]:
    """Return how each side is started: the same command, with every path of the tree translated for the baseline."""
    paths = own_paths(sys.path, trees.candidate, PREFIXES)
    inipath = None if given.inipath is None else given.inipath.parent.resolve() / given.inipath.name
    ini = [] if inipath is None else ["-c", str(inipath)]
    theirs = candidate_ini(inipath, trees.candidate, trees.baseline)
    moved = [str(_moved(file, trees.candidate, trees.baseline)) for file in files]
    candidate = _command(given, trees, trees.candidate, [*map(str, files), *ini, *given.neutral_with(None)], paths)
    own = [*moved, *theirs, *given.neutral_with(base_python.plugins if base_python else None)]
    baseline = _command(given, trees, trees.baseline, own, translated(paths, trees.candidate, trees.baseline))
    interpreter = base_python.path if base_python else sys.executable
    return {"candidate": candidate, "baseline": replace(baseline, interpreter=interpreter)}


def prove(trees: Trees, trace: LoadedFiles, files: Sequence[Path], *, own_interpreter: bool) -> list[str]:
    """Make sure that each side really ran its own code; return warnings about what says less than it seems."""
    if not trace.files:
        return []
    seen = check_isolation(
        trace.files["baseline"],
        trace.files["candidate"],
        trees.baseline,
        trees.candidate,
        test_files=files,
        prefixes=PREFIXES,
        own_interpreter=own_interpreter,
    )
    check_told(trace.opened, trees, files)
    if own_interpreter:
        check_compiled(trace.files, trees.candidate, trees.baseline, PREFIXES)
    elif installed := installed_from(trees.candidate):
        check_started(trace.opened, trees.baseline, installed)
    opened = check_opened(trace.opened, trees.candidate, trees.baseline, PREFIXES, trees.since)
    named_files = filter(None, [_own_helpers(trees, trace.files["candidate"]), same_code(trees, trace.files)])
    return [
        *([] if seen or own_interpreter else [_NO_CODE]),
        *opened,
        *named_files,
        *_not_seen_into(trees, trace.opened),
    ]


def check_started(opened: Mapping[Side, Opened], baseline: Path, installed: Sequence[str]) -> None:
    """Refuse processes of the baseline that would import the candidate's code by an editable install."""
    found = opened["baseline"].started if "baseline" in opened else {}
    if lost := [
        command for command, missing in found.items() if any(Path(one).is_relative_to(baseline) for one in missing)
    ]:
        raise UsageProblem(
            f"not comparable: a test starts `{visible(lost[0])}` without this process's PYTHONPATH. On both sides it "
            f"would import your tree's {' and '.join(installed)}, by the editable install. Start it with os.environ, "
            "or build the baseline in an environment of its own with -o hwperf_base_env=build"
        )


def check_told(opened: Mapping[Side, Opened], trees: Trees, files: Sequence[Path]) -> None:
    """Refuse programs of the baseline that are started in the candidate's tree, or told a path of it."""
    roots = spellings(trees.candidate, [os.environ.get("PWD", ""), *files])
    crossing = Translation(candidate=trees.candidate, other=trees.baseline, roots=roots, prefixes=PREFIXES)
    own = re.compile(rf"{re.escape(f'{private_folder()}{os.sep}{PREFIX}')}[^\s{os.pathsep}]*")  # may lie in the tree
    for command, texts in opened["baseline"].told.items() if "baseline" in opened else ():
        told = (text.replace(str(trees.baseline), "") for text in texts)  # which may lie there too
        left = {str(place): own.sub("", text) for place, text in enumerate(told)}
        if crossing.variables(left) != left:
            raise UsageProblem(
                f"not comparable: a test starts `{visible(command)}` in your tree, or with a path of it. On both sides "
                "it would use the present code. Give paths from the test's own file, as `Path(__file__).parent`"
            )


def _not_seen_into(trees: Trees, opened: Mapping[Side, Opened]) -> Iterator[str]:
    """Yield a warning about processes that may run code: of them is known only how they were started."""
    own = [
        command.replace(str(trees.baseline), str(trees.candidate))
        for side in opened.values()
        for command in side.started
    ]
    if commands := [f"`{visible(one)[:_LONGEST]}`" for one in dict.fromkeys(own)]:
        yield (
            "your tests or their packages start processes, and hwperf does not check what these load: "
            f"{named(commands)}. Make sure that they find files by `Path(__file__)`"
        )


def _own_helpers(trees: Trees, loaded: Sequence[str]) -> str:
    """Return a warning about modules beside the tests that differ, "" where none does: the rest of them is mirrored."""
    helpers = filter(lambda file: is_of_tests(PurePath(file).parent), code_of_tree(loaded, trees.candidate, PREFIXES))
    if files := [file for file in helpers if not is_same(trees.candidate / file, trees.baseline / file)]:
        return f"changed since the baseline, and each side runs its own: {named(files)}"
    return ""


def same_code(trees: Trees, loaded: Mapping[Side, Sequence[str]]) -> str:
    """Return a warning where the baseline has run compiled code that it was given by the candidate, "" elsewhere."""
    given = {str(trees.baseline.resolve() / file): file for file in trees.shared if is_compiled(file)}
    if files := [given[file] for file in loaded.get("baseline", ()) if file in given]:
        return f"shared with the baseline, so that both sides run the same compiled code of it: {', '.join(files)}"
    return ""


def with_leftovers(trees: Trees) -> Trees:
    """Return the same, with what processes have left in both trees as a further change, where it differs."""
    if trees.changes is None:
        return trees
    return replace(trees, changes=joined(trees.changes, changes_between(trees.candidate, trees.baseline)))


def xfails_of(trees: Trees, trace: LoadedFiles, files: Sequence[Path], nodes: Sequence[str]) -> Mapping[Path, Xfails]:
    """Return what has an `xfail`: test file → names around it.

    One in any other module that was loaded, such as a helper or a plugin, may mark every test: it counts to the
    `conftest.py` above all of them. So may a hook mark a test that a data file newly names.
    """
    above = trees.candidate / "conftest.py"
    found = trees.xfails.get(above, Xfails())
    for file in code_of_tree(trace.files.get("candidate", ()), trees.candidate, PREFIXES):
        path, then = trees.candidate / file, trees.baseline / file
        if path.suffix == ".py" and path.name != "conftest.py" and path not in files:
            is_new = file in trees.laid and path.name != "__init__.py"  # a helper is given where there was none
            found = found.joined(_xfails(path, Path(os.devnull) if is_new else then))
    every = {**trees.xfails, above: found}
    lines = _new_lines(trees, trace.opened["candidate"]) if "candidate" in trace.opened else b""
    for test in (node.partition("[")[0].partition("::")[2] for node in nodes):
        if test.rpartition("::")[2].encode() in lines:
            every |= {one: every.get(one, Xfails()).joined(Xfails(added=frozenset({test}))) for one in files}
    return every


def _new_lines(trees: Trees, opened: Opened) -> bytes:
    """Return the lines of data that the candidate has read and that the baseline's file does not have."""
    lines = set[bytes]()
    for file in own_data(opened, Tree(trees.candidate, PREFIXES, other=trees.baseline)):
        now, then = (_content(root / file) for root in (trees.candidate, trees.baseline))
        lines |= {*now.splitlines()} - {*then.splitlines()}
    return b"\n".join(lines)


def _content(file: Path) -> bytes:
    return read_file(file, _LARGEST) if file.is_file() and file.stat().st_size <= _LARGEST else b""


def loaded_code(trees: Trees, loaded: Mapping[Side, Sequence[str]]) -> dict[Side, list[str]]:
    """Return the code of its own tree that each side has loaded, relative to its root."""
    roots: Mapping[Side, Path] = {"candidate": trees.candidate, "baseline": trees.baseline}
    return {side: [*code_of_tree(files, roots[side], PREFIXES)] for side, files in loaded.items()}


def tree_of(here: Path) -> Path:
    """Return the root of the user's tree: that of its repository, or of the tests where there is none."""
    try:
        return top_of(here)
    except UsageProblem:
        return here


def _command(given: PytestCommand, trees: Trees, root: Path, own: Sequence[str], paths: Sequence[Path]) -> Command:
    """Start pytest in `root`; whatever names a path of the candidate's tree names that of `root`."""
    named = (given.environment.get("PWD", ""), given.directory, given.root)
    translation = Translation(
        candidate=trees.candidate, other=root, roots=spellings(trees.candidate, named), prefixes=PREFIXES
    )
    variables = translation.variables(undisturbed(given.environment))
    before = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [python_path(paths), *before]))
    directory = translation.path(given.directory)
    if not directory.is_dir():
        raise UsageProblem(
            f"the baseline has no folder {directory.relative_to(root)}, in which pytest was started: start it in one "
            "that both have"
        )
    return Command(
        arguments=[
            *map(translation.text, given.inherited),
            *own,
            f"--rootdir={translation.path(given.root)}",
            "--continue-on-collection-errors",
        ],
        directory=directory,
        environment=variables,
        keeps_cache=given.keeps_cache,
        deadline_s=given.deadline_s,
    )


def _same_commit(top: Path, commit: str) -> Iterator[str]:
    """Yield a warning where the present tree is the baseline's commit, without any change or new file."""
    now = revision_of(top)
    if now.commit == commit and not (now.changed or git(top, "status", "--porcelain").output):
        yield f"the present code is {commit[:COMMIT_DIGITS]} without changes: both sides run the same code"


def _xfails(candidate: Path, baseline: Path) -> Xfails:
    if not candidate.is_file():  # made and removed by a test, or since
        return Xfails()
    then = read_file(baseline, _LARGEST) if baseline.is_file() else b""
    return xfails_of_file(then, read_file(candidate, _LARGEST))


def _moved(path: Path, candidate: Path, baseline: Path) -> Path:
    # the folder resolved and not the file: a link keeps its name, and its test its id
    return baseline / path.parent.resolve().relative_to(candidate) / path.name


def _changed(files: Sequence[Path], candidate: Path, baseline: Path) -> Iterator[Path]:
    """Yield what of the benchmark code is not the baseline's own: changed test files, changed or new conftest files."""
    for file in files:
        for path in _benchmark_code(file, candidate):
            other = _moved(path, candidate, baseline)
            is_new = not other.is_file()
            if path.is_file() and (path != file if is_new else other.read_bytes() != path.read_bytes()):
                yield path


def _benchmark_code(file: Path, candidate: Path) -> list[Path]:
    """Return a test file and where its conftest files are."""
    folders = (folder for folder in file.parents if folder.resolve().is_relative_to(candidate))
    return [file, *(folder / "conftest.py" for folder in folders)]
