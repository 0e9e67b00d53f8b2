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
from pytest_hwperf.records.run import Sample

CARBON_KEYS = (
    *("intensity_g_per_kwh", "intensity_source", "embodied_kg", "lifetime_years", "resource_share"),
    *("per", "units_per_call"),
)

_J_PER_KWH = 3.6e6
_S_PER_YEAR = 365 * 24 * 3600
_G_PER_KG = 1000
_YEAR = re.compile(r"(?<!\d)(19|20)\d\d(?!\d)")
_UNIT = re.compile(r"[A-Za-z][\w -]*")


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
        part = "" if self.share == 1 else f", share {self.share:g}"
        return f"{kilograms:g} kg over {years:g} years{part}"


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
        return joules / _J_PER_KWH * self.intensity

    def __str__(self) -> str:
        count = "" if self.units_per_call == 1 else f" ({self.units_per_call:g} a call)"
        return f"SCI per {self.unit}{count}"


def parse_carbon_lines(lines: Iterable[str]) -> CarbonInputs | None:
    """Turn ini lines `intensity_g_per_kwh=400` into inputs, None where there are no lines."""
    lines = list(lines)
    if not lines:
        return None
    texts = parse_assignments(lines, CARBON_KEYS)
    for key in texts:
        if key not in CARBON_KEYS:
            hint = nearest(key, CARBON_KEYS)
            raise UsageProblem(f"unknown key {key!r}.{hint} Allowed: {', '.join(CARBON_KEYS)}")
    if len(texts) < len(lines):
        raise UsageProblem("a key stands there twice; give each once")
    unit = texts.get("per", "call")
    if not _UNIT.fullmatch(unit):
        raise UsageProblem(f"per={unit}: a word for what is counted, such as per=image")
    if "units_per_call" in texts and "per" not in texts:
        raise UsageProblem("units_per_call counts units that have no name: give per too, such as per=image")
    return CarbonInputs(
        intensity=_positive(texts, "intensity_g_per_kwh", "400"),
        intensity_source=_source(texts),
        machinery=_machinery(texts),
        unit=unit,
        units_per_call=_positive({"units_per_call": "1", **texts}, "units_per_call", "16"),
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


def _source(texts: Mapping[str, str]) -> str:
    """Read the publisher and year of the intensity: intensities halve within a decade."""
    source = texts.get("intensity_source", "")
    if not _YEAR.search(source):
        given = f"={source}: names no year" if source else " is missing"
        raise UsageProblem(
            f"intensity_source{given}. Say who published the intensity, and for which year and place, "
            "such as intensity_source=Ember 2024, DE"
        )
    return source


def _machinery(texts: Mapping[str, str]) -> Machinery | None:
    """Read the carbon of making the machine; None where no key of it is given."""
    if {"embodied_kg", "lifetime_years", "resource_share"}.isdisjoint(texts):
        return None
    share = _positive({"resource_share": "1", **texts}, "resource_share", "0.25")
    if share > 1:
        raise UsageProblem(f"resource_share={share:g}: the reserved share of the machine, up to 1, such as 0.25")
    return Machinery(
        embodied_g=_positive(texts, "embodied_kg", "1000") * _G_PER_KG,
        lifetime_s=_positive(texts, "lifetime_years", "4") * _S_PER_YEAR,
        share=share,
    )


def carbon_samples(
    samples: Sequence[Sample], unmeasured: Mapping[str, Statement], inputs: CarbonInputs | None, *, rows: int | None
) -> tuple[tuple[Sample, ...], dict[str, Statement]]:
    """Return the carbon of one functional unit, window by window: of the energy used, and of making the machine.

    The two are never added up, and neither is judged or compared: they say of the machine and its grid what energy
    and time already say of the code.
    """
    if inputs is None:
        return (), {}
    measured = {sample.metric: sample for sample in samples}
    found, missing = list[Sample](), dict[str, Statement]()
    if why := _why_no_energy(measured, unmeasured):
        missing["carbon_operational"] = why
    else:
        found.append(_operational(measured, inputs, rows or 1))
    if inputs.machinery is None:
        missing["carbon_embodied"] = state("no embodied carbon")
    else:
        found.append(_embodied(measured["throughput"], inputs.machinery, inputs))
    return tuple(found), missing


def _why_no_energy(measured: Mapping[str, Sample], unmeasured: Mapping[str, Statement]) -> Statement | None:
    """Return why the energy of a call is not known completely; a part of it is not shown as the whole."""
    if ENERGY not in measured:
        why = str(unmeasured.get(ENERGY, "no meter has counted it"))
        return state("part unmeasured", metric=ENERGY, why=why)
    if BOARD_ENERGY in unmeasured:
        return state("part unmeasured", metric=BOARD_ENERGY, why=str(unmeasured[BOARD_ENERGY]))
    boards = measured.get(BOARD_ENERGY)
    if boards and len(boards.values) != len(measured[ENERGY].values):
        return state("other windows")
    return None


def _operational(measured: Mapping[str, Sample], inputs: CarbonInputs, rows: int) -> Sample:
    counted = [measured[metric] for metric in (ENERGY, BOARD_ENERGY) if metric in measured]
    windows = zip(*(sample.values for sample in counted), strict=True)
    sources = " + ".join(sample.source for sample in counted)
    return Sample(
        metric="carbon_operational",
        values=array("d", (inputs.operational(sum(joules) * rows) / inputs.units_per_call for joules in windows)),
        per=counted[0].per,
        source=f"{inputs}: {sources} x {inputs.intensity:g} g/kWh ({inputs.intensity_source})",
        warnings=tuple(dict.fromkeys(warning for sample in counted for warning in sample.warnings)),
        weights=counted[0].weights,
    )


def _embodied(calls: Sample, machinery: Machinery, inputs: CarbonInputs) -> Sample:
    """Divide the carbon of a window, for which the machine was reserved, among its calls."""
    return Sample(
        metric="carbon_embodied",
        values=array("d", (machinery.embodied(1 / rate) / inputs.units_per_call for rate in calls.values)),
        per=calls.per,
        source=f"{inputs}: {calls.source} x {machinery}",
        warnings=calls.warnings,
        weights=calls.weights,
    )
