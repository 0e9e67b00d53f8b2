"""The command line as a test types it."""

from typing import Protocol

from _pytest.capture import CaptureResult


class Told(Protocol):
    """Runs a command, which has to end with this code."""

    def __call__(self, code: int, *arguments: str) -> CaptureResult[str]:
        """Return what it has written, as output and as errors."""
