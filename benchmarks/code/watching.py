"""Run a module as a program, and write down what of the package it enters: `watching.py OUT MODULE [arguments]`."""

import json
import runpy
import sys
import threading
from collections.abc import Sequence
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType

import pytest_hwperf

PACKAGE = str(Path(pytest_hwperf.__file__).parent)


def _is_function(code: CodeType) -> bool:
    """Whether it is a function with a name: no module, class body, lambda or comprehension."""
    return bool(code.co_flags & CO_OPTIMIZED) and not code.co_name.startswith("<")


def watch(out: Path, command: Sequence[str]) -> None:
    """Run a module as a program, and write what of the package was entered, and which file has called which."""
    functions, calls = set[tuple[str, str]](), set[tuple[str, str]]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE) or not _is_function(frame.f_code):
            return
        file = frame.f_code.co_filename[len(PACKAGE) + 1 :]
        functions.add((file, f"{frame.f_code.co_qualname}:{frame.f_code.co_firstlineno}"))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            calls.add((caller.f_code.co_filename[len(PACKAGE) + 1 :], file))

    sys.argv = [*command]
    sys.path[0] = ""
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        out.write_text(json.dumps({"functions": sorted(functions), "calls": sorted(calls)}))


if __name__ == "__main__":
    watch(Path(sys.argv[1]), sys.argv[2:])
