"""A suite with every strictness that packages have, through the whole gate; others are in the benchmark `layouts`."""

import pytest
from fakes.reruns import COMPARED, REHEARSED, repository

INI = """
[pytest]
addopts = --strict-config --strict-markers --import-mode=importlib --doctest-modules -pno:cacheprovider
    -pno:asyncio -pno:anyio
filterwarnings = error
pythonpath = src
xfail_strict = true
"""
MODEL = '''"""A model.

>>> call() > 0
True
"""


def call():
    return sum(range(30000))
'''
TEST = """
from pkg.model import call


def test_call():
    assert call() > 0
"""


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
def test_the_strictest_suite_is_compared(pytester: pytest.Pytester) -> None:
    files = {"src/pkg/__init__.py": "", "src/pkg/model.py": MODEL, "src/pkg/tests/__init__.py": ""}
    project = repository(pytester, {**files, "src/pkg/tests/test_model.py": TEST, "pytest.ini": INI})
    project.write({"src/pkg/model.py": MODEL.replace("30000", "30001")})
    result = pytester.runpytest_inprocess(
        "--hwperf-all", "--hwperf-against=HEAD", "--hwperf-energy=off", "--hwperf-report=report.json", REHEARSED
    )

    result.assert_outcomes(passed=2)  # with the doctest, which is no function and is not measured
    found = project.compared("test_call")
    assert ("equivalent", COMPARED) == (found.outcome, found.reason.partition(":")[2])
