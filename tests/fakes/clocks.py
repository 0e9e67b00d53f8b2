"""Clocks and counters that stand still until a test moves them."""


class HandClock:
    """Seconds; moved by hand."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
