"""`hwperf tradeoffs`: requirements that all, some and none meet; reports and tables of others."""

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from fakes import records as fake
from fakes.commands import Told
from fakes.repeated_pairs import conduct
from fakes.reruns import QUICKLY, SIMULATED

from pytest_hwperf.cli import main, tradeoffs
from pytest_hwperf.cli.inputs import Session
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK, USAGE
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.models.compare import RivalSettings
from pytest_hwperf.records.codec import from_file
from pytest_hwperf.records.evidence import Evidence, Gate, Measurement
from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import Classes, Key, replace
from pytest_hwperf.records.verdict import Comparison, Judgement, uncompared
from pytest_hwperf.reports.json_file import render
from pytest_hwperf.reports.tradeoff_files import TradeoffsFile

TEST = "a.py::test_model"
TABLE = """\
test,scenario,latency_p50_ms,latency_p50_ms_ci_low,latency_p50_ms_ci_high,accuracy_mean,memory_p50_mb,notes
,onnx_fp32,0.12,0.11,0.13,0.90,9.8,first
,onnx_int8,0.06,0.055,0.065,0.86,10.1,
,sklearn_fp32,1.2,1.1,1.3,0.90,,no memory
"""


def judged(scenario: str, values: dict[Key, tuple[float, float]], batch: int = 1, **conditions: str) -> Judgement:
    """Return a measurement; each value is within so much of itself."""
    share, _ = values.get(("accuracy", "mean"), (0.9, 0.0))
    right = [1.0] * round(1000 * share) + [0.0] * round(1000 * (1 - share))
    samples = (fake.sample("accuracy", right, per="example", source="labels"),)
    run = fake.run(test=f"{TEST}[{scenario}-{batch}]", scenario=scenario, samples=samples)
    given = {"batch_size": str(batch), "threads": "1", **conditions}
    figures = [
        fake.figure(*key, fake.estimate(value, value * (1 - noise), value * (1 + noise), 100))
        for key, (value, noise) in values.items()
    ]
    stages: dict[str, Literal["lower"]] = {key[0]: "lower" for key in values if key[0].startswith("stage_")}
    return Judgement(run=replace(run, conditions=given, directions=stages), figures=tuple(figures), verdicts=())


def scenario(name: str, us: float, accuracy: float = 0.9, *, megabytes: float = 2.0, **conditions: str) -> Judgement:
    values = {
        ("latency", "p50"): (us * 1e-6, 0.01),
        ("accuracy", "mean"): (accuracy, 0.01),
        ("memory", "p50"): (megabytes * 1e6, 0.01),
    }
    return judged(name, values, **conditions)  # type: ignore[arg-type]


SCENARIOS = (
    scenario("sklearn_fp32", 100, precision="float64"),
    scenario("onnx_fp32", 20, megabytes=9, form="MatMul", precision="float32"),
    scenario("onnx_int8", 10, 0.85, megabytes=9, form="MatMul", precision="int8 static"),
)


@pytest.fixture
def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> "Asked":
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    Path("hosts.toml").write_text(HOSTS, encoding="utf-8")
    return Asked(tmp_path, capsys)


class Asked:
    """A user who asks with a report and requirements."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._place, self._capsys, self.lines = place, capsys, ""

    def __call__(
        self, requirements: str = "", *more: str, of: Sequence[Judgement] = SCENARIOS, table: str = ""
    ) -> tuple[int, str]:
        """Return the exit code and what was said, in one line."""
        file = self._place / ("table.csv" if table else "report.json")
        file.write_bytes(table.encode() if table else render(replace(fake.report(), judgements=tuple(of))))
        limits = self._place / "requirements.yaml"
        limits.write_text(requirements, encoding="utf-8")
        code = main(["tradeoffs", str(file), *([f"--requirements={limits}"] if requirements else []), *more])
        said = self._capsys.readouterr()
        self.lines = (said.out + said.err).replace(str(self._place), "")
        return code, " ".join((said.out + said.err).split())


# Each anchor holds the one before nine times: whoever writes the last one as text never ends.
NINEFOLD = "".join(
    [
        "a: &a [x]\n",
        *(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefghi")),
    ]
)
KEYS = ("? *i\n: 1\n", "? {a: *i}\n: 1\n")
REQUIREMENTS: Sequence[tuple[str, str]] = (
    ("latency_p95: 100\n", "unknown keyword 'latency_p95'. Did you mean 'latency_p95_ms'?"),
    ("accuracy_min: 85\n", "this limit is a share between 0 and 1"),
    ("- 1\n", "has no limits: give a line for each"),
    ("a: [\n", "is no YAML"),
    ("[" * 500, "is no YAML (maximum recursion depth exceeded"),  # deeper than Python's own calls may be
    ("a: !!python/object/apply:os.system [x]\n", "unknown keyword 'a'"),
    ("latency_p95_ms: 1\nlatency_p95_ms: 9\n", "a name stands there twice"),
    ("latency_p95_ms: 2001-02-30\n", "a limit is a finite number"),
    ("latency_p95_ms: [1]\n", "a limit is a finite number"),
    ("latency_p95_ms: .nan\n", "a limit is a finite number"),
    ("2001-02-30: 1\n", "unknown keyword '2001-02-30'"),
    ("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "unknown keyword 'a'"),
    ("latency_p95_ms: 1\n" + "#" * 70_000, "larger than"),
    ("requirements:\n  latency_p95: 1\n", "Did you mean 'latency_p95_ms'?"),
    ("requirements:\n  latency_p95_ms: 1\naccuracy_min: 0.8\n", "a name stands beside requirements"),
    ("requirements: 1\n", "has no limits"),
    ("requirement:\n  latency_p95_ms: 1\n", "unknown keyword 'requirement'. Did you mean 'requirements'?"),
    *((f"{NINEFOLD}{key}", "a list or mapping stands where a name should be: give a line") for key in KEYS),
)


def test_requirements_that_cannot_be_meant(asked: Asked) -> None:
    answers = [asked(requirements) for requirements, _ in REQUIREMENTS]
    assert {USAGE} == {code for code, _ in answers}
    assert [] == [
        (requirements[:40], said)
        for (requirements, complaint), (_, said) in zip(REQUIREMENTS, answers, strict=True)
        if complaint not in said
    ]


def losing() -> Sequence[Judgement]:
    """Of 2,000 examples 45 are of the class b, which INT8 loses: 0.5 points of accuracy are within the margin."""
    classes = Classes(names=("a", "b"), of=array("d", [0.0] * 1955 + [1.0] * 45))
    of = []
    for one, wrong in zip(SCENARIOS[1:], (20, 45), strict=True):
        right = [1.0] * (2000 - wrong) + [0.0] * wrong
        sample = replace(fake.sample("accuracy", right, per="example", source="labels"), classes=classes)
        of.append(replace(one, run=replace(one.run, samples=(sample,))))
    return of


def of_kinds() -> Iterator[Judgement]:
    """The faster kind of machine is the dearer one; INT8 is held against FP32 of the same kind alone."""
    for kind, rate in (("arm", 500.0), ("x86", 1000.0)):
        for name, share, precision in (("onnx_fp32", 1.0, "float32"), ("onnx_int8", 0.5, "int8 static")):
            values = {("latency", "p50"): (share / rate, 0.01), ("throughput", "mean"): (rate, 0.01)}
            found = judged(name, values, form="MatMul", precision=precision)
            yield replace(found, run=replace(found.run, kind=kind))


HOSTS = "".join(
    f'[[host]]\naddress = "{kind}"\nkind = "{kind}"\nprice_per_hour = {price}\n'
    for kind, price in (("arm", 0.09), ("x86", 0.36))
)
# A quarter of the energy at a weight of a quarter makes 141; neither Pareto set nor best candidate use it.
ESTIMATED = """\
scenario,latency_p50_ms,accuracy_mean,energy_mj_proxy
onnx_fp32,1,0.9,4
onnx_int8,1,0.9,1
"""
LATENCY: dict[Key, tuple[float, float]] = {("latency", "p50"): (1e-3, 0.01)}
SWEPT = (judged("onnx_fp32", LATENCY, 1), judged("onnx_fp32", LATENCY, 32), *SCENARIOS[2:])
OF_OTHERS = """\
scenario,latency_ms_per_sample_mean,accuracy,memory_mb,throughput_samples_per_sec,energy_mj_proxy,cpu_utilization,latncy_p95_ms
a,0.5,0.9,10,2000,0.5,0.9,1
b,2.0,0.9,10,500,3,0.9,1
"""
STAGED = {
    ("latency", "p50"): (100e-6, 0.0),
    ("stage_preprocess", "p50"): (80e-6, 0.0),
    ("stage_inference", "p50"): (20e-6, 0.0),
}
# 5 of 1,000 lost: between 0.2 and 1.3 %. Pairs would not decide that, however fast INT8 is shown to be.
DOUBTFUL = scenario("onnx_int8", 1, 0.895, form="MatMul", precision="int8 static")
LOADED = judged("onnx_int8", LATENCY, load="server qps=100 seconds=2 seed=1")
LIMITS = "requirements:\n  memory_max_mb: 20\n  energy_budget_mj: 2\n"
QUICK = judged("onnx_fp32", {("latency", "p50"): (1e-6, 0.01)}, 32)
NAMED = "model,scenario,latency_ms,accuracy\nsmall,onnx,0.5,0.9\nlarge,onnx,2,0.9\n"
PER_SAMPLE = "scenario,latency_ms_per_sample_mean,conditions\na,0.5,batch_size=32\n"
CASES: Mapping[str, tuple[int, str, Sequence[str], Sequence[Judgement] | str]] = {
    "all meet": (OK, "latency_p50_ms: 1\naccuracy_min: 0.8\n", (), SCENARIOS),
    "none meets": (FAILED, "latency_p50_ms: 0.005\nmemory_max_mb: 4\n", (), SCENARIOS),
    "one meets": (OK, "memory_max_mb: 4\n", ("--rank-by=composite",), SCENARIOS),
    "unmeasured": (INCONCLUSIVE, "latency_p50_ms: 1\nenergy_budget_mj: 2\n", (), SCENARIOS),
    "interval": (INCONCLUSIVE, "accuracy_min: 0.899\n", (), SCENARIOS),
    "examples needed": (OK, "", (), (*SCENARIOS[:2], DOUBTFUL)),
    "points": (OK, "", (), SWEPT),
    "load": (OK, "", (), (*SCENARIOS, LOADED)),
    "one point": (OK, "latency_p50_ms: 5\n", ("--at", "batch_size=32"), SWEPT),
    "another point": (OK, "latency_p50_ms: 0.002\n", (), (*SCENARIOS, QUICK)),
    "another reference": (OK, "", ("--reference=onnx_int8",), SWEPT),
    "stages": (OK, "", (), (judged("sklearn_fp32", STAGED),)),
    "table": (OK, "latency_p50_ms: 1\n", ("--rank-by=latency",), TABLE),
    "columns of others": (INCONCLUSIVE, LIMITS, (), OF_OTHERS),
    "means of others": (INCONCLUSIVE, "latency_mean_ms: 1\nmemory_pressure_max: 0.01\n", (), OF_OTHERS),
    "converted": (OK, "", (), "scenario,latency_ms,precision\nonnx_int8,1,int8\nother,2,int8\n"),
    "model": (INCONCLUSIVE, "latency_p50_ms: 1\n", (), NAMED),
    "per sample": (INCONCLUSIVE, "latency_p50_ms: 17\n", (), PER_SAMPLE),
    "batch of others": (OK, "", (), f"scenario,latency_p50_ms,conditions\na,1,batch_size={'9' * 400}\n"),
    "one name": (OK, "", (), "scenario,latency_p50_ms\nonnx_fp32,1\nonnx_fp32,2\n"),
    "class lost": (OK, "", (), losing()),
    "estimate left out": (OK, "", (), ESTIMATED),
    "estimate scored": (OK, "", ("--with-estimates",), ESTIMATED),
    "kinds of machine": (OK, "", ("--hosts=hosts.toml",), [*of_kinds()]),
    "prices not given": (OK, "", (), [*of_kinds()]),
    "hostile": (OK, "", (), "scenario,latency_p50_ms\n\x1b[2Jevil\u202e,1\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(asked: Asked, golden: Callable[[str, bytes], None], name: str) -> None:
    """Requirements first, then the Pareto set, the ranks, who is best, what quantisation gains, and advice."""
    code, requirements, options, of = CASES[name]
    given = {"table": of} if isinstance(of, str) else {"of": of}
    assert code == asked(requirements, *options, **given)[0]
    golden(f"tradeoffs/{name.replace(' ', '_')}.txt", asked.lines.encode())


class Played:
    """Sessions of pytest that end as they are told to."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.given: Sequence[str] = ()

    def __call__(self, arguments: Sequence[str]) -> Session:
        self.given = arguments
        return self.session


def test_a_run_is_made_on_the_spot(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """A test that failed, by its budget for one, has been measured all the same.

    A run that was cut off decides nothing; one without a report or a measurement is a usage error.
    """
    report = replace(fake.report(), judgements=SCENARIOS)
    played = Played(Session(code=1, report=report, output="1 failed"))
    monkeypatch.setattr(tradeoffs, "run_pytest", played)
    out = told(OK, "tradeoffs", "--rank-by=latency", "--", "tests", "-k", "small").out
    assert ["tests", "-k", "small"] == played.given
    said = "pytest ended with code 1; what was measured counts all the same a.py::test_model: 3 cand"
    assert " ".join(out.split()).startswith(said)
    assert "the run has not come to its end" not in out
    for code, partial in ((2, False), (1, True)):
        played.session = Session(code=code, report=replace(report, partial=partial), output="")
        assert "the run has not come to its end" in told(INCONCLUSIVE, "tradeoffs", "--", "tests").out
    played.session = Session(code=4, report=None, output="ERROR: not found: tests")
    assert "pytest ended with code 4 and wrote no report" in told(USAGE, "tradeoffs", "--", "tests").err
    played.session = Session(code=5, report=fake.empty_report(), output="")
    assert "this run of pytest has no measurement" in told(USAGE, "tradeoffs", "--", "tests").err


def test_pairs_of_every_two_share_the_rate_and_the_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three candidates there are three comparisons; time that one leaves goes to the others."""
    asked = list[RivalSettings]()

    def compared(baseline: Measurement, _: Measurement, settings: RivalSettings) -> tuple[Comparison, Gate]:
        asked.append(settings)
        late = uncompared(DEFAULT_MARGINS["latency_p50"], "inconclusive", state("out of time", limit=1.0))
        if len(asked) == 2:
            late = replace(late, change=fake.estimate(-0.25, -0.26, -0.24, 8), pairs=8, outcome="improved", cause=None)
        evidence = Evidence(alpha=settings.alpha, hypotheses=(), pairs=())
        return late, Gate(against=baseline.test, revision="", seed=1, evidence=evidence, shared={}, seconds={})

    near_it = scenario("onnx_int8", 15, form="MatMul", precision="int8 static")
    report = replace(fake.report(), judgements=(*SCENARIOS[:2], near_it))
    monkeypatch.setattr(tradeoffs, "run_pytest", Played(Session(code=0, report=report, output="")))
    monkeypatch.setattr(tradeoffs, "compare_rivals", compared)
    main(["tradeoffs", "--pairs", "--time=60", "--", "tests"])
    said = " ".join(capsys.readouterr().out.split())
    assert [pytest.approx(0.01 / 3)] * 3 == [one.alpha for one in asked]
    assert pytest.approx([20, 30, 60], rel=0.05) == [one.time_s for one in asked]
    assert "onnx_fp32 against sklearn_fp32: inconclusive: the time of 1 s was too short" in said
    assert "give the pairs more time with --time" in said
    assert "onnx_int8 against sklearn_fp32: latency -25.0 % (-26.0 .. -24.0), 8 fresh pairs, improved" in said


REFUSED: Sequence[tuple[Sequence[str], str]] = (
    (["report.json", "--pairs"], "--pairs runs tests: hwperf tradeoffs --pairs -- tests"),
    (["--pairs", "--time=0", "--", "tests"], "--time=0: a number of seconds above 0"),
    ([], "give a report or a CSV, or tests to run: hwperf tradeoffs -- tests"),
    (["report.json", "--", "tests"], "give a report or a CSV, or tests to run: hwperf tradeoffs -- tests"),
    (["report.json", "--requirements=none.yaml"], "--requirements=none.yaml cannot be read"),
)


def test_what_cannot_be_meant(told: Told) -> None:
    assert [] == [one for one in REFUSED if one[1] not in told(USAGE, "tradeoffs", *one[0]).err]


TABLES: Sequence[tuple[str, str]] = (
    ("\ufefflatency,scenario\n1,a\n", "'latency': Did you mean"),  # a byte order mark takes no column
    ("scenario,latency\na,1\n", "no column of a metric"),
    ("scenario,latency_p50\na,1\n", "'latency_p50': Did you mean 'latency_p50_ms'?"),
    ("scenario,cpu_utilization\na,1.6\n", "cpu_utilization=1.6 is a share between 0 and 1"),
    ("scenario,latency_p50_ms\n", "has no row"),
    ("scenario,latency_p50_ms\na,fast\n", "line 2: latency_p50_ms=fast is no number of at least 0"),
    ("scenario,latency_p50_ms\na,inf\n", "line 2: latency_p50_ms=inf is no number of at least 0"),
    ("scenario,latency_p50_ms\na,-1\n", "line 2: latency_p50_ms=-1 is no number of at least 0"),
    (f"{'latency_ms_,' * 2001}scenario\n", "has 2002 columns; 2000 are the most that are read"),
    ("scenario,latency_p50_ms\na,1,2\n", "line 2: more cells than there are columns"),
    ("scenario,latency_p50_ms,latency_p50_ms\na,1,2\n", "a column stands there twice"),
    ("scenario,accuracy_mean\na,85\n", "accuracy_mean=85 is a share between 0 and 1"),
    (TABLE.replace("0.11", "0.14"), "latency_p50_ms lies outside of latency_p50_ms_ci_low .. latency_p50_ms_ci"),
)


def test_tables_that_cannot_be_read(asked: Asked) -> None:
    answers = [(table[:40], complaint, *asked(table=table)) for table, complaint in TABLES]
    assert {USAGE} == {code for *_, code, _ in answers}
    assert [] == [(table, said) for table, complaint, _, said in answers if complaint not in said]


def test_a_processor_may_have_been_busy_for_longer_than_the_time_that_went_by(asked: Asked) -> None:
    """Two clocks measure that: hwperf writes such a share itself."""
    assert OK == asked(table="scenario,latency_p50_ms,cpu_utilisation_mean\na,1,1.003\nb,2,0.9\n")[0]


NAMES: Sequence[tuple[str, int, str]] = (
    ("--reference=onnx_fp23", USAGE, "no such candidate. Did you mean 'onnx_fp32'?"),
    ("--test=other", USAGE, "--test=other: no such test."),
    ("--weight=speed=1", USAGE, "unknown dimension"),
    ("--at=batch=1", USAGE, "--at=batch=1: unknown condition. Did you mean 'batch_size'? Allowed: batch_size, thr"),
    ("--at=threads=", USAGE, "one value for each condition, such as --at batch_size=32"),
    ("--at=batch_size=7", USAGE, "nothing was measured at batch_size=7. No measurement tells its point"),
    ("--rank-by=energy", OK, "ranking not by energy, which is left out"),
    ("--weight=energy=1", OK, "ranking by score; weights accuracy 50 %, latency 25 %, memory 25 %"),
)


def test_names_that_are_not_there(asked: Asked) -> None:
    answers = [(more, code, answer, *asked("", more)) for more, code, answer in NAMES]
    assert [] == [one for one in answers if one[1] != one[3] or one[2] not in one[4]]
    assert "Measured: batch_size=1; batch_size=32" in asked("", "--at=batch_size=7", of=SWEPT)[1]


def test_the_tables_as_a_file(asked: Asked, tmp_path: Path) -> None:
    file = tmp_path / "tables.json"
    code, _ = asked("memory_max_mb: 4\nenergy_budget_mj: 2\n", "--rank-by=latency", f"--json={file}")
    (table,) = from_file(TradeoffsFile, file.read_bytes(), other="", older="").tables
    native, onnx, _ = table.candidates
    assert INCONCLUSIVE == code
    assert (TEST, "", "onnx_fp32", "") == (table.test, table.point, table.reference, table.unranked)
    assert {"energy": ("sklearn_fp32", "onnx_fp32", "onnx_int8")} == table.left_out
    assert (True, True, 1, False) == (native.meets, native.is_pareto, native.rank, native.is_inconclusive)
    assert (False, True, None, None) == (onnx.meets, onnx.is_pareto, onnx.rank, onnx.score)
    assert [("passed", None), ("unmeasured", None)] == [(one.outcome, one.excess) for one in native.requirements]
    assert [("failed", 1.25), ("unmeasured", None)] == [(one.outcome, one.excess) for one in onnx.requirements]
    assert {"accuracy", "latency", "memory"} == native.dimensions.keys()


# In the process of the session the quick one is the slower one: as of three runs of one code, one said the opposite.
TESTS = """
import os
import pytest
from fakes.simulated_time import spend

QUICK_US = 150 if "HWPERF_SHARES_COMPILED" in os.environ else 230


@pytest.mark.parametrize("us", [200, QUICK_US], ids=["steady", "quick"])
def test_parametrised(hwperf, us):
    hwperf(spend, us)


def test_labelled(hwperf):
    assert hwperf(spend, 200, label="steady").samples
    assert hwperf(spend, QUICK_US, label="quick").samples


def test_alone(hwperf):
    hwperf(spend, 200)
"""


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
def test_pairs_decide_what_single_processes_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One pair of each two counts as often as is asked."""
    monkeypatch.setattr(Conductor, "conduct", conduct)
    monkeypatch.chdir(tmp_path)
    Path("test_models.py").write_text(TESTS, encoding="utf-8")
    code = main(["tradeoffs", "--pairs", "--json=found.json", "--", *SIMULATED, *QUICKLY, "test_models.py"])
    said = " ".join(capsys.readouterr().out.split())
    tables = from_file(TradeoffsFile, Path("found.json").read_bytes(), other="", older="").tables
    assert OK == code
    for steady, quick in (
        ("test_models.py::test_parametrised[steady]", "test_models.py::test_parametrised[quick]"),
        ("test_models.py::test_labelled, steady", "test_models.py::test_labelled, quick"),
    ):
        pairs = re.escape(f"pairs {quick} against {steady}: latency -2")
        assert re.search(pairs + r"[45]\.\d %, 6 fresh pairs, improved", said)
        assert f"low latency {quick} critical accuracy" in said
        assert f"pareto set {quick} ranking" in said
    assert "Measure in pairs" not in said
    assert ["improved"] * 2 == [table.candidates[1].pairs[table.candidates[0].name][0].outcome for table in tables[:2]]
    assert [1, 1, 0] == [len(table.gates) for table in tables]
