"""Options and their ini twins: which of them wins."""

import re
import sys

import pytest

from pytest_hwperf.plugin.settings import OPTIONS
from pytest_hwperf.stats.timetable import LONGEST_GATE_S
from pytest_hwperf.stats.verdicts import LONGEST_SAMPLING_S

MEASURED = "import pytest\n\n\n@pytest.mark.hwbudget(latency_p95_ms=1000)\ndef test_it():\n    pass\n"


@pytest.mark.parametrize(
    ("arguments", "outcomes"),
    [((), {"deselected": 1}), (("-o", "hwperf_skip=false"), {"passed": 1})],
)
def test_a_flag_of_the_ini_file_is_switched_off_by_pytests_own_option(
    pytester: pytest.Pytester, arguments: tuple[str, ...], outcomes: dict[str, int]
) -> None:
    pytester.makepyfile(MEASURED)
    pytester.makeini("[pytest]\nhwperf_skip = true")
    result = pytester.runpytest_inprocess("-p", "no:benchmark", "--hwperf-disable", *arguments)
    assert outcomes == result.parseoutcomes()


def test_the_command_line_wins_over_the_ini_file(pytester: pytest.Pytester) -> None:
    """What the ini file says is not even read then: a bad value ends no run."""
    pytester.makepyfile(MEASURED)
    pytester.makeini("[pytest]\nhwperf_alpha = 50%")
    arguments = ("-p", "no:benchmark", "--hwperf-disable")
    assert pytest.ExitCode.USAGE_ERROR == pytester.runpytest_inprocess(*arguments).ret
    assert pytest.ExitCode.OK == pytester.runpytest_inprocess(*arguments, "--hwperf-alpha=1%").ret


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="this Python has what the option needs")
@pytest.mark.parametrize("compared", ["--hwperf-against=HEAD", "--hwperf-compare"])
@pytest.mark.parametrize("asked", [["--hwperf-affected"], ["-o", "hwperf_affected=true"]])
def test_a_python_that_cannot_tell_what_runs_leaves_no_test_out(
    pytester: pytest.Pytester, compared: str, asked: list[str]
) -> None:
    """Of one that is older than sys.monitoring it is said at once; without a comparison the line serves other runs."""
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess("-p", "no:benchmark", compared, *asked)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["ERROR: --hwperf-affected needs Python 3.12 or later: run python3.12 -m pytest, or *"])


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize(
    "option", ["against", "baseline", "base-python", "base-with", "share", "store", "margin", "report"]
)
def test_an_empty_value_on_the_command_line_is_a_usage_error(
    pytester: pytest.Pytester, option: str, value: str
) -> None:
    """An unset variable of a workflow would otherwise mean that nothing is compared, and the run would pass."""
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess("-p", "no:benchmark", f"--hwperf-{option}={value}", "--hwperf-strict")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: --hwperf-{option}= is empty, as an unset variable leaves it: give *"])


def test_a_value_of_the_ini_file_is_taken_back_by_pytests_own_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MEASURED)
    pytester.makeini("[pytest]\nhwperf_against = no-such-revision")
    arguments = ("-p", "no:benchmark", "--hwperf-sample-time=0.05", "--hwperf-energy=off")
    assert pytest.ExitCode.USAGE_ERROR == pytester.runpytest_inprocess(*arguments).ret
    assert pytest.ExitCode.OK == pytester.runpytest_inprocess(*arguments, "-o", "hwperf_against=").ret


@pytest.mark.parametrize(("options", "expected"), [((), "on"), (("-ohwperf_gc=off",), "off")])
def test_the_garbage_collector_is_a_condition_of_a_run(
    pytester: pytest.Pytester, options: tuple[str, ...], expected: str
) -> None:
    """By default it runs during the calls, as in the program."""
    pytester.makepyfile(
        """
        import gc

        def test_it(hwperf):
            seen = []
            run = hwperf(lambda: seen.append(gc.isenabled()))
            assert run.conditions["gc"] == ("on" if seen[-1] else "off")
            print("condition", run.conditions["gc"])
        """
    )
    result = pytester.runpytest_inprocess("-s", "--hwperf-sample-time=0.05", "--hwperf-energy=off", *options)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*condition {expected}"])


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


@pytest.mark.parametrize("key", ["hwperf_affected", "hwperf_prove_equal"])
def test_what_the_configuration_file_says_of_pairs_may_serve_other_runs(pytester: pytest.Pytester, key: str) -> None:
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess("-p", "no:benchmark", "--hwperf-disable", "-o", f"{key}=true")
    assert pytest.ExitCode.OK == result.ret


@pytest.mark.parametrize(("name", "longest"), [("sample-time", LONGEST_SAMPLING_S), ("time-limit", LONGEST_GATE_S)])
def test_the_longest_time_that_is_recommended_is_that_of_the_option(name: str, longest: float) -> None:
    (option,) = (option for option in OPTIONS if option.name == name)
    assert option.parse is not None
    assert longest == option.parse("", str(longest))
    with pytest.raises(pytest.UsageError):
        option.parse("", str(longest + 1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--hwperf-base-with=--index-url=x",), "*='--index-url=x' is no requirement (*): give a package with a *"),
        (("--hwperf-base-with=ort==1", "--hwperf-base-python=x", "--hwperf-against=."), "*: give one of them, and *"),
        (
            ("--hwperf-base-with=ort==1",),
            "ERROR: --hwperf-base-with=ort==1: nothing to compare: 1 test selected, none of them measured: *",
        ),
        (
            ("--hwperf-share=auto", "--hwperf-share=none"),
            "*=auto and --hwperf-share=none exclude each other: *",
        ),
        (
            ("--hwperf-affected",),
            "ERROR: --hwperf-affected leaves tests out of pairs: give --hwperf-against=REF|DIR too",
        ),
        (("--hwperf-prove-equal",), "ERROR: --hwperf-prove-equal asks for further pairs: give --hwperf-against=*"),
        (("--hwperf-base-python=x",), "ERROR: --hwperf-base-python is the baseline's interpreter: give *"),
        (
            ("--hwperf-plant=5%", "-ohwperf_affected=true"),
            "ERROR: --hwperf-plant adds work that no *: give one of them",
        ),
        (("--hwperf-json=a.json",), "*: --hwperf-json is no option: give --hwperf-report=FILE.json"),
        (("--hwperf-no-cache",), "*: --hwperf-no-cache is no option: give -o hwperf_cache=false"),
        (("--hwperf-gc=off",), "*: --hwperf-gc is no option: give -o hwperf_gc=VALUE"),
        (("--hwperf-only", "--hwperf-skip"), "ERROR: --hwperf-only and --hwperf-skip exclude each other: *"),
        (("-ohwperf_gc=of",), "*: hwperf_gc='of': unknown value. Did you mean 'off'[?] Allowed: on, off*"),
        (("--hwperf-against=anchor",), "*=anchor: which release? Give -o hwperf_anchor=REF too, e.g. v1.4"),
        (("-ohwperf_anchor_builds=0",), "*: hwperf_anchor_builds=0: a number of builds from 1 to 9999, such as 365 *"),
        (("--hwperf-build=make",), "*--hwperf-build builds the trees that are compared: give --hwperf-against=*"),
        (("--hwperf-build=a && b",), "*--hwperf-build='a && b': it runs without a shell, which && needs: *"),
        (("--hwperf-build=a 'b",), '*--hwperf-build="a \'b" cannot be split into words (No closing quotation)*'),
    ],
)
def test_contradictions_and_what_the_baseline_cannot_be_given_end_the_session_before_anything_runs(
    pytester: pytest.Pytester, options: tuple[str, ...], said: str
) -> None:
    pytester.makepyfile("def test_plain():\n    pass\n")
    result = pytester.runpytest_inprocess(*options)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([said])
