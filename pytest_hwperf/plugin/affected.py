"""What a process of a pair uses of a change, attributed to tests and files of tests; hooks of such a process alone."""

from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from pytest_hwperf.checkout.revision import Revision, revision_of
from pytest_hwperf.host.files import read_file
from pytest_hwperf.host.usage import Recorder
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, decode_task
from pytest_hwperf.plugin.session import session_of
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import SerialisationError, WorkerError
from pytest_hwperf.stats.affected import Usage, Watch

_LARGEST = 50_000_000  # bytes of a list of what has changed
_FIXTURE = "fixture"  # before the name of one that serves several tests; no id of a test begins so
_RECORDER = pytest.StashKey[Recorder]()


def watch(config: pytest.Config, environment: Mapping[str, str]) -> None:
    """Begin to watch what the task of this process names, if it names anything."""
    try:
        path = decode_task(environment[ENVIRONMENT]).watch
    except WorkerError:  # said when pytest is configured
        return
    if not path:
        return
    try:
        recorder = Recorder(from_json(Watch, read_file(Path(path), _LARGEST)))
    except (SerialisationError, OSError) as error:
        raise pytest.UsageError(f"what is to be watched cannot be read: {error}") from error
    config.stash[_RECORDER] = recorder
    # git is asked before: afterwards it would be a process that opens files
    config.pluginmanager.register(_Contexts(recorder, revision_of(config.rootpath)), "hwperf-affected")
    recorder.begin()


def usage_of(config: pytest.Config) -> Usage | None:
    """Return what was used until now; None where nothing was to be watched."""
    recorder = config.stash.get(_RECORDER, None)
    return recorder.usage() if recorder else None


class _Contexts:
    """Says whose turn it is: a test, a fixture of several, a file of tests while it is collected, or nobody."""

    def __init__(self, recorder: Recorder, revision: Revision) -> None:
        self._recorder = recorder
        self._revision = revision

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        session_of(session.config).revision = self._revision

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        if not isinstance(collector, pytest.Module | pytest.Class):  # a folder: what it imports serves many files
            return (yield)
        before = self._recorder.enter(collector.nodeid)
        try:
            return (yield)
        finally:
            self._recorder.enter(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        name, base = fixturedef.argname, fixturedef.baseid
        context = f"{_FIXTURE} {name} of {base}"
        before = self._recorder.enter(context)
        try:
            return (yield)
        finally:
            self._recorder.enter(before)
            items = (one for one in request.session.items if one.nodeid.startswith(base))
            users = [one.nodeid for one in items if name in getattr(one, "fixturenames", ())]
            self._recorder.share(context, [before, *users])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = self._recorder.enter(item.nodeid)
        try:
            return (yield)
        finally:
            self._recorder.enter(before)
