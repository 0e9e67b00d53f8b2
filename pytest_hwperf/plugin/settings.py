"""The settings of a session: the values of all options and ini keys, read once and checked against each other."""

import os
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_hwperf.plugin.option_values import REPORTS
from pytest_hwperf.plugin.options import DEFAULT_STORE, OPTIONS, Option

_ANCHOR = "anchor"  # as --hwperf-against names it


class Settings:
    """The values of all options and ini keys, checked.

    Neither a `NamedTuple` nor a dataclass: to generate one takes up to half a millisecond in every run of pytest.
    """

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    against: str  # git revision or folder, "" for none
    all: bool
    benchmark: bool
    save: bool
    compare: bool
    only: bool
    skip: bool
    margins: tuple[Any, ...]  # records.verdict.Margin
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
    budgets: tuple[Any, ...]  # records.verdict.Budget
    carbon: Any  # stats.carbon.CarbonInputs, None without hwperf_carbon
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


def read_settings(config: pytest.Config) -> Settings:
    """Read and check everything, so that a bad value ends the session before it begins."""
    values = {option.field or option.name.replace("-", "_"): _value(config, option) for option in OPTIONS}
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


def _value(config: pytest.Config, option: Option) -> Any:
    """Take the command line first, then the ini file, then the default, and parse it."""
    given = None if option.is_ini else config.getoption(option.ini)
    if option.metavar and given is not None:
        _check_given(option, [given] if isinstance(given, str) else given)
    value = config.getini(option.ini) if given is None else given
    return value if option.parse is None else option.parse(option.flag, value)


def _check_given(option: Option, values: Sequence[str]) -> None:
    """Refuse an empty value of the command line: an unset variable of a workflow would switch the option off unseen."""
    if any(not value.strip() for value in values):
        raise pytest.UsageError(
            f"{option.flag}= is empty, as an unset variable leaves it: give {option.flag}={option.metavar}, or leave "
            f"the option out; -o {option.ini}= takes back what the configuration file says"
        )


def _store(config: pytest.Config, url: str) -> tuple[str, str]:
    """Return scheme and location; the parser is loaded only for another store than the default."""
    if url == DEFAULT_STORE:
        return "json", str(config.rootpath / ".hwperf")
    from pytest_hwperf.stores.location import locate

    try:
        return locate(url, config.rootpath)
    except ValueError as problem:
        raise pytest.UsageError(f"--hwperf-store={problem}") from problem
