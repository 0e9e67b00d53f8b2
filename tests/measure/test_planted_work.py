"""Planted work is as long as it was asked to be, by a clock that only the call and the loop move."""

import pytest

from pytest_hwperf.measure.pair_target import planted
from pytest_hwperf.measure.stream import Stream


@pytest.mark.parametrize(("share", "turns"), [(0.05, 5), (0.10, 10), (0.0, 0)])
def test_the_loop_takes_its_share_of_the_call(share: float, turns: int) -> None:
    """A call takes 2000 ns and an iteration of the loop 20 ns: 5 % are five iterations."""
    calls: list[object] = []

    def function(row: object) -> object:
        calls.append(row)
        return row

    rounds = [(2300, 2000 + 300 * (number > 0), 2300, 2000 * 20 + 900 * (number > 0)) for number in range(15)]
    ticks = iter([moment for taken in rounds for ns in taken for moment in (0, ns)])
    slower = planted(Stream(function, [1, 2]), share, lambda: next(ticks))
    assert slower("x") == "x"
    extra = next(cell.cell_contents for cell in slower.__closure__ or () if isinstance(cell.cell_contents, range))
    assert len(extra) == turns
    assert calls[:3] == [1, 2, 1]


def test_a_call_without_arguments_is_made_without() -> None:
    assert planted(Stream(lambda: 7, None), 0.05)() == 7
