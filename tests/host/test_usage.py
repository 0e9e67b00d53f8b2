"""What a process uses of a change, by the events of Python and of the system; no process is started."""

import _thread
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hwperf.host.usage import FileWatch, Recorder
from pytest_hwperf.stats.causes.changed_code import EVERY_TEST, Watch

if TYPE_CHECKING:
    from types import CodeType

SOURCE = "def slow(): return 1\ndef steady(): return 2\n"
TEST = "tests/test_a.py::test_one"
LOADER = """
def get_data(path):
    audit("open", (path, "r", 0))


class SourceLoader:
    def get_code(path):
        get_data(path)

    def get_source(path):
        get_data(path)
"""


@pytest.fixture(autouse=True)
def childless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixture of other tests may keep a server running."""
    monkeypatch.setattr("pytest_hwperf.host.usage._children", lambda: ((), False))


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "work.py").write_text(SOURCE)
    (tmp_path / "data.csv").write_text("1,2")
    watch = Watch(
        root=str(tmp_path), code={"work.py": ("slow:1",)}, files=("data.csv",), modules=("extra",), listed=("pkg",)
    )
    made = Recorder(watch)
    made._files = FileWatch(tmp_path, watch.files)
    made.enter(TEST)
    return made


def functions(path: Path) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "work"}
    exec(compile(SOURCE, str(path), "exec"), space)  # noqa: S102 - the text above
    return space


def test_files_are_seen_to_be_opened(recorder: Recorder, tmp_path: Path) -> None:
    """By the system, so that it does not matter which code opens them, and in whose turn."""
    assert {} == recorder.usage().used
    os.close(os.open(tmp_path / "data.csv", os.O_RDONLY))
    recorder.enter(EVERY_TEST)
    assert {TEST: ("data.csv",)} == recorder.usage().used


def test_what_a_fixture_uses_is_used_by_all_who_share_it(recorder: Recorder, tmp_path: Path) -> None:
    (tmp_path / "data.csv").read_bytes()
    recorder.enter("another test")
    recorder.share(TEST, ["a", "b"])
    recorder.share("nothing", ["c"])
    assert dict.fromkeys((TEST, "a", "b"), ("data.csv",)) == recorder.usage().used


def test_files_that_cannot_be_watched_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileWatch(tmp_path, ["missing"])


def test_events_that_were_lost_are_events_of_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has a queue of limited length."""
    for name in ("a", "b"):
        (tmp_path / name).touch()
    watch = FileWatch(tmp_path, ["a", "b"])
    parts = iter([(-1).to_bytes(4, sys.byteorder, signed=True) + (0x4000).to_bytes(4, sys.byteorder) + bytes(8), b""])
    monkeypatch.setattr(os, "read", lambda *_: next(parts))
    assert ["a", "b"] == watch.opened()


def test_what_python_is_about_to_do_is_noted(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = os.open("pkg", os.O_RDONLY)
    events: tuple[tuple[str, tuple[Any, ...], str], ...] = (
        ("subprocess.Popen", ("git",), "another process"),
        ("os.fork", (), "another process"),
        ("sys.settrace", (), "another trace function"),
        ("cpython.PyInterpreterState_New", (), "another interpreter"),
        ("import", ("_interpreters", None), "another interpreter"),
        ("import", ("_xxsubinterpreters", None), "another interpreter"),
        ("socket.connect", (None, ("::1", 80)), "a connection to another process"),
        ("import", ("pkg.extra", None), "the module pkg.extra, which one side alone has"),
        ("os.listdir", ("pkg",), "the list of files in pkg"),
        ("os.scandir", (b"pkg",), "the list of files in pkg"),
        ("os.scandir", (folder,), "the list of files in pkg"),
        ("open", ("work.py", "r", 0), "work.py, read as a file"),
        ("open", (Path("work.py"), "r", 0), "work.py, read as a file"),
        ("import", ("pkg.other", None), ""),
        ("os.listdir", (".",), ""),
        ("open", ("other.py", "r", 0), ""),
        ("open", (3, "r", 0), ""),
        ("object.__getattr__", (object(), "__code__"), ""),
        ("object.__getattr__", (os.getcwd, "__self__"), ""),
    )
    for number, (event, arguments, what) in enumerate(events):
        recorder.enter(str(number))
        recorder._audit(event, arguments)
        assert (what,) * bool(what) == recorder.usage().used.get(str(number), ())
    os.close(folder)


def test_code_that_is_looked_at_counts_as_run(recorder: Recorder, tmp_path: Path) -> None:
    """What compiles a function never calls it as Python does."""
    found = functions(tmp_path / "work.py")
    recorder._audit("object.__getattr__", (found["steady"], "__code__"))
    assert {} == recorder.usage().used
    recorder._audit("object.__getattr__", (found["slow"], "__code__"))
    assert {TEST: ("work.py::slow",)} == recorder.usage().used


def test_code_of_what_was_made_and_not_begun_counts_as_run(recorder: Recorder, tmp_path: Path) -> None:
    """A generator, a coroutine and an async generator hold code that has not run yet."""
    source = "def slow(): yield 1\nasync def later(): return 1\nasync def items(): yield 1\n"
    space: dict[str, Any] = {"__name__": "work"}
    exec(compile(source, str(tmp_path / "work.py"), "exec"), space)  # noqa: S102 - the text above
    recorder._sources[str(recorder._root / "work.py")] = ("slow:1", "later:2", "items:3")
    coroutine = space["later"]()
    held = (
        ("slow", space["slow"](), "gi_code"),
        ("later", coroutine, "cr_code"),
        ("items", space["items"](), "ag_code"),
    )
    for name, holder, attribute in held:
        recorder.enter(name)
        recorder._audit("object.__getattr__", (holder, attribute))
        assert (f"work.py::{name}",) == recorder.usage().used[name]
    coroutine.close()


LOOKERS = """
def reads_lines(audit, event, *given):
    code.co_firstlineno if False else audit(event, given)


def reads_arguments(audit, event, *given):
    audit(event, given)


def moved(look, *given):
    look(*given)


def catches():
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__
"""


def test_the_lines_of_moved_code_are_used_by_whoever_may_read_them(tmp_path: Path) -> None:
    """Who asks for the arguments of a function sees nothing of a comment above it."""
    keys = ("moved:10", "catches:14")
    recorder = Recorder(Watch(root=str(tmp_path), code={"work.py": ()}, moved={"work.py": keys}))
    space: dict[str, Any] = {"__name__": "work"}
    exec(compile(LOOKERS, str(tmp_path / "work.py"), "exec"), space)  # noqa: S102 - the text above
    reads, asks, moved, traceback = space["reads_lines"], space["reads_arguments"], space["moved"], space["catches"]()
    held = "object.__getattr__"
    table: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: reads(recorder._audit, held, moved, "__code__"), "moved"),
        (lambda: asks(recorder._audit, held, moved, "__code__"), ""),
        (lambda: reads(recorder._audit, held, asks, "__code__"), ""),
        (lambda: asks(recorder._audit, held, traceback, "tb_frame"), "catches"),
        (lambda: asks(recorder._audit, held, traceback.tb_frame, "f_code"), "catches"),
        (lambda: moved(reads, recorder._audit, "sys._getframe", traceback.tb_frame), "moved"),
        (lambda: moved(asks, recorder._audit, "sys._getframe", traceback.tb_frame), ""),
    )
    for number, (look, name) in enumerate(table):
        recorder.enter(str(number))
        look()
        expected = (f"the lines of work.py::{name}",) if name else ()
        assert expected == recorder.usage().used.get(str(number), ())


def test_pytest_may_read_the_lines_of_moved_code(tmp_path: Path) -> None:
    """It does so of every error that a test expects."""
    recorder = Recorder(Watch(root=str(tmp_path), code={"work.py": ()}, moved={"work.py": ("catches:14",)}))
    space: dict[str, Any] = {"__name__": "_pytest.outcomes"}
    exec(compile(LOOKERS, str(tmp_path / "work.py"), "exec"), space)  # noqa: S102 - the text above
    space["reads_arguments"](recorder._audit, "object.__getattr__", space["catches"](), "tb_frame")
    assert {} == recorder.usage().used


def test_code_of_the_tree_that_names_lines_may_read_those_of_any_moved_code(
    tmp_path: Path, monitoring: "Monitoring"
) -> None:
    """Python does not tell who reads `frame.f_lineno`. Where no code has moved, nothing is used."""
    source = "def where(frame): return frame.f_lineno\ndef named(code): return getattr(code, 'co_firstlineno')\n"
    space: dict[str, Any] = {}
    exec(compile(source, str(tmp_path / "places.py"), "exec"), space)  # noqa: S102 - the text above
    elsewhere: dict[str, Any] = {}
    exec(compile(source, str(tmp_path.parent / "places.py"), "exec"), elsewhere)  # noqa: S102 - the text above
    for moved, used in (({}, []), ({"work.py": ("slow:1",)}, ["where", "named"])):
        recorder = Recorder(Watch(root=str(tmp_path), moved=moved))
        recorder.watch_code()
        for name in ("where", "named"):
            monitoring.callback(elsewhere[name].__code__, 0)
            monitoring.callback(space[name].__code__, 0)
        assert [f"line numbers, which places.py::{name} may read" for name in used] == seen(recorder)


def test_source_that_is_imported_is_not_read_as_a_file(recorder: Recorder, tmp_path: Path) -> None:
    """Python opens it through the same call; what is run of it is told by other means."""
    space: dict[str, Any] = {"audit": recorder._audit}
    exec(compile(LOADER, "<frozen importlib._bootstrap_external>", "exec"), space)  # noqa: S102 - the text above
    space["SourceLoader"].get_code(str(tmp_path / "work.py"))
    assert {} == recorder.usage().used
    space["SourceLoader"].get_source(str(tmp_path / "work.py"))
    assert {TEST: ("work.py, read as a file",)} == recorder.usage().used


HOOKED = """
import os, subprocess, sys
from pathlib import Path
from pytest_hwperf.host.usage import Recorder
from pytest_hwperf.stats.causes.changed_code import Watch

recorder = Recorder(Watch(root=sys.argv[1]))
sys.addaudithook(recorder._audit)
recorder.enter("test")
os.listdir(sys.argv[1])
open(__file__).close()
subprocess.run([sys.executable, "-c", ""])
print(recorder.usage().used)
"""


def test_the_hook_bears_the_events_that_it_causes_itself(tmp_path: Path) -> None:
    """Asking for a frame is one: a hook that does so at every event ends its process."""
    (tmp_path / "hooked.py").write_text(HOOKED, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "hooked.py"), str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ("", "{'test': ('another process',)}\n") == (done.stderr, done.stdout)


def test_programs_that_a_plugin_asks_at_the_start_are_of_no_tree(tmp_path: Path) -> None:
    """Until the first test is collected only what the tree itself starts counts."""
    recorder = Recorder(Watch(root=str(tmp_path)))
    recorder._audit("subprocess.Popen", ("file",))
    assert {} == recorder.usage().used
    space: dict[str, Any] = {"audit": recorder._audit}
    script = compile("def begin(): audit('subprocess.Popen', ('git',))", str(tmp_path / "conftest.py"), "exec")
    exec(script, space)  # noqa: S102 - the text above
    space["begin"]()
    assert {EVERY_TEST: ("another process",)} == recorder.usage().used


def test_processes_that_nobody_has_announced_are_noticed(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code starts processes too: the system knows what ended ones have used, and which are alive."""
    monkeypatch.setattr("pytest_hwperf.host.usage._children", lambda: ((0.1, 0.0, 300.0, 9000.0), False))
    recorder.enter("another test")
    monkeypatch.setattr("pytest_hwperf.host.usage._children", lambda: ((0.1, 0.0, 300.0, 9000.0), True))
    assert {TEST: ("another process",), "another test": ("another process",)} == recorder.usage().used


def watching(root: Path, keys: tuple[str, ...] = ("slow:1",)) -> Recorder:
    """Watch code of `work.py`, and for modules."""
    made = Recorder(Watch(root=str(root), code={"work.py": keys}, modules=("extra", "no_such_module")))
    made.watch_code()
    return made


def seen(recorder: Recorder) -> list[str]:
    return [*recorder.usage().used.get(EVERY_TEST, ())]


class Monitoring:
    """What `sys.monitoring` has from Python 3.12 on."""

    DISABLE = object()

    class events:  # noqa: N801 - its name there
        PY_START = 1

    def __init__(self, taken: int = 0) -> None:
        self.names = dict.fromkeys(range(taken), "other")
        self.callback: Any = None

    def get_tool(self, tool: int) -> str | None:
        return self.names.get(tool)

    def use_tool_id(self, tool: int, name: str) -> None:
        self.names[tool] = name

    def register_callback(self, _tool: int, _event: int, callback: Any) -> None:
        self.callback = callback

    def set_events(self, tool: int, _events: int) -> None:
        assert tool in self.names


@pytest.fixture
def monitoring(monkeypatch: pytest.MonkeyPatch) -> Monitoring:
    fake = Monitoring()
    monkeypatch.setattr(sys, "monitoring", fake, raising=False)
    return fake


def test_a_module_that_has_changed_has_changed_as_a_whole(tmp_path: Path, monitoring: Monitoring) -> None:
    recorder, found = watching(tmp_path, ("<module>",)), functions(tmp_path / "work.py")
    for name in ("slow", "steady"):
        monitoring.callback(found[name].__code__, 0)
    assert ["work.py::slow", "work.py::steady"] == seen(recorder)


def test_modules_that_are_looked_for_are_seen(tmp_path: Path, monitoring: Monitoring) -> None:
    """Also where nothing is imported, and whether or not there is such a module."""
    recorder = watching(tmp_path)
    script = "class FileFinder:\n    def find_spec(self, fullname): begins(FileFinder.find_spec.__code__, 0)\n"
    space: dict[str, Any] = {"begins": monitoring.callback}
    exec(compile(script, "<frozen importlib._bootstrap_external>", "exec"), space)  # noqa: S102 - the text above
    space["FileFinder"]().find_spec("pkg.extra")
    assert ["the module pkg.extra, which one side alone has"] == seen(recorder)


def test_monitoring_is_asked_no_more_about_other_code(tmp_path: Path, monitoring: Monitoring) -> None:
    """So that calls of other code, here and in another file, take no longer from their second one on."""
    recorder, found = watching(tmp_path), functions(tmp_path / "work.py")
    other: CodeType = functions(tmp_path / "other.py")["slow"].__code__
    assert monitoring.DISABLE is monitoring.callback(found["steady"].__code__, 0)
    assert monitoring.DISABLE is monitoring.callback(other, 0)
    assert monitoring.callback(found["slow"].__code__, 0) is None
    assert ["work.py::slow"] == seen(recorder)
    assert [(4, "hwperf-affected")] == list(monitoring.names.items())


def test_a_lack_of_tools_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "monitoring", Monitoring(taken=6), raising=False)
    with pytest.raises(OSError, match=r"all tools of sys\.monitoring are in use"):
        watching(tmp_path)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Recorder]:
    """Code that Python itself watches."""
    monitoring: Any = vars(sys)["monitoring"]
    before = {tool for tool in range(6) if monitoring.get_tool(tool)}
    yield watching(tmp_path)
    (tool,) = {tool for tool in range(6) if monitoring.get_tool(tool)} - before
    monitoring.set_events(tool, 0)
    monitoring.register_callback(tool, monitoring.events.PY_START, None)
    monitoring.free_tool_id(tool)


@pytest.mark.monitoring
@pytest.mark.parametrize("thread", ["here", "of Python", "of nobody"])
def test_python_tells_of_code_in_every_thread(tmp_path: Path, watched: Recorder, thread: str) -> None:
    """Each time that it is run, and not of other code; also in threads that `threading` does not know."""
    found = functions(tmp_path.resolve() / "work.py")

    def work(ended: threading.Event) -> None:
        found["steady"]()
        found["slow"]()
        ended.set()

    for context in ("one test", "another test"):
        watched.enter(context)
        ended = threading.Event()
        if thread == "here":
            work(ended)
        elif thread == "of Python":
            threading.Thread(target=work, args=(ended,)).start()
        else:
            _thread.start_new_thread(work, (ended,))
        assert ended.wait(60)
    assert dict.fromkeys(("one test", "another test"), ("work.py::slow",)) == watched.usage().used


@pytest.mark.monitoring
def test_python_tells_of_modules_that_are_looked_for(watched: Recorder) -> None:
    assert importlib.util.find_spec("no_such_module") is None
    assert ["the module no_such_module, which one side alone has"] == seen(watched)


@pytest.mark.monitoring
def test_what_a_trace_function_runs_is_told_to_nobody(tmp_path: Path, watched: Recorder) -> None:
    """So that setting one counts as use."""
    found, told = functions(tmp_path.resolve() / "work.py"), list[int]()
    before = sys.gettrace()
    sys.settrace(lambda *_: told.append(found["slow"]()))
    try:
        found["steady"]()
    finally:
        sys.settrace(before)
    assert told
    assert [] == seen(watched)
