"""Carbon after the SCI specification: the formula by known answers, strict inputs, and that nothing is judged by it."""

import pytest
from fakes.records import sample

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import ALWAYS_COMPARED, BUDGET_KEYWORDS, DEFAULT_MARGINS
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import Sample
from pytest_hwperf.stats.service.carbon import CarbonInputs, Machinery, carbon_samples, parse_carbon_lines

GRID = ["intensity_g_per_kwh=400", "intensity_source=Ember 2024, DE"]
SERVER = ["embodied_kg=1000", "lifetime_years=4"]
YEAR_S = 365 * 24 * 3600
ESTIMATE = "estimate: not a measurement"


def inputs(*lines: str) -> CarbonInputs:
    found = parse_carbon_lines([*GRID, *lines])
    assert found is not None
    return found


def energy(*joules: float, metric: str = "energy", source: str = "estimate:cpu-time") -> Sample:
    return sample(metric, joules, per="window", source=source, warnings=(ESTIMATE,))


def calls(*rates: float) -> Sample:
    return sample("throughput", rates, per="window", warnings=("load 4.4 on 2 cores",))


def reported(*samples: Sample, given: CarbonInputs, rows: int | None = None) -> dict[str, Sample]:
    found, missing = carbon_samples(samples, {}, given, rows=rows)
    assert {"carbon_operational", "carbon_embodied"} == {one.metric for one in found} | set(missing)
    return {one.metric: one for one in found}


def test_operational_carbon_is_energy_times_intensity() -> None:
    """35 J / 3.6e6 J/kWh x 400 g/kWh = 3.89 mg."""
    grams = {35: 3.889e-3, 0.35: 38.89e-6, 3.6e6: 400}
    assert grams == pytest.approx({joules: inputs().operational(joules) for joules in grams}, rel=0.0005)


def test_embodied_carbon_is_the_share_of_a_lifetime() -> None:
    """1e6 g x 0.01 s / (4 x 31 536 000 s) = 79.3 µg; a quarter of the machine bears a quarter."""
    whole, quarter = inputs(*SERVER).machinery, inputs(*SERVER, "resource_share=0.25").machinery
    assert Machinery(embodied_g=1e6, lifetime_s=4 * YEAR_S, share=1.0) == whole
    assert whole is not None
    assert quarter is not None
    assert 79.3e-6 == pytest.approx(whole.embodied(0.01), rel=1e-3)
    assert 79.3e-6 / 4 == pytest.approx(quarter.embodied(0.01), rel=1e-3)


def test_each_window_has_its_own_carbon() -> None:
    """Two windows of 35 and 70 J a call, and of 100 calls a second, which is 10 ms of the machine for each."""
    found = reported(energy(35, 70), calls(100, 100), given=inputs(*SERVER))
    used, made = found["carbon_operational"], found["carbon_embodied"]
    assert [35 / 9000, 70 / 9000] == pytest.approx(used.values.tolist())
    assert [1e6 * 0.01 / (4 * YEAR_S)] * 2 == pytest.approx(made.values.tolist())
    assert ("window", "window") == (used.per, made.per)


def test_sources_say_what_was_multiplied() -> None:
    """And an estimated energy is marked as one, by its label and by its warnings."""
    found = reported(energy(35), calls(100), given=inputs(*SERVER, "resource_share=0.5"))
    used, made = found["carbon_operational"], found["carbon_embodied"]
    assert "SCI per call: estimate:cpu-time x 400 g/kWh (Ember 2024, DE)" == used.source
    assert "SCI per call: perf_counter x 1000 kg over 4 years, share 0.5" == made.source
    assert (ESTIMATE,) == used.warnings
    assert ("load 4.4 on 2 cores",) == made.warnings


def test_energy_is_per_row_and_carbon_per_call() -> None:
    """0.5 J for each of 64 rows are 32 J a call."""
    found = reported(energy(0.5), calls(100), given=inputs(), rows=64)
    assert [32 / 9000] == pytest.approx(found["carbon_operational"].values.tolist())


def test_a_functional_unit_of_the_users_own_divides_both() -> None:
    """64 images in a call: each has 0.5 of its 32 J, and its part of the 10 ms."""
    given = inputs(*SERVER, "per=image", "units_per_call=64")
    found = reported(energy(0.5), calls(100), given=given, rows=64)
    used, made = found["carbon_operational"], found["carbon_embodied"]
    assert [0.5 / 9000] == pytest.approx(used.values.tolist())
    assert [1e6 * 0.01 / (4 * YEAR_S) / 64] == pytest.approx(made.values.tolist())
    assert used.source.startswith("SCI per image (64 a call): ")


def test_boards_count_where_they_were_measured() -> None:
    """In the same windows, and the label names both; the warning of both is said once."""
    boards = energy(100, 200, metric="gpu_energy", source="nvml:0")
    found = reported(energy(35, 35, source="rapl:package-0"), boards, calls(1, 1), given=inputs())["carbon_operational"]
    assert [135 / 9000, 235 / 9000] == pytest.approx(found.values.tolist())
    assert "SCI per call: rapl:package-0 + nvml:0 x 400 g/kWh (Ember 2024, DE)" == found.source
    assert (ESTIMATE,) == found.warnings


def test_without_the_whole_energy_operational_carbon_is_unmeasured() -> None:
    """Never 0, and never a part reported as the whole; the embodied part needs no energy."""
    table: list[tuple[list[Sample], dict[str, str], str]] = [
        ([], {"energy": "energy is off"}, "energy is unmeasured: energy is off"),
        ([], {}, "energy is unmeasured: no meter has counted it"),
        ([energy(1)], {"gpu_energy": "the driver was reloaded"}, "gpu_energy is unmeasured: the driver was reloaded"),
        (
            [energy(1, 1), energy(1, metric="gpu_energy")],
            {},
            "energy and gpu_energy were not counted in the same windows",
        ),
    ]
    for samples, unmeasured, reason in table:
        found, missing = carbon_samples(
            [*samples, calls(100)],
            {metric: said(why) for metric, why in unmeasured.items()},
            inputs(*SERVER),
            rows=None,
        )
        assert ["carbon_embodied"] == [one.metric for one in found], (samples, unmeasured, reason)
        assert reason == str(missing.pop("carbon_operational"))
        assert not missing, (samples, unmeasured, reason)


def test_without_the_machines_figures_embodied_carbon_is_unmeasured() -> None:
    found, missing = carbon_samples([energy(35), calls(100)], {}, inputs(), rows=None)
    assert ["carbon_operational"] == [one.metric for one in found]
    assert "hwperf_carbon does not say embodied_kg and lifetime_years" == str(missing["carbon_embodied"])


def test_nobody_asked_nothing_reported() -> None:
    assert parse_carbon_lines([]) is None
    assert ((), {}) == carbon_samples([energy(35), calls(100)], {}, None, rows=None)


def test_inputs_that_cannot_be_meant_are_refused() -> None:
    table: list[tuple[list[str], str]] = [
        (["intensity_source=Ember 2024"], "intensity_g_per_kwh is missing: without it no carbon is given."),
        (SERVER, "intensity_g_per_kwh is missing"),
        (["intensity_g_per_kwh=400"], "intensity_source is missing. Say who published the intensity"),
        (["intensity_g_per_kwh=400", "intensity_source=Ember"], "intensity_source=Ember: names no year."),
        (["intensity_g_per_kwh=400", "intensity_source=id 120245"], "names no year"),
        (["intensity_g_per_kwh=0", "intensity_source=a 2024"], "intensity_g_per_kwh=0: a number above 0, such as 400"),
        (["intensity_g_per_kwh=-4", "intensity_source=a 2024"], "a number above 0"),
        (["intensity_g_per_kwh=nan", "intensity_source=a 2024"], "a number above 0"),
        (["intensity_g_per_kwh=inf", "intensity_source=a 2024"], "a number above 0"),
        (["intensity_g_per_kwh=much", "intensity_source=a 2024"], "a number above 0"),
        (["intensty_g_per_kwh=400"], "unknown key 'intensty_g_per_kwh'. Did you mean 'intensity_g_per_kwh'? Allowed: "),
        ([*GRID, GRID[0]], "a key stands there twice"),
        (["400"], "'400' is not of the form KEYWORD=VALUE. Allowed keywords: intensity_g_per_kwh, "),
        ([*GRID, "embodied_kg=1000"], "lifetime_years is missing"),
        ([*GRID, "lifetime_years=4"], "embodied_kg is missing"),
        ([*GRID, "resource_share=0.5"], "embodied_kg is missing"),
        ([*GRID, *SERVER, "resource_share=1.5"], "resource_share=1.5: the reserved share of the machine, up to 1"),
        ([*GRID, "units_per_call=16"], "units_per_call counts units that have no name: give per too"),
        ([*GRID, "per=image", "units_per_call=0"], "units_per_call=0: a number above 0"),
        ([*GRID, "per=16"], "per=16: a word for what is counted, such as per=image"),
    ]
    for lines, reported in table:
        with pytest.raises(UsageProblem) as caught:
            parse_carbon_lines(lines)
        assert reported in str(caught.value)


def test_every_input_is_read() -> None:
    assert CarbonInputs(
        intensity=28.5,
        intensity_source="Orkustofnun 2023",
        machinery=Machinery(embodied_g=250_000, lifetime_s=5 * YEAR_S, share=0.125),
        unit="image",
        units_per_call=16,
    ) == parse_carbon_lines(
        [
            "intensity_g_per_kwh = 28.5",
            "intensity_source = Orkustofnun 2023",
            "embodied_kg = 250",
            "lifetime_years = 5",
            "resource_share = 0.125",
            "per = image",
            "units_per_call = 16",
        ]
    )


def test_nothing_is_judged_by_carbon() -> None:
    """It has no budget and no margin, so that no verdict and no comparison can speak of it."""
    carbon = {metric for metric in METRICS if METRICS[metric].unit == "g"}
    assert {"carbon_operational", "carbon_embodied"} == carbon
    assert carbon.isdisjoint(metric.name for metric, _ in BUDGET_KEYWORDS.values())
    assert carbon.isdisjoint(margin.metric for margin in DEFAULT_MARGINS.values())
    assert carbon.isdisjoint(margin.metric for margin in ALWAYS_COMPARED)
