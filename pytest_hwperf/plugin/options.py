"""The options of the plugin and their ini keys: the table of them, and their registration."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pytest_hwperf.plugin.option_values import (
    DEFAULT_ALPHA,
    DEFAULT_BASELINE,
    alpha,
    baseline,
    builds,
    by_function,
    choice,
    commands,
    lines,
    planted,
    reports,
    requirements,
    rows,
    seconds,
    shared,
    side_by_side,
)

DEFAULT_STORE = "json:.hwperf"


class Option:
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
    Option("against", "Compare with this revision or folder in paired runs.", metavar="REF|REF...|DIR|anchor"),
    Option("all", "Measure every selected test, marked or not.", kind="bool"),
    Option("benchmark", "Run pytest-benchmark tests with hwperf.", kind="bool"),
    Option("save", "Save the runs of passed tests to the baseline.", kind="bool"),
    Option("compare", "Compare with the stored baseline; a regression fails its test.", kind="bool"),
    Option("only", "Run measured tests only.", kind="bool"),
    Option("skip", "Skip measured tests.", kind="bool"),
    Option(
        "margin",
        "Smallest change that matters, e.g. latency_p95=15%%.",
        kind="args",
        metavar="[METRIC=]SIZE",
        parse=lines("records.budgets", "parse_margin_lines"),
        field="margins",
    ),
    Option(
        "alpha",
        "Accepted rate of false alarms.",
        metavar="PERCENT",
        default=DEFAULT_ALPHA,
        parse=alpha,
    ),
    Option("strict", "Fail tests whose comparison is inconclusive.", kind="bool"),
    Option(
        "time-limit",
        "Longest time of the whole gate.",
        metavar="SECONDS",
        default="600",
        parse=seconds(24 * 3600),
        field="time_limit_s",
    ),
    Option(
        "report",
        "Write a report: .html, .json, .md or a folder of CSVs.",
        kind="args",
        metavar="PATH",
        parse=reports,
        field="reports",
    ),
)
_MORE = (
    Option(
        "baseline",
        "Name of the baseline to save to and compare with.",
        metavar="NAME",
        default=DEFAULT_BASELINE,
        parse=baseline,
    ),
    Option(
        "store",
        "Folder or database of baselines, e.g. sql:sqlite:///team.db.",
        metavar="URL",
        default=DEFAULT_STORE,
    ),
    Option(
        "base-with",
        "Install this package for the baseline only, e.g. onnxruntime==1.22.0; repeatable.",
        kind="args",
        metavar="REQUIREMENT",
        parse=requirements,
    ),
    Option("base-python", "Interpreter that runs the baseline.", metavar="PATH"),
    Option(
        "share",
        "Files outside git that the baseline needs, e.g. models/*.onnx; repeatable. Default: auto, those that the "
        "trial run finds.",
        kind="args",
        metavar="auto|none|GLOB",
        parse=shared,
    ),
    Option(
        "build",
        "Build both trees with this command, e.g. 'python setup.py build_ext --inplace'; repeatable.",
        kind="args",
        metavar="COMMAND",
        parse=commands,
    ),
    Option("affected", "Skip tests whose code and files did not change; needs Python 3.12.", kind="bool"),
    Option("prove-equal", "Keep measuring inconclusive tests until decided or out of time.", kind="bool"),
    Option(
        "undecided",
        "What a budget does whose limit lies inside the interval: judge the point, measure again in up to five fresh "
        "processes, pass or fail.",
        metavar="point|retry|pass|fail",
        default="point",
        parse=choice("point", "retry", "pass", "fail"),
    ),
    Option(
        "sample-time",
        "Longest sampling of one measurement.",
        metavar="SECONDS",
        default="2",
        parse=seconds(3600),
        field="sample_time_s",
    ),
    Option(
        "explain",
        "Profile both sides of what regressed (auto), of every comparison, or of none.",
        metavar="auto|always|never",
        default="auto",
        parse=choice("auto", "always", "never"),
    ),
    Option("operators", "Show the time of each operator within the runtime.", kind="bool"),
    Option(
        "instructions",
        "Count the instructions of a call by the processor, or by Valgrind; auto counts where a budget or margin names "
        "them.",
        metavar="auto|perf|callgrind|off",
        default="auto",
        parse=choice("auto", "perf", "callgrind", "off"),
    ),
    Option(
        "energy",
        "Energy source: rapl, perf, nvml, psys or estimate; auto takes the best one here.",
        metavar="auto|off|SOURCE",
        default="auto",
    ),
    Option(
        "shard",
        "Run part K of N; hwperf report merges the parts.",
        metavar="K/N",
        parse=lambda flag, text: by_function("records.report", "parse_shard", text, flag=flag) if text else None,
    ),
    Option(
        "machine-kind",
        "Name of this kind of machine, of N; hwperf report shows all kinds side by side.",
        metavar="NAME[/N]",
        parse=lambda flag, text: by_function("records.report", "parse_kind", text, flag=flag) if text else None,
    ),
    Option(
        "parallel",
        "Run this many pairs side by side, each on its own processors.",
        metavar="N",
        default="1",
        parse=side_by_side,
    ),
    Option("disable", "Run measured tests once, without measuring or judging.", kind="bool"),
)
# For `hwperf selfcheck`: work that is added to each call of the candidate, to see it found.
_HIDDEN = (Option("plant", "", metavar="PERCENT", parse=planted),)
_INI = (
    Option(
        "budgets",
        "Budgets of every measured test, one KEYWORD=LIMIT a line; a marker's keyword wins.",
        kind="lines",
        parse=lines("records.budgets", "parse_budget_lines"),
    ),
    Option(
        "carbon",
        "Report the carbon of each call, one KEY=VALUE a line, e.g. intensity_g_per_kwh=400.",
        kind="lines",
        parse=lines("stats.carbon", "parse_carbon_lines", empty=None),
    ),
    Option(
        "rerun",
        "auto: --hwperf-compare reruns the stored revision; never: it uses the stored timings.",
        default="auto",
        parse=choice("auto", "never"),
    ),
    Option(
        "base-env",
        "Environment of the baseline: shared (this one), build (one of its own), or auto.",
        default="auto",
        parse=choice("auto", "shared", "build"),
    ),
    Option("anchor", "Release that --hwperf-against=anchor reruns, e.g. v1.4."),
    Option(
        "anchor-builds",
        "Builds against the anchor that share the rate of false alarms.",
        default="365",
        parse=builds,
    ),
    Option(
        "worker-time",
        "Seconds without output before a fresh process is ended.",
        default="300",
        parse=seconds(24 * 3600),
        field="worker_time_s",
    ),
    Option(
        "silence",
        "Seconds without output before a test is tried alone.",
        default="60",
        parse=seconds(24 * 3600),
        field="silence_s",
    ),
    Option(
        "shortest",
        "Shortest call that --hwperf-all measures, in seconds.",
        default="0.0001",
        parse=seconds(3600),
        field="shortest_s",
    ),
    Option(
        "gc",
        "Garbage collector during timed calls: on (as the program sets it) or off.",
        default="on",
        parse=choice("on", "off"),
    ),
    Option("watts", "Idle and busy watts of one vCPU for the energy estimate, e.g. 0.5..2.1."),
    Option("serving-batch", "Production batch size; tests of another one warn.", default="0", parse=rows),
    Option("cache", "Keep converted models for later runs.", kind="bool", default=True),
)
for _one in _INI:
    _one.is_ini = True
OPTIONS = (*_EVERYDAY, *_MORE, *_HIDDEN, *_INI)
VALUED = frozenset(option.flag for option in OPTIONS if option.metavar)  # options that take a value
_GONE = {
    "--hwperf-html": "--hwperf-report=FILE.html",
    "--hwperf-json": "--hwperf-report=FILE.json",
    "--hwperf-markdown": "--hwperf-report=FILE.md",
    "--hwperf-artifacts": "--hwperf-report=DIR",
    "--hwperf-gate-time": "--hwperf-time-limit",
    "--hwperf-max-time": "--hwperf-sample-time",
    "--hwperf-benchmark-fixture": "--hwperf-benchmark",
    "--hwperf-no-cache": "-o hwperf_cache=false",
    **{f"--hwperf-{option.name}": f"-o {option.ini}=VALUE" for option in _INI},
}


class _Gone(argparse.Action):
    """Refuses an option that is gone, and names the one that took its place."""

    def __call__(self, _parser: object, _namespace: object, _values: object, option_string: str | None = None) -> None:
        raise pytest.UsageError(f"{option_string} is no option: give {_GONE[str(option_string)]}")


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
    for option in OPTIONS:
        kind: Any = {"args": "linelist", "lines": "linelist"}.get(option.kind, option.kind)
        default = {"bool": bool(option.default), "linelist": []}.get(kind, option.default)
        parser.addini(option.ini, _shown(option) if option.is_ini else f"As {option.flag}.", type=kind, default=default)


def _shown(option: Option) -> str:
    if not option.help:
        return argparse.SUPPRESS
    default = str(option.default).replace("%", "%%") if option.default and option.kind == "string" else ""
    return f"{option.help} Default: {default}." if default else option.help


def read_flag(config: pytest.Config, name: str) -> bool:
    """Read one flag before the session is configured: the command line first, then the ini file."""
    return bool(config.getoption(name) or config.getini(name))
