"""Shards of a session: which tests it runs, and what its report says of that."""

import re
from dataclasses import asdict
from typing import Any

import pytest

from pytest_hwperf.plugin.session.settings import OPTIONS
from pytest_hwperf.plugin.session.state import Division, is_measured, node_of, session_of
from pytest_hwperf.records.report import Shard, selection_of, shard_of

# Fields of the settings on which verdicts depend.
_COMPARED = (
    *("against", "compare", "rerun", "baseline", "margins", "undecided", "strict", "sample_time_s", "gc", "plant"),
    *("prove_equal", "disable"),
)
_OUTPUT = "hwperf_parted"  # of a worker of pytest-xdist, how it divided the tests


class Shards:
    """Registered in a session that is a shard: it leaves the tests of the others out."""

    def __init__(self, config: pytest.Config, shard: tuple[int, int]) -> None:
        self._config = config
        self._number, self._of = shard
        self._is_told = False  # whether workers have told how the tests were divided

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests of other shards, after all that -k, -m and other plugins have left out."""
        own = [item for item in items if shard_of(name_of(item), self._of) == self._number]
        session_of(config).parted = Division(
            selected=len(items),
            selection=selection_of(node_of(item) for item in items),
            measured=sum(map(is_measured, items)),
            own=len(own),
        )
        kept = {id(item) for item in own}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = own

    def pytest_report_collectionfinish(self, config: pytest.Config) -> str | None:
        """Say what this shard runs; nothing yet where other processes have collected."""
        return self._said(config)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over from a worker of pytest-xdist how it divided the tests: each of them collects all."""
        given = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if given is not None and session_of(self._config).parted is None:
            session_of(self._config).parted = Division(**given)
            self._is_told = True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._is_told:
            terminalreporter.write_line(self._said(self._config) or "")

    def _said(self, config: pytest.Config) -> str | None:
        state = session_of(config)
        if state.parted is None:
            return None
        own, alpha = (f"{100 * rate:g} %" for rate in (state.settings.own_alpha, state.settings.alpha))
        tests = f"{state.parted.own} of {state.parted.selected} tests"
        paired = bool(state.settings.against or state.settings.compare) and state.settings.parts > 1
        kind = state.settings.machine_kind
        named = [f"shard {self._number} of {self._of}"] if self._of > 1 or kind is None else []
        named += [f"on machine kind {kind[0]}"] if kind else []
        rate = f", with {own} of the false-alarm rate of {alpha}" if paired else ""
        return f"hwperf: {' '.join(named)} runs {tests}{rate}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Let a shard without tests pass, where others have some; a worker of pytest-xdist tells its controller."""
        parted = session_of(session.config).parted
        if parted is not None and hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_OUTPUT] = asdict(parted)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and parted is not None and parted.selected:
            session.exitstatus = pytest.ExitCode.OK


def name_of(item: pytest.Item) -> str:
    """Return the name by which a test is assigned: what is compared with each other stays on one machine.

    The points of a sweep go by their function, and the scenarios of a test by its id without theirs.
    """
    function, bracket, parameters = node_of(item).partition("[")
    if item.get_closest_marker("hwsweep"):
        return function
    given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    scenario = given.get("scenario")
    if not (bracket and isinstance(scenario, str)):
        return node_of(item)
    return function + bracket + re.sub(rf"(?<!\w){re.escape(scenario)}(?!\w)", "…", parameters, count=1)


def shard_of_session(config: pytest.Config, exit_code: int, failed: tuple[str, ...]) -> Shard:
    state = session_of(config)
    settings, parted = state.settings, state.parted
    assert settings.shard is not None  # noqa: S101 - else nobody asks
    number, of = settings.shard
    flags = {option.field: option.flag for option in OPTIONS}
    empty = exit_code == pytest.ExitCode.NO_TESTS_COLLECTED and parted is not None and parted.selected > 0
    return Shard(
        number=number,
        of=of,
        alpha=settings.alpha,
        selected=parted.selected if parted else 0,
        selection=parted.selection if parted else "",
        settings={flags[name]: _text(getattr(settings, name)) for name in _COMPARED},
        exit_code=0 if empty else int(exit_code),
        failed=failed,
        kind=settings.machine_kind[0] if settings.machine_kind else "",
        kinds=settings.machine_kind[1] if settings.machine_kind else 1,
    )


def _text(value: object) -> str:
    """Write the value of an option: of margins their sizes, however they were typed."""
    if isinstance(value, tuple):
        return ", ".join(f"{one.metric}_{one.statistic}={one.size:g} {one.scale}" for one in value)
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else f"{value}"
