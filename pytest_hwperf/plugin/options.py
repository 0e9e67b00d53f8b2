"""Command-line options with their ini twins, read once into one frozen record."""

import os
import re
from typing import Any, NamedTuple

import pytest

from pytest_hwperf.stores.location import locate

_UNDECIDED = ("point", "pass", "fail")
_DEFAULT_ALPHA = "1%"


class _Option(NamedTuple):
    """One option and its ini twin."""

    name: str  # without the prefix; "max-time" gives --hwperf-max-time and hwperf_max_time
    help: str
    kind: str = "string"  # "bool", "string" or "args" (repeatable), as ini types
    metavar: str = ""
    default: Any = None


# What every run may be told, in the order of `pytest --help`.
_OPTIONS = (
    _Option("save", "Save the runs of passed tests as sessions of the baseline.", kind="bool"),
    _Option("compare", "Compare with the stored baseline; a significant regression fails its test.", kind="bool"),
    _Option(
        "against",
        "Rerun this git revision, or this folder, beside the present code, in pairs of fresh processes that take "
        "turns; a significant regression fails its test.",
        metavar="REF|DIR",
        default="",
    ),
    _Option(
        "rerun",
        "Whether --hwperf-compare reruns the revision that the baseline was saved from (auto), or only looks at the "
        "stored timings (never).",
        metavar="auto|never",
        default="auto",
    ),
    _Option("gate-time", "Longest time for the pairs of a whole run, in seconds.", metavar="SECONDS", default="600"),
    _Option(
        "base-python", "Interpreter that runs the baseline, with its own dependencies.", metavar="PATH", default=""
    ),
    _Option(
        "share",
        "Files that git does not know and the baseline needs too, such as models/*.onnx; repeatable.",
        kind="args",
        metavar="GLOB",
        default=[],
    ),
    _Option("baseline", "Name of the baseline to save to and compare with.", metavar="NAME", default="main"),
    _Option("store", "Where baselines live: a folder, or SCHEME:LOCATION.", metavar="URL", default="json:.hwperf"),
    _Option(
        "alpha",
        "Accepted rate of false alarms: of a whole run that is rerun in pairs, else of each comparison.",
        metavar="PERCENT",
        default=_DEFAULT_ALPHA,
    ),
    _Option(
        "margin",
        "Smallest change that matters, as latency_p95=15%% or, for the median latency, 3%%; repeatable.",
        kind="args",
        metavar="[METRIC=]SIZE",
        default=[],
    ),
    _Option(
        "undecided",
        "What a budget does whose limit lies inside the interval: judge the point, pass or fail.",
        metavar="point|pass|fail",
        default="point",
    ),
    _Option("strict", "Fail comparisons that could not be decided.", kind="bool"),
    _Option("max-time", "Longest sampling of one measurement, in seconds.", metavar="SECONDS", default="2"),
    _Option(
        "energy",
        "Energy source (rapl, perf, nvml, psys, estimate): auto takes the best there is and says why better ones were "
        "refused.",
        metavar="auto|off|SOURCE",
        default="auto",
    ),
    _Option(
        "watts",
        "Watts of one vCPU, for the estimate of energy, or a file that hwperf calibrate made; else a table tells them.",
        metavar="IDLE..BUSY|FILE",
        default="",
    ),
    _Option("artifacts", "Write CSV files into this folder.", metavar="DIR", default=""),
    _Option("json", "Write the whole report as JSON to this file.", metavar="FILE", default=""),
    _Option("only", "Run measured tests only.", kind="bool"),
    _Option("skip", "Skip measured tests.", kind="bool"),
    _Option("disable", "Run measured tests once, without measuring or judging.", kind="bool"),
)


class Settings(NamedTuple):
    """Everything that options and ini say, checked."""

    save: bool
    compare: bool
    against: str  # git revision or folder, "" for none
    rerun: Any  # "auto" or "never"
    gate_time_s: float
    base_python: str  # path of an interpreter, "" for this one
    share: tuple[str, ...]  # globs
    baseline: str
    store: str  # scheme of the store
    location: str  # where it lies
    alpha: float  # 0.01 = 1 %
    margins: tuple[Any, ...]  # core.records.Margin
    budgets: tuple[Any, ...]  # core.records.Budget
    undecided: Any  # "point", "pass" or "fail"
    strict: bool
    max_time_s: float
    energy: str
    watts: str  # "0.5..2.1" or the path of a file, "" for the table
    carbon: Any  # core.carbon.CarbonInputs, None where nobody asks
    artifacts: str
    json: str
    only: bool
    skip: bool
    disable: bool

    @property
    def needs_preflight(self) -> bool:
        """Whether it names something outside that may be missing or unusable."""
        named = (
            self.save,
            self.compare,
            bool(self.against),
            self.artifacts,
            self.json,
            self.energy not in ("auto", "off"),
            self.watts,
            self.store != "json",
        )
        return any(named)


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini twin; defaults are None, so that an unset option lets the ini speak."""
    group = parser.getgroup("hwperf", "performance regressions of models (pytest-hwperf)")
    for option in _OPTIONS:
        flag, ini = f"--hwperf-{option.name}", _ini_name(option)
        shown = f" Default: {option.default}.".replace("%", "%%") if option.default not in (None, "", []) else ""
        text = option.help + shown
        if option.kind == "bool":
            group.addoption(flag, action="store_true", default=None, help=option.help)
        elif option.kind == "args":
            group.addoption(flag, action="append", default=None, metavar=option.metavar, help=text)
        else:
            group.addoption(flag, default=None, metavar=option.metavar, help=text)
        kind: Any = "linelist" if option.kind == "args" else option.kind
        default: Any = False if option.kind == "bool" else option.default
        parser.addini(ini, option.help.replace("%%", "%"), type=kind, default=default)
    parser.addini(
        "hwperf_budgets",
        "Budgets of every measured test, one KEYWORD=LIMIT a line, as in hwbudget; a marker's keyword wins.",
        type="linelist",
        default=[],
    )
    parser.addini(
        "hwperf_carbon",
        "Tell the carbon of every measured call, one KEY=VALUE a line: intensity_g_per_kwh, intensity_source, "
        "embodied_kg, lifetime_years, resource_share, per, units_per_call.",
        type="linelist",
        default=[],
    )


def read_settings(config: pytest.Config) -> Settings:
    """Read and check everything, so that a bad value ends the session before it begins.

    Raises:
        pytest.UsageError: says what was given, what is allowed and what to type.
    """
    given = {option.name: _given(config, option) for option in _OPTIONS}
    scheme, location = _store(config, given["store"])
    budgets, margins = _parsed(config.getini("hwperf_budgets"), given["margin"])
    if given["base-python"] and not given["against"]:
        raise pytest.UsageError("--hwperf-base-python is the baseline's interpreter: give --hwperf-against=REF|DIR too")
    if given["only"] and given["skip"]:
        raise pytest.UsageError("--hwperf-only and --hwperf-skip exclude each other: give one of them")
    return Settings(
        save=given["save"],
        compare=given["compare"],
        against=given["against"],
        rerun=_choice("rerun", given["rerun"], ("auto", "never")),
        gate_time_s=_seconds("gate-time", given["gate-time"], 24 * 3600),
        base_python=given["base-python"],
        share=tuple(given["share"]),
        baseline=_baseline(given["baseline"]),
        store=scheme,
        location=location,
        alpha=_alpha(given["alpha"]),
        margins=margins,
        budgets=budgets,
        undecided=_choice("undecided", given["undecided"], _UNDECIDED),
        strict=given["strict"],
        max_time_s=_seconds("max-time", given["max-time"], 3600),
        energy=given["energy"],
        watts=_watts(config, given["watts"]),
        carbon=_carbon(config.getini("hwperf_carbon")),
        artifacts=_path("artifacts", given["artifacts"]),
        json=_path("json", given["json"]),
        only=given["only"],
        skip=given["skip"],
        disable=given["disable"],
    )


def _ini_name(option: _Option) -> str:
    return f"hwperf_{option.name.replace('-', '_')}"


def _given(config: pytest.Config, option: _Option) -> Any:
    """Take the command line first, then the ini file, then the default."""
    value = config.getoption(f"hwperf_{option.name.replace('-', '_')}")
    return config.getini(_ini_name(option)) if value is None else value


def _parsed(lines: list[str], margins: list[str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Turn texts into records; the parser is loaded only where there is something to parse."""
    if not lines and not margins:
        return (), ()
    from pytest_hwperf.core.budgets import parse_budget_lines, parse_margin_lines
    from pytest_hwperf.core.errors import UsageProblem

    try:
        return parse_budget_lines(lines), parse_margin_lines(margins)
    except UsageProblem as problem:
        raise pytest.UsageError(f"hwperf_budgets or --hwperf-margin: {problem}") from problem


def _carbon(lines: list[str]) -> Any:
    if not lines:
        return None
    from pytest_hwperf.core.carbon import parse_carbon_lines
    from pytest_hwperf.core.errors import UsageProblem

    try:
        return parse_carbon_lines(lines)
    except UsageProblem as problem:
        raise pytest.UsageError(f"hwperf_carbon: {problem}") from problem


def _watts(config: pytest.Config, given: str) -> str:
    """Find a file where it was named: on the command line or in the environment from here, in the ini from the root."""
    typed = config.getoption("hwperf_watts") is not None
    text = given or os.environ.get("HWPERF_WATTS", "")
    if not text or re.fullmatch(r"[\s\d.+-]+", text):
        return text
    return str((config.rootpath if given and not typed else config.invocation_params.dir) / text)


def _store(config: pytest.Config, url: str) -> tuple[str, str]:
    try:
        return locate(url, config.rootpath)
    except ValueError as problem:
        raise pytest.UsageError(f"--hwperf-store={problem}") from problem


def _baseline(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise pytest.UsageError(
            f"--hwperf-baseline={name!r}: a name is made of letters, digits, '.', '_' and '-', such as main"
        )
    return name


def _alpha(given: str) -> float:
    """Parse the rate; the parser is loaded only for another than the default."""
    if given == _DEFAULT_ALPHA:
        return 0.01
    from pytest_hwperf.core.errors import UsageProblem
    from pytest_hwperf.core.units import parse_rate

    try:
        return parse_rate("--hwperf-alpha", given)
    except UsageProblem as problem:
        raise pytest.UsageError(str(problem)) from problem


def _seconds(name: str, text: str, most: int) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= most:  # NaN and infinity fail too
        raise pytest.UsageError(f"--hwperf-{name}={text!r}: a number of seconds above 0 up to {most}, such as 2")
    return seconds


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        from pytest_hwperf.core.budgets import nearest

        hint = nearest(value, allowed)
        raise pytest.UsageError(f"--hwperf-{name}={value!r}: unknown value.{hint} Allowed: {', '.join(allowed)}")
    return value


def _path(name: str, value: str) -> str:
    """Refuse what was meant as a test: `--hwperf-json tests/` would swallow it."""
    if "::" in value or value.endswith(".py"):
        raise pytest.UsageError(f"--hwperf-{name}={value!r} looks like a test; write --hwperf-{name}=PATH")
    return value
