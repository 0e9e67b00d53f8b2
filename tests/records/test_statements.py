"""Statements are put into words in one place, and nothing but a reader asks what these words are."""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.cli.compare import exit_code
from pytest_hwperf.gate.pair.channel import WorkerLostError, loss
from pytest_hwperf.records import messages
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.markers import ALWAYS_COMPARED, parse_budgets
from pytest_hwperf.records.messages import (
    Difference,
    Statement,
    cause_of,
    differing,
    is_lacking,
    said,
    sentence,
    state,
)
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Run, replace
from pytest_hwperf.records.verdict import Comparison, Judgement, Policy
from pytest_hwperf.reports.exports import properties
from pytest_hwperf.reports.table import Line, rows
from pytest_hwperf.stats.choice import rollout
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.pairs.sequence import decide, next_step
from pytest_hwperf.stats.replay import recompute
from pytest_hwperf.stats.stored.compare import (
    Criteria,
    Stored,
    compare_with_stored,
    machine_drift,
    needs_repeats,
    stored_run_of,
)
from pytest_hwperf.stats.verdicts import judge

MESSAGES = Path(messages.__file__)
PACKAGE = MESSAGES.parents[1]
KINDS = sorted(messages._SENTENCES)
KINDS_IN_CODE = re.compile(r"""\b(?:state|Statement|screened)\((?:kind=)?"([^"]+)\"""")


def test_every_kind_in_the_code_has_its_sentence_and_every_sentence_its_kind() -> None:
    package = "".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")) if path != MESSAGES)
    assert set(KINDS_IN_CODE.findall(package)) <= {*KINDS}
    assert [] == [kind for kind in KINDS if f'"{kind}"' not in package and kind != "said"]


def test_a_kind_without_a_sentence_is_refused() -> None:
    with pytest.raises(ValueError, match="no statement is of the kind 'nonsense'"):
        state("nonsense")


def test_every_sentence_stands_without_its_facts_and_takes_no_format_specification_from_one() -> None:
    """What a file has left out is a question mark."""
    specifications = {kind: [part[2] for part in Formatter().parse(messages._SENTENCES[kind])] for kind in KINDS}
    assert [] == [kind for kind in KINDS if not str(Statement(kind=kind))]
    assert [] == [kind for kind, specs in specifications.items() if any("{" in (spec or "") for spec in specs)]


WORDED = [
    (said("as {it} was"), "as {it} was"),
    (state("out of time", limit=600), "the time of 600 s was too short"),
    (state("out of part", limit=295), "the part of the time that fresh processes have, 295 s, was up"),
    (state("historical limit", limit=0.532, sessions=3), "limit +53.2 %, stored runs: 3"),
    (state("equal values", baseline=3, candidate=1, per="file"), "3 files against 1 file, equal on each side"),
    (state("idle machine", watts=12.34), "idle machine's 12.3 W"),
    (state("load", load=0.25, cores=2), "load 0.2 on 2 cores"),
    (state("coarse meter", source="rapl", least=5.0, asked=4.25), "margins of 5 % or more, not 4.25 %"),
    (state("count", n=1.5), "n=1.5"),
    (state("out of time", limit="long"), "the time of long s was too short"),
    (state("other data", differing({"data": "a"}, {})), "data: a, absent (baseline, now)"),
]


def test_facts_are_put_into_words() -> None:
    braces = "{text:9999999999} {0.__class__} {"  # no template
    assert f"not measured: {braces}" == str(state("not measured", why=braces))
    assert [] == [(words, str(found)) for found, words in WORDED if words not in str(found)]


ALIKE: list[tuple[str, Mapping[str, float], Mapping[str, float], str]] = [
    ("step", {"shortest_s": 0.5}, {"shortest_s": 0.512}, "windows of 500 .. 512 ms or more"),
    ("step", {"shortest_s": 0.5}, {"shortest_s": 1.5}, "windows of 500 ms .. 1.50 s or more"),
    ("historical limit", {"limit": 0.5}, {"limit": 0.25}, "limit +25.0 .. 50.0 %"),
    ("too short", {"call_s": 2e-6, "least_s": 1e-4}, {"call_s": 4e-6}, "add -o hwperf_shortest=1e-06"),  # to be typed
    ("count", {"n": 8.0}, {"n": 8.0}, "n=8"),
    ("count", {"n": 8.0}, {}, "n=8"),
]


def test_alike_statements_are_said_with_the_range_of_their_numbers() -> None:
    found = [
        (words, sentence(Statement(kind=kind, numbers=one), Statement(kind=kind, numbers=other)))
        for kind, one, other, words in ALIKE
    ]
    assert [] == [(words, shown) for words, shown in found if words not in shown]


def test_what_a_file_counts_is_never_a_format_specification_and_is_cut() -> None:
    texts = ("9999999999.1f", "{baseline.__class__}", "?", "s", "count", "", "{", "%n" * 40)
    for kind in ("equal values", "screened values"):
        found = {per: str(state(kind, baseline=3, candidate=1, per=per)) for per in texts}
        assert [] == [per for per, shown in found.items() if f" against 1 {per}," not in shown]
    assert 300 > len(str(state("equal values", baseline=3, candidate=1, per="x" * 10_000)))


def test_the_cause_of_a_refusal_keeps_its_kind_and_shows_what_it_quotes() -> None:
    """One in words alone is a cause too."""
    refused = ScenarioUnavailable(state("no int8 form", why="Op\x1b[31m"))
    assert state("no int8 form", why="Op\\x1b[31m") == cause_of(refused)
    assert "no INT8 form: Op\\x1b[31m" == refused.sentence
    assert said("no such form") == cause_of(ScenarioUnavailable("no such form"))


def test_equal_statements_count_as_one() -> None:
    one, other = (state("count", n=3) for _ in range(2))
    assert {one: None} == {other: None}


def test_what_differs_is_named_in_order() -> None:
    found = differing({"b": "1", "a": "1", "same": "x"}, {"a": "2", "same": "x"})
    assert found == (
        Difference(name="a", baseline="1", candidate="2"),
        Difference(name="b", baseline="1", candidate="absent"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Everything that is decided about a session, without a word of it."""

    comparisons: list[tuple[str, str]]
    verdicts: list[tuple[str, str, bool]]
    repeats: list[bool]
    drifted: bool
    code: int
    marks: list[tuple[int, ...]]
    footnotes: int
    names: list[str]
    recomputed: tuple[int, int]
    side: str
    next: str


def energy_of(run: Run, *, estimated: bool) -> Run:
    sample = fake.sample("energy", [0.1] * 5, per="window", source="rapl:package-0")
    return replace(run, samples=(*run.samples, replace(sample, estimated=estimated)))


def compared(now: Run, *others: Run) -> tuple[Comparison, ...]:
    stored = [stored_run_of(Judgement(run=run, figures=figures(run), verdicts=())) for run in others]
    required = {(margin.metric, margin.statistic) for margin in ALWAYS_COMPARED}
    criteria = Criteria(margins=ALWAYS_COMPARED, required=required)
    return compare_with_stored(now, figures(now), Stored(runs=stored, elsewhere=[fake.machine(cores=8)]), criteria)


def session() -> Report:
    """Return one that has every way to compare in it, and budgets that are and are not measured."""
    slow = fake.run(samples=(fake.sample(values=[0.6] * 3), fake.sample("memory", [9e6] * 3, per="fresh process")))
    quick = fake.run(samples=(fake.sample(), fake.sample("memory", [5e6] * 3, per="fresh process")))
    budgets = parse_budgets({"latency_p95_ms": 1.0, "accuracy_min": 0.9, "energy_budget_mj": 5})
    policy, judgements = Policy(strict=True), []
    for number, (now, then) in enumerate(
        [
            (slow, [quick] * 3),
            (quick, []),
            (replace(quick, conditions={"data": "other"}), [quick]),
            (energy_of(quick, estimated=True), [energy_of(quick, estimated=False)]),
            (replace(quick, unmeasured={"energy": state("energy off")}), [quick]),
        ]
    ):
        run = replace(now, test=f"t.py::t{number}")
        made = figures(run)
        verdicts = judge(run, made, compared(run, *then), budgets, policy)
        judgements.append(Judgement(run=run, figures=made, verdicts=verdicts))
    report = gates.report(3)
    return replace(report, judgements=(*report.judgements, *judgements), policy=policy)


def outcomes() -> Outcomes:
    report = session()
    comparisons = [one for judgement in report.judgements for one in judgement.comparisons]
    verdicts = [verdict for judgement in report.judgements for verdict in judgement.verdicts]
    table, notes = rows(report)
    evidence = report.gates[0].evidence
    again = recompute(report)
    return Outcomes(
        comparisons=[(one.metric, one.outcome) for one in (*comparisons, *decide(evidence).values())],
        verdicts=[(verdict.subject.metric, verdict.outcome, verdict.fails) for verdict in verdicts],
        repeats=[needs_repeats(one) for one in comparisons],
        drifted=machine_drift([one for one in comparisons if needs_repeats(one)] * 9) is not None,
        code=exit_code(rollout.decide(comparisons)),
        marks=[one.notes for one in table if isinstance(one, Line)],
        footnotes=len(notes),
        names=[name for judgement in report.judgements for name, _ in properties(judgement)],
        recomputed=(again.agreeing, again.beyond),
        side=loss(WorkerLostError("ended", side="candidate")).texts["side"],
        next=str(next_step(evidence).stage),
    )


def test_no_outcome_depends_on_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sentence is garbled, and nothing is decided, merged or named otherwise.

    Notes merge where only their words are known, as of a line of a verdict, and all have the words of another kind.
    """
    before = outcomes()
    assert True in before.repeats
    assert before.drifted
    monkeypatch.setattr(messages, "sentence", lambda *alike: hashlib.sha256(repr(alike).encode()).hexdigest())
    assert before == outcomes()
    monkeypatch.setattr(messages, "sentence", lambda *_: "estimate: historical; data: candidate: unmeasured, budget ")
    without_notes, alike = (dataclasses.replace(one, marks=[], footnotes=0) for one in (before, outcomes()))
    assert without_notes == alike


def test_only_a_bound_that_n_is_too_small_for_is_lacking() -> None:
    assert is_lacking(state("no bound", statistic="p99", side="upper", level=98, needed=459, n=40))
    assert not is_lacking(state("heat", rises=3))
    assert not is_lacking("no bound")
