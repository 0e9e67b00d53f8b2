"""Options and their ini twins: which of them wins."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from inspect import getclosurevars, isfunction
from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.plugin.session.parsers import Option
from pytest_hwperf.plugin.session.settings import OPTIONS, Settings, read_settings
from pytest_hwperf.stats.pairs.timetable import LONGEST_GATE_S
from pytest_hwperf.stats.verdicts import LONGEST_SAMPLING_S

MEASURED = "import pytest\n\n\n@pytest.mark.hwbudget(latency_p95_ms=1000)\ndef test_it():\n    pass\n"


def read(pytester: pytest.Pytester, *arguments: str) -> Settings | str:
    """Return the settings of a command line, or the usage error that it is."""
    try:
        return read_settings(pytester.parseconfig(*arguments))
    except pytest.UsageError as error:
        return str(error)


def test_the_command_line_wins_over_the_ini_file(pytester: pytest.Pytester) -> None:
    """What the ini file says is not even read then: a bad value ends no run. Pytest's own option takes it back."""
    pytester.makeini("[pytest]\nhwperf_skip = true\nhwperf_against = v1\nhwperf_alpha = 50%")
    assert "50" in str(read(pytester))
    kept = read(pytester, "--hwperf-alpha=2%")
    back = read(pytester, "--hwperf-alpha=2%", "-o", "hwperf_skip=false", "-o", "hwperf_against=")
    assert isinstance(kept, Settings)
    assert isinstance(back, Settings)
    assert (True, "v1", 0.02) == (kept.skip, kept.against, kept.alpha)
    assert (False, "") == (back.skip, back.against)


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="this Python has what the option needs")
def test_a_python_that_cannot_tell_what_runs_leaves_no_test_out(pytester: pytest.Pytester) -> None:
    """Of one that is older than sys.monitoring it is said at once; without a comparison the line serves other runs."""
    pytester.makepyfile(MEASURED)
    for asked in (("--hwperf-against=HEAD", "--hwperf-affected"), ("--hwperf-compare", "-ohwperf_affected=true")):
        result = pytester.runpytest_inprocess(*asked)
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        result.stderr.fnmatch_lines(["ERROR: --hwperf-affected needs Python 3.12 or later: run python3.12 -m *"])


def test_an_empty_value_on_the_command_line_is_a_usage_error(pytester: pytest.Pytester) -> None:
    """An unset variable of a workflow would otherwise mean that nothing is compared, and the run would pass."""
    given = [f"{option.flag}={value}" for option in OPTIONS if option.group and option.metavar for value in ("", " ")]
    refused = "= is empty, as an unset variable leaves it: give "
    assert len(given) > 20
    assert [] == [one for one in given if one.rstrip("= ") + refused not in str(read(pytester, one))]


def test_the_garbage_collector_is_a_condition_of_a_run(pytester: pytest.Pytester) -> None:
    """By default it runs during the calls, as in the program."""
    pytester.makepyfile(
        """
        import gc

        def test_it(hwperf, pytestconfig):
            seen = []
            run = hwperf(lambda: seen.append(gc.isenabled()))
            assert (pytestconfig.getini("hwperf_gc") == "on") == seen[-1]
            assert run.conditions["gc"] == pytestconfig.getini("hwperf_gc")
        """
    )
    for options in ((), ("-ohwperf_gc=off",)):
        result = pytester.runpytest_inprocess("--hwperf-sample-time=0.05", "--hwperf-energy=off", *options)
        result.assert_outcomes(passed=1)
    assert "on" == getattr(read(pytester), "gc", None)


def test_everyday_options_stand_first_in_two_lines_each(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = pytester.runpytest_inprocess("--help").stdout.str()
    everyday = re.split(r"^  (?=--)", shown.partition("\nhwperf:\n")[2].partition("\n\n")[0], flags=re.MULTILINE)[1:]
    more = shown.partition("\nhwperf, more:\n")[2].partition("\n\n")[0]
    assert 12 == len(everyday)
    assert [] == [option for option in everyday if len(option.strip().splitlines()) > 2]
    assert 18 == len(re.findall(r"^  --hwperf-", more, re.MULTILINE))
    assert "plant" not in shown.partition("\nhwperf:\n")[2].partition("[pytest] ")[0]


def test_what_the_configuration_file_says_of_pairs_may_serve_other_runs(pytester: pytest.Pytester) -> None:
    """Also in its `addopts`: the processes of a gate read them too, and none of them compares."""
    named = ("--hwperf-baseline=v1", "--hwperf-share=a.bin", "--hwperf-parallel=1", "--hwperf-explain=always")
    inis = (f"-o{one.removeprefix('--').replace('-', '_')}" for one in named)
    assert isinstance(read(pytester, "-ohwperf_affected=true", "-ohwperf_prove_equal=true", *inis), Settings)
    pytester.makeini(f"[pytest]\naddopts = {' '.join(named)} --hwperf-prove-equal --hwperf-build=make\n")
    found = read(pytester)
    assert isinstance(found, Settings)
    assert ("v1", ("a.bin",), 1, "always") == (found.baseline, found.share, found.parallel, found.explain)


ALLOWED = [
    "--hwperf-baseline=v1 --hwperf-save",
    "--hwperf-baseline=v1 --hwperf-compare",
    "--hwperf-baseline=v1 -ohwperf_compare=true",
    "--hwperf-baseline=v1 --hwperf-against=anchor -ohwperf_anchor=v1",
    "--hwperf-share=a.bin --hwperf-parallel=1 --hwperf-explain=always --hwperf-against=.",
    "--hwperf-share=a.bin --hwperf-parallel=1 --hwperf-explain=always --hwperf-compare",
    "--hwperf-share=a.bin --hwperf-parallel=1 --hwperf-explain=always --hwperf-base-with=ort==1",
    "--hwperf-explain=never --hwperf-time-limit=5",
]


def test_options_of_a_comparison_are_taken_with_one(pytester: pytest.Pytester) -> None:
    """A time limit is taken without, since it limits `hwperf.compare` too, and what explains nothing needs nothing."""
    assert [] == [line for line in ALLOWED if not isinstance(read(pytester, *shlex.split(line)), Settings)]


def test_the_longest_time_that_is_recommended_is_that_of_the_option() -> None:
    parsers = {option.name: option.parse for option in OPTIONS}
    for name, longest in (("sample-time", LONGEST_SAMPLING_S), ("time-limit", LONGEST_GATE_S)):
        parse = parsers[name]
        assert parse is not None
        assert longest == parse("", str(longest))
        with pytest.raises(pytest.UsageError):
            parse("", str(longest + 1))


REFUSED = [
    ("--hwperf-base-with=--index-url=x", "='--index-url=x' is no requirement ("),
    ("--hwperf-base-with=ort==1 --hwperf-base-python=x --hwperf-against=.", ": give one of them, and "),
    ("--hwperf-share=auto --hwperf-share=none", "=auto and --hwperf-share=none exclude each other: "),
    ("--hwperf-prove-equal", "--hwperf-prove-equal asks for further pairs: give --hwperf-against="),
    ("--hwperf-base-python=x", "--hwperf-base-python is the baseline's interpreter: give "),
    ("--hwperf-plant=5% -ohwperf_affected=true", "--hwperf-plant adds work that no "),
    ("--hwperf-json=a.json", ": give --hwperf-report=FILE.json"),
    ("--hwperf-no-cache", "--hwperf-no-cache is no option: give -o hwperf_cache=false"),
    ("--hwperf-gc=off", "--hwperf-gc is no option: give -o hwperf_gc=VALUE"),
    ("--hwperf-only --hwperf-skip", "--hwperf-only and --hwperf-skip exclude each other: "),
    ("-ohwperf_gc=of", "hwperf_gc='of': unknown value. Did you mean 'off'? Allowed: on, off"),
    ("--hwperf-against=anchor", "=anchor: which release? Give -o hwperf_anchor=REF too, e.g. v1.4"),
    ("-ohwperf_anchor_builds=0", "hwperf_anchor_builds=0: a number of builds from 1 to 9999, such as 365 "),
    ("--hwperf-baseline=v1", "--hwperf-baseline names stored runs: give --hwperf-save or --hwperf-compare too"),
    ("--hwperf-baseline v1 --hwperf-against=.", "--hwperf-baseline names stored runs: give "),
    ("--hwperf-share=a.bin", "--hwperf-share gives files to the baseline's tree: give --hwperf-against="),
    ("--hwperf-parallel=1", "--hwperf-parallel runs pairs side by side: give --hwperf-against="),
    ("--hwperf-explain=always", "--hwperf-explain=always profiles the tests that are compared: give "),
    ("--hwperf-build=make", "--hwperf-build builds the trees that are compared: give --hwperf-against="),
    ("'--hwperf-build=a && b'", "--hwperf-build='a && b': it runs without a shell, which && needs: "),
    ('"--hwperf-build=a \'b"', '--hwperf-build="a \'b" cannot be split into words (No closing quotation)'),
]


def test_contradictions_and_what_the_baseline_cannot_be_given_end_the_session_before_anything_runs(
    pytester: pytest.Pytester,
) -> None:
    wrong = [line for line, said in REFUSED if said not in str(read(pytester, *shlex.split(line)))]
    pytester.makepyfile("def test_plain():\n    pass\n")
    result = pytester.runpytest_inprocess("--hwperf-affected")
    assert [] == wrong
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["ERROR: --hwperf-affected leaves tests out of pairs: give --hwperf-against=REF|DIR *"])


SCHEMA = Path(__file__).parents[2] / "docs" / "ini.schema.json"
KINDS: Mapping[str, dict[str, Any]] = {
    "bool": {"type": ["boolean", "string"]},
    "linelist": {"type": ["array", "string"], "items": {"type": "string"}},
    "string": {"type": ["string", "number"]},  # pytest reads a number as its text
}


def described(option: Option) -> dict[str, Any]:
    """Return what the schema says of one key: its type, the words that it allows, its help and default."""
    words = getclosurevars(option.parse).nonlocals.get("allowed") if isfunction(option.parse) else None
    default = {"default": option.default} if option.default != "" else {}
    kind: dict[str, Any] = {"enum": [*words]} if words else KINDS[option.kind]
    return {**kind, "description": option.help.replace("%%", "%"), **default}


def schema_of_ini() -> dict[str, Any]:
    """Return the schema of pytest's table in `pyproject.toml`: it refuses keys of hwperf that do not exist."""
    keys = {option.ini: described(option) for option in OPTIONS if option.help}
    known = {"anyOf": [{"not": {"pattern": "^hwperf_"}}, {"enum": [*keys]}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Keys of pytest-hwperf in [tool.pytest.ini_options] of pyproject.toml",
        "type": "object",
        "properties": keys,
        "propertyNames": known,
    }


def test_the_schema_of_the_ini_keys_is_made_of_the_options(golden: Callable[[Path, bytes], None]) -> None:
    golden(SCHEMA, (json.dumps(schema_of_ini(), indent=2, ensure_ascii=False) + "\n").encode())


def test_every_value_that_the_schema_names_is_read(pytester: pytest.Pytester) -> None:
    """Each default, and each word of a key that allows a few."""
    properties = schema_of_ini()["properties"]
    named = [(key, one) for key, about in properties.items() for one in about.get("enum", [])]
    named += [(key, about["default"]) for key, about in properties.items() if "default" in about]
    texts = [f"-o{key}={str(one).lower() if isinstance(one, bool) else one}" for key, one in named]
    assert len(named) > 20
    assert [] == [text for text in texts if not isinstance(read(pytester, text), Settings)]
