"""Compiled modules of sides that have an environment each: one side may run them, and the other its pure Python."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Side
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.trees.ignored import is_compiled, named
from pytest_hwperf.trees.isolation import SITES, SOURCES, Tree

_NO_SOURCES = frozenset({".py", ".pyi"})


def check_compiled(
    loaded: Mapping[Side, Sequence[str]], candidate: Path, baseline: Path, prefixes: Sequence[str]
) -> None:
    """Refuse a compiled module that one side has loaded, and the other not although its tree has the source of it."""
    if len(loaded) < len(SIDES):
        return
    roots: Mapping[Side, Path] = {"candidate": candidate, "baseline": baseline}
    modules = {side: dict(_modules(loaded[side], Tree(roots[side], prefixes))) for side in SIDES}
    for side, other in (SIDES, SIDES[::-1]):
        missing = modules[side].keys() - modules[other].keys()
        if files := sorted(modules[side][one] for one in missing if _is_source_in(roots[other], one)):
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
        yield relative.with_name(relative.name.partition(".")[0]), file


def _is_source_in(root: Path, module: PurePath) -> bool:
    """Whether a tree has what the module is compiled from, beside where it would lie."""
    folders = (root / place / module.parent for place in ("", *SOURCES))
    found = (path for folder in folders if folder.is_dir() for path in folder.glob(f"{module.name}.*"))
    return any(path.suffix not in _NO_SOURCES and not is_compiled(path.name) for path in found)
