"""`hwperf compare` as a decision, its pairs played: what is said first, what is written, and what is left out."""

from array import array
from pathlib import Path

import numpy as np
import pytest
from fakes.instant_pairs import conduct
from fakes.played_models import Right, play

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.records.codec import from_file
from pytest_hwperf.records.evidence import Evidence, Side
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.stats.rollout_plan import RolloutFile, VersionRecord

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


def compare(*options: str) -> int:
    return main(["compare", "models:old", "models:new", "--data=rows.npz", *options])


def test_a_go_is_said_first_and_has_a_record_that_reads_back(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, equal, right(540))
    (place / "asked.yaml").write_text("latency_p50_ms: 1500\naccuracy_min: 0.9\n", encoding="utf-8")
    assert OK == compare("--requirements=asked.yaml", "--record=v2.json", "--json=all.json", "--markdown=d.md")
    out = capsys.readouterr().out
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
@pytest.mark.parametrize(
    ("who", "code", "first"),
    [
        (right(540, lost=16), FAILED, "no-go: accuracy -2.96 pp ("),
        (right(60, lost=2), INCONCLUSIVE, "inconclusive: accuracy -3.33 pp ("),
        (right(60), INCONCLUSIVE, "inconclusive: accuracy equal on 60 of 60 examples"),
    ],
    ids=["3 points less", "too few", "too few, equal"],
)
def test_accuracy_decides_where_there_are_examples_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], who: Right, code: int, first: str
) -> None:
    play(monkeypatch, equal, who)
    assert code == compare()
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith(first)
    assert ("; 60 examples" in out) == (code == INCONCLUSIVE)
    assert "no plan: there is one when the decision is go" in out


def test_a_requirement_that_is_not_measured_is_never_met(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, equal, right(540))
    (place / "asked.yaml").write_text("energy_budget_mj: 1\n", encoding="utf-8")
    assert INCONCLUSIVE == compare("--requirements=asked.yaml", "--accept-inconclusive")
    assert "inconclusive: energy_budget_mj unmeasured, limit <= 1 mJ" == capsys.readouterr().out.splitlines()[0]


def test_neither_passwords_nor_headers_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, equal)
    sides = ["http://me:secret@a.example/p?key=secret", "http://b.example/p"]

    main(["compare", *sides, "--data=rows.npz", "--header=Token: secret", "--record=r.json", "--json=all.json"])
    for file in ("r.json", "all.json"):
        assert "secret" not in (place / file).read_text(encoding="utf-8")
    command = from_file(VersionRecord, (place / "r.json").read_bytes(), **AGAIN).command
    assert ("http://a.example/p?…", "--header=Token: …") == (command[2], command[-1])


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["m.joblib", "models:new"], "m.joblib is a pickle"),
        (["models:old", "grpc://127.0.0.1:1/m"], "Triton: http://127.0.0.1:8000/v2/models/MODEL/infer"),
        (["models:old", "models:new", "--timeout=0"], "--timeout=0: a number of seconds above 0"),
        (["models:old", "models:new", "--record=."], "--record=. cannot be written"),
        (["models:old", "models:new", "--requirements=none.yaml"], "--requirements=none.yaml cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert USAGE == main(["compare", *arguments, "--data=rows.npz"])
    assert complaint in capsys.readouterr().err
