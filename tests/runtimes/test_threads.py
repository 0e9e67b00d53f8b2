"""More threads than cores: who is warned, and what of."""

import pytest

from pytest_hwperf.runtimes.threads import oversubscription, waiting_threads

LOADED = {"threadpoolctl"}


def loads(monkeypatch: pytest.MonkeyPatch, *pools: tuple[str, int]) -> None:
    """Let this process have these pools."""
    found = [{"internal_api": name, "num_threads": threads} for name, threads in pools]
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: found)


def test_a_scenario_with_more_threads_than_cores_is_warned() -> None:
    assert str(oversubscription("4", 2, LOADED)) == (
        "4 threads on 2 allotted cores wait for each other: set threads=2, or allot more cores"
    )


def test_what_fits_or_does_not_tell_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pools are of a scenario, which holds them itself; nothing is imported to ask."""
    loads(monkeypatch, ("openblas", 64))
    assert [None] * 3 == [oversubscription(threads, 2, LOADED) for threads in ("1", "2", "automatic")]
    assert None is oversubscription(None, 2, set())
    for pools in ([], [("openblas", 2)]):
        loads(monkeypatch, *pools)
        assert None is oversubscription(None, 2, LOADED)


def test_a_callable_with_a_larger_pool_is_reported_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the largest; a quota of CPU time does not make pools smaller."""
    for pools, variable in (
        ([("openblas", 8)], "OPENBLAS_NUM_THREADS=1"),
        ([("openmp", 8), ("openblas", 1)], "OMP_NUM_THREADS=1"),
        ([("mkl", 8)], "MKL_NUM_THREADS=1"),
    ):
        loads(monkeypatch, *pools)
        text = str(oversubscription(None, 1, LOADED))
        assert "may use 8 threads on 1 allotted core: " in text
        assert f"set {variable} before Python starts" in text


def test_workers_side_by_side_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers with two threads each on two cores: one thread fits."""
    loads(monkeypatch, ("openblas", 2))
    assert str(oversubscription("2", 2, LOADED, workers=2)) == (
        "2 threads in each of 2 workers on 2 allotted cores wait for each other: set threads=1, or allot more cores"
    )
    assert "openblas may use 2 threads in each of 2 workers" in str(oversubscription(None, 2, LOADED, workers=2))
    assert None is oversubscription("1", 2, LOADED, workers=4)


WAITING: list[tuple[list[tuple[int, int]], int, str, int]] = [
    ([(100, 300)] * 8, 8, "75", 2),  # torch.set_num_threads(8) on two cores
    ([(100, 100)] * 2, 2, "50", 1),  # two threads while another process has one of two cores
    ([(100, 60)] * 3 + [(4, 400)], 3, "38", 2),  # what hardly computes is something else
]


def test_threads_that_wait_for_a_processor_are_reported_whatever_made_them() -> None:
    for spent, threads, waited, fitting in WAITING:
        text = str(waiting_threads(None, spent, set()))
        assert text.startswith(f"{threads} threads computed at once and waited {waited}")
        assert text.endswith(f"set OMP_NUM_THREADS={fitting} before Python starts")
        assert f"torch.set_num_threads({fitting})" in str(waiting_threads(None, spent, {"torch"}))
        assert str(waiting_threads("2", spent, set())).endswith(f"set threads={fitting}")
    alone: list[list[tuple[int, int]]] = [[], [(0, 0)], [(100, 900)], [(100, 10)] * 8, [(100, 900), (3, 900)]]
    assert [] == [spent for spent in alone if waiting_threads(None, spent, set()) is not None]
