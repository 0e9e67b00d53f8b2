"""`hwperf capacity`: what is typed and what was measured, and what follows from either."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from fakes import records as fake
from fakes.commands import Told

from pytest_hwperf.cli.output import FAILED, OK, USAGE
from pytest_hwperf.records.codec import from_file
from pytest_hwperf.records.messages import said as said_of_it
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.json_file import render
from pytest_hwperf.stats.service.capacity import CapacityPlan, ModelsPlan

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


def loaded(load: str) -> Judgement:
    return judged("a.py::test_load", load=load)


def with_memory(value: float, high: float | None, *values: float) -> Judgement:
    """Return a measurement of one model's memory."""
    run = fake.run(test="a.py::test_call", scenario="onnx_fp32")
    run = replace(run, samples=(fake.sample("memory", values, per="fresh process", source="VmHWM"),))
    figure = fake.figure("memory", "p50", fake.estimate(value, None, high, len(values)))
    return Judgement(run=run, figures=(figure,), verdicts=())


CALL = judged("a.py::test_call")
BOARDS = fake.figure("gpu_energy", "mean", fake.estimate(3.6e-3, None, None, 1), source="nvml")
ASLEEP = replace(CALL.run, unmeasured={"gpu_energy": said_of_it("the board is asleep")})
NO_ROWS = replace(CALL, run=replace(CALL.run, conditions={"batch_size": "0"}))
LOST = Judgement(run=fake.run(test="a.py::test_lost", unmeasured={"memory": "no /proc"}), figures=(), verdicts=())
CARBON = ("--carbon=intensity_g_per_kwh=400", "--carbon=intensity_source=Ember 2024, DE")
MACHINE = ("--carbon=embodied_kg=1000", "--carbon=lifetime_years=4")
UNITS = ("--carbon=per=image", "--carbon=units_per_call=16")
TYPED = (
    *("--arrivals=8000", "--rate=14706", "--peak=10000", "--memory-mb=16000", "--request-mb=4.15", "--cores=8"),
    "--price-per-hour=0.4",
)
MEASURED = ("--arrivals=100", "--memory-mb=7", "--cores=8", "--price-per-kwh=0.5", "--grams-per-kwh=400")
LOADS = tuple(
    loaded(f"server {load}")
    for load in (
        *("qps=100 seconds=2 seed=1", "qps=900 seconds=2 seed=1", "qps=100 seconds=2 seed=1 in_flight=2"),
        *("qps=100 seconds=2 seed=1 shape=4", "qps=x", "qps=1e99", "qps=1 shape=0", ""),
    )
)
HELD, NARROW = with_memory(5e6, None, 4e6, 5e6, 6e6), with_memory(5e6, 5.3e6, 5e6)
CASES: Mapping[str, tuple[int, Sequence[str], Sequence[Judgement]]] = {
    "typed": (OK, TYPED, ()),
    "busy": (FAILED, ("--arrivals=8000", "--rate=8266"), ()),
    "no steady state": (FAILED, ("--arrivals=9000", "--rate=8266"), ()),
    "measured": (OK, MEASURED, (CALL, *LOADS, loaded("concurrency in_flight=4 seconds=2"))),
    "base": (OK, ("--arrivals=1", "--rate=10", "--memory-mb=17", "--request-mb=5", "--base-mb=10", "--cores=8"), ()),
    "two models": (
        OK,
        ("--arrivals=100", "--service-ms=1", "--variation=0", "--also=100:3:0", "--servers=2", "--peak=300"),
        (),
    ),
    "not known": (OK, ("--arrivals=1", "--rate=10", "--memory-mb=16", "--price-per-kwh=1", "--price-per-hour=1"), ()),
    "carbon": (OK, ("--arrivals=100", *CARBON, *MACHINE), (CALL,)),
    "carbon of images": (OK, ("--arrivals=100", *CARBON, *MACHINE, *UNITS), (CALL,)),
    "carbon of energy": (OK, ("--arrivals=100", *CARBON), (CALL,)),
    "carbon of the machine": (OK, ("--arrivals=100", "--rate=1000", *CARBON, *MACHINE), ()),
    "energy of boards": (OK, ("--arrivals=100", *CARBON), (replace(CALL, figures=(*FIGURES, BOARDS)),)),
    "energy without boards": (OK, ("--arrivals=100", *CARBON), (replace(CALL, run=ASLEEP),)),
    "batch of no rows": (OK, ("--arrivals=100", *CARBON), (NO_ROWS,)),
    "models": (OK, ("--models", "--memory-mb=16"), (HELD, NARROW)),
    "models with a base": (OK, ("--models", "--memory-mb=16", "--base-mb=10"), (NARROW,)),
    "model too large": (FAILED, ("--models", "--memory-mb=16", "--base-mb=12"), (NARROW,)),
    "memory not known": (OK, ("--models", "--memory-mb=16"), (NARROW, LOST, with_memory(0.0, 0.0, 0.0))),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told, golden: Callable[[str, bytes], None]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, arguments, judgements = CASES[name]
    file = tmp_path / "report.json"
    file.write_bytes(render(replace(fake.report(), judgements=tuple(judgements))))
    shown = told(code, "capacity", *([str(file)] if judgements else []), *arguments).out
    golden(f"capacity/{name.replace(' ', '_')}.txt", shown.encode())


def test_the_memory_of_this_machine_is_taken_where_none_is_given(tmp_path: Path, told: Told) -> None:
    for name, judgements in (("a", (CALL, LOST)), ("b", (LOST,))):
        (tmp_path / f"{name}.json").write_bytes(render(replace(fake.report(), judgements=judgements)))
    shown = told(OK, "capacity", str(tmp_path / "a.json"), "--models", f"--json={tmp_path / 'plan.json'}").out
    assert "of this " in " ".join(shown.split())
    plan = from_file(ModelsPlan, (tmp_path / "plan.json").read_bytes(), other="", older="")
    assert ["a.py::test_call onnx_fp32", "a.py::test_lost"] == [one.measured for one in plan.models]
    assert "--models: no /proc" in told(USAGE, "capacity", str(tmp_path / "b.json"), "--models").err


REFUSED: Sequence[tuple[Sequence[str], str]] = (
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
    (["--arrivals=1", "--rate=10", "--carbon=intensity=400"], "key 'intensity'. Did you mean 'intensity_source'?"),
    (["--arrivals=1", "--rate=10", "--carbon=intensity_g_per_kwh=400"], "--carbon: intensity_source is missing"),
    (["--arrivals=1", "--rate=10", "--json=/no/such/folder/plan.json"], "cannot be written"),
)


def test_what_cannot_be_meant_is_a_usage_error(told: Told) -> None:
    assert [] == [one for one in REFUSED if one[1] not in told(USAGE, "capacity", *one[0]).err]


def test_one_of_several_measurements_is_named(tmp_path: Path, told: Told) -> None:
    file, judgements = tmp_path / "two.json", (judged("a.py::test_a"), judged("a.py::test_b"))

    def answer(code: int, *more: str, of: Sequence[Judgement] = judgements) -> str:
        file.write_bytes(render(replace(fake.report(), judgements=tuple(of))))
        out, err = told(code, "capacity", str(file), "--arrivals=1", *more)
        return err or out

    assert "--test: which of these measurements" in answer(USAGE)
    assert "utilisation" in answer(OK, "--test=test_b")
    assert "Did you mean 'a.py::test_" in answer(USAGE, "--test=a.py::test_c onnx_fp32")
    assert "\n  \\n::error::" in answer(USAGE, of=(judged("\n::error::"), *judgements))
    assert "has no measurement of a call without a load" in answer(
        USAGE, of=(loaded("server qps=100 seconds=2 seed=1"),)
    )


def test_the_plan_as_a_file(tmp_path: Path, told: Told) -> None:
    file = tmp_path / "plan.json"
    given = ("--arrivals=8000", "--rate=14706", "--peak=10000", "--memory-mb=16", "--price-per-hour=0.4")
    told(OK, "capacity", *given, *CARBON, f"--json={file}")
    plan = from_file(CapacityPlan, file.read_bytes(), other="", older="")
    assert plan.instances is not None
    assert ("safe", 2, "safety factor") == (plan.level, plan.instances.count, plan.instances.rule)
    assert ["M/M/1", "M/D/1", "M/G/1"] == [wait.model for wait in plan.waits]
    assert {"memory": "give --request-mb, or a report with the metric memory"} == plan.missing
    assert plan.carbon is not None
    assert (None, None) == (plan.carbon.operational_g, plan.carbon.embodied_g)
