"""What the site adds to `docs/`: pages that lie elsewhere in the repository, and links that hold in both places.

The pages are written for the repository, where a link leads to a file. In the site it leads to the page that was made
of that file; a link to a file that is no page, such as a module, becomes plain text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent
ADOPTED = {  # file of the repository → page of the site
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "readme.md",
    "benchmarks/README.md": "benchmarks.md",
    "example_project/README.md": "example.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s:]+)\)")
_CODE = re.compile(r"`[^`\n]+`")
_BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of `docs/`."""
    for source, page in ADOPTED.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let every link of a page lead to a page, and show bars in code, which need no backslash here."""
    at = page.file.src_uri
    source = next((source for source, adopted in ADOPTED.items() if adopted == at), f"docs/{at}")
    parts = _BLOCK.split(markdown)
    return "".join(part if part.startswith("```") else _shown(part, source, at) for part in parts)


def _shown(text: str, source: str, page: str) -> str:
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), _LINK.sub(_linked(source, page), text))


def _linked(source: str, page: str) -> Any:
    """Return what stands for a link of the file `source`, which the site shows as `page`."""

    def replaced(found: re.Match[str]) -> str:
        path, _, anchor = found[2].partition("#")
        if not path:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if target in ADOPTED:
            shown = ADOPTED[target]
        elif target.startswith("docs/") and target.endswith((".md", ".png", ".svg", ".html")):
            shown = target.removeprefix("docs/")
        else:
            return found[1]
        to = posixpath.relpath(shown, posixpath.dirname(page) or ".")
        return f"[{found[1]}]({to}#{anchor})" if anchor else f"[{found[1]}]({to})"

    return replaced
