"""Small system files as text, and files that are replaced atomically: a reader finds the old content or the new one."""

import errno
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path

from pytest_hwperf.records.errors import HwperfError, UsageProblem

CACHE_VARIABLE = "HWPERF_CACHE_DIR"

LINKS_PROGRAMS = os.name != "nt"  # whether an environment can link to its interpreter: Windows needs a copy

_MOST_NEIGHBOURS = 1000
_ROOM = 1 << 20  # bytes that a folder of a fresh process should take: its byte code and logs are smaller files
_WRITERS = 8  # a flush waits for the disk, and a disk serves several at once

# Whether there is one that can be seen; those of `pathlib` raise an error for a name that no file system takes.
is_file, is_folder = os.path.isfile, os.path.isdir


def read_text(path: Path) -> str:
    """Return the stripped text of a small file such as those of /proc and /sys, "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def refused_name(path: Path) -> str:
    """Return why no file can be called so, "" where one can."""
    try:
        path.lstat()
    except OSError as error:
        return (error.strerror or "") if error.errno in (errno.ENAMETOOLONG, errno.EINVAL) else ""
    except ValueError as error:  # a null character
        return str(error)
    return ""


def read_file(path: Path, largest: int) -> bytes:
    """Return the content of a file that anyone may have put there.

    A pipe is not waited for, a device is not opened, and an endless file is not read to its end.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    too_large = OSError(errno.EFBIG, f"larger than {largest / 1e6:g} MB", str(path))
    if found.st_size > largest:
        raise too_large
    with os.fdopen(
        os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb"
    ) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise too_large
    return content


def read_given(
    file: str | Path, largest: int, remedy: str, *, error: type[HwperfError] = UsageProblem, name: str = ""
) -> bytes:
    """Read a file that a user gives; what cannot be read is refused by its `name`, else its path, with the remedy."""
    try:
        return read_file(Path(file), largest)
    except (OSError, ValueError) as problem:  # the latter of a name that no file system takes
        raise error(f"{name or file} cannot be read ({getattr(problem, 'strerror', problem)}): {remedy}") from problem


def stat_given(
    file: Path, remedy: str, *, error: type[HwperfError] = UsageProblem, follow: bool = True
) -> os.stat_result | None:
    """Return what is at a path that a user gives, None where nothing is; a path that cannot be seen is refused."""
    try:
        return os.stat(file, follow_symlinks=follow)  # noqa: PTH116 - the one call for both
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:  # "nothing" would be a guess
        raise error(f"{file} cannot be read ({problem.strerror}): {remedy}") from problem


def read_at(descriptor: int, count: int, offset: int) -> bytes:
    """Read bytes of an open file from `offset` on, without moving its position: as `os.pread` where there is one."""
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "Windows reads no file at an offset")
    return os.pread(descriptor, count, offset)


def neighbours(file: str | Path) -> list[str]:
    """Return names in the folder where a file is missing, to find the one that was meant."""
    with suppress(OSError, ValueError):
        return [one.name for one in islice(Path(file).parent.iterdir(), _MOST_NEIGHBOURS)]
    return []


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def mapped_files() -> Iterator[str]:
    """Yield what is mapped into the memory of this process, as Linux tells it: ` (deleted)` follows what is gone."""
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:  # noqa: PTH123 - audited
        for line in maps:
            if path := line.rstrip("\n").partition("/")[2]:
                yield f"/{path}"


def leads_out(path: Path, root: Path) -> bool:
    """Whether a path below `root` lies elsewhere in fact: whoever has made the tree has put a link on its way."""
    below = Path(os.path.abspath(path)).is_relative_to(os.path.abspath(root))  # noqa: PTH100 - links stay as they are
    return below and not path.resolve().is_relative_to(root.resolve())


def same_place(paths: Mapping[str, Path]) -> tuple[str, str] | None:
    """Return the names of two paths that are one file or folder, None where each is another."""
    known = dict[str, str]()
    for name, path in paths.items():
        other = known.setdefault(os.path.normcase(os.path.realpath(path)), name)
        if other != name:
            return other, name
    return None


def create_file(path: Path, mode: int = 0o666) -> int:
    """Create the new file `path` and return its descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def cache_folder() -> Path:
    """Return the folder of what is kept between sessions: `HWPERF_CACHE_DIR`, else the user's cache folder."""
    import platformdirs

    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("pytest-hwperf"))


def new_folder(parent: Path, name: str) -> Path:
    """Make a new folder in `parent`, called `name` and something that nobody can foresee.

    Whatever was in `parent` before, no link in it is followed by what is written to the new folder.
    """
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))


def why_full(folder: Path) -> str:
    """Return why a folder takes no file of a megabyte, with what to do; "" where it takes one."""
    probe = _temporary(folder / "probe")
    try:
        with os.fdopen(create_file(probe), "wb") as file:
            file.write(bytes(_ROOM))
    except OSError as error:
        remedy = remedy_of_writing(error)
        return f"{folder} takes no file of 1 MB ({error.strerror}): {remedy}" if remedy else ""
    finally:
        with suppress(OSError):  # it could not be made
            probe.unlink()
    return ""


def remedy_of_writing(error: OSError) -> str:
    """Return what to do about a temporary file that cannot be written; "" where the disk is not the reason."""
    if error.errno == errno.EFBIG:
        return "start it where the largest size of a file (`ulimit -f`) is higher"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "make it writable, or choose another temporary folder with TMPDIR"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "free some space, or choose another temporary folder with TMPDIR" if full else ""


def check_writable(path: Path) -> None:
    """Check whether `replace_file` could write there; nothing is left behind, even if this process is killed meanwhile.

    Permission bits alone say little about mounts, quotas and root.
    """
    _refuse_special(path)
    probe = _temporary(path)
    if hasattr(os, "O_TMPFILE"):  # Linux: a file without a name; not every file system can
        with suppress(OSError):
            os.close(os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o600))
            try:
                probe.lstat()
            except FileNotFoundError:  # and for no other reason, such as its length
                return
    os.close(create_file(probe))
    probe.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replace one file atomically, as `replace_files` does; `mode` is lessened by the umask."""
    for error in replace_files({path: content}, partial(create_file, mode=mode)).values():
        raise error


def replace_files(contents: Mapping[Path, bytes], create: Callable[[Path], int]) -> dict[Path, OSError]:
    """Replace each file by its new content; one that cannot be replaced keeps its old content and affects no other.

    Each is written to a temporary name and flushed, several at once. Only then are they renamed, all by the calling
    thread, so that nothing changes any more once this has returned or raised. Flushing a folder makes its renames last.
    """
    failed, temporary = dict[Path, OSError](), dict[Path, Path]()

    def attempt(step: Callable[[Path], object], path: Path) -> None:
        if path not in failed:
            try:
                step(path)
            except OSError as error:
                failed[path] = error

    def prepare(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_special(path)
        temporary[path] = _temporary(path)

    def write(path: Path) -> None:
        with os.fdopen(create(temporary[path]), "wb") as file:
            file.write(contents[path])
            file.flush()
            os.fsync(file.fileno())

    for path in contents:
        attempt(prepare, path)
    try:
        with futures.ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(partial(attempt, write), temporary))
        for path in temporary:
            attempt(lambda path: temporary[path].replace(path), path)
    finally:
        for leftover in temporary.values():
            with suppress(OSError):  # it belongs to a file that is reported as failed; the next save removes it
                leftover.unlink(missing_ok=True)
    flush = cache(_flush_folder)
    for path in temporary:
        attempt(lambda path: flush(path.parent), path)
    return failed


def _refuse_special(path: Path) -> None:
    """Refuse a device, pipe or folder: a rename would put a plain file in the place of `/dev/null`, for everyone."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # nothing that can be seen: writing it will tell
        return
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode) or path.parent == Path("/dev"):  # where links lead to what this process has open
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")


def _flush_folder(folder: Path) -> None:
    """Make renames last: they are kept in the folder, not in the files. Windows opens no folder."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
