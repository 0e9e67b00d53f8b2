"""An option with its ini twin, its registration, and the parsers of values: a bad one says what is allowed."""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pytest

DEFAULT_ALPHA = "1%"
DEFAULT_BASELINE = "main"
REPORTS = (".html", ".json", ".md")  # suffixes of reports in one file; any other path is a folder
_GONE = {
    "--hwperf-html": "--hwperf-report=FILE.html",
    "--hwperf-json": "--hwperf-report=FILE.json",
    "--hwperf-markdown": "--hwperf-report=FILE.md",
    "--hwperf-artifacts": "--hwperf-report=DIR",
    "--hwperf-gate-time": "--hwperf-time-limit",
    "--hwperf-max-time": "--hwperf-sample-time",
    "--hwperf-benchmark-fixture": "--hwperf-benchmark",
    "--hwperf-no-cache": "-o hwperf_cache=false",
}


class Option:
    """One option and its ini twin, or an ini key alone; as cheap to make as `Settings`, of whose table it is a row."""

    field = ""  # of `Settings`
    name = ""  # where the field is not called like the option: "sample-time" of --hwperf-sample-time
    default: Any = ""  # of text and of flags of the ini file; a flag of the command line is off and a list empty
    kind = ""  # "bool", "string", or "linelist": repeatable on the command line

    def __init__(
        self, group: str, text: str, metavar: str = "", parse: Callable[[str, Any], Any] | None = None, **others: Any
    ) -> None:
        """Make a row of `group` in the help, "" of an ini key alone; `parse` takes how it is called and its value."""
        self.group, self.help, self.metavar, self.parse = group, text, metavar, parse
        self.kind = "string" if metavar or not group else "bool"
        vars(self).update(others)

    def __set_name__(self, _owner: object, field: str) -> None:
        self.field, self.name = field, self.name or field.replace("_", "-")

    @property
    def flag(self) -> str:
        """Name on the command line, or that of the ini key where there is no other."""
        return f"--hwperf-{self.name}" if self.group else self.ini

    @property
    def ini(self) -> str:
        """Name of the ini key, and of the value that pytest keeps of the command line."""
        return f"hwperf_{self.name.replace('-', '_')}"

    @property
    def shown(self) -> str:
        """Its text in the help."""
        default = str(self.default).replace("%", "%%") if self.default and self.kind == "string" else ""
        return (f"{self.help} Default: {default}." if default else self.help) or argparse.SUPPRESS


class _Gone(argparse.Action):
    """Refuses what is no option, and names what took its place: `const` has it of each."""

    def __call__(self, _parser: object, _namespace: object, _values: object, option_string: str | None = None) -> None:
        raise pytest.UsageError(f"{option_string} is no option: give {self.const[option_string]}")


def register(parser: pytest.Parser, options: Sequence[Option]) -> None:
    """Register options and their ini twins; an option has no default, so that the ini counts without it."""
    groups = {"hwperf": parser.getgroup("hwperf", "hwperf"), "more": parser.getgroup("hwperf-more", "hwperf, more")}
    actions = {"bool": {"action": "store_true"}, "linelist": {"action": "append"}, "string": {"action": "store"}}
    gone = _GONE | {f"--hwperf-{one.name}": f"-o {one.ini}=VALUE" for one in options if not one.group}
    groups["more"].addoption(*gone, dest="hwperf_gone", action=_Gone, nargs="?", const=gone, help=argparse.SUPPRESS)
    for option in options:
        if option.group:
            metavar = {"metavar": option.metavar} if option.metavar else {}
            # A `dest` that is given is not looked for among those of all other options.
            add = partial(groups[option.group].addoption, option.flag, dest=option.ini, default=None)
            add(help=option.shown, **actions[option.kind], **metavar)
        default: Any = [] if option.kind == "linelist" else option.default or (False if option.kind == "bool" else "")
        text = f"As {option.flag}." if option.group else option.shown
        parser.addini(option.ini, text, type=option.kind, default=default)  # type: ignore[arg-type]


def choice(*allowed: str) -> "Callable[[str, str], str]":
    def parse(flag: str, value: str) -> str:
        if value not in allowed:
            from pytest_hwperf.records.markers import nearest

            hint = nearest(value, allowed)
            raise pytest.UsageError(f"{flag}={value!r}: unknown value.{hint} Allowed: {', '.join(allowed)}")
        return value

    return parse


def seconds(most: int) -> "Callable[[str, str], float]":
    """Return a parser of seconds above 0 up to `most`."""

    def parse(flag: str, text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= most:  # NaN and infinity fail too
            raise pytest.UsageError(f"{flag}={text!r}: a number of seconds above 0 up to {most}, such as 2")
        return seconds

    return parse


def rows(flag: str, text: str) -> int:
    if not text.isdecimal():
        raise pytest.UsageError(f"{flag}={text!r}: a whole number of rows, such as 32; 0 declares none")
    return int(text)


def builds(flag: str, text: str) -> int:
    if re.fullmatch(r"[1-9]\d{0,3}", text, re.ASCII):
        return int(text)
    raise pytest.UsageError(f"{flag}={text}: a number of builds from 1 to 9999, such as 365 for a year of nightly ones")


def reports(flag: str, given: Sequence[str]) -> tuple[str, ...]:
    """Refuse what was meant as a test, which `--hwperf-report tests/` would swallow, and files of other formats."""
    for path in given:
        if "::" in path or path.endswith(".py"):
            raise pytest.UsageError(f"{flag}={path!r} looks like a test; write {flag}=PATH")
        name = path.rpartition("/")[2]
        if "." in name.lstrip(".") and not name.endswith(REPORTS) and not os.path.isdir(path):  # noqa: PTH112 - in time
            raise pytest.UsageError(
                f"{flag}={path!r}: no format of this name; end it in {', '.join(REPORTS)}, or give a folder, as {path}/"
            )
    return tuple(given)


def baseline(flag: str, name: str) -> str:
    """Check a name; the rules are loaded only for another than the default."""
    if name == DEFAULT_BASELINE:
        return name
    from pytest_hwperf.stores.location import why_no_name

    if why := why_no_name(name):
        raise pytest.UsageError(f"{flag}={why}")
    return name


def alpha(flag: str, text: str) -> float:
    """Parse the rate; the parser is loaded only for another than the default."""
    return 0.01 if text == DEFAULT_ALPHA else by_function("records.false_alarms", "parse_rate", flag, text)


def requirements(flag: str, given: Sequence[str]) -> tuple[str, ...]:
    """Refuse what is no requirement of a package, such as an option of pip."""
    if not given:
        return ()
    from packaging.requirements import InvalidRequirement, Requirement

    for text in given:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            reason = str(error).splitlines()[0]
            raise pytest.UsageError(
                f"{flag}={text!r} is no requirement ({reason}): give a package with a version, such as "
                f"{flag}=onnxruntime==1.22.0"
            ) from error
    return tuple(text.strip() for text in given)


def shared(flag: str, given: Sequence[str]) -> tuple[str, ...]:
    """Refuse words that exclude each other."""
    if {"auto", "none"} <= {*given}:
        raise pytest.UsageError(f"{flag}=auto and {flag}=none exclude each other: give one of them")
    return tuple(given)


def commands(flag: str, given: Sequence[str]) -> tuple[str, ...]:
    """Refuse what needs a shell: its words would be arguments of the program before them."""
    import shlex

    for text in given:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise pytest.UsageError(
                f"{flag}={text!r} cannot be split into words ({error}): close its quotes"
            ) from error
        if operators := {"&&", "||", ";", "|", "&", ">", ">>", "<"}.intersection(words):
            raise pytest.UsageError(
                f"{flag}={text!r}: it runs without a shell, which {min(operators)} needs: give {flag} once for each "
                "command, or name a script"
            )
    return tuple(given)


def side_by_side(flag: str, text: str) -> int:
    """Parse a number of pairs; each needs a processor of its own."""
    if text == "1":
        return 1
    from pytest_hwperf.host.machine import count_usable_cores

    most = count_usable_cores()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise pytest.UsageError(
            f"{flag}={text!r}: give a number of pairs from 1 to {most}, the processors that pytest may use here"
        )
    return int(text)


def planted(flag: str, text: str) -> float:
    """Parse a share of work; "" is 0."""
    return by_function("records.markers", "parse_size", text, "relative", flag=flag) if text else 0.0


def parsed_by(module: str, function: str, empty: Any = ()) -> Callable[[str, Any], Any]:
    """Return a parser by a function of `module`, which is loaded only where there is something to parse."""
    return lambda flag, given: by_function(module, function, given, flag=flag) if given else empty


def by_function(module: str, function: str, *arguments: Any, flag: str = "") -> Any:
    """Parse by a function of the package's own, whose errors become usage errors."""
    from pytest_hwperf.records.errors import UsageProblem

    try:
        return getattr(import_module(f"pytest_hwperf.{module}"), function)(*arguments)
    except UsageProblem as problem:
        raise pytest.UsageError(f"{flag}: {problem}" if flag else str(problem)) from problem
