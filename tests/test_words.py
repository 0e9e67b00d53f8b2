"""No help text and no page has a phrase that has to be decoded; each option's help is short.

Other surfaces are added to `SURFACES`.
"""

import ast
import inspect
import re
from argparse import SUPPRESS
from collections.abc import Iterator

import pytest
from reference_pages import ROOT, all_commands, pages

from pytest_hwperf import plugin
from pytest_hwperf.cli import _parser
from pytest_hwperf.plugin.session.settings import OPTIONS

# A pattern of words, and the plain way to write it.
PHRASES = {
    r"what (?!to\b)": "name the thing",
    r"so that\b": "a second sentence",
    r"(who|what|which|where|when)(so)?ever\b": "any",
    r"(is|are|was|were|be|been) (said|told)\b": "say who does it",
    r"says? so\b": "warns",
    r"by (itself|themselves)\b": "automatically, or leave it out",
    r"besides?\b": "next to, or also",
    r"nobody\b": "say who",
    r"of (which|whom)\b": "a second sentence",
    r"(?<=, )as (?!well\b|long\b|if\b|soon\b)": "for example, or like",
    r"(is|are|was|were) (no|none|nothing)\b": "without, or say what there is",
    r"none of\b": "no, or without",
    r"(is|are|was|were) named\b": "is listed, or name it",
    r"(has|have) to be known\b": "must know",
    r"(given?|gives|giving) up\b": "timed out",
    r"rehears\w+": "trial run",
    r"held runs?\b": "rejected run",
    r"present (code|tree)\b": "candidate",
    r"(remarks?|footnotes?)\b": "note",
    r"(sign of life|at hand|look further|cannot be meant)\b": "plain words",
}
_FOUND = {pattern: re.compile(rf"\b{pattern}", re.IGNORECASE) for pattern in PHRASES}
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|(?<=\])\([^)\s]*\)", re.MULTILINE | re.DOTALL)  # and targets of links
_NO_WORDS = re.compile(r"[,;:]? (e\.g\.|[Dd]efault:) .*|; repeatable")
WRITTEN = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(page for folder in ("docs", "docs/how-to") for page in sorted((ROOT / folder).glob("*.md"))),
]


def option_helps() -> Iterator[tuple[str, str]]:
    """Yield each option, ini key and argument with its help."""
    yield from ((option.flag, option.help.replace("%%", "%")) for option in OPTIONS if option.help)
    for command in all_commands(_parser()):
        for one in command._actions:
            if one.help and one.help != SUPPRESS and one.dest not in ("help", "version"):
                yield f"{command.prog} {one.metavar or one.dest}", one.help.replace("%%", "%")


def helps() -> Iterator[tuple[str, str]]:
    """Yield every text of `pytest --help`, `--markers` and `--fixtures`, and of `hwperf COMMAND --help`."""
    yield from option_helps()
    yield from plugin._MARKERS.items()
    functions = [one for one in ast.parse(inspect.getsource(plugin)).body if isinstance(one, ast.FunctionDef)]
    fixtures = [one for one in functions if any("fixture" in ast.unparse(how) for how in one.decorator_list)]
    yield from ((one.name, ast.get_docstring(one) or "") for one in fixtures)
    yield from ((f"{one.prog} --help", one.format_help()) for one in all_commands(_parser()))


def generated() -> Iterator[tuple[str, str]]:
    """Yield generated pages; of their blocks of code, the comments."""
    for name, text in pages().items():
        yield name, "\n".join([text, *re.findall(r"^    .*?# (.+)$", text, re.MULTILINE)])


def written() -> Iterator[tuple[str, str]]:
    yield from ((page.name, page.read_text(encoding="utf-8")) for page in WRITTEN)


SURFACES = {"help": helps, "generated reference": generated, "written pages": written}


def phrases(text: str) -> list[str]:
    """Return what stands in a text and should not, with the plain way to write it; code is left out."""
    prose = " ".join(_CODE.sub("`", text).split())
    return [
        f"…{prose[max(0, one.start() - 30) : one.end() + 20]}…: {PHRASES[pattern]}"
        for pattern, compiled in _FOUND.items()
        for one in compiled.finditer(prose)
    ]


@pytest.mark.parametrize("surface", SURFACES)
def test_a_surface_has_none_of_the_worst_phrases(surface: str) -> None:
    found = [(place, phrase) for place, text in SURFACES[surface]() for phrase in phrases(text)]
    assert [] == found


def test_each_phrase_is_found() -> None:
    """Also over the end of a line, but neither in code nor in the target of a link."""
    bad = (
        "What is here is\nsaid, so that whoever reads beside nobody says so by itself, as of which is no one; none of "
        "it is named or has to be known, is given up; a rehearsed held run of present code with a remark, no sign of "
        "life"
    )
    assert set() == {*_FOUND} - {
        pattern for pattern, compiled in _FOUND.items() if compiled.search(" ".join(bad.split()))
    }
    assert [] == phrases("Type `so that` [here](gate.md#beside-it):\n```text\nby itself\n```\n")


def test_the_help_of_an_option_is_at_most_twelve_words_without_a_relative_clause() -> None:
    """Neither an example nor the default counts."""
    helps = {name: _NO_WORDS.sub("", text) for name, text in option_helps()}
    assert len(helps) > 100
    assert {} == {name: text for name, text in helps.items() if len(text.split()) > 12}
    relative = re.compile(r"\b(that|which|who|whose|where)\b")
    assert {} == {name: text for name, text in helps.items() if relative.search(text)}
