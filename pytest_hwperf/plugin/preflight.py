"""Checks before a long run: stores, energy sources, folders and revisions that cannot be used."""

import sys
from pathlib import Path

import pytest

from pytest_hwperf import registry
from pytest_hwperf.host.files import check_writable, is_file, is_folder, refused_name, same_place
from pytest_hwperf.meters.estimate import WATTS_VARIABLE, watts_here
from pytest_hwperf.plugin.session.parsers import REPORTS
from pytest_hwperf.plugin.session.settings import Settings
from pytest_hwperf.plugin.session.state import session_of, without_collection
from pytest_hwperf.records.errors import HwperfError, UsageProblem
from pytest_hwperf.records.text import shortened, visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.reports.document import wrapped

_SUMMARIES = ("benchmark_summary.json", "hardware_tradeoffs_summary.json")  # the artifacts that other reports are like


def check_resources(config: pytest.Config) -> None:
    """Refuse what would only fail after a long run: a store, a source of energy or a folder that cannot be used."""
    shared = session_of(config)
    settings = shared.settings
    try:
        registry.check("stores", settings.store)
        if settings.keeps_runs:
            with without_collection():
                shared.store.check(settings.baseline, writing=settings.save)
        if settings.energy not in ("auto", "off"):
            registry.check("energy_meters", settings.energy)
    except HwperfError as error:
        raise pytest.UsageError(str(error)) from error
    if settings.affected and (settings.against or settings.compare) and sys.version_info < (3, 12):
        raise pytest.UsageError(
            "--hwperf-affected needs Python 3.12 or later: run python3.12 -m pytest, or leave the option and its line "
            "in the configuration file out"
        )
    if settings.reruns:
        from pytest_hwperf.plugin.judging.gate import check_against

        check_against(config)
    _check_outputs(config, settings)
    if settings.build and (settings.reruns or (settings.compare and settings.rerun != "never")):
        from pytest_hwperf.plugin.judging.gate import build_here

        build_here(config)


def _check_outputs(config: pytest.Config, settings: Settings) -> None:
    folder, junit = config.invocation_params.dir, config.getoption("xmlpath", None)
    named = {f"--hwperf-report={shortened(name)}": folder / name for name in settings.reports}
    folders = {given: place for given, place in named.items() if not place.name.endswith(REPORTS)}
    for given, place in named.items():
        if why := refused_name(place):
            raise pytest.UsageError(f"{given}: {why}; give another path")
        if given in folders and is_file(place):
            raise pytest.UsageError(f"{given} is a file; give a folder, or a file that ends in {', '.join(REPORTS)}")
        if given not in folders and is_folder(place):
            raise pytest.UsageError(f"{given} is a folder; give a file in it")
    within = {f"{name} of {given}": place / name for given, place in folders.items() for name in _SUMMARIES}
    places = within | ({"--junitxml": folder / junit} if junit else {}) | named
    if twice := same_place({**places, "--hwperf-store": Path(settings.location.removeprefix("sqlite:///"))}):
        raise pytest.UsageError(f"{twice[0]} and {twice[1]} name one path: give each its own")
    for given, place in named.items():
        _check_writable(given, place, is_folder=given in folders)
    if any(place.suffix == ".html" for place in named.values()):
        from pytest_hwperf.reports.html.page import check_installed

        try:
            check_installed()
        except UsageProblem as problem:
            raise pytest.UsageError(f"--hwperf-report: {problem}") from problem


def _check_writable(given: str, path: Path, *, is_folder: bool) -> None:
    """Refuse a place where nothing can be written; its folder is made if that lies in one that is there."""
    place = path / "report" if is_folder else path
    if not place.parent.exists():
        place = place.parent.with_name(".report")
        if not place.parent.is_dir():
            raise pytest.UsageError(f"{given}: there is no folder {place.parent}; make it, or give another path")
    try:
        check_writable(place)
    except OSError as error:
        raise pytest.UsageError(f"{given}: {error.strerror}; give another path") from error


def check_energy(config: pytest.Config) -> None:
    """Open the source of energy that was asked for, before anything is measured."""
    settings = session_of(config).settings
    if settings.disable or config.option.collectonly:
        return
    try:
        if settings.energy not in ("auto", "off"):
            _ = session_of(config).energy
        if settings.watts:
            watts_here({WATTS_VARIABLE: settings.watts})
    except HwperfError as error:
        raise pytest.UsageError(str(error)) from error


def header(config: pytest.Config) -> list[str]:
    """Say what is compared with what, and on which machine, in the width of the terminal."""
    from pytest_hwperf.plugin.judging.gate import asked

    settings = session_of(config).settings
    doing = " and ".join(filter(None, ["comparing with" * settings.compare, "saving to" * settings.save]))
    parts = [f"{asked(config)}, in pairs"] if settings.reruns else []
    parts += [f"{doing} baseline {settings.baseline} in {settings.location}"] if doing else []
    machine = session_of(config).machine
    cores = counted(machine.cores, "core")
    place = f"machine {machine.fingerprint} ({machine.cpu_model}, {cores})"
    texts = (", ".join(parts), f"{place}, alpha {100 * settings.alpha:.3g} %, energy {settings.energy}")
    width = config.get_terminal_writer().fullwidth
    return [line for text in texts for line in wrapped(visible(f"hwperf: {text}"), width)]
