"""The history of tests as one HTML file that loads nothing and runs no script: a chart of each series."""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.trends import Trend
from pytest_hwperf.reports.history_chart import LEGEND, STYLE, chart_of, facts_of, markup, remarks_of, title_of

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.05rem; overflow-wrap: anywhere; margin-top: 2.2rem; }
h3 { font-size: .95rem; font-weight: 600; margin: 1rem 0 .2rem; }
ul { margin: .2rem 0; } .facts { opacity: .8; }
@media (prefers-color-scheme: dark) { :root { --baseline: #7fb2ff; --candidate: #ffa45c; } }
"""


def render(trends: Sequence[Trend], baseline: str) -> bytes:
    """Write the page; series of a test follow each other."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>History</title>',
        '<meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{_STYLE}{STYLE}</style></head><body><main><h1>History of baseline {_text(baseline)}</h1>",
        f"<p>{LEGEND}</p>",
    ]
    for (test, label), group in groupby(trends, lambda one: (one.series.test, one.series.label)):
        parts.append(f"<h2>{_text(' '.join(filter(None, [test, label])))}</h2>")
        parts.extend(_section(trend) for trend in group)
    return "".join([*parts, "</main></body></html>\n"]).encode()


def _section(trend: Trend) -> str:
    listed = "".join(f"<li>{escape(line)}</li>" for line in remarks_of(trend))
    more = f"<ul>{listed}</ul>" if listed else ""
    head = f'<h3>{escape(title_of(trend))}</h3><p class="facts">{escape(facts_of(trend))}</p>'
    return f"{head}{markup(chart_of(trend))}{more}"


def _text(text: str) -> str:
    return escape(visible(text))
