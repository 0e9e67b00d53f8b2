"""Command-line options with their ini twins, read once into one frozen record."""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pytest

_ANCHOR = "anchor"  # as --hwperf-against names it
_DEFAULT_ALPHA = "1%"
_DEFAULT_BASELINE = "main"
_DEFAULT_STORE = "json:.hwperf"
REPORTS = (".html", ".json", ".md")  # suffixes of reports in one file; any other path is a folder


def _choice(*allowed: str) -> "Callable[[str, str], str]":
    """Return a parser that takes one of `allowed`."""

    def parse(flag: str, value: str) -> str:
        if value not in allowed:
            from pytest_hwperf.core.budgets import nearest

            hint = nearest(value, allowed)
            raise pytest.UsageError(f"{flag}={value!r}: unknown value.{hint} Allowed: {', '.join(allowed)}")
        return value

    return parse


def _seconds(most: int) -> "Callable[[str, str], float]":
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


def _rows(flag: str, text: str) -> int:
    if not text.isdecimal():
        raise pytest.UsageError(f"{flag}={text!r}: a whole number of rows, such as 32; 0 declares none")
    return int(text)


def _builds(flag: str, text: str) -> int:
    if re.fullmatch(r"[1-9]\d{0,3}", text, re.ASCII):
        return int(text)
    raise pytest.UsageError(f"{flag}={text}: a number of builds from 1 to 9999, such as 365 for a year of nightly ones")


def _reports(flag: str, given: Sequence[str]) -> tuple[str, ...]:
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


def _baseline(flag: str, name: str) -> str:
    """Check a name; the rules are loaded only for another than the default."""
    if name == _DEFAULT_BASELINE:
        return name
    from pytest_hwperf.stores.location import check_name

    try:
        check_name(name)
    except ValueError as problem:
        raise pytest.UsageError(f"{flag}={problem}") from problem
    return name


def _alpha(flag: str, text: str) -> float:
    """Parse the rate; the parser is loaded only for another than the default."""
    return 0.01 if text == _DEFAULT_ALPHA else _by_core("units", "parse_rate", flag, text)


def _requirements(flag: str, given: Sequence[str]) -> tuple[str, ...]:
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


def _shared(flag: str, given: Sequence[str]) -> tuple[str, ...]:
    if {"auto", "none"} <= {*given}:
        raise pytest.UsageError(f"{flag}=auto and {flag}=none exclude each other: give one of them")
    return tuple(given)


def _commands(flag: str, given: Sequence[str]) -> tuple[str, ...]:
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


def _side_by_side(flag: str, text: str) -> int:
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


def _planted(flag: str, text: str) -> float:
    return _by_core("budgets", "parse_size", text, "relative", flag=flag) if text else 0.0


def _lines(module: str, function: str, empty: Any = ()) -> Callable[[str, list[str]], Any]:
    """Return a parser of lines by the core, which is loaded only where there is something to parse."""
    return lambda flag, lines: _by_core(module, function, lines, flag=flag) if lines else empty


def _by_core(module: str, function: str, *arguments: Any, flag: str = "") -> Any:
    from pytest_hwperf.core.errors import UsageProblem

    try:
        return getattr(import_module(f"pytest_hwperf.core.{module}"), function)(*arguments)
    except UsageProblem as problem:
        raise pytest.UsageError(f"{flag}: {problem}" if flag else str(problem)) from problem


class _Option:
    """One option and its ini twin; as cheap to make as `Settings`."""

    name: str  # without the prefix; "sample-time" gives --hwperf-sample-time and hwperf_sample_time
    help: str
    kind = "string"  # "bool", "string", "args" (repeatable) or "lines" (of the ini file)
    metavar = ""
    default: Any = ""  # of text and of flags of the ini file; a flag of the command line is off and a list empty
    parse: Callable[[str, Any], Any] | None = None  # how it is called, given value → that of `Settings`
    field = ""  # of `Settings`, where it is not called like the option
    is_ini = False  # whether it is an ini key alone

    def __init__(self, name: str, text: str, **others: Any) -> None:
        """Keep each value under its name."""
        vars(self).update(others, name=name, help=text)

    @property
    def flag(self) -> str:
        """Name on the command line, or that of the ini key where there is no other."""
        return self.ini if self.is_ini else f"--hwperf-{self.name}"

    @property
    def ini(self) -> str:
        """Name of the ini key, and of the value that pytest keeps of the command line."""
        return f"hwperf_{self.name.replace('-', '_')}"


# In the order of `pytest --help`.
_EVERYDAY = (
    _Option("against", "Compare with this revision or folder in paired runs.", metavar="REF|REF...|DIR|anchor"),
    _Option("all", "Measure every selected test, marked or not.", kind="bool"),
    _Option("benchmark", "Run pytest-benchmark tests with hwperf.", kind="bool"),
    _Option("save", "Save the runs of passed tests to the baseline.", kind="bool"),
    _Option("compare", "Compare with the stored baseline; a regression fails its test.", kind="bool"),
    _Option("only", "Run measured tests only.", kind="bool"),
    _Option("skip", "Skip measured tests.", kind="bool"),
    _Option(
        "margin",
        "Smallest change that matters, e.g. latency_p95=15%%.",
        kind="args",
        metavar="[METRIC=]SIZE",
        parse=_lines("budgets", "parse_margin_lines"),
        field="margins",
    ),
    _Option(
        "alpha",
        "Accepted rate of false alarms.",
        metavar="PERCENT",
        default=_DEFAULT_ALPHA,
        parse=_alpha,
    ),
    _Option("strict", "Fail tests whose comparison is inconclusive.", kind="bool"),
    _Option(
        "time-limit",
        "Longest time of the whole gate.",
        metavar="SECONDS",
        default="600",
        parse=_seconds(24 * 3600),
        field="time_limit_s",
    ),
    _Option(
        "report",
        "Write a report: .html, .json, .md or a folder of CSVs.",
        kind="args",
        metavar="PATH",
        parse=_reports,
        field="reports",
    ),
)
_MORE = (
    _Option(
        "baseline",
        "Name of the baseline to save to and compare with.",
        metavar="NAME",
        default=_DEFAULT_BASELINE,
        parse=_baseline,
    ),
    _Option(
        "store",
        "Folder or database of baselines, e.g. sql:sqlite:///team.db.",
        metavar="URL",
        default=_DEFAULT_STORE,
    ),
    _Option(
        "base-with",
        "Install this package for the baseline only, e.g. onnxruntime==1.22.0; repeatable.",
        kind="args",
        metavar="REQUIREMENT",
        parse=_requirements,
    ),
    _Option("base-python", "Interpreter that runs the baseline.", metavar="PATH"),
    _Option(
        "share",
        "Files outside git that the baseline needs, e.g. models/*.onnx; repeatable. Default: auto, those that the "
        "trial run finds.",
        kind="args",
        metavar="auto|none|GLOB",
        parse=_shared,
    ),
    _Option(
        "build",
        "Build both trees with this command, e.g. 'python setup.py build_ext --inplace'; repeatable.",
        kind="args",
        metavar="COMMAND",
        parse=_commands,
    ),
    _Option("affected", "Skip tests whose code and files did not change; needs Python 3.12.", kind="bool"),
    _Option("prove-equal", "Keep measuring inconclusive tests until decided or out of time.", kind="bool"),
    _Option(
        "undecided",
        "What a budget does whose limit lies inside the interval: judge the point, measure again in up to five fresh "
        "processes, pass or fail.",
        metavar="point|retry|pass|fail",
        default="point",
        parse=_choice("point", "retry", "pass", "fail"),
    ),
    _Option(
        "sample-time",
        "Longest sampling of one measurement.",
        metavar="SECONDS",
        default="2",
        parse=_seconds(3600),
        field="sample_time_s",
    ),
    _Option(
        "explain",
        "Profile both sides of what regressed (auto), of every comparison, or of none.",
        metavar="auto|always|never",
        default="auto",
        parse=_choice("auto", "always", "never"),
    ),
    _Option("operators", "Show the time of each operator within the runtime.", kind="bool"),
    _Option(
        "instructions",
        "Count the instructions of a call by the processor, or by Valgrind; auto counts where a budget or margin names "
        "them.",
        metavar="auto|perf|callgrind|off",
        default="auto",
        parse=_choice("auto", "perf", "callgrind", "off"),
    ),
    _Option(
        "energy",
        "Energy source: rapl, perf, nvml, psys or estimate; auto takes the best one here.",
        metavar="auto|off|SOURCE",
        default="auto",
    ),
    _Option(
        "shard",
        "Run part K of N; hwperf report merges the parts.",
        metavar="K/N",
        parse=lambda flag, text: _by_core("shards", "parse_shard", text, flag=flag) if text else None,
    ),
    _Option(
        "machine-kind",
        "Name of this kind of machine, of N; hwperf report shows all kinds side by side.",
        metavar="NAME[/N]",
        parse=lambda flag, text: _by_core("shards", "parse_kind", text, flag=flag) if text else None,
    ),
    _Option(
        "parallel",
        "Run this many pairs side by side, each on its own processors.",
        metavar="N",
        default="1",
        parse=_side_by_side,
    ),
    _Option("disable", "Run measured tests once, without measuring or judging.", kind="bool"),
)
# For `hwperf selfcheck`: work that is added to each call of the candidate, to see it found.
_HIDDEN = (_Option("plant", "", metavar="PERCENT", parse=_planted),)
_INI = (
    _Option(
        "budgets",
        "Budgets of every measured test, one KEYWORD=LIMIT a line; a marker's keyword wins.",
        kind="lines",
        parse=_lines("budgets", "parse_budget_lines"),
    ),
    _Option(
        "carbon",
        "Report the carbon of each call, one KEY=VALUE a line, e.g. intensity_g_per_kwh=400.",
        kind="lines",
        parse=_lines("carbon", "parse_carbon_lines", empty=None),
    ),
    _Option(
        "rerun",
        "auto: --hwperf-compare reruns the stored revision; never: it uses the stored timings.",
        default="auto",
        parse=_choice("auto", "never"),
    ),
    _Option(
        "base-env",
        "Environment of the baseline: shared (this one), build (one of its own), or auto.",
        default="auto",
        parse=_choice("auto", "shared", "build"),
    ),
    _Option("anchor", "Release that --hwperf-against=anchor reruns, e.g. v1.4."),
    _Option(
        "anchor-builds",
        "Builds against the anchor that share the rate of false alarms.",
        default="365",
        parse=_builds,
    ),
    _Option(
        "worker-time",
        "Seconds without output before a fresh process is ended.",
        default="300",
        parse=_seconds(24 * 3600),
        field="worker_time_s",
    ),
    _Option(
        "silence",
        "Seconds without output before a test is tried alone.",
        default="60",
        parse=_seconds(24 * 3600),
        field="silence_s",
    ),
    _Option(
        "shortest",
        "Shortest call that --hwperf-all measures, in seconds.",
        default="0.0001",
        parse=_seconds(3600),
        field="shortest_s",
    ),
    _Option(
        "gc",
        "Garbage collector during timed calls: on (as the program sets it) or off.",
        default="on",
        parse=_choice("on", "off"),
    ),
    _Option("watts", "Idle and busy watts of one vCPU for the energy estimate, e.g. 0.5..2.1."),
    _Option("serving-batch", "Production batch size; tests of another one warn.", default="0", parse=_rows),
    _Option("cache", "Keep converted models for later runs.", kind="bool", default=True),
)
for _option in _INI:
    _option.is_ini = True
_OPTIONS = (*_EVERYDAY, *_MORE, *_HIDDEN, *_INI)
VALUED = frozenset(option.flag for option in _OPTIONS if option.metavar)  # options that take a value
_GONE = {
    "--hwperf-html": "--hwperf-report=FILE.html",
    "--hwperf-json": "--hwperf-report=FILE.json",
    "--hwperf-markdown": "--hwperf-report=FILE.md",
    "--hwperf-artifacts": "--hwperf-report=DIR",
    "--hwperf-gate-time": "--hwperf-time-limit",
    "--hwperf-max-time": "--hwperf-sample-time",
    "--hwperf-benchmark-fixture": "--hwperf-benchmark",
    "--hwperf-no-cache": "-o hwperf_cache=false",
    "--hwperf-loads": "none: hwperf makes the calls itself",
    **{f"--hwperf-{option.name}": f"-o {option.ini}=VALUE" for option in _INI},
}


class _Gone(argparse.Action):
    """Refuses an option that is gone, and names the one that took its place."""

    def __call__(self, _parser: object, _namespace: object, _values: object, option_string: str | None = None) -> None:
        raise pytest.UsageError(f"{option_string} is no option: give {_GONE[str(option_string)]}")


class Settings:
    """The values of all options and ini keys, checked.

    Neither a `NamedTuple` nor a dataclass: to generate one takes up to half a millisecond in every run of pytest.
    """

    def __init__(self, **values: Any) -> None:
        """Keep each value under its name."""
        vars(self).update(values)

    against: str  # git revision or folder, "" for none
    all: bool
    benchmark: bool
    save: bool
    compare: bool
    only: bool
    skip: bool
    margins: tuple[Any, ...]  # core.records.Margin
    alpha: float  # 0.01 = 1 %
    strict: bool
    time_limit_s: float  # of the gate
    reports: tuple[str, ...]  # paths of files and folders
    baseline: str
    store: str  # scheme of the store
    location: str  # where it lies
    base_with: tuple[str, ...]  # requirements
    base_python: str  # path of an interpreter, "" for this one
    share: tuple[str, ...]  # globs, "auto" or "none"
    build: tuple[str, ...]  # commands
    affected: bool
    prove_equal: bool
    undecided: Any  # "point", "retry", "pass" or "fail"
    sample_time_s: float
    explain: Any  # "auto", "always" or "never"
    operators: bool
    instructions: Any  # "auto", "perf", "callgrind" or "off"
    energy: str
    shard: tuple[int, int] | None  # number from 1, and of how many; 1 of 1 where only the kind of machine is named
    machine_kind: tuple[str, int] | None  # its name, and among how many the false-alarm rate is divided
    parallel: int  # pairs side by side
    disable: bool
    plant: float  # share of work that is added to the candidate's calls, 0.0 for none
    budgets: tuple[Any, ...]  # core.records.Budget
    carbon: Any  # core.carbon.CarbonInputs, None without hwperf_carbon
    rerun: Any  # "auto" or "never"
    base_env: Any  # "auto", "shared" or "build"
    anchor: str  # git revision, "" for none
    anchor_builds: int  # that share the false-alarm rate
    is_anchored: bool  # whether the anchor is what is rerun
    worker_time_s: float
    silence_s: float
    shortest_s: float  # of a call, where every test is measured
    gc: Any  # "on" or "off"
    watts: str  # "0.5..2.1", "" for the table
    serving_batch: int  # rows, 0 where none is declared
    cache: bool  # whether converted models are kept

    @property
    def shards(self) -> int:
        """How many shards the build is divided into; 1 if it is not."""
        return self.shard[1] if self.shard else 1

    @property
    def parts(self) -> int:
        """How many parts the false-alarm rate is divided into, one of which is this session's."""
        return self.shards * (self.machine_kind[1] if self.machine_kind else 1)

    @property
    def own_alpha(self) -> float:
        """The part of the build's false-alarm rate that this session may spend."""
        return self.alpha / self.parts / (self.anchor_builds if self.is_anchored else 1)

    @property
    def reruns(self) -> bool:
        """Whether a baseline is named that is rerun: another code, or the present one with other packages."""
        return bool(self.against or self.base_with)

    @property
    def change_the_session(self) -> bool:
        """Whether they matter to a session in which nothing turns out to be measured."""
        return self.needs_preflight or self.only or self.skip or self.disable or bool(self.shard) or self.all

    @property
    def writes_folder(self) -> bool:
        """Whether a report is a folder, with a CSV file for each table."""
        return not all(path.endswith(REPORTS) for path in self.reports)

    @property
    def needs_preflight(self) -> bool:
        """Whether it names something outside that may be missing or unusable."""
        named = (
            self.save,
            self.compare,
            self.reruns,
            self.reports,
            self.energy not in ("auto", "off"),
            self.watts,
            self.store != "json",
        )
        return any(named)


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini twin; an option has no default, so that the ini counts without it."""
    everyday = parser.getgroup("hwperf", "hwperf")
    more = parser.getgroup("hwperf-more", "hwperf, more")
    for group, options in ((everyday, _EVERYDAY), (more, _MORE), (more, _HIDDEN)):
        for option in options:
            # A `dest` that is given is not looked for among those of all other options.
            add = partial(group.addoption, option.flag, dest=option.ini, default=None, help=_shown(option))
            if option.kind == "bool":
                add(action="store_true")
            else:
                add(action="append" if option.kind == "args" else "store", metavar=option.metavar)
    more.addoption(*_GONE, dest="hwperf_gone", action=_Gone, nargs="?", help=argparse.SUPPRESS)
    for option in _OPTIONS:
        kind: Any = {"args": "linelist", "lines": "linelist"}.get(option.kind, option.kind)
        default = {"bool": bool(option.default), "linelist": []}.get(kind, option.default)
        parser.addini(option.ini, _shown(option) if option.is_ini else f"As {option.flag}.", type=kind, default=default)


def _shown(option: _Option) -> str:
    if not option.help:
        return argparse.SUPPRESS
    default = str(option.default).replace("%", "%%") if option.default and option.kind == "string" else ""
    return f"{option.help} Default: {default}." if default else option.help


def read_flag(config: pytest.Config, name: str) -> bool:
    """Read one flag before the session is configured: the command line first, then the ini file."""
    return bool(config.getoption(name) or config.getini(name))


def read_settings(config: pytest.Config) -> Settings:
    """Read and check everything, so that a bad value ends the session before it begins."""
    values = {option.field or option.name.replace("-", "_"): _value(config, option) for option in _OPTIONS}
    values["store"], values["location"] = _store(config, values["store"])
    values["watts"] = values["watts"] or os.environ.get("HWPERF_WATTS", "")
    if values["machine_kind"] and not values["shard"]:
        values["shard"] = (1, 1)
    values["is_anchored"] = values["against"] == _ANCHOR
    if values["is_anchored"]:
        values["against"] = values["anchor"]
    settings = Settings(**values)
    if settings.is_anchored and not settings.anchor:
        raise pytest.UsageError("--hwperf-against=anchor: which release? Give -o hwperf_anchor=REF too, e.g. v1.4")
    _refuse_contradictions(config, settings)
    return settings


def _refuse_contradictions(config: pytest.Config, settings: Settings) -> None:
    """Refuse options that need others, or exclude each other."""
    if settings.base_python and not settings.against:
        raise pytest.UsageError("--hwperf-base-python is the baseline's interpreter: give --hwperf-against=REF|DIR too")
    if config.getoption("hwperf_build") and not (settings.reruns or settings.compare):
        raise pytest.UsageError("--hwperf-build builds the trees that are compared: give --hwperf-against=REF|DIR too")
    if config.getoption("hwperf_affected") and not (settings.against or settings.compare):
        raise pytest.UsageError("--hwperf-affected leaves tests out of pairs: give --hwperf-against=REF|DIR too")
    if config.getoption("hwperf_prove_equal") and not (settings.against or settings.compare or settings.base_with):
        raise pytest.UsageError("--hwperf-prove-equal asks for further pairs: give --hwperf-against=REF|DIR too")
    if settings.affected and settings.plant:
        raise pytest.UsageError(
            "--hwperf-plant adds work that no file holds, and --hwperf-affected leaves out what no file has changed: "
            "give one of them"
        )
    if settings.base_python and settings.base_with:
        raise pytest.UsageError(
            "--hwperf-base-with makes an environment for the baseline, and --hwperf-base-python names one: give one of "
            "them, and install the packages in the latter yourself"
        )
    if settings.only and settings.skip:
        raise pytest.UsageError("--hwperf-only and --hwperf-skip exclude each other: give one of them")


def _value(config: pytest.Config, option: _Option) -> Any:
    """Take the command line first, then the ini file, then the default, and parse it."""
    given = None if option.is_ini else config.getoption(option.ini)
    if option.metavar and given is not None:
        _check_given(option, [given] if isinstance(given, str) else given)
    value = config.getini(option.ini) if given is None else given
    return value if option.parse is None else option.parse(option.flag, value)


def _check_given(option: _Option, values: Sequence[str]) -> None:
    """Refuse an empty value of the command line: an unset variable of a workflow would switch the option off unseen."""
    if any(not value.strip() for value in values):
        raise pytest.UsageError(
            f"{option.flag}= is empty, as an unset variable leaves it: give {option.flag}={option.metavar}, or leave "
            f"the option out; -o {option.ini}= takes back what the configuration file says"
        )


def _store(config: pytest.Config, url: str) -> tuple[str, str]:
    """Return scheme and location; the parser is loaded only for another store than the default."""
    if url == _DEFAULT_STORE:
        return "json", str(config.rootpath / ".hwperf")
    from pytest_hwperf.stores.location import locate

    try:
        return locate(url, config.rootpath)
    except ValueError as problem:
        raise pytest.UsageError(f"--hwperf-store={problem}") from problem
