"""A plugin of tox: it finds the Pythons of pyenv too. The newest runs all tests, that of tox those that are quick.

What leaves processors idle runs side by side.
"""

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tox.config.loader.memory import MemoryLoader
from tox.config.types import EnvList
from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet, EnvConfigSet
    from tox.session.state import State

_PYTHONS = ("3.13", "3.12", "3.11")
_OWN = "py{}{}".format(*sys.version_info)
_AT_ONCE = 3  # environments: the example keeps one processor busy and waits a lot
_QUICK = ["python", "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not live and not simulation"]


@impl
def tox_add_core_config(core_conf: "ConfigSet", state: "State") -> None:  # noqa: ARG001 - tox calls it by these names
    """Let `py311` and its like be looked for among the versions of pyenv after PATH; what is not installed is skipped.

    Where no environment is named, a Python between the newest and that of tox is left out: all of them take too long.
    """
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    programs = [os.environ.get("PATH", os.defpath), *map(str, versions.glob("3.*/bin"))]
    os.environ.update(PATH=os.pathsep.join(programs), UV_PYTHON_DOWNLOADS="never")
    options = state.conf.options
    if getattr(options, "env", None) is not None and options.env.is_default_list and not options.skip_env:
        options.skip_env = "|".join(_name(one) for one in _PYTHONS if _name(one) not in (_newest(), _OWN))
        if not options.parallel:
            options.parallel, options.parallel_no_spinner = _AT_ONCE, True


@impl
def tox_add_env_config(env_conf: "EnvConfigSet", state: "State") -> None:
    """Have one Python run the tests that start processes, alone: timings are among them."""
    newest = _newest()
    if env_conf.name == newest:
        env_conf.loaders.insert(0, MemoryLoader(depends=EnvList(["lint", "types", "docs", "pure", *_others(newest)])))
    elif env_conf.name in _others(newest):
        command = shlex.join([*_QUICK, *(state.conf.pos_args(None) or ())])
        env_conf.loaders.insert(0, MemoryLoader(commands=[command]))


def _others(newest: str) -> list[str]:
    return [_name(one) for one in _PYTHONS if _name(one) != newest]


@cache
def _newest() -> str:
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    return next((_name(one) for one in _PYTHONS if any(_runs(folder / f"python{one}") for folder in folders)), _OWN)


def _runs(program: Path) -> bool:
    """Return whether it is a Python; a shim of pyenv is none where its version is not the chosen one."""
    if not os.access(program, os.X_OK):
        return False
    return subprocess.run([program, "-V"], check=False, capture_output=True).returncode == 0  # noqa: S603 - no shell


def _name(version: str) -> str:
    return f"py{version.replace('.', '')}"
