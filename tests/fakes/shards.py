"""Reports of shards that never ran: builds drawn from a seed, each shard with tests and a machine of its own."""

from random import Random

from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.report import Report, Shard
from pytest_hwperf.records.run import Machine, replace
from pytest_hwperf.records.verdict import Judgement, Policy
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.merging import assigned
from pytest_hwperf.stats.pairs.sequence import decide
from pytest_hwperf.stats.verdicts import judge

ALPHA, OF = 0.01, 3
AGAINST = "origin/main"


def shard(number: int, of: int = OF, kind: str = "", kinds: int = 1) -> Shard:
    return Shard(
        number=number,
        of=of,
        alpha=ALPHA,
        selected=6,
        selection="c0ffee" * 10,
        settings={"--hwperf-against": AGAINST, "--hwperf-strict": "off"},
        exit_code=0,
        kind=kind,
        kinds=kinds,
    )


def report_of(
    number: int, *changes: float, at: Machine | None = None, of: int = OF, kind: str = "", kinds: int = 1
) -> Report:
    """Return the report of one shard, in whose folder a test changed by each of `changes`."""
    own = shard(number, of, kind, kinds)
    judgements, evidence = [], gates.build([*changes], Random(number), alpha=own.own_alpha, folder=f"tests/{number}")
    for one, compared in decide(evidence).items():
        run = fake.run(test=one.measurement.test, at=at)
        found = figures(run)
        judgements.append(Judgement(run=run, figures=found, verdicts=judge(run, found, [compared], (), Policy())))
    gate = Gate(against=AGAINST, revision="4f2c1e9", seed=number, evidence=evidence, shared={}, seconds={"screen": 9.0})
    failed = tuple(one.run.test for one in judgements if one.fails)
    own = replace(own, failed=failed, exit_code=int(bool(failed)))
    report = replace(
        fake.empty_report(),
        machine=at or fake.machine(),
        judgements=tuple(judgements),
        gates=(gate,) if changes else (),
        shards=(own,),
    )
    return assigned(report, kind) if kind else report


def of_kind(kind: str, *changes: float, at: Machine | None = None, kinds: int = 1) -> Report:
    """Return the report of a whole build on one kind of machine."""
    return report_of(1, *changes, at=at, of=1, kind=kind, kinds=kinds)
