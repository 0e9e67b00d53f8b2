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
    "docs/decisions": "decisions/index.md",
    "example_project/README.md": "example.md",
}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s:]+)\)")
_BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every decision into the navigation, in the place that is kept for them.

    An entry without its page is left out: of a misspelt one the page is then missing, which is a warning.
    """
    pages = ["decisions/index.md", *(f"decisions/{path.name}" for path in _decisions())]
    config.nav = _with_decisions(_existing(config.nav), pages)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of `docs/`, and the list of decisions."""
    for source, page in ADOPTED.items():
        if source.endswith(".md"):
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    lines = [f"- [{_title(path)}]({path.name})" for path in _decisions()]
    files.append(File.generated(config, "decisions/index.md", content="\n".join(["# Decisions", "", *lines, ""])))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let every link of a page lead to a page."""
    at = page.file.src_uri
    source = next((source for source, adopted in ADOPTED.items() if adopted == at), f"docs/{at}")
    if at == "decisions/index.md":
        source = "docs/decisions/index.md"
    parts = _BLOCK.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(_linked(source, at), part) for part in parts)


def _linked(source: str, page: str) -> Any:
    """Return what stands for a link of the file `source`, which the site shows as `page`."""

    def replaced(found: re.Match[str]) -> str:
        path, _, anchor = found[2].partition("#")
        if not path:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if target in ADOPTED:
            shown = ADOPTED[target]
        elif target.startswith("docs/") and target.endswith(".md"):
            shown = target.removeprefix("docs/")
        else:
            return found[1]
        to = posixpath.relpath(shown, posixpath.dirname(page) or ".")
        return f"[{found[1]}]({to}#{anchor})" if anchor else f"[{found[1]}]({to})"

    return replaced


def _existing(nav: Any) -> Any:
    if isinstance(nav, list):
        return [kept for one in nav if (kept := _existing(one))]
    if isinstance(nav, dict):
        return {title: kept for title, one in nav.items() if (kept := _existing(one))}
    known = nav in ADOPTED.values() or nav == "decisions" or (ROOT / "docs" / nav).exists()
    return nav if known else None


def _with_decisions(nav: Any, pages: list[str]) -> Any:
    if isinstance(nav, list):
        return [_with_decisions(one, pages) for one in nav]
    if isinstance(nav, dict):
        return {title: pages if one == "decisions" else _with_decisions(one, pages) for title, one in nav.items()}
    return nav


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("*.md"))


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
