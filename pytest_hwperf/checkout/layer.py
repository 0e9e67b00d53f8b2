"""A virtual environment over this one: what is installed in it comes first, and what this one has stays visible."""

import json
import os
import site
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pytest_hwperf.host.files import read_text
from pytest_hwperf.host.launch import run_to_end
from pytest_hwperf.records.errors import WorkerError

_BELOW = "hwperf-below.pth"  # leads from the new environment to this one
_LARGEST = 1 << 20  # bytes of a file that is read here


def make_layer(folder: Path, root: Path) -> Path:
    """Make an environment over this one in `folder`; return its interpreter.

    What this environment has from the tree of `root`, such as an editable install of the project, is not in it.
    """
    try:
        venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(folder)
        lines = list(_lines_below(_sites(), root))
        (site_of(folder) / _BELOW).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise WorkerError(f"no virtual environment can be made in {folder}: {error}") from error
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def site_of(folder: Path) -> Path:
    """Return where the packages of a virtual environment lie."""
    return Path(sysconfig.get_path("purelib", "venv", vars={"base": str(folder), "platbase": str(folder)}))


def packages_of(folder: Path) -> dict[str, str]:
    """Return name → version of what is installed in that environment itself."""
    return {one.name: one.version for one in distributions(path=[str(site_of(folder))])}


def packages_here(root: Path) -> dict[str, str]:
    """Return name → version of what this environment has, but for the project of the tree of `root`."""
    found = dict[str, str]()
    for package in distributions():
        if not is_from(package, root):
            found.setdefault(package.name, package.version)  # what comes later is hidden by it
    return found


def is_from(package: Distribution, root: Path) -> bool:
    """Whether a package was installed from a folder of the tree, by what pip notes of that (PEP 610)."""
    return source_of(package, root) is not None


def installed_from(root: Path) -> list[str]:
    """Return the names of what was installed from the tree."""
    return sorted({package.name for package in distributions() if is_from(package, root)})


def source_of(package: Distribution, root: Path) -> Path | None:
    """Return the folder of the tree that a package was installed from; None for any other package."""
    with suppress(OSError, ValueError, AttributeError):  # a damaged note is none
        url = urlsplit(json.loads(package.read_text("direct_url.json") or "{}").get("url", ""))
        folder = Path(os.path.realpath(unquote(url.path)))
        if url.scheme == "file" and folder.is_relative_to(root.resolve()):
            return folder
    return None


def _sites() -> list[Path]:
    """Return the folders of this interpreter in which packages lie."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(), *user)
    return [Path(folder) for folder in dict.fromkeys(found) if Path(folder).is_dir()]


def _lines_below(sites: Sequence[Path], root: Path) -> Iterator[str]:
    """Yield lines of a .pth file that give what these folders give, without what belongs to the tree."""
    for folder in sites:
        yield str(folder)
        packages = (package for package in distributions(path=[str(folder)]) if is_from(package, root))
        own = {str(path) for package in packages for path in package.files or ()}
        for file in sorted(folder.glob("*.pth")):
            if file.name not in own:
                yield from _lines_of(file, root)


def _lines_of(file: Path, root: Path) -> Iterator[str]:
    """Yield the lines of a .pth file: of paths those that are folders outside of the tree."""
    for line in map(str.rstrip, read_text(file).splitlines()):
        if line.startswith(("import ", "import\t")):
            yield line
        elif line and not line.startswith("#"):
            path = Path(os.path.realpath(file.parent / line))
            if path.is_dir() and not path.is_relative_to(root.resolve()):
                yield str(path)


def name_of_interpreter() -> str:
    """Return what tells interpreters apart: an environment is made for one of them."""
    return f"{os.path.realpath(sys.executable)} {sys.version}"


_QUESTION = "from importlib.metadata import entry_points; print(*(one.name for one in entry_points(group='pytest11')))"
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter in an environment of its own."""

    path: str  # absolute, since it is started elsewhere; a venv's python is a link, and has to stay one
    plugins: frozenset[str] | None = None  # of pytest, by their names; None: it was not asked, or did not say


def with_plugins(interpreter: Interpreter, timeout_s: float) -> Interpreter:
    """Ask an interpreter for its plugins; why it cannot be asked is said when it is started for the pairs."""
    try:
        answer = run_to_end(
            ["-P", "-c", _QUESTION], interpreter=interpreter.path, timeout_s=max(0.0, min(timeout_s, _LONGEST_S))
        )
    except WorkerError:
        return interpreter
    return interpreter if answer.returncode else replace(interpreter, plugins=frozenset(answer.stdout.split()))


# What programs have loaded from a network, in the user's cache folder: hundreds of megabytes, the same for both sides.
_DOWNLOADS = ("huggingface", "torch", "keras", "kagglehub", "whisper", "clip", "sentence_transformers")
_CACHE = "XDG_CACHE_HOME"


def own_folders(place: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Make a side's own temporary folder and cache folder in `place`; return the variables that name them.

    Both last as long as the pairs, so that what a first process has prepared serves those after it.
    """
    temporary, cache = place / "tmp", place / "cache"
    for folder in (temporary, cache):
        folder.mkdir(parents=True, exist_ok=True)
    theirs = Path(environment.get(_CACHE) or Path(environment.get("HOME") or "/", ".cache"))
    for name in _DOWNLOADS:
        if (theirs / name).is_dir():
            with suppress(FileExistsError):
                (cache / name).symlink_to((theirs / name).resolve())
    return {"TMPDIR": str(temporary), _CACHE: str(cache)}
