"""Records come back from plain data as they were; anything else is refused by its path."""

import base64
import contextlib
import json
import math
import re
from array import array
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from fakes import gates
from fakes import records as fake
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_hwperf.records import evidence, messages, profiles, report, run, verdict
from pytest_hwperf.records.codec import from_file, from_foreign, from_json, to_json, to_short_json
from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.structs import LARGEST, ForeignRecord, Record, Size

STORED_RUN = Path(__file__).parents[1] / "golden" / "stored_run"
RECORDS = sorted(
    {
        value
        for module in (run, verdict, evidence, profiles, report)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Record) and value is not Record
    },
    key=lambda cls: cls.__name__,
)

finite = st.floats(-LARGEST, LARGEST)
words = st.one_of(st.text(max_size=3), st.text('a\ud800"\\', max_size=3))
arrays = st.one_of(st.lists(finite, max_size=70), st.lists(st.sampled_from([0.0, 1.0, -0.0]), max_size=9)).map(
    lambda values: array("d", values)
)


@cache
def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Draw values of a field's type, small ones: depth makes a report large enough."""
    if hint in {float, str, array}:
        return {float: finite, str: words, array: arrays}[hint]
    if get_origin(hint) is Annotated:
        kind, limits = get_args(hint)
        return (st.integers if kind is int else st.floats)(limits.ge, limits.le)
    if isinstance(hint, type) and issubclass(hint, Record):
        return st.sampled_from(came_back(hint))
    arguments = [of_type(argument) for argument in get_args(hint) if get_origin(hint) is not Literal]
    if get_origin(hint) is tuple:
        return st.lists(arguments[0], max_size=2).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(words, arguments[1], max_size=2)
    return st.one_of(arguments) if arguments else st.from_type(hint)


@st.composite
def fitting(draw: st.DrawFn, cls: type[Record], fields: Mapping[str, st.SearchStrategy[Any]]) -> Record:
    """Draw a record whose fields belong together."""
    values = {name: draw(strategy) for name, strategy in fields.items()}
    if cls is messages.Statement:
        values["kind"] = draw(st.sampled_from(sorted(messages._SENTENCES)))
    if cls is run.Estimate and None not in (values["low"], values["high"]):
        values["low"], values["high"] = sorted((values["low"], values["high"]))
    if cls in (evidence.Observation, evidence.FixedSample):
        values["baseline"] = values["candidate"] = array("d", [*values["candidate"], draw(finite)])
    if cls is run.Classes:
        values["names"] = ("", *values["names"])
        values["of"] = array("d", [0.0] * len(values["of"]))
    if cls is run.Sample and values["classes"]:
        values["classes"] = replace(values["classes"], of=array("d", [0.0] * len(values["values"])))
        values["classes"] = values["classes"] if values["values"] else None
    if cls is evidence.FixedSample and values["classes"]:
        values["classes"] = replace(values["classes"], of=array("d", [0.0] * len(values["candidate"])))
    if cls is evidence.Evidence:
        values["hypotheses"] = values["hypotheses"][:1]
        values["groups"] = (1,) * len(values["hypotheses"]) if values["groups"] else ()
    if cls is report.Shard:
        values["of"] = 1 + values["of"] % report.MOST_SHARDS
        values["number"] = 1 + values["number"] % values["of"]
        values |= {"kinds": 1 + values["kinds"] % report.MOST_KINDS, "kind": draw(st.sampled_from(["", "arm64"]))}
    if cls is verdict.Judgement:
        own = {one.metric for one in values["figures"]} | {one.subject.metric for one in values["verdicts"]}
        values["run"] = replace(values["run"], directions=dict.fromkeys(own, "lower"))
    return cls(**values)


def to_plain(record: Record) -> Any:
    """Return what any other program reads."""
    return json.loads(to_json(record))


def builtin_only(plain: object) -> bool:
    """Whether JSON and execnet would both take it."""
    if type(plain) is dict:
        return all(type(key) is str and builtin_only(value) for key, value in plain.items())
    if type(plain) is list:
        return all(map(builtin_only, plain))
    return type(plain) in {str, int, float, bool, type(None)}


def round_trip(record: Record) -> None:
    """Also of -0.0, the largest and the smallest numbers, and lone surrogates in text."""
    plain = to_plain(record)
    assert builtin_only(plain)
    assert record == (back := from_json(type(record), to_json(record)))
    assert repr(record) == repr(back)  # tells -0.0 from 0.0
    assert repr(record) == repr(from_json(type(record), to_short_json(record)))


@cache
def came_back(cls: type[Record]) -> list[Record]:
    """Draw records of a class, holding others that came back before, and see that they come back."""
    fields = {name: of_type(kind) for name, kind in get_type_hints(cls, include_extras=True).items()}
    drawn: list[Record] = []

    @settings(max_examples=15)
    @given(fitting(cls, fields))
    def check(record: Record) -> None:
        round_trip(record)
        drawn.append(record)

    check()
    return drawn


def test_every_record_comes_back_through_json() -> None:
    assert all(map(came_back, RECORDS))


class LaterRun(run.Run, frozen=True, kw_only=True, dict=True, gc=True):
    """A run as a later version may know it."""

    weather: str = ""
    seen: Mapping[str, str] = {}


def test_short_json_has_the_same_words_in_a_version_with_more_fields() -> None:
    """Runs are known by them: a run is not there twice because it is uploaded again after an update."""
    run = fake.run()
    later = LaterRun(**{name: getattr(run, name) for name in run.__struct_fields__})
    assert to_short_json(later) == to_short_json(run)
    assert to_short_json(replace(later, weather="fine")) != to_short_json(run)
    assert to_json(later) != to_json(run)


def test_what_is_left_out_of_a_stored_run_is_read_as_it_was(golden: Callable[[str, bytes], None]) -> None:
    """Another default would change all runs of a database: `whole_run.json` may only get further fields."""
    golden("stored_run/short_run.json", to_short_json(fake.session()))
    short = (STORED_RUN / "short_run.json").read_bytes()
    golden("stored_run/whole_run.json", to_json(from_json(run.StoredRun, short)))


def test_result_of_the_call_is_never_encoded() -> None:
    """It may be anything, of any size, and is none of the store's business."""
    one = fake.run().with_result(object())
    assert "result" not in to_plain(one)
    assert from_json(run.Run, to_json(one)).result is None


ARRAYS: list[tuple[list[float], object]] = [
    ([], []),
    ([0.5, 2.0], [0.5, 2.0]),
    ([0.0, 1.0, 1.0, 0.0], {"bits": "0110"}),
    ([0.0], {"bits": "0"}),
    ([-0.0, 1.0], [-0.0, 1.0]),  # bits would lose the sign
    ([2.0] * 64, [2.0] * 64),
    # 2.0 is 0x4000000000000000, little-endian seven zero bytes and 0x40; 24 bytes are a whole number of base64
    # groups and repeat as 32 letters; 66 values are 22 such groups of three.
    ([2.0] * 66, {"f8le": "AAAAAAAAAEAAAAAAAAAAQAAAAAAAAABA" * 22, "n": 66}),
]


def test_array_is_written_in_the_shortest_exact_form() -> None:
    """8 bytes are 10 2/3 letters of base64; text of a latency is over 20."""
    assert [plain for _, plain in ARRAYS] == [to_plain(fake.sample(values=values))["values"] for values, _ in ARRAYS]
    for n in (65, 66, 67, 1000):
        packed = to_plain(fake.sample(values=[math.pi * 1e-3 * i for i in range(1, n + 1)]))["values"]
        assert len(json.dumps(packed, separators=(",", ":"))) <= 11 * n


def test_numbers_of_numpy_and_any_mapping_become_builtin() -> None:
    """One numpy.float64 on a report kills an xdist worker."""
    estimate = run.Estimate(
        value=cast("float", np.float32(0.5)),
        low=np.float64(0.25),
        high=cast("float", np.int64(1)),
        confidence=0.98,
        n=cast("int", np.int64(12)),
        method=np.str_("order statistics"),
    )
    verdict = replace(fake.budget_verdict("x", "latency", "p50", 1.0, "passed"), fails=cast("bool", np.bool_(True)))  # noqa: FBT003 - numpy takes it by position
    plain = to_plain(estimate)
    assert builtin_only(plain)
    assert {"value": 0.5, "low": 0.25, "high": 1.0, "confidence": 0.98, "n": 12}.items() <= plain.items()
    assert to_plain(verdict)["fails"] is True
    assert {"threads": "1"} == to_plain(replace(fake.run(), conditions=MappingProxyType({"threads": "1"})))[
        "conditions"
    ]


def test_whole_numbers_are_read_as_floats() -> None:
    """JSON of other programs writes 1.0 as 1."""
    plain = to_plain(fake.estimate(1.0, None, None, 3)) | {"value": 1}
    back = from_json(run.Estimate, json.dumps(plain))
    assert (1.0, float) == (back.value, type(back.value))


WRONG: list[tuple[Record, str]] = [
    (fake.estimate(math.nan, None, None, 1), "Estimate: Expected a finite number, got `nan` - at `$.value`"),
    (fake.estimate(1.0, -math.inf, None, 1), "Estimate: Expected a finite number, got `-inf` - at `$.low`"),
    (fake.sample(values=[1.0, math.nan]), "Sample: Expected a finite number, got `nan` - at `$.values[1]`"),
    (replace(fake.sample(), values=array("f", [1.0])), 'Sample: expected an array("d") of numbers within ±1e+100'),
    (replace(fake.sample(), values=cast("Any", [1.0])), "Sample: it does not come back as it was written"),
    (
        fake.session().__class__(run=fake.run(), figures=(fake.figure(at=cast("Any", 5)),)),
        "StoredRun: Expected `object`, got `int` - at `$.figures[0].estimate`",
    ),
    (replace(fake.run(), samples=cast("Any", [])), "Run: it does not come back as it was written"),
    (replace(fake.run(), context=cast("Any", 5)), "Run: Expected `object`, got `int` - at `$.context`"),
    (replace(fake.run(), context={"a": cast("Any", 5)}), "Run: Expected `str`, got `int` - at `$.context[...]`"),
    (replace(fake.run(), context={cast("Any", 5): "m"}), "Run: it does not come back as it was written"),
    (replace(fake.run(), context=cast("Any", object())), "Run: no record may hold <object object at "),
    (
        replace(fake.budget_verdict("k", "latency", "p50", 1.0, "passed"), subject=cast("Any", 5)),
        "Verdict: Expected `object`, got `int` - at `$.subject`",
    ),
    (
        fake.budget_verdict("k", "latency", "p50", math.inf, "passed"),
        "Verdict: Expected a finite number, got `inf` - at `$.subject.limit`",
    ),
    (
        fake.budget_verdict("k", "latency", "p50", 1.0, cast("Any", "okay")),
        "Verdict: Invalid enum value 'okay' - at `$.outcome`",
    ),
    (
        replace(gates.report(3).gates[0], seconds={"screen": 1.0, "confirm": math.nan}),
        "Gate: Expected a finite number, got `nan` - at `$.seconds['confirm']`",
    ),
    (
        replace(fake.estimate(1.0, None, None, 1), value=cast("Any", np.array([1.0, 2.0]))),
        "Estimate: no record may hold array([1., 2.])",
    ),
]


def problem_of(call: Callable[..., object], *given: Any, **named: Any) -> str:
    """Return what a call is refused for."""
    with pytest.raises(SerialisationError) as raised:
        call(*given, **named)
    return str(raised.value)


def test_wrong_records_are_refused_on_the_way_out() -> None:
    """What was written can be read: so what could not be read is not written."""
    found = [(problem, problem_of(to_json, record)) for record, problem in WRONG]
    assert [] == [(problem, told) for problem, told in found if not told.startswith(problem)]


def edited(plain: Any, path: str, value: object = None, *, lost: bool = False) -> Any:
    """Return `plain` with another value, or none, at a path such as `run.samples[0].values`."""
    *steps, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
    place = plain
    for step in steps:
        place = place[step]
    place[last] = value
    if lost:
        del place[last]
    return plain


DAMAGES: list[tuple[str, object, str]] = [
    ("figures[2].estimate.value", "x", "Expected `float`, got `str`"),
    ("figures[2].estimate.value", True, "Expected `float`, got `bool`"),
    ("figures[0].estimate.low", 10**400, "Number out of range"),
    ("figures[0].estimate.n", 1.5, "Expected `int`, got `float`"),
    ("figures[0].estimate.n", True, "Expected `int`, got `bool`"),
    ("figures[0].estimate.n", -1, "Expected `int` >= 0"),
    ("figures[0].estimate.n", 2**63, "Expected `int` <= 9223372036854775807"),
    ("figures[0].estimate.value", 1.7e308, "Expected `float` <= 1e+100"),
    ("figures[0].estimate.value", -1.7e308, "Expected `float` >= -1e+100"),
    ("figures[0].estimate.confidence", 1.5, "Expected `float` <= 1.0"),
    ("verdicts[4].subject.margin", -0.02, "Expected `float` >= 0.0"),
    ("verdicts[4].subject.p_value", -0.02, "Expected `float` >= 0.0"),
    ("run.samples[0].values", [1.0, 1.7e308], "holds a number that is not within ±1e+100"),
    ("figures[0]", [], "Expected `object`, got `array`"),
    ("figures", {}, "Expected `array`, got `object`"),
    ("run.test", None, "Expected `str`, got `null`"),
    ("run.context", [], "Expected `object`, got `array`"),
    ("run.context[model]", 1, "Expected `str`, got `int`"),
    ("run.directions[hits]", "up", "Invalid enum value 'up'"),
    ("verdicts[0].fails", 1, "Expected `bool`, got `int`"),
    ("verdicts[0].subject", {}, "Object missing required field `type`"),
    ("verdicts[0].subject", [], "Expected `object`, got `array`"),
    ("verdicts[0].subject.type", "Run", "Invalid value 'Run'"),
    ("verdicts[0].subject.limit", None, "Expected `float`, got `null`"),
    ("run.samples[0].values", {"f8le": "AAAAAAAA8D8=", "n": 2}, "n is 2, but there are 1 values"),
    ("run.samples[0].values", {"f8le": "AAAAAAAA8D8=", "n": -1}, "n is -1, but there are 1 values"),
    ("run.samples[0].values", {"f8le": "AAAAAAAA", "n": 1}, "n is 1, but there are 0.75 values"),
    ("run.samples[0].values", {"f8le": "AAAAAAAA8H8=", "n": 1}, "holds a number that is not within ±1e+100"),
    ("run.samples[0].values", {"f8le": "AA"}, "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", {"f8le": "AAAAAAAA", "n": "1"}, "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", {"f8le": 5, "n": 1}, "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", {"f8le": "", "n": 0, "m": 0}, "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", {"bits": 1}, "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", {"bits": "1", "n": 1}, "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", 5, "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", [1.0, None], "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values", [1.0, True], "expected a list of numbers, bits, or f8le with n"),
    ("run.samples[0].values.f8le", "A*", "Only base64 data is allowed"),
    ("run.samples[0].values.f8le", "é", "string argument should contain only ASCII characters"),
    ("run.samples[2].values.bits", "012", "expected a list of numbers, bits, or f8le with n"),
]


def test_damage_is_named_by_its_path() -> None:
    judgement = to_json(fake.sklearn_judgement())
    for path, value, problem in DAMAGES:
        where = re.sub(r"(context|directions)\[\w+\]", r"\1[...]", path).removesuffix(".f8le").removesuffix(".bits")
        text = json.dumps(edited(json.loads(judgement), path, value))
        assert f"Judgement: {problem} - at `$.{where}`" == problem_of(from_json, verdict.Judgement, text)


def test_no_number_that_is_not_finite_is_read() -> None:
    """Also where a field may be empty: JSON has no such numbers, and other writers mean them."""
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        text = to_json(fake.estimate(1.0, 0.5, 1.5, 3)).decode().replace("0.5", number)
        assert problem_of(from_json, run.Estimate, text).startswith("Estimate: ")
        file = thing(value=0.5).decode().replace("0.5", number).encode()
        told = problem_of(from_file, Thing, file, other="give one", older="")
        assert re.match(r"(is not whole JSON|holds no valid thing .*finite).*: give one", told)


PAIR = "evidence.pairs[0].observations[0]"
SAMPLE = "evidence.fixed_samples[0]"
UNFIT: list[tuple[type[Record], str, object, str]] = [
    (verdict.Judgement, "figures[0].estimate.low", 1.0, "low 1.0 is above high 0.00645 - at `$.figures[0].estimate`"),
    (verdict.Judgement, "figures[0].metric", "latenzy", "no metric 'latenzy'"),
    (evidence.Gate, "evidence.alpha", 0, "Expected `float` >= 1e-18 - at `$.evidence.alpha`"),
    (evidence.Gate, f"{PAIR}.baseline", [1.0], f"1 values of the baseline and 12 of the candidate - at `$.{PAIR}`"),
    (evidence.Gate, f"{SAMPLE}.baseline", [], f"a side without values - at `$.{SAMPLE}`"),
    (
        evidence.Gate,
        "evidence.hypotheses[1].measurement.test",
        "tests/test_models.py::test_0",
        "a hypothesis is there twice - at `$.evidence`",
    ),
]


def test_what_does_not_belong_together_is_refused() -> None:
    whole: tuple[Record, ...] = (fake.sklearn_judgement(), gates.report(3).gates[0])
    records = {type(one): to_json(one) for one in whole}
    for cls, path, value, problem in UNFIT:
        text = json.dumps(edited(json.loads(records[cls]), path, value))
        assert f"{cls.__name__}: {problem}" == problem_of(from_json, cls, text)


def test_whole_numbers_beyond_every_float_are_refused_in_arrays_too() -> None:
    plain = edited(to_plain(fake.sample()), "values", [10**400])
    with pytest.raises(SerialisationError, match=r"^Sample: int too large to convert to float"):
        from_json(run.Sample, json.dumps(plain))


def test_an_unknown_field_is_refused() -> None:
    """A newer writer raises the schema; an unknown field in a known schema is damage."""
    plain = to_plain(fake.session())
    plain["run"]["result"] = 1
    with pytest.raises(SerialisationError, match=r"^StoredRun: Object contains unknown field `result` - at `\$\.run`$"):
        from_json(run.StoredRun, json.dumps(plain))


LACKING = {
    "run.context": "context` - at `$.report.judgements[0].run`",
    "run.unmeasured": "unmeasured` - at `$.report.judgements[0].run`",
    "figures[3].estimate.warnings": "warnings` - at `$.report.judgements[0].figures[3].estimate`",
    "verdicts[0].subject.default": "default` - at `$.report.judgements[0].verdicts[0].subject`",
}


def test_a_field_that_a_file_lacks_is_named() -> None:
    """Also one that has a default: what is written is complete."""
    whole = to_json(report.ReportFile(report=fake.report()))
    for path, where in LACKING.items():
        text = json.dumps(edited(json.loads(whole), f"report.judgements[0].{path}", lost=True)).encode()
        told = f"holds no valid pytest-hwperf report (ReportFile: Object missing required field `{where}): give one"
        assert told == problem_of(from_file, report.ReportFile, text, other="give one", older="")


def test_what_is_no_record_is_refused() -> None:
    for text in (b"", b"{", b"\xff", b"[" * 100_000, b'{"test": NaN}', b"null", b"5 5", b'"\xff"'):
        assert problem_of(from_json, verdict.Skip, text).startswith("Skip: ")


TEXT = to_json(fake.sklearn_judgement())


@settings(max_examples=300)
@given(st.integers(0, len(TEXT) - 1), st.sampled_from(["cut", "drop", "repeat", "change"]), st.integers(0, 255))
def test_mutated_text_gives_a_record_or_that_one_error(position: int, kind: str, byte: int) -> None:
    """A digit may become another, which only a digest or judging once more can tell; nothing else rises."""
    head, tail = TEXT[:position], TEXT[position + 1 :]
    text = {
        "cut": head,
        "drop": head + tail,
        "repeat": head + TEXT[position : position + 1] * 2 + tail,
        "change": head + bytes([byte]) + tail,
    }[kind]
    with contextlib.suppress(SerialisationError):
        found = from_json(verdict.Judgement, text)
        assert kind != "cut"
        assert found == from_json(verdict.Judgement, to_json(found))


def test_arrays_are_little_endian_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown with a machine whose bytes are swapped: it writes the same numbers in the other order."""
    values = [float(i) for i in range(1, 67)]
    here = to_plain(fake.sample(values=values))["values"]["f8le"]
    monkeypatch.setattr("sys.byteorder", "big")
    there = to_plain(fake.sample(values=values))["values"]["f8le"]
    assert array("d", base64.b64decode(here)).tolist() == values
    swapped = array("d", base64.b64decode(there))
    swapped.byteswap()
    assert swapped.tolist() == values
    assert from_json(run.Sample, to_json(fake.sample(values=values))) == fake.sample(values=values)


class Thing(Record, frozen=True, kw_only=True, tag_field="what", tag="thing"):
    """What a file of these tests holds."""

    schema: int = 2
    value: float | None = None


def thing(**fields: object) -> bytes:
    """Return a file with other fields."""
    return json.dumps({"what": "thing", "schema": 2, "value": 1.0, **fields}).encode()


def test_a_file_comes_back() -> None:
    assert from_file(Thing, to_json(Thing(value=0.5)), other="", older="") == Thing(value=0.5)


FILES = [
    (b"", "is not whole JSON: give one"),
    (b"{", "is not whole JSON: give one"),
    (b"\xff", "is not whole JSON: give one"),
    (b"[" * 100_000, "is not whole JSON: give one"),
    (b"[]", "holds no thing: give one"),
    (b'{"schema": 2}', "holds no thing: give one"),
    (b'{"what": "thing"}', "holds no thing: give one"),
    (thing(schema="2"), "holds no thing: give one"),
    (thing(schema=True), "holds no thing: give one"),
    (thing(schema=1, more=1), "was written by an earlier pytest-hwperf (schema 1, this one reads 2): make one"),
    (
        thing(schema=3, more=1),
        "was written by a newer pytest-hwperf (schema 3, this one reads 2): upgrade pytest-hwperf",
    ),
    (thing(more=1), "holds no valid thing (Thing: Object contains unknown field `more`): give one"),
    (thing(value="x"), "holds no valid thing (Thing: Expected `float | null`, got `str` - at `$.value`): give one"),
]


def test_files_of_others_and_of_other_versions_are_reported() -> None:
    found = [
        (problem, problem_of(from_file, Thing, text, other="give one", older="make one")) for text, problem in FILES
    ]
    assert [] == [(problem, told) for problem, told in found if problem != told]


class Foreign(ForeignRecord, frozen=True, kw_only=True):
    """A record of another program."""

    seconds: Size


def test_of_a_foreign_record_only_the_fields_that_are_named_are_read_and_strictly() -> None:
    assert [Foreign(seconds=1.5)] == from_foreign(list[Foreign], b'[{"seconds": 1.5, "colour": "red"}]')
    for text in (b'[{"seconds": "1.5"}]', b'[{"seconds": -1}]', b"[{}]", b"[", b"[" * 100_000):
        assert problem_of(from_foreign, list[Foreign], text)
