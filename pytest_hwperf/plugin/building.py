"""The present tree of a comparison, built by the user's own commands before a test is collected from it."""

import os
import sys
from time import monotonic

import pytest

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible_lines
from pytest_hwperf.host.command_line import undisturbed
from pytest_hwperf.plugin.gate import logs_of
from pytest_hwperf.plugin.session import session_of
from pytest_hwperf.trees.isolation import loaded_files
from pytest_hwperf.trees.own_builds import Place, run_builds


def build_here(config: pytest.Config) -> None:
    """Run the commands of --hwperf-build in the user's own tree; the baseline's is built when it is there."""
    state = session_of(config)
    if state.settings.disable or state.settings.skip or config.option.collectonly or hasattr(config, "workerinput"):
        return
    place = Place(
        side="present tree",
        directory=config.rootpath,
        environment=undisturbed(os.environ),
        interpreter=sys.executable,
        logs=logs_of(config),
    )
    until = monotonic() + state.settings.time_limit_s
    try:
        state.built = run_builds(state.settings.build, place, until, loaded_files())
    except (UsageProblem, OSError) as error:
        raise pytest.UsageError(visible_lines(f"hwperf: {error}")) from error
