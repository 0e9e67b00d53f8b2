"""A scheduler that is there already: who may reach it, what its workers have to say, and what is tidied at the end."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.dask_clients import Client, order_for

from pytest_hwperf.fleet import reaching
from pytest_hwperf.fleet.reaching import at_scheduler, check_encrypted, of_scheduler, tidy
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Task

ONE = {"nthreads": 1, "resources": {"hwperf.arm": 1}}
NETWORK = "tcp://10.0.0.7:8786"


def config_of_dask(given: dict[str, Any]) -> Any:
    pytest.importorskip("distributed", reason="the extra fleet is not installed")  # which sets its own defaults
    import dask

    return dask.config.set(given)


def test_workers_say_of_which_kind_they_are() -> None:
    other = Client(a1=ONE, plain={"resources": {}}, x1={"resources": {"hwperf.x86": 1}})
    cluster = of_scheduler(other)
    cluster.load(b"", order_for)
    cluster.start("j", cluster.hosts[0], Task(kind="arm"))
    assert [("a1", "arm"), ("x1", "x86")] == [(one.name, one.kind) for one in cluster.hosts]
    assert {"hwperf.arm": 1} == other.submitted[0]["resources"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "does not say which workers it has"),
    ({"a1": {"resources": {}}}, "the scheduler has no worker for a fleet: start it with --nthreads 1"),
    ({"a1": {**ONE, "nthreads": 2}}, 'worker a1: start it with --nthreads 1 --resources "hwperf.KIND=1"'),
    ({"a1": {"resources": {"hwperf.arm": 2}}}, "start it with --nthreads 1"),
    ({"a1": {"resources": {"hwperf": 1}}}, "start it with --nthreads 1"),
    ({"a1": {"resources": {"hwperf.arm": 1, "hwperf.x86": 1}}}, "one kind each"),
    ({"a1": {"resources": {"hwperf.3": 1}}}, "is no kind of machine"),
]


def test_workers_that_could_run_two_gates_are_refused() -> None:
    for workers, said in REFUSED:
        with pytest.raises(UsageProblem, match=re.escape(said)):
            of_scheduler(Client(**workers))


def test_two_workers_on_a_machine_share_it() -> None:
    cluster = of_scheduler(Client(a1={**ONE, "host": "10.0.0.1"}, a2={**ONE, "host": "10.0.0.1"}))
    assert ["10.0.0.1"] * 2 == [one.machine for one in cluster.hosts]


ALLOWED = [
    (NETWORK, True, None, False),
    (NETWORK, True, "cert.pem", False),
    ("tcp://box:1", True, None, False),
    ("tls://10.0.0.7:8786", True, None, False),
    ("tls://10.0.0.7:8786", True, "cert.pem", True),
    ("", True, None, False),
    ("", True, "cert.pem", True),
    (NETWORK, False, None, True),
    ("tcp://127.0.0.1:8786", True, None, True),
    ("tcp://[::1]:8786", True, None, True),
]


def test_a_network_is_not_used_without_encryption() -> None:
    refusal = r"configure distributed\.comm\.tls of dask and give tls://…, or --un"
    for address, encrypted, certificate, allowed in ALLOWED:
        with (
            config_of_dask({"distributed.comm.tls.client.cert": certificate}),
            nullcontext() if allowed else pytest.raises(UsageProblem, match=refusal),
        ):
            check_encrypted(address, encrypted=encrypted)


def test_certificates_that_are_not_there_are_named_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "_client_at", pytest.fail)
    tls, why = "distributed.comm.tls.", r"TLS of dask is not configured .*give the files distributed\.comm\.tls\."
    for given in (None, "none.pem"):
        with (
            config_of_dask({f"{tls}ca-file": given, f"{tls}client.cert": given, f"{tls}client.key": given}),
            pytest.raises(UsageProblem, match=why),
            at_scheduler("tls://127.0.0.1:1", encrypted=True),
        ):
            pass


def test_an_address_where_nothing_listens_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra fleet is not installed")

    def gone(*_: object, **__: object) -> None:
        raise ValueError("invalid\x1b port")

    monkeypatch.setattr(distributed, "Client", gone)
    monkeypatch.setattr(reaching, "refuse_pickles", lambda: None)
    with (
        pytest.raises(UsageProblem, match=r"--scheduler=localhost:x cannot be reached \(invalid.+ port\): give the"),
        at_scheduler("localhost:x", encrypted=True),
    ):
        pass


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client(a1={**ONE, "host": "10.0.0.1"})
    monkeypatch.setattr(reaching, "_client_at", lambda _: client)
    monkeypatch.setattr(reaching, "refuse_pickles", lambda: None)
    monkeypatch.setattr(reaching, "check_encrypted", lambda _, **__: None)
    monkeypatch.setattr(reaching, "_check_certificates", lambda _: None)
    return client


def test_a_worker_on_another_machine_is_not_used_without_encryption(
    reached: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its scheduler is on this one."""
    monkeypatch.setattr(reaching, "check_encrypted", check_encrypted)
    for worker, refused in (("tcp://10.0.0.1:4000", True), ("tcp://127.0.0.1:4000", False)):
        reached.workers = {worker: {"name": "a1", **ONE, "host": "box"}}
        with (
            pytest.raises(UsageProblem, match="or --unencrypted") if refused else nullcontext(),
            config_of_dask({"distributed.comm.tls.client.cert": None}),
            at_scheduler("tcp://127.0.0.1:8786", encrypted=True),
        ):
            pass


STAYS = "a1: what its gate has left stays until the next gate there"


def test_hosts_that_did_not_answer_are_tidied_and_the_client_is_closed(
    reached: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for done, left in (
        ({"10.0.0.1"}, []),
        (set[str](), [f"{STAYS}: its machine has no worker any more"]),
        (TimeoutError("late"), [f"{STAYS} (late)"]),
    ):
        tidied: list[set[str]] = []

        def tidy(
            _: Client, machines: set[str], done: set[str] | Exception = done, to: list[set[str]] = tidied
        ) -> set[str]:
            to.append(machines)
            if isinstance(done, Exception):
                raise done
            return done

        monkeypatch.setattr(reaching, "tidy", tidy)
        with at_scheduler("a", encrypted=True) as cluster:
            cluster.load(b"", order_for)
            cluster.start("j", cluster.hosts[0], Task(kind="arm"))
        assert [{"10.0.0.1"}] == tidied
        assert left == cluster.left
        assert 0 < reached.closed_within_s <= 10


def test_the_worker_that_a_nanny_has_started_again_removes_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra fleet is not installed")
    waited: list[int] = []
    monkeypatch.setattr(distributed, "wait", lambda futures, **_: waited.append(len(futures)))
    client = Client(a1={"host": "10.0.0.1"}, x1={"host": "10.0.0.2"})
    clock = _clock(monkeypatch, lambda: client.workers.update(new={"name": "new", "host": "10.0.0.3"}))
    done = tidy(client, {"10.0.0.2", "10.0.0.3"})
    assert {"10.0.0.2", "10.0.0.3"} == done
    assert [["tcp://x1"], ["new"]] == [one["workers"] for one in client.submitted]
    assert [2] == waited
    assert clock.time_s < 10
    tidy(client, set())
    assert 2 == len(client.submitted)


def test_a_machine_without_a_worker_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra fleet is not installed")
    client = Client(a1={"host": "10.0.0.1"})
    clock = _clock(monkeypatch, lambda: None)
    assert set() == tidy(client, {"10.0.0.9"})
    assert 10 <= clock.time_s < 11
    assert [] == client.submitted


def _clock(monkeypatch: pytest.MonkeyPatch, after_3_s: Callable[[], None]) -> SimpleNamespace:
    clock = SimpleNamespace(time_s=0.0)

    def sleep(seconds: float) -> None:
        clock.time_s += seconds
        if clock.time_s == 3.0:
            after_3_s()

    monkeypatch.setattr(reaching, "sleep", sleep)
    monkeypatch.setattr(reaching, "monotonic", lambda: clock.time_s)
    return clock


def test_nothing_of_a_certificate_is_in_a_message(tmp_path: Path) -> None:
    """Its file is no secret, and what is in it may be."""
    file = tmp_path / "key.pem"
    file.write_text("-----BEGIN PRIVATE KEY-----\nsecret\n", encoding="utf-8")
    tls = "distributed.comm.tls."
    with (
        config_of_dask({f"{tls}ca-file": str(file), f"{tls}client.cert": str(file), f"{tls}client.key": str(file)}),
        pytest.raises(UsageProblem) as caught,
    ):
        reaching._check_certificates("tls://127.0.0.1:1")
    assert "secret" not in str(caught.value)
