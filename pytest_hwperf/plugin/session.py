"""What every measurement of a session shares, made on first use: machine, revision, meter and store."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import pytest

from pytest_hwperf import registry
from pytest_hwperf.core.contracts import Meter, Store
from pytest_hwperf.core.errors import MeterUnavailable, UsageProblem
from pytest_hwperf.core.records import Machine
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.host.resident import resident
from pytest_hwperf.meters.energy.estimate import WATTS_VARIABLE, EstimateMeter
from pytest_hwperf.meters.energy.nvml import in_use, nvml_meter
from pytest_hwperf.meters.memory.peak_rss import PeakRss
from pytest_hwperf.plugin.options import Settings
from pytest_hwperf.plugin.state import SESSION_STATE, SETTINGS
from pytest_hwperf.trees.revision import revision_of

# Tried in this order; the last one always works, and is labelled an estimate.
_ENERGY_SOURCES = ("rapl", "perf", "estimate")


@dataclass(frozen=True, kw_only=True)
class SessionState:
    """Shared by all tests of one process."""

    settings: Settings
    root: str  # of the tests
    started_at: str  # ISO 8601, UTC

    @cached_property
    def machine(self) -> Machine:
        """This machine."""
        return describe_machine()

    @cached_property
    def revision(self) -> str:
        """The revision of the tests' repository, "" where there is none."""
        return revision_of(self.root)

    @cached_property
    def energy(self) -> Meter | None:
        """The energy meter that was asked for; None when energy is off."""
        given = {WATTS_VARIABLE: self.settings.watts} if self.settings.watts else {}
        return choose_energy_meter(self.settings.energy, {**os.environ, **given})

    def boards(self) -> Meter | None:
        """A meter of the GPUs that this process uses, beside the one of the processor; None where it uses none.

        Raises:
            MeterUnavailable: it uses one whose energy cannot be read, or another source alone was asked for.
        """
        if self.settings.energy == "nvml" or not in_use(os.environ):
            return None
        if self.settings.energy != "auto":
            raise MeterUnavailable(f"--hwperf-energy={self.settings.energy} counts no board; auto would")
        return self._boards

    @cached_property
    def _boards(self) -> Meter:
        return nvml_meter(os.environ, metric="gpu_energy")

    @property
    def coefficients(self) -> dict[str, str]:
        """The watts of an estimate, which every run keeps: its figures mean nothing without; {} of a counter."""
        return {"energy_watts": str(self.energy.watts)} if isinstance(self.energy, EstimateMeter) else {}

    @cached_property
    def peak_rss(self) -> PeakRss:
        """This process's high-water mark, which all who reset it share.

        Raises:
            MeasurementError: the system tells none.
        """
        return PeakRss(resident())

    def close(self) -> None:
        """Let go of the meters that were opened; what was never asked for is not opened for it."""
        for name in ("energy", "_boards"):
            meter: Meter | None = self.__dict__.get(name)  # where `cached_property` keeps it
            if meter is not None:
                meter.close()

    @cached_property
    def store(self) -> Store:
        """The store of baselines."""
        store: Store = registry.find("stores", self.settings.store)(self.settings.location)
        return store

    @cached_property
    def neighbours(self) -> str:
        """A warning when other test workers disturb the timings; "" when there are none."""
        count = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
        return f"{count} test workers ran side by side: neighbours disturb timings" if count != "1" else ""


def session_state(config: pytest.Config) -> SessionState:
    """Return what the session shares; nothing of it is looked up before it is needed."""
    if SESSION_STATE not in config.stash:
        config.stash[SESSION_STATE] = SessionState(
            settings=config.stash[SETTINGS],
            root=str(config.rootpath),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
    return config.stash[SESSION_STATE]


def choose_energy_meter(wanted: str, environment: Mapping[str, str]) -> Meter | None:
    """Open the energy source that was asked for; `auto` takes the first that works and keeps why others did not.

    Raises:
        UsageProblem: a source asked for by name is unknown or not there; says what to do about it.
    """
    if wanted == "off":
        return None
    refused: list[str] = []
    for name in _ENERGY_SOURCES if wanted == "auto" else (wanted,):
        try:
            meter: Meter = registry.find("energy_meters", name)(environment, refused=tuple(refused))
        except MeterUnavailable as reason:
            refused.append(f"{name}: {reason}")
        else:
            return meter
    raise UsageProblem(f"--hwperf-energy={wanted}: {' '.join(refused)}")
