"""What all tests share."""

import gc
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Before any of them is imported: sessions within tests load some as plugins, and would warn of the order of imports.
pytest.register_assert_rewrite("fakes")

from fakes.repositories import commit, git, repository_with  # noqa: E402 - as above

from pytest_hwperf.records.structs import Record  # noqa: E402 - as above

pytest_plugins = ["pytester"]

GOLDEN = Path(__file__).parent / "golden"
_DIFF_LINES = 60  # of what is shown of a file that differs
# With --dist loadfile --no-loadscope-reorder no worker waits at the end for one of these.
_LONGEST = (
    "test_readme_commands",
    "test_gate_rehearsal",
    "test_gate",
    "test_fresh_processes",
    "test_installed_layouts",
    "test_mutated_files",
    "test_gate_rows",
    "test_docs",
    "test_start_order",
)

# A busy machine fails no test.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files again, for review in version control"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Hold the garbage collector while tests and libraries are loaded: it would look at all of them repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave simulations out where live tests are: they take as long."""
    if item.get_closest_marker("simulation"):
        item.add_marker("live")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    rank = {name: number for number, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs `sys.monitoring`."""
    if item.get_closest_marker("monitoring") and not hasattr(sys, "monitoring"):
        pytest.skip("--hwperf-affected needs Python 3.12")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show by field in what two records differ."""
    if op != "==" or type(left) is not type(right) or not isinstance(left, Record):
        return None
    return [f"two {type(left).__name__} differ", *_differences("", left, right)]


def _differences(place: str, expected: object, got: object) -> Iterator[str]:
    if expected == got:
        return
    if isinstance(expected, Record) and type(expected) is type(got):
        for name in expected.__struct_fields__:
            yield from _differences(f"{place}.{name}", getattr(expected, name), getattr(got, name))
    elif isinstance(expected, tuple) and isinstance(got, tuple) and len(expected) == len(got):
        for number, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from _differences(f"{place}[{number}]", one, other)
    else:
        yield f"{place}: expected {expected!r}, got {got!r}"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str | Path, bytes], None]:
    """Compare output with tests/golden/NAME, or another file; where they differ, NAME.actual lies beside it."""

    def compare(name: str | Path, actual: bytes) -> None:
        path = GOLDEN / name
        beside = path.with_name(f"{path.name}.actual")
        beside.unlink(missing_ok=True)
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(actual)
        elif not path.exists() or path.read_bytes() != actual:
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(actual)
            known = path.read_bytes() if path.exists() else b""
            old, new = (_lines_of(path, one) for one in (known, actual))
            differing = unified_diff(old, new, str(path), str(beside), lineterm="", n=1)
            shown = "\n".join(islice(differing, _DIFF_LINES))
            pytest.fail(f"differs from {path}, accept with --update-golden:\n{shown}", pytrace=False)

    return compare


def _lines_of(path: Path, content: bytes) -> list[str]:
    """Return the lines of a golden file; of JSON, which is written on one, those of its values."""
    text = content.decode("utf-8", "replace")
    return (json.dumps(json.loads(text), indent=1) if path.suffix == ".json" and text else text).splitlines()


@pytest.fixture(autouse=True)
def _small_heap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the garbage collector look only at what the test itself has made: measuring collects often."""
    gc.freeze()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1_000_000)  # to count them takes as long
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _one_plugin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that a test starts load this plugin alone: all that are installed take as long as pytest itself."""
    if "other_plugins" not in request.fixturenames:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.setenv("PYTEST_PLUGINS", "pytest_hwperf.plugin")


@pytest.fixture
def other_plugins() -> None:
    """Let every plugin that is installed be loaded."""


@pytest.fixture
def fakes_in_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fresh processes import `fakes`."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


@pytest.fixture(autouse=True, scope="session")
def _untraced() -> Iterator[None]:
    """Let coverage not follow into the processes that tests start, which takes as long as they do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_bytecode() -> Iterator[None]:
    """Let a test file that is written twice in one second, with the same size, be read as it now is.

    Python and pytest know their cached bytecode by the source's size and its time in whole seconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        yield


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> Iterator[None]:
    """Let processes that tests start obey signals that a shell in the background, or nohup, ignores for all of them."""
    handlers: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler}
    if sys.platform != "win32":
        handlers[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep converted models out of the user's own cache, and this machine's real counters out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("hwperf-cache")))
        patch.delenv("HWPERF_POWERCAP_ROOT", raising=False)
        patch.delenv("HWPERF_WATTS", raising=False)
        yield


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let temporary places lie apart from those of other runs."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def repository(temporary: Path) -> Path:
    """One commit, of `model.py`."""
    return repository_with(temporary.parent / "project", model__py="old")


@pytest.fixture
def with_submodule(repository: Path, tmp_path: Path) -> Path:
    inner = repository_with(tmp_path / "inner", weights="1")
    git(repository, "submodule", "add", str(inner), "vendored")
    commit(repository)
    return repository
