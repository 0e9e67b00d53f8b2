"""A machine on which other work runs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_LOOP = "while True: pass"


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes computing; the load of the machine approaches their number within some minutes."""
    with ExitStack() as stack:
        for _ in range(processes):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", _LOOP]))
            stack.callback(process.kill)
        yield
