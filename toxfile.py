"""A plugin of tox: it finds the Pythons of pyenv too, and has one Python alone run all tests."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tox.config.loader.memory import MemoryLoader
from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet, EnvConfigSet
    from tox.session.state import State

_SHORTER = ["python", "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not live and not simulation"]


@impl
def tox_add_core_config(core_conf: "ConfigSet", state: "State") -> None:  # noqa: ARG001 - tox calls it by these names
    """Let `py311` and its like be looked for there first; what is not installed is skipped as before."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    options = state.conf.options
    options.discover = [*options.discover, *sorted(map(str, versions.glob("3.*/bin/python")))]


@impl
def tox_add_env_config(env_conf: "EnvConfigSet", state: "State") -> None:
    """Leave tests that start processes, simulations and coverage to the Python that runs tox: they take time."""
    own = f"py{sys.version_info.major}{sys.version_info.minor}"
    if env_conf.name.startswith("py3") and env_conf.name != own:
        command = shlex.join([*_SHORTER, *(state.conf.pos_args(None) or ())])
        env_conf.loaders.insert(0, MemoryLoader(commands=[command]))
