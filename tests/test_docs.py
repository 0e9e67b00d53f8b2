"""The documents are held against the code: examples run, links exist, no keyword or option is missing or made up."""

import ast
import configparser
import re
import shlex
import tomllib
from collections.abc import Collection
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import get_args

import pytest

from pytest_hwperf.records.markers import BUDGET_KEYWORDS, DEFAULT_MARGINS, parse_budgets
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.units import show, show_limit
from pytest_hwperf.records.verdict import BudgetOutcome, ComparisonOutcome

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
METRICS_PAGE = ROOT / "docs" / "metrics.md"
EXAMPLE = ROOT / "example_project"
WORKFLOW = EXAMPLE / ".github" / "workflows" / "performance.yml"
CI_FILES = [WORKFLOW, ROOT / "action.yml", ROOT / "ci" / "gitlab.yml"]
PAGES = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "benchmarks/README.md",
            "example_project/README.md",
        )
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
QUICK = ("-p", "no:cacheprovider", "-p", "no:benchmark", "--hwperf-sample-time=0.1", "--hwperf-energy=off")
REPORTED = ("latency", "accuracy", "failed: ", "p50: perf", "details: ", "budgets: ")  # beginnings of lines

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_LIMIT = re.compile(r"(?:[<>]=|limit) [\d.]+(?: [^\s:;,]+)?")
_OPTION = re.compile(r"(?<![\w-])--hwperf-[a-z-]+[a-z]")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(language: str) -> list[tuple[Path, str]]:
    """Return every fenced block of one language, with its page."""
    return [(page, found[2]) for page in PAGES for found in _BLOCK.finditer(text_of(page)) if found[1] == language]


def complete_tests() -> list[str]:
    """Return the examples that can be run as they stand: those that import what they use."""
    tested = re.compile(r"def test_|class Test")
    return [code for _, code in blocks("python") if re.match(r"import |from ", code) and tested.search(code)]


def needs_a_runtime(code: str) -> bool:
    """Whether an example takes an optional runtime, which is not installed for most tests."""
    return "pytest.importorskip(" in code


def section(page: Path, title: str) -> str:
    """Return the text under one heading of the second level."""
    return text_of(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture
def help_of_hwperf(pytester: pytest.Pytester) -> str:
    """The plugin's groups of `pytest --help`."""
    shown = pytester.runpytest_inprocess("--help").stdout.str()
    return "".join(shown.partition(f"\nhwperf{title}:")[2].partition("\n\n")[0] for title in ("", ", more"))


@pytest.mark.live
def test_complete_examples_run_and_only_the_first_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limit lowered as the README says. It shows their verdicts and table, whatever the numbers are."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(QUICK))  # what is typed stands in the command that looks further
    examples = [code for code in complete_tests() if not needs_a_runtime(code)]
    assert examples
    examples[0] = examples[0].replace("latency_p95_ms=20,", "latency_p95_ms=0.02,")
    for number, code in enumerate(examples):
        pytester.makepyfile(**{f"test_example_{number}": code})
    result = pytester.runpytest_subprocess()

    outcomes = result.parseoutcomes()
    assert outcomes.pop("failed") == 1
    assert {"passed"} == outcomes.keys() - {"warnings"}
    there = result.stdout.str().replace("test_example_0.py", "test_digits.py")
    shown, actual = (unnumbered(text) for text in (blocks("text")[0][1], there))
    reported = [line for line in shown if line.startswith(REPORTED)]
    assert len(reported) == 4  # the verdict, the command, what is below the row, the counts
    assert [] == [line for line in reported if line not in actual]


@pytest.mark.live
@pytest.mark.runtime
def test_complete_examples_of_runtimes_run(pytester: pytest.Pytester) -> None:
    """What this machine has not, such as a GPU, is skipped."""
    pytest.importorskip("torch", reason="the extra torch is not installed")
    examples = [code for code in complete_tests() if needs_a_runtime(code)]
    assert examples
    for number, code in enumerate(examples):
        pytester.makepyfile(**{f"test_example_{number}": code})
    outcomes = pytester.runpytest_subprocess(*QUICK).parseoutcomes()
    assert outcomes["passed"] >= len(examples)
    assert set() == outcomes.keys() - {"passed", "skipped", "warnings"}


def bare(limit: str) -> str:
    """Return a limit without what is written before it."""
    return limit.removeprefix("limit ").removeprefix("<= ")


def unnumbered(output: str) -> list[str]:
    """Return the lines of a run without what differs from machine to machine, but with every limit of a budget.

    Those are footnotes, numbers, units and spaces, how many remarks there are on a machine with other work, and
    whether calls are so fast that they are timed in batches.
    """
    lines = (re.sub(r"\[[\d,]+\]|; \d+ remarks? with -v", "", line) for line in output.splitlines())
    lines = (re.sub(r"batches( of \d+ calls)?", "calls", line) for line in lines)
    number = re.compile(rf"({_LIMIT.pattern})|\d[\d.]*(?:,\d+)*( ([nµm]?s\b|[kM]?/s))?")
    lines = (number.sub(lambda found: found[1] or "#", line) for line in lines)
    lines = (line.replace(".. ?)", ".. #)") for line in lines)  # of so few calls that there is no upper bound
    return [" ".join(line.split()) for line in lines]


def test_a_stale_limit_is_noticed() -> None:
    fresh = "latency p95 9.75 µs (9.62 .. 9.90), limit 1 µs; 2,076 batches of 13 calls, perf_counter"
    elsewhere = "latency p95  31.2 ms (30.0 .. 32.1), limit 1 µs; 99 calls, perf_counter"
    assert unnumbered(fresh) == unnumbered(elsewhere)
    assert unnumbered(fresh) != unnumbered(fresh.replace("1 µs", "1.00 µs"))
    assert unnumbered(fresh) != unnumbered(fresh.replace("1 µs", "2 µs"))


@pytest.mark.live
def test_the_example_breaks_as_its_readme_shows(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page says which limit to write, and what is reported then."""
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(QUICK))
    for name in ("pyproject.toml", "digits_models.py", "tests/conftest.py", "tests/test_pixels.py"):
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text_of(EXAMPLE / name).replace("latency_p95_ms=50", "latency_p95_ms=0.001"), encoding="utf-8")
    result = pytester.runpytest_subprocess()

    broken = next(text for page, text in blocks("text") if page.parent == EXAMPLE and "limit 1 µs" in text)
    reported = [line for line in unnumbered(broken) if line.startswith(REPORTED)]
    assert len(reported) == len(broken.splitlines()) - 1 == 2  # all below the heading
    spread = " (# .. #)"  # is not shown where both ends read as the value does
    shown = [line.replace(spread, "") for line in unnumbered(result.stdout.str())]
    assert [] == [line for line in reported if line.replace(spread, "") not in shown]
    assert result.ret == 1


@pytest.mark.parametrize("page", [README, EXAMPLE / "README.md"], ids=named)
def test_every_limit_shown_is_one_that_is_written(page: Path) -> None:
    """On the page itself or in the files of its example, and shown as the code shows it."""
    files = [*EXAMPLE.glob("tests/*.py"), EXAMPLE / "pyproject.toml"] if page.parent == EXAMPLE else []
    written = re.findall(r"(\w+)=([\d.]+)", "\n".join(map(text_of, [page, *files])))
    written += [("latency_p95_ms", "0.001")]  # which the page says to write
    budgets = [parse_budgets({word: float(limit)})[0] for word, limit in written if word in BUDGET_KEYWORDS]
    allowed = {show_limit(one.limit, METRICS[one.metric].unit, METRICS[one.metric].better) for one in budgets}
    shown = [limit for where, text in blocks("text") if where == page for limit in _LIMIT.findall(text)]
    assert shown
    assert set() == {bare(one) for one in shown} - set(map(bare, allowed))


@pytest.mark.parametrize(("page", "code"), blocks("python"), ids=lambda value: named(value) if value in PAGES else "")
def test_python_can_be_parsed(page: Path, code: str) -> None:
    ast.parse(dedent(code), filename=str(page))


def test_settings_can_be_parsed() -> None:
    for _, settings in blocks("toml"):
        tomllib.loads(settings)
    for _, settings in blocks("ini"):
        configparser.ConfigParser().read_string(settings)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in _LINK.findall(text_of(page)) if "://" not in target]
    assert [] == [target for target in targets if not _exists(page, target)]


def _exists(page: Path, target: str) -> bool:
    """Whether a link of a page leads to a file, and to a heading in it where it names one."""
    name, _, anchor = target.partition("#")
    path = page.parent / name if name else page
    return path.exists() and (not anchor or anchor in _anchors(path))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_lists_read_alike_on_github_and_in_the_site(page: Path) -> None:
    """The site takes a list for text without an empty line above it, and ends it at a block of another indentation."""
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    begun = re.findall(r"^(?:(?![ #|-]|\d+\. ).+| {4}\S.*)\n(?:- |\d+\. ).*", text, re.MULTILINE)
    indented = re.findall(r"^ {1,3}(?:```|- |\d+\. ).*", text, re.MULTILINE)
    assert ([], []) == (begun, indented)


def test_a_link_to_a_missing_heading_is_noticed() -> None:
    assert _exists(README, "docs/reference.md#command-line-options")
    assert not _exists(README, "docs/reference.md#no-such-heading")
    assert not _exists(README, "docs/no-such-page.md")


def test_every_topic_of_the_design_notes_has_an_address_of_its_own() -> None:
    titles = re.findall(r"^##+ (.+)$", text_of(ROOT / "docs" / "design-notes.md"), re.MULTILINE)
    assert len(titles) > 30
    assert len(titles) == len({title.lower() for title in titles})


@pytest.mark.parametrize("folder", ["pytest_hwperf", "tests", "benchmarks"])
def test_pages_that_code_names_are_there(folder: str) -> None:
    """And the heading, where one is named."""
    texts = [text_of(path) for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    named = {target for text in texts for target in re.findall(r"\bdocs/[a-z/-]+\.md(?:#[\w-]+)?", text)}
    assert named
    assert [] == sorted(target for target in named if not _exists(README, target))


def test_every_option_stands_in_the_reference(help_of_hwperf: str) -> None:
    options = set(_OPTION.findall(help_of_hwperf))
    assert len(options) > 10
    assert options == set(_OPTION.findall(section(REFERENCE, "Command-line options"))) & options


@pytest.mark.parametrize("page", [*PAGES, *CI_FILES], ids=named)
def test_no_page_makes_up_an_option(page: Path, help_of_hwperf: str) -> None:
    assert set() == set(_OPTION.findall(text_of(page))) - set(_OPTION.findall(help_of_hwperf))


def test_every_outcome_stands_in_the_glossary() -> None:
    outcomes = {*get_args(BudgetOutcome), *get_args(ComparisonOutcome)}
    assert set() == outcomes - set(re.findall(r"`([a-z ]+)`", text_of(GLOSSARY)))


@pytest.mark.parametrize("keywords", [BUDGET_KEYWORDS, DEFAULT_MARGINS], ids=["budgets", "margins"])
def test_every_keyword_stands_in_the_reference(keywords: Collection[str]) -> None:
    assert [] == [keyword for keyword in keywords if f"`{keyword}`" not in text_of(REFERENCE)]


def test_the_reference_has_the_default_margins() -> None:
    rows = re.findall(r"^\| (`[a-z_0-9`, ]+`) \| `([\d.]+)(%|pp)`", section(REFERENCE, "Markers"), re.MULTILINE)
    shown = {name: (float(size) / 100, unit) for names, size, unit in rows for name in re.findall(r"\w+", names)}
    units = {"relative": "%", "absolute": "pp"}
    assert {name: (one.size, units[one.scale]) for name, one in DEFAULT_MARGINS.items()} == shown


def test_the_page_of_metrics_is_their_table() -> None:
    """The page has one line for each; this line is what belongs there."""
    lines = []
    for metric in METRICS.values():
        keywords = ", ".join(f"`{budget.keyword}`" for budget in metric.budgets)
        sizes = [
            f"{metric.called(one.statistic)} {100 * one.size:g} {'points' if one.scale == 'absolute' else '%'}"
            + f", at least {show(one.floor, metric.unit)}" * bool(one.floor)
            + ", always" * one.always
            for one in metric.margins
        ]
        better = f"{metric.better}{', exact' if metric.exact else ''}"
        lines.append(
            f"| `{metric.name}` | {metric.title} | {metric.unit} | {better} | {keywords} | {'; '.join(sizes)} |"
        )
    assert lines == [line for line in text_of(METRICS_PAGE).splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("kind", ["scenarios", "energy_meters", "stores"])
def test_everything_registered_stands_in_the_reference(kind: str) -> None:
    """And its group in CONTRIBUTING, for those who add to it."""
    names = {point.name for point in entry_points(group=f"pytest_hwperf.{kind}")}
    assert set() == names - set(re.findall(r"\w+", text_of(REFERENCE)))
    assert f"`pytest_hwperf.{kind}`" in text_of(ROOT / "CONTRIBUTING.md")


def test_the_readme_has_the_commands_that_ci_runs() -> None:
    """The first is what the tox environment `example` runs and then looks at, the second is all of CI."""
    first, second = section(README, "Install").partition("```bash\n")[2].partition("```")[0].splitlines()
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    example, checks = tox["testenv:example"]["commands"].split("\n")[1:]
    ci = [line for line in text_of(ROOT / ".ci" / "run").splitlines() if line.startswith("python ")]
    assert first == f"python -m pip install . && {example.partition(' --hwperf-report=')[0]}"
    assert example.rpartition("=")[2] == checks.split()[-1]  # the report of this very run
    assert "example_checks.py" in checks
    assert second == " && ".join(ci)


def test_the_workflow_may_not_write_and_knows_every_commit() -> None:
    text = text_of(WORKFLOW)
    assert "permissions:\n  contents: read" in text
    assert "fetch-depth: 0" in text
    assert "secrets." not in text


def test_commands_can_be_parsed() -> None:
    for _, commands in blocks("bash"):
        for line in commands.splitlines():
            assert shlex.split(line, comments=True)


def test_an_answer_that_could_not_be_given_is_called_inconclusive_everywhere() -> None:
    """Only the option that says what a build does then is called otherwise; the changelog tells of older words."""
    pages = [page for page in PAGES if page.name != "CHANGELOG.md" and page.parents[0].name != "benchmarks"]
    code = [*(ROOT / "pytest_hwperf").rglob("*.py"), ROOT / "action.yml"]
    other = re.compile(r"(?<!hwperf[-_])\bundecided\b(?!: Any| == | != | in |: Undecided)|called slower|not decided:")
    sentences = {
        page: re.sub(r"\w\.undecided|\bundecided=|\"undecided\"", "", text_of(page)) for page in [*pages, *code]
    }
    assert [] == [named(page) for page, text in sentences.items() if other.search(text)]
