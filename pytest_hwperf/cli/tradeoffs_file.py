"""What `hwperf tradeoffs` has found, as a file for other programs."""

import math
from collections.abc import Mapping

from pytest_hwperf.cli.tradeoffs_text import Choice, Ranked, ranked, why_unranked, worths
from pytest_hwperf.core.evidence import Gate
from pytest_hwperf.core.hardware import OnHardware, on_hardware
from pytest_hwperf.core.records import SCHEMA, BudgetOutcome, Comparison, Estimate
from pytest_hwperf.core.rivals import Candidate, lost_by, per_row
from pytest_hwperf.core.statements import Statement
from pytest_hwperf.core.structs import Number, Record
from pytest_hwperf.core.tradeoffs import Answer, Score, dimensions_of, meets, pareto


class Requirement(Record, frozen=True, kw_only=True):
    """What one candidate makes of one requirement."""

    keyword: str
    limit: Number  # base units
    outcome: BudgetOutcome
    estimate: Estimate | None = None  # base units; None: unmeasured
    estimated: bool = False  # whether the value was estimated, and not measured
    excess: Number | None = None  # share of the limit by which it is missed; None: it is kept, or 0


class RankedCandidate(Record, frozen=True, kw_only=True):
    """One candidate."""

    name: str
    conditions: Mapping[str, str]
    meets: bool  # no value misses its limit; what is unmeasured bars nothing
    requirements: tuple[Requirement, ...]
    pairs: Mapping[str, tuple[Comparison, ...]] = {}  # name of another candidate, the baseline → what pairs have shown
    quantisation: str | None = None  # "worthwhile", "not worthwhile" or "inconclusive"; None: it is no INT8 form
    dimensions: Mapping[str, Estimate]  # that all candidates have, base units, latency per row
    is_pareto: bool | None  # None: there is no dimension that all candidates have
    rank: int | None = None  # from 1; None: it is not ranked
    score: Score | None = None
    composite: Number | None = None
    is_inconclusive: bool | None = None  # whether its score is not shown to be below the highest
    lost_classes: Statement | None = None  # against the reference; None: none is lost, or it is not known
    hardware: OnHardware | None = None  # None: no kind of machine is named


class TradeoffTable(Record, frozen=True, kw_only=True):
    """The candidates of one test at one operating point."""

    test: str  # "" where the file names none
    point: str  # "" where nothing tells it from others
    reference: str  # candidate whose score is 100
    weights: Mapping[str, Number]  # dimension → weight, of those that all candidates have
    estimated: tuple[str, ...] = ()  # of these, what scores and composites take by an estimate
    left_out: Mapping[str, tuple[str, ...]]  # dimension → candidates that lack it
    unranked: str  # why there is no ranking, "" where there is one
    candidates: tuple[RankedCandidate, ...]
    gates: tuple[Gate, ...] = ()  # what `pairs` of the candidates rest on


class TradeoffsFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf tradeoffs"):
    """Everything that was compared."""

    schema: int = SCHEMA
    tables: tuple[TradeoffTable, ...]


def table_of(choice: Choice) -> TradeoffTable:
    """Return the candidates of a choice with everything that the lines say of them, in the order of the file."""
    dimensions, lacking = dimensions_of(choice.candidates)
    why = why_unranked(choice, dimensions)
    places = {} if why else {one.candidate.name: (n, one) for n, one in enumerate(ranked(choice), 1)}
    best = {one.name for one in pareto(choice.candidates, list(dimensions.values()))} if dimensions else None

    def of(one: Candidate) -> RankedCandidate:
        rank, found = places.get(one.name, (None, None))
        return _candidate(one, choice, rank=rank, found=found, is_pareto=None if best is None else one.name in best)

    return TradeoffTable(
        test=choice.test,
        point=choice.point,
        reference=choice.reference.name,
        weights=choice.weighted,
        estimated=choice.estimated,
        left_out={name: tuple(names) for name, names in lacking.items()},
        unranked=why,
        candidates=tuple(map(of, choice.candidates)),
        gates=tuple(choice.gates),
    )


def _candidate(
    one: Candidate, choice: Choice, *, rank: int | None, found: Ranked | None, is_pareto: bool | None
) -> RankedCandidate:
    answers, (dimensions, _) = choice.answers[one.name], dimensions_of(choice.candidates)
    return RankedCandidate(
        name=one.name,
        conditions=one.conditions,
        meets=meets(answers),
        requirements=tuple(map(_requirement, answers)),
        pairs={name: tuple(found.values()) for name, found in one.pairs.items()},
        quantisation=next((found.outcome for quantised, _, found in worths(choice) if quantised is one), None),
        dimensions={name: per_row(one, key) for name, key in dimensions.items()},
        is_pareto=is_pareto,
        rank=rank,
        score=found and found.score,
        composite=found and found.composite,
        is_inconclusive=found and found.inconclusive,
        lost_classes=lost_by(one, choice.reference),
        hardware=next(iter(on_hardware([one], choice.prices)), None),
    )


def _requirement(answer: Answer) -> Requirement:
    excess = answer.excess if answer.excess and math.isfinite(answer.excess) else None
    return Requirement(
        keyword=answer.budget.keyword,
        limit=answer.budget.limit,
        outcome=answer.outcome,
        estimate=answer.estimate,
        estimated=answer.guessed,
        excess=excess,
    )
