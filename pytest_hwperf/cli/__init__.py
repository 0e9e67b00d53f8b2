"""The command `hwperf`, for what is done outside a pytest run."""

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from pytest_hwperf import __version__
from pytest_hwperf.cli import history
from pytest_hwperf.cli.arguments import CommandParser, PrintCompletion, check_files, show_help_alone
from pytest_hwperf.cli.output import COLOR, OutputClosed, asked_colour, clear_progress, complain, tolerate_any_encoding
from pytest_hwperf.cli.output import INTERRUPTED as INTERRUPTED
from pytest_hwperf.cli.output import USAGE as USAGE
from pytest_hwperf.host.files import neighbours
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.markers import nearest, nearest_or_all

INTERNAL = 70  # an error that nobody foresaw, as in sysexits.h: never one of those that are an answer
_COMMANDS = (  # modules, in the order of the help: daily ones first
    "compare",
    "doctor",
    "selfcheck",
    "report",
    "history",
    "baseline",
    "bisect",
    "load",
    "sweep",
    "tradeoffs",
    "capacity",
    "fleet",
)
_REPLACED = {  # names that people try → what to type
    "annotate": "hwperf history note",
    "calibrate": "the ini key hwperf_watts",
    "export": "hwperf report --as, or hwperf history --as",
    "merge": "hwperf report FILE FILE",
    "recompute": "hwperf report --verify",
}
_HANDING_ON = ("bisect", "fleet", "tradeoffs")  # commands that give pytest what follows `--`
UNREAD = 141  # nobody reads the output any more, as in shells
EXIT_CODES = {  # of all commands
    0: "success",
    1: "a negative answer, see each command",
    3: "undecided, or a part of the build is missing",
    USAGE: "usage error, or an unusable input",
    INTERNAL: "internal error: no answer, please report it",
    INTERRUPTED: "interrupted by Ctrl-C",
    UNREAD: "output closed early, e.g. by head: no answer",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: an answer's (0, 1 or 3), or one that is never an answer."""
    tolerate_any_encoding()
    try:
        given = sys.argv[1:] if arguments is None else [*arguments]
        COLOR.set(asked_colour(given))  # an error of what is read next obeys it
        options = parse(given)
        COLOR.set(vars(options).pop("color"))
        check_files(options)
        return int(options.run(options))
    except OutputClosed:
        return UNREAD
    except HwperfError as error:
        clear_progress()
        complain(f"{error}{_similar(error.__cause__)}")
        return USAGE
    except KeyboardInterrupt:
        clear_progress()
        complain("interrupted")
        return INTERRUPTED
    except Exception:  # noqa: BLE001 - Python would end with 1, which is an answer
        clear_progress()
        complain(f"{traceback.format_exc()}this is a mistake of pytest-hwperf and no answer: please report these lines")
        return INTERNAL


def _similar(cause: BaseException | None) -> str:
    """Name the file that may have been meant, where one is missing."""
    if not isinstance(cause, FileNotFoundError) or not isinstance(cause.filename, str):
        return ""
    hint = nearest(Path(cause.filename).name, neighbours(cause.filename))
    return hint and f".{hint}"


def parse(given: list[str]) -> argparse.Namespace:
    """Read a command line; one that is no command ends the program."""
    end = given.index("--") if "--" in given else len(given)
    own = sorted(given[:end], key=lambda word: word.startswith("--color="))  # also in front of the command
    handed_on = given[end + 1 :]
    if own[:1] not in ([one] for one in _HANDING_ON):  # of these, argparse would take some of it for the command's own
        own, handed_on = [*own, *given[end:]], []
    if own[:2] == ["history", "note"]:
        own = ["history note", *own[2:]]
    parser = _parser(*own[:1])
    command = _command(parser, own)
    found, unknown = parser.parse_known_args(own, argparse.Namespace(given=given, handed_on=handed_on, color="auto"))
    if unknown:
        hint = nearest(unknown[0].partition("=")[0], command.options)
        command.error(f"unrecognized arguments: {' '.join(unknown)}{hint and f'.{hint}'}")
    return found


def _command(parser: CommandParser, words: Sequence[str]) -> CommandParser:
    """Return the parser of a command; refuse one that there is not, and name the nearest: argparse lists them all."""
    names = parser.commands
    if not names or not words or words[0].startswith("-"):
        return parser
    if words[0] not in names:
        instead = _REPLACED.get(words[0])
        hint = f" Use {instead}" if instead else nearest_or_all(words[0], names)
        parser.error(f"unknown command {words[0]!r}.{hint}")
    return _command(names[words[0]], words[1:])


def _parser(word: str = "") -> CommandParser:
    """Return the parser; where `word` is a command, it knows this one alone: the modules of all take long to import."""
    codes = "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    parser = CommandParser(prog="hwperf", description="Work outside a pytest run.", epilog=f"Exit codes: {codes}.")
    parser.add_argument("--version", action="version", version=f"pytest-hwperf {__version__}")
    shells = ("bash", "zsh", "fish")
    text = 'print completion for this shell (extra completion), e.g. eval "$(hwperf --completion=bash)" in ~/.bashrc'
    parser.add_argument("--completion", choices=shells, action=PrintCompletion, help=text)
    show_help_alone(parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    for module in (word,) if word in _COMMANDS else _COMMANDS:
        import_module(f"pytest_hwperf.cli.{module}").COMMAND.add_to(commands)
    history.NOTE.add_to(commands)
    return parser
