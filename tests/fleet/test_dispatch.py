"""The gates of a fleet on hosts that die, hang, lie or are told to stop; the clock is a fake."""

import signal
from collections.abc import Mapping

import pytest
from fakes.fleets import FakeCluster, Script, answer, dying, good, hanging, host

from pytest_hwperf.fleet.dask_cluster import News
from pytest_hwperf.fleet.dispatch import Dispatch, Outcome
from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.report import Task
from pytest_hwperf.records.run import replace

ARM, X86 = Task(kind="arm"), Task(kind="x86")
HOSTS = [host("a1", "arm"), host("a2", "arm"), host("x1", "x86")]


def run(
    scripts: dict[str, Script], tasks: tuple[Task, ...] = (ARM, X86), **given: object
) -> tuple[FakeCluster, dict[Task, Outcome], list[dict[str, str]]]:
    cluster = FakeCluster(given.pop("hosts", HOSTS), scripts, **given)  # type: ignore[arg-type]
    shown: list[dict[str, str]] = []
    return cluster, {one.task: one for one in dispatch(cluster, shown, tasks).run()}, shown


def dispatch(cluster: FakeCluster, shown: list[dict[str, str]], tasks: tuple[Task, ...] = (ARM, X86)) -> Dispatch:
    def show(states: Mapping[str, str]) -> None:
        shown.append(dict(states))

    return Dispatch(cluster, tasks, silence_s=60.0, now=cluster.now, show=show)


def code_of(outcome: Outcome) -> int | None:
    return outcome.answer.exit_code if outcome.answer else None


def says(**fields: object) -> Script:
    """A host that answers with other fields than it should."""
    return lambda job, task: [(1.0, News(job=job, answer=to_json(replace(answer(task), **fields))))]


def test_every_kind_has_one_gate_and_all_hosts_are_shown() -> None:
    cluster, found, shown = run({})
    assert [("a1", "arm", "a1"), ("x1", "x86", "x1")] == cluster.started
    assert {"a1", "x1"} == {one.host for one in found.values()}
    assert [] == [line for one in found.values() for line in one.trouble]
    assert {"a1": "arm: starting", "a2": "waiting", "x1": "waiting"} == shown[0]
    assert "arm: pytest: screen" in {states["a1"] for states in shown}
    assert "arm: ended with pytest's exit code 0" == shown[-1]["a1"]
    assert cluster.time_s < 15


LOST = [
    (dying, "its worker is gone", 20),
    (hanging, "no sign of life for 60 s, after: pytest: rehearsal", 80),
    (says(problem="no space left"), "no space left", 15),
    (says(exit_code=-9), "pytest was killed by signal 9", 15),
    (says(report="{}"), "what it sent as a report holds no pytest-hwperf report", 15),
    (says(report=""), "pytest ended with code 0 and without a report: no word", 15),
    (lambda job, _: [(1.0, News(job=job, answer=b"\x80pickled"))], "it sent no answer", 15),
    (lambda job, _: [(1.0, News(job=job, answer=to_json(answer(X86))))], "it sent the report of something", 15),
]


def test_a_host_that_is_lost_is_named_and_its_gate_runs_on_another_of_its_kind() -> None:
    for script, why, after_s in LOST:
        cluster, found, shown = run({"a1": script})
        assert [("a1", "arm"), ("x1", "x86"), ("a2", "arm")] == [one[:2] for one in cluster.started]
        assert "a2" == found[ARM].host
        assert found[ARM].answer is not None
        [trouble] = found[ARM].trouble
        assert trouble.startswith(f"a1: {why}")
        assert shown[-1]["a1"].startswith(f"arm: lost, {why}")
        assert cluster.time_s < after_s
        assert (["a1"] if script is hanging else []) == cluster.stopped


def test_a_kind_without_another_host_is_named() -> None:
    """No host of another kind takes its place."""
    cluster, found, _ = run({"x1": dying})
    assert ["x1: its worker is gone", "no host of kind x86 is left"] == found[X86].trouble
    assert found[X86].answer is None
    assert "a1" == found[ARM].host
    assert 2 == len(cluster.started)


def test_what_ends_three_hosts_is_given_up() -> None:
    hosts = [host(f"a{number}", "arm") for number in range(5)]
    cluster, found, _ = run(dict.fromkeys((one.name for one in hosts), dying), (ARM,), hosts=hosts)
    assert 3 == len(cluster.started)
    assert [*(f"a{n}: its worker is gone" for n in range(3)), "it was given up"] == found[ARM].trouble


def test_a_usage_error_of_pytest_is_an_answer() -> None:
    """It would be the same everywhere."""
    cluster, found, _ = run({"a1": says(exit_code=4, report="")})
    assert (4, []) == (code_of(found[ARM]), found[ARM].trouble)
    assert 2 == len(cluster.started)


def test_hosts_of_one_machine_never_run_at_the_same_time() -> None:
    hosts = [host(f"a{number}", "arm", "local") for number in range(2)] + [host("x1", "x86", "local")]
    cluster, found, _ = run({}, (ARM, X86), hosts=hosts)
    assert 1 == cluster.most_at_once
    assert all(one.answer for one in found.values())


def test_shards_of_a_kind_use_all_its_hosts() -> None:
    tasks = tuple(Task(kind="arm", number=number, of=3) for number in (1, 2, 3))
    cluster, found, _ = run({}, tasks)
    assert ["a1", "a2", "a1"] == [name for name, *_ in cluster.started]
    assert ["arm 1/3", "arm 2/3", "arm 3/3"] == [str(task) for task in found]
    assert all(one.answer for one in found.values())


@pytest.mark.parametrize("mute", [False, True])
def test_ctrl_c_ends_all_gates_and_waits_for_them(mute: bool) -> None:
    cluster = FakeCluster(HOSTS, {"a1": hanging, "x1": hanging}, interrupt_s=5.0, mute=mute)
    shown: list[dict[str, str]] = []
    with pytest.raises(KeyboardInterrupt):
        dispatch(cluster, shown).run()
    assert ["a1", "x1"] == cluster.stopped
    assert "arm: ending, within 20 s" in {states["a1"] for states in shown}
    last = "arm: has not said that it has ended" if mute else "arm: ended, since the fleet was interrupted"
    assert last == shown[-1]["a1"]
    assert cluster.time_s < (30 if mute else 10)


def test_another_ctrl_c_leaves_no_gate_behind() -> None:
    """It waits until hosts have ended theirs."""

    class Impatient(FakeCluster):
        def stop(self, job: str) -> None:
            signal.raise_signal(signal.SIGINT)
            super().stop(job)

    cluster = Impatient(HOSTS, {"a1": hanging, "x1": hanging}, interrupt_s=5.0)
    shown: list[dict[str, str]] = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        dispatch(cluster, shown).run()
    assert ["a1", "x1"] == cluster.stopped
    assert {"arm: ended, since the fleet was interrupted"} == {shown[-1]["a1"]}
    assert "x86: ended, since the fleet was interrupted" == shown[-1]["x1"]


def test_late_news_of_a_lost_host_are_not_heard() -> None:
    """It hung, was given up, and answers after all: the gate that runs elsewhere counts."""

    def late(job: str, task: Task) -> list[tuple[float, News]]:
        return [(2.0, News(job=job, sign="x")), (66.0, News(job=job, answer=to_json(answer(task, 0.3, exit_code=1))))]

    cluster, found, _ = run({"a1": late, "a2": good})
    assert ("a2", 0) == (found[ARM].host, code_of(found[ARM]))
    assert "a1" in cluster.stopped


def test_signs_of_life_are_shown_without_control_characters() -> None:
    def noisy(job: str, task: Task) -> list[tuple[float, News]]:
        return [(1.0, News(job=job, sign="\x1b[2J" + "x" * 500)), *good(job, task)]

    shown = run({"a1": noisy})[2]
    assert max(len(states["a1"]) for states in shown) < 220
    assert not any("\x1b" in states["a1"] for states in shown)
