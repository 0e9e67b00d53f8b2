"""Loads: their markers, their schedules, and what their times say."""

import heapq
import math
import random
from array import array
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, pairwise
from statistics import mean, stdev
from typing import Any

import pytest

from pytest_hwperf.loads.local import schedule
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import Load, parse_budgets, parse_load
from pytest_hwperf.records.run import Served, replace
from pytest_hwperf.stats.figures.ranks import early_stopping, fewest_calls
from pytest_hwperf.stats.service.loads import (
    bound_of,
    next_rate,
    piece_of,
    rates,
    share_of_one,
    undelayed,
    why_degrading,
    why_drifting,
    why_not_served,
    why_slower,
    why_unsteady,
    why_unsure,
)

SERVER = Load(kind="server", qps=500, seconds=20, seed=3)


def served(load: Load, service: Callable[[float], float], servers: int = 1) -> Served:
    """Serve a schedule first come, first served; `service` returns the seconds of a call that starts at a time."""
    free, due, ended = [0.0] * servers, schedule(load), array("d")
    for moment in due:
        start = max(moment, heapq.heappop(free))
        ended.append(start + service(start))
        heapq.heappush(free, ended[-1])
    return Served(due=due, issued=due, ended=ended)


def test_a_schedule_is_that_of_its_seed() -> None:
    assert schedule(SERVER) == schedule(SERVER)
    assert schedule(SERVER) != schedule(Load(kind="server", qps=500, seconds=20, seed=4))


def test_gaps_have_the_mean_and_the_variation_of_their_distribution() -> None:
    """The coefficient of variation of a gamma distribution is one over the root of its shape."""
    for shape, variation in [(1.0, 1.0), (4.0, 0.5), (0.25, 2.0)]:
        due = schedule(Load(kind="server", qps=1000, seconds=60, seed=1, shape=shape))
        gaps = [later - before for before, later in pairwise(due)]
        assert mean(gaps) == pytest.approx(1e-3, rel=0.03), (shape, variation)
        assert stdev(gaps) / mean(gaps) == pytest.approx(variation, rel=0.03)
        assert 0 < due[0] < due[-1] < 60, (shape, variation)


def test_how_long_a_load_lasts_is_given_or_follows_from_its_calls() -> None:
    table: list[tuple[Load, float]] = [(SERVER, 20.0), (Load(kind="offline", calls=900, in_flight=3), 6.0)]
    assert [] == [(load, seconds) for load, seconds in table if seconds != pytest.approx(load.lasts_s(0.02))]


def test_all_calls_of_an_offline_load_are_due_at_once() -> None:
    assert [0.0] * 7 == list(schedule(Load(kind="offline", calls=7)))


def stalled(start: float, stall_s: float = 1.0, at_s: float = 10.0) -> float:
    """Take a millisecond a call; the first one to start after `at_s` takes a second."""
    return stall_s if at_s <= start < at_s + 0.002 else 0.001


def test_a_stall_is_in_the_latency_of_every_call_that_waited_for_it() -> None:
    """From the schedule its p99 is near 900 ms; a closed loop, in which one call waits, would say 1 ms."""
    open_loop = sorted(served(SERVER, stalled).latencies)
    closed = sorted([1.0, *[0.001] * 9_999])
    assert 0.8 < open_loop[int(0.99 * len(open_loop))] < 1.0
    assert closed[9_900] == 0.001


@pytest.mark.parametrize(("kind", "share", "utilisation"), [("M/D/1", 0.5, 0.7), ("M/M/1", 1.0, 0.5)])
def test_waits_of_a_simulated_server_agree_with_theory(kind: str, share: float, utilisation: float) -> None:
    """Pollaczek and Khinchine: an M/M/1 server lets calls wait rho S / (1 - rho), an M/D/1 server half as long."""
    chance, service_s = random.Random(7), 0.001
    load = Load(kind="server", qps=utilisation / service_s, seconds=120, seed=5)
    times = served(load, lambda _: service_s if kind == "M/D/1" else chance.expovariate(1 / service_s))
    waits = mean(times.latencies) - service_s
    assert waits == pytest.approx(share * utilisation * service_s / (1 - utilisation), rel=0.1)


def test_early_stopping_takes_as_many_calls_as_the_reference_says() -> None:
    """Of the fewest calls it is the largest."""
    fewest = {0.5: 11, 0.9: 64, 0.95: 130, 0.99: 662, 0.999: 6636}
    assert fewest == {q: fewest_calls(q) for q in fewest}
    assert [None] * 5 == [early_stopping(range(calls - 1), q) for q, calls in fewest.items()]
    assert [calls - 1 for calls in fewest.values()] == [early_stopping(range(calls), q) for q, calls in fewest.items()]


def test_early_stopping_is_an_order_statistic_beyond_the_percentile() -> None:
    """binom.cdf(42, 6000, 0.01) is 0.0088, and that of 43 is 0.0129.

    A log of LoadGen 6.0.17: "Processed at least 64 queries (5251). Would discard 473 highest latency queries.".
    """
    assert (6000 - 42, 5250 - 473) == (early_stopping(range(6000), 0.99), early_stopping(range(5251), 0.90))


def test_late_calls_are_counted_and_no_good_answers() -> None:
    load = replace(SERVER, within_ms=50)
    kept, times = served(load, lambda _: 0.001), served(load, stalled)
    late = sum(one > 0.05 for one in times.latencies)
    assert why_not_served(load, kept) is None
    assert str(why_not_served(load, times)) == f"{late} of {len(times.due)} calls later than 50.0 ms"
    assert mean(rates(kept, 0.05)[0]) == pytest.approx(len(kept.due) / 20, rel=1e-3)
    assert mean(rates(times, 0.05)[0]) == pytest.approx((len(times.due) - late) / 20, rel=1e-3)


def test_a_backlog_that_grows_is_said_without_a_bound() -> None:
    reason = why_not_served(SERVER, served(SERVER, lambda _: 0.003))
    assert reason is not None
    assert reason.kind == "backlog grows"
    assert why_not_served(SERVER, served(SERVER, lambda _: 0.0015)) is None


def test_failed_calls_are_no_answers() -> None:
    times = served(SERVER, lambda _: 0.001)
    broken = Served(due=times.due, issued=times.issued, ended=times.ended, failed=3)
    assert str(why_not_served(SERVER, broken)) == f"3 of {len(times.due) + 3} calls failed"


def test_a_generator_that_is_late_is_doubted() -> None:
    times = served(SERVER, lambda _: 0.001)
    late = Served(due=times.due, issued=array("d", (due + 0.002 for due in times.due)), ended=times.ended)
    assert why_unsure(times, None) is None
    assert late.lag_s == pytest.approx(0.002)
    assert why_unsure(late, within_s=0.05) is None
    assert str(why_unsure(late, None)).startswith("the load generator ran 2.00 ms late (limit ")


def test_what_the_generator_adds_to_the_median_is_said_within_any_bound() -> None:
    """A call takes 1 ms; no budget is inconclusive by it."""
    for lag_s, within_s in [(0.0002, 0.05), (0.0004, 1.0), (0.002, 0.05)]:
        times = served(SERVER, lambda _: 0.001)
        late = Served(
            due=times.due,
            issued=array("d", (due + lag_s for due in times.due)),
            ended=array("d", (end + lag_s for end in times.ended)),
        )
        assert why_slower(times) is None, (lag_s, within_s)
        assert why_unsure(late, within_s) is None
        assert str(why_slower(late)).startswith("the load generator itself adds"), (lag_s, within_s)


def test_nothing_is_said_of_no_calls() -> None:
    none = Served(due=array("d"), issued=array("d"), ended=array("d"))
    assert why_not_served(SERVER, none) is None
    assert why_unsure(none, None) is None
    assert why_slower(none) is None
    assert why_degrading(SERVER, none) is None
    assert str(why_unsteady(SERVER, none)).startswith("0 calls cannot show a steady state, 21 can")


def test_the_highest_rate_is_found_by_doubling_and_bisection() -> None:
    for highest in [3.0, 70.0, 1234.0]:
        tried = dict[float, bool]()
        while (rate := next_rate(tried, 100.0)) is not None:
            tried[rate] = rate <= highest
        best = max(rate for rate, kept in tried.items() if kept)
        assert best <= highest < best * 1.05
        assert len(tried) < 16, highest


def test_where_nothing_is_served_the_search_ends() -> None:
    tried = dict[float, bool]()
    while (rate := next_rate(tried, 100.0)) is not None:
        tried[rate] = False
    assert len(tried) == 21


def test_a_load_says_what_it_is() -> None:
    load = parse_load({"kind": "server", "qps": 200, "seconds": 2, "seed": 1})
    assert str(load) == "server qps=200 seconds=2 seed=1"
    assert str(parse_load({"kind": "server", "qps": 9, "within_ms": 5, "url": "http://a/b"})) == (
        "server qps=9 seconds=2 seed=1 within_ms=5"
    )
    assert load.is_open
    assert not parse_load({"kind": "concurrency", "in_flight": 4}).is_open


def test_processes_are_a_condition_and_one_of_them_carries_its_share() -> None:
    load = parse_load({"kind": "server", "qps": 200, "in_flight": 4, "carriers": "processes"})
    one = share_of_one(load)
    assert str(load) == "server qps=200 seconds=2 seed=1 in_flight=4 carriers=processes"
    assert (4, 0) == (load.processes, one.processes)
    assert (50, 1) == (one.qps, one.at_once(waiting=False))
    assert 250 == share_of_one(parse_load({"kind": "offline", "in_flight": 4, "carriers": "processes"})).calls
    assert SERVER == share_of_one(SERVER)


def test_a_bad_load_says_what_is_allowed() -> None:
    table: list[tuple[Mapping[str, object], str]] = [
        ({}, "hwload: kind=None is no load. Allowed: single_stream, multi_stream, concurrency, offline, server"),
        ({"kind": "servr", "qps": 2}, "hwload: kind='servr' is no load. Did you mean 'server'?*"),
        ({"kind": "server"}, "hwload: a server load needs qps=, the calls a second, such as qps=200"),
        (
            {"kind": "server", "qps": 2, "rows": 3},
            "hwload: rows= says nothing of the load server.*Allowed: qps, seconds, *",
        ),
        (
            {"kind": "concurrency"},
            "hwload: a concurrency load needs in_flight=, the calls at once, such as in_flight=4",
        ),
        ({"kind": "offline", "carriers": "proceses"}, "hwload: carriers='proceses'. Did you mean 'processes'? *"),
        (
            {"kind": "offline", "carriers": "processes"},
            "hwload: carriers='processes' needs in_flight=, how many, such as in_flight=4",
        ),
        (
            {"kind": "offline", "carriers": "processes", "in_flight": 2, "url": "http://a/b"},
            "hwload: carriers='processes': requests only wait, and are tasks of one loop: leave it out",
        ),
        (
            {"kind": "offline", "header": {}},
            "hwload: header= says nothing of the load offline. Did you mean 'headers'?*Allowed: *url, headers",
        ),
        ({"kind": "offline", "headers": {"a": 1}}, "hwload: headers= takes names and values as texts, such as *"),
        ({"kind": "offline", "headers": "a: b"}, "hwload: headers= takes names and values as texts, such as *"),
        (
            {"kind": "single_stream", "carriers": "threads"},
            "hwload: carriers= says nothing of the load single_stream.*",
        ),
        ({"kind": "offline", "url": "ftp://a/b"}, "hwload: url='ftp://a/b': give an address over HTTP, *"),
        ({"kind": "offline", "url": "ftp://me:key@a/b?key=c"}, "hwload: url='ftp://a/b?…': give an address *"),
        ({"kind": "offline", "url": 5}, "hwload: url=5: give an address over HTTP, such as http://127.0.0.1:*"),
        ({"kind": "offline", "url": "grpc://a:8001/m"}, "*(Triton: http://127.0.0.1:8000/v2/models/MODEL/infer)"),
        ({"kind": "server", "qps": -2}, "hwload: qps=-2: a number from 0.001 to 1e+06"),
        ({"kind": "server", "qps": True}, "hwload: qps=True: a number from 0.001 to 1e+06"),
        ({"kind": "concurrency", "in_flight": 1.5}, "hwload: in_flight=1.5: a whole number from 1 to 1024"),
        ({"kind": "server", "qps": float("nan")}, "hwload: qps=nan: a number from 0.001 to 1e+06"),
    ]
    for keywords, said in table:
        with pytest.raises(UsageProblem) as caught:
            parse_load(keywords)
        pytest.LineMatcher([str(caught.value)]).fnmatch_lines([said])


def closed(latencies: Callable[[int], float], seconds: float = 2.0) -> Served:
    """Make calls one after the other."""
    due, ended = array("d"), array("d")
    now = 0.0
    while now < seconds:
        due.append(now)
        now += latencies(len(due) - 1)
        ended.append(now)
    return Served(due=due, issued=due, ended=ended)


LOOP = Load(kind="single_stream", seconds=2)


def test_windows_of_one_pace_are_steady() -> None:
    assert why_unsteady(LOOP, closed(lambda _: 0.001)) is None
    assert why_unsteady(SERVER, served(SERVER, lambda _: 0.0005)) is None
    assert why_unsteady(Load(kind="offline", calls=900), all_at_once(900)) is None


def all_at_once(calls: int) -> Served:
    due = array("d", [0.0] * calls)
    return Served(due=due, issued=due, ended=array("d", (0.001 * (number + 1) for number in range(calls))))


def test_a_load_that_slows_down_has_no_steady_state_and_says_by_how_much() -> None:
    """The middles of the first and the last third of 0 .. 1098 calls are 732 apart: 1.92 over 1.18."""
    times = closed(lambda number: 0.001 * (1 + number / 1000))
    unsteady, reason = why_unsteady(LOOP, times), why_degrading(LOOP, times)
    assert unsteady is not None
    assert unsteady.numbers["ratio"] == pytest.approx(1.65, rel=0.05)
    assert 1.4 < unsteady.numbers["low"] < unsteady.numbers["ratio"]
    assert reason is not None
    assert reason.numbers["rise"] == pytest.approx(times.latencies[-1] - times.latencies[0], rel=0.1)
    assert reason.numbers["seconds"] == pytest.approx(LOOP.seconds, rel=0.01)


def test_median_latency_is_asked_where_the_rate_is_that_of_the_schedule() -> None:
    times = served(SERVER, lambda start: 0.0005 if start < 13 else 0.0007)
    assert "median latency" in str(why_unsteady(SERVER, times))


def test_of_calls_that_are_due_at_once_the_rate_is_asked() -> None:
    load, slower = Load(kind="offline", calls=900), all_at_once(900)
    slower = replace(slower, ended=array("d", (end if end < 0.6 else 2 * end - 0.6 for end in slower.ended)))
    assert "by a factor of 2.00 (lower bound 2.00) in seconds per" in str(why_unsteady(load, slower))


def test_a_third_without_a_completed_call_is_not_steady() -> None:
    times = closed(lambda number: 1.5 if number == 600 else 0.001, seconds=2.2)
    assert "a third of the load has no completed call" in str(
        why_unsteady(Load(kind="single_stream", seconds=2.2), times)
    )


def test_a_steady_state_takes_as_many_calls_as_a_bound_of_thirds() -> None:
    table: list[tuple[int, list[str]]] = [(20, ["few calls"]), (21, [])]
    for calls, kinds in table:
        found = why_unsteady(LOOP, closed(partial(steady, 2.0 / calls), seconds=1.99))
        assert kinds == ([found.kind] if found else [])


LOADS = 60


def noisy(chance: random.Random, calls: int, spread: float, drift: Callable[[float], float]) -> Served:
    """Make calls one after the other whose times are lognormal; `drift` gives a factor at each share of the load."""
    times = iter([math.exp(chance.gauss(0, spread)) * drift(number / calls) for number in range(calls)])
    due = [0.0, *accumulate(times)]
    return Served(due=array("d", due[:-1]), issued=array("d", due[:-1]), ended=array("d", due[1:]))


def alarms(load: Load, serve: Callable[[], Served]) -> int:
    return sum(why_unsteady(load, serve()) is not None for _ in range(LOADS))


ENDLESS = Load(kind="single_stream", seconds=1e6)


@pytest.mark.parametrize(("calls", "spread"), [(30, 0.1), (100, 0.5), (600, 0.5)])
def test_a_steady_load_is_rarely_called_unsteady(calls: int, spread: float) -> None:
    """One of a hundred at most, also where calls differ much and are few: windows then differ by chance."""
    chance = random.Random(11)
    assert alarms(ENDLESS, lambda: noisy(chance, calls, spread, lambda _: 1.0)) <= 1


@pytest.mark.parametrize(("utilisation", "calls"), [(0.1, 200), (0.5, 400)])
def test_a_queue_is_no_drift(utilisation: float, calls: int) -> None:
    """Its calls depend on each other, those of an M/M/1 server at half of its rate for some 12 calls."""
    load = Load(kind="server", qps=1000 * utilisation, seconds=calls / (1000 * utilisation))
    seeds, chance = iter(range(LOADS)), random.Random(11)
    assert alarms(load, lambda: served(replace(load, seed=next(seeds)), lambda _: chance.expovariate(1000))) <= 2


@pytest.mark.parametrize("drift", [lambda at: 1.3 if at > 2 / 3 else 1.0, lambda at: 1.0 + 0.3 * at])
def test_a_drift_of_30_percent_is_found(drift: Callable[[float], float]) -> None:
    """A step, and a steady rise, of calls that differ by 10 %."""
    chance = random.Random(11)
    assert alarms(ENDLESS, lambda: noisy(chance, 1800, 0.1, drift)) >= LOADS - 2


def test_noise_is_no_degradation() -> None:
    chance = random.Random(3)
    assert why_degrading(LOOP, closed(lambda _: 0.001 * chance.uniform(0.8, 1.2))) is None
    assert why_degrading(LOOP, closed(lambda number: 0.001 * (1 + number / 1e6))) is None  # steady, but too little


def test_rates_of_windows_add_up_to_all_calls_over_the_whole_span() -> None:
    times = served(SERVER, stalled)
    values, counts = rates(times)
    assert len(values) == len(counts) == 10
    assert sum(counts) == len(times.due)
    assert sum(counts) / sum(count / value for count, value in zip(counts, values, strict=True)) == pytest.approx(
        len(times.due) / max(times.ended)
    )


def test_the_bound_is_that_of_the_load_else_of_the_highest_percentile() -> None:
    budgets = parse_budgets({"latency_p50_ms": 5, "latency_p99_ms": 50, "latency_mean_ms": 6, "accuracy_min": 0.5})
    assert bound_of(Load(kind="server", qps=5, within_ms=20), budgets) == 0.02
    assert bound_of(SERVER, budgets) == 0.05
    assert bound_of(SERVER, ()) is None


def test_a_piece_begins_as_its_load_and_has_so_many_calls() -> None:
    piece = piece_of(Load(kind="server", qps=500, seconds=0.01, seed=3), 25)
    assert list(schedule(SERVER)[:25]) == list(schedule(piece))
    assert len(schedule(piece_of(Load(kind="offline", calls=9), 4))) == 4


def test_delays_of_the_generator_are_taken_out_of_what_waited_for_them() -> None:
    """The second call was issued 3 s late, and took 1 s; the third waited for it, and would have for 0.5 s."""
    due = array("d", [0.0, 2.0, 2.5, 9.0])
    delayed = Served(due=due, issued=array("d", [0.0, 5.0, 2.5, 9.0]), ended=array("d", [1.0, 6.0, 7.0, 10.0]))
    assert [1.0, 3.0, 4.0, 10.0] == list(undelayed(delayed).ended)
    assert undelayed(delayed).lag_s == 0


def test_what_was_issued_in_time_stays_as_it_was() -> None:
    times = served(SERVER, stalled)
    assert list(times.ended) == pytest.approx(list(undelayed(times).ended))


def steady(service_s: float, _: float) -> float:
    return service_s


def test_more_work_is_in_the_median_latency_at_any_rate() -> None:
    """A call is never faster than its service, and the queue only adds to it: +10 % is at least +10 %."""
    for utilisation in [0.05, 0.3, 0.6, 0.8]:
        load = piece_of(Load(kind="server", qps=1000 * utilisation, seed=1), 30)
        before, now = (sorted(served(load, partial(steady, taken)).latencies)[15] for taken in (0.001, 0.0011))
        assert now / before >= 1.0999, utilisation


def test_calls_that_only_wait_are_as_many_as_are_due() -> None:
    table = [
        (LOOP, False, 1),
        (SERVER, False, 1),
        (SERVER, True, 256),
        (Load(kind="server", qps=1, in_flight=3), True, 3),
        (Load(kind="concurrency", in_flight=4), True, 4),
    ]
    assert [most for _, _, most in table] == [load.at_once(waiting=waiting) for load, waiting, _ in table]


def test_every_load_says_how_calls_arrive() -> None:
    table: list[Any] = ["single_stream", "multi_stream", "concurrency", "offline", "server"]
    assert [] == [kind for kind in table if not (Load(kind=kind).arrivals)]


def test_calls_in_a_row_that_change_their_speed_are_told() -> None:
    table: list[tuple[Callable[[int], float], bool]] = [
        (lambda call: 0.0017 + 0.003 * call / 300, True),
        (lambda call: 0.001 if call < 200 else 0.002, True),
        (lambda call: 0.002 if call < 100 else 0.001, True),  # slow at first is no steady state either
        (lambda call: 0.001 * (1 + call % 3), False),
        (lambda call: 0.1 if call == 250 else 0.001, False),  # a single stall
    ]
    assert [] == [
        (latency, drifts)
        for latency, drifts in table
        if not (
            drifts == (why_drifting([latency(call) for call in range(300)]) is not None)
            and why_drifting([latency(call) for call in range(20)]) is None
        )
    ]


def test_calls_that_take_no_time_at_all_drift_by_no_more_than_a_clock_can_tell() -> None:
    """An empty call is left with 0 s where the cost of the loop is taken off; its ratio to 20 ns is no error."""
    drift = why_drifting([0.0] * 10 + [20e-9] * 20)
    assert drift is not None
    assert 20 == pytest.approx(drift.numbers["ratio"])
