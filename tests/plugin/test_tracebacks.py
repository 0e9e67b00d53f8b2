"""What a measured call raises is shown as the user's: their line, their frames, none of this package."""

import pytest

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off")


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("hwperf(broken, 1)", "ValueError: out of range"),
        ("hwperf(broken, (1, 2), batch_size=1)", "ValueError: out of range"),
        ("hwperf(int, 'x')", "ValueError: invalid literal*"),
        ("hwperf(lambda: pytest.fail('too bad'))", "Failed: too bad"),
        ("hwperf(later)", "ValueError: the tenth"),
    ],
)
def test_a_raising_callable_shows_no_frame_of_this_package(pytester: pytest.Pytester, call: str, shown: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        calls = []

        def broken(rows):
            raise ValueError("out of range")

        def later():
            calls.append(1)
            if len(calls) == 10:
                raise ValueError("the tenth")

        def test_it(hwperf):
            {call}
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    text = result.stdout.str()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f">*{call}", f"E*{shown}"])
    assert "pytest_hwperf/" not in text
    assert "hwperf.py" not in text


def test_a_mistake_of_this_package_keeps_its_frames(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what a report of the mistake needs."""
    monkeypatch.setattr("pytest_hwperf.plugin.measurement.samples_of", None)
    pytester.makepyfile("def test_it(hwperf): hwperf(int)")
    result = pytester.runpytest_inprocess(*QUICK)
    result.stdout.fnmatch_lines(["*plugin/measurement.py:*"])
