"""The terminal's lines: aligned, within the width, and never a value or outcome cut."""

from collections.abc import Callable

import pytest
from fakes import records as fake

from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.document import StyledLine
from pytest_hwperf.reports.table import Detail, Line, rows
from pytest_hwperf.reports.terminal import render, render_counts, render_summary

Golden = Callable[[str, bytes], None]


def text_of(lines: list[StyledLine]) -> str:
    return "".join(f"{text}\n" for text, _ in lines)


@pytest.mark.parametrize(("detail", "width"), [("normal", 80), ("normal", 200), ("quiet", 80), ("verbose", 120)])
def test_report_looks_as_agreed(golden: Golden, detail: Detail, width: int) -> None:
    text = text_of(render(fake.report(), width=width, detail=detail))
    golden(f"text/{detail}_{width}.txt", text.encode())


def test_width_is_kept_and_nothing_lost() -> None:
    """A line may be longer only by one word that cannot be broken, or where metric and outcome alone are wider."""
    report = fake.report()
    for width in (20, 60, 72, 79, 80, 100, 119, 120, 140, 160, 180, 200, 400):
        drawn = render(report, width=width)
        lines = [text for text, _ in drawn]
        assert [] == [line for line in lines if len(line) > max(width, 84) and len(line.split()) > 1]
        everything = " ".join(" ".join(lines).split())
        texts = [text for one in rows(report)[0] for text in (one.cells if isinstance(one, Line) else one.texts)]
        assert [] == [text for text in texts if text.strip() not in everything]
        assert drawn == render(report, width=width)


def test_marks_without_room_go_below_their_row() -> None:
    judgement = replace(fake.plain_judgement(), figures=(fake.figure(),))
    report = replace(fake.empty_report(), judgements=(judgement,))
    rows_at = [[text for text, _ in render(report, width=width)] for width in (67, 66)]
    assert [True, False] == [any(line.endswith("no baseline [1]") for line in lines) for lines in rows_at]
    assert "      [1]" in rows_at[1]


def test_styles_follow_tones() -> None:
    """Red is what fails, whatever its outcome, and the last line then; an improvement is green, success is not red."""
    lines = render(fake.report(), width=200)
    styles = {text.strip().split("  ")[0]: style for text, style in lines}
    red, yellow = {"red": True}, {"yellow": True}
    shown = ("energy", "this run", "latency p95", "throughput", "memory max", "accuracy")
    assert [red, red, yellow, yellow, {}, {}] == [styles[one] for one in shown]
    assert {"bold": True, "red": True} == lines[-1][1]
    improved = render(replace(fake.report(), judgements=(fake.onnx_judgement(),)), width=200)
    assert {"green": True} in [style for _, style in improved]
    assert {"bold": True} == improved[-1][1]


def test_an_interrupted_session_is_said_and_nothing_measured_prints_nothing() -> None:
    lines = render(replace(fake.report(), partial=True), width=200)
    assert ("interrupted: what is shown is complete, but not all tests ran", {"yellow": True}) in lines
    assert [] == render(fake.empty_report(), width=80)


def test_measured_tests_without_rows_are_named() -> None:
    judgement = replace(fake.plain_judgement(), figures=(), verdicts=())
    lines = render(replace(fake.empty_report(), judgements=(judgement,)), width=80)
    assert text_of(lines) == (
        "tests/test_text.py::test_tokenise long text\n"
        "  fp32, threads 1, batch size 16\n"
        "1 measured only, no budget or baseline\n"
    )


@pytest.mark.parametrize("quiet", [False, True])
def test_summary_looks_as_agreed(golden: Golden, *, quiet: bool) -> None:
    text = text_of(render_summary(fake.report(), width=80, quiet=quiet))
    golden(f"text/summary{'_quiet' if quiet else ''}_80.txt", text.encode())


def test_counts_alone_are_the_last_lines() -> None:
    counts = render_counts(fake.report(), width=80)
    assert counts == render_summary(fake.report(), width=80)[-len(counts) :]


def test_a_test_that_is_well_is_one_line_at_80_columns() -> None:
    figure = fake.figure(at=fake.estimate(314e-6, 312e-6, 316e-6, 900))
    budget = fake.budget_verdict("latency_p50_ms", "latency", "p50", 0.00033, "passed")
    well = replace(fake.plain_judgement(), figures=(figure,), verdicts=(budget,))
    lines = render_summary(replace(fake.empty_report(), judgements=(well,)), width=80)
    assert text_of(lines) == (
        "  test                        p50  tightest budget    left\n"
        "tests/test_text.py\n"
        "  test_tokenise long text  314 µs  p50 314 of 330 µs   5 %\n"
        "  p50: perf_counter, 900 calls\n"
        "budgets: 1 passed\n"
    )


def test_a_name_without_room_has_a_line_of_its_own() -> None:
    judgement = fake.plain_judgement()
    long = replace(judgement, run=replace(judgement.run, test=f"tests/test_text.py::test_{'x' * 90}"))
    lines = [text for text, _ in render_summary(replace(fake.empty_report(), judgements=(long,)), width=80)]
    assert [f"  test_{'x' * 90} long text"] == [line for line in lines if "xxx" in line]
    assert [80] == [len(line) for line in lines if line.endswith(" ms")]


def test_where_nobody_has_saved_a_baseline_one_line_says_what_to_do() -> None:
    unsaved = fake.of_subject(fake.comparison_verdict("latency", "p50", "no baseline"), cause=state("no baseline"))
    report = replace(fake.empty_report(), judgements=(replace(fake.plain_judgement(), verdicts=(unsaved, unsaved)),))
    lines = [text for text, _ in render_summary(report, width=120)]
    said = "warning: 1 test has no baseline to compare with: save one with pytest --hwperf-save"
    assert said in lines
    assert [] == [line for line in lines if "no baseline:" in line]


def test_numbers_in_names_are_in_the_order_of_their_size() -> None:
    def named(parameter: str) -> Judgement:
        run = replace(fake.plain_judgement().run, test=f"t.py::test_it[{parameter}]", label="")
        return replace(fake.plain_judgement(), run=run)

    names = ["8", "16", "128", "9" * 5000, "a2", "a10"]
    report = replace(fake.empty_report(), judgements=tuple(map(named, reversed(names))))
    lines = [text for text, _ in render_summary(report, width=80)]
    assert names == [line.partition("[")[2].partition("]")[0] for line in lines if "test_it[" in line]
