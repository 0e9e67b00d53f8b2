"""The page of traps is held against the code: what it says is said exists."""

import re
from pathlib import Path

from pytest_hwperf.records.messages import _SENTENCES

PAGE = Path(__file__).parents[1] / "docs" / "traps.md"
SAID = re.compile(r"^\|[^|]*\|([^|]*)\|", re.MULTILINE)
TRAPS = {
    "crowded threads", "crowded pool", "waiting threads", "constant input", "few examples", "not waited for",
    "mean only", "other batch served", "predictions not checked",
}  # fmt: skip
NO_KINDS = {"kind", "flip_rate", "probability_diff", "latency_mean_ms", "throughput_min_qps", "inconclusive"}


def kinds() -> set[str]:
    """Return what stands as code in the second column."""
    cells = SAID.findall(PAGE.read_text(encoding="utf-8"))
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)} - NO_KINDS


def test_every_kind_on_the_page_exists() -> None:
    assert set() == {kind for kind in kinds() if kind not in _SENTENCES and not kind.startswith(("--", "hwperf_"))}


def test_every_trap_stands_on_the_page() -> None:
    assert TRAPS <= kinds()
