"""The fixed parts of the page: its style, its scripts, and the library that draws its charts."""

import base64
import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.structs import Record

_SCRIPTS = ("dom.js", "charts.js", "details.js", "table.js")  # in the order in which they need each other


class Library(Record, frozen=True, kw_only=True):
    """A script that the page unpacks when its first chart is opened."""

    packed: str  # base64 of its gzip
    hash: str  # as a Content-Security-Policy names it


def check_installed() -> None:
    """Refuse before anything is measured.

    Raises:
        UsageProblem: a package that the page is made with is not installed.
    """
    missing = [name for name in ("jinja2", "plotly") if find_spec(name) is None]
    if missing:
        raise UsageProblem(f"an HTML report needs {' and '.join(missing)}: pip install 'pytest-hwperf[report]'")


def text_of(name: str) -> str:
    """Return a file that lies beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def script() -> str:
    """Return the page's own script."""
    parts = "\n".join(text_of(name) for name in _SCRIPTS)
    return f'"use strict";\n(function () {{\n{parts}\n}})();\n'


def pack(source: str) -> Library:
    """Pack a script, always to the same bytes."""
    packed = gzip.compress(source.encode(), compresslevel=9, mtime=0)
    return Library(packed=base64.b64encode(packed).decode("ascii"), hash=hash_of(source))


@lru_cache(maxsize=1)
def plotly() -> Library:
    """Return plotly.js, which the package plotly brings with it."""
    from plotly.offline import get_plotlyjs

    return pack(get_plotlyjs())


def hash_of(source: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode("ascii")
