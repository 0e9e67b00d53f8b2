"""Statements about measurements and comparisons: a kind with its facts, put into words here alone.

Code that needs to know what happened asks for the kind or a fact. The words serve the reader only and may change.
Facts may come from a report file of unknown origin: they are arguments of the constant templates below, never
templates or format specifications themselves.
"""

from collections.abc import Mapping
from functools import lru_cache

from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.structs import Number, Record
from pytest_hwperf.records.text import shortened, visible
from pytest_hwperf.records.units import FactFormatter

_SENTENCES: Mapping[str, str] = {
    "said": "{text}",
    "not given": "{remedy}",
    "energy off": "energy is off (--hwperf-energy=off)",
    "energy takes seconds": "{source} takes seconds: name energy in a budget or a margin, or save",
    "few windows": "{windows:count window} of {shortest_s:s} or more fitted, {needed} needed: "
    "raise --hwperf-sample-time",
    "no idle power": "no idle power: {why}",
    "idle power moved": "the idle machine drew {least} and {most} W before and after: more than 5 % apart",
    "too short": "a call takes {call_s:s}, and --hwperf-all measures calls of {least_s:s} or more: add "
    "-o hwperf_shortest={call_s:bare}",
    "below the clock": "a call is over before the clock moves: let one call do the work of many",
    "not repeatable": "its body cannot be measured: {why}",
    "memory of children": "the test starts processes, whose memory is not counted: let its own process do their work",
    "elsewhere": "requests are answered by another process: measure it there",
    "no bound of goodput": "it needs a latency within which an answer is good: hwload(within_ms=...), or a budget on a "
    "percentile of the latency",
    "no classes": "y_true has fractions, or more than {most:count different label}: give the class of each example",
    "class lost": "{classes} right (McNemar by class, Holm over {of:count class}, largest p={p:.2g})",
    "no reference": "no reference scenario {reference}: {why}",
    "no probabilities": "{scenario} gives no probabilities",
    "does not convert": "{model} does not convert to {form} with {converter}: {why}",
    "other answers": "the {form} answers otherwise than {call}: {told}",
    "no int8 form": "no INT8 form: {why}",
    "weight-only": "not INT8: weight-only, {operator} computes in float (executed: {executed})",
    "unchanged": "not INT8: quantisation changed nothing, operators and outputs are those of the FP32 form",
    "not int8": "not INT8: integer operators take {share:%} of the time of the operators that hold weights, less "
    "than {least:%} (executed: {executed})",
    "part unmeasured": "{metric} is unmeasured: {why}",
    "other windows": "energy and gpu_energy were not counted in the same windows",
    "no embodied carbon": "hwperf_carbon does not say embodied_kg and lifetime_years",
    "leaks": "memory leaks: {grown} more is held after each of {calls} calls, in each of {processes} fresh processes; "
    "memory_leak_max_kb sets a limit",
    "growth in steps": "grew by {mean:B} a call over {calls} calls, but not steadily: a leak in steps looks like a "
    "cache that fills up: fill it before the measurement, or let one call do the work of many",
    "never called": "the test never called hwperf(...)",
    "traced": "traced by {by}, which makes everything slower: measure without it",
    "clock faked": "{clock} was replaced before hwperf was loaded, and measures nothing: replace it in a fixture",
    "no baseline": "no baseline: save one with --hwperf-save",
    "another machine": "the baseline is of another machine ({differences}): save one here with --hwperf-save",
    "other versions": "this machine saved its baseline with other versions or settings ({differences}; baseline, now): "
    "save a new one with pytest --hwperf-save, then remove the old one with hwperf baseline prune",
    "other conditions": "{differences} (baseline, now)",
    "other data": "{differences} (baseline, now): other rows, or rows drawn without a seed",
    "stored otherwise": "{differences} (baseline, now): save a new baseline",
    "not measured": "not measured: {why}",
    "only estimated": "{source} holds nothing beyond CPU time and is never compared: name cpu_time instead",
    "baseline of nothing": "{baseline} in the baseline, {candidate} now",
    "unequal examples": "{baseline} examples in the baseline, {candidate} now: save a new baseline",
    "no examples": "no examples: compare at least one",
    "no correctness": "values other than 0 and 1: give one correctness per example",
    "unequal processes": "{baseline} processes of the baseline and {candidate} of the candidate: the exact test pairs "
    "equally many, at most {most}",
    "calls fail": "calls fail in {processes} of {processes} fresh processes of the candidate, and in 0 of {processes} "
    "of the baseline: {why}",
    "no ratio": "the ratio of candidate to baseline needs positive, finite values, and one is not",
    "no ratio to sessions": "not every value is positive: the ratio to stored runs needs that",
    "not repeated": "beyond the limit, not repeated: {repeats} further fresh processes decide",
    "pairs missing": "pairs still missing: {missing}",
    "out of time": "the time of {limit:.6g} s was too short",
    "out of part": "the part of the time that fresh processes have, {limit:.6g} s, was up",
    "not reached": "not compared: the time of {limit:.6g} s was too short",
    "interrupted": "the run was interrupted",
    "pairs lost": "{lost} pairs in a row were lost, the last one as {why}",
    "lost": "{why}",
    "lost, logged": "{why} (log: {log})",
    "one side only": "only the {side} makes the measurement{label}",
    "not collected": "a fresh process of the candidate does not collect this test",
    "not runnable": "{baseline} cannot run this test: {why}",
    "no such test": "{baseline} does not have this test",
    "test ended": "{outcome} in {where}{why}",
    "reciprocal": "{other}, its reciprocal, is compared: both would be one question asked twice",
    "coarse meter": "meter too coarse: {source} can tell margins of {least:.3g} % or more, not {asked:.3g} %",
    "not recorded": "the baseline does not record it",
    "not met": "the pairs did not meet this measurement: its label differs between processes",
    "own calls differ": "calls took {least:s} .. {most:s} in this session and {pairs:s} in fresh processes of the same "
    "code: they may run other code there, or depend on the calls before them",
    "called once": "calls fail in fresh processes of this code",
    "no value": "gave no value in {pairs} pairs in a row: {why}",
    "pairs cannot tell": "the pairs cannot tell",
    "no pairs": "compared with stored runs, since the pairs gave no answer: {why}",
    "values not kept": "the stored run that fits holds no values of it: save a new baseline",
    "answers change": "{changed} of the first call's {rows} answers were others after the last call: the model keeps "
    "state or draws at random; the worse accuracy counts",
    "processes apart": "{what} between processes; the candidate is worse in each of its {count} than the baseline in "
    "any",
    "processes disagree": "{what} between processes of the {side}, which hides any effect of the code: "
    "train the model with a fixed seed, such as random_state=0, or load a trained one",
    "few stored runs": "{what} between processes; each of {count} is worse than the baseline, but that may be chance "
    "with {stored} of {needed} stored runs: save more runs, or train the model with a fixed seed",
    "not at once": "both sides cannot be alive at once: next to the other one, the {side} {how}, and alone it passed: "
    "let each process take a port, a file or a lock of its own, such as port 0 or tmp_path",
    "untouched": "nothing that it runs has changed",
    "stored, equal": "{baseline} stored and {candidate} new values, equal on each side, compared exactly, no p-value",
    "stored, spread": "{baseline} stored and {candidate} new values, all of one side against all of the other, "
    "no p-value",
    "mcnemar": "McNemar exact, paired on {examples} examples",
    "equal examples": "equal on {examples} of {examples} examples",
    "tango": "Tango score bounds, paired on {examples} examples",
    "signed-rank": "{pairs:count fresh pair}, exact signed-rank, interleaved",
    "signed-rank, apart": "{pairs:count fresh pair}, exact signed-rank, each of four processes one after the other",
    "apart": "one side at a time (hwserial): drift of the machine between processes is part of the spread",
    "sign-flip": "{pairs:count pair} of fresh processes, exact sign-flip",
    "screen": "screen of {pairs} pairs: no sign of a slowdown",
    "second screen": "{pairs} fresh pairs: no sign of a slowdown",
    "unconfirmed screen": "screen of {pairs:count pair}, not confirmed",
    "equal pairs": "{pairs:count pair}, equal on each side, compared exactly, no p-value",
    "lost pairs": "{pairs:count pair}, 0 on one side and more on the other, compared exactly, no p-value",
    "lost fresh pairs": "{pairs:count fresh pair}, 0 on one side and more on the other, exact sign test",
    "equal fresh pairs": "{pairs:count fresh pair}, equal on each side, exact sign test",
    "equal processes": "{baseline:count per} against {candidate:count per}, equal on each side, exact sign test",
    "equal values": "{baseline:count per} against {candidate:count per}, equal on each side, compared exactly, "
    "no p-value",
    "screened values": "screen of {baseline:count per} against {candidate:count per}, all of one side against all of "
    "the other",
    "historical": "historical; false-alarm rate not guaranteed",
    "historical limit": "historical; false-alarm rate not guaranteed: limit {limit:change}, stored runs: {sessions}",
    "historical repeats": "historical; false-alarm rate not guaranteed: limit {limit:change}, stored runs: {sessions}, "
    "{beyond} of {processes} processes beyond it",
    "error rate": "at most {alpha:.6g} % false alarms per build (Holm, {screened} of {asked} screened)",
    "error rate with others": "at most {alpha:.6g} % false alarms per build "
    "(Holm, {screened} of {asked} screened and {others:count other})",
    "error rate of one": "at most {alpha:.6g} % false alarms per comparison (Holm, {screened} of {asked} screened)",
    "error rate split": "at most {alpha:.6g} % false alarms per build (split over {family:count stored comparison})",
    "fresh processes": "{kept} of {processes:count fresh process} kept the limit",
    "point": "decided by the point estimate",
    "timed point": "decided by the point estimate, near a limit a coin toss",
    "doubted point": "decided by the point estimate, while the load itself is in doubt",
    "passes as asked": "let pass as asked",
    "fails as asked": "failed as asked",
    "maximum": "{statistic} of n={n} is the maximum: a rank below it needs n={needed}",
    "no bound": "{statistic} has no {side} {level:.3g} % bound below n={needed}, have n={n}",
    "mean of one": "one window only: no interval",
    "lone process": "one fresh process only: no interval",
    "could have caught": "smallest detectable change {change:size}",
    "could have caught points": "smallest detectable change {change:size points}",
    "slower than fp32": "{test}: {scenario} takes {now:s}, {reference} {then:s} ({change:change})",
    "may be slower than fp32": "{test}: {scenario} takes {now:s}, {reference} {then:s} ({change:change})",
    "stages miss": "stages take {sum:s} together, the whole call {whole:s}",
    "stages apart": "stages were timed in calls of their own, which took {whole:s} where those of latency took "
    "{latency:s}",
    "stage after": "{stage} follows the timed call and does not count as latency",
    "too short to profile": "too short to profile: {latency:s} for {operators:count operator} and {rows:count row}: "
    "most would be the profiler's own cost of 5 µs an operator: give batches of 256 rows, or calls above 20 µs "
    "an operator",
    "low coverage": "operators cover {coverage:%} of the call, less than {least:%}: their shares would say little",
    "operator moved": "{operator}: {candidate:s} of a call, {baseline:s} in the baseline: {share:%} of the change",
    "framework moved": "the time outside of all operators moved most: {share:%} of the change",
    "function moved": "{name} ({where}) {moved:+s}: {share:%} of the change ({low:%} .. {high:%}, n={repeats})",
    "function called": "{name} ({where}) {moved:+s}: {share:%} of the change ({low:%} .. {high:%}, n={repeats}), "
    "not called in the baseline",
    "function called otherwise": "{name} ({where}) {moved:+s}: {share:%} of the change ({low:%} .. {high:%}, "
    "n={repeats}), called {times:2} × as often",
    "allocation moved": "{name} ({where}) holds {moved:+B} at the peak: {share:%} of the change",
    "nothing moved": "no {what} has clearly moved in {repeats:count repeat}: it is spread over many, or less than they "
    "vary{changed}",
    "profiles unlike pairs": "{repeats:count profile} of each side did not show the change that the pairs have found: "
    "measure on a quieter machine to see which {what} moved{changed}",
    "nothing to explain": "the pairs have found no change to explain",
    "movers miss": "the listed parts add up to {covered:%} of the change",
    "profiler distorts": "not explained: calls took ×{times:2} as long under the profiler, too long to trust it"
    "{changed}",
    "profiler slows": "calls took {overhead:%} longer under the profiler, those of many short functions most of all",
    "not sampled": "no Python function was called while sampling: the measured work is native code",
    "awaited": "awaited calls wait in the event loop, where a profiler of functions cannot tell whose time it is",
    "profiled under load": "latency under a load includes waiting, which belongs to no function",
    "unexplained": "not explained: {why} ({side})",
    "moved with": "it goes with {other}: {by}",
    "calls unmoved": "not explained: profiles show calls on average, and neither median nor throughput has moved",
    "not profiled": "not explained: {why}",
    "explained enough": "not explained: {most} are, unless --hwperf-explain=always asks for all",
    "no time to explain": "not explained: --hwperf-time-limit was over",
    "work uncounted": "not counted are {kinds}, {share:%} of the operators: the work is more than the figures",
    "integer work": "most of its work is on integers, and numpy was measured with float32",
    "no peaks": "how fast numpy is here with {threads:count thread} is not known: hwperf doctor measures it",
    "from caches": "its data move ×{times:2} as fast as numpy moves data in memory here: they come from caches",
    "under load": "a latency under a load holds waiting too: profile the same scenario without one",
    "slopes": "counted by two differences of lengths, {apart:2%} apart",
    "no profiler": "the runtime of {scenario} shows no operators",
    "operators unknown": "operators of the {side} are not known: {why}",
    "turns preempted": "{percent:turns} interrupted by other work",
    "calls failed": "{failed} of {calls} calls failed",
    "late calls": "{late} of {calls} calls later than {limit:s}",
    "backlog grows": "the rate is more than is served: calls that wait rise from {first} to {last}",
    "generator late": "the load generator ran {lag:s} late (limit {allowed:s}): the machine is too busy to trust this",
    "generator adds": "the load generator itself adds {added:s} to the median of {median:s}: the called code is "
    "faster than that",
    "crowded threads": "{threads:count thread}{workers} on {cores:count allotted core} wait for each other: "
    "set threads={fitting}, or allot more cores",
    "crowded pool": "{pool} may use {threads:count thread}{workers} on {cores:count allotted core}: set "
    "{variable}={fitting} before Python starts, or call it under threadpoolctl.threadpool_limits({fitting})",
    "waiting threads": "{threads:count thread} computed at once and waited {waited:%} of the time for a "
    "processor: set {remedy}",
    "constant input": "every call gets the same values ({rows:count row}): caches and branch predictors learn them, "
    "and calls on changing rows take longer; give rows that differ, and batch_size=",
    "not waited for": "the call returned {value} before it was computed: end it with .block_until_ready()",
    "few examples": "{n:count example} cannot decide this: about {needed:.0f} would, if the share stays the same",
    "few equal examples": "{n:count example}, equal on all of them, do not exclude a loss of {loss:points}: "
    "{needed:.0f} would",
    "no margin": "no number of examples excludes a loss of nothing: give a margin, such as "
    "--margin=accuracy={points:g}pp",
    "few pairs": "{n:count pair} cannot decide this: about {needed:.0f} would",
    "many pairs": "{n:count pair} cannot decide this: about {needed:.0f} would, and at most {most:.0f} are run: use a "
    "quieter machine, or give a larger margin or another limit",
    "mean only": "{tests} limit a mean alone (latency_mean_ms, throughput_min_qps), which a few slow calls hardly "
    "move: add latency_p95_ms or latency_p99_ms",
    "other batch served": "batches of {served} rows are served (hwperf_serving_batch), and others were measured: "
    "{tests}; give batch_size={served}",
    "predictions not checked": "the speed of another runtime or precision has a limit, and nothing checks its "
    "predictions: {tests}; give labels, or add flip_rate_max or probability_diff_max",
    "beyond a missed limit": "{point} misses {limit}, and a larger batch takes more",
    "served not swept": "batches of {served} are served, and batches of {measured} were measured: sweep the one that "
    "is served too",
    "collection order": "the points were measured one after the other: a drift of the machine meanwhile is part of "
    "their differences; hwperf sweep measures in several rounds, each in another order",
    "drawn order": "{rounds:count round} over all points, each in an order drawn from seed {seed}",
    "workers stop alone": "under pytest-xdist a worker skips larger batches only after a miss that it measured itself",
    "memory lost": "the process that measures the memory at {point} was lost ({why}), and a larger batch takes more",
    "largest batch": "the largest batch known to fit is {point}: {limit}; {next:count row} are not known to fit, and "
    "no size between the two was tried (they are 5 % or one row apart)",
    "every batch fits": "all rows of the data fit in one call, {point}: {limit}; give more rows to search further",
    "not known to fit": "not known to fit: {limit}",
    "no batch fits": "no batch is known to fit; the smallest is {point}: {limit}",
    "cut off": "interrupted: {rounds:count whole round} of {of} before it",
    "no steady state": "no steady state: thirds of the load differ by a factor of {ratio:.2f} (lower bound {low:.2f}) "
    "in {what}, where 1.10 would be steady: let the load take longer (seconds=), or lower its rate",
    "drifts": "calls did not stay equally fast: thirds of them differ by a factor of {ratio:.2f} (lower bound "
    "{low:.2f}) in {what}: look for something that grows from call to call, or for other load",
    "empty window": "no steady state: a third of the load has no completed call: let the load take longer (seconds=), "
    "or give it more calls",
    "few calls": "{calls:count call} cannot show a steady state, {needed} can: let the load take longer (seconds=), or "
    "give it more calls",
    "degrades": "latency rose by {rise:s} over {seconds:s} of the load, where its median is {middle:s}",
    "workers": "{workers:.0f} test workers shared the processors, which disturbs timings: measure with -n0",
    "preempted": "preempted {times:.0f} times a second: other work wanted the same cores",
    "load": "load {load:.1f} on {cores} cores: other work disturbed the timings",
    "steal": "the host took {share:%} of the CPU time for others (steal)",
    "quota": "the CPU quota of the control group stopped its processes in {periods:count period}, {seconds:s} of "
    "CPU time in all: use fewer threads, or raise the quota",
    "heat": "thermal throttling: its counters rose by {rises}",
    "clock rate": "the clock rate fell from {before:.2f} to {after:.2f} GHz during the measurement",
    "idle machine": "above the idle machine's {watts:3} W (asleep before and after): noisier than the total",
    "count": "n={n}",
    "no warm-up": "no warm-up: the first call took {first_s:s}, and {limit_s:s} are kept for it: "
    "raise --hwperf-sample-time",
    "short warm-up": "{blocks:count warm-up block} in {limit_s:s}, where three show a steady state: "
    "raise --hwperf-sample-time",
    "waited for gpu": "each timed call includes waiting for the GPU to finish",
    "not steady": "no steady state after {blocks} warm-up blocks ({limit_s:s}): cold calls may be in the sample",
    "step": "windows of {shortest_s:s} or more, each exact within {bound:2} %: the counter moves every {tick_s:s}",
    "shared": "contaminated: {share:%} of the machine's busy CPU time was this process's, and the counter takes all "
    "of it: measure on a quiet machine",
}


class Difference(Record, frozen=True, kw_only=True):
    """A fact that is not the same in the baseline and now."""

    name: str
    baseline: str
    candidate: str

    def __str__(self) -> str:
        return f"{self.name}: {self.baseline}, {self.candidate}"


class Statement(Record, frozen=True, kw_only=True):
    """One thing to say: why something is not there, how a change was found, what has to be known of a value."""

    kind: str
    texts: Mapping[str, str] = {}
    numbers: Mapping[str, Number] = {}
    differences: tuple[Difference, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _SENTENCES:
            raise ValueError(f"no statement is of the kind {shortened(self.kind)}")

    def __str__(self) -> str:
        return _own_sentence(self)

    def __hash__(self) -> int:
        return hash((self.kind, frozenset(self.texts.items()), frozenset(self.numbers.items()), self.differences))


Remark = Statement | str  # what has to be known of a value: text comes from outside, and nothing asks what it says


def state(kind: str, differences: tuple[Difference, ...] = (), /, **facts: str | float) -> Statement:
    """Make a statement; its facts are texts and numbers by their type."""
    return Statement(
        kind=kind,
        texts={name: fact for name, fact in facts.items() if isinstance(fact, str)},
        numbers={name: float(fact) for name, fact in facts.items() if not isinstance(fact, str)},
        differences=differences,
    )


def is_lacking(remark: Remark) -> bool:
    """Whether a remark says that values are too few for a bound."""
    return isinstance(remark, Statement) and remark.kind == "no bound"


def said(text: object) -> Statement:
    """Take over what something else has said."""
    return state("said", text=str(text))


def cause_of(refused: ScenarioUnavailable) -> Statement:
    """Return why a scenario is not there, as a statement; what it quotes shows nothing that a terminal obeys."""
    if not isinstance(refused.cause, Statement):
        return said(refused)
    cause = refused.cause
    texts = {name: visible(text) for name, text in cause.texts.items()}
    return Statement(kind=cause.kind, texts=texts, numbers=cause.numbers, differences=cause.differences)


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return what is not the same in two mappings, by name."""
    if then == now:  # nearly always
        return ()
    return tuple(
        Difference(name=name, baseline=then.get(name, "absent"), candidate=now.get(name, "absent"))
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    )


def sentence(first: Statement, *alike: Statement) -> str:
    """Put a statement into words; a number in which `alike` ones differ from it is a range, as `104 .. 154`."""
    numbers = {
        name: [number, *(one.numbers.get(name, number) for one in alike)] for name, number in first.numbers.items()
    }
    facts = {**first.texts, **numbers, "differences": "; ".join(map(str, first.differences))}
    return FactFormatter(first.texts).vformat(_SENTENCES[first.kind], (), facts)


@lru_cache(maxsize=1000)  # methods, promises and causes are repeated in every comparison
def _own_sentence(statement: Statement) -> str:
    return sentence(statement)
