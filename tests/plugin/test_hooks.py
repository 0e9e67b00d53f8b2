"""The hooks that measure are loaded when they are needed, however late that turns out."""

import pytest


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("hwperf", "assert fixture(lambda: 7).result == 7"),
        ("memory_meter", "with fixture.window():\n        pass"),
        ("energy_meter", "with fixture.window():\n        pass"),
    ],
)
def test_a_fixture_can_be_asked_for_by_name(pytester: pytest.Pytester, name: str, use: str) -> None:
    """Collection saw no use of the plugin."""
    pytester.makepyfile(f"def test_it(request):\n    fixture = request.getfixturevalue({name!r})\n    {use}\n")

    pytester.runpytest_inprocess("--hwperf-max-time=0.05").assert_outcomes(passed=1)


def test_a_marker_that_a_conftest_adds_is_judged(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.hwbudget(latency_p95_ms=1e-9))
        """
    )
    pytester.makepyfile("def test_it():\n    pass\n")

    result = pytester.runpytest_inprocess("--hwperf-max-time=0.05")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["FAILED  latency p95 *budget <= 0.001 ns: failed"])
