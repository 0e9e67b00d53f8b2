"""The settings of a session: the table of all options and ini keys, whose values are read once and checked."""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pytest_hwperf.plugin.session.parsers import (
    DEFAULT_ALPHA,
    DEFAULT_BASELINE,
    REPORTS,
    Option,
    alpha,
    baseline,
    builds,
    choice,
    commands,
    parsed_by,
    planted,
    reports,
    requirements,
    rows,
    seconds,
    shared,
    side_by_side,
)

_ANCHOR = "anchor"  # as --hwperf-against names it
_STORE = "json:.hwperf"
_DAY_S = 24 * 3600
_everyday: Callable[..., Any] = partial(Option, "hwperf")
_more: Callable[..., Any] = partial(Option, "more")
_ini: Callable[..., Any] = partial(Option, "")


class Settings:
    """The values of all options and ini keys, checked; in the class, each option in the order of `pytest --help`.

    Neither a `NamedTuple` nor a dataclass: to generate one takes up to half a millisecond in every run of pytest.
    """

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    against: str = _everyday("Compare with this revision or folder in paired runs.", "REF|REF...|DIR|anchor")
    all: bool = _everyday("Measure every selected test, marked or not.")
    benchmark: bool = _everyday("Run pytest-benchmark tests with hwperf.")
    save: bool = _everyday("Save the runs of passed tests to the baseline.")
    compare: bool = _everyday("Compare with the stored baseline; fail on regressions.")
    only: bool = _everyday("Run measured tests only.")
    skip: bool = _everyday("Skip measured tests.")
    margins: tuple[Any, ...] = _everyday(  # records.verdict.Margin
        "Ignore smaller changes, e.g. latency_p95=15%%.",
        "[METRIC=]SIZE",
        parsed_by("records.markers", "parse_margin_lines"),
        name="margin",
        kind="linelist",
    )
    alpha: float = _everyday("Accept this rate of false alarms.", "PERCENT", alpha, default=DEFAULT_ALPHA)  # 0.01 = 1 %
    strict: bool = _everyday("Fail tests with inconclusive or not comparable results.")
    time_limit_s: float = _everyday(
        "Limit the time of the whole gate.", "SECONDS", seconds(_DAY_S), name="time-limit", default="600"
    )
    reports: tuple[str, ...] = _everyday(  # paths of files and folders
        "Write a report: .html, .json, .md or a folder of CSVs.", "PATH", reports, name="report", kind="linelist"
    )
    baseline: str = _more(
        "Save to and compare with the baseline of this name.", "NAME", baseline, default=DEFAULT_BASELINE
    )
    store: str = _more(
        "Keep baselines in this folder or database, e.g. sql:sqlite:///team.db.", "URL", default=_STORE
    )  # scheme
    base_with: tuple[str, ...] = _more(
        "Install this package for the baseline only, e.g. onnxruntime==1.22.0; repeatable.",
        "REQUIREMENT",
        requirements,
        kind="linelist",
    )
    base_python: str = _more("Run the baseline with this interpreter.", "PATH")  # "" for this one
    share: tuple[str, ...] = _more(
        "Share untracked files with the baseline, e.g. models/*.onnx; repeatable. Default: auto.",
        "auto|none|GLOB",
        shared,
        kind="linelist",
    )
    build: tuple[str, ...] = _more(
        "Build both trees by this, e.g. 'python setup.py build_ext --inplace'; repeatable.",
        "COMMAND",
        commands,
        kind="linelist",
    )
    affected: bool = _more("Skip tests with unchanged code and files; needs Python 3.12.")
    prove_equal: bool = _more("Keep measuring inconclusive tests until decided or out of time.")
    undecided: Any = _more(
        "Decide inconclusive budgets by value (point), timings also by fresh processes (retry).",
        "point|retry|pass|fail",
        choice("point", "retry", "pass", "fail"),
        default="point",
    )
    sample_time_s: float = _more(
        "Limit the sampling time of one measurement.", "SECONDS", seconds(3600), name="sample-time", default="2"
    )
    explain: Any = _more(
        "Profile both sides of regressions (auto), of all comparisons, or never.",
        "auto|always|never",
        choice("auto", "always", "never"),
        default="auto",
    )
    operators: bool = _more("Show the time of each operator within the runtime.")
    instructions: Any = _more(
        "Count instructions with perf or callgrind; auto needs a budget or margin.",
        "auto|perf|callgrind|off",
        choice("auto", "perf", "callgrind", "off"),
        default="auto",
    )
    energy: str = _more(
        "Read energy from rapl, perf, nvml, psys or estimate.",
        "auto|off|SOURCE",
        default="auto",
    )
    # Number from 1, and of how many; 1 of 1 where only the kind of machine is named.
    shard: tuple[int, int] | None = _more(
        "Run part K of N, e.g. 1/4; merge with hwperf report.",
        "K/N",
        parsed_by("records.report", "parse_shard", empty=None),
    )
    # Its name, and among how many the false-alarm rate is divided.
    machine_kind: tuple[str, int] | None = _more(
        "Name this kind of machine, one of N, e.g. arm64/2.",
        "NAME[/N]",
        parsed_by("records.report", "parse_kind", empty=None),
    )
    parallel: int = _more(
        "Run this many pairs side by side, on processors of their own.", "N", side_by_side, default="1"
    )
    disable: bool = _more("Run measured tests once, without measuring or judging.")
    # For `hwperf selfcheck`: share of work that is added to each call of the candidate, to see it found.
    plant: float = _more("", "PERCENT", planted)
    budgets: tuple[Any, ...] = _ini(  # records.verdict.Budget
        "Limit every measured test, one budget a line, e.g. latency_p95_ms=100.",
        parse=parsed_by("records.markers", "parse_budget_lines"),
        kind="linelist",
    )
    carbon: Any = _ini(  # stats.carbon.CarbonInputs
        "Report carbon per call, one fact a line, e.g. intensity_g_per_kwh=400.",
        parse=parsed_by("stats.service.carbon", "parse_carbon_lines", empty=None),
        kind="linelist",
    )
    rerun: Any = _ini(
        "Rerun the stored revision (auto), or use its stored timings (never).",
        parse=choice("auto", "never"),
        default="auto",
    )
    base_env: Any = _ini(
        "Choose the baseline's environment: shared (this one), build (its own) or auto.",
        parse=choice("auto", "shared", "build"),
        default="auto",
    )
    anchor: str = _ini("Rerun this release with --hwperf-against=anchor, e.g. v1.4.")
    anchor_builds: int = _ini(
        "Share --hwperf-alpha among this many builds against the anchor.", parse=builds, default="365"
    )
    worker_time_s: float = _ini(
        "End a fresh process after this many seconds without an answer.",
        parse=seconds(_DAY_S),
        name="worker-time",
        default="300",
    )
    silence_s: float = _ini(
        "Retry silent tests alone after these seconds, or half the time left.",
        parse=seconds(_DAY_S),
        name="silence",
        default="60",
    )
    shortest_s: float = _ini(
        "Skip calls shorter than this many seconds with --hwperf-all.",
        parse=seconds(3600),
        name="shortest",
        default="0.0001",
    )
    gc: Any = _ini(
        "Leave the garbage collector on during timed calls, or turn it off.",
        parse=choice("on", "off"),
        default="on",
    )
    watts: str = _ini("Estimate energy by idle and busy watts per vCPU, e.g. 0.5..2.1.")
    serving_batch: int = _ini("Warn if tests measure another batch size, e.g. 32.", parse=rows, default="0")
    cache: bool = _ini("Keep converted models for later runs.", kind="bool", default=True)
    location: str  # where the store lies
    is_anchored: bool  # whether the anchor is what is rerun

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
    def compares(self) -> bool:
        """Whether anything is compared with a baseline, rerun or stored."""
        return self.reruns or self.compare

    @property
    def keeps_runs(self) -> bool:
        return self.save or self.compare

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
        named = self.save or self.compares or self.reports or self.watts
        return bool(named or self.energy not in ("auto", "off") or self.store != "json")


OPTIONS: tuple[Option, ...] = tuple(value for value in vars(Settings).values() if isinstance(value, Option))
VALUED = frozenset(option.flag for option in OPTIONS if option.metavar)  # options that take a value


def read_flag(config: pytest.Config, name: str) -> bool:
    """Read one flag before the session is configured: the command line first, then the ini file."""
    return bool(config.getoption(name) or config.getini(name))


def read_settings(config: pytest.Config) -> Settings:
    values = {option.field: _value(config, option) for option in OPTIONS}
    values["store"], values["location"] = _store(config, values["store"])
    values["watts"] = values["watts"] or os.environ.get("HWPERF_WATTS", "")
    if values["machine_kind"] and not values["shard"]:
        values["shard"] = (1, 1)
    values["is_anchored"] = values["against"] == _ANCHOR
    if values["is_anchored"]:
        values["against"] = values["anchor"]
    settings = Settings(**values)
    for contradicts, text in _contradictions(config, settings):
        if contradicts:
            raise pytest.UsageError(text)
    return settings


# Options that do nothing without a comparison, and what they do with one. A time limit is of `hwperf.compare` too.
_OF_COMPARISONS = {
    "--hwperf-build": "builds the trees that are compared",
    "--hwperf-prove-equal": "asks for further pairs",
    "--hwperf-share": "gives files to the baseline's tree",
    "--hwperf-parallel": "runs pairs side by side",
}


def _contradictions(config: pytest.Config, given: Settings) -> tuple[tuple[object, str], ...]:
    """Return options that need others, or exclude each other: whether they do, and what is said then.

    Those that need a comparison are refused where they are typed: a configuration file, with its `addopts`, serves
    other runs too.
    """
    trees, compared = "give --hwperf-against=REF|DIR too", given.compares
    typed = {os.fspath(word).partition("=")[0] for word in config.invocation_params.args}
    return (
        (
            given.is_anchored and not given.anchor,
            "--hwperf-against=anchor: which release? Give -o hwperf_anchor=REF too, e.g. v1.4",
        ),
        (
            given.base_python and not given.against,
            f"--hwperf-base-python is the baseline's interpreter: {trees}",
        ),
        *((name in typed and not compared, f"{name} {purpose}: {trees}") for name, purpose in _OF_COMPARISONS.items()),
        (
            "--hwperf-affected" in typed and not (given.against or given.compare),
            f"--hwperf-affected leaves tests out of pairs: {trees}",
        ),
        (
            "--hwperf-explain" in typed and given.explain == "always" and not compared,
            f"--hwperf-explain=always profiles the tests that are compared: {trees}",
        ),
        (
            "--hwperf-baseline" in typed and not (given.keeps_runs or given.is_anchored),
            "--hwperf-baseline names stored runs: give --hwperf-save or --hwperf-compare too",
        ),
        (
            given.affected and given.plant,
            (
                "--hwperf-plant adds work that no file holds, and --hwperf-affected leaves out what no file has "
                "changed: give one of them"
            ),
        ),
        (
            given.base_python and given.base_with,
            (
                "--hwperf-base-with makes an environment for the baseline, and --hwperf-base-python names one: give "
                "one of them, and install the packages in the latter yourself"
            ),
        ),
        (given.only and given.skip, "--hwperf-only and --hwperf-skip exclude each other: give one of them"),
    )


def _value(config: pytest.Config, option: Option) -> Any:
    """Take the command line first, then the ini file, then the default, and parse it.

    An empty value of the command line is refused: an unset variable of a workflow would switch the option off unseen.
    """
    given = config.getoption(option.ini) if option.group else None
    if (
        option.metavar
        and given is not None
        and not all(one.strip() for one in ([given] if isinstance(given, str) else given))
    ):
        raise pytest.UsageError(
            f"{option.flag}= is empty, as an unset variable leaves it: give {option.flag}={option.metavar}, or leave "
            f"the option out; -o {option.ini}= takes back what the configuration file says"
        )
    value = config.getini(option.ini) if given is None else given
    return value if option.parse is None else option.parse(option.flag, value)


def _store(config: pytest.Config, url: str) -> tuple[str, str]:
    """Return scheme and location; the parser is loaded only for another store than the default."""
    if url == _STORE:
        return "json", str(config.rootpath / ".hwperf")
    from pytest_hwperf.stores.location import locate

    try:
        return locate(url, config.rootpath)
    except ValueError as problem:
        raise pytest.UsageError(f"--hwperf-store={problem}") from problem


class Started:
    """How this session was started, before any test or `conftest.py` was loaded.

    Fresh processes are started so too: they run the same code, which makes the same changes in them.
    """

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self.path = tuple(sys.path)  # of imports
        self.since = time.time()  # instant, in seconds since 1970


STARTED: pytest.StashKey[Started] = pytest.StashKey()
