"""The proof that each side has run its own code: what it has loaded, compiled, opened and started."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path, PurePath

from pytest_hwperf.checkout.both import Translation
from pytest_hwperf.checkout.ignored import module_of
from pytest_hwperf.checkout.layer import is_from
from pytest_hwperf.checkout.opened import check_opened
from pytest_hwperf.checkout.trees import Tree, Trees, is_same
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.source_files import (
    SITES,
    SOURCES,
    installed_copies,
    is_compiled,
    is_of_tests,
    real_path,
)
from pytest_hwperf.host.workdirs import PREFIX, private_folder
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.text import named, shell_word, visible
from pytest_hwperf.stats.pairs.hypotheses import SIDES

Loaded = Mapping[Side, Sequence[str]]  # files of modules and libraries, links resolved

_LONGEST = 100  # characters of a command that is shown
_NO_SOURCES = frozenset({".py", ".pyi"})
_NO_CODE = (
    "nothing to compare: your tests import no code of this repository, so that only files that they read can differ; "
    "import the code, or install it with pip install -e"
)
_OWN_PYTHON = (
    "give --hwperf-base-python=PATH, the Python of an environment with the baseline installed, or have one built with "
    "-o hwperf_base_env=build"
)


def prove(
    trees: Trees, loaded: Loaded, opened: Mapping[Side, Opened], tests: Sequence[Path], *, own_interpreter: bool
) -> list[str]:
    """Make sure that each side really ran its own code; return warnings about what says less than it seems."""
    if not loaded:
        return []
    has_code = check_isolation(trees, loaded, tests, own_interpreter=own_interpreter)
    check_told(trees, opened, tests)
    if own_interpreter:
        check_compiled(trees, loaded)
    else:
        _check_started(trees, opened)
    return [
        *([] if has_code or own_interpreter else [_NO_CODE]),
        *check_opened(trees, opened),
        *_own_helpers(trees, loaded["candidate"]),
        *same_code(trees, loaded),
        *_not_seen_into(trees, opened),
    ]


def check_isolation(trees: Trees, loaded: Loaded, tests: Sequence[Path], *, own_interpreter: bool) -> bool:
    """Make sure that each side ran its own code: that of its tree, or with its own interpreter an installed one.

    Where neither side has loaded code of a tree and no package of the tree is installed either, the tests measure
    something else, such as a model file or a dependency, and nothing can be mixed up.
    """
    both: Mapping[Side, Tree] = {side: trees.tree(side) for side in SIDES}
    here, there = both["candidate"].root, both["baseline"].root
    if leaked := [*both["candidate"].own(loaded["baseline"])]:
        raise WorkerError(
            f"the baseline has loaded {here}{os.sep}{named(leaked, 1)} of the candidate's tree: its editable install "
            f"(by meson-python or scikit-build-core?) cannot be redirected to another one; {_OWN_PYTHON}"
        )
    laid = {real_path(file) for file in tests}
    laid |= {there / file.relative_to(here) for file in laid if both["candidate"].holds(file)}
    own = {side: any(both[side].has_code(PurePath(file), laid) for file in loaded[side]) for side in SIDES}
    if all(own.values()):
        return True
    installed = installed_copies(loaded["candidate"], here)
    theirs = installed_copies(loaded["baseline"], here)
    if shared := installed.keys() & theirs.keys():
        package = min(shared)
        raise WorkerError(
            f"the package under test is imported from {package}, not from either tree; "
            f"install it with `pip install -e {shell_word(str(installed[package]))}`, or {_OWN_PYTHON}"
        )
    if own_interpreter and (own["candidate"] or installed) and (own["baseline"] or theirs):
        return True
    if any(own.values()) and not own_interpreter:
        side: Side = "candidate" if own["baseline"] else "baseline"
        raise WorkerError(
            f"the {side} has loaded no code of its own tree {both[side].root}, but the other side has; "
            f"install it with `pip install -e {shell_word(str(here))}`, or {_OWN_PYTHON}"
        )
    return False


def check_compiled(trees: Trees, loaded: Loaded) -> None:
    """Refuse a compiled module that one side has loaded, and the other not although its tree has the source of it."""
    if len(loaded) < len(SIDES):
        return
    modules = {side: dict(_modules(loaded[side], trees.tree(side))) for side in SIDES}
    for side, other in (SIDES, SIDES[::-1]):
        missing = modules[side].keys() - modules[other].keys()
        if files := sorted(modules[side][one] for one in missing if _is_source_in(trees.root(other), one)):
            place = "the environment of the baseline" if other == "baseline" else "the present tree"
            raise UsageProblem(
                f"{named(files)}: compiled, and loaded by the {side} only, so that the {other} would run other code, "
                f"such as pure Python: build it in {place} too, as by `pip install -e .`"
            )


def _modules(files: Sequence[str], tree: Tree) -> Iterator[tuple[PurePath, str]]:
    """Yield the compiled modules of a tree or of an environment, as paths without suffix, and their files."""
    for file in filter(is_compiled, files):
        path = PurePath(file)
        site = next((folder for folder in path.parents if folder.name in SITES), None)
        if site is not None:
            relative = path.relative_to(site)
        elif tree.holds(path):
            relative = path.relative_to(tree.root)
            relative = PurePath(*relative.parts[1:]) if relative.parts[0] in SOURCES else relative
        else:
            continue
        yield relative.with_name(module_of(file)), file


def _is_source_in(root: Path, module: PurePath) -> bool:
    """Whether a tree has what the module is compiled from, beside where it would lie."""
    folders = (root / place / module.parent for place in ("", *SOURCES))
    found = (path for folder in folders if folder.is_dir() for path in folder.glob(f"{module.name}.*"))
    return any(path.suffix not in _NO_SOURCES and not is_compiled(path.name) for path in found)


def _check_started(trees: Trees, opened: Mapping[Side, Opened]) -> None:
    """Refuse processes of the baseline that would import the candidate's code by an editable install."""
    found = opened["baseline"].started if "baseline" in opened else {}
    lost = [one for one, missing in found.items() if any(Path(path).is_relative_to(trees.baseline) for path in missing)]
    installed = sorted({package.name for package in distributions() if is_from(package, trees.candidate)})
    if lost and installed:
        raise UsageProblem(
            f"not comparable: a test starts `{visible(lost[0])}` without this process's PYTHONPATH. On both sides it "
            f"would import your tree's {' and '.join(installed)}, by the editable install. Start it with os.environ, "
            "or build the baseline in an environment of its own with -o hwperf_base_env=build"
        )


def check_told(trees: Trees, opened: Mapping[Side, Opened], tests: Sequence[Path]) -> None:
    """Refuse programs of the baseline that are started in the candidate's tree, or told a path of it."""
    crossing = Translation(trees.candidate, trees.baseline, [os.environ.get("PWD", ""), *tests])
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
    started = (command for side in opened.values() for command in side.started)
    own = dict.fromkeys(one.replace(str(trees.baseline), str(trees.candidate)) for one in started)
    if commands := [f"`{visible(one)[:_LONGEST]}`" for one in own]:
        yield (
            "your tests or their packages start processes, and hwperf does not check what these load: "
            f"{named(commands)}. Make sure that they find files by `Path(__file__)`"
        )


def _own_helpers(trees: Trees, loaded: Sequence[str]) -> Iterator[str]:
    """Yield a warning about modules beside the tests that differ, if any does: the rest of them is mirrored."""
    helpers = (file for file in trees.tree("candidate").own(loaded) if is_of_tests(PurePath(file).parent))
    if files := [file for file in helpers if not is_same(trees.candidate / file, trees.baseline / file)]:
        yield f"changed since the baseline, and each side runs its own: {named(files)}"


def same_code(trees: Trees, loaded: Loaded) -> Iterator[str]:
    """Yield a warning where the baseline has run compiled code that it was given by the candidate."""
    given = {str(trees.baseline.resolve() / file): file for file in trees.shared if is_compiled(file)}
    if files := [given[file] for file in loaded.get("baseline", ()) if file in given]:
        yield f"shared with the baseline, so that both sides run the same compiled code of it: {', '.join(files)}"
