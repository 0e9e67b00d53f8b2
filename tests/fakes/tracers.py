"""Tools that observe a process, as coverage.py does."""

from types import FrameType


class CoverageTracer:
    """A trace function of coverage.py: a callable object that notes every function that begins."""

    __module__ = "coverage.tracer"

    def __init__(self) -> None:
        self.seen = list[str]()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002 - as Python calls it
        self.seen.append(frame.f_code.co_name)


class FakeMonitoring:
    """`sys.monitoring` of Python 3.12 and later."""

    def __init__(self) -> None:
        self.tools = dict[int, str]()
        self.events = dict[int, int]()
        self.changes = list[tuple[int, int]]()

    def get_tool(self, tool: int) -> str | None:
        return self.tools.get(tool)

    def get_events(self, tool: int) -> int:
        return self.events[tool]

    def set_events(self, tool: int, mask: int) -> None:
        self.changes.append((tool, mask))
