"""Tracebacks of what a measured call raises: the frames of this package tell the user nothing."""

from types import TracebackType

_PACKAGE = "pytest_hwperf"
_CALLERS = frozenset(f"{_PACKAGE}.measure.{name}" for name in ("stream", "items", "subjects"))  # end with the call


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package; unchanged where the error is of this package itself."""
    frames = list[TracebackType]()
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    if frames and _is_own(frames[-1]) and _module(frames[-1]) not in _CALLERS:
        return frames[0]
    kept: TracebackType | None = None
    for one in reversed(frames):
        if not _is_own(one):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _is_own(trace: TracebackType) -> bool:
    return _module(trace).partition(".")[0] == _PACKAGE


def _module(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", ""))
