"""What names files of the candidate's tree, as the baseline has to read it: environment values, options, folders."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.trees.worktree import is_environment

_HOMES = frozenset({"HOME", "USERPROFILE"})  # whose settings the baseline needs too, also where they hold the tree
_END = rf"(?=[{re.escape(os.sep + os.pathsep)}\s'\",;)\]}}]|$)"  # /home/me/project2 is not below /home/me/project
_REST = re.compile(rf"[^{re.escape(os.pathsep)}\s'\",;)\]}}]*")  # of a path within a text
_BREAK = re.compile(rf"[{re.escape(os.pathsep)}\s'\",;=(\[{{]")  # before a path within a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """Paths of the candidate's tree as paths of the other one; environments within the tree stay where they are."""

    candidate: Path  # root, links resolved
    other: Path  # root of the tree of the side that reads it; the candidate's own leaves everything as it is
    roots: Sequence[str]  # the spellings of the candidate's root, that with links resolved first
    prefixes: Sequence[str]  # of environments that both sides use

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
        return {name: value if name in _HOMES else self._value(value) for name, value in variables.items()}

    def _value(self, value: str) -> str:
        if self.other == self.candidate:
            return value
        return os.pathsep.join(map(self._linked, self.text(value).split(os.pathsep)))

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
        if any(path.is_relative_to(os.path.realpath(one)) for one in self._inner):
            return False
        folders = (self.candidate / folder for folder in (relative, *relative.parents) if folder.parts)
        if any(is_environment(folder) for folder in folders):
            return False
        hidden = relative.parts[:1]
        return not hidden or not hidden[0].startswith(".") or os.path.lexists(self.other / hidden[0])

    @property
    def _inner(self) -> Iterator[str]:
        """Yield the prefixes that lie within the tree; one around it, such as /usr, says nothing."""
        for prefix in self.prefixes:
            real = Path(os.path.realpath(prefix))
            if real != self.candidate and real.is_relative_to(self.candidate):
                yield str(real)


def spellings(candidate: Path, given: Iterable[str | Path]) -> list[str]:
    """Return how the root of the tree is written: with links resolved, and as in `given` paths within it."""
    found = [str(candidate)]
    for path in map(Path, given):
        real = Path(os.path.realpath(path))
        if path.is_absolute() and real.is_relative_to(candidate):
            depth = len(real.relative_to(candidate).parts)
            root = Path(path, "x").parents[depth] if depth < len(path.parts) else path
            if os.path.realpath(root) == str(candidate):
                found.append(str(root))
    return list(dict.fromkeys(found))
