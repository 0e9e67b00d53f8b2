"""The HTML page: complete in itself, the same each time, and harmless whatever a report quotes."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.host import extras
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports.html import page

pytest.importorskip("jinja2", reason="HTML reports need pytest-hwperf[report]")
pytest.importorskip("plotly", reason="HTML reports need pytest-hwperf[report]")

HOSTILE = "t.py::t[<script>alert(1)</script>\x1b[2J\u202egnp\x00" + "x" * 300 + "]"


@pytest.fixture(autouse=True)
def _without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "plotly", lambda: ("cGxhY2Vob2xkZXI=", page.hash_of("placeholder")))


class _Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_endtag(self, tag: str) -> None:
        self.lasttag = "" if tag == "script" else self.lasttag

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            kind, before = self.scripts[-1]
            self.scripts[-1] = kind, before + data
        else:
            self.text += data


def read(content: bytes) -> _Reader:
    reader = _Reader()
    reader.feed(content.decode())
    return reader


def hostile() -> Report:
    judgement = fake.sklearn_judgement()
    run = replace(judgement.run, test=HOSTILE, scenario="</script><img src=x onerror=alert(1)>", context={"a<b": "&"})
    report = fake.report()
    return replace(report, judgements=(replace(judgement, run=run),), warnings=("<b>bold</b> \u202e",))


def test_a_small_report_is_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    """Without the style and the scripts, which are files of their own."""
    content = page.render(fake.report()).decode()
    for fixed in (page.text_of("style.css"), page.script("report")):
        assert fixed in content
        content = content.replace(fixed, "…")
    golden("html/report.html", re.sub(r"sha256-[\w+/=]+", "sha256-…", content).encode())


REPORTS = pytest.mark.parametrize("report", [fake.report(), gates.report(3), fake.empty_report(), hostile()])


@REPORTS
def test_a_page_is_the_same_each_time_and_loads_nothing(report: Report) -> None:
    content = page.render(report)
    reader = read(content)
    assert content == page.render(report)
    sources = [value for _, attributes in reader.tags for name, value in attributes.items() if name in ("src", "href")]
    assert {"#results"} == {*sources}
    assert "http" not in reader.text
    policy = next(attributes["content"] for tag, attributes in reader.tags if attributes.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


@REPORTS
def test_embedded_data_is_json_and_the_only_script_is_allowed_by_its_hash(report: Report) -> None:
    reader = read(page.render(report))
    kinds = [kind for kind, _ in reader.scripts]
    assert ["application/json"] * (2 + len(report.judgements)) + ["text/plain", None] == kinds
    for kind, text in reader.scripts:
        if kind == "application/json":
            assert not set("<>&") & set(text)
            json.loads(text)
    policy = next(attributes["content"] for _, attributes in reader.tags if attributes.get("http-equiv"))
    assert page.hash_of(reader.scripts[-1][1]) in (policy or "")


def test_what_comes_from_outside_is_text() -> None:
    """Markup stays text, control characters and bidirectional overrides are shown as escapes, long names whole."""
    content = page.render(hostile())
    reader = read(content)
    assert b"<script>alert" not in content
    assert "img" not in {tag for tag, _ in reader.tags}
    assert [] == [attributes for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    assert not {"\x1b", "\x00", "\u202e"} & set(content.decode())
    assert r"<script>alert(1)</script>\x1b[2J\u202egnp\x00" + "x" * 300 in reader.text


def test_the_page_begins_with_the_verdict_and_the_regressions() -> None:
    reader = read(page.render(fake.report()))
    text = " ".join(reader.text.split())
    headline, worse, machine = (text.index(one) for one in ("1 of 2 tests regressed", "What got worse", "Processor"))
    assert headline < worse < machine
    assert "+4.8 % (+3.1 .. +6.5), 6.02 → 6.31 ms; margin 2 %; 12 pairs" in text


def test_a_page_of_nothing_says_so_and_has_no_empty_table() -> None:
    reader = read(page.render(fake.empty_report()))
    assert "Empty Nothing was measured Started" in " ".join(reader.text.split())
    hidden = {attrs.get("aria-labelledby") for tag, attrs in reader.tags if tag == "section" and "hidden" in attrs}
    assert {"h-counts", "h-results"} == hidden


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "plotly" else object())
    with pytest.raises(UsageProblem, match=r"needs plotly: pip install 'pytest-hwperf\[report\]'"):
        page.render(fake.report())
