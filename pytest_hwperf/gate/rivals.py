"""Comparison of two measurements of one suite, such as two scenarios of a test, in pairs of fresh processes."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from pytest_hwperf.core.budgets import DEFAULT_MARGINS
from pytest_hwperf.core.evidence import Evidence, Gate, Measurement, Side
from pytest_hwperf.core.hypotheses import MeasuredTest, questions_of
from pytest_hwperf.core.records import Comparison
from pytest_hwperf.core.statements import state
from pytest_hwperf.gate.answers import answers_of
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.command_line import Command, undisturbed
from pytest_hwperf.pairs.conductor import Conductor, Progress
from pytest_hwperf.pairs.cpu_pin import processors

_MARGIN = DEFAULT_MARGINS["latency_p50"]
# Options that keep a plugin from disturbing a worker; where it is missing, its option is an error.
_NEUTRAL = {"xdist": "-n0", "pytest_timeout": "--timeout=0", "pytest_cov": "--no-cov"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalSettings:
    """How measurements are compared with each other."""

    arguments: Sequence[str]  # of pytest, which select their tests
    alpha: float  # false-alarm rate of one comparison
    time_s: float  # for all of it
    progress: Callable[[Progress], None] = field(default=lambda _: None)


def compare_rivals(baseline: Measurement, candidate: Measurement, settings: RivalSettings) -> tuple[Comparison, Gate]:
    """Let two measurements take turns, each in its own fresh process of the suite, and compare their median latency."""
    until = monotonic() + settings.time_s
    name = f"{candidate.test} {candidate.label}".rstrip()
    sides: dict[Side, Measurement] = {"baseline": baseline, "candidate": candidate}
    conductor = Conductor(
        commands={side: _command(settings.arguments, one, name) for side, one in sides.items()},
        logs=workdirs.private_folder() / "logs",
        processors=processors(),
        progress=settings.progress,
    )
    here = Measurement(test=name, label="")
    asked = MeasuredTest(node=name, margins=(_MARGIN,), named=frozenset([_MARGIN.key]), budgeted=frozenset())
    trace = conductor.rehearse([name], until)
    questions = questions_of([asked], trace, lost={}, name="the other", energy=None)
    evidence = Evidence(alpha=settings.alpha, hypotheses=tuple(questions.hypotheses), pairs=(), until_equivalent=True)
    with closing(conductor.share_imports(trace)):
        # A share of the time of all pairs: three digits of it are enough.
        evidence = conductor.conduct(evidence, until, state("out of time", limit=float(f"{settings.time_s:.3g}")))
    answers = answers_of(evidence, questions, conductor.dropped, {here})
    gate = Gate(
        against=baseline.test,
        revision="",
        seed=conductor.seed,
        evidence=evidence,
        shared={},
        imports=conductor.imports,
        seconds=conductor.seconds,
    )
    return answers.of(here, [_MARGIN], (), [_MARGIN.key])[_MARGIN.key], gate


def _command(arguments: Sequence[str], measurement: Measurement, name: str) -> Command:
    environment = undisturbed(os.environ)
    loads_all = "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in environment
    neutral = [option for module, option in _NEUTRAL.items() if loads_all and find_spec(module)]
    return Command(
        arguments=[*arguments, *neutral],
        directory=Path.cwd(),
        environment=environment,
        only={"node": measurement.test, "label": measurement.label, "called": name},
    )
