"""Writers of baselines at once, and killed ones: nothing that was reported as saved is lost, and no file is left.

`HWPERF_TEST_KILLS=50 python -m pytest -m live tests/attack/test_writers.py` kills 200 of them at random moments instead
of a few; a failure names its own.
"""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from fakes import records as fake

from pytest_hwperf.stores import json_files
from pytest_hwperf.stores.json_files import JsonStore

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")]

TESTS = Path(__file__).parents[1]
PACKAGE = Path(json_files.__file__).parents[2]
KILLED_SAVES = 4 * int(os.environ.get("HWPERF_TEST_KILLS", "1"))
WRITERS, SAVES = 16, 3
# Of one test's baseline.
FILES = [".gitattributes", ".gitignore", "tests-test_iris-py-test_classifier-6ba0abecf4b8.jsonl"]

# Processes that begin together, in a folder that is not there yet; each saves runs of one test: 1000, 1001, …, of the
# next 2000, 2001, …
SAVE_TOGETHER = """
import os, sys
from fakes import records as fake
from pytest_hwperf.stores.json_files import JsonStore

root, writers, saves, keep = sys.argv[1], *map(int, sys.argv[2:])
reading, writing = os.pipe()

def save(writer):
    os.close(writing)
    os.read(reading, 1)  # until all are there
    store = JsonStore(root, keep=keep)
    store.check("main", writing=True)
    for number in range(saves):
        (answer,) = store.save("main", [fake.session(median_s=1000.0 * writer + number)])
        assert isinstance(answer, str), answer

started = []
for writer in range(1, writers + 1):
    started.append(os.fork())
    if not started[-1]:
        save(writer)
        os._exit(0)
os.close(writing)
sys.exit(max(os.waitpid(one, 0)[1] for one in started) != 0)
"""

# Kills processes that save 1, 2, … in a new folder each, and prints: after how many seconds, how many saves each has
# reported, what is found then, and which files there are after the next session.
KILL_SAVING = """
import itertools, json, os, random, signal, sys, time
from pathlib import Path
from fakes import records as fake
from pytest_hwperf.stores.json_files import JsonStore

def save(store, median):
    store.check("main", writing=True)
    (answer,) = store.save("main", [fake.session(median_s=float(median))])
    assert isinstance(answer, str), answer

def found(root):
    stored = JsonStore(root).load("main", fake.machine(), fake.TEST, "")
    return [session.figures[0].estimate.value for session in stored]

for number in range(int(sys.argv[2])):
    place, moment_s, (reading, writing) = Path(sys.argv[1], str(number)), random.uniform(0, 0.05), os.pipe()
    place.mkdir(parents=True)
    store = JsonStore(place / ".hwperf", keep=1000)
    child = os.fork()
    if not child:
        for median in itertools.count(1):
            save(store, median)
            os.write(writing, b".")
    os.close(writing)
    time.sleep(moment_s)
    os.kill(child, signal.SIGKILL)
    assert signal.SIGKILL == os.waitpid(child, 0)[1]  # it has not ended by itself
    with os.fdopen(reading) as reports:
        reported = len(reports.read())
    left = found(place / ".hwperf")
    save(JsonStore(place / ".hwperf", keep=1000, patience_s=0.0), 0)
    files = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.name != ".lock")
    print(json.dumps([moment_s, reported, left, found(place / ".hwperf"), files]), flush=True)
"""

# Ends a process of its own at the first line of a save of two tests that the store runs, in whichever thread, then one
# at the second, and so on until a save comes through; after each it prints which sessions are left. The alarms wake the
# main thread: a signal that comes just before it waits for the others is not seen until then, and in Python 3.11 a
# traced thread runs on the spot as long as a signal is pending, so that both would wait for ever.
END_AT_EVERY_LINE = """
import itertools, json, os, signal, sys, threading
from fakes import records as fake
from pytest_hwperf.stores import baseline_folder, json_files
from pytest_hwperf.host import files

store, kind, step, status = json_files.JsonStore(sys.argv[1], keep=1000), int(sys.argv[2]), 0, -1
tests, files = ("one", "two"), (json_files.__file__, baseline_folder.__file__, files.__file__)
pure = ("render", "parse", "_digest", "_heading")  # what turns runs into bytes, in lines that grow with the runs

def save(median):
    answers = store.save("main", [fake.session(test=test, median_s=float(median)) for test in tests])
    assert all(isinstance(answer, str) for answer in answers), answers

def end_at(line):
    lines = itertools.count(1)
    def trace(frame, event, argument):
        if frame.f_code.co_filename not in files or frame.f_code.co_qualname.startswith(pure):
            return None
        if event == "line" and next(lines) == line:
            os.kill(os.getpid(), kind)
        return trace
    return trace

save(0)
while status != 0:
    step += 1
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        threading.settrace(end_at(step))
        sys.settrace(threading.gettrace())
        try:
            save(step)
        except KeyboardInterrupt:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    found = [store.load("main", fake.machine(), test, "") for test in tests]
    print(json.dumps([status, *([s.figures[0].estimate.value for s in sessions] for sessions in found)]), flush=True)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "baselines"


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Start Python on a script that may use the fakes and the package under test."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PACKAGE)])},
    )


def medians(root: Path) -> list[float]:
    stored = JsonStore(root).load("main", fake.machine(), fake.TEST, "")
    return [session.figures[0].estimate.value for session in stored]


@pytest.mark.parametrize("keep", [1000, 20])
def test_writers_at_once_lose_nothing(root: Path, keep: int) -> None:
    """Of each writer the newest runs are there, in order; of all together as many as are kept."""
    with start(SAVE_TOGETHER, root, WRITERS, SAVES, keep) as writers:
        assert 0 == writers.wait(60)
    kept = defaultdict[float, list[float]](list)
    for median in medians(root):
        kept[median // 1000].append(median % 1000)
    assert min(keep, WRITERS * SAVES) == sum(map(len, kept.values()))
    assert all([*range(SAVES)][-len(numbers) :] == numbers for numbers in kept.values())
    assert FILES == sorted(path.name for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    JsonStore(root, patience_s=0.0).check("main", writing=True)  # nobody holds the lock


def test_a_writer_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    """All that it has reported as saved is there, and at most the run that it was about to save beside them."""
    with start(KILL_SAVING, tmp_path, KILLED_SAVES) as process:
        output, _ = process.communicate(timeout=60 + KILLED_SAVES)
    rounds = [json.loads(line) for line in output.splitlines()]
    assert KILLED_SAVES == len(rounds)
    for moment_s, reported, found, after, files in rounds:
        said = f"killed after {moment_s:.6f} s"
        assert found == [*range(1, len(found) + 1)], said
        assert len(found) in (reported, reported + 1), said
        assert [*found, 0] == after, said
        assert FILES == [Path(file).name for file in files], said


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_save_may_end_at_any_line(root: Path, kind: signal.Signals) -> None:
    """Each time all earlier sessions are there, whole and in order, and at most the one under way beside them."""
    with start(END_AT_EVERY_LINE, root, int(kind)) as process:
        output, _ = process.communicate(timeout=60)
    rounds = [json.loads(line) for line in output.splitlines()]
    assert len(rounds) > 60  # lines of a save
    assert rounds[-1] == [0, *([*before, len(rounds)] for before in rounds[-2][1:])]
    assert 0 not in [status for status, *_ in rounds[:-1]]
    before = [[0.0], [0.0]]
    for step, (_, *found) in enumerate(rounds, start=1):
        assert all(now in (then, [*then, step]) for then, now in zip(before, found, strict=True))
        before = found
    store = JsonStore(root)
    store.check("main", writing=True)
    assert [path for path in (root / "main").rglob("*") if path.suffix == ".tmp"] == []
