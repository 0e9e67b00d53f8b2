"""The options of this user's pytest command that worker processes inherit, and what they must not."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from pytest_hwperf.host.launch import Command, PytestCommand
from pytest_hwperf.plugin.session.settings import STARTED, VALUED
from pytest_hwperf.plugin.session.state import called_there, session_of
from pytest_hwperf.records.errors import WorkerError

# Options that belong to this session alone: they stop it, select its tests, write its files or say how much it shows.
_FLAGS = frozenset(
    {
        *("-d", "-f", "--looponfail", "-x", "--exitfirst", "--pdb", "--trace"),
        *("-v", "-vv", "-vvv", "--verbose", "-q", "-qq", "--quiet"),
        *("--lf", "--last-failed", "--ff", "--failed-first"),
        *("--nf", "--new-first", "--sw", "--stepwise", "--sw-skip", "--stepwise-skip"),
        *("--hwperf-save", "--hwperf-only", "--hwperf-skip", "--hwperf-disable", "--hwperf-affected"),
        *("--co", "--collect-only"),
        *("--no-cov", "--no-cov-on-fail", "--cov-append", "--cov-branch", "--cov-reset"),
        "--timeout-disable-debugger-detection",
        *("--testmon", "--testmon-noselect", "--testmon-nocollect", "--testmon-forceselect"),
        *("--store-durations", "--clean-durations"),
    }
)
_WITH_VALUE = frozenset(
    {
        *("-k", "-m", "-n", "--numprocesses", "--dist", "--tx", "--maxfail", "--maxprocesses", "--deselect"),
        *("--basetemp", "--junitxml", "--junit-xml", "--report-log", "--log-file", "--html", "--alluredir"),
        *("--json-report-file", "--durations", "--hwperf-report", "--hwperf-shard", "--hwperf-machine-kind"),
        *("--cov-report", "--cov-config", "--cov-fail-under", "--cov-context", "--cov-precision"),
        *("--timeout", "--timeout-method", "--session-timeout"),
        *("--splits", "--group", "--durations-path", "--splitting-algorithm", "--testmon-env"),
    }
)
_WITH_OPTIONAL_VALUE = frozenset({"--cov"})
# Options that a process of a pair must not inherit, and that a command which repeats this session's needs.
_FLAGS_OF_GATE = frozenset({"--hwperf-compare", "--hwperf-prove-equal"})
_VALUED_OF_GATE = frozenset(
    {
        *("--hwperf-against", "--hwperf-time-limit", "--hwperf-base-python", "--hwperf-base-with", "--hwperf-share"),
        *("--hwperf-build", "--hwperf-parallel", "--hwperf-plant", "--hwperf-instructions", "--hwperf-explain"),
        *("--hwperf-baseline", "-c", "--config-file", "--rootdir"),
    }
)
# Options whose values a report names anew (a branch moves on), or must not name: a store's URL may hold a password.
_NAMED_ANEW = ("--hwperf-against", "--hwperf-alpha", "--hwperf-compare", "--hwperf-baseline", "--hwperf-store")
# What keeps a plugin from disturbing a worker: pytest-timeout would count the waiting. Where a plugin is missing
# its option is an error, and another interpreter may lack it.
_NEUTRAL = {"xdist": "-n0", "timeout": "--timeout=0", "pytest_cov": "--no-cov", "testmon": "--no-testmon"}
_SEED = "_seed"  # how the name of such an option ends, after that of its plugin
_OWN = "HWPERF_"  # begins the names of this plugin's variables, which it sets in the session too
_SHORT = ("-k", "-m", "-n")  # whose value may follow without a space
_INI, _INIS = "--override-ini", ("-o", "--override-ini")


def pytest_command(config: pytest.Config) -> PytestCommand:
    """Return the parts of this user's command, for processes that run a test of it.

    They keep a worker from stopping early, and from writing files of this session. An option of a plugin that is
    switched off is none: `--strict-config` refuses it.
    """
    has = config.pluginmanager.hasplugin
    started = config.stash[STARTED]
    set_here = {name: value for name, value in os.environ.items() if name.startswith(_OWN)}
    environment = {**started.environment, **set_here}
    own = ("-o", "log_file=") if has("logging") else (), ("--junitxml=",) if has("junitxml") else ()
    left_out = ("PYTEST_XDIST", "PYTEST_CURRENT_TEST")  # what pytest and xdist keep in this process
    return PytestCommand(
        inherited=drop(_given(config), tests=config.getoption("file_or_dir") or ()),
        neutral=["--maxfail=0", "-k", "", "-m", "", *own[0], *own[1]],
        of_plugins={name: option for name, option in _NEUTRAL.items() if has(name)} | _drawn_seeds(config),
        root=config.rootpath,
        inipath=config.inipath,
        directory=Path(config.invocation_params.dir),
        environment={name: value for name, value in environment.items() if not name.startswith(left_out)},
        path=started.path,
        since=started.since,
        keeps_cache=has("cacheprovider"),
        deadline_s=session_of(config).settings.worker_time_s,
    )


def _drawn_seeds(config: pytest.Config) -> dict[str, str]:
    """Return plugin → the option that gives a process the seed of this session.

    A plugin such as pytest-randomly draws a number for its option `--randomly-seed` where the user gives none. Each
    process would draw its own one, and the two sides of a pair would work on other data.
    """
    found = {name.removesuffix(_SEED): value for name, value in vars(config.option).items() if name.endswith(_SEED)}
    return {
        plugin: f"--{plugin}-seed={value}"
        for plugin, value in found.items()
        if isinstance(value, int) and config.pluginmanager.hasplugin(plugin)
    }


def command_for(item: pytest.Item) -> Command:
    """Return the command that runs the file of a test, with the models that this process has converted."""
    if not item.path.exists():
        raise WorkerError(f"{item.nodeid} lies in no file, so that no fresh process can run it")
    from pytest_hwperf.runtimes.cache import session_variables

    command = pytest_command(item.config).for_file(item.path)
    return replace(command, environment={**command.environment, **session_variables()})


def repeated(config: pytest.Config) -> list[str]:
    """Return the options that a command needs to measure and compare a test of this session in the same way.

    It saves nothing, so it needs the name of a baseline only where this session compares with it.
    """
    words = drop(_given(config), tests=config.getoption("file_or_dir") or (), of_gate=False)
    idle = () if session_of(config).settings.compare else ("--hwperf-baseline",)
    told = [word for word in words if not (_option(word) == "--hwperf-store" and "@" in word)]
    return [word for word in told if _option(word) not in idle]


def published(config: pytest.Config) -> tuple[str, ...]:
    """Return those of this plugin, for a report that others read; what it says by itself is left out."""
    own = (word for word in repeated(config) if word.startswith(("--hwperf-", f"{_INI}=hwperf_")))
    return tuple(word for word in own if _option(word) not in _NAMED_ANEW)


def _option(word: str) -> str:
    name, _, value = word.partition("=")
    return f"--{value.partition('=')[0].replace('_', '-')}" if name == _INI else name


def _given(config: pytest.Config) -> list[str]:
    worker = getattr(config, "workerinput", None)
    return worker["mainargv"][1:] if worker else [os.fspath(argument) for argument in config.invocation_params.args]


def drop(given: Sequence[str], tests: Sequence[str], *, of_gate: bool = True) -> list[str]:
    """Return `given` without positional `tests` and the options of the session alone, by default of its gate too."""
    flags = _FLAGS | _FLAGS_OF_GATE if of_gate else _FLAGS
    valued = _WITH_VALUE | _VALUED_OF_GATE if of_gate else _WITH_VALUE
    named = flags | valued | _WITH_OPTIONAL_VALUE
    kept: list[str] = []
    positional, words = list(tests), deque(given)
    while words:
        word = words.popleft()
        takes = word in _WITH_OPTIONAL_VALUE and words and words[0][:1] != "-" and words[0] not in positional
        if takes or (word in valued and words):
            words.popleft()
        elif (word in VALUED or word in _INIS) and words:
            kept.append(f"{_INI if word in _INIS else word}={words.popleft()}")
        elif word.startswith("-ohwperf_"):
            kept.append(f"{_INI}={word.removeprefix('-o')}")
        elif word in positional:
            positional.remove(word)
        elif word.partition("=")[0] not in named and word[:2] not in _SHORT:
            kept.append(word)
    return kept


TIMER: pytest.StashKey[tuple[Any, float]] = pytest.StashKey()  # of pytest-timeout: what was set, and when


@contextmanager
def timeout_paused(item: pytest.Item) -> Iterator[None]:
    """Cancel the timer of a test, and set it again to the time that was left; nothing where there is none."""
    if TIMER not in item.stash:
        yield
        return
    settings, started = item.stash[TIMER]
    left = max(settings.timeout - (perf_counter() - started), 0.001)
    # Signals can be set in the main thread only.
    called_there(item, partial(item.ihook.pytest_timeout_cancel_timer, item=item))
    try:
        yield
    finally:
        later = settings._replace(timeout=left)
        called_there(item, partial(item.ihook.pytest_timeout_set_timer, item=item, settings=later))
