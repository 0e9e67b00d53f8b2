"""The paired rules on recorded timings of two small models: the tables that came with the recording."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from fakes.benchmarks import functions_of
from fakes.documents import rows_after

from pytest_hwperf.stats.figures.ranks import hodges_lehmann, signed_rank_p, walsh_bounds

WORKLOADS = ("np", "ort")


@pytest.fixture(scope="module")
def replay() -> dict[str, Any]:
    """The functions of the benchmark script."""
    return functions_of("gate.replay")


@pytest.fixture(scope="module")
def values(replay: dict[str, Any]) -> dict[tuple[str, str], list[float]]:
    """Pair values by workload and arm, round by round."""
    found: dict[tuple[str, str], list[float]] = replay["pair_values"]()
    return found


@pytest.mark.parametrize(
    ("workload", "arm", "percent"),
    [
        ("np", "A_prime", 0.07),
        ("np", "B_2pct", 2.10),
        ("np", "B_5pct", 5.14),
        ("np", "B_10pct", 10.08),
        ("ort", "A_prime", -0.12),
        ("ort", "B_2pct", 2.33),
        ("ort", "B_5pct", 5.02),  # 5.0248; the recording's own README has 5.03
        ("ort", "B_10pct", 9.40),
    ],
)
def test_centre_of_all_82_pairs(
    values: dict[tuple[str, str], list[float]], workload: str, arm: str, percent: float
) -> None:
    found = values[workload, arm]
    assert (percent, 82) == (round(100 * math.expm1(hodges_lehmann(found)), 2), len(found))


@pytest.mark.parametrize(
    ("workload", "arm", "p_value", "centre", "low", "high"),
    [
        ("np", "A_prime", 0.4228515625, 0.092, -0.170, 0.639),
        ("ort", "A_prime", 0.7539062500, -0.195, -0.540, 0.525),
        ("np", "B_5pct", 0.0009765625, 5.426, 5.230, 5.845),
        ("ort", "B_5pct", 0.0009765625, 5.446, 4.289, 5.923),
    ],
)
def test_first_ten_rounds(  # noqa: PLR0913, PLR0917 - the columns of the table
    values: dict[tuple[str, str], list[float]],
    workload: str,
    arm: str,
    p_value: float,
    centre: float,
    low: float,
    high: float,
) -> None:
    ten = values[workload, arm][:10]
    bounds = walsh_bounds(ten, 0.05)
    percents = [round(100 * math.expm1(end), 3) for end in (hodges_lehmann(ten), *bounds) if end is not None]
    assert p_value == signed_rank_p(ten)
    assert [centre, low, high] == percents
    if arm == "B_5pct":
        assert p_value == signed_rank_p(ten, math.log1p(0.02))


def windows(values: Sequence[float], length: int) -> list[Sequence[float]]:
    return [values[start : start + length] for start in range(0, 80, length)]


def alarms(found: Sequence[float], length: int, margin: float) -> int:
    return sum(signed_rank_p(window, math.log1p(margin)) <= 0.05 for window in windows(found, length))


@pytest.mark.parametrize(
    ("length", "margin", "equal", "slower"),
    [
        (10, 0.00, (1, 0), [(8, 8), (8, 8), (8, 8)]),
        (10, 0.01, (0, 0), [(8, 7), (8, 8), (8, 8)]),
        (10, 0.02, (0, 0), [(0, 1), (8, 8), (8, 8)]),
        (10, 0.03, (0, 0), [(0, 0), (8, 8), (8, 8)]),
        (10, 0.05, (0, 0), [(0, 0), (2, 0), (8, 8)]),
        (5, 0.00, (1, 1), [(16, 14), (16, 16), (16, 16)]),
    ],
)
def test_alarms_of_windows(
    values: dict[tuple[str, str], list[float]],
    length: int,
    margin: float,
    equal: tuple[int, int],
    slower: list[tuple[int, int]],
) -> None:
    """Equal code is held against itself in both directions."""
    both = [[values[name, "A_prime"], [-v for v in values[name, "A_prime"]]] for name in WORKLOADS]
    assert equal == tuple(sum(alarms(side, length, margin) for side in sides) for sides in both)
    assert slower == [
        tuple(alarms(values[name, arm], length, margin) for name in WORKLOADS)
        for arm in ("B_2pct", "B_5pct", "B_10pct")
    ]


@pytest.mark.parametrize(
    ("workload", "arm", "outcome", "pairs", "low", "high"),
    [
        ("np", "A_prime", "equivalent", 8, -0.34, 1.63),
        ("np", "B_2pct", "inconclusive", 20, 1.89, 2.35),
        ("np", "B_5pct", "regressed", 8, 4.45, 6.86),
        ("np", "B_10pct", "regressed", 8, 9.44, 10.69),
        ("ort", "A_prime", "equivalent", 8, -1.25, 0.19),
        ("ort", "B_2pct", "inconclusive", 20, 1.89, 3.07),
        ("ort", "B_5pct", "regressed", 8, 2.02, 6.61),
        ("ort", "B_10pct", "regressed", 8, 7.93, 11.01),
    ],
)
def test_looks_at_8_13_and_20_pairs(  # noqa: PLR0913, PLR0917 - the columns of the table
    replay: dict[str, Any],
    values: dict[tuple[str, str], list[float]],
    workload: str,
    arm: str,
    outcome: str,
    pairs: int,
    low: float,
    high: float,
) -> None:
    found = replay["at_looks"](values[workload, arm])
    assert (outcome, pairs) == (found.outcome, found.pairs)
    assert found.change is not None
    assert [low, high] == [round(100 * end, 2) for end in (found.change.low, found.change.high) if end is not None]


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        ("mean > 5 %, same round", (63, 61, 328)),
        ("mean > 5 %, ten rounds apart", (75, 66, 288)),
        ("median > 5 %, ten rounds apart", (12, 14, 288)),
        ("Mann-Whitney of calls, ten rounds apart", (64, 68, 288)),
        ("Wilcoxon of the blocks of one pair", (21, 14, 328)),
        ("the same, both sides in one process", (45, 9, 328)),
    ],
)
def test_naive_rules_alarm_on_equal_code(replay: dict[str, Any], rule: str, counts: tuple[int, int, int]) -> None:
    """At a nominal 5 %, where there is one, they alarm up to eight times as often; np, ort, of both together."""
    assert counts == replay["naive_alarms"](rule)


@pytest.mark.parametrize(("workload", "found", "patiently"), [(0, 16, 16), (1, 4, 14)])
def test_three_percent_are_found_at_a_margin_of_two(
    replay: dict[str, Any], workload: int, found: int, patiently: int
) -> None:
    """In sixteen windows of either model; those of `ort` are noisy, so that a fourth look finds more."""
    answers = [replay["found_slight"](workload, 12, prove_equal=asked, every=12) for asked in (False, True)]
    assert [(found, 16), (patiently, 16)] == answers


@pytest.mark.simulation
def test_documented_tables_are_what_the_script_prints(
    replay: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    replay["print_pairs"]()
    documented, printed = (
        rows_after("statistics.md", "python -m benchmarks replay pairs"),
        capsys.readouterr().out.splitlines(),
    )
    assert 6 < len(documented)
    assert [] == [row for row in documented if row not in printed]
