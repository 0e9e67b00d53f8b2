"""Records come back from plain data as they were; anything else is refused by its path."""

import json
import math
import re
from array import array
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from fakes import records as fake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_hwperf.core import evidence, records, report
from pytest_hwperf.core.codec import SCHEMA, from_plain, to_plain
from pytest_hwperf.core.errors import CodecError
from pytest_hwperf.core.records import replace

RECORDS = sorted(
    {
        value
        for module in (records, evidence, report)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, records.Record) and value is not records.Record
    },
    key=lambda cls: cls.__name__,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(max_size=3)
arrays = st.one_of(st.lists(finite, max_size=70), st.lists(st.sampled_from([0.0, 1.0, -0.0]), max_size=9)).map(
    lambda values: array("d", values)
)


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Draw values of a field's type, small ones: depth makes a report large enough."""
    if hint in {float, str, array}:
        return {float: finite, str: words, array: arrays}[hint]
    if isinstance(hint, type) and issubclass(hint, records.Record):
        return st.builds(hint, **{name: of_type(kind) for name, kind in get_type_hints(hint).items()})
    arguments = [of_type(argument) for argument in get_args(hint) if get_origin(hint) is not Literal]
    if get_origin(hint) is tuple:
        return st.lists(arguments[0], max_size=2).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(words, arguments[1], max_size=2)
    return st.one_of(arguments) if arguments else st.from_type(hint)


def builtin_only(plain: object) -> bool:
    """Whether JSON and execnet would both take it."""
    if type(plain) is dict:
        return all(type(key) is str and builtin_only(value) for key, value in plain.items())
    if type(plain) is list:
        return all(map(builtin_only, plain))
    return type(plain) in {str, int, float, bool, type(None)}


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_every_record_comes_back_through_json(cls: type) -> None:
    """Also -0.0, the largest and the smallest numbers, and lone surrogates in text."""

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(of_type(cls))
    def round_trip(record: object) -> None:
        plain = to_plain(record)

        assert builtin_only(plain)
        back: object = from_plain(cls, json.loads(json.dumps(plain, allow_nan=False)))
        assert record == back
        assert repr(record) == repr(back)  # tells -0.0 from 0.0

    round_trip()


def test_realistic_report_comes_back() -> None:
    full = fake.report()

    assert full == from_plain(report.Report, json.loads(json.dumps(to_plain(full))))


def test_fingerprint_survives() -> None:
    assert fake.machine().fingerprint == from_plain(records.Machine, to_plain(fake.machine())).fingerprint


def test_schema_is_one() -> None:
    """A reader refuses a larger one, so raising it is a decision."""
    assert SCHEMA == 1


def test_result_of_the_call_is_never_encoded() -> None:
    """It may be anything, of any size, and is none of the store's business."""
    run = fake.run().with_result(object())

    assert "result" not in to_plain(run)
    assert from_plain(records.Run, to_plain(run)).result is None


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        ([], []),
        ([0.5, 2.0], [0.5, 2.0]),
        ([0.0, 1.0, 1.0, 0.0], {"bits": "0110"}),
        ([0.0], {"bits": "0"}),
        ([-0.0, 1.0], [-0.0, 1.0]),  # bits would lose the sign
        ([2.0] * 64, [2.0] * 64),
        # 2.0 is 0x4000000000000000, little-endian seven zero bytes and 0x40; 24 bytes are a whole number of base64
        # groups and repeat as 32 letters; 66 values are 22 such groups of three.
        ([2.0] * 66, {"f8le": "AAAAAAAAAEAAAAAAAAAAQAAAAAAAAABA" * 22, "n": 66}),
    ],
)
def test_array_is_written_in_the_shortest_exact_form(values: list[float], plain: object) -> None:
    assert plain == to_plain(fake.sample(values=values))["values"]


@pytest.mark.parametrize("n", [65, 66, 67, 1000])
def test_long_arrays_cost_at_most_eleven_bytes_a_value(n: int) -> None:
    """8 bytes are 10 2/3 letters of base64; text of a latency is over 20."""
    packed = to_plain(fake.sample(values=[math.pi * 1e-3 * i for i in range(1, n + 1)]))["values"]

    assert len(json.dumps(packed, separators=(",", ":"))) <= 11 * n


def test_numbers_of_numpy_become_builtin() -> None:
    """One numpy.float64 on a report kills an xdist worker."""
    estimate = records.Estimate(
        value=cast("float", np.float32(0.5)),
        low=np.float64(0.25),
        high=cast("float", np.int64(1)),
        confidence=0.98,
        n=cast("int", np.int64(12)),
        method=np.str_("order statistics"),
    )
    verdict = replace(fake.budget_verdict("x", "latency", "p50", 1.0, "passed"), fails=cast("bool", np.bool_(True)))  # noqa: FBT003 - numpy takes it by position

    assert builtin_only(to_plain(estimate))
    assert {key: value for key, value in to_plain(estimate).items() if key not in {"method", "warnings"}} == {
        "value": 0.5,
        "low": 0.25,
        "high": 1.0,
        "confidence": 0.98,
        "n": 12,
    }
    assert to_plain(verdict)["fails"] is True


def test_any_mapping_is_encoded() -> None:
    run = replace(fake.run(), conditions=MappingProxyType({"threads": "1"}))

    assert to_plain(run)["conditions"] == {"threads": "1"}


def test_whole_numbers_are_read_as_floats() -> None:
    """JSON of other programs writes 1.0 as 1."""
    plain = to_plain(fake.estimate(1.0, None, None, 3)) | {"value": 1}
    back = from_plain(records.Estimate, plain)

    assert (1.0, float) == (back.value, type(back.value))


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (fake.estimate(math.nan, None, None, 1), "Estimate: value: expected a finite number, found nan"),
        (fake.estimate(1.0, -math.inf, None, 1), "Estimate: low: expected a finite number, found -inf"),
        (fake.sample(values=[1.0, math.nan]), "Sample: values[1]: expected a finite number, found nan"),
        (
            replace(fake.sample(), values=array("f", [1.0])),
            "Sample: values: expected an array(\"d\"), found array('f', [1.0])",
        ),
        (
            replace(fake.sample(), values=cast("Any", [1.0])),
            'Sample: values: expected an array("d"), found [1.0]',
        ),
        (
            fake.session().__class__(run=fake.run(), figures=(fake.figure(at=cast("Any", 5)),)),
            "StoredRun: figures[0].estimate: expected a Estimate, found 5",
        ),
        (replace(fake.run(), samples=cast("Any", [])), "Run: samples: expected a tuple, found []"),
        (replace(fake.run(), context=cast("Any", 5)), "Run: context: expected a mapping, found 5"),
        (replace(fake.run(), context={"model": cast("Any", 5)}), "Run: context['model']: expected text, found 5"),
        (replace(fake.run(), context={cast("Any", 5): "m"}), "Run: context[5]: expected text, found 5"),
        (
            replace(fake.budget_verdict("k", "latency", "p50", 1.0, "passed"), subject=cast("Any", 5)),
            "Verdict: subject: expected a Budget or Comparison, found 5",
        ),
        (
            fake.budget_verdict("k", "latency", "p50", math.inf, "passed"),
            "Verdict: subject.Budget.limit: expected a finite number, found inf",
        ),
        (
            fake.budget_verdict("k", "latency", "p50", 1.0, cast("Any", "okay")),
            "Verdict: outcome: expected one of passed, failed, inconclusive, unmeasured, regressed,",
        ),
        (5, "int is not a record: pass one of pytest_hwperf.core.records"),
    ],
)
def test_wrong_records_are_refused_on_the_way_out(record: object, problem: str) -> None:
    """What was written can be read: so what could not be read is not written."""
    with pytest.raises(CodecError) as raised:
        to_plain(record)

    assert str(raised.value).startswith(problem)


def edited(plain: Any, path: str, value: object) -> Any:
    """Return `plain` with another value at a path such as `run.samples[0].values`."""
    *steps, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
    place = plain
    for step in steps:
        place = place[step]
    place[last] = value
    return plain


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("figures[2].estimate.value", "x", "expected a finite number, found 'x'"),
        ("figures[2].estimate.value", math.nan, "expected a finite number, found nan"),
        ("figures[2].estimate.value", True, "expected a finite number, found True"),
        ("figures[0].estimate.low", 10**400, "expected a finite number, found 1000"),
        ("figures[0].estimate.n", 1.5, "expected a whole number, found 1.5"),
        ("figures[0].estimate.n", True, "expected a whole number, found True"),
        ("figures[0]", [], "expected the fields of a Figure, found []"),
        ("figures", {}, "expected a list, found {}"),
        ("run.test", None, "expected text, found None"),
        ("run.context", [], "expected a mapping, found []"),
        ("run.context[model]", 1, "expected text, found 1"),
        ("run.directions[hits]", "up", "expected one of lower, higher, found 'up'"),
        ("verdicts[0].fails", 1, "expected true or false, found 1"),
        ("verdicts[0].subject", {}, "expected one key, Budget or Comparison, found {}"),
        ("verdicts[0].subject", {"Run": {}}, "expected one key, Budget or Comparison, found {'Run': {}}"),
        ("verdicts[0].subject", [], "expected one key, Budget or Comparison, found []"),
        ("verdicts[0].subject.Budget.limit", None, "expected a finite number, found None"),
        ("run.samples[0].values", {"f8le": "AAAAAAAA8D8=", "n": 2}, "n is 2, but there are 1 values"),
        ("run.samples[0].values", {"f8le": "AAAAAAAA8D8=", "n": -1}, "n is -1, but there are 1 values"),
        ("run.samples[0].values", {"f8le": "AAAAAAAA", "n": 1}, "n is 1, but there are 0.75 values"),
        ("run.samples[0].values", {"f8le": "AAAAAAAA8H8=", "n": 1}, "holds a number that is not finite"),
        ("run.samples[0].values", {"f8le": "AA"}, "expected a list, bits, or f8le with n, found {'f8le': 'AA'}"),
        ("run.samples[0].values", {"f8le": "AAAAAAAA", "n": "1"}, "expected a whole number, found '1'"),
        ("run.samples[0].values", {"f8le": 5, "n": 1}, "expected text, found 5"),
        ("run.samples[0].values", {"bits": 1}, "expected text, found 1"),
        ("run.samples[0].values", 5, "expected a list, bits, or f8le with n, found 5"),
        ("run.samples[0].values.f8le", "A*", "expected base64, found 'A*'"),
        ("run.samples[0].values.f8le", "é", "expected base64, found 'é'"),
        ("run.samples[2].values.bits", "012", "expected only 0 and 1, found '012'"),
    ],
)
def test_damage_is_named_by_its_path(path: str, value: object, problem: str) -> None:
    plain = edited(to_plain(fake.sklearn_judgement()), path, value)

    with pytest.raises(CodecError) as raised:
        from_plain(records.Judgement, plain)

    assert str(raised.value).replace("'", "").startswith(f"Judgement: {path}: {problem}".replace("'", ""))


def test_a_misfit_in_a_list_of_values_is_named_by_its_position() -> None:
    plain = edited(to_plain(fake.sklearn_judgement()), "run.samples[1].values", [1.0, None])

    with pytest.raises(CodecError, match=r"run\.samples\[1\]\.values\[1\]: expected a finite number, found None"):
        from_plain(records.Judgement, plain)


@pytest.mark.parametrize("name", ["result", 5])
def test_an_unknown_field_is_refused(name: object) -> None:
    """A newer writer raises the schema; an unknown field in a known schema is damage."""
    plain = to_plain(fake.session())
    plain["run"][name] = 1

    with pytest.raises(CodecError, match=rf"^StoredRun: run: unknown field '{name}'$"):
        from_plain(records.StoredRun, plain)


@pytest.mark.parametrize("name", ["context", "unmeasured"])
def test_a_missing_field_is_refused(name: str) -> None:
    """Also one that has a default: what is written is complete."""
    plain = to_plain(fake.session())
    del plain["run"][name]

    with pytest.raises(CodecError, match=rf"^StoredRun: run: missing field '{name}'$"):
        from_plain(records.StoredRun, plain)


def test_the_whole_may_be_wrong() -> None:
    with pytest.raises(CodecError, match=r"^Skip: expected the fields of a Skip, found None$"):
        from_plain(records.Skip, None)


def test_an_array_of_numpy_is_no_number() -> None:
    estimate = replace(fake.estimate(1.0, None, None, 1), value=cast("Any", np.array([1.0, 2.0])))

    with pytest.raises(CodecError, match=r"^Estimate: value: expected a finite number, found array"):
        to_plain(estimate)


def test_a_record_of_an_unknown_type_is_a_mistake_of_the_developer() -> None:
    """A new record whose field the codec cannot carry fails its first test, not a user's session."""

    class Odd(records.Record, frozen=True, kw_only=True):
        values: list[int]

    with pytest.raises(TypeError, match=r"no record may hold a list\[int\]"):
        to_plain(Odd(values=[]))
