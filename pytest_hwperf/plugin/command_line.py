"""Start this user's pytest again, in fresh processes, for one test: how the command line is made from ours."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.records import Run, Sample
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.processes import Command
from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.measure.fresh_process import cold_samples, memory_samples
from pytest_hwperf.plugin.session import session_state
from pytest_hwperf.plugin.state import MARKERS

MEMORY = ("memory", "memory_first_call", "memory_steady", "memory_retained", "memory_leak")
COLD = ("cold_start", "cold_import", "cold_load", "cold_first_call", "cold_warm_call")
REPEATS = 2  # fresh processes that must confirm an alarm of the stored baseline

_PROCESSES = {"memory": 3, "cold": 5}

# Options of the asking session that a worker must not inherit: they stop it, select other tests, or write its files.
_FLAGS = frozenset(
    {
        *(
            "-d",
            "-f",
            "--looponfail",
            "-x",
            "--exitfirst",
            "--pdb",
            "--trace",
            "--lf",
            "--last-failed",
            "--ff",
            "--failed-first",
        ),
        *("--nf", "--new-first", "--sw", "--stepwise", "--sw-skip", "--stepwise-skip"),
        *("--hwperf-save", "--hwperf-compare", "--hwperf-only", "--hwperf-skip", "--hwperf-disable", "--co"),
        "--collect-only",
    }
)
_WITH_VALUE = frozenset(
    {
        *("-k", "-m", "-n", "--numprocesses", "--dist", "--tx", "--maxfail", "--maxprocesses", "--deselect"),
        *("--basetemp", "--junitxml", "--junit-xml", "--report-log", "--log-file", "--html", "--alluredir"),
        *("--json-report-file", "--durations", "--hwperf-artifacts", "--hwperf-json"),
        *("--hwperf-against", "--hwperf-rerun", "--hwperf-gate-time", "--hwperf-base-python", "--hwperf-share"),
        *("-c", "--config-file", "--rootdir"),
    }
)


def ask_for(item: pytest.Item, role: Literal["memory", "cold"], label: str) -> tuple[list[Sample], dict[str, str]]:
    """Weigh or cold-start one measurement of a test in fresh processes.

    Returns:
        A sample of one value per process for each metric, and metric → reason for each that could not be measured.

    Raises:
        WorkerError: a process crashed, hung or gave no answer.
    """
    if role == "cold":
        return cold_samples(COLD, ask(role, item.nodeid, label, _command(item), processes=_PROCESSES[role]))
    # Peaks do not depend on neighbours, so that processes are weighed side by side; times do.
    cores = session_state(item.config).machine.cores
    answers = ask(role, item.nodeid, label, _command(item), processes=_PROCESSES[role], at_once=cores)
    limits = (budget.limit for budget in item.stash[MARKERS].budgets if budget.metric == "memory_leak")
    return memory_samples(MEMORY, answers, limit=next(limits, None))


def ask_for_sites(item: pytest.Item, label: str) -> WorkerResult:
    """Run one measurement of a test under memray, in one more fresh process.

    Raises:
        WorkerError: the process crashed, hung or gave no answer.
    """
    return ask("sites", item.nodeid, label, _command(item), processes=1)[0]


def repeat_runs(item: pytest.Item) -> list[list[Run]]:
    """Make the whole measurement of a test again in fresh processes; return each one's runs.

    Raises:
        WorkerError: a process crashed, hung or gave no answer.
    """
    answers: list[WorkerResult] = ask("run", item.nodeid, "", _command(item), processes=REPEATS)
    return [answer.runs for answer in answers]


def _command(item: pytest.Item) -> Command:
    config = item.config
    if not item.path.exists():
        raise WorkerError(f"{item.nodeid} lies in no file, so that no fresh process can run it")
    arguments = [*inherited(config), str(item.path), f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        arguments += ["-c", str(config.inipath)]
    return Command(
        arguments=[*arguments, *neutral_options(config)],
        directory=Path(config.invocation_params.dir),
        environment=environment(),
    )


def neutral_options(config: pytest.Config) -> list[str]:
    """Return the options that keep plugins of the asking session from disturbing a worker, or its files."""
    plugins, arguments = config.pluginmanager, ["--maxfail=0", "-o", "log_file=", "-k", "", "-m", ""]
    if plugins.hasplugin("junitxml"):
        arguments.append("--junitxml=")
    if plugins.hasplugin("xdist"):
        arguments.append("-n0")
    if plugins.hasplugin("timeout"):  # pytest-timeout would count the waiting
        arguments.append("--timeout=0")
    if plugins.hasplugin("pytest_cov"):
        arguments.append("--no-cov")
    return arguments


def environment() -> dict[str, str]:
    """Return the environment of a worker: ours, without what tells pytest about ours."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    found.pop("PYTEST_CURRENT_TEST", None)
    return found


def inherited(config: pytest.Config) -> list[str]:
    """Return the options of the asking session's command line, without its tests and what a worker must not do."""
    worker = getattr(config, "workerinput", None)
    given = worker["mainargv"][1:] if worker else [os.fspath(argument) for argument in config.invocation_params.args]
    return drop(given, tests=config.getoption("file_or_dir") or ())


def drop(given: Sequence[str], tests: Sequence[str]) -> list[str]:
    """Return `given` without positional `tests` and without the options that a worker must not inherit."""
    kept: list[str] = []
    positional, words = list(tests), iter(given)
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word in positional:
            positional.remove(word)
        elif not _is_dropped(word):
            kept.append(word)
    return kept


def _is_dropped(word: str) -> bool:
    name = word.partition("=")[0]
    joined = any(word.startswith(short) and word != short for short in ("-k", "-m", "-n") if not word.startswith("--"))
    return word in _FLAGS or name in _WITH_VALUE or joined
