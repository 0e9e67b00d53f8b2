"""The paired gate of a session: which baseline is rerun, and what its pairs compare."""

import os
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from pytest_hwperf.checkout.both import tree_of
from pytest_hwperf.checkout.building import BuildPlace, Built, run_builds
from pytest_hwperf.checkout.layer import Interpreter
from pytest_hwperf.checkout.revision import date_of, has_commit, named_revision, resolve
from pytest_hwperf.gate.gate import run_gate
from pytest_hwperf.gate.preparing import GateRequest
from pytest_hwperf.gate.result import summary
from pytest_hwperf.host.files import is_file, is_folder, remedy_of_writing
from pytest_hwperf.host.launch import undisturbed
from pytest_hwperf.host.progress import ProgressLine
from pytest_hwperf.host.source_files import loaded_files
from pytest_hwperf.plugin.session.command import pytest_command
from pytest_hwperf.plugin.session.settings import Settings
from pytest_hwperf.plugin.session.state import is_measured, session_of, test_of
from pytest_hwperf.plugin.session.terminal import gate_line, line_of, show_pairs
from pytest_hwperf.plugin.session.training import REMEDY, trained_by
from pytest_hwperf.records.contracts import CountingMeter
from pytest_hwperf.records.errors import HwperfError, UsageProblem
from pytest_hwperf.records.evidence import COMMIT_DIGITS
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import named_code, present_code
from pytest_hwperf.records.text import shortened, visible, visible_lines
from pytest_hwperf.records.units import counted, some_of
from pytest_hwperf.stats.pairs.hypotheses import EnergySource, MeasuredTest, why_not_rerun
from pytest_hwperf.stats.pairs.sequence import check_alpha
from pytest_hwperf.stats.stored.compare import rerun_of
from pytest_hwperf.stats.stored.history import ANCHOR


def rerun(session: pytest.Session) -> None:
    """Run the pairs for every measured test of the session, if pairs were asked for."""
    config = session.config
    items = [item for item in session.items if is_measured(item)]
    if not items and not _workers(config):  # who hands tests out to workers has collected none
        _check_nothing_asked(session)
        return
    try:
        against, name = _against(config, items)
        unpaired = session_of(config).unpaired  # and --keep-duplicates may name one twice
        items = list({item.nodeid: item for item in items if item.nodeid not in unpaired}.values())
        if not against:
            return
        with gate_line(config) as shown:
            if trained := ", ".join(trained_by(items)):
                shown.say(f"hwperf: every process of the comparison trains again in the fixture {trained}: {REMEDY}")
            result = run_gate(_request(config, unfinished_first(config, items), against, name, shown))
    except UsageProblem as error:
        stored = "" if session_of(config).settings.reruns else "; -o hwperf_rerun=never compares with what is stored"
        raise pytest.UsageError(f"hwperf: {error}{stored}") from error
    except HwperfError as error:
        raise pytest.UsageError(visible_lines(f"hwperf: {error}")) from error
    except OSError as error:
        remedy = remedy_of_writing(error)
        raise pytest.UsageError(visible_lines(f"hwperf: {error}{remedy and f': {remedy}'}")) from error
    state = session_of(config)
    for line in (summary(result, len(items), _present(config)), *result.gate.warnings):
        shown.say(f"hwperf: {line}")
    state.gate = result
    remember_unfinished(config, items, result.completeness.unfinished)
    if result.is_interrupted:
        raise KeyboardInterrupt


def asked(config: pytest.Config) -> str:
    """Say which code is compared with which, before anything runs."""
    against, name = _against(config, ())
    is_commit = not is_folder(config.invocation_params.dir / against)
    commit = resolve(config.rootpath, against) if is_commit else ""
    return f"{_present(config)} against {named_code(name, commit, date_of(config.rootpath, commit))}"


def _present(config: pytest.Config) -> str:
    state = session_of(config)
    return present_code(state.revision.commit, state.revision_date, changed=state.revision.changed)


def check_against(config: pytest.Config) -> None:
    """Refuse what would only fail after the collection: test workers that run at the same time, an unknown revision."""
    settings = session_of(config).settings
    try:
        check_alpha(settings.own_alpha)
    except UsageProblem as error:
        raise pytest.UsageError(f"--hwperf-alpha: {error}") from error
    if settings.base_python and not is_file(config.invocation_params.dir / settings.base_python):
        raise pytest.UsageError(
            f"--hwperf-base-python={shortened(settings.base_python)} is no file; give an interpreter"
        )
    against, is_there = settings.against, is_folder(config.invocation_params.dir / settings.against)
    try:
        if against and not is_there:
            resolve(config.rootpath, against)
        elif against and (revision := named_revision(config.rootpath, against)):
            choice = f"give ./{against} for the folder, or {revision} for the revision"
            raise UsageProblem(f"{against!r} is a folder and a revision: {choice}")
    except HwperfError as error:
        option = "hwperf_anchor" if settings.is_anchored else "--hwperf-against"
        raise pytest.UsageError(visible_lines(f"{option}: {error}")) from error
    if _workers(config):
        raise pytest.UsageError(
            "--hwperf-against needs the machine for itself, and -n starts test workers side by side: add -n0 to the "
            "same command; tests that hwperf does not measure may run before with -n and --hwperf-skip"
        )


def _check_nothing_asked(session: pytest.Session) -> None:
    """Refuse a run without a measured test whose command line asks for a comparison; the ini may serve other runs."""
    config = session.config
    settings, parted = session_of(config).settings, session_of(config).parted
    if parted is not None and parted.measured:
        return  # the measured tests are in other shards
    asked = [f"--hwperf-against={settings.against}"] if config.getoption("hwperf_against") else []
    asked += [f"--hwperf-base-with={one}" for one in config.getoption("hwperf_base_with") or ()]
    if asked and not settings.skip:
        raise pytest.UsageError(f"{asked[0]}: nothing to compare: {_how_to_measure(session.items, settings)}")


def _how_to_measure(items: Sequence[pytest.Item], settings: Settings) -> str:
    """Say how tests of which none is measured become measured ones."""
    benchmarks = sum("benchmark" in getattr(item, "fixturenames", ()) for item in items)
    if not items:
        return "no test was selected"
    if benchmarks and not settings.benchmark:
        uses = counted(benchmarks, "selected test")
        return f"add --hwperf-benchmark, for the fixture benchmark of {uses}, or --hwperf-all for all tests"
    return (
        f"{counted(len(items), 'test')} selected, none of them measured: add --hwperf-all to compare all of them, or "
        "mark those that matter with @pytest.mark.hwbudget"
    )


def _against(config: pytest.Config, items: Sequence[pytest.Item]) -> tuple[str, str]:
    """Return what to rerun and how to call it; "" where stored timings have to do, which is then reported."""
    state = session_of(config)
    settings = state.settings
    packages = ", ".join(settings.base_with)
    if settings.against:
        name = f"{ANCHOR} {settings.against}" if settings.is_anchored else settings.against
        return settings.against, f"{name} with {packages}" if packages else name
    if packages:
        return str(tree_of(config.rootpath)), f"the present code with {packages}"
    return ("", "") if settings.rerun == "never" else _stored_revision(config, {item.nodeid for item in items})


def _stored_revision(config: pytest.Config, tests: Collection[str]) -> tuple[str, str]:
    """Return the revision that most of these tests were saved at, and keep those that are not compared with it."""
    state = session_of(config)
    stored = state.store.newest(state.settings.baseline)
    chosen = [one.run for one in stored if one.run.test in tests or _workers(config)]
    if not chosen:
        return "", ""  # the first run: each comparison says that there is no baseline
    (newest, others), name = rerun_of(chosen), f"baseline {state.settings.baseline}"
    known = has_commit(config.rootpath, newest.revision)
    if reason := why_not_rerun(newest, known=known, crowded=_workers(config)):
        _say_not_rerun(config, name, reason)
        return "", ""
    if others:
        state.unpaired = frozenset(others)
        left = f" for {counted(len(others), 'test')} ({some_of(sorted(map(visible, others)))})"
        reason = f"the newest stored run is of another revision than {newest.revision[:COMMIT_DIGITS]}"
        _say_not_rerun(config, name, reason, left)
    return newest.revision, name


def _say_not_rerun(config: pytest.Config, name: str, reason: str, tests: str = "") -> None:
    timings = "timings are compared with the stored runs, without a guaranteed false-alarm rate"
    line_of(config).say(f"hwperf: {name} is not rerun{tests}, since {reason}: {timings}")


def _workers(config: pytest.Config) -> bool:
    return bool(config.getoption("tx", None)) or str(config.getoption("numprocesses", None) or 0) != "0"


def _request(
    config: pytest.Config, items: Sequence[pytest.Item], against: str, name: str, shown: ProgressLine
) -> GateRequest:
    settings, here = session_of(config).settings, config.invocation_params.dir
    folder = here / against
    tests = list(map(_measured_test, items))
    files = list(dict.fromkeys(item.path for item in items if item.path.exists()))
    if outside := [file for file in files if not file.is_relative_to(config.rootpath)]:
        raise UsageProblem(
            f"{outside[0]} is not below pytest's rootdir {config.rootpath}, so fresh processes give its tests other "
            "names: give --rootdir=DIR with a folder above the tests"
        )
    return GateRequest(
        tests=tests,
        files=files,
        command=pytest_command(config),
        against=folder if is_folder(folder) else against,
        name=name,
        alpha=settings.own_alpha,
        time_s=settings.time_limit_s,
        silence_s=settings.silence_s,
        logs=logs_of(config),
        energy=_energy(config)
        if any(METRICS[name].in_turns == "window" for test in tests for name in test.metrics if name in METRICS)
        else None,
        share=settings.share,
        build=settings.build,
        built=session_of(config).built or Built(),
        base_python=Interpreter(path=str(here.absolute() / settings.base_python)) if settings.base_python else None,
        base_env=settings.base_env,
        base_with=settings.base_with,
        parallel=settings.parallel,
        plant=settings.plant,
        explain="never" if settings.plant else settings.explain,  # what was planted is known
        prove_equal=settings.prove_equal,
        affected=settings.affected,
        operators=settings.operators,
        progress=partial(show_pairs, shown),
        say=lambda line: shown.say(f"hwperf: {line}"),
    )


def _measured_test(item: pytest.Item) -> MeasuredTest:
    markers = test_of(item).markers
    return MeasuredTest(
        node=item.nodeid,
        margins=markers.margins,
        named=frozenset(margin.key for margin in markers.named),
        budgeted=frozenset(budget.metric for budget in markers.budgets),
        is_serial=markers.is_serial,
    )


def _energy(config: pytest.Config) -> EnergySource | None:
    """Return the counter that energy is compared by; None where there is none, or an estimate only."""
    meter = session_of(config).energy
    if meter is None or meter.covers == "estimate":
        return None
    step = meter.tick_s / meter.shortest_window_s if isinstance(meter, CountingMeter) else 0.0
    return EnergySource(source=meter.source, step=step)


def logs_of(config: pytest.Config) -> Path:
    """Return the folder in which logs of lost pairs and failed builds are kept."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return config.rootpath / ".hwperf" / "logs"
    try:
        return Path(cache.mkdir("hwperf-logs"))
    except OSError as error:
        place = config.rootpath / config.getini("cache_dir")
        raise UsageProblem(
            f"{place} takes no logs ({error.strerror}): free some space or make it writable, or choose another folder "
            "with -o cache_dir=DIR"
        ) from error


def build_here(config: pytest.Config) -> None:
    """Run the commands of --hwperf-build in the user's own tree; the baseline's is built when it is there."""
    state = session_of(config)
    if state.settings.disable or state.settings.skip or config.option.collectonly or hasattr(config, "workerinput"):
        return
    place = BuildPlace(
        side="present tree",
        directory=config.rootpath,
        environment=undisturbed(os.environ),
        interpreter=sys.executable,
        logs=logs_of(config),
    )
    until = monotonic() + state.settings.time_limit_s
    try:
        state.built = run_builds(state.settings.build, place, until, loaded_files())
    except (UsageProblem, OSError) as error:
        raise pytest.UsageError(visible_lines(f"hwperf: {error}")) from error


_UNFINISHED = "hwperf/unfinished"
_MOST_UNFINISHED = 10_000  # node ids that are kept


def unfinished_first(config: pytest.Config, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the items with those first that the last gate has not finished; the others keep their order."""
    left = set(_kept(config))
    return sorted(items, key=lambda item: item.nodeid not in left)


def remember_unfinished(config: pytest.Config, items: Sequence[pytest.Item], unfinished: Collection[str]) -> None:
    """Keep which of the items are unfinished now; what is known of other tests stays."""
    cache, before, asked = getattr(config, "cache", None), _kept(config), {item.nodeid for item in items}
    now = [*(node for node in before if node not in asked), *sorted(unfinished)][-_MOST_UNFINISHED:]
    if cache is not None and now != before:
        cache.set(_UNFINISHED, now)


def _kept(config: pytest.Config) -> list[str]:
    """Return what the cache holds, which anyone may have written."""
    cache = getattr(config, "cache", None)
    found = cache.get(_UNFINISHED, []) if cache is not None else []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
