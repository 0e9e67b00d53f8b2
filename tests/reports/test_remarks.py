"""How many remarks on decided values a summary leaves to the table."""

import pytest
from fakes import records as fake

from pytest_hwperf.records.messages import Remark, state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.summary import summary_of
from pytest_hwperf.reports.table import rows

HEAT = state("heat", rises=3)
CONSTANT = state("constant input", rows=1)
CROWD = state("crowded threads", threads=8, cores=2, fitting=2, workers="")


def measured(*remarks: Remark) -> Judgement:
    """A test that passes, with remarks on its latency."""
    sample = replace(fake.run().samples[0], warnings=remarks)
    run = replace(fake.run(), samples=(sample, *fake.run().samples[1:]))
    return replace(fake.plain_judgement(), run=run, verdicts=(), figures=(fake.figure(),))


def report(*judgements: Judgement) -> Report:
    return replace(fake.empty_report(), judgements=judgements)


@pytest.mark.parametrize(
    ("remarks", "told"),
    [
        ((HEAT, CONSTANT, CROWD), ["3 remarks with -v"]),
        ((HEAT, state("heat", rises=8)), ["1 remark with -v"]),  # one footnote, with a range
        (("the meter was reset",), ["1 remark with -v"]),  # a meter's own words
        ((state("mean of one"), state("maximum", statistic="p99", n=40, needed=459)), []),
        ((), []),
    ],
)
def test_what_puts_a_passed_value_in_doubt_is_counted(remarks: tuple[Remark, ...], told: list[str]) -> None:
    counts = summary_of(report(measured(*remarks))).counts
    assert told == [count for count in counts if "remark" in count]


def test_a_remark_of_several_tests_is_one() -> None:
    assert "1 remark with -v" in summary_of(report(measured(HEAT), measured(HEAT))).counts


def test_all_that_is_counted_is_in_the_table() -> None:
    notes = rows(report(measured(HEAT, CONSTANT, CROWD))).footnotes
    assert {str(HEAT), str(CONSTANT), str(CROWD)} <= set(notes)


def test_what_is_a_footnote_already_is_not_counted() -> None:
    shown = summary_of(fake.report())
    said = [remark for remark in rows(fake.report()).footnotes if remark in shown.footnotes]
    assert said
    assert ["1 remark with -v"] == [count for count in shown.counts if "remark" in count]  # context switches
