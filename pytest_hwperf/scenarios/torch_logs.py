"""PyTorch's trace of its compiler, which it writes only where somebody listens."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_TRACE = "torch.__trace"


@contextmanager
def untraced_compiler() -> Iterator[None]:
    """Take away whoever listens to the trace beside PyTorch itself, which TORCH_TRACE asks to write it to a file.

    pytest listens to every logger that keeps its records to itself: hundreds of them would be made within the timed
    first call, and shown with a failed test.
    """
    log = logging.getLogger(_TRACE)
    others = [handler for handler in log.handlers if type(handler).__module__.partition(".")[0] != "torch"]
    for handler in others:
        log.removeHandler(handler)
    try:
        yield
    finally:
        for handler in others:
            log.addHandler(handler)
