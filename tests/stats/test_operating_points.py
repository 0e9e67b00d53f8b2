"""Operating points: which measurements may be compared with each other."""

import pytest

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.stats.candidates import described, lies_at, parse_point, points_of


def test_a_condition_in_which_all_agree_tells_nothing() -> None:
    assert [(), ()] == points_of([{"batch_size": "1", "threads": "2"}, {"batch_size": "1"}])


def test_what_declares_no_value_has_a_point_of_its_own_where_others_differ() -> None:
    points = points_of([{"batch_size": "1"}, {"batch_size": "32"}, {}])
    assert ["batch_size=1", "batch_size=32", "batch_size=not declared"] == [described(point) for point in points]


def test_without_a_load_calls_follow_each_other() -> None:
    points = points_of([{}, {"load": "single_stream"}, {"load": "offline calls=9"}])
    assert ["load=single_stream", "load=single_stream", "load=offline calls=9"] == [described(one) for one in points]
    assert lies_at({}, {"load": "single_stream"})
    assert not lies_at({}, {"threads": "1"})


def test_other_conditions_tell_no_points() -> None:
    assert [(), ()] == points_of([{"precision": "float32"}, {"precision": "int8"}])


def test_a_condition_may_be_asked_for_twice_in_the_same_way() -> None:
    assert {"threads": "1", "load": "server qps=5"} == parse_point(["threads=1", "threads=1", "load=server qps=5"])


def test_two_values_of_one_condition_are_refused() -> None:
    with pytest.raises(UsageProblem, match="one value for each condition"):
        parse_point(["threads=1", "threads=2"])
