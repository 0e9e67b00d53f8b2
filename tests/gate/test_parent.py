"""Parents of pairs: what they import for both sides, what they refuse, and how the sides that they fork end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fakes.processes import ends

from pytest_hwperf.gate.pair.parent import Imports, Parent, ParentLostError
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Side

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="each side imports everything itself on this system"),
]

# What a side tells of itself; its modules were imported before it began, and it ends as it is told to.
SIDE = """
import json, os, signal, sys, time
import shared
told = {"argv": sys.argv[1:], "path": sys.path, "here": os.getcwd(), "group": os.getpgrp() == os.getpid(),
        "own": os.environ.get("OWN"), "seed": os.environ["PYTHONHASHSEED"], "hash": hash("text"),
        "task": json.loads(os.environ["HWPERF_WORKER"])["side"], "imported_by": shared.PROCESS, "parent": os.getppid(),
        "temporary": os.environ.get("TMPDIR"), "kept": shared.HERE}
print(json.dumps(told), flush=True)
if "wait" in sys.argv:
    time.sleep(600)
sys.exit(int(sys.argv[1]))
"""
WAIT_S = 60.0

Start = Callable[..., Parent]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed modules, which both sides and their parent find."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "shared.py").write_text("import os\nPROCESS, HERE = os.getpid(), os.getcwd()\n", encoding="utf-8")
    return folder


def command(tmp_path: Path, site: Path, side: str, *words: str) -> Command:
    place = tmp_path / f"tree-{side}"
    place.mkdir(exist_ok=True)
    (place / "side_program.py").write_text(SIDE, encoding="utf-8")
    path = os.pathsep.join([str(place), str(site)])
    own = {"PYTHONPATH": path, "OWN": side, "TMPDIR": str(place)}
    return Command(module="side_program", arguments=words, directory=place, environment={**os.environ, **own})


@pytest.fixture
def start(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a parent whose interpreter finds the folder of installed modules, as it finds its own site-packages."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with ExitStack() as stack:

        def started(*names: str, **files: str) -> Parent:
            modules = {name: str(site / f"{name}.py") for name in names} | files
            same = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
            imports = Imports(
                modules=modules, environment={**same, "PYTHONPATH": str(site)}, differing={"TMPDIR", "OWN"}
            )
            parent = Parent.start(command(tmp_path, site, "baseline"), imports, 7)
            stack.callback(parent.end)
            return parent

        yield started


def descriptors() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


def tasks(tmp_path: Path, site: Path, **words: list[str]) -> list[tuple[Side, Command, WorkerTask]]:
    sides: tuple[Side, ...] = ("candidate", "baseline")
    return [
        (side, command(tmp_path, site, side, *words.get(side, ["0"])), WorkerTask(role="pair", side=side))
        for side in sides
    ]


def test_both_sides_begin_as_processes_of_their_own_do(start: Start, tmp_path: Path, site: Path) -> None:
    """With their own environment, folder, path and arguments, in a group of their own; imports were made before."""
    parent = start("shared")
    assert {} == parent.refused(WAIT_S)
    assert {} == parent.refused(0.0), "it is asked again when a pair takes it"
    sides = parent.fork(tasks(tmp_path, site, candidate=["3"], baseline=["0"]))
    assert {"candidate": 3, "baseline": 0} == {side: one.process.wait(WAIT_S) for side, one in sides.items()}
    told: dict[Side, Any] = {side: json.loads(one.log.read_text()) for side, one in sides.items()}
    for side, one in told.items():
        tree = str(tmp_path / f"tree-{side}")
        assert (side, side) == (one["own"], one["task"])
        assert [tree] * 3 == [one["here"], one["temporary"], one["kept"]]
        assert [tree, str(site)] == [entry for entry in one["path"] if entry.startswith(str(tmp_path))]
        assert one["group"]
        assert parent.pid == one["parent"] == one["imported_by"]
    assert told["baseline"]["hash"] == told["candidate"]["hash"]
    assert {"7"} == {one["seed"] for one in told.values()}


ENVIRONMENT, FOLDER = (
    f"it reads {what}, which differs between the sides" for what in ("TMPDIR", "the working directory")
)
REFUSED = {  # why a package of this text is
    "import os\nos.environ.get('TMPDIR')": ENVIRONMENT,
    "import os\nall = dict(os.environ)": "it reads the whole environment, which differs between the sides",
    "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()": (
        "it starts a Python thread"
    ),
    "import os\nDATA = os.getcwd() + '/data'": FOLDER,
    "import os\nHERE = os.getcwd()\nclass Root:\n  def __fspath__(self): return HERE\nROOT = Root()": FOLDER,
    "import sys\nfor one in sys.path: pass": "it reads sys.path, which differs between the sides",
    "import sys\nWORDS = list(sys.argv)": "it reads the command line, which differs between the sides",
    "import os\nHAS = os.path.exists('own.cfg')": "it uses the file own.cfg, which differs between the sides",
    "try:\n  open('own.cfg')\nexcept OSError: pass": "it uses the file own.cfg, which differs between the sides",
    "import missing_one": "its import fails without missing_one",
    "import os\nKEPT = os.open(os.devnull, os.O_RDONLY)": "it leaves a file or a connection open",
    "import other": "it loads other, which the sides do not share",
    "raise ValueError(1)": "its import fails: ValueError",
}


def test_what_cannot_be_shared_is_left_to_the_sides(start: Start, site: Path) -> None:
    (site / "other.py").write_text("", encoding="utf-8")
    for text, why in REFUSED.items():
        (site / "package.py").write_text(text, encoding="utf-8")
        assert {"package": why} == start("package", "shared").refused(WAIT_S)


def test_a_module_of_another_file_and_one_that_no_import_finds(start: Start, tmp_path: Path) -> None:
    """The first is another module on a side; the second is made by code that makes it there too."""
    parent = start(shared=str(tmp_path / "elsewhere.py"), made_by_code="made.py")
    assert {"shared": "it loads shared, which the sides do not share"} == parent.refused(WAIT_S)


def test_a_parent_that_is_killed_is_lost(start: Start) -> None:
    parent = start("shared")
    os.kill(parent.pid, signal.SIGKILL)
    with pytest.raises(ParentLostError, match="has ended"):
        parent.refused(WAIT_S)


def test_a_module_that_looks_for_others_by_their_files_is_shared(start: Start, site: Path) -> None:
    """As torch, which makes a module whose file is relative: it is found below the working directory, and not kept."""
    text = (
        "import inspect, sys, types\nmade = sys.modules['made'] = types.ModuleType('made')\nmade.__file__ = 'made.py'\n"
        "inspect.getmodule(inspect.currentframe(), 'nowhere.py')\n"
    )
    (site / "looking.py").write_text(text, encoding="utf-8")
    tell = (
        "import inspect, json, sys; print(json.dumps({k: getattr(v, '__file__', '') for k, v in sys.modules.items()}))"
    )
    told = subprocess.run([sys.executable, "-Sc", tell], capture_output=True, check=True, text=True).stdout
    files = {name: file for name, file in json.loads(told).items() if file}
    assert {} == start("looking", **files, made="made.py").refused(WAIT_S)


def test_a_module_that_keeps_a_function_of_files_has_the_function_itself(site: Path) -> None:
    """As numpy keeps `open`: what stands in for it while packages are imported is in no process of a side."""
    file = site / "keeping.py"
    file.write_text("import os\nOPEN, STAT = open, os.stat\n", encoding="utf-8")
    tell = (
        f"import os, sys; sys.path.insert(0, {str(site)!r}); from pytest_hwperf.host.pair_parent import import_all; "
        f"print(import_all(dict(keeping={str(file)!r}), (), ())); import keeping; "
        "print(keeping.OPEN is open, keeping.STAT is os.stat)"
    )
    told = subprocess.run([sys.executable, "-c", tell], capture_output=True, check=True, text=True).stdout
    assert ["{}", "True True"] == told.splitlines()


def test_a_side_that_is_killed_says_so_and_both_end_with_their_parent(start: Start, tmp_path: Path, site: Path) -> None:
    parent = start("shared")
    parent.refused(WAIT_S)
    sides = parent.fork(tasks(tmp_path, site, candidate=["0", "wait"], baseline=["0", "wait"]))
    os.kill(sides["candidate"].process.pid, signal.SIGKILL)
    assert -signal.SIGKILL == sides["candidate"].process.wait(WAIT_S)
    assert sides["baseline"].process.poll() is None
    for one in sides.values():
        one.end()
    parent.end()
    assert all(ends(one.process.pid) for one in sides.values())
    assert ends(parent.pid)


def test_a_parent_that_waits_goes_on_when_it_is_needed(start: Start, tmp_path: Path, site: Path) -> None:
    parent = start("shared")
    parent.wait()
    assert {} == parent.refused(WAIT_S)
    sides = parent.fork(tasks(tmp_path, site, candidate=["0", "wait"], baseline=["0", "wait"]))
    parent.wait()
    for one in sides.values():
        one.end()
    parent.wait()
    parent.end()
    assert ends(parent.pid)


def test_nothing_is_left_where_a_parent_cannot_be_started(tmp_path: Path, site: Path) -> None:
    """Another interpreter that is none."""
    broken = command(tmp_path, site, "baseline")
    broken = Command(
        arguments=[], directory=broken.directory, environment=broken.environment, interpreter=str(tmp_path / "none")
    )
    before = descriptors()
    with pytest.raises(WorkerError, match="cannot be started"):
        Parent.start(broken, Imports(modules={}, environment={}, differing=()), 7)
    assert descriptors() <= before
