"""`hwperf compare`: two models through the same pairs as everything else, and the decision that is said and kept."""

import re
from argparse import Namespace
from array import array
from collections.abc import Sequence
from functools import partial
from math import exp
from pathlib import Path
from random import Random

import numpy as np
import pytest
from fakes import gates, repeated_pairs
from fakes.commands import Told
from fakes.instant_pairs import conduct
from fakes.onnx_models import save_onnx
from fakes.played_models import Ending, Right, out_of_time, play
from fakes.records import estimate

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.arguments import check_files
from pytest_hwperf.cli.compare import exit_code
from pytest_hwperf.cli.inputs import read_data
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.models.compare import RivalSettings, compare_rivals
from pytest_hwperf.records.codec import from_file
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, Measurement, Pair, Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Margin, uncompared
from pytest_hwperf.runtimes.onnx_file import compared_file
from pytest_hwperf.stats.choice.rollout import decide
from pytest_hwperf.stats.choice.rollout_plan import RolloutFile, VersionRecord
from pytest_hwperf.stats.pairs.sequence import next_step
from pytest_hwperf.stats.pairs.timetable import BlockPlan

QUICK = BlockPlan(doubles=2, calls=10, block_s=0.002, warm_blocks=3)
COLUMNS = 64
CHANGE = estimate(0.01, -0.02, 0.05, 14)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pytest_hwperf.gate.models.compare.Conductor", partial(Conductor, plan=QUICK))
    monkeypatch.chdir(tmp_path)


def save_model(path: Path, layers: int, *, shift: float = 0.0, inputs: int = 1) -> str:
    """Write a chain of matrix products that scores two classes by the sign of the sum."""
    nodes = [("MatMul", [f"x{n}", "w"], f"x{n + 1}") for n in range(layers)]
    nodes += [("MatMul", [f"x{layers}", "last"], "s"), ("Add", ["s", "shift"], "y")]
    given = {"x0": COLUMNS} | {f"more{n}": 1 for n in range(inputs - 1)}
    last, weights = np.stack([np.ones(COLUMNS), -np.ones(COLUMNS)], axis=1), np.full((COLUMNS, COLUMNS), 1 / COLUMNS)
    return save_onnx(path, nodes, given, {"y": 2}, w=weights, last=last, shift=[shift, 0])


@pytest.fixture
def rows(tmp_path: Path) -> str:
    X = np.random.default_rng(0).normal(size=(200, COLUMNS)).astype(np.float32)
    y = np.where(X.sum(axis=1) > 0, 0, 1)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    np.savez(tmp_path / "bare.npz", X=X)
    return str(tmp_path / "rows.npz")


@pytest.mark.live
def test_a_slower_model_with_other_answers_is_found(
    tmp_path: Path, rows: str, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """By its pairs, of which one counts as often as is asked, and example by example."""
    monkeypatch.setattr(Conductor, "conduct", repeated_pairs.conduct)
    old, new = save_model(tmp_path / "old.onnx", 2), save_model(tmp_path / "new.onnx", 40, shift=10.0)
    out = told(FAILED, "compare", old, new, f"--data={rows}", "--margin=10%", "--batch-size=16").out
    assert "REGRESSED  latency p50 ×" in out
    assert "exact signed-rank" in out
    assert "REGRESSED  accuracy -" in out


@pytest.mark.live
def test_a_model_that_does_not_run_says_why(tmp_path: Path, told: Told) -> None:
    """It raises, cannot be imported, or crashes."""
    np.save(tmp_path / "rows.npy", np.ones((8, 3)))
    for content, complaint in (
        (
            "def broken(X):\n    raise ValueError('no weights')\n",
            "broken cannot be measured: ValueError: no weights",
        ),
        ("import nothing_of_that_name\n", "models:broken cannot be imported: No module named 'nothing_of_that_name'"),
        ("import os\nos._exit(3)\n", "ended with code 3 in the middle of the pair"),
    ):
        (tmp_path / "models.py").write_text(content, encoding="utf-8")
        assert complaint in told(USAGE, "compare", "models:broken", "models:broken", "--data=rows.npy").err


def test_a_model_with_two_inputs_is_refused(tmp_path: Path) -> None:
    save_model(two := tmp_path / "two.onnx", 1, inputs=2)
    with pytest.raises(UsageProblem, match="has the inputs x0, more0: models with one input are compared"):
        compared_file(two, 1).load()


REFUSED: Sequence[tuple[Sequence[str], str]] = (
    (["none.onnx", "none.onnx", "--data=x.npy"], "none.onnx is neither a file nor of the form module:function"),
    (
        ["a:f", "a:f", "--data=none.npz"],
        "--data=none.npz cannot be read (No such file or directory): give an .npz with X and perhaps y",
    ),
    (
        ["a:f", "a:f", "--data=rows.npz", "--margin=energy=5%"],
        "hwperf compare knows margins of latency, accuracy, model_size and cpu_time",
    ),
    (["a:f", "a:f", "--data=rows.npz", "--margin=foo=3%"], "hwperf: --margin: foo=3%: unknown keyword 'foo'"),
    (["a:f", "a:f", "--data=rows.npz", "--margin=latency_p50=x"], "--margin: latency_p50=x: a margin is a perc"),
    (["a:f", "a:f", "--data=bare.npz", "--margin=accuracy=1pp"], "--margin=accuracy: the data has no labels: add y"),
    (["a:f", "a:f", "--data=rows.npz", "--margin=model_size=1%"], "functions and addresses have no size: leave"),
    (["a:f", "a:f", "--data=rows.npz", "--alpha=50%"], "--alpha='50%': a rate above 0 up to 20 %"),
    (["a:f", "a:f", "--data=rows.npz", "--target=y"], "--target names a column of a .csv"),
    (["m.joblib", "a:f", "--data=rows.npz"], "m.joblib is a pickle"),
    (["a:f", "grpc://127.0.0.1:1/m", "--data=rows.npz"], "Triton: http://127.0.0.1:8000/v2/models/MODEL/infer"),
    (["a:f", "a:f", "--data=rows.npz", "--timeout=0"], "--timeout=0: a number of seconds above 0"),
    (["a:f", "a:f", "--data=rows.npz", "--record=."], "--record=. cannot be written"),
    (["a:f", "a:f", "--data=rows.npz", "--requirements=none.yaml"], "--requirements=none.yaml cannot be read"),
)


@pytest.mark.usefixtures("rows")
def test_what_cannot_be_meant_is_refused(told: Told) -> None:
    assert [] == [one for one in REFUSED if one[1] not in told(USAGE, "compare", *one[0]).err]


def test_a_table_gives_rows_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b,kind\n1,2,cat\n3,4,dog\n", encoding="utf-8")
    X, y = read_data(str(path), "kind")
    assert [[1, 2], [3, 4]] == X.tolist()
    assert y is not None
    assert ["cat", "dog"] == y.tolist()
    with pytest.raises(UsageProblem, match=r"--target='sort' is no column of .*\. Allowed: a, b, kind"):
        read_data(str(path), "sort")


def test_the_exit_code_tells_inconclusive_from_equal() -> None:
    """And doubt is accepted where something was observed: of what was out of time nothing is known."""

    def code(found: Sequence[Comparison], *, accept: bool) -> int:
        return exit_code(decide(tuple(found)), accept_inconclusive=accept)

    cases: Sequence[tuple[list[ComparisonOutcome], int, int]] = (
        (["equivalent", "improved"], OK, OK),
        (["equivalent", "regressed", "inconclusive"], FAILED, FAILED),
        (["equivalent", "inconclusive"], INCONCLUSIVE, OK),
        (["not comparable"], INCONCLUSIVE, INCONCLUSIVE),
        ([], INCONCLUSIVE, INCONCLUSIVE),
    )
    for outcomes, strict, accepted in cases:
        found = [
            Comparison(
                metric="latency", statistic="p50", outcome=outcome, change=CHANGE, scale="relative", margin=0.02,
                p_value=None, pairs=0, method=None, detectable=None, baseline=None,
            )
            for outcome in outcomes
        ]  # fmt: skip
        assert (outcomes, strict, accepted) == (outcomes, code(found, accept=False), code(found, accept=True))
    for kind, accepted in (("processes disagree", OK), ("out of time", INCONCLUSIVE)):
        cause = state(kind, what="predictions differ", side="candidate", limit=6)
        one = uncompared(Margin(metric="accuracy", statistic="mean", size=0.0), "inconclusive", cause)
        assert (INCONCLUSIVE, accepted) == (code([one], accept=False), code([one], accept=True))


def test_a_time_that_is_up_in_the_first_pair_is_said_and_inconclusive(
    monkeypatch: pytest.MonkeyPatch, rows: str, told: Told
) -> None:
    """Nothing was observed that could be accepted."""
    play(monkeypatch, out_of_time)
    given = ("compare", "m:f", "m:f", f"--data={rows}", "--time=6", "--accept-inconclusive")
    assert "INCONCLUSIVE  latency p50: the time of 6 s was too short" in told(INCONCLUSIVE, *given).out


def differing(screen: float, later: float) -> Ending:
    """Let the sides differ by chance, with this deviation in the screen and in what follows."""
    random = Random(1)

    def conduct(_: Conductor, evidence: Evidence, __: Statement | None) -> Evidence:
        while (step := next_step(evidence)).stage is not None:
            number = len(evidence.pairs) + 1
            share = exp(random.gauss(0.0, screen if step.stage == "screen" else later))
            seen = tuple(gates.observed(one, [1.0] * 4, [share] * 4) for one in evidence.hypotheses)
            pair = Pair(
                number=number, stage=step.stage, first="baseline", hash_seeds={}, assignments=(), observations=seen
            )
            evidence = replace(evidence, pairs=(*evidence.pairs, pair))
        return evidence

    return conduct


def test_equal_models_are_measured_until_they_are_known_to_be_equal(
    monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """Where the screen is too noisy to say so, 8 further pairs are looked at; what never settles is inconclusive."""
    np.save("unlabelled.npy", np.ones((8, 3)))
    for later, code, said in (
        (0.002, OK, r"go: .*: 1\d pairs of fresh processes EQUIVALENT latency p50 .*, 8 fresh pairs, "),
        (
            0.3,
            INCONCLUSIVE,
            r"inconclusive: latency .* 60 pairs cannot decide this.* INCONCLUSIVE latency p50 .*, 60 fresh ",
        ),
    ):
        with monkeypatch.context() as patch:
            play(patch, differing(0.04, later))
            out = " ".join(told(code, "compare", "m:f", "m:f", "--data=unlabelled.npy").out.split())
        assert re.match(said, out)
        assert "accuracy: there are no labels" in out
    play(monkeypatch, differing(0.04, 0.002))  # so are two candidates of `hwperf tradeoffs`
    rivals = (Measurement(test="a", label=""), Measurement(test="b", label=""))
    assert "equivalent" == compare_rivals(*rivals, RivalSettings(arguments=(), alpha=0.01, time_s=60))[0].outcome


def test_pairs_are_counted(monkeypatch: pytest.MonkeyPatch, rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    for pairs, shown in ((1, "1 pair of fresh processes"), (2, "2 pairs of fresh processes")):

        def cut_off(_: Conductor, evidence: Evidence, late: Statement | None, pairs: int = pairs) -> Evidence:
            lost = Pair(number=1, stage="screen", first="baseline", hash_seeds={}, assignments=(), observations=())
            return replace(evidence, pairs=(lost,) * pairs, stopped=late)

        play(monkeypatch, cut_off)
        main(["compare", "m:f", "m:f", f"--data={rows}"])
        assert f"m:f (NEW) against m:f (OLD): {shown}\n" in capsys.readouterr().out


def test_the_folder_of_a_record_is_made(tmp_path: Path) -> None:
    """It is kept with others; what cannot be made is said before anything is measured."""
    check_files(Namespace(record=str(tmp_path / "models" / "records" / "new.json"), json=None))
    assert [tmp_path / "models" / "records"] == list((tmp_path / "models").iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(UsageProblem, match=r"--record=.* cannot be written \(.*\): give another place"):
        check_files(Namespace(record=str(tmp_path / "file" / "records" / "new.json")))


AGAIN = {"other": "write it again", "older": "write it again"}


def equal(conductor: Conductor, evidence: Evidence, why_late: Statement | None) -> Evidence:
    """Let all pairs find both sides equal, at a second a call."""
    return conduct(conductor, evidence, 0.0, why_late)


def right(of: int, *, lost: int = 0) -> Right:
    """Return who gets which of `of` examples right: the candidate `lost` fewer."""
    wrong: dict[Side, int] = {"baseline": 0, "candidate": lost}
    return lambda side: array("d", [0.0] * wrong[side] + [1.0] * (of - wrong[side]))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    np.savez(tmp_path / "rows.npz", X=np.ones((540, 2)), y=np.ones(540))
    (tmp_path / "models.py").write_text("raise SystemExit('nobody imports this here')\n", encoding="utf-8")
    return tmp_path


COMPARE = ("compare", "models:old", "models:new", "--data=rows.npz")


def test_a_go_is_said_first_and_has_a_record_that_reads_back(
    place: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    play(monkeypatch, equal, right(540))
    (place / "asked.yaml").write_text("latency_p50_ms: 1500\naccuracy_min: 0.9\n", encoding="utf-8")
    files = ("--record=v2.json", "--json=all.json", "--markdown=d.md")
    out = told(OK, *COMPARE, "--requirements=asked.yaml", *files).out
    assert "go: nothing is worse by more than its margin, and 2 requirements met" == out.splitlines()[0]
    assert [] == [line for line in out.splitlines() if len(line) > 80]
    record = from_file(VersionRecord, (place / "v2.json").read_bytes(), **AGAIN)
    whole = from_file(RolloutFile, (place / "all.json").read_bytes(), **AGAIN)
    assert whole.record == record
    assert ("go", 6, 540) == (record.decision.outcome, record.pairs, record.rows.count)
    assert [64, 64] == [len(side.sha256) for side in (record.old, record.new)]
    assert whole.plan is not None
    assert (place / "d.md").read_text(encoding="utf-8").startswith("## go: nothing is worse")


@pytest.mark.usefixtures("place")
def test_accuracy_decides_where_there_are_examples_enough(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """3 points less of many examples, the same of too few, and none less of too few."""
    for who, code, first in (
        (right(540, lost=16), FAILED, "no-go: accuracy -2.96 pp ("),
        (right(60, lost=2), INCONCLUSIVE, "inconclusive: accuracy -3.33 pp ("),
        (right(60), INCONCLUSIVE, "inconclusive: accuracy equal on 60 of 60 examples"),
    ):
        with monkeypatch.context() as patch:
            play(patch, equal, who)
            out = " ".join(told(code, *COMPARE).out.split())
        assert out.startswith(first)
        assert ("; 60 examples" in out) == (code == INCONCLUSIVE)
        assert "no plan: there is one when the decision is go" in out


def test_a_requirement_that_is_not_measured_is_never_met(
    place: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    play(monkeypatch, equal, right(540))
    (place / "asked.yaml").write_text("energy_budget_mj: 1\n", encoding="utf-8")
    shown = told(INCONCLUSIVE, *COMPARE, "--requirements=asked.yaml", "--accept-inconclusive").out
    assert "inconclusive: energy_budget_mj unmeasured, limit <= 1 mJ" == shown.splitlines()[0]


def test_neither_passwords_nor_headers_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, equal)
    sides = ["http://me:secret@a.example/p?key=secret", "http://b.example/p"]
    main(["compare", *sides, "--data=rows.npz", "--header=Token: secret", "--record=r.json", "--json=all.json"])
    for file in ("r.json", "all.json"):
        assert "secret" not in (place / file).read_text(encoding="utf-8")
    command = from_file(VersionRecord, (place / "r.json").read_bytes(), **AGAIN).command
    assert ("http://a.example/p?…", "--header=Token: …") == (command[2], command[-1])
