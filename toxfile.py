"""A plugin of tox: it finds the Pythons of pyenv too, also those for which none of pyenv's shims answers."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet
    from tox.session.state import State


@impl
def tox_add_core_config(core_conf: "ConfigSet", state: "State") -> None:  # noqa: ARG001 - tox calls it by these names
    """Let `py311` and its like be looked for there first; what is not installed is skipped as before."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    options = state.conf.options
    options.discover = [*options.discover, *sorted(map(str, versions.glob("3.*/bin/python")))]
