"""Models in runtimes: each file turns a model into something callable on prepared inputs.

`from pytest_hwperf import scenarios` means the marker, and finds this folder once a scenario is loaded: it can be
called as the marker can.
"""

import sys
from types import ModuleType


class ScenariosFolder(ModuleType):
    """This folder, which is the marker `hwscenarios` where it is called."""

    def __call__(self, *names: str) -> object:
        from pytest_hwperf.plugin.marks import scenarios  # noqa: PLC0415 - no scenario needs the plugin

        return scenarios(*names)


sys.modules[__name__].__class__ = ScenariosFolder
