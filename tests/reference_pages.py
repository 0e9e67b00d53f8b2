"""The pages of `docs/` that are made of the code: options, keywords, commands, metrics, messages and the public API.

`python -m pytest tests/test_reference.py --update-golden` writes them again.
"""

import ast
import inspect
import re
import tomllib
from argparse import SUPPRESS, Action
from collections.abc import Iterable, Iterator, Mapping
from inspect import getattr_static
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest_hwperf
from benchmarks.corpus.rows import read
from benchmarks.corpus.tables import page, recorded
from pytest_hwperf.cli import EXIT_CODES, _parser
from pytest_hwperf.cli.arguments import CommandParser
from pytest_hwperf.plugin import _MARKERS
from pytest_hwperf.plugin.session.parsers import Option
from pytest_hwperf.plugin.session.settings import OPTIONS
from pytest_hwperf.records.markers import _MARGINS, BUDGET_KEYWORDS, KEYWORDS
from pytest_hwperf.records.messages import _SENTENCES
from pytest_hwperf.records.metrics import METRICS, Metric
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.units import show

ROOT = Path(__file__).parents[1]
_GENERATED = "`--update-golden` of the tests writes this page from the code; edits here are lost."
_RECORDED = "`--update-golden` of the tests writes this page from `benchmarks/corpus`; edits here are lost."


def pages() -> Mapping[str, str]:
    """Return each page by its path below `docs/`."""
    made = {f"reference/{one.__name__[1:]}.md": one() for one in (_options, _markers, _commands, _messages, _api)}
    made["metrics.md"] = _metrics()
    made["reference/corpus.md"] = _corpus()
    return {name: "\n".join(lines) + "\n" for name, lines in made.items()}


def _page(title: str, *about: str) -> Iterator[str]:
    yield from (f"# {title}", "", *about, _GENERATED)


def _table(titles: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table; `titles` are divided by bars."""
    heads = titles.split("|")
    yield from ("", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _corpus() -> Iterator[str]:
    builds = recorded()
    others = {one["row"] for records in builds.values() for one in records if one["tool"] != "ours"}
    yield "# A corpus of real changes"
    yield ""
    yield (
        "Commits of public projects between which a call became slower or faster, or did not, and builds that judged "
        "them. A change was timed by alternating processes, without any of the tools (`head/base`). It is gated in the "
        "direction in which the code gets slower; hwperf also gates the other one. The other tools "
        f"judged {len(others)} of these rows, drawn at random, in the slower direction alone. [How to repeat a row]"
        "(../../benchmarks/README.md#the-corpus)."
    )
    yield from ("", _RECORDED)
    yield from page({row.name: row for row in read()}, builds)


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def _options() -> Iterator[str]:
    yield from _page(
        "Options and ini keys",
        "Each option is also an ini key: `--hwperf-sample-time` is `hwperf_sample_time`. The command line wins.",
        "How to use them: [reference](../reference.md#command-line-options).",
    )
    for title, group in (("Everyday options", "hwperf"), ("More options", "more"), ("Ini keys without an option", "")):
        rows = [_option(one) for one in OPTIONS if one.group == group and one.help]
        yield from ("", f"## {title}", *_table("option|default|" if group else "key|default|", rows))


def _option(option: Option) -> tuple[str, ...]:
    text, _, default = option.help.replace("%%", "%").partition(" Default: ")
    shown = default.rstrip(".") or (option.default or "off" if option.kind == "bool" else option.default)
    valued = f"{option.flag}={option.metavar}" if option.metavar else option.flag
    return _code(valued), _code("true" if shown is True else shown), text


def _markers() -> Iterator[str]:
    yield from _page("Markers and their keywords", "How to use them: [reference](../reference.md#markers).")
    yield from _table("marker|", ((_code(name + usage.partition(": ")[0]), usage.partition(": ")[2])
                                  for name, usage in _MARKERS.items()))  # fmt: skip
    limits = ((_code(word), "at most" if metric.better == "lower" else "at least",
               metric.called(one.statistic).removeprefix(metric.name).strip(), metric.title)
              for word, (metric, one) in BUDGET_KEYWORDS.items())  # fmt: skip
    yield from ("", "## Keywords of hwbudget", *_table("keyword|limit|statistic|of", limits))
    loads = ((_code(kind), ", ".join(map(_code, words))) for kind, words in KEYWORDS.items())
    margins = ((_code(word), f"`{100 * one.size:g}{'pp' if one.scale == 'absolute' else '%'}`"
                + f", at least {show(one.floor, METRICS[one.metric].unit)}" * bool(one.floor),
                "wherever measured" if always else "if named", METRICS[one.metric].title)
               for word, (one, always) in _MARGINS.items())  # fmt: skip
    yield from (
        "",
        "## Keywords of hwregression",
        *_table("keyword|default or suggestion|compared|of", margins),
        "",
        "You give the size of a margin that is compared if named; the number here is a suggestion.",
    )
    yield from ("", "## Keywords of hwload", *_table("kind|keywords", loads))


def _metrics() -> Iterator[str]:
    yield from _page(
        "Metrics",
        "[Meters](meters.md) describes how each is measured. [Stages](reference.md#stages) add metrics of their own.",
        "*Exact*: stored values stay valid. For other metrics hwperf runs both sides again.",
        "*Always*: compared wherever it is measured. Others: if you name them with a size; margins are suggestions.",
        "To add a metric, add a row to `records/metrics.py` and a meter, and open it in `plugin/measuring/meters.py`.",
    )
    yield from _table("metric|meaning|unit|better|keywords of `hwbudget`|margin", map(_metric, METRICS.values()))


def _metric(metric: Metric) -> tuple[str, ...]:
    margins = (
        f"{metric.called(one.statistic)} {100 * one.size:g} {'points' if one.scale == 'absolute' else '%'}"
        + f", at least {show(one.floor, metric.unit)}" * bool(one.floor)
        + ", always" * one.always
        for one in metric.margins
    )
    better = f"{metric.better}{', exact' if metric.exact else ''}"
    keywords = ", ".join(_code(budget.keyword) for budget in metric.budgets)
    return _code(metric.name), metric.title, metric.unit, better, keywords, "; ".join(margins)


def _messages() -> Iterator[str]:
    yield from _page(
        "Messages",
        "Causes, warnings and notes by kind. The JSON report gives the kind and its facts, shown here in braces.",
    )
    yield from _table("kind|text", ((_code(kind), re.sub(r"\{(\w+)[^}]*\}", r"{\1}", text))
                                    for kind, text in _SENTENCES.items()))  # fmt: skip


def _commands() -> Iterator[str]:
    yield from _page("Commands and their options", "Examples and answers: [the command](../commands.md).")
    yield from _table("exit code|meaning", ((str(code), meaning) for code, meaning in EXIT_CODES.items()))
    program = _parser()
    of_all = {one.dest for one in program._actions}  # such as --help
    for command in all_commands(program):
        yield from ("", f"## {command.prog}", "", command.description or "")
        yield from ("", command.epilog.replace("%%", "%")) if command.epilog and command is not program else ()
        left_out = {"help", SUPPRESS} if command is program else of_all
        if actions := [one for one in command._actions if one.dest not in left_out]:
            yield from _table("argument|default|", map(_argument, actions))


def all_commands(parser: CommandParser) -> Iterator[CommandParser]:
    yield parser
    for command in parser.commands.values():
        yield from all_commands(command)


def _argument(action: Action) -> tuple[str, ...]:
    """Return the row of an argument of a command."""
    text, _, default = (action.help or "").replace("%%", "%").partition("default: ")
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    name = action.option_strings[-1] if action.option_strings else str(value)
    valued = f"{name}={value}" if action.option_strings and action.nargs != 0 else name
    default = "required" if action.option_strings and action.required else "off" if action.default is False else default
    return _code(valued), default if " " in default else _code(default), text.rstrip("; ")


def _api() -> Iterator[str]:
    yield from _page("Public API", "Everything that `from pytest_hwperf import …` gives.")
    for name in sorted(pytest_hwperf.__all__, key=str.lower):
        is_loaded_late = name in pytest_hwperf._HOMES  # a folder may have the name too
        thing = pytest_hwperf.__getattr__(name) if is_loaded_late else getattr(pytest_hwperf, name)
        if not name.startswith("__"):
            yield from ("", f"## {name}", "", _sentence(inspect.getdoc(thing)))
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield from ("", "```text", *_signature(thing), "```")
    found = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"].items()
    yield from ("", "## Entry points", *_table("group|names", ((_code(a), ", ".join(map(_code, b))) for a, b in found)))


def _sentence(text: str | None) -> str:
    return re.split(r"(?<=\.)(?<!e\.g\.)\s", " ".join((text or "").partition("\n\n")[0].split()))[0]


def _signature(thing: Any) -> Iterator[str]:
    """Yield the declaration of a function, or of a class with its public fields, their comments and methods."""
    node = _parsed(thing)[0]
    if not isinstance(node, ast.ClassDef):
        yield from _heading(node)
        return
    yield f"class {node.name}({', '.join(map(ast.unparse, node.bases))}):".replace("()", "")
    own = [one for one in reversed(thing.__mro__) if one.__module__.startswith("pytest_hwperf") and one is not Record]
    shown = [line for owner in own for line in _members(thing, owner)]
    yield from (f"    {line}" for line in shown or ["..."])


def _parsed(thing: Any) -> tuple[Any, list[str]]:
    source = dedent(inspect.getsource(thing))
    return ast.parse(source).body[0], source.splitlines()


def _members(thing: Any, owner: type) -> Iterator[str]:
    """Yield the public declarations that a class has from one of its bases, or from itself."""
    node, lines = _parsed(owner)
    for part in node.body:
        name = getattr(part, "name", "_")
        if isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_"):
            yield from (line.strip() for line in lines[part.lineno - 1 : part.end_lineno])
        elif (name[0] != "_" or name in ("__init__", "__call__")) and vars(owner)[name] is getattr_static(thing, name):
            said = ast.get_docstring(part)
            yield from (*_heading(part), *([f"    # {_sentence(said)}"] if said else []))


def _heading(node: Any) -> list[str]:
    """Return the decorators and the first line of a function."""
    node.body = [ast.Expr(ast.Constant(...))]
    return ast.unparse(node).replace(":\n    ...", ": ...").splitlines()
