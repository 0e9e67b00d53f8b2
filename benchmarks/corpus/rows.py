"""The rows of the corpus: two commits of a public repository, a call, and what is known of its speed.

A file of `rows/` holds the rows of one repository; `rows/upgrades.toml` those of packages from the index.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

FOLDER = Path(__file__).parent / "rows"
SMALLEST = 0.05  # change of the duration that counts as one to be found
# What the row's file says of all its rows, unless a row says otherwise.
_SHARED = ("repository", "path", "needs")


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two commits, or two versions of packages, and a function `call` that is timed."""

    name: str
    code: str  # a module with `call()`
    repository: str = ""  # address; "": of packages alone
    base: str = ""  # commits, 40 digits
    head: str = ""
    path: str = "."  # folders that come first where modules are looked for, separated by ":"
    needs: tuple[str, ...] = ()  # packages from the index, with their versions
    base_with: tuple[str, ...] = ()  # those of them that the baseline has in another version
    expected: Literal["slower", "faster", "equal", ""] = ""  # what head is against base; "": nobody knows
    ratio: float = 1.0  # duration of head / base, as `--tool=timing` found it
    functions: tuple[str, ...] = ()  # names under which the slower side's profile may name the cause
    claim: str = ""  # what the change says of itself
    because: str = ""  # why something else is expected than it says
    draw: int = 1  # 2: drawn after the gate's rules were fixed on the first draw

    @property
    def digest(self) -> str:
        """Return what tells this row from one whose commits or code were edited."""
        parts = (self.repository, self.base, self.head, self.path, *self.needs, *self.base_with, self.code)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]

    @property
    def is_changed(self) -> bool:
        return self.expected in ("slower", "faster")

    @property
    def change(self) -> float:
        """Return the change of the duration, in the direction in which it grows."""
        return max(self.ratio, 1 / self.ratio) - 1


def read(folder: Path = FOLDER) -> list[Row]:
    """Return all rows, ordered by file.

    Raises:
        ValueError: two rows have one name, or one is not of the form above.
    """
    rows = [row for path in sorted(folder.glob("*.toml")) for row in _of(tomllib.loads(path.read_text("utf-8")), path)]
    names = [row.name for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two rows are called {', '.join(twice)}")
    return rows


def _of(file: Mapping[str, Any], path: Path) -> list[Row]:
    shared = {name: file[name] for name in _SHARED if name in file}
    try:
        return [msgspec.convert({**shared, **row}, Row) for row in file["row"]]
    except (msgspec.ValidationError, KeyError) as error:
        raise ValueError(f"{path.name}: {error}") from error
