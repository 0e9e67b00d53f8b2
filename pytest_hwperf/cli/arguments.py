"""What a command is, the arguments that several commands take, and what is checked of them before measuring."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pytest_hwperf import registry
from pytest_hwperf.cli.output import COLORS, USAGE, complain, explained_if_unwritable, say_lines
from pytest_hwperf.host.extras import require
from pytest_hwperf.host.files import check_writable, is_file, same_place
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.stores.location import locate
from pytest_hwperf.stores.store import Store

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

A_DAY_S = 86_400
_WRITTEN = ("record", "markdown", "json", "output", "plot")  # options whose file is replaced
_NOT_READ = (*_WRITTEN, "given")
_SCHEME = re.compile(r"sql:sqlite:///|@|[a-z-]+:")  # in front of a file: a store, a body, a format

Argument = Callable[[Any], object]  # adds itself to a parser or to a group of one


class CommandParser(argparse.ArgumentParser):
    """A parser, and those of its commands, whose output and errors are those of the others."""

    commands: Mapping[str, "CommandParser"] = MappingProxyType({})  # by name

    def __init__(self, **given: Any) -> None:
        """Add what all of them have."""
        super().__init__(**given)
        self.color = False  # Python 3.14 would colour the help, and what a terminal obeys is made visible here
        text = "colour the output; default: where the terminal shows it"
        self.add_argument("--color", choices=COLORS, default=argparse.SUPPRESS, help=text)

    def add_subparsers(self, **given: Any) -> Any:
        """Add commands, and remember them."""
        found = super().add_subparsers(**given)
        self.commands = found.choices
        return found

    @property
    def options(self) -> list[str]:
        """Return the names of its options."""
        return [*self._option_string_actions]

    def print_help(self, file: "SupportsWrite[str] | None" = None) -> None:
        """Write the help as an answer."""
        if file is None:
            say_lines(self.format_help().rstrip())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong below the usage, and exit."""
        self.print_usage(sys.stderr)
        complain(f"{message}; see {self.prog} --help")
        self.exit(USAGE)


class Subcommand(NamedTuple):
    """A command: what its help says, its arguments, and what runs it."""

    name: str
    run: Callable[[argparse.Namespace], int] | None  # None: it has actions, and alone shows its help
    help: str  # "": listed nowhere
    arguments: Sequence[Argument | Sequence[Argument]] = ()  # those of an inner list exclude each other
    description: str = ""  # where it says more than `help`
    usage: str | None = None
    actions: Sequence["Subcommand"] = ()
    answers: Mapping[int, str] = MappingProxyType({})  # exit code → meaning, where it is more than success

    def add_to(self, commands: "argparse._SubParsersAction[Any]") -> None:
        """Make the parser of this command."""
        description = self.description or f"{self.help[0].upper()}{self.help[1:]}."
        listed: dict[str, Any] = {"help": self.help} if self.help else {}
        codes = "; ".join(f"{code} {meaning}" for code, meaning in self.answers.items())
        epilog = codes and f"Exit codes: {codes.replace('%', '%%')}."
        parser = commands.add_parser(self.name, description=description, usage=self.usage, epilog=epilog, **listed)
        for one in self.arguments:
            if callable(one):
                one(parser)
            else:
                group = parser.add_mutually_exclusive_group()
                for of_group in one:
                    of_group(group)
        if self.run:
            parser.set_defaults(run=self.run)
            return
        show_help_alone(parser)
        below = parser.add_subparsers(metavar="ACTION")
        for action in self.actions:
            action.add_to(below)


def option(name: str, metavar: str | None, text: str, **others: Any) -> Argument:
    """Return an argument that takes a value; its help ends with the default."""
    default = others.get("default")
    shown = f"{default:g}" if isinstance(default, float) else str(default or "").replace("%", "%%")
    text = f"{text}; default: {shown}" if shown and not isinstance(default, list) else text
    return lambda parser: parser.add_argument(name, metavar=metavar, help=text, **others)


def several(name: str, metavar: str, text: str, **others: Any) -> Argument:
    """Return an option that may be given several times."""
    return option(name, metavar, f"{text}; repeatable", action="append", default=[], **others)


def flag(name: str, text: str) -> Argument:
    """Return an option without a value."""
    return lambda parser: parser.add_argument(name, action="store_true", help=text)


def seconds(name: str, default: float, text: str) -> Argument:
    """Return an option that takes a time."""
    return option(name, "SECONDS", text, type=float, default=default)


def written_json(what: str) -> Argument:
    """Return the option that names the file of a record."""
    return option("--json", "FILE", f"write {what} as JSON")


DATA = "read rows from .npz (X, y), .npy or .csv"
TARGET = option("--target", "COLUMN", "take this column of a .csv as labels")
BATCH_SIZE = option("--batch-size", "ROWS", "predict this many rows per call", type=int, default=1)
THREADS = option("--threads", "N", "give the runtime this many threads", type=int, default=1)
REQUIREMENTS = option("--requirements", "FILE.yaml", "require these limits, named as in hwbudget")
HEADER = several("--header", "NAME: VALUE", "send this header with each request")
TIMEOUT = seconds("--timeout", 10.0, "fail requests after this time")


class PrintCompletion(argparse.Action):
    """Prints the script of a shell and exits; the script offers files where any value may stand."""

    def __call__(self, parser: argparse.ArgumentParser, _given: object, shell: Any, option: str | None = None) -> None:
        """Write it as it is: all of it is this package's own."""
        require("completion", f"{option} needs {{}}", "shtab")
        import shtab

        _offer_files(parser, shtab.FILE)
        say_lines(shtab.complete(parser, shell))
        parser.exit()


def _offer_files(parser: argparse.ArgumentParser, files: object) -> None:
    for action in parser._actions:  # noqa: SLF001 - of a class that this one extends; argparse lists them nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            for command in action.choices.values():
                _offer_files(command, files)
        elif action.nargs != 0 and action.choices is None:
            vars(action)["complete"] = files  # where shtab looks


def show_help_alone(parser: argparse.ArgumentParser) -> None:
    """Let a parser show its help where no command follows; that is no answer, so that the exit code says so."""

    def run(_: argparse.Namespace) -> int:
        parser.print_help()
        return USAGE

    parser.set_defaults(run=run)


def check_seconds(most: float, usual: str, **given: float) -> None:
    """Refuse a time in which nothing can be measured, and one without end; `given` by the name of the option."""
    for name, seconds in given.items():
        if not 0 < seconds <= most:
            raise UsageProblem(f"--{name}={seconds:g}: a number of seconds above 0 up to {most:g}, such as {usual}")


def check_files(options: argparse.Namespace) -> None:
    """Check that files can be written, each its own, before the time is spent, and that none is read as well.

    The folder of a record is made: it is kept with others of its kind.
    """
    given = vars(options)
    written = {f"--{name}={file}": Path(file) for name in _WRITTEN for file in _texts_in(given.get(name))}
    if twice := same_place(written):
        raise UsageProblem(f"{twice[0]} and {twice[1]} name one file: give each its own")
    texts = [text for name, value in given.items() if name not in _NOT_READ for text in _texts_in(value)]
    read = {Path(form) for text in texts for form in (text, text.partition("::")[0], _SCHEME.sub("", text))}
    for (name, file), other in product(written.items(), read):
        if is_file(file) and is_file(other) and same_place({name: file, "": other}):
            raise UsageProblem(f"{name} is a file that this command reads: give another place")
    for name, file in written.items():
        with explained_if_unwritable(name):
            if name.startswith("--record="):
                file.parent.mkdir(parents=True, exist_ok=True)
            check_writable(file)


def _texts_in(value: object) -> list[str]:
    """Return the texts that an option was given: none, one or several."""
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str) and text]


STORE = option("--store", "URL", "open this store, e.g. sql:sqlite:///team.db", default="json:.hwperf")
BASELINE = option("--baseline", "NAME", "use the baseline of this name", default="main")


def open_store(url: str, given: str = "--store") -> tuple[Store, str]:
    """Open a store; return also where it is."""
    try:
        scheme, location = locate(url, Path.cwd())
    except ValueError as problem:
        raise UsageProblem(f"{given}={problem}") from problem
    store: Store = registry.find("stores", scheme)(location)
    return store, str(location)
