"""The search for the highest rate, on servers that are simulated."""

from array import array

import pytest

from pytest_hwperf.gate.models.load import PeakSearch
from pytest_hwperf.loads.local import schedule
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import Served


def search(served_below: float, *unlucky: int) -> PeakSearch:
    """Search on a server that is fast below a rate and slow above; at the seeds that are unlucky it is always slow."""

    def run(load: Load) -> Served:
        due = schedule(load)
        taken = 0.001 if load.qps < served_below and load.seed not in unlucky else 1.0
        return Served(due=due, issued=due, ended=array("d", (moment + taken for moment in due)))

    return PeakSearch(load=Load(kind="server", qps=100, seconds=1), q=0.95, within_s=0.02, run=run)


def test_the_peak_is_doubled_bisected_and_confirmed_by_a_fresh_schedule() -> None:
    asked = search(1000)
    found = asked.search()
    assert found is not None
    assert 950 < found.load.qps < 1000
    assert [100, 200, 400, 800, 1600] == [one.load.qps for one in asked.tries[:5]]
    assert len({one.load.seed for one in asked.tries}) == len(asked.tries)
    assert [True] == [one.confirms for one in asked.tries if one.confirms]


def test_a_rate_that_is_not_confirmed_is_given_up() -> None:
    first = search(1000)
    first.search()
    confirming = first.tries[-1].load.seed
    again = search(1000, confirming)
    found = again.search()
    assert found is not None
    assert found.load.qps < first.tries[-1].load.qps
    assert 2 == sum(one.confirms for one in again.tries)


def test_slow_rates_take_as_long_as_the_percentile_needs_calls() -> None:
    asked = search(1000)
    asked.search()
    assert 1.95 == pytest.approx(asked.tries[0].load.seconds)  # 1.5 times 130 calls at 100 a second
    assert all(len(one.served.due) >= 130 for one in asked.tries)


def test_nothing_is_served_where_a_try_would_take_an_hour_or_the_search_has_halved_enough() -> None:
    with pytest.raises(UsageProblem, match=r"nothing is served within 20 ms even at 0\.0488"):
        search(0).search()


def test_a_rate_that_the_generator_itself_does_not_keep_says_so() -> None:
    def run(load: Load) -> Served:
        due = schedule(load)
        late = array("d", (moment + (0.5 if load.qps > 1000 else 0.0) for moment in due))
        return Served(due=due, issued=late, ended=array("d", (moment + 0.001 for moment in late)))

    asked = PeakSearch(load=Load(kind="server", qps=800, seconds=1), q=0.95, within_s=0.02, run=run)
    asked.search()
    assert all((one.doubt is None) == one.kept for one in asked.tries)
    assert "the load generator ran 500 ms late" in str(asked.tries[1].doubt)
