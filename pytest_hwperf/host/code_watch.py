"""Which pieces of some Python code are run in this process, in whatever thread: asked of Python itself (PEP 669).

`sys.monitoring` tells of each piece of code when it is first run; of code that is not watched it costs nothing later.
"""

import os
import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from pytest_hwperf.core.changed_code import MODULE, key_of

_TOOLS = (4, 3, 5, 1, 0)  # of `sys.monitoring`, from the one that others use least
_NAME = "hwperf-affected"
_FINDS_MODULES = ("<frozen importlib._bootstrap_external>", "FileFinder.find_spec")


class CodeWatch:
    """Code that is watched."""

    def __init__(
        self, files: Mapping[str, tuple[str, ...]], ran: Callable[[str], None], looked_for: Callable[[str], None]
    ) -> None:
        """Watch from `begin` on."""
        self._files = files
        self._ran = ran
        self._looked_for = looked_for
        self._paths: dict[str, str] = {}  # of a file as code names it → links resolved

    def begin(self) -> None:
        """Be told of all code that is run from now on, in every thread."""
        monitoring: Any = vars(sys)["monitoring"]
        tool = next((one for one in _TOOLS if monitoring.get_tool(one) is None), None)
        if tool is None:
            raise OSError("all tools of sys.monitoring are in use")
        monitoring.use_tool_id(tool, _NAME)
        monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
        monitoring.set_events(tool, monitoring.events.PY_START)

    def is_watched(self, code: CodeType) -> bool:
        """Whether it is code that was asked about."""
        keys = self._files.get(self._path(code.co_filename))
        return keys is not None and (MODULE in keys or key_of(code) in keys)

    def _started(self, code: CodeType, _: int) -> object:
        """Tell of code that begins; of other code no more is to be heard."""
        if (code.co_filename, code.co_qualname) == _FINDS_MODULES:
            self._looked_for(str(sys._getframe(1).f_locals.get("fullname", "")))  # noqa: SLF001 - the frame that begins
        elif self.is_watched(code):
            self._ran(f"{self._path(code.co_filename)}::{code.co_qualname}")
        else:
            return vars(sys)["monitoring"].DISABLE
        return None

    def _path(self, name: str) -> str:
        if name not in self._paths:
            self._paths[name] = os.path.realpath(name)
        return self._paths[name]
