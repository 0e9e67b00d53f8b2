"""Carbon of a call after the SCI specification: the user's figures times what was measured; shown, never judged.

References:
    Green Software Foundation, Software Carbon Intensity 1.1, ISO/IEC 21031:2024: SCI = (E x I + M) / R.
"""

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest, parse_assignments
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import BOARD_ENERGY, ENERGY
from pytest_hwperf.records.run import Sample, replace
from pytest_hwperf.records.structs import Record

CARBON_KEYS = (
    *("intensity_g_per_kwh", "intensity_source", "embodied_kg", "lifetime_years", "resource_share"),
    *("per", "units_per_call"),
)
J_PER_KWH = 3.6e6
_S_PER_YEAR, _G_PER_KG = 365 * 24 * 3600, 1000
_YEAR = re.compile(r"(?<!\d)(19|20)\d\d(?!\d)")
_UNIT = re.compile(r"[A-Za-z][\w -]*")
_OPERATIONAL, _EMBODIED = "carbon_operational", "carbon_embodied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machinery:
    """The carbon of making the machine, and the share of it that the tests bear."""

    embodied_g: float  # of the whole machine, g CO2 equivalent, above 0
    lifetime_s: float  # above 0
    share: float  # of its resources that are reserved for the tests, above 0 to 1

    def embodied(self, seconds: float) -> float:
        """Return the grams of `seconds` of use: M = TE x TiR / EL x RR / ToR.

        Example: 1000 kg over 4 years, 10 ms, the whole machine: 79 µg.
        """
        return self.embodied_g * seconds / self.lifetime_s * self.share

    def __str__(self) -> str:
        years, kilograms = self.lifetime_s / _S_PER_YEAR, self.embodied_g / _G_PER_KG
        return f"{kilograms:g} kg over {years:g} years{'' if self.share == 1 else f', share {self.share:g}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarbonInputs:
    """What the user states in `hwperf_carbon`."""

    intensity: float  # of the electricity at its place, g CO2 equivalent per kWh, above 0
    intensity_source: str  # publisher and year
    machinery: Machinery | None  # None: the embodied part is unmeasured
    unit: str = "call"  # the functional unit
    units_per_call: float = 1.0  # above 0

    def operational(self, joules: float) -> float:
        """Return the grams of generating `joules`: E x I.

        Example: 35 J at 400 g/kWh: 3.9 mg.
        """
        return joules / J_PER_KWH * self.intensity

    @property
    def grid(self) -> str:
        return f"{self.intensity:g} g/kWh ({self.intensity_source})"

    def __str__(self) -> str:
        return f"SCI per {self.unit}{'' if self.units_per_call == 1 else f' ({self.units_per_call:g} a call)'}"


def parse_carbon_lines(lines: Iterable[str]) -> CarbonInputs | None:
    """Turn ini lines `intensity_g_per_kwh=400` into inputs, None where there are no lines."""
    lines = list(lines)
    if not lines:
        return None
    texts = parse_assignments(lines, CARBON_KEYS)
    if unknown := next((key for key in texts if key not in CARBON_KEYS), None):
        hint = nearest(unknown, CARBON_KEYS)
        raise UsageProblem(f"unknown key {unknown!r}.{hint} Allowed: {', '.join(CARBON_KEYS)}")
    if len(texts) < len(lines):
        raise UsageProblem("a key stands there twice; give each once")
    unit = texts.get("per", "call")
    if not _UNIT.fullmatch(unit):
        raise UsageProblem(f"per={unit}: a word for what is counted, such as per=image")
    if "units_per_call" in texts and "per" not in texts:
        raise UsageProblem("units_per_call counts units that have no name: give per too, such as per=image")
    intensity, source = _positive(texts, "intensity_g_per_kwh", "400"), texts.get("intensity_source", "")
    if not _YEAR.search(source):  # intensities halve within a decade
        given = f"={source}: names no year" if source else " is missing"
        raise UsageProblem(
            f"intensity_source{given}. Say who published the intensity, and for which year and place, "
            "such as intensity_source=Ember 2024, DE"
        )
    machinery = None
    if texts.keys() & {"embodied_kg", "lifetime_years", "resource_share"}:
        machinery = Machinery(
            share=_positive({"resource_share": "1", **texts}, "resource_share", "0.25"),
            embodied_g=_positive(texts, "embodied_kg", "1000") * _G_PER_KG,
            lifetime_s=_positive(texts, "lifetime_years", "4") * _S_PER_YEAR,
        )
    if machinery and machinery.share > 1:
        share = f"resource_share={machinery.share:g}"
        raise UsageProblem(f"{share}: the reserved share of the machine, up to 1, such as 0.25")
    units = _positive({"units_per_call": "1", **texts}, "units_per_call", "16")
    return CarbonInputs(
        intensity=intensity, intensity_source=source, machinery=machinery, unit=unit, units_per_call=units
    )


def _positive(texts: Mapping[str, str], key: str, example: str) -> float:
    """Read a number above 0."""
    if key not in texts:
        raise UsageProblem(f"{key} is missing: without it no carbon is given. Give it, such as {key}={example}")
    try:
        number = float(texts[key])
    except ValueError:
        number = 0.0
    if not (number > 0 and math.isfinite(number)):
        raise UsageProblem(f"{key}={texts[key]}: a number above 0, such as {example}")
    return number


def carbon_samples(
    samples: Sequence[Sample], unmeasured: Mapping[str, Statement], inputs: CarbonInputs | None, *, rows: int | None
) -> tuple[tuple[Sample, ...], dict[str, Statement]]:
    """Return the carbon of one functional unit, window by window: of the energy used, and of making the machine.

    The two are never added up, and neither is judged or compared: they say of the machine and its grid what energy
    and time already say of the code. A part of the energy is not shown as the whole.
    """
    if inputs is None:
        return (), {}
    measured = {sample.metric: sample for sample in samples}
    energies = [measured[metric] for metric in (ENERGY, BOARD_ENERGY) if metric in measured]
    found, missing = list[Sample](), dict[str, Statement]()
    if lost := ENERGY if ENERGY not in measured else BOARD_ENERGY if BOARD_ENERGY in unmeasured else "":
        why = str(unmeasured.get(lost, "no meter has counted it"))
        missing[_OPERATIONAL] = state("part unmeasured", metric=lost, why=why)
    elif len({len(one.values) for one in energies}) > 1:
        missing[_OPERATIONAL] = state("other windows")
    else:
        windows = zip(*(one.values for one in energies), strict=True)
        sources = " + ".join(one.source for one in energies)
        grams = (inputs.operational(sum(joules) * (rows or 1)) / inputs.units_per_call for joules in windows)
        found.append(
            replace(
                energies[0],
                metric=_OPERATIONAL,
                values=array("d", grams),
                source=f"{inputs}: {sources} x {inputs.grid}",
                estimated=False,  # its warnings say so
                warnings=tuple(dict.fromkeys(warning for one in energies for warning in one.warnings)),
            )
        )
    if inputs.machinery is None:
        missing[_EMBODIED] = state("no embodied carbon")
    else:  # of a window, for which the machine was reserved, divided among its calls
        calls = measured["throughput"]
        made = (inputs.machinery.embodied(1 / rate) / inputs.units_per_call for rate in calls.values)
        source = f"{inputs}: {calls.source} x {inputs.machinery}"
        found.append(replace(calls, metric=_EMBODIED, values=array("d", made), source=source))
    return tuple(found), missing


class CarbonOfMillion(Record, frozen=True, kw_only=True):
    """Carbon of a million units after the SCI specification, in grams of CO2 equivalent: E x I + M."""

    unit: str  # "request", or what the user counts
    operational_g: float | None  # E x I; None: the energy is not known
    embodied_g: float | None  # M, of making the machine; None: its carbon was not given
    source: str  # of the energy and of the intensity
    reason: str = ""  # why the operational part is not known


def carbon_of_million(inputs: CarbonInputs, joules: float | None, source: str, rate: float) -> CarbonOfMillion:
    """Return the carbon of a million units, for which an instance is reserved as long as it takes to serve them.

    Without the joules of a call, `source` says why they are not known.
    """
    units = 1e6 / inputs.units_per_call
    return CarbonOfMillion(
        unit="request" if inputs.unit == "call" else inputs.unit,
        operational_g=None if joules is None else inputs.operational(joules) * units,
        embodied_g=None if inputs.machinery is None else inputs.machinery.embodied(1 / rate) * units,
        source=inputs.grid if joules is None else f"{source} x {inputs.grid}",
        reason=source if joules is None else "",
    )
