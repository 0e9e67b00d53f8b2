"""A plugin of tox: it finds the Pythons of pyenv too, has one Python alone run all tests, and the others in turn.

What leaves processors idle runs side by side.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tox.config.loader.memory import MemoryLoader
from tox.config.types import EnvList
from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet, EnvConfigSet
    from tox.session.state import State

_OWN = f"py{sys.version_info.major}{sys.version_info.minor}"
_OTHERS = [name for name in ("py311", "py312", "py313") if name != _OWN]
_AT_ONCE = 3  # environments: one of them, the example, keeps one processor busy and waits a lot
_SHORT = "not simulation and (not live or monitoring)"
_SHORTER = ["python", "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", _SHORT]


@impl
def tox_add_core_config(core_conf: "ConfigSet", state: "State") -> None:  # noqa: ARG001 - tox calls it by these names
    """Let `py311` and its like be looked for among the versions of pyenv after PATH; what is not installed is skipped.

    Where no environment is named, the commit decides which other Python is used: all of them take too long.
    """
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    programs = [os.environ.get("PATH", os.defpath), *map(str, versions.glob("3.*/bin"))]
    os.environ.update(PATH=os.pathsep.join(programs), UV_PYTHON_DOWNLOADS="never")
    options = state.conf.options
    if getattr(options, "env", None) is not None and options.env.is_default_list and not options.skip_env:
        options.skip_env = "|".join(_not_in_turn())
        if not options.parallel:
            options.parallel, options.parallel_no_spinner = _AT_ONCE, True


@impl
def tox_add_env_config(env_conf: "EnvConfigSet", state: "State") -> None:
    """Leave tests that start processes, simulations and coverage to the Python that runs tox: they take time.

    That one may be too old for what is marked `monitoring`, which therefore runs on the others too.
    Those tests run alone, since timings are among them; what comes after them runs together.
    """
    if env_conf.name in (*_OTHERS, "example"):
        env_conf.loaders.insert(0, MemoryLoader(depends=EnvList([_OWN])))
    if env_conf.name in _OTHERS:
        command = shlex.join([*_SHORTER, *(state.conf.pos_args(None) or ())])
        env_conf.loaders.insert(0, MemoryLoader(commands=[command]))


def _not_in_turn() -> list[str]:
    """Return the other Pythons but one, which is the same whenever this commit is tested; none outside a repository."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], check=False, capture_output=True, text=True)  # noqa: S607 - git is where PATH says
    if git.returncode:
        return []
    return [name for turn, name in enumerate(_OTHERS) if turn != int(git.stdout, 16) % len(_OTHERS)]
