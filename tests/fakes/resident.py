"""A process's memory as the system tells it: a folder like /proc/self, and a counter that plays a story."""

from pathlib import Path

from pytest_hwperf.host.memory import Resident


class Process:
    """A process's folder in a fake /proc; the kernel's mark of its peak moves only when it is shown."""

    def __init__(self, folder: Path, *, exact: bool = False, resets: bool = True) -> None:
        self.folder = folder
        self.exact = exact
        (folder / "fd").mkdir()
        self.show(peak_kb=1000, now_kb=1000)
        if resets:
            (folder / "clear_refs").touch()
        else:
            (folder / "clear_refs").mkdir()  # which nobody can write to, not even root

    def show(self, *, peak_kb: int, now_kb: int, exact_kb: int | None = None) -> None:
        (self.folder / "status").write_text(
            f"Name:\tpython\nVmPeak:\t  99999 kB\nVmHWM:\t{peak_kb:>8} kB\nVmRSS:\t{now_kb:>8} kB\nThreads:\t1\n"
        )
        if self.exact:
            shown = now_kb if exact_kb is None else exact_kb
            (self.folder / "smaps_rollup").write_text(
                f"55e0-7ffe ---p 00000000 00:00 0    [rollup]\nRss:\t{shown:>8} kB\nPss:\t  1 kB\nPss_Anon:\t  1 kB\n"
            )


class FakeResident(Resident):
    """Holds what was put on it and remembers the most; cleared it starts over, unless it refuses."""

    def __init__(self, *, refusal: str = "", source: str = "fake peak") -> None:
        self.refusal = refusal
        self.held = self.most = 0
        super().__init__(
            source=source,
            high=lambda: self.most,
            now=lambda: (self.held, "fake size"),
            clear=self._clear,
            warnings=("played back",),
        )

    def put(self, amount: int) -> None:
        self.held += amount
        self.most = max(self.most, self.held)

    def _clear(self) -> str:
        if not self.refusal:
            self.most = self.held
        return self.refusal
