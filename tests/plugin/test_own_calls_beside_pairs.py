"""What a session's own calls take, beside those of the pairs: far apart they may have run other code, which is said."""

import pytest
from fakes.reruns import INI, REHEARSED, repository

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]

WORK = """
from fakes.simulated_time import spend

def same(): spend(1_000_000)

def other(): spend(3_000_000)
"""
TESTS = "import work\n\ndef test_same(): work.same()\n\ndef test_other(): work.other()\n"
SAID = (
    "in this session and 1.00 s in fresh processes of the same code: they may run other code there, or depend on the "
    "calls before them"
)


def test_pairs_that_run_other_code_than_this_session_are_doubted(pytester: pytest.Pytester) -> None:
    project = repository(pytester, {"work.py": WORK, "test_it.py": TESTS, "pytest.ini": INI})
    result = project.run("--hwperf-all", "-ohwperf_shortest=1e-09", REHEARSED)
    result.assert_outcomes(passed=2)
    assert "equivalent" == project.compared("test_other").outcome
    runs = {one.run.test.partition("::")[2]: one.run for one in project.report().judgements}
    doubts = {test: [*map(str, run.samples[0].warnings)] for test, run in runs.items()}
    (said,) = (one for one in doubts["test_other"] if "session" in one)
    assert said.startswith("calls took ")
    assert said.endswith(SAID)
    assert [] == [one for one in doubts["test_same"] if "session" in one]
    result.stdout.fnmatch_lines([f"*calls took *{SAID}"])
