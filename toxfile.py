"""A plugin of tox: it finds the Pythons of pyenv too, and runs side by side what leaves processors idle."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet
    from tox.session.state import State

_AT_ONCE = 3  # environments: the example keeps one processor busy and waits a lot


@impl
def tox_add_core_config(core_conf: "ConfigSet", state: "State") -> None:  # noqa: ARG001 - tox calls it by these names
    """Let Pythons be looked for among the versions of pyenv after PATH."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    programs = [os.environ.get("PATH", os.defpath), *map(str, versions.glob("3.*/bin"))]
    os.environ.update(PATH=os.pathsep.join(programs), UV_PYTHON_DOWNLOADS="never")
    options = state.conf.options
    if getattr(options, "env", None) is not None and options.env.is_default_list and not options.parallel:
        options.parallel, options.parallel_no_spinner = _AT_ONCE, True
