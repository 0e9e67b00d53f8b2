"""Another program reads the whole report back."""

import json
import math
from collections.abc import Callable

import pytest
from fakes import records as fake

from pytest_hwperf.core.codec import from_plain
from pytest_hwperf.core.errors import CodecError
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.report import Report
from pytest_hwperf.reports.json_file import render


def test_report_comes_back() -> None:
    whole = json.loads(render(fake.report()))

    assert (1, "pytest-hwperf report") == (whole["schema"], whole["what"])
    assert fake.report() == from_plain(Report, whole["report"])


def test_report_is_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    golden("json/report.json", render(replace(fake.report(), judgements=(fake.plain_judgement(),))))


def test_rendering_twice_gives_the_same_bytes() -> None:
    assert render(fake.report()) == render(fake.report())


def test_no_nan_is_ever_written() -> None:
    judgement = replace(
        fake.plain_judgement(), figures=(fake.figure(at=fake.estimate(math.nan, None, None, 1)),)
    )  # fmt: skip

    with pytest.raises(CodecError, match=r"judgements\[0\]\.figures\[0\]\.estimate\.value: expected a finite number"):
        render(replace(fake.report(), judgements=(judgement,)))
