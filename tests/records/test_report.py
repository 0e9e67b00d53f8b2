"""How every surface names the code that was compared."""

import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.run import replace

COMMIT = "4f2c1e9d" * 5


@pytest.mark.parametrize(
    ("commit", "changed", "named"),
    [
        (COMMIT, False, "HEAD 4f2c1e9d4f (2026-11-20)"),
        (COMMIT, True, "working tree on 4f2c1e9d4f (2026-11-20)"),
        ("", False, "the present code"),
    ],
)
def test_the_present_code_has_a_date_and_a_name(commit: str, named: str, *, changed: bool) -> None:
    report = replace(fake.empty_report(), revision=commit, revision_date="2026-11-20", changed=changed)
    assert named == report.present_code


@pytest.mark.parametrize(
    ("against", "commit", "date", "named"),
    [
        ("origin/main", COMMIT, "2026-11-02", "origin/main 4f2c1e9d4f (2026-11-02)"),
        (COMMIT, COMMIT, "2026-11-02", f"{COMMIT} (2026-11-02)"),
        ("../old", "", "", "../old"),
    ],
)
def test_the_baseline_is_named_once_for_all_shards(against: str, commit: str, date: str, named: str) -> None:
    (gate,) = gates.report(1).gates
    shard = replace(gate, against=against, revision=commit, revision_date=date)
    assert (named,) == replace(fake.empty_report(), gates=(shard, shard)).compared_with


def test_stored_runs_are_named_only_where_they_were_compared_with() -> None:
    assert ("stored runs of baseline main",) == fake.report().compared_with
    assert () == replace(fake.report(), judgements=()).compared_with
