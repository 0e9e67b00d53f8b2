"""Instructions of a call under Valgrind's callgrind: in a fresh process, between two numbers of calls.

A whole run drifts by what the interpreter does besides; of two lengths in one process, the difference is the calls'
own. Requests to Valgrind are a sequence of instructions that does nothing elsewhere.

Reference: Valgrind, include/valgrind.h and callgrind/callgrind.h, for amd64.
"""

import ctypes
import mmap
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.memory import executable_page
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable

SOURCE = "callgrind"

_PROGRAM = "valgrind"
_DUMP = "callgrind.out"
# push rbx; mov rax, rdi; mov rdx, rsi; rol rdi, 3; rol rdi, 13; rol rdi, 61; rol rdi, 51; xchg rbx, rbx; mov rax, rdx;
# pop rbx; ret: a function of the address of six words, the request first, and of the answer outside of Valgrind.
_REQUEST = bytes.fromhex("53 4889f8 4889f2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 5b c3")
_RUNNING = 0x1001  # RUNNING_ON_VALGRIND
_TOOL = ord("C") << 24 | ord("T") << 16
_WRITE, _ZERO, _START, _STOP = _TOOL, _TOOL + 1, _TOOL + 4, _TOOL + 5  # statistics; instrumentation
_WORDS = 6

_WARM_UP = 5  # calls before anything is counted
_MOST, _LENGTHS = 50, (1, 3, 5)  # calls of the shortest length; the three lengths are so many times it
_COUNTED_S = 20.0  # for all counted calls, which take some fifty times as long as usual

Ask = Callable[[int], int]


def under_callgrind(command: Command, folder: Path, *, machine: str = "") -> Command:
    """Return the command that runs a process under callgrind, which counts nothing until it is asked to."""
    if (machine or platform.machine()) != "x86_64":
        raise MeterUnavailable("instructions are counted under Valgrind on x86-64 only")
    program = shutil.which(_PROGRAM)
    if program is None:
        raise MeterUnavailable("valgrind is not installed: sudo apt-get install valgrind")
    options = ("--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / _DUMP}", "--quiet")
    # Sets of text would be gone through in another order in each process.
    environment = {**command.environment, "PYTHONHASHSEED": "0"}
    return replace(command, under=(program, *options), environment=environment)


def count_calls(
    calls: Callable[[int], object], ask: Ask | None = None, clock: Callable[[], float] = perf_counter
) -> list[int]:
    """Make calls in three lengths in this process, each written as counts of its own; return the lengths."""
    ask = ask or valgrind_requests()
    if not ask(_RUNNING):
        raise MeasurementError("this process does not run under Valgrind")
    calls(_WARM_UP)
    ask(_START)
    calls(1)  # which translates its code
    began = clock()
    calls(1)
    call_s = max(clock() - began, 1e-9)
    shortest = max(1, min(_MOST, int(_COUNTED_S / (call_s * sum(_LENGTHS)))))
    lengths = [shortest * times for times in _LENGTHS]
    for count in lengths:
        ask(_ZERO)
        calls(count)
        ask(_WRITE)
    ask(_STOP)
    return lengths


def slopes(folder: Path, lengths: Sequence[int]) -> list[float]:
    """Return the instructions of a call by the difference of each two lengths."""
    counts = [_total(folder / f"{_DUMP}.{number}") for number in range(1, len(lengths) + 1)]
    return [
        (more - fewer) / (longer - shorter)
        for (fewer, more), (shorter, longer) in zip(pairwise(counts), pairwise(lengths), strict=True)
    ]


def valgrind_requests() -> Ask:
    """Return what sends a request to Valgrind, and returns 0 where there is none."""
    page = executable_page(_REQUEST)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)(address)
    words = (ctypes.c_uint64 * _WORDS)()

    return _Requests(page, function, words)


class _Requests:
    """Sends requests; it holds the page that its function lies in."""

    def __init__(
        self, page: mmap.mmap, function: Callable[[int, int], int], words: "ctypes.Array[ctypes.c_uint64]"
    ) -> None:
        self._page, self._function, self._words = page, function, words

    def __call__(self, request: int) -> int:
        self._words[0] = request
        return int(self._function(ctypes.addressof(self._words), 0))


def _total(path: Path) -> int:
    try:
        match = re.search(r"^summary: (\d+)$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError as error:
        raise MeasurementError(f"callgrind has written no {path.name}: {error.strerror}") from error
    if match is None:
        raise MeasurementError(f"callgrind's {path.name} has no summary")
    return int(match[1])
