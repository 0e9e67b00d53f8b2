"""`hwperf capacity`: what is typed and what was measured, and what follows from either."""

from pathlib import Path

import pytest
from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.capacity import ModelsPlan
from pytest_hwperf.cli.capacity_plan import CapacityPlan
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.records.codec import from_file, from_json
from pytest_hwperf.records.messages import said as said_of_it
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.json_file import render

SAMPLES = (
    fake.sample(values=[1e-3, 3e-3]),
    fake.sample("memory", [5e6], per="fresh process", source="VmHWM"),
    fake.sample("energy", [3.6e-3], per="window", source="rapl:package-0"),
)
FIGURES = (
    fake.figure("latency", "mean", fake.estimate(2e-3, None, None, 2)),
    fake.figure("memory", "p50", fake.estimate(5e6, None, None, 1)),
    fake.figure("energy", "mean", fake.estimate(3.6e-3, None, None, 1), source="rapl:package-0"),
)


def judged(test: str, *, load: str = "single_stream") -> Judgement:
    run = fake.run(test=test, scenario="onnx_fp32", samples=SAMPLES)
    return Judgement(run=replace(run, conditions={**run.conditions, "load": load}), figures=FIGURES, verdicts=())


@pytest.fixture
def report(tmp_path: Path) -> str:
    judgements = (
        judged("a.py::test_call"),
        judged("a.py::test_load", load="server qps=100 seconds=2 seed=1"),
        judged("a.py::test_more", load="server qps=900 seconds=2 seed=1"),
        judged("a.py::test_loop", load="concurrency in_flight=4 seconds=2"),
    )
    (tmp_path / "report.json").write_bytes(render(replace(fake.report(), judgements=judgements)))
    return str(tmp_path / "report.json")


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = OK) -> str:
    assert code == main(["capacity", *arguments])
    return " ".join(capsys.readouterr().out.split())


def test_what_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(
        capsys,
        *("--arrivals=8000", "--rate=14706", "--peak=10000"),
        *("--memory-mb=16000", "--request-mb=4.15", "--cores=8", "--price-per-hour=0.4"),
    )
    assert "utilisation 0.544: safe 8.00 k/s arrive, 1 server can do 14.7 k/s; 70 % at 10.3 k/s" in text
    assert "wait M/M/1 81.1 µs on average; with the service p95 447 µs, p99 687 µs M/D/1 40.6 µs on average" in text
    assert "instances 2 for a peak of 10.0 k/s by the safety factor, the other rule alone says 1; each 34 %" in text
    assert "memory 3,855 requests at once, 4.15 MB each without a base, which was not given" in text
    assert "8 cores: the cores are the limit" in text
    assert "cost 0.0139 a million requests" in text


@pytest.mark.parametrize(
    ("arrivals", "meaning"),
    [("8000", "0.968: over 80 %, where waits grow steeply"), ("9000", "1.089: no steady state: more arrives")],
)
def test_too_busy_is_no_success(capsys: pytest.CaptureFixture[str], arrivals: str, meaning: str) -> None:
    assert f"utilisation {meaning}" in said(capsys, f"--arrivals={arrivals}", "--rate=8266", code=FAILED)


def test_what_was_measured(report: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The calls of 1 and 3 ms vary by half of their mean."""
    text = said(
        capsys,
        *(report, "--arrivals=100", "--memory-mb=7", "--cores=8"),
        *("--price-per-kwh=0.5", "--grams-per-kwh=400"),
    )
    assert "utilisation 0.200: safe" in text
    assert "M/G/1 312 µs on average, service times varying by 0.50 of their mean" in text
    assert "1 request at once, 5.00 MB each, each in a process of its own with its model" in text
    assert "without a base, which was not given 8 cores: the memory is the limit" in text
    assert "energy 0.0160 kWh a million requests (rapl:package-0), 0.00800 for it, 6.40 g of CO2" in text  # of 16 rows
    assert "server qps=100 seconds=2 seed=1: latency 2.00 ms on average; M/G/1 says 2.31 ms" in text
    assert "server qps=900 seconds=2 seed=1: latency 2.00 ms on average; by theory there is no steady state" in text
    assert "concurrency" not in text


def test_a_base_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--arrivals=1", "--rate=10", "--memory-mb=17", "--request-mb=5", "--base-mb=10", "--cores=8")
    assert "1 request at once, 5.00 MB each after a base of 10.0 MB, counted once" in text


@pytest.mark.parametrize(
    ("load", "theory"),
    [
        ("server qps=100 seconds=2 seed=1 in_flight=2", "M/G/2"),
        ("server qps=100 seconds=2 seed=1 shape=4", "Kingman says"),
        ("server qps=x", ""),
        ("server qps=1e99", ""),
        ("server qps=1 shape=0", ""),
        ("server", ""),
    ],
)
def test_theory_for_what_the_load_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], load: str, theory: str
) -> None:
    judgements = (judged("a.py::test_call"), judged("a.py::test_load", load=load))
    (tmp_path / "report.json").write_bytes(render(replace(fake.report(), judgements=judgements)))
    text = said(capsys, str(tmp_path / "report.json"), "--arrivals=100")
    assert bool(theory) == ("measured" in text)
    assert theory.replace("M/G/2", "G/G/2") in text


def test_models_on_the_same_servers(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(
        capsys, "--arrivals=100", "--service-ms=1", "--variation=0", "--also=100:3:0", "--servers=2", "--peak=300"
    )
    assert "200 /s arrive, 2 servers can do 1.00 k/s" in text
    assert "G/G/2" in text
    assert "instances 1 for a peak of 300 /s by both rules" in text


def test_what_is_not_known_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--arrivals=1", "--rate=10", "--memory-mb=16", "--price-per-kwh=1")
    assert "memory not known: give --request-mb, or a report with the metric memory" in text
    assert "energy not known: give a report with the metric energy" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rate=10"], "--arrivals is missing"),
        (["--models"], "--models needs a report"),
        (["--models", "--arrivals=1", "--request-mb=1"], "leave out --arrivals and --request-mb"),
        (["--arrivals=1"], "give one of --rate, --service-ms and a report"),
        (["--arrivals=1", "--rate=1", "--service-ms=1"], "give one of --rate, --service-ms and a report"),
        (["--arrivals=1", "--rate=1", "--servers=0"], "--servers and --cores: from 1 to 100000"),
        (["--arrivals=0", "--rate=1"], "0: a number from 1e-09 to 1e+12"),
        (["--arrivals=1", "--rate=nan"], "nan: a number from"),
        (["--arrivals=1", "--rate=1e-320"], "1e-320: a number from"),
        (["--arrivals=1", "--rate=1", "--variation=-1"], "-1: 0, or a number from"),
        (["--arrivals=1", "--rate=1", "--also=inf:1"], "inf:1: arrivals a second"),
        (["--arrivals=1", "--rate=1", "--servers=1000000000"], "--servers and --cores: from 1 to 100000"),
        (["--arrivals=1", "--rate=1", "--base-mb=1"], "--base-mb needs --request-mb"),
        (["--arrivals=x", "--rate=1"], "invalid number value: 'x'"),
        (["--arrivals=1", "--rate=1", "--also=5"], "5: arrivals a second and milliseconds of each, such as 100:2.5"),
        (["--arrivals=1", "--rate=1", "--also=5:0"], "5:0: arrivals a second"),
    ],
)
def test_usage(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["capacity", *arguments])
    except SystemExit as end:
        code = int(str(end.code))
    assert USAGE == code
    assert complaint in capsys.readouterr().err


def test_one_of_several_measurements_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judgements = (judged("a.py::test_a"), judged("a.py::test_b"))
    (tmp_path / "two.json").write_bytes(render(replace(fake.report(), judgements=judgements)))
    assert USAGE == main(["capacity", str(tmp_path / "two.json"), "--arrivals=1"])
    assert "--test: which of these measurements" in capsys.readouterr().err
    assert "utilisation" in said(capsys, str(tmp_path / "two.json"), "--arrivals=1", "--test=test_b")
    assert USAGE == main(["capacity", str(tmp_path / "two.json"), "--arrivals=1", "--test=a.py::test_c onnx_fp32"])
    assert "Did you mean 'a.py::test_" in capsys.readouterr().err

    (tmp_path / "two.json").write_bytes(render(replace(fake.report(), judgements=(judged("\n::error::"), *judgements))))
    assert USAGE == main(["capacity", str(tmp_path / "two.json"), "--arrivals=1"])
    assert "\n  \\n::error::" in capsys.readouterr().err


def test_a_report_of_loads_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judgements = (judged("a.py::test_load", load="server qps=100 seconds=2 seed=1"),)
    (tmp_path / "loads.json").write_bytes(render(replace(fake.report(), judgements=judgements)))
    assert USAGE == main(["capacity", str(tmp_path / "loads.json"), "--arrivals=1"])
    assert "has no measurement of a call without a load" in capsys.readouterr().err


def with_memory(value: float, high: float | None, *values: float) -> Judgement:
    """Return a measurement of one model's memory."""
    run = fake.run(test="a.py::test_call", scenario="onnx_fp32")
    run = replace(run, samples=(fake.sample("memory", values, per="fresh process", source="VmHWM"),))
    figure = fake.figure("memory", "p50", fake.estimate(value, None, high, len(values)))
    return Judgement(run=run, figures=(figure,), verdicts=())


@pytest.mark.parametrize(
    ("judgement", "arguments", "code", "line"),
    [
        (with_memory(5e6, None, 4e6, 5e6, 6e6), (), OK, "2 models of a.py::test_call onnx_fp32 in 16.0 MB (given)"),
        (with_memory(5e6, None, 4e6, 5e6, 6e6), (), OK, "6.00 MB each: the highest of 3 fresh processes, median 5.00"),
        (with_memory(5e6, 5.3e6, 5e6), (), OK, "3 models of a.py::test_call onnx_fp32 in 16.0 MB (given) 5.30 MB each"),
        (with_memory(5e6, 5.3e6, 5e6), ("--base-mb=10",), OK, "1 model of a.py::test_call"),
        (with_memory(5e6, 5.3e6, 5e6), ("--base-mb=12",), FAILED, "0 models of a.py::test_call"),
    ],
)
def test_models_that_a_memory_holds(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    judgement: Judgement,
    arguments: tuple[str],
    code: int,
    line: str,
) -> None:
    """Planned for by the upper bound of what one needs, beside a base that all share."""
    file, plan = tmp_path / "report.json", tmp_path / "plan.json"
    file.write_bytes(render(replace(fake.report(), judgements=(judgement,))))

    text = said(capsys, str(file), "--models", "--memory-mb=16", f"--json={plan}", *arguments, code=code)
    assert line in text
    assert f"models {from_json(ModelsPlan, plan.read_bytes()).models[0].count} model" in text


def test_models_whose_memory_is_not_known_are_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the machine's memory, where none is given."""
    lost = fake.run(test="a.py::test_lost", unmeasured={"memory": "no /proc"})
    unknown = Judgement(run=lost, figures=(), verdicts=())
    (tmp_path / "a.json").write_bytes(render(replace(fake.report(), judgements=(judged("a.py::test_a"), unknown))))
    (tmp_path / "b.json").write_bytes(render(replace(fake.report(), judgements=(unknown, with_memory(0.0, 0.0, 0.0)))))

    text = said(capsys, str(tmp_path / "a.json"), "--models")
    assert "models a.py::test_lost" in text
    assert "not known: no /proc" in text
    assert USAGE == main(["capacity", str(tmp_path / "b.json"), "--models"])
    assert "--models: no /proc" in capsys.readouterr().err


CARBON = ("--carbon=intensity_g_per_kwh=400", "--carbon=intensity_source=Ember 2024, DE")
MACHINE = ("--carbon=embodied_kg=1000", "--carbon=lifetime_years=4")


def test_carbon_of_a_million_requests(report: str, capsys: pytest.CaptureFixture[str]) -> None:
    """0.016 kWh at 400 g, and 79.3 µg for each of the 10 ms between two arrivals, by SCI."""
    text = said(capsys, report, "--test=test_call", "--arrivals=100", *CARBON, *MACHINE)
    assert "carbon 85.7 g of CO2 equivalent for a million requests, of which 6.40 g for the energy of" in text
    assert "a million requests (rapl:package-0 x 400 g/kWh (Ember 2024, DE))" in text
    assert "79.3 g for making the machine, as long as it serves them" in text


def test_carbon_of_a_million_units_of_the_user(report: str, capsys: pytest.CaptureFixture[str]) -> None:
    units = ("--carbon=per=image", "--carbon=units_per_call=16")
    text = said(capsys, report, "--test=test_call", "--arrivals=100", *CARBON, *MACHINE, *units)
    assert " g of CO2 equivalent for a million images, of which 400 mg for the energy of a million images" in text


def test_a_part_of_the_carbon_is_never_the_whole(report: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, report, "--test=test_call", "--arrivals=100", *CARBON)
    assert "carbon 6.40 g for the energy of a million requests" in text
    assert "of making the machine: not known: give --carbon embodied_kg=… and lifetime_years=…" in text

    text = said(capsys, "--arrivals=100", "--rate=1000", *CARBON, *MACHINE)
    assert "carbon of the energy for a million requests: not known: give a report with the metric energy 79.3 g" in text


def test_energy_of_boards_is_counted_or_said_to_be_lacking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = judged("a.py::test_call")
    board = fake.figure("gpu_energy", "mean", fake.estimate(3.6e-3, None, None, 1), source="nvml")
    both = replace(one, figures=(*one.figures, board))
    lost = replace(one, run=replace(one.run, unmeasured={"gpu_energy": said_of_it("the board is asleep")}))
    for judgement, expected in ((both, "12.8 g for the energy"), (lost, "gpu_energy is unmeasured: the board is asle")):
        (tmp_path / "report.json").write_bytes(render(replace(fake.report(), judgements=(judgement,))))
        assert expected in said(capsys, str(tmp_path / "report.json"), "--arrivals=100", *CARBON)


def test_a_batch_of_no_rows_does_not_make_energy_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = judged("a.py::test_call")
    none = replace(one, run=replace(one.run, conditions={"batch_size": "0"}))
    (tmp_path / "report.json").write_bytes(render(replace(fake.report(), judgements=(none,))))
    assert "400 mg for the energy" in said(capsys, str(tmp_path / "report.json"), "--arrivals=100", *CARBON)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("intensity=400", "--carbon: unknown key 'intensity'. Did you mean 'intensity_source'?"),
        ("intensity_g_per_kwh=400", "--carbon: intensity_source is missing"),
    ],
)
def test_carbon_that_cannot_be_meant(line: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["capacity", "--arrivals=1", "--rate=10", f"--carbon={line}"])
    assert complaint in capsys.readouterr().err


def test_the_plan_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    given = ("--arrivals=8000", "--rate=14706", "--peak=10000", "--memory-mb=16", "--price-per-hour=0.4")
    said(capsys, *given, *CARBON, f"--json={file}")
    plan = from_file(CapacityPlan, file.read_bytes(), other="", older="")
    assert plan.instances is not None
    assert ("safe", 2, "safety factor") == (plan.level, plan.instances.count, plan.instances.rule)
    assert ["M/M/1", "M/D/1", "M/G/1"] == [wait.model for wait in plan.waits]
    assert {"memory": "give --request-mb, or a report with the metric memory"} == plan.missing
    assert plan.carbon is not None
    assert (None, None, None) == (plan.carbon.operational_g, plan.carbon.embodied_g, plan.carbon.total_g)
    assert USAGE == main(["capacity", *given, "--json=/no/such/folder/plan.json"])
