"""What every store promises, tried on files of JSON, on SQLite and on a real server of PostgreSQL."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fakes import postgres, store_writers
from fakes import records as fake
from fakes.closed_paths import close

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.stats.stored.history import Annotation
from pytest_hwperf.stores import baseline_folder
from pytest_hwperf.stores.json_files import JsonStore
from pytest_hwperf.stores.sql import rows
from pytest_hwperf.stores.sql.store import SqlStore
from pytest_hwperf.stores.store import Store

Open = Callable[[], Any]  # the store at the same place once more, as another process has it

KINDS = ("json", "sqlite", pytest.param("postgresql", marks=pytest.mark.live))
DATABASES = pytest.mark.parametrize("location", KINDS[1:], indirect=True)
ODD = "tests/é.py::test[\ud800\0\x01 \u202e'\"; DROP TABLE run; --]"

_numbers = count()


@pytest.fixture(params=KINDS)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "json":
        return str(tmp_path / "baselines")
    pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/team.db"
    started: postgres.Server = request.getfixturevalue("server")
    schema = f"contract{next(_numbers)}"
    started.execute(f"CREATE SCHEMA {schema}")
    return started.url(schema=schema)


@pytest.fixture
def opened(location: str) -> Iterator[Open]:
    made = list[Any]()

    def another() -> Any:
        made.append(SqlStore(location) if "://" in location else JsonStore(location))
        return made[-1]

    yield another
    for store in made:
        getattr(store, "close", lambda: None)()


@pytest.fixture
def store(opened: Open) -> Any:
    return opened()


def load(store: Store, test: str = fake.TEST, label: str = "") -> tuple[StoredRun, ...]:
    return store.load("main", fake.machine(), test, label)


def medians(runs: Sequence[StoredRun]) -> list[float]:
    return [one.figures[0].estimate.value for one in runs]


def named(median: float, **others: Any) -> StoredRun:
    return fake.session(median_s=median, **others)


def rich() -> StoredRun:
    """A run in which every kind of field is filled, with texts that databases do not like."""
    values = fake.sample("accuracy", [1.0, 0.0] * 3000, per="example", source="labels")
    sizes = fake.sample("memory", [4.2e6, 1 / 3, 1e-300, 1e100], per="fresh process", source="VmHWM\0")
    run = fake.run(test=ODD, label="é\0", samples=(values, sizes), unmeasured={"energy": "no\ud800counter"})
    remark = fake.estimate(0.1 + 0.2, None, 0.4, 3, warnings=("p99 needs more \ud800",))
    return StoredRun(
        run=replace(run, directions={"own": "higher"}, changed=True),
        figures=(fake.figure(at=remark, source="x\0"), fake.figure("own", "mean", fake.estimate(-0.0, None, None, 0))),
    )


def test_nothing_stored_is_an_empty_answer_and_leaves_nothing(store: Any, tmp_path: Path) -> None:
    store.check("main", writing=False)
    assert (load(store), store.machines("main", fake.TEST, ""), store.newest("main")) == ((), (), ())
    assert ((), (), ()) == (store.accept("main", "*"), store.remove("main", "*"), store.baselines())
    assert ([], ()) == ([*store.histories("main", held=False)], store.prune("main", fake.machine()))
    assert ((), (), ()) == (store.history("main"), store.annotations(), store.tests("main"))
    assert store.save("main", []) == ()
    assert [] == [*tmp_path.iterdir()]


READS: dict[str, Callable[[Any], object]] = {
    "check": lambda store: store.check("main", writing=False),
    "load": load,
    "machines": lambda store: store.machines("main", fake.TEST, ""),
    "newest": lambda store: store.newest("main"),
    "baselines": lambda store: store.baselines(),
    "histories": lambda store: [*store.histories("main", held=False)],
    "history": lambda store: store.history("main"),
    "tests": lambda store: store.tests("main"),
    "annotations": lambda store: store.annotations(),
    "accept": lambda store: store.accept("main", "*"),
    "remove": lambda store: store.remove("main", "*"),
    "prune": lambda store: store.prune("main", fake.machine()),
}


@pytest.mark.parametrize(("location", "below"), [("json", 0), ("json", 1), ("sqlite", 0)], indirect=["location"])
def test_a_store_that_may_not_be_read_is_refused_and_not_taken_for_empty(
    location: str, opened: Open, monkeypatch: pytest.MonkeyPatch, below: int
) -> None:
    """A comparison with "no baseline" would be green. Root reads everything, so the refusal is played."""
    opened().save("main", [fake.session()])
    close(monkeypatch, location.removeprefix("sqlite:///") + os.sep * below)
    for read in READS.values():
        with pytest.raises(
            StoreError, match=r"cannot be read \(Permission denied\): make the folders above it readable, or "
        ):
            read(opened())


def test_a_run_comes_back_exactly(opened: Open) -> None:
    for stored in (fake.session(), rich()):
        (answer,) = opened().save("main", [stored])
        assert isinstance(answer, str)
        found = opened().load("main", stored.run.machine, stored.run.test, stored.run.label)
        assert found == (stored,)
        assert [one.values for one in found[0].run.samples] == [one.values for one in stored.run.samples]


def test_a_repeated_upload_changes_nothing(opened: Open) -> None:
    """Of accepted and of held runs; in one call, in the next one and by another process."""
    first, second = named(1.0), named(2.0)
    store = opened()
    store.save("main", [first, first, second])
    store.save("main", [second])
    opened().save("main", [first])
    for held in ([first, named(3.0)], [named(3.0)]):
        opened().hold("next", held)
    assert medians(load(opened())) == [1.0, 2.0]
    (runs,) = opened().histories("next", held=True)
    assert medians(runs) == [1.0, 3.0]


def test_a_run_is_accepted_or_held_and_never_both(opened: Open) -> None:
    """What is saved waits no more, and what was saved is not held: whichever came last."""
    first, second, third = (named(float(number)) for number in (1, 2, 3))
    opened().hold("main", [first, second])
    opened().save("main", [first, third])
    opened().hold("main", [third, first])
    assert sorted(medians(load(opened()))) == [1.0, 3.0]
    assert [[2.0]] == [medians(runs) for runs in opened().histories("main", held=True)]
    opened().save("main", [second])
    assert [] == [*opened().histories("main", held=True)]
    assert sorted(medians(load(opened()))) == [1.0, 2.0, 3.0]


def test_many_runs_are_saved_at_once(opened: Open) -> None:
    runs = [named(float(number), test=f"t.py::test_{number % 7}") for number in range(20)]
    answers = opened().save("main", runs)
    assert all(isinstance(answer, str) for answer in answers)
    assert medians(load(opened(), "t.py::test_3")) == [3.0, 10.0, 17.0]


def test_the_newest_twenty_are_compared_with_the_oldest_first(opened: Open) -> None:
    opened().save("main", [named(float(number)) for number in range(25)])
    assert medians(load(opened())) == [float(number) for number in range(5, 25)]


def test_tests_labels_baselines_and_machines_are_apart(opened: Open) -> None:
    store, other = opened(), fake.machine(cores=8)
    store.save("main", [named(1.0), named(2.0, label="warm"), named(3.0, test="other"), named(4.0, at=other)])
    store.save("next", [named(5.0)])
    assert [[1.0], [2.0], [3.0]] == [
        medians(load(opened(), test, label)) for test, label in ((fake.TEST, ""), (fake.TEST, "warm"), ("other", ""))
    ]
    assert {fake.machine(), other} == {*opened().machines("main", fake.TEST, "")}
    assert opened().machines("main", "other", "") == (fake.machine(),)
    assert ("main", "next") == opened().baselines()


def test_the_newest_run_of_each_test_label_and_machine_is_found(opened: Open) -> None:
    newest = [named(2.0), named(3.0, label="warm"), named(4.0, test="other"), named(5.0, at=fake.machine(cores=8))]
    opened().save("main", [named(1.0), *newest])
    opened().save("next", [named(6.0)])
    opened().hold("main", [named(7.0)])
    assert [2.0, 3.0, 4.0, 5.0] == sorted(medians(opened().newest("main")))
    assert opened().newest("none") == ()


def test_histories_are_those_of_a_pattern(opened: Open) -> None:
    opened().save("main", [named(1.0), named(2.0), named(3.0, test="other")])
    opened().hold("main", [named(4.0, test="waiting")])
    found = sorted(medians(runs) for runs in opened().histories("main", held=False))
    assert found == [[1.0, 2.0], [3.0]]
    assert [[3.0]] == [medians(runs) for runs in opened().histories("main", "oth*", held=False)]
    assert [[4.0]] == [medians(runs) for runs in opened().histories("main", held=True)]


def test_held_runs_are_no_baseline_until_accepted(opened: Open) -> None:
    """What is accepted replaces the earlier runs: only the newest held revision, with all its labels and machines."""
    old = [named(1.0, revision="0ld")]
    held = [named(2.0, revision="aaa"), named(3.0, revision="bbb"), named(4.0, revision="bbb")]
    elsewhere = [named(5.0, revision="bbb", at=fake.machine(cores=8)), named(6.0, label="warm")]
    opened().save("main", old)
    opened().hold("main", [*held, *elsewhere])
    assert medians(load(opened())) == [1.0]
    assert opened().accept("main", "*::test_classifier") == (fake.TEST,)
    assert medians(load(opened())) == [3.0, 4.0]
    assert medians(load(opened(), label="warm")) == [6.0]
    assert medians(opened().load("main", fake.machine(cores=8), fake.TEST, "")) == [5.0]
    assert [] == [*opened().histories("main", held=True)]
    assert opened().accept("main", "*") == ()


def test_a_pattern_takes_brackets_literally(opened: Open) -> None:
    opened().hold("main", [named(1.0, test=test) for test in ("t.py::a[x]", "t.py::a[xy]", "t.py::ax", "t.py::b[x]")])
    assert opened().accept("main", "t.py::a[x]") == ("t.py::a[x]",)
    assert sorted(opened().accept("main", "*[x*]")) == ["t.py::a[xy]", "t.py::b[x]"]
    assert opened().accept("main", "nothing*") == ()
    assert opened().accept("next", "*") == ()


def test_an_id_that_looks_like_a_pattern_means_itself(opened: Open) -> None:
    """Where no test is called so, its wildcards match as ever."""
    tests = ("t.py::a[*]", "t.py::a[?]", "t.py::a[x]")
    opened().hold("main", [named(1.0, test=test) for test in tests])
    assert opened().accept("main", "t.py::a[*]") == ("t.py::a[*]",)
    assert [["t.py::a[?]"]] == [
        [one.run.test for one in runs] for runs in opened().histories("main", tests[1], held=True)
    ]
    assert opened().remove("main", "t.py::a[*]") == ("t.py::a[*]",)
    assert sorted(opened().remove("main", "t.py::a[*]")) == ["t.py::a[?]", "t.py::a[x]"]


def test_removed_runs_are_gone(opened: Open) -> None:
    """With what was held of the test; others stay, and it may be saved again."""
    opened().save("main", [named(1.0), named(2.0, test="other")])
    opened().hold("main", [named(3.0)])
    assert opened().remove("main", fake.TEST) == (fake.TEST,)
    assert load(opened()) == ()
    assert [] == [*opened().histories("main", fake.TEST, held=True)]
    assert medians(load(opened(), "other")) == [2.0]
    opened().save("main", [named(1.0)])
    assert medians(load(opened())) == [1.0]


def test_pruned_runs_are_compared_with_no_more(opened: Open) -> None:
    """Those of this hardware with other versions, where the test was saved again; other hardware stays."""
    old, other = fake.machine(libraries={"numpy": "1.26"}), fake.machine(cores=8)
    opened().save("main", [named(1.0, at=old), named(2.0), named(3.0, at=other), named(4.0, at=old, test="only old")])
    assert opened().prune("main", fake.machine()) == (fake.TEST,)
    assert {fake.machine(), other} == {*opened().machines("main", fake.TEST, "")}
    assert opened().machines("main", "only old", "") == (old,)
    assert opened().prune("main", fake.machine()) == ()


NAMELESS = ["", ".", "..", ".held", "a/b", "../x", "/etc", "a\\b", "-x", "a b", "main\n", "é", "x" * 300, "con", "v."]


def test_names_that_no_baseline_can_have_are_refused(store: Any) -> None:
    calls: list[Callable[[str], object]] = [
        lambda name: store.check(name, writing=False),
        lambda name: store.load(name, fake.machine(), "t", ""),
        lambda name: store.save(name, [fake.session()]),
        lambda name: store.hold(name, [fake.session()]),
        lambda name: store.accept(name, "*"),
    ]
    for name in NAMELESS:
        for call in calls:
            with pytest.raises(StoreError, match=r"^baseline name '.*: .*, such as main$"):
                call(name)


def test_history_is_a_series_for_each_statistic_and_machine(opened: Open) -> None:
    """The oldest value first, though the newest was saved first; each with its interval and revision."""
    late = named(2.0, revision="bbb")
    late = replace(late, run=replace(late.run, started_at="2026-03-09T09:30:00+00:00", changed=True))
    opened().save("main", [late, named(1.0), named(3.0, at=fake.machine(cores=8)), named(4.0, test="other")])

    found = {(one.test, one.machine.cores): one for one in opened().history("main")}
    assert found.keys() == {(fake.TEST, 4), (fake.TEST, 8), ("other", 4)}
    series = found[fake.TEST, 4]
    assert (series.key, series.label, series.source) == (("latency", "p50"), "", "perf_counter")
    assert (series.better, series.anchor) == ("lower", "")
    first, second = series.values
    assert (first.estimate, second.estimate) == (named(1.0).figures[0].estimate, late.figures[0].estimate)
    assert [first.revision, second.revision] == ["4f2c1e9", "bbb"]
    assert [first.changed, second.changed] == [False, True]
    assert [first.accepted, second.accepted] == [True, True]
    assert [one.test for one in opened().history("main", "oth*")] == ["other"]
    assert opened().tests("main") == ("other", fake.TEST)
    assert opened().tests("main", fake.TEST) == (fake.TEST,)


def test_history_of_some_tests_is_theirs_alone(opened: Open) -> None:
    """Whatever their labels and however often they are named; of each the newest runs."""
    store = opened()
    store.save("main", [*[fake.session(median_s=value) for value in (1.0, 2.0)], fake.session(test=ODD)])
    found = store.history_of("main", [(fake.TEST, ""), (fake.TEST, ""), ("gone", ""), (fake.TEST, "other")], newest=1)
    assert [(fake.TEST, [2.0])] == [(one.test, [value.estimate.value for value in one.values]) for one in found]
    assert () == tuple(store.history_of("none", [(fake.TEST, "")], newest=1))
    assert () == tuple(store.history_of("main", [], newest=1))


def test_history_has_odd_texts_and_remarks_as_they_were(opened: Open) -> None:
    stored = rich()
    opened().save("main", [stored])

    found = {one.key: one for one in opened().history("main", ODD)}
    assert found.keys() == {("latency", "p50"), ("own", "mean")}
    assert [one.estimate for one in found["latency", "p50"].values] == [stored.figures[0].estimate]
    assert (found["latency", "p50"].source, found["latency", "p50"].label) == ("x\0", "é\0")
    assert found["own", "mean"].better == "higher"


def test_notes_are_kept_once_and_in_order(opened: Open) -> None:
    first = Annotation(revision="a" * 40, text="new runner; 'x'\0", noted_at="2026-03-01T00:00:00+00:00")
    second = replace(first, text="larger model", noted_at="2026-03-02T00:00:00+00:00")
    for note in (second, first, replace(first, noted_at="2026-03-03T00:00:00+00:00")):
        opened().annotate(note)
    assert opened().annotations() == (first, second)


def test_a_run_that_no_store_takes_is_named_and_hinders_no_other(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline_folder, "LARGEST", 3000)
    monkeypatch.setattr(rows, "LARGEST", 3000)
    large = fake.run(test="large", samples=(fake.sample("memory", [1 / 3] * 400), fake.sample("x", [1 / 3] * 400)))
    refused, answer = opened().save("main", [replace(named(1.0), run=large), named(2.0)])
    assert isinstance(refused, StoreError)
    assert "a run of large takes 0.0 MB" in str(refused)
    assert isinstance(answer, str)
    assert medians(load(opened())) == [2.0]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@DATABASES
def test_a_store_may_be_used_before_and_after_a_fork(opened: Open) -> None:
    """The child has connections of its own, and leaves that of its parent alone."""
    store = opened()
    store.save("main", [named(1.0)])
    child = os.fork()
    if not child:
        os._exit(not isinstance(store.save("main", [named(2.0)])[0], str))
    assert os.waitpid(child, 0)[1] == 0
    store.save("main", [named(3.0)])
    assert medians(load(store)) == [1.0, 2.0, 3.0]


@pytest.mark.live
@DATABASES
def test_writers_at_once_lose_nothing(location: str) -> None:
    """They also begin at once, with a database that has no tables yet."""
    reported = store_writers.saved_together(location, 4, 5)
    assert store_writers.lost(location, reported, most=20) == "20 acknowledged, none lost, 0 more there"


@pytest.mark.live
@DATABASES
def test_killed_writers_lose_nothing(location: str) -> None:
    said = store_writers.killed_writers(location, 3)
    assert "none lost" in said
    assert not said.startswith("0 acknowledged")
