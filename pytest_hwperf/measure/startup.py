"""What a process does for the code under test from its first module on, apart from everything else that it does."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter_ns
from types import ModuleType
from typing import Literal

from pytest_hwperf.host.source_files import is_of_this_package

# Parts of what a test takes. What is nobody's part, as the work of pytest, of its plugins and of this package, is "".
Part = Literal["", "third-party imports", "own imports", "fixtures", "load", "first call", "later calls"]
THIRD_PARTY: Part = "third-party imports"
OWN: Part = "own imports"
FIXTURES: Part = "fixtures"  # and the body of the test, up to its measurement
LOAD: Part = "load"
FIRST: Part = "first call"
LATER: Part = "later calls"


class Startup:
    """Says whose turn it is, from before the first module of the code under test is imported."""

    def __init__(
        self,
        is_own: Callable[[str], bool],
        enter: Callable[[str], None] | None = None,
        clock_ns: Callable[[], int] = perf_counter_ns,
        loaded: Mapping[str, object] = sys.modules,
    ) -> None:
        """Tell `enter` what is counted from now on, such as a meter: a part, "" for nothing."""
        self.spent_ns = Counter[str]()
        self.notes = list[str]()  # what has to be known of it
        self._is_own, self._enter = is_own, enter
        self._part: Part = ""
        self._parts: list[Part] = [""]  # the present one and those around it
        self._threads = {threading.get_ident()}
        self.clock_ns, self._last = clock_ns, clock_ns()
        self._before = frozenset(loaded)
        # Past any __getattr__, which might import.
        files = {name: vars(one).get("__file__") for name, one in [*loaded.items()] if isinstance(one, ModuleType)}
        self._own_before = [name for name, file in files.items() if isinstance(file, str) and self._owner(file) == OWN]

    @contextmanager
    def part(self, part: Part) -> Iterator[None]:
        """Attribute what the block takes to `part`."""
        self._threads.add(threading.get_ident())
        self._switch(part)
        self._parts.append(part)
        try:
            yield
        finally:
            self._parts.pop()
            self._switch(self._parts[-1])

    def importing(self, file: str) -> AbstractContextManager[None]:
        """Attribute the import of a module to its owner; what pytest imports for itself is nobody's.

        A thread that imports while the process is about something else takes its turn from nobody.
        """
        if not file or threading.get_ident() not in self._threads:
            return nullcontext()
        owner = self._owner(file)
        return self.part("" if owner == THIRD_PARTY and not self._parts[-1] else owner)

    def use(self, clock_ns: Callable[[], int]) -> None:
        """Read another clock from now on, such as one that stands still between calls."""
        self._switch(self._part)
        self.clock_ns, self._last = clock_ns, clock_ns()

    def missed(self, imports: Sequence[str] = ()) -> list[str]:
        """Return the modules under test, and those of `imports`, that were there before anything was attributed."""
        return [*self._own_before, *(name for name in imports if name in self._before)]

    def _owner(self, file: str) -> Part:
        if is_of_this_package(file):
            return ""
        return OWN if self._is_own(file) else THIRD_PARTY

    def _switch(self, part: Part) -> None:
        now = self.clock_ns()
        self.spent_ns[self._part] += now - self._last
        if self._enter is not None and part != self._part:
            self._enter("" if part == THIRD_PARTY else part)
        self._part, self._last = part, now
