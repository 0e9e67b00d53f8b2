"""Tools that observe a process, as coverage.py does."""

import sys
from types import FrameType, SimpleNamespace
from typing import Any

# Where coverage.py watches the tests by the real one, it looks its events up in the one that stands for it.
EVENTS: Any = getattr(vars(sys).get("monitoring"), "events", SimpleNamespace(PY_START=1))


class CoverageTracer:
    """A trace function of coverage.py: a callable object that notes every function that begins."""

    __module__ = "coverage.tracer"

    def __init__(self) -> None:
        self.seen = list[str]()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002 - as Python calls it
        self.seen.append(frame.f_code.co_name)


class FakeMonitoring:
    """`sys.monitoring` of Python 3.12 and later, with the events of the real one."""

    events = EVENTS

    def __init__(self) -> None:
        self.tools = dict[int, str]()
        self.masks = dict[int, int]()
        self.changes = list[tuple[int, int]]()

    def get_tool(self, tool: int) -> str | None:
        return self.tools.get(tool)

    def get_events(self, tool: int) -> int:
        return self.masks[tool]

    def set_events(self, tool: int, mask: int) -> None:
        self.changes.append((tool, mask))
