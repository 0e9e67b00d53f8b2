"""Whose turn it is while a process of a pair watches what it uses: hooks on a recorder that is played."""

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.checkout.revision import Revision
from pytest_hwperf.host.usage import Recorder
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerTask, encode
from pytest_hwperf.plugin.worker.watching import _Contexts, usage_of, watch
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.stats.causes.changed_code import EVERY_TEST, Usage, Watch


class Played:
    """Notes the contexts that are entered."""

    def __init__(self) -> None:
        self.entered = [EVERY_TEST]
        self.shared = list[tuple[str, Sequence[str]]]()

    def enter(self, context: str) -> str:
        before = self.entered[-1]
        self.entered.append(context)
        return before

    def share(self, context: str, others: Sequence[str]) -> None:
        self.shared.append((context, others))


def finish(hook: Generator[None, Any, Any]) -> None:
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(None)


def environment(watched: str = "") -> Mapping[str, str]:
    return {ENVIRONMENT: encode(WorkerTask(role="pair", side="baseline", watch=watched))}


def test_tests_and_files_of_tests_have_their_turns(request: pytest.FixtureRequest) -> None:
    """What is imported for a folder serves all files in it."""
    played: Any = Played()
    contexts = _Contexts(played, Revision(""))
    (module,) = (one for one in request.node.listchain() if isinstance(one, pytest.Module))

    finish(contexts.pytest_runtest_protocol(request.node))
    finish(contexts.pytest_make_collect_report(module))
    finish(contexts.pytest_make_collect_report(request.session))
    assert [EVERY_TEST, request.node.nodeid, EVERY_TEST, module.nodeid, EVERY_TEST] == played.entered


@pytest.mark.parametrize(
    ("scope", "shared"), [("function", []), ("module", [("fixture model of t", ["t::a", "t::a", "t::c"])])]
)
def test_what_a_fixture_of_several_tests_uses_is_theirs(scope: str, shared: list[tuple[str, list[str]]]) -> None:
    """Whichever test comes first; a file may have a fixture of the same name."""
    items = [
        SimpleNamespace(nodeid=f"t::{name}", fixturenames=["model"] * uses)
        for name, uses in (("a", 1), ("b", 0), ("c", 1))
    ]
    others = [SimpleNamespace(nodeid="other::a", fixturenames=["model"]), SimpleNamespace(nodeid="t document")]
    request: Any = SimpleNamespace(session=SimpleNamespace(items=[*items, *others]))
    definition: Any = SimpleNamespace(scope=scope, argname="model", baseid="t")
    played: Any = Played()
    played.enter("t::a")

    finish(_Contexts(played, Revision("")).pytest_fixture_setup(definition, request))
    assert shared == played.shared
    assert "t::a" == played.entered[-1]


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """What a process has before its first conftest is loaded."""
    registered = dict[str, object]()
    manager = SimpleNamespace(register=lambda plugin, name: registered.update({name: plugin}), registered=registered)
    return SimpleNamespace(stash=pytest.Stash(), rootpath=tmp_path, pluginmanager=manager)


def test_a_process_watches_what_its_task_names(config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins at once; git has been asked before."""
    began = list[Recorder]()

    def begin(recorder: Recorder) -> None:
        began.append(recorder)

    monkeypatch.setattr(Recorder, "begin", begin)
    monkeypatch.setattr("pytest_hwperf.host.usage._children", lambda: ((), False))  # of tests before this one
    monkeypatch.setattr("pytest_hwperf.plugin.worker.watching.revision_of", lambda _: Revision("4f2c1e9"))
    file = tmp_path / "watch.json"
    file.write_bytes(to_json(Watch(root=str(tmp_path))))
    watch(config, environment())
    watch(config, {ENVIRONMENT: "no task"})
    assert usage_of(config) is None

    watch(config, environment(str(file)))
    assert Usage() == usage_of(config)
    assert 1 == len(began)
    session = SimpleNamespace(revision=None)
    monkeypatch.setattr("pytest_hwperf.plugin.worker.watching.session_of", lambda _: session)
    config.pluginmanager.registered["hwperf-affected"].pytest_sessionstart(SimpleNamespace(config=config))
    assert Revision("4f2c1e9") == session.revision


def test_what_cannot_be_read_is_a_usage_error(config: Any, tmp_path: Path) -> None:
    for number, text in enumerate(("", "{", '{"root": 1}', '{"root": "/", "more": 1}')):
        (tmp_path / str(number)).write_text(text)
    for name in ("0", "1", "2", "3", "missing"):
        with pytest.raises(pytest.UsageError, match="what is to be watched cannot be read"):
            watch(config, environment(str(tmp_path / name)))
