"""Files in memory that end with this process, as those of `memfd_create`: what is written to them is in no page table.

The kernel counts a page as resident where it is mapped. A file of a memfd, or a file of a tmpfs that has no name any
more, takes memory without that, for as long as somebody has it open.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pytest_hwperf.records.errors import MeasurementError

_MEMFD = "/memfd:"
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs"})
_BLOCK = 512  # bytes, the unit of `st_blocks`
_KIB = 1024
_READ_AT_ONCE = 16_384  # bytes: little enough to come from memory that is held already
_DEVICE = 2  # field of a line of mountinfo
_DEVICE_OF_MAPPING, _INODE_OF_MAPPING = 3, 4  # fields of the first line of a mapping

FileKey = tuple[int, int]  # device and inode


def unmapped_bytes(process: Path) -> int:
    """Return the bytes of files in memory that this process alone keeps and that are not among its resident pages.

    Source: memfd_create(2), proc(5), smaps and mountinfo.
    """
    allocated = _files(process)
    if not allocated:
        return 0
    mapped = dict.fromkeys(allocated, 0)
    for key, resident in _resident_mappings(process):
        if key in mapped:
            mapped[key] += resident
    return sum(max(0, size - mapped[key]) for key, size in allocated.items())


def _files(process: Path) -> Mapping[FileKey, int]:
    """Return the bytes that each such file has taken."""
    found = dict[FileKey, int]()
    folder = process / "fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a path for each would be made
    except OSError as error:
        raise MeasurementError(f"{folder} cannot be read ({error.strerror}): memory cannot be measured here") from error
    devices: frozenset[int] | None = None
    for name in names:
        with suppress(FileNotFoundError):  # it was the descriptor of the list itself, or another thread has closed it
            about = os.stat(folder / name)  # noqa: PTH116 - as above
            if about.st_nlink or not stat.S_ISREG(about.st_mode) or not about.st_blocks:
                continue
            if not os.readlink(folder / name).startswith(_MEMFD):  # noqa: PTH115 - as above
                devices = _devices_in_memory(process) if devices is None else devices
                if about.st_dev not in devices:
                    continue
            found[about.st_dev, about.st_ino] = about.st_blocks * _BLOCK
    return found


def _devices_in_memory(process: Path) -> frozenset[int]:
    """Return the devices of mounted file systems that keep files in memory."""
    devices = set[int]()
    for line in _lines(process / "mountinfo"):
        fields, _, others = line.partition(b" - ")
        if others.partition(b" ")[0].decode() in _IN_MEMORY:
            major, minor = fields.split()[_DEVICE].split(b":")
            devices.add(os.makedev(int(major), int(minor)))
    return frozenset(devices)


def _resident_mappings(process: Path) -> Iterator[tuple[FileKey, int]]:
    """Yield the file of each mapping and how many bytes of it are resident."""
    key = (0, 0)
    for line in _lines(process / "smaps"):
        if line.startswith(b"Rss:"):
            yield key, int(line.split()[1]) * _KIB
        elif b"-" in line.partition(b" ")[0]:
            fields = line.split()
            major, minor = fields[_DEVICE_OF_MAPPING].split(b":")
            key = os.makedev(int(major, 16), int(minor, 16)), int(fields[_INODE_OF_MAPPING])


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file of the kernel; never much of it is held at once."""
    rest = b""
    try:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            while content := os.read(descriptor, _READ_AT_ONCE):
                *lines, rest = (rest + content).split(b"\n")
                yield from lines
        finally:
            os.close(descriptor)
    except OSError as error:
        raise MeasurementError(f"{file} cannot be read ({error.strerror}): memory cannot be measured here") from error
    if rest:
        yield rest
