"""Answers of the pairs to everything that they were asked, also where they observed nothing."""

from collections.abc import Collection, Mapping, Sequence

from pytest_hwperf.core.evidence import Evidence, Explanation, Hypothesis, Measurement, PairedProfiles
from pytest_hwperf.core.explanations import explained
from pytest_hwperf.core.hypotheses import PairedAnswers, Questions
from pytest_hwperf.core.sequence import decide
from pytest_hwperf.core.statements import Statement, state


def answers_of(
    evidence: Evidence,
    questions: Questions,
    dropped: Mapping[Hypothesis, Statement],
    met: Collection[Measurement],
    found: tuple[Sequence[PairedProfiles], Sequence[Explanation]] = ((), ()),
) -> PairedAnswers:
    """Decide what was observed, and give the reason for everything else."""
    comparisons = explained(decide(evidence), *found)
    questions.parts.update({one.key: ("not comparable", why) for one, why in dropped.items()})
    silent = {key for one in evidence.hypotheses if (key := one.key) not in comparisons} - questions.parts.keys()
    questions.parts.update(dict.fromkeys(silent, ("inconclusive", evidence.stopped)))
    if evidence.stopped is not None and evidence.stopped.kind == "out of time":
        late = state("not reached", limit=evidence.stopped.numbers["limit"])
        questions.parts.update({one.key: ("inconclusive", late) for one in evidence.unreached})
    return PairedAnswers(comparisons=comparisons, questions=questions, met=frozenset(met))
