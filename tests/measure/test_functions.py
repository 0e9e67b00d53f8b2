"""Where the time of a call goes: calls that are counted, stacks that are sampled, and names of frames."""

import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from time import perf_counter, thread_time, thread_time_ns
from types import CodeType
from typing import Any

import pytest
from fakes.clocks import HandClock

from pytest_hwperf.measure.functions import (
    FrameNames,
    Samples,
    count_functions,
    folded,
    is_measured,
    sample_functions,
    sampling,
)
from pytest_hwperf.measure.rounds import Rounds, RoundStream
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.stats.causes.changed_code import digest_of

FILE = Path(__file__)
CALL_NS = 1_000_000


def inner() -> None:
    """Do nothing."""


def items() -> Iterator[int]:
    yield from range(3)


class Model:
    def predict(self) -> None:
        inner()
        inner()
        list(items())


def test_functions_are_counted_by_their_qualified_names() -> None:
    """A generator begins again with each of its items, so that its calls are not known."""
    stream = Stream(Model().predict, None)
    found = count_functions(lambda: stream.batch(2, lambda: 0), 2)
    counts = {
        one.co_qualname: count
        for one, count in found.items()
        if one.co_filename == __file__ and "lambda" not in one.co_qualname
    }
    assert {"Model.predict": 1.0, "inner": 2.0, "items": None} == counts
    assert sys.getprofile() is None


STACK = (Stream.batch.__code__, Model.predict.__code__)


def play(monkeypatch: pytest.MonkeyPatch, stacks: dict[tuple[CodeType, ...], float]) -> None:
    """Let ten samples be taken of these stacks."""

    @contextmanager
    def sampling(interval_s: float, clock: Callable[[], float]) -> Iterator[Samples]:
        assert (0.0005, perf_counter) == (interval_s, clock)  # these calls take no CPU time
        samples = Samples(HandClock())
        samples.seconds, samples.count = dict(stacks), 10
        yield samples

    monkeypatch.setattr("pytest_hwperf.measure.functions.sampling", sampling)


def test_a_profile_has_the_stacks_of_the_call_and_what_it_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take 1 ms; blocks of them are doubled until they take 2.5 ms."""
    play(monkeypatch, {STACK: 0.1, (*STACK, inner.__code__): 0.9})
    clock, made = HandClock(), list[int]()
    monkeypatch.setattr("pytest_hwperf.measure.functions.perf_counter_ns", lambda: int(clock() * 1e9))
    stream = Stream(Model().predict, None)

    def batch(count: int, clock_ns: Callable[[], int]) -> int:
        made.append(count)
        stream.batch(1, lambda: 0)
        clock.pass_time(count * CALL_NS * 1e-9)
        return count * CALL_NS * (clock_ns is not thread_time_ns)

    found = sample_functions(batch, FILE.parent, seconds=1.0)

    file = FILE.name
    assert {f"Model.predict ({file})": 1e-4, f"Model.predict ({file});inner ({file})": 9e-4} == pytest.approx(
        dict(found.stacks)
    )
    assert 50 == found.samples  # of five rounds
    assert pytest.approx([1e-3, 1e-3]) == [found.call_s, found.plain_s]
    assert "stacks sampled every 0.5 ms" == found.source
    assert 1.0 == found.functions[f"inner ({file})"].calls  # two in the one call that both blocks of two have made
    assert [2, 1, 2, 4] == made[:4]
    assert {4} == {*made[4:]}


def prepared() -> tuple[tuple[()], dict[str, object]]:
    """Prepare a call by a function that the call calls too."""
    inner()
    return (), {}


def test_what_is_done_between_calls_is_part_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sampled nor counted: nine tenths of the time go into the set-up."""
    stream = RoundStream(Model().predict, Rounds(prepare=prepared, interrupts=True, rounds=None))
    assert stream.caller is not None
    called = (RoundStream.round.__code__, stream.caller, Model.predict.__code__)
    between = (RoundStream.round.__code__, prepared.__code__, inner.__code__)
    play(monkeypatch, {called: 0.05, (*called, inner.__code__): 0.05, between: 0.9})

    def batch(count: int, clock_ns: Callable[[], int]) -> int:
        stream.batch(1, lambda: 0)
        return count * CALL_NS * (clock_ns is not thread_time_ns)

    found = sample_functions(batch, FILE.parent, 0.0, stream.caller)

    file = FILE.name
    assert {f"Model.predict ({file})": 5e-4, f"Model.predict ({file});inner ({file})": 5e-4} == pytest.approx(
        dict(found.stacks)
    )
    assert 1.0 == found.functions[f"inner ({file})"].calls  # two in the one call that a block of two has made
    assert f"prepared ({file})" not in found.functions


def test_blocks_are_no_longer_than_they_have_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a microsecond with 4 ms between two calls: blocks of one."""
    play(monkeypatch, {STACK: 1.0})
    clock, made = HandClock(), list[int]()
    monkeypatch.setattr("pytest_hwperf.measure.functions.perf_counter_ns", lambda: int(clock() * 1e9))

    def batch(count: int, clock_ns: Callable[[], int]) -> int:
        made.append(count)
        clock.pass_time(count * 0.004)
        return count * 1000 * (clock_ns is not thread_time_ns)

    sample_functions(batch, FILE.parent, 0.1)
    assert {1} == {*made[1:]}


def test_a_call_without_any_function_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, {STACK[:1]: 1.0})
    clock = HandClock()
    monkeypatch.setattr("pytest_hwperf.measure.functions.perf_counter_ns", lambda: int(clock() * 1e9))

    def batch(_: int, clock_ns: Callable[[], int]) -> int:
        clock.pass_time(10)
        return 10**10 * (clock_ns is not thread_time_ns)

    with pytest.raises(MeasurementError, match="no Python function was called"):
        sample_functions(batch, FILE.parent, 0.0)


def test_calls_that_compute_are_timed_by_their_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work makes every second call last three times as long."""
    clocks, clock, calls = list[object](), HandClock(), itertools.count()
    monkeypatch.setattr("pytest_hwperf.measure.functions.perf_counter_ns", lambda: int(clock() * 1e9))
    monkeypatch.setattr("pytest_hwperf.measure.functions.IN_MAIN_THREAD", True)

    @contextmanager
    def sampling(_: float, clock: Callable[[], float]) -> Iterator[Samples]:
        clocks.append(clock)
        samples = Samples(HandClock())
        samples.seconds, samples.count = {STACK: 1.0}, 10
        yield samples

    monkeypatch.setattr("pytest_hwperf.measure.functions.sampling", sampling)

    def batch(count: int, clock_ns: Callable[[], int]) -> int:
        lasted = count * CALL_NS * (3 if next(calls) % 2 else 1)
        clock.pass_time(lasted * 1e-9)
        return count * CALL_NS if clock_ns is thread_time_ns else lasted

    found = sample_functions(batch, FILE.parent, 1.0)
    assert {thread_time} == {*clocks}
    assert pytest.approx([1e-3, 1e-3]) == [found.call_s, found.plain_s]


def test_two_profilers_do_not_share_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getprofile", lambda: "another")
    with pytest.raises(MeasurementError, match="another profiler watches the process"):
        sample_functions(lambda _, __: 0, FILE.parent, 1.0)


def test_small_stacks_count_to_the_frame_that_they_are_in() -> None:
    """As often as it takes: what is left of a branch may be small too; the outermost stays."""
    stacks = {("a",): 0.1, ("a", "b"): 5.0, ("a", "b", "c"): 0.4, ("a", "b", "c", "d"): 0.4, ("a", "e", "f"): 0.1}
    assert {("a",): 0.2, ("a", "b"): 5.8} == pytest.approx(folded(stacks, 1.0))


ROOT = Path("/home/me/project")


def code(name: str, file: str, line: int) -> CodeType:
    """Return the code of a function that does nothing."""
    return (lambda: None).__code__.replace(co_name=name, co_qualname=name, co_filename=file, co_firstlineno=line)


OWN = code("_batch", str(Path(sys.modules[FrameNames.__module__].__file__ or "").parents[1] / "measure/stream.py"), 9)
PREDICT = code("predict", f"{ROOT}/src/model.py", 4)
SPLIT = code("split", "/usr/lib/python3.11/re/__init__.py", 198)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> FrameNames:
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3.11"])
    return FrameNames(ROOT)


PATHS: list[tuple[list[CodeType], list[str]]] = [
    ([OWN, PREDICT], ["predict (src/model.py)"]),
    ([PREDICT, OWN, PREDICT], ["predict (src/model.py)"]),  # from the last frame of this package on
    ([OWN, PREDICT, SPLIT], ["predict (src/model.py)", "split (re/__init__.py)"]),
    ([OWN, PREDICT, PREDICT, PREDICT, SPLIT], ["predict (src/model.py)", "split (re/__init__.py)"]),  # recursion
    ([OWN, PREDICT, code("<listcomp>", PREDICT.co_filename, 5)], ["predict (src/model.py)"]),
    ([OWN, code("runtest", "/lib/_pytest/python.py", 1), PREDICT], ["predict (src/model.py)"]),
    ([OWN, code("Collector.lock_data", "/lib/site-packages/coverage/collector.py", 1)], []),
    ([OWN, code("share", f"{ROOT}/coverage/maps.py", 1)], ["share (coverage/maps.py)"]),
    ([OWN, PREDICT, code("made", "", 3)], ["predict (src/model.py)", "made (compiled at run time)"]),
    ([OWN, code("__init__", "<string>", 1)], ["__init__ (compiled at run time)"]),
    ([OWN], []),
    ([PREDICT], []),  # not called by a measurement
]


def test_a_path_begins_at_the_measured_callable(names: FrameNames) -> None:
    assert [tuple(path) for _, path in PATHS] == [names.path(frames) for frames, _ in PATHS]


def test_code_of_the_repository_is_the_users_also_outside_the_root_of_the_tests(tmp_path: Path) -> None:
    """As in a monorepo, where a package and its tests have a configuration of their own."""
    (tmp_path / ".git").mkdir()
    names = FrameNames(tmp_path / "services" / "ranker")
    shared = code("split", str(tmp_path / "libraries" / "text.py"), 3)
    installed = code("load", str(tmp_path / "env/lib/python3.12/site-packages/pkg/mod.py"), 3)
    (one,) = names.path([OWN, shared])
    names.path([OWN, installed])
    assert {one} == names.own


def test_the_code_of_functions_that_no_call_has_reached_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested ones too; of a module whose file is broken since its import, and of what is installed, nothing is.

    Functions of one name have their codes together.
    """
    source = "PAIR = (lambda: 1), (lambda: 2)\n"
    source += "class Tree:\n    def copy(self):\n        def part():\n            return 1\n        return part\n"
    for name in ("trees", "later", "site-packages/other"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        loader = SourceFileLoader(path.stem, str(path))
        module = module_from_spec(spec_from_loader(path.stem, loader) or pytest.fail("no loader"))
        loader.exec_module(module)
        monkeypatch.setitem(sys.modules, path.stem, module)
    (tmp_path / "later.py").write_text("def broken(:\n")

    found = FrameNames(tmp_path)
    codes = found.codes()
    functions = {frame for frame in codes if "copy" in frame}
    assert {"Tree.copy (trees.py)", "Tree.copy.<locals>.part (trees.py)"} == functions
    assert digest_of(sys.modules["trees"].Tree.copy.__code__) == codes["Tree.copy (trees.py)"]
    assert (
        " ".join(sorted(digest_of(one.__code__) for one in sys.modules["trees"].PAIR)) == codes["<lambda> (trees.py)"]
    )
    assert {} == found.lines


def test_a_comprehension_is_part_of_the_code_of_its_function() -> None:
    """Its time is too. All comprehensions are functions in some versions of Python alone."""
    codes = set[str]()
    for work in ("len(word)", "len(word * 2)"):
        scope: dict[str, Any] = {}
        exec(compile(f"def clean(words): return sum({work} for word in words)", f"{ROOT}/m.py", "exec"), scope)  # noqa: S102
        codes |= {*_of(scope["clean"].__code__).values()}
    assert 2 == len(codes)


def _of(function: CodeType) -> dict[str, str]:
    names = FrameNames(ROOT)
    names.path([OWN, function])
    return names.codes()


def test_one_of_several_functions_of_a_name_has_no_code(names: FrameNames) -> None:
    """The other sides may have met another one of them first."""
    others = [code("predict", f"{ROOT}/src/model.py", line).replace(co_consts=(line,)) for line in (4, 9)]
    for one in others:
        names.path([OWN, one])
    assert {} == names.codes()


def test_code_is_told_apart_that_is_the_users_and_has_a_file(names: FrameNames) -> None:
    names.path([OWN, code("made", "", 3), PREDICT])
    assert digest_of(PREDICT) == names.codes()["predict (src/model.py)"]
    assert "made (compiled at run time)" not in names.codes()
    assert {"made (compiled at run time)": 0, "predict (src/model.py)": 4} == names.lines


def test_a_hostile_name_separates_no_frames_and_moves_no_cursor(names: FrameNames) -> None:
    """Code objects may have any name, and files any path."""
    odd = code("a;b\x1b[2J" + 500 * "x", f"{ROOT}/a;b.py", 1)
    (frame,) = names.path([OWN, odd])
    assert ";" not in frame
    assert frame.isprintable()
    assert 300 > len(frame)


def test_functions_of_the_call_are_counted() -> None:
    inner_part = code("M.f.<locals>.<genexpr>", PREDICT.co_filename, 5)
    pytests_own = code("runtest", "/lib/_pytest/python.py", 1)
    codes = (PREDICT, SPLIT, OWN, inner_part, pytests_own)
    assert [True, True, False, False, False] == [is_measured(one) for one in codes]


LONG_S = 1000.0  # no tick but those of the test


def tick() -> None:
    signal.raise_signal(signal.SIGALRM)


def work() -> None:
    tick()


def sampled(samples: Samples) -> dict[str, float]:
    """Return the seconds of each stack by its two innermost functions."""
    return {".".join(code.co_name for code in stack[-2:]): seconds for stack, seconds in samples.seconds.items()}


def test_a_sample_stands_for_the_time_since_the_one_before() -> None:
    clock = HandClock()
    with sampling(LONG_S, clock) as samples:
        for seconds in (0.5, 0.25):
            clock.pass_time(seconds)
            work()
        clock.pass_time(2.0)
        tick()
    assert (3, {"work.tick": 0.75}) == (samples.count, {k: v for k, v in sampled(samples).items() if k == "work.tick"})
    assert 2.75 == sum(samples.seconds.values())


def test_a_handler_and_a_timer_that_were_there_go_on() -> None:
    """Of 60 s, 20 have passed meanwhile."""
    clock, seen = HandClock(), list[int]()
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 60.0, 5.0)
        with sampling(LONG_S, clock):
            clock.pass_time(20.0)
        left_s, every_s = signal.setitimer(signal.ITIMER_REAL, 0)
        tick()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 40.0 == pytest.approx(left_s, abs=5.0)
    assert (5.0, [signal.SIGALRM]) == (every_s, seen)


def test_no_timer_is_left_behind_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), sampling(LONG_S):
        raise ZeroDivisionError
    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)


def test_a_tick_that_comes_late_is_no_sample_and_ends_nothing() -> None:
    """Python runs handlers between two instructions: the timer may have fired before it was stopped."""
    with sampling(LONG_S) as samples:
        pass
    tick()
    assert 0 == samples.count
    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)


def test_another_thread_cannot_be_sampled() -> None:
    said = list[str]()

    def try_it() -> None:
        try:
            with sampling(LONG_S):
                pass
        except MeasurementError as error:
            said.append(str(error))

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    assert ["functions are sampled in the main thread alone"] == said
