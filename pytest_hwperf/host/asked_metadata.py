"""What code of a process asks of the metadata of installed packages.

A package that is installed from a tree says there what that tree says: its version, its needs, its entry points.
"""

from collections.abc import Iterable
from types import FrameType

VERSION, NEEDS, WHOLE = "version", "requires", "metadata"  # what is asked, beside entry points
GROUP = "group:"  # before the name of a group of entry points; alone: all of them
FOLDERS = (".dist-info", ".egg-info")  # how the folder of a package's metadata ends
_ENTRY_POINTS = "entry_points.txt"
_FILES = ("METADATA", "PKG-INFO", _ENTRY_POINTS)
_READERS = frozenset({"importlib", "importlib_metadata", "pkg_resources", "pathlib", "zipp"})
_OF_PYTEST = frozenset({"pluggy", "_pytest", "pytest_hwperf"})  # ask every package for its plugins, in each process
_BY_FUNCTION = {"version": VERSION, "requires": NEEDS}
_PARAMETERS = "params"  # what `entry_points` calls its selection
_MOST = 1000


class AskedMetadata:
    """Notes files of metadata as they are read."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], None] = {}  # file, what is asked of it

    def note(self, path: str, callers: Iterable[FrameType]) -> None:
        """Note that a file is read, from the frame that does it outwards; not what pytest asks for itself."""
        if not path.endswith(_FILES) or not any(one in path for one in FOLDERS) or len(self._asked) >= _MOST:
            return
        what = GROUP if path.endswith(_ENTRY_POINTS) else WHOLE
        for frame in callers:
            package = str(frame.f_globals.get("__name__")).partition(".")[0]
            if package not in _READERS:
                if package not in _OF_PYTEST:
                    self._asked[path, what] = None
                return
            if what == WHOLE:
                what = _BY_FUNCTION.get(frame.f_code.co_name, what)
            elif what == GROUP and frame.f_code.co_name == "entry_points":
                what += _group_in(frame)

    def found(self) -> dict[str, tuple[str, ...]]:
        """Return file → what was asked of it."""
        asked = list(self._asked)
        return {path: tuple(what for one, what in asked if one == path) for path, _ in asked}


def _group_in(frame: FrameType) -> str:
    """Return the group that `entry_points` was asked for; "" where it is all of them."""
    given = frame.f_locals.get(_PARAMETERS)
    group = given.get("group") if type(given) is dict else None
    return group if type(group) is str else ""
