"""The baseline's tree with the candidate's tests laid over it, and how each side is started in its own."""

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pytest_hwperf.checkout.git import git
from pytest_hwperf.checkout.layer import Interpreter
from pytest_hwperf.checkout.linked_tests import given_place
from pytest_hwperf.checkout.opened import own_data
from pytest_hwperf.checkout.overlay import candidate_ini, gone_tests, lay_over, place_in, remove_gone, share
from pytest_hwperf.checkout.revision import resolve, revision_of, top_of
from pytest_hwperf.checkout.trees import PREFIXES, Trees, changes_between, own_paths, translated
from pytest_hwperf.checkout.worktree import (
    copy_of,
    fill_submodules,
    follow_links_out,
    is_environment,
    lfs_pointers,
    worktree,
)
from pytest_hwperf.host.files import read_file
from pytest_hwperf.host.launch import Command, PytestCommand, undisturbed
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import COMMIT_DIGITS, Side
from pytest_hwperf.records.text import named
from pytest_hwperf.stats.causes.changed_code import Xfails, xfails_of_file

_UNSEEN = "what these test files do themselves is not compared"
_LARGEST = 10_000_000  # bytes of a test file


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
    near = {path: _moved(path, made) for file in files for path in _benchmark_code(file, top)}
    present = {path: then for path, then in near.items() if path.is_file() and (then.is_file() or path not in files)}
    changed = {path for path, then in present.items() if not then.is_file() or then.read_bytes() != path.read_bytes()}
    xfails = {path: _xfails(path, then) for path, then in near.items()}
    if changed:
        names = ", ".join(sorted(os.path.relpath(file, here) for file in changed))
        warnings.append(f"changed since the baseline, and run on both sides as now, so that {_UNSEEN}: {names}")
    if lost := gone_tests(top, baseline, files):
        warnings.append(f"measured by the baseline, and deleted or renamed since: {named(lost)}")
    if gone := remove_gone(top, baseline, files):
        changed |= {top / file for file in gone}
        warnings.append(f"not in your tree any more, and removed from the baseline's: {named(gone)}")
    found = changes_between(top, baseline) if compares else None
    laid = frozenset(lay_over(top, baseline, files))
    return replace(
        made,
        changes=found and replace(found, laid_over=found.files & laid),
        laid=laid,
        changed=frozenset(changed),
        xfails=xfails,
        warnings=tuple(warnings),
    )


def with_leftovers(trees: Trees) -> Trees:
    """Return the same, with what processes have left in both trees as a further change, where it differs."""
    if trees.changes is None:
        return trees
    before, now = trees.changes, changes_between(trees.candidate, trees.baseline)
    joined = replace(
        before,
        changed={**now.changed, **before.changed},
        other=now.other | before.other,
        only={**now.only, **before.only},
        folders=now.folders | before.folders,
    )
    return replace(trees, changes=joined)


def tree_of(here: Path) -> Path:
    """Return the root of the user's tree: that of its repository, or of the tests where there is none."""
    try:
        return top_of(here)
    except UsageProblem:
        return here


def _same_commit(top: Path, commit: str) -> Iterator[str]:
    """Yield a warning where the present tree is the baseline's commit, without any change or new file."""
    now = revision_of(top)
    if now.commit == commit and not (now.changed or git(top, "status", "--porcelain").output):
        yield f"the present code is {commit[:COMMIT_DIGITS]} without changes: both sides run the same code"


def with_ini(trees: Trees, inipath: Path | None) -> Trees:
    """Give the baseline the candidate's ini file. Call it once: it may overwrite the baseline's own."""
    given = candidate_ini(inipath and _real(inipath), trees.candidate, trees.baseline)
    return replace(trees, ini=tuple(given))


def _real(path: Path) -> Path:
    # the folder resolved and not the file: a link keeps its name, and its test its id
    return path.parent.resolve() / path.name


def _moved(path: Path, trees: Trees) -> Path:
    return trees.baseline / place_in(path, trees.candidate)


def _as_given(file: Path, trees: Trees) -> Path:
    """Return the same test file of the baseline, through the links by which it was given: they are part of its id."""
    place = given_place(file, trees.candidate)
    return _moved(file, trees) if place is None else trees.baseline / place


def _benchmark_code(file: Path, candidate: Path) -> list[Path]:
    folders = (folder for folder in file.parents if folder.resolve().is_relative_to(candidate))
    return [file, *(folder / "conftest.py" for folder in folders)]


def xfails_of(
    trees: Trees,
    loaded: Mapping[Side, Sequence[str]],
    opened: Mapping[Side, Opened],
    files: Sequence[Path],
    nodes: Sequence[str],
) -> Mapping[Path, Xfails]:
    """Return what has an `xfail`: test file → names around it.

    One in any other module that was loaded, such as a helper or a plugin, may mark every test: it counts to the
    `conftest.py` above all of them. So may a hook mark a test that a data file newly names.
    """
    above = trees.candidate / "conftest.py"
    found = trees.xfails.get(above, Xfails())
    for file in trees.tree("candidate").own(loaded.get("candidate", ())):
        path, then = trees.candidate / file, trees.baseline / file
        if path.suffix == ".py" and path.name != "conftest.py" and path not in files:
            is_new = file in trees.laid and path.name != "__init__.py"  # a helper is given where there was none
            found = found.joined(_xfails(path, Path(os.devnull) if is_new else then))
    every = {**trees.xfails, above: found}
    lines = _new_lines(trees, opened["candidate"]) if "candidate" in opened else b""
    for test in (node.partition("[")[0].partition("::")[2] for node in nodes):
        if test.rpartition("::")[2].encode() in lines:
            every |= {one: every.get(one, Xfails()).joined(Xfails(added=frozenset({test}))) for one in files}
    return every


def _xfails(candidate: Path, baseline: Path) -> Xfails:
    if not candidate.is_file():  # made and removed by a test, or since
        return Xfails()
    then = read_file(baseline, _LARGEST) if baseline.is_file() else b""
    return xfails_of_file(then, read_file(candidate, _LARGEST))


def _new_lines(trees: Trees, opened: Opened) -> bytes:
    """Return the lines of data that the candidate has read and that the baseline's file does not have."""
    lines = set[bytes]()
    for file in own_data(opened, trees.tree("candidate")):
        now, then = (_content(root / file) for root in (trees.candidate, trees.baseline))
        lines |= {*now.splitlines()} - {*then.splitlines()}
    return b"\n".join(lines)


def _content(file: Path) -> bytes:
    return read_file(file, _LARGEST) if file.is_file() and file.stat().st_size <= _LARGEST else b""


def commands(
    given: PytestCommand, trees: Trees, files: Sequence[Path], base_python: Interpreter | None
) -> dict[Side, Command]:
    """Return how each side is started: the same command, with every path of the tree translated for the baseline."""
    paths = own_paths(given.path, trees.candidate)
    ini = [] if given.inipath is None else ["-c", str(_real(given.inipath))]
    moved = [str(_as_given(file, trees)) for file in files]
    candidate = _command(given, trees, trees.candidate, [*map(str, files), *ini, *given.neutral_with(None)], paths)
    own = [*moved, *trees.ini, *given.neutral_with(base_python.plugins if base_python else None)]
    baseline = _command(given, trees, trees.baseline, own, translated(paths, trees.candidate, trees.baseline))
    interpreter = base_python.path if base_python else sys.executable
    return {"candidate": candidate, "baseline": replace(baseline, interpreter=interpreter)}


def _command(given: PytestCommand, trees: Trees, root: Path, own: Sequence[str], paths: Sequence[Path]) -> Command:
    """Start pytest in `root`; whatever names a path of the candidate's tree names that of `root`."""
    translation = Translation(trees.candidate, root, (given.environment.get("PWD", ""), given.directory, given.root))
    variables = translation.variables(undisturbed(given.environment))
    before = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    variables["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *before])
    directory = translation.path(given.directory)
    if not directory.is_dir():
        raise UsageProblem(
            f"the baseline has no folder {directory.relative_to(root)}, in which pytest was started: start it in one "
            "that both have"
        )
    rootdir = f"--rootdir={translation.path(given.root)}"
    return Command(
        arguments=[*map(translation.text, given.inherited), *own, rootdir, "--continue-on-collection-errors"],
        directory=directory,
        environment=variables,
        keeps_cache=given.keeps_cache,
        deadline_s=given.deadline_s,
    )


_HOMES = frozenset({"HOME", "USERPROFILE"})  # whose settings the baseline needs too, also where they hold the tree
_END = rf"(?=[{re.escape(os.sep + os.pathsep)}\s'\",;)\]}}]|$)"  # /home/me/project2 is not below /home/me/project
_REST = re.compile(rf"[^{re.escape(os.pathsep)}\s'\",;)\]}}]*")  # of a path within a text
_BREAK = re.compile(rf"[{re.escape(os.pathsep)}\s'\",;=(\[{{]")  # before a path within a text


class Translation:
    """Paths of the candidate's tree as paths of the other one; environments within the tree stay where they are."""

    def __init__(self, candidate: Path, other: Path, given: Iterable[str | Path]) -> None:
        """Translate for who reads `other`; the candidate's own tree leaves everything as it is.

        The root of the candidate, whose links are resolved, is known as it is written in `given` paths too.
        """
        self.candidate, self.other = candidate, other
        self.roots = [str(candidate), *(root for path in given if (root := _spelled(candidate, Path(path))))]
        real = [Path(os.path.realpath(prefix)) for prefix in PREFIXES]  # one around the tree, as /usr, says nothing
        self._inner = [one for one in real if one != candidate and one.is_relative_to(candidate)]

    def text(self, text: str) -> str:
        """Return a text with every path of the tree translated, wherever it stands."""
        roots = "|".join(re.escape(root) for root in sorted(self.roots, key=len, reverse=True))
        return re.sub(f"(?:{roots}){_END}", self._replaced, text)

    def path(self, path: Path) -> Path:
        """Return a path of the tree in the other one, whatever it is; one outside of it as it is, links resolved."""
        real = path.resolve()
        return self.other / real.relative_to(self.candidate) if real.is_relative_to(self.candidate) else real

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return environment variables with every path of the tree translated, also one that a link leads to."""
        moved = {} if self.other == self.candidate else {name: variables[name] for name in variables.keys() - _HOMES}
        entries = {name: self.text(value).split(os.pathsep) for name, value in moved.items()}
        return {**variables, **{name: os.pathsep.join(map(self._linked, found)) for name, found in entries.items()}}

    def _linked(self, entry: str) -> str:
        """Translate a path outside of both trees that leads into the candidate's."""
        path = Path(entry)
        if not path.is_absolute() or path.is_relative_to(self.candidate) or path.is_relative_to(self.other):
            return entry
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.candidate) or not self._is_moved(real.relative_to(self.candidate)):
            return entry
        return str(self.other / real.relative_to(self.candidate))

    def _replaced(self, found: re.Match[str]) -> str:
        before = _BREAK.split(found.string[: found.start()])[-1]
        rest = _REST.match(found.string, found.end())
        relative = Path((rest.group() if rest else "").strip(os.sep))
        is_longer = before.startswith(os.sep) and os.path.exists(before + found.group())  # noqa: PTH110 - a text, no path
        if (is_longer and before.strip(os.sep)) or not self._is_moved(relative):
            return found.group()
        return str(self.other)

    def _is_moved(self, relative: Path) -> bool:
        """Whether a path below the root is one of the tree, and not of an environment or a tool that keeps it there."""
        path = self.candidate / relative
        if any(path.is_relative_to(one) for one in self._inner):
            return False
        folders = (self.candidate / folder for folder in (relative, *relative.parents) if folder.parts)
        if any(is_environment(folder) for folder in folders):
            return False
        hidden = relative.parts[:1]
        return not hidden or not hidden[0].startswith(".") or os.path.lexists(self.other / hidden[0])


def _spelled(candidate: Path, path: Path) -> str:
    """Return how the root of the tree is written in a path within it; "" for any other path."""
    real = Path(os.path.realpath(path))
    if not (path.is_absolute() and real.is_relative_to(candidate)):
        return ""
    depth = len(real.relative_to(candidate).parts)
    root = Path(path, "x").parents[depth] if depth < len(path.parts) else path
    return str(root) if os.path.realpath(root) == str(candidate) else ""
