"""Markdown: the verdict first, what is well last, short however many tests there are, and foreign text harmless."""

import re
from collections.abc import Callable

import pytest
from fakes import records as fake

from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import ComparisonOutcome, Judgement
from pytest_hwperf.reports.document import code, fenced, prose
from pytest_hwperf.reports.markdown import LARGEST, annotations, render

HOSTILE = (
    "<script>alert(1)</script>",
    "@octocat and @github/team",
    "fixes #123, GH-12, octo/cat#7 and !4",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png)",
    "https://evil.example www.evil.example mail@evil.example",
    "a|b\\|c\\",
    "`` ` ``` `",
    "\u202etxt.exe\u2066",
    "\x1b[2J\x07\x00",
    "line\nbreak\r\n/close",
    "</details></td><!-- -->",
    "<!-- pytest-hwperf -->",
    "*bold* _it_ ~~no~~ $x$",
    " spaces ",
    "&lt;b&gt; &#64;octocat",
    "x" * 300,
)


def gate(against: str = "origin/main...", *, alpha: float = 0.01) -> Gate:
    return Gate(
        against=against,
        revision="4f2c1e9d" * 5,
        revision_date="2026-11-02",
        seed=1,
        evidence=Evidence(alpha=alpha, hypotheses=(), pairs=()),
        shared={},
        seconds={"screen": 31.0, "confirm": 9.5},
    )


def compared(test: str, outcome: ComparisonOutcome, change: float, detectable: float | None = None) -> Judgement:
    verdict = fake.comparison_verdict(
        "latency", "p50", outcome, (change, change - 0.01, change + 0.01), baseline=0.001, detectable=detectable,
        p_value=0.001,
    )  # fmt: skip
    return Judgement(run=fake.run(test=test), figures=(fake.figure(),), verdicts=(verdict,))


def report(*judgements: Judgement, gated: bool = True) -> Report:
    return replace(fake.empty_report(), judgements=judgements, gates=(gate(),) if gated else ())


def hostile_report() -> Report:
    """Each of these texts as a test id, a label, a scenario, a cause, a warning and a metric of the user's own."""
    judgements = []
    for one in HOSTILE:
        moved = state("operator moved", operator=one, candidate=0.002, baseline=0.001, share=0.9)
        [verdict] = compared("t", "regressed", 0.05).verdicts
        told = fake.of_subject(verdict, moved=moved, warnings=(one,))
        run = replace(fake.run(test=f"t.py::t[{one}]", label=one, scenario=one), directions={one: "lower"})
        absent = fake.comparison_verdict(one, "p50", "not comparable", reason=one)
        judgements.append(Judgement(run=run, figures=(fake.figure(one, source=one),), verdicts=(told, absent)))
        judgements.append(replace(judgements[-1], verdicts=()))
    return replace(
        report(*judgements),
        machine=fake.machine(cpu_model=HOSTILE[0]),
        warnings=HOSTILE,
        gates=tuple(replace(gate(one), warnings=(one,)) for one in HOSTILE),
        skips=tuple(replace(fake.report().skips[0], cause=said(one)) for one in HOSTILE),
    )


def huge_report() -> Report:
    """A thousand tests with ids of 300 characters."""
    outcomes: tuple[ComparisonOutcome, ...] = ("regressed", "equivalent", "inconclusive", "improved", "not comparable")
    ids = [f"tests/test_it.py::test_it[{place}-{'@|`é' * 68}]" for place in range(1000)]
    return report(*(compared(one, outcomes[place % 5], 0.05) for place, one in enumerate(ids)))


REPORTS: dict[str, Callable[[], Report]] = {
    "regressed": fake.report,
    "well": lambda: report(*(compared(f"tests/test_{n}.py::test_it", "equivalent", 0.001) for n in range(3))),
    "inconclusive": lambda: report(compared("t.py::t", "inconclusive", 0.01, 0.076), compared("u", "equivalent", 0.0)),
    "hostile": hostile_report,
    "huge": huge_report,
}


@pytest.mark.parametrize("name", REPORTS)
def test_report_is_written_as_agreed(golden: Callable[[str, bytes], None], name: str) -> None:
    golden(f"markdown/{name}.md", render(REPORTS[name]()))


def test_a_missing_baseline_says_what_to_do() -> None:
    judgement = fake.plain_judgement()
    told = fake.of_subject(judgement.verdicts[0], cause=state("no baseline"))
    shown = render(report(replace(judgement, verdicts=(told,)), gated=False)).decode()
    assert "run `pytest --hwperf-save` on the target branch once" in shown
    assert "- no baseline: save one with --hwperf-save<br>latency p50 of 1 test: `tests/test_text.py::" in shown


def test_reasons_are_shared_by_their_tests() -> None:
    absent = [replace(fake.plain_judgement(), run=fake.run(test=f"t{n}", label="")) for n in range(9)]
    shown = render(report(*absent)).decode()
    assert "<br>latency p50 of 9 tests: `t0`, `t1`, `t2` and 6 more" in shown


def test_what_is_only_measured_has_its_figures() -> None:
    shown = render(report(replace(fake.plain_judgement(), verdicts=()))).decode()
    assert "### ℹ️ 1 test measured only, no budget or baseline" in shown
    assert "long text` | latency p50 | 1.18 ms (1.17 .. 1.20) |  |  | 1 call | perf&#95;counter |  |" in shown


def test_interruption_and_an_early_end_are_said() -> None:
    ended = replace(gate(), evidence=replace(gate().evidence, stopped=state("out of time", limit=60)))
    shown = render(replace(report(compared("a", "equivalent", 0.0)), gates=(ended,), partial=True)).decode()
    assert "- ⚠️ the time of 60 s was too short\n" in shown
    assert "- ⚠️ interrupted: what is shown is complete, but not all tests ran" in shown


@pytest.mark.parametrize(
    ("made", "command"),
    [
        (
            report(compared("t.py::t[a b]", "regressed", 0.05), compared("u", "equivalent", 0.0)),
            f"python -m pytest --hwperf-only --hwperf-against={'4f2c1e9d' * 5} 't.py::t[a b]'",
        ),
        (
            replace(report(compared("t", "equivalent", 0.05)), gates=(gate(alpha=0.05),)),
            f"python -m pytest --hwperf-only --hwperf-against={'4f2c1e9d' * 5} --hwperf-alpha=5%",
        ),
        (
            replace(report(compared("t", "equivalent", 0.05), gated=False), baseline="a b"),
            "python -m pytest --hwperf-only --hwperf-compare '--hwperf-baseline=a b'",
        ),
        (
            replace(report(compared("t", "equivalent", 0.05), gated=False), baseline="a" * 1000),
            "python -m pytest --hwperf-only",
        ),
        (report(compared("t\n", "regressed", 0.05), gated=False), "python -m pytest --hwperf-only"),
        (report(compared("-prunner", "regressed", 0.05), gated=False), "python -m pytest --hwperf-only"),
    ],
)  # fmt: skip
def test_the_command_repeats_what_is_not_well(made: Report, command: str) -> None:
    assert render(made).decode().endswith(f"**Repeat it**\n\n```text\n{command}\n```\n")


def test_of_many_tests_the_whole_suite_is_repeated() -> None:
    shown = render(report(*(compared(f"t{n}", "regressed", 0.05) for n in range(6)), gated=False)).decode()
    assert shown.endswith("\npython -m pytest --hwperf-only\n```\n")


def test_a_thousand_tests_with_long_ids_fit_into_a_comment() -> None:
    shown = render(huge_report()).decode()
    left = [int(found) for found in re.findall(r"^(\d+) more in the JSON report\.$", shown, re.MULTILINE)]
    assert LARGEST * 0.9 < len(shown.encode()) < LARGEST
    assert "\n</details>\n\n**Repeat it**" in shown
    assert left[-1] == (1000 - shown.partition("<details>")[2].count("\n| <code>"))


def test_a_table_that_is_not_collapsed_is_short() -> None:
    shown = render(report(*(compared(f"t{n}", "regressed", 0.05) for n in range(40)))).decode()
    assert 30 == shown.partition("<details>")[0].count(" | `t")
    assert "10 more among all rows below, or in the JSON report." in shown
    assert 40 == shown.partition("<details>")[2].count("\n| `t")


def outside_of_code(shown: str) -> str:
    """Return a text without what is code, in which GitHub finds neither names nor markup, and without our comments."""
    for code_like in (r"^```text\n.*?^```$", r"<code>[^<]*</code>", r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)"):
        shown = re.sub(code_like, "CODE", shown, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\A<!-- pytest-hwperf -->\n<!-- state: \w+ -->", "", shown)


def test_no_foreign_text_is_markup_or_a_message() -> None:
    rest = outside_of_code(render(hostile_report()).decode())
    unescaped = re.sub(r"&#\d+;|&nbsp;", "¤", rest)
    assert {"<br>", "<details>", "<summary>", "</summary>", "</details>"} == set(re.findall(r"<[^= ][^>]*>", unescaped))
    assert [] == re.findall(r"@\w|(?<!^)(?<!#)#\d|\bGH-\d|!\d|://|www\.|\]\(", unescaped, re.MULTILINE | re.IGNORECASE)
    assert [] == [line for line in rest.split("\n") if not line.isprintable()]


def test_every_row_has_as_many_cells_as_its_head() -> None:
    """A pipe splits a cell unless a backslash is before it, within code too; entities are none."""
    columns = 0
    for line in render(hostile_report()).decode().split("\n"):
        cells = line.count("|")
        assert not line.startswith("|") or not columns or cells == columns
        columns = cells if line.startswith("|") else 0


NAMES = [
    ("", ""),
    ("t.py::t[a-1]", "`t.py::t[a-1]`"),
    ("<b>@me #1", "`<b>@me #1`"),
    ("a|b", "<code>a&#124;b</code>"),
    ("a\\", "<code>a&#92;</code>"),
    ("a`b@me", "<code>a&#96;b@&#8203;me</code>"),
    (" a", "<code> a</code>"),
    ("\u202e", r"<code>&#92;u202e</code>"),
    ("a" * 300, f"`{'a' * 59}…{'a' * 60}`"),
]
SENTENCES = [
    ("no baseline: save one", "no baseline: save one"),
    ("@me, me@x.y", "@&#8203;me, me@&#8203;x.y"),
    ("#1 !2 GH-3", "#&#8203;1 !&#8203;2 GH&#8203;-3"),
    ("http://a www.b", "http:&#8203;//a www&#8203;.b"),
    ("&#64;me", "&#38;#&#8203;64;me"),
    ("a" * 301, f"{'a' * 299}…"),
    ("a\nb\0", "a&#92;nb&#92;x00"),
]


def test_names_are_code_and_sentences_call_nobody() -> None:
    """A block of code ends where it ends."""
    assert [shown for _, shown in NAMES] == [code(foreign) for foreign, _ in NAMES]
    assert [shown for _, shown in SENTENCES] == [prose(foreign) for foreign, _ in SENTENCES]
    assert fenced("a ``` b\n````") == "`````text\na ``` b\n````\n`````"


def test_annotations_are_the_headline_then_what_fails_then_what_is_inconclusive() -> None:
    lines = list(annotations(fake.report()))
    smallest = "12 pairs, smallest detectable change 14 %25"
    test = "tests/test_iris.py%3A%3Atest_classifier[sklearn_fp32],file=tests/test_iris.py"
    head = "1 of 2 tests regressed; 1 of 6 budgets missed; 2 inconclusive; 1 improved"
    assert lines == [
        f"::error title=Performance::{head}; 1 budget unmeasured; 2 comparisons not made",
        f"::error title={test}::latency p50 +4.8 %25 (+3.1 .. +6.5), 6.02 → 6.31 ms, margin 2 %25, 12 pairs",
        f"::error title={test}::latency p95 failed, 7.90 ms (7.60 .. 8.45), limit <= 5 ms, 412 calls",
        f"::error title={test}::energy unmeasured (fails), unmeasured, limit <= 2 mJ: {fake.NO_COUNTER}",
        f"::warning title={test}::latency p95 +2.1 %25 (-4.0 .. +13), 7.74 → 7.90 ms, margin 10 %25, {smallest}",
        f"::warning title={test}::throughput inconclusive, 161 /s (158 .. 164), limit >= 160 /s, 24 windows",
    ]


def test_an_annotation_is_one_line_and_foreign_text_ends_no_property() -> None:
    hostile = "a,b=c\r\n::error title=x::y\x1b[2J\u2028%0A::add-mask::z,file=/etc/passwd"
    moved = state("operator moved", operator=hostile, candidate=0.002, baseline=0.001, share=0.9)
    verdict = fake.comparison_verdict("latency", "p50", "regressed", (0.05, 0.04, 0.06), baseline=0.001)
    told = fake.of_subject(verdict, moved=moved)
    run = fake.run(test=hostile, label=hostile)
    lines = list(annotations(replace(fake.report(), judgements=(Judgement(run=run, figures=(), verdicts=(told,)),))))
    assert 2 == len(lines)
    assert all(line.isprintable() for line in lines)
    assert re.match(r"^::error title=[^:,]+,file=[^:,]+::latency p50 ", lines[1])


def test_github_shows_ten_annotations_of_a_step() -> None:
    many = replace(fake.report(), judgements=30 * fake.report().judgements)
    assert 1 + 9 + 9 == len(list(annotations(many)))


def test_a_path_that_is_none_is_left_out() -> None:
    judgement = replace(fake.sklearn_judgement(), run=fake.run(test="x" * 400))
    assert {False} == {"file=" in line for line in annotations(replace(fake.report(), judgements=(judgement,)))}
