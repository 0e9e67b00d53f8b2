"""What pages have in common: their frame, style and scripts, the library that draws charts, and what is embedded."""

import base64
import gzip
import hashlib
import json
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_hwperf.host.extras import require

if TYPE_CHECKING:
    from markupsafe import Markup

_SCRIPTS = {  # of each page, in the order in which they need each other
    "report": ("dom.js", "charts.js", "details.js", "table.js"),
    "history": ("dom.js", "charts.js", "history.js"),
}


def check_installed() -> None:
    """Refuse before anything is measured."""
    require("report", "an HTML report needs {}", "jinja2", "plotly")


def text_of(name: str) -> str:
    """Return a file that lies beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def script(page: str) -> str:
    """Return a page's own script."""
    parts = "\n".join(text_of(name) for name in _SCRIPTS[page])
    return f'"use strict";\n(function () {{\n{parts}\n}})();\n'


def pack(source: str) -> tuple[str, str]:
    """Pack a script, always to the same bytes, which the page unpacks when its first chart is opened; and its hash."""
    packed = gzip.compress(source.encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii"), hash_of(source)


@lru_cache(maxsize=1)
def plotly() -> tuple[str, str]:
    """Return plotly.js, which the package plotly brings with it, packed, and its hash."""
    from plotly.offline import get_plotlyjs

    return pack(get_plotlyjs())


def hash_of(source: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode("ascii")


def as_json(plain: object) -> bytes:
    """Write JSON that no parser of HTML takes for markup, whatever it quotes."""
    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode()


def embedded(text: bytes) -> "Markup":
    """Take JSON as it is: `as_json` has escaped it."""
    from markupsafe import Markup

    return Markup(text.decode())  # noqa: S704 - see above


def written(page: str, **values: Any) -> bytes:
    """Fill the template of a page, which escapes each value that is not `embedded`."""
    check_installed()
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    own, (library, allowed) = script(page), plotly()
    environment = Environment(
        loader=FunctionLoader(text_of), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text: str = environment.get_template(f"{page}.html.jinja").render(
        policy=_policy(hash_of(own), allowed),
        style=Markup(text_of("style.css")),  # noqa: S704 - this package's own file
        script=Markup(own),  # noqa: S704 - the same
        library=library,
        **values,
    )
    return text.encode("utf-8", errors="backslashreplace")


def _policy(*scripts: str) -> str:
    """Return the Content-Security-Policy: nothing from elsewhere, and no script but those of these hashes.

    Styles cannot be told by their hash: the library sets them on the elements that it draws.
    """
    allowed = " ".join(f"'{one}'" for one in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
