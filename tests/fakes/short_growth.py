"""A plugin for runs of pytest within tests: the growth of memory is measured over the fewest calls that show it.

`-p fakes.short_growth` reaches the fresh processes of such a run too, since they get its options; PYTHONPATH must lead
there. Without it, a process that measures a quick call makes up to 60 more, with a full collection after each.
"""

import pytest

from pytest_hwperf.measure import worker_tasks


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(worker_tasks, "_USUAL_NS", 0)
