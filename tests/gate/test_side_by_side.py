"""How many pairs run side by side: as many as asked for, or as many as pays and the machine bears."""

from pathlib import Path

import pytest

from pytest_hwperf.core.evidence import Assignment, Hypothesis, Measurement
from pytest_hwperf.core.records import Margin
from pytest_hwperf.gate.side_by_side import MEASURED_TO_PAY, Machine, pairs_at_once
from pytest_hwperf.host.memory import available_bytes, largest_child_bytes
from pytest_hwperf.pairs.interleaving import Interleaving
from pytest_hwperf.pairs.lockstep import PairTrace

HERE = Measurement(test="test_model.py::test_forward", label="")
FOUR = (0, 1, 2, 3)
GIB = 1 << 30


def trace(processor: int | None = 1) -> PairTrace:
    found = PairTrace()
    assignment = Assignment(measurement=HERE, turns="BCCB", processor=processor)
    found.interleavings[HERE] = Interleaving(assignment=assignment, observations=[])
    return found


def asked(metric: str = "latency", statistic: str = "p50") -> list[Hypothesis]:
    margin = Margin(metric=metric, statistic=statistic, size=0.02)
    return [Hypothesis(measurement=HERE, margin=margin, better="lower")]


def machine(free: int | None = 100 * GIB, taken: int | None = GIB) -> Machine:
    return Machine(processors=FOUR, paying={2: 2, 4: 4}, available=lambda: free, largest=lambda: taken)


def test_as_many_as_pay_on_so_many_processors() -> None:
    assert (4, "") == pairs_at_once(None, trace(), asked(), machine())


def test_where_nothing_was_measured_to_pay_there_is_one() -> None:
    assert (1, "") == pairs_at_once(None, trace(), asked(), Machine(processors=FOUR, paying={}))
    assert all(1 <= pairs <= least for least, pairs in MEASURED_TO_PAY.items())


def test_a_number_that_is_given_counts() -> None:
    assert (3, "") == pairs_at_once(3, trace(None), asked(), machine(free=None))


def test_threads_that_share_no_processor_have_the_machine_for_themselves() -> None:
    assert (1, f"{HERE.test} does not keep to one processor") == pairs_at_once(None, trace(None), asked(), machine())


def test_energy_is_compared_alone() -> None:
    number, why = pairs_at_once(None, trace(), asked("energy", "mean"), machine())

    assert 1 == number
    assert why.startswith("energy is compared")


@pytest.mark.parametrize(
    ("free", "taken", "pairs", "why"),
    [
        (5 * GIB, GIB, 2, ""),
        (2 * GIB, GIB, 1, "more would not fit into memory"),
        (None, GIB, 1, "it is not known what memory they would take"),
        (GIB, None, 1, "it is not known what memory they would take"),
    ],
)
def test_both_processes_of_all_pairs_fit_into_memory(free: int | None, taken: int | None, pairs: int, why: str) -> None:
    """In four fifths of what is free."""
    assert (pairs, why) == pairs_at_once(None, trace(), asked(), machine(free, taken))


def test_memory_is_that_of_the_system(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 3 kB\n", encoding="ascii")
    assert 3072 == available_bytes(tmp_path)
    assert (largest_child_bytes() or 1) > 0
