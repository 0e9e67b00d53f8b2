"""Ten thousand damaged or forged files: each is read, or refused in our own words, and nothing else ever rises.

A forger signs again, so that a baseline's digest stops nobody: what is read has to be bearable in itself.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.codec import from_file, from_json, to_json
from pytest_hwperf.records.errors import HwperfError
from pytest_hwperf.records.markers import closest_margins, parse_margins
from pytest_hwperf.records.report import ReportFile, ReportPart
from pytest_hwperf.records.run import Run, StoredRun, replace
from pytest_hwperf.records.verdict import Judgement, Margin, Policy
from pytest_hwperf.reports import csv_files, json_file, terminal
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.replay import recompute
from pytest_hwperf.stats.stored.compare import Criteria, Stored, compare_with_stored, stored_run_of
from pytest_hwperf.stats.verdicts import judge
from pytest_hwperf.stores.baseline_folder import parse, place
from pytest_hwperf.stores.signed_lines import sign

pytestmark = pytest.mark.simulation

Place = tuple[Any, Any]  # an object or array, and the key or index of one of its values

FILES = 5_000  # of each kind
MARGINS = closest_margins(
    [
        parse_margins({"latency_p95": "10%", "throughput": "2%", "cold_start": "10%"}),
        (Margin(metric="hits", statistic="p50", size=0.02),),
    ]
)
ODD: tuple[Any, ...] = (
    0, 1, -1, 3, 2**31, -(2**63), 10**400, 0.0, -0.0, 0.5, -2.5, 5e-324, 1e-300, 1e99, 1e101, 1.7e308, -1.7e308,
    True, False, None, "", "x", "\ud800", "\x1b[2J", "p50", "p99_9", "p0", "p" + "9" * 5000, "mean", "max", "accuracy",
    "energy", "memory", "hits", "relative", "absolute", "lower", "higher", "screen", "confirm", "BC", [], {}, [[]],
    [1.0], [0.0, 1.0], [-1.0, 1e308], {"bits": "01"}, {"f8le": "AAAAAAAA8H8=", "n": 1},
)  # fmt: skip


def within(value: Any) -> Iterator[Place]:
    """Yield every place below a value of JSON."""
    for key, part in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
        yield value, key
        if isinstance(part, dict | list):
            yield from within(part)


def descend(value: Any, random: Random) -> Place:
    """Choose a place step by step, so that a field counts as much as a long list beside it."""
    key = random.choice([*value] if isinstance(value, dict) else range(len(value)))
    part = value[key]
    return descend(part, random) if part and isinstance(part, dict | list) and random.randrange(9) else (value, key)


def mutate(plain: Any, every: list[Place], random: Random) -> Callable[[], None]:
    """Put an odd value, one of elsewhere, nothing, or the same once more into one place; return what undoes it."""
    holder, key = random.choice(every) if random.randrange(2) else descend(plain, random)
    other, where = random.choice(every)
    before, kind = holder.copy(), random.choice(("odd", "odd", "other", "none", "twice"))
    if kind == "none":
        del holder[key]
    elif kind == "twice" and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = json.loads(json.dumps(other[where])) if kind == "other" else random.choice(ODD)

    def undo() -> None:
        holder.clear()
        holder.update(before) if isinstance(holder, dict) else holder.extend(before)

    return undo


def mutations(plain: Any, seed: int) -> Iterator[bytes]:
    """Yield a value of JSON as text, changed in one place and, now and then, in its bytes."""
    random, every = Random(seed), [*within(plain)]
    for _ in range(FILES):
        undo = mutate(plain, every, random)
        text = written(plain)
        undo()
        if not random.randrange(16):
            position = random.randrange(len(text))
            text = text[:position] + random.randbytes(random.randrange(3)) + text[position + random.randrange(3) :]
        yield text


def written(plain: Any) -> bytes:
    """Write JSON, by the quicker of two ways where it can: it knows neither lone surrogates nor huge integers."""
    try:
        return msgspec.json.encode(plain)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(plain).encode()


def small_report() -> Any:
    """The JSON of four tests in pairs with two blocks each, one of a metric of its own, and of stored runs beside."""
    full = gates.report(3)
    plain = json.loads(to_json(ReportFile(report=replace(full, judgements=(*full.judgements, fake.plain_judgement())))))
    evidence = plain["report"]["gates"][0]["evidence"]
    evidence["hypotheses"][3]["margin"]["metric"] = "hits"
    plain["report"]["judgements"][3]["run"]["directions"] = {"hits": "lower"}
    for pair in evidence["pairs"]:
        pair["observations"][3]["metric"] = "hits"
        for one in pair["observations"]:
            one["baseline"], one["candidate"] = one["baseline"][:2], one["candidate"][:2]
    return plain


@pytest.mark.simulation
def test_a_report_is_refused_or_computed_again() -> None:
    """Nothing but our own errors rises, which the command line puts into one sentence."""
    seen = Counter[str]()
    for text in mutations(small_report(), seed=1):
        try:
            recompute(from_file(ReportFile, text, other="", older="").report)
            seen["read"] += 1
        except HwperfError:
            seen["refused"] += 1
    assert seen["read"] > FILES / 20
    assert seen["refused"] > FILES / 2


@pytest.mark.simulation
def test_a_baseline_is_refused_or_compared_with() -> None:
    """Whatever a stored run says, the report of the session that is compared with it is made, shown and written."""
    new = new_run()
    stored = stored_run_of(Judgement(run=new, figures=figures(new), verdicts=()))
    seen = Counter[str]()
    for line in mutations(json.loads(to_json(stored)), seed=2):
        content = sign([line]) + b"\n" + line
        try:
            runs = parse(Path(place(stored.run)), content)
        except HwperfError:
            seen["refused"] += 1
        else:
            judged_against([*runs])
            seen["read"] += 1
    assert seen["read"] > FILES / 20
    assert seen["refused"] > FILES / 2


def new_run() -> Run:
    """A run of every kind of metric that is compared with stored runs."""
    samples = (
        fake.sample("latency", [0.001, 0.0011, 0.0012]),
        fake.sample("throughput", [900.0, 910.0], per="window"),
        fake.sample("cold_start", [0.5, 0.6], per="fresh process"),
        fake.sample("memory", [64e6, 64.1e6], per="fresh process", source="VmHWM"),
        fake.sample("accuracy", [1.0, 0.0, 1.0, 1.0], per="example", source="labels"),
        fake.sample("hits", [3.0], per="test", source="recorded"),
    )
    return replace(fake.run(samples=samples), directions={"hits": "higher"})


def judged_against(stored: Sequence[StoredRun]) -> None:
    """Compare, judge, send, show and write, as a session does."""
    run = new_run()
    found = figures(run)
    compared = compare_with_stored(run, found, Stored(runs=stored), Criteria(margins=MARGINS))
    judgement = Judgement(run=run, figures=found, verdicts=judge(run, found, compared, (), Policy()))
    sent = from_json(ReportPart, to_json(ReportPart(judgements=(judgement,))))
    report = replace(fake.empty_report(), judgements=sent.judgements)
    json_file.render(report, judgements_read=True)
    terminal.render(report, width=80)
    csv_files.render(report)
