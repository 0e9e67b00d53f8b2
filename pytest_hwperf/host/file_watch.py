"""Which of some files are opened, by Python, native code or another process: the system tells it (inotify)."""

import ctypes
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

_OPENED, _OVERFLOW = 0x20, 0x4000
_NONBLOCKING, _CLOSED_ON_EXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENT = struct.Struct("iIII")  # descriptor of the watch, mask, cookie, length of a name
_LARGEST = 1 << 16  # bytes that are read at once


class FileWatch:
    """Files that are watched; a link stands for what it leads to."""

    def __init__(self, root: Path, files: Sequence[str]) -> None:
        """Watch files below `root`; the process opens no other descriptor for them."""
        self._named: Mapping[int, str] = {}
        self._descriptor = -1
        if not files:
            return
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "inotify_init1"):
            raise OSError("this system has no inotify")
        self._descriptor = _checked(library.inotify_init1(_NONBLOCKING | _CLOSED_ON_EXEC))
        self._named = {
            _checked(library.inotify_add_watch(self._descriptor, os.fsencode(root / file), _OPENED)): file
            for file in files
        }

    def opened(self) -> list[str]:
        """Return which of them were opened since this was last asked; all of them where that is not known any more."""
        found = dict[str, None]()
        while content := self._read():
            at = 0
            while at < len(content):
                number, mask, _, length = _EVENT.unpack_from(content, at)
                at += _EVENT.size + length
                if mask & _OVERFLOW:
                    found |= dict.fromkeys(self._named.values())
                elif mask & _OPENED and number in self._named:
                    found[self._named[number]] = None
        return list(found)

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _LARGEST) if self._named else b""
        except BlockingIOError:
            return b""


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
