"""Another program reads the whole report back."""

import json
import math
from collections.abc import Callable
from typing import cast

import pytest
from fakes import records as fake

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports.json_file import render


def test_report_comes_back() -> None:
    whole = json.loads(render(fake.report()))
    assert (2, "pytest-hwperf report") == (whole["schema"], whole["what"])
    assert fake.report() == from_json(ReportFile, render(fake.report())).report


def test_report_is_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    golden("json/report.json", render(replace(fake.report(), judgements=(fake.plain_judgement(),))))


def test_rendering_twice_gives_the_same_bytes() -> None:
    assert render(fake.report()) == render(fake.report())


def test_judgements_that_were_read_are_written_alike() -> None:
    assert render(fake.report()) == render(from_json(ReportFile, render(fake.report())).report, judgements_read=True)


def test_what_is_not_a_judgement_is_always_checked() -> None:
    wrong = replace(fake.report(), partial=cast("bool", 5))
    with pytest.raises(SerialisationError, match=r"^Report: Expected `bool`, got `int` - at `\$\.partial`$"):
        render(wrong, judgements_read=True)


def test_no_nan_is_ever_written() -> None:
    judgement = replace(
        fake.plain_judgement(), figures=(fake.figure(at=fake.estimate(math.nan, None, None, 1)),)
    )  # fmt: skip

    where = r"\$\.report\.judgements\[0\]\.figures\[0\]\.estimate\.value"
    problem = rf"^ReportFile: Expected a finite number, got `nan` - at `{where}`$"
    with pytest.raises(SerialisationError, match=problem):
        render(replace(fake.report(), judgements=(judgement,)))
