"""Command-line options with their ini twins, read once into one frozen record."""

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


def _path(flag: str, value: str) -> str:
    """Refuse what was meant as a test: `--hwperf-json tests/` would swallow it."""
    if "::" in value or value.endswith(".py"):
        raise pytest.UsageError(f"{flag}={value!r} looks like a test; write {flag}=PATH")
    return value


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


def _side_by_side(flag: str, text: str) -> int | None:
    """Parse a number of pairs; each needs a processor of its own."""
    if text == "auto":
        return None
    from pytest_hwperf.host.machine import count_usable_cores

    most = count_usable_cores()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise pytest.UsageError(
            f"{flag}={text!r}: a number of pairs from 1 to {most}, the processors that pytest may use here, or auto: "
            f"give {flag}=auto"
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

    name: str  # without the prefix; "max-time" gives --hwperf-max-time and hwperf_max_time
    help: str
    kind = "string"  # "bool", "string", "args" (repeatable) or "ini" (lines that have no option)
    metavar = ""
    default = ""  # of text; a flag is off and a list empty
    parse: Callable[[str, Any], Any] | None = None  # how it is called, given value → that of `Settings`
    field = ""  # of `Settings`, where it is not called like the option

    def __init__(self, name: str, text: str, **others: Any) -> None:
        """Keep each value under its name."""
        vars(self).update(others, name=name, help=text)

    @property
    def flag(self) -> str:
        """Name on the command line; of lines that have no option, that of the ini key."""
        return self.ini if self.kind == "ini" else f"--hwperf-{self.name}"

    @property
    def ini(self) -> str:
        """Name of the ini key, and of the value that pytest keeps of the command line."""
        return f"hwperf_{self.name.replace('-', '_')}"


# In the order of `pytest --help`.
_OPTIONS = (
    _Option("save", "Save the runs of passed tests to the baseline.", kind="bool"),
    _Option("compare", "Compare with the stored baseline; a significant regression fails its test.", kind="bool"),
    _Option(
        "against",
        "Rerun this git revision, or this folder, in pairs of fresh processes that take "
        "turns with the present code; a significant regression fails its test.",
        metavar="REF|DIR|anchor",
    ),
    _Option("anchor", "The release that --hwperf-against=anchor reruns, to find slow drift.", metavar="REF"),
    _Option(
        "anchor-builds",
        "How many builds against the anchor share the false-alarm rate: a year of nightly ones.",
        metavar="N",
        default="365",
        parse=_builds,
        field="anchor_builds",
    ),
    _Option(
        "rerun",
        "Whether --hwperf-compare reruns the revision that the baseline was saved from (auto), or only uses the "
        "stored timings (never).",
        metavar="auto|never",
        default="auto",
        parse=_choice("auto", "never"),
    ),
    _Option(
        "gate-time",
        "Longest time for rerunning a baseline: its tree, its rehearsal, fresh processes and pairs, in seconds.",
        metavar="SECONDS",
        default="600",
        parse=_seconds(24 * 3600),
        field="gate_time_s",
    ),
    _Option(
        "parallel",
        "How many pairs of fresh processes run side by side, each on processors of its own: as many as pays (auto), or "
        "this many.",
        metavar="auto|N",
        default="auto",
        parse=_side_by_side,
    ),
    _Option(
        "worker-time",
        "Longest time in which a fresh process may be silent, in seconds: while it starts, in a fixture, in a first "
        "call.",
        metavar="SECONDS",
        default="300",
        parse=_seconds(24 * 3600),
        field="worker_time_s",
    ),
    _Option(
        "silence",
        "Longest time in which a process may be silent in the rehearsal of a comparison, in seconds, before it is "
        "tried with the other side closed: it may wait for what that one holds.",
        metavar="SECONDS",
        default="60",
        parse=_seconds(24 * 3600),
        field="silence_s",
    ),
    _Option("base-python", "Interpreter that runs the baseline, with its own dependencies.", metavar="PATH"),
    _Option(
        "base-env",
        "Whether the baseline's project is built and installed in an environment of its own: where it cannot share "
        "this one (auto), always (build), or never (shared).",
        metavar="auto|shared|build",
        default="auto",
        parse=_choice("auto", "shared", "build"),
    ),
    _Option(
        "base-with",
        "Install this version of a package for the baseline alone, such as onnxruntime==1.22.0; repeatable. Without "
        "--hwperf-against, the present code is compared with itself.",
        kind="args",
        metavar="REQUIREMENT",
        parse=_requirements,
    ),
    _Option(
        "share",
        "Files that git does not know and the baseline needs too, such as models/*.onnx; repeatable. Those that the "
        "rehearsal finds are shared by themselves (auto) unless none is given.",
        kind="args",
        metavar="auto|none|GLOB",
        parse=_shared,
    ),
    _Option(
        "build",
        "Run this command, without a shell, in the present tree and in that of the baseline before they are compared, "
        "such as 'python setup.py build_ext --inplace'; repeatable.",
        kind="args",
        metavar="COMMAND",
        parse=_commands,
    ),
    _Option(
        "affected",
        "Leave out of the pairs of --hwperf-against each test of which nothing that it runs, opens or loads differs "
        "between both trees.",
        kind="bool",
    ),
    _Option(
        "prove-equal",
        "With --hwperf-against, measure inconclusive tests in further pairs, until they are equivalent or the "
        "time is up.",
        kind="bool",
    ),
    _Option(
        "plant",
        "Add work to each call of the present code, to see it found, as hwperf selfcheck does: an empty loop that "
        "takes this share of the call's time.",
        metavar="PERCENT",
        parse=_planted,
    ),
    _Option(
        "baseline",
        "Name of the baseline to save to and compare with.",
        metavar="NAME",
        default=_DEFAULT_BASELINE,
        parse=_baseline,
    ),
    _Option(
        "store",
        "Where baselines live: a folder, or a database, as sql:sqlite:///team.db or sql:postgresql+psycopg://host/name.",
        metavar="URL",
        default=_DEFAULT_STORE,
    ),
    _Option(
        "alpha",
        "Accepted rate of false alarms: of a whole run that is rerun in pairs, else of each comparison.",
        metavar="PERCENT",
        default=_DEFAULT_ALPHA,
        parse=_alpha,
    ),
    _Option(
        "margin",
        "Smallest change that matters, as latency_p95=15%% or, for the median latency, 3%%; repeatable.",
        kind="args",
        metavar="[METRIC=]SIZE",
        parse=_lines("budgets", "parse_margin_lines"),
        field="margins",
    ),
    _Option(
        "undecided",
        "What a budget does whose limit lies inside the interval: judge the point, measure again in up to five fresh "
        "processes (retry), pass or fail.",
        metavar="point|retry|pass|fail",
        default="point",
        parse=_choice("point", "retry", "pass", "fail"),
    ),
    _Option("strict", "Fail comparisons that could not be decided.", kind="bool"),
    _Option(
        "max-time",
        "Longest sampling of one measurement, in seconds.",
        metavar="SECONDS",
        default="2",
        parse=_seconds(3600),
        field="max_time_s",
    ),
    _Option(
        "gc",
        "Whether Python's garbage collector runs during timed calls, as the program has set it (on), or only between "
        "them (off).",
        metavar="on|off",
        default="on",
        parse=_choice("on", "off"),
    ),
    _Option(
        "energy",
        "Energy source (rapl, perf, nvml, psys, estimate): auto takes the best there is and says why better ones were "
        "refused.",
        metavar="auto|off|SOURCE",
        default="auto",
    ),
    _Option(
        "watts",
        "Watts of one vCPU, for the estimate of energy, or a file that hwperf calibrate made; else those of a table.",
        metavar="IDLE..BUSY|FILE",
    ),
    _Option(
        "instructions",
        "Count the instructions of a call: by the processor's counter where there is one and a budget or margin names "
        "them (auto), by it always (perf), or in a fresh process under Valgrind, which takes a minute (callgrind).",
        metavar="auto|perf|callgrind|off",
        default="auto",
        parse=_choice("auto", "perf", "callgrind", "off"),
    ),
    _Option(
        "explain",
        "Whether fresh processes of both sides are profiled to say what moved: for what regressed in pairs (auto), for "
        "every comparison (always), or not.",
        metavar="auto|always|never",
        default="auto",
        parse=_choice("auto", "always", "never"),
    ),
    _Option(
        "operators",
        "Show where the time of a call goes within its runtime, by a profile in a session of its own.",
        kind="bool",
    ),
    _Option(
        "serving-batch",
        "Rows that are served together: a measurement of other batches is warned of.",
        metavar="ROWS",
        default="0",
        parse=_rows,
        field="serving_batch",
    ),
    _Option(
        "loads",
        "What issues the calls of hwload: this package (own), or MLPerf LoadGen in a process of its own (loadgen).",
        metavar="own|loadgen",
        default="own",
        parse=_choice("own", "loadgen"),
    ),
    _Option(
        "benchmark-fixture",
        "Give tests the fixture benchmark of pytest-benchmark, measured by this plugin: a suite is gated as it stands.",
        kind="bool",
    ),
    _Option(
        "all",
        "Measure, and with --hwperf-against compare, every selected test, with or without a marker: its body is the "
        "call. What cannot be called again, or is too short, is named.",
        kind="bool",
    ),
    _Option(
        "shortest",
        "Shortest call of a test that --hwperf-all measures, in seconds.",
        metavar="SECONDS",
        default="0.0001",
        parse=_seconds(3600),
        field="shortest_s",
    ),
    _Option("no-cache", "Convert every model again, and keep no converted model for later runs.", kind="bool"),
    _Option(
        "html", "Write the report as one HTML file, with charts; needs the extra report.", metavar="FILE", parse=_path
    ),
    _Option("artifacts", "Write CSV files into this folder.", metavar="DIR", parse=_path),
    _Option("json", "Write the whole report as JSON to this file.", metavar="FILE", parse=_path),
    _Option(
        "markdown",
        "Write a summary for pull requests as Markdown to this file, below the size at which GitHub cuts a comment.",
        metavar="FILE",
        parse=_path,
    ),
    _Option(
        "shard",
        "Run one of N parts of the tests, the K-th, with its part of the false-alarm rate; hwperf merge makes one "
        "report of all.",
        metavar="K/N",
        parse=lambda flag, text: _by_core("shards", "parse_shard", text, flag=flag) if text else None,
    ),
    _Option(
        "machine-kind",
        "What machines like this one are called; hwperf merge shows the verdicts of all kinds side by side. "
        "NAME/N: N kinds share the false-alarm rate.",
        metavar="NAME[/N]",
        parse=lambda flag, text: _by_core("shards", "parse_kind", text, flag=flag) if text else None,
    ),
    _Option("only", "Run measured tests only.", kind="bool"),
    _Option("skip", "Skip measured tests.", kind="bool"),
    _Option("disable", "Run measured tests once, without measuring or judging.", kind="bool"),
    _Option(
        "budgets",
        "Budgets of every measured test, one KEYWORD=LIMIT a line, as in hwbudget; a marker's keyword wins.",
        kind="ini",
        parse=_lines("budgets", "parse_budget_lines"),
    ),
    _Option(
        "carbon",
        "Report the carbon of every measured call, one KEY=VALUE a line: intensity_g_per_kwh, intensity_source, "
        "embodied_kg, lifetime_years, resource_share, per, units_per_call.",
        kind="ini",
        parse=_lines("carbon", "parse_carbon_lines", empty=None),
    ),
)
VALUED = frozenset(option.flag for option in _OPTIONS if option.metavar)  # options that take a value


class Settings:
    """The values of all options and ini keys, checked.

    Neither a `NamedTuple` nor a dataclass: to generate one takes up to half a millisecond in every run of pytest.
    """

    def __init__(self, **values: Any) -> None:
        """Keep each value under its name."""
        vars(self).update(values)

    save: bool
    compare: bool
    against: str  # git revision or folder, "" for none
    anchor: str  # git revision, "" for none
    anchor_builds: int  # that share the false-alarm rate
    is_anchored: bool  # whether the anchor is what is rerun
    rerun: Any  # "auto" or "never"
    gate_time_s: float
    parallel: int | None  # pairs side by side, None for as many as pays
    worker_time_s: float
    silence_s: float
    base_python: str  # path of an interpreter, "" for this one
    base_env: Any  # "auto", "shared" or "build"
    base_with: tuple[str, ...]  # requirements
    share: tuple[str, ...]  # globs, "auto" or "none"
    build: tuple[str, ...]  # commands
    affected: bool
    prove_equal: bool
    plant: float  # share of work that is added to the candidate's calls, 0.0 for none
    baseline: str
    store: str  # scheme of the store
    location: str  # where it lies
    alpha: float  # 0.01 = 1 %
    margins: tuple[Any, ...]  # core.records.Margin
    budgets: tuple[Any, ...]  # core.records.Budget
    undecided: Any  # "point", "retry", "pass" or "fail"
    strict: bool
    max_time_s: float
    gc: Any  # "on" or "off"
    energy: str
    watts: str  # "0.5..2.1" or the path of a file, "" for the table
    carbon: Any  # core.carbon.CarbonInputs, None without hwperf_carbon
    instructions: Any  # "auto", "perf", "callgrind" or "off"
    explain: Any  # "auto", "always" or "never"
    operators: bool
    serving_batch: int  # rows, 0 where none is declared
    loads: Any  # "own" or "loadgen"
    benchmark_fixture: bool
    all: bool
    shortest_s: float  # of a call, where every test is measured
    no_cache: bool
    html: str
    artifacts: str
    json: str
    markdown: str
    shard: tuple[int, int] | None  # number from 1, and of how many; 1 of 1 where only the kind of machine is named
    machine_kind: tuple[str, int] | None  # its name, and among how many the false-alarm rate is divided
    only: bool
    skip: bool
    disable: bool

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
    def needs_preflight(self) -> bool:
        """Whether it names something outside that may be missing or unusable."""
        named = (
            self.save,
            self.compare,
            self.reruns,
            self.html,
            self.artifacts,
            self.json,
            self.markdown,
            self.energy not in ("auto", "off"),
            self.watts,
            self.store != "json",
        )
        return any(named)


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini twin; an option has no default, so that the ini counts without it."""
    group = parser.getgroup("hwperf", "performance regressions of models (pytest-hwperf)")
    for option in _OPTIONS:
        shown = f" Default: {option.default}.".replace("%", "%%") if option.default else ""
        # A `dest` that is given is not looked for among those of all other options.
        add = partial(group.addoption, option.flag, dest=option.ini, default=None, help=option.help + shown)
        if option.kind == "bool":
            add(action="store_true")
        elif option.kind == "args":
            add(action="append", metavar=option.metavar)
        elif option.kind == "string":
            add(metavar=option.metavar)
        kind: Any = "linelist" if option.kind in ("args", "ini") else option.kind
        default = {"bool": False, "linelist": []}.get(kind, option.default)
        parser.addini(option.ini, option.help.replace("%%", "%"), type=kind, default=default)


def read_flag(config: pytest.Config, name: str) -> bool:
    """Read one flag before the session is configured: the command line first, then the ini file."""
    return bool(config.getoption(name) or config.getini(name))


def read_settings(config: pytest.Config) -> Settings:
    """Read and check everything, so that a bad value ends the session before it begins.

    Raises:
        pytest.UsageError: says what was given, what is allowed and what to type.
    """
    values = {option.field or option.name.replace("-", "_"): _value(config, option) for option in _OPTIONS}
    values["store"], values["location"] = _store(config, values["store"])
    values["watts"] = _watts(config, values["watts"])
    if values["machine_kind"] and not values["shard"]:
        values["shard"] = (1, 1)
    values["is_anchored"] = values["against"] == _ANCHOR
    if values["is_anchored"]:
        values["against"] = values["anchor"]
    settings = Settings(**values)
    if settings.is_anchored and not settings.anchor:
        raise pytest.UsageError("--hwperf-against=anchor: which release? Give --hwperf-anchor=REF too, such as v1.4")
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
    given = None if option.kind == "ini" else config.getoption(option.ini)
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


def _watts(config: pytest.Config, given: str) -> str:
    """Resolve the path of a file: of the command line and the environment from here, of the ini from the root."""
    typed = config.getoption("hwperf_watts") is not None
    text = given or os.environ.get("HWPERF_WATTS", "")
    if not text or re.fullmatch(r"[\s\d.+-]+", text):
        return text
    return str((config.rootpath if given and not typed else config.invocation_params.dir) / text)
