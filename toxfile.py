"""A plugin of tox: it finds the Pythons of pyenv too, and runs all tests on the newest.

What leaves processors idle runs side by side.
"""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet
    from tox.session.state import State

_PYTHONS = ("3.13", "3.12", "3.11")
_AT_ONCE = 3  # environments: the example keeps one processor busy and waits a lot


@impl
def tox_add_core_config(core_conf: "ConfigSet", state: "State") -> None:  # noqa: ARG001 - tox calls it by these names
    """Let `py311` and its like be looked for among the versions of pyenv after PATH; what is not installed is skipped.

    Where no environment is named, all but the newest are left out: they take too long. `quick` uses the Python of tox.
    """
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    programs = [os.environ.get("PATH", os.defpath), *map(str, versions.glob("3.*/bin"))]
    os.environ.update(PATH=os.pathsep.join(programs), UV_PYTHON_DOWNLOADS="never")
    options = state.conf.options
    if getattr(options, "env", None) is not None and options.env.is_default_list and not options.skip_env:
        options.skip_env = "|".join(_name(one) for one in _PYTHONS if one != _newest())
        if not options.parallel:
            options.parallel, options.parallel_no_spinner = _AT_ONCE, True


def _newest() -> str:
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    return next((one for one in _PYTHONS if any(_runs(folder / f"python{one}") for folder in folders)), "")


def _runs(program: Path) -> bool:
    """Return whether it is a Python; a shim of pyenv is none where its version is not the chosen one."""
    if not os.access(program, os.X_OK):
        return False
    return subprocess.run([program, "-V"], check=False, capture_output=True).returncode == 0  # noqa: S603 - no shell


def _name(version: str) -> str:
    return f"py{version.replace('.', '')}"
