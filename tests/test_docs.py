"""The documents are held against the code: examples run, links exist, and no name or option is missing or made up."""

import ast
import configparser
import re
import shlex
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args

import pytest

from pytest_hwperf import __version__
from pytest_hwperf.gate.pair.channel import Message
from pytest_hwperf.records.markers import BUDGET_KEYWORDS, DEFAULT_MARGINS
from pytest_hwperf.records.messages import _SENTENCES
from pytest_hwperf.records.verdict import BudgetOutcome, ComparisonOutcome

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLE = ROOT / "docs", ROOT / "example_project"
REFERENCE, ARCHITECTURE = DOCS / "reference", DOCS / "architecture.md"
OTHERS = ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "example_project/README.md")
PAGES = [ROOT / "README.md", *(ROOT / name for name in OTHERS), *sorted(DOCS.rglob("*.md"))]
CI_FILES = [EXAMPLE / ".github" / "workflows" / "performance.yml", ROOT / "action.yml", ROOT / "ci" / "gitlab.yml"]
QUICK = ("-p", "no:cacheprovider", "-p", "no:benchmark", "--hwperf-sample-time=0.1", "--hwperf-energy=off")
REPORTED = ("latency", "accuracy", "failed: ", "p50: perf", "details: ", "budgets: ")  # beginnings of lines
TRAPS = {
    "crowded threads", "crowded pool", "waiting threads", "constant input", "few examples", "not waited for",
    "mean only", "other batch served", "predictions not checked",
}  # fmt: skip
NO_KINDS = {"kind", "flip_rate", "probability_diff", "latency_mean_ms", "throughput_min_qps", "inconclusive"}

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"`((?:[\w.-]+/)+\w+\.py)`")
_LIMIT = re.compile(r"(?:[<>]=|limit) [\d.]+(?: [^\s:;,]+)?")
_OPTION = re.compile(r"(?<![\w-])--hwperf-[a-z-]+[a-z]")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[Path, str]]:
    """Return every fenced block of one language, with its page."""
    found = [(page, one) for page in PAGES for one in _BLOCK.finditer(text_of(page))]
    return [(page, dedent(one[3])) for page, one in found if one[2] == language]


def complete_tests(*, runtimes: bool) -> list[str]:
    """Return the examples that can be run as they stand: those that import what they use, with or without runtimes."""
    tested = re.compile(r"def test_|class Test")
    found = [code for _, code in blocks("python") if re.match(r"import |from ", code) and tested.search(code)]
    return [code for code in found if ("pytest.importorskip(" in code) == runtimes]


def section(page: Path, title: str) -> str:
    """Return the text under one heading of the second level."""
    return text_of(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.live
def test_complete_examples_run_and_only_the_first_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limit lowered as the README says. It shows their verdicts and table, whatever the numbers are."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # models this small are trained on one thread in less time
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(QUICK))  # what is typed stands in the command that looks further
    examples = complete_tests(runtimes=False)
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
    examples = complete_tests(runtimes=True)
    for number, code in enumerate(examples):
        pytester.makepyfile(**{f"test_example_{number}": code})
    outcomes = pytester.runpytest_subprocess(*QUICK).parseoutcomes()
    assert outcomes["passed"] >= len(examples) > 0
    assert set() == outcomes.keys() - {"passed", "skipped", "warnings"}


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
    assert unnumbered(fresh) == unnumbered(elsewhere) != unnumbered(fresh.replace("1 µs", "1.00 µs"))


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


def test_every_block_has_a_language_and_can_be_parsed() -> None:
    """A block without one could be a command that nothing reads."""
    read: dict[str, Any] = {"python": ast.parse, "toml": tomllib.loads, "ini": configparser.ConfigParser().read_string}
    for language, parse in read.items():
        assert blocks(language) or language == "ini"  # a page may have one again
        for page, code in blocks(language):
            try:
                parse(code)
            except (SyntaxError, tomllib.TOMLDecodeError, configparser.Error) as error:
                pytest.fail(f"{page}: {error} in\n{code}")
    assert [] == [one for _, code in blocks("bash") for one in code.splitlines() if not shlex.split(one, comments=True)]
    fences = {page.name: re.findall(r"^ *```(\w*)$", text_of(page), re.MULTILINE) for page in PAGES}
    assert {} == {page: found for page, found in fences.items() if not all(found[::2]) or any(found[1::2])}


def test_links_lead_somewhere() -> None:
    """To a file, and to a heading in it where one is named: of pages, and pages that the code names."""
    links = [(page, target) for page in PAGES for target in _LINK.findall(text_of(page)) if "://" not in target]
    code = [path for name in ("pytest_hwperf", "tests", "benchmarks") for path in (ROOT / name).rglob("*.py")]
    pages = re.compile(r"\bdocs/[a-z/-]+\.md(?:#[\w-]+)?")
    named = [(ROOT / "x", target) for path in code if path != Path(__file__) for target in pages.findall(text_of(path))]
    assert named
    assert [] == [(str(page), target) for page, target in [*links, *named] if not _exists(page, target)]


def _exists(page: Path, target: str) -> bool:
    """Whether a link of a page leads to a file, and to a heading in it where it names one."""
    name, _, anchor = target.partition("#")
    path = page.parent / name if name else page
    return path.exists() and (not anchor or anchor in _anchors(path))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_a_link_to_a_missing_heading_is_noticed() -> None:
    page = ROOT / "README.md"
    assert _exists(page, "docs/reference.md#command-line-options")
    assert not _exists(page, "docs/reference.md#no-such-heading")
    assert not _exists(page, "docs/no-such-page.md")


def test_every_python_file_named_exists() -> None:
    """In the package, in the repository or in the example project."""
    places = (ROOT / "pytest_hwperf", ROOT, EXAMPLE)
    named = {file for page in PAGES if page.name != "CHANGELOG.md" for file in _FILE.findall(text_of(page))}
    assert [] == [file for file in sorted(named) if not any((place / file).is_file() for place in places)]


def test_options_are_those_of_the_reference(pytester: pytest.Pytester) -> None:
    """Each stands there, and no page or CI file makes one up."""
    shown = pytester.runpytest_inprocess("--help").stdout.str()
    groups = (shown.partition(f"\nhwperf{title}:")[2].partition("\n\n")[0] for title in ("", ", more"))
    options = set(_OPTION.findall("".join(groups)))
    assert len(options) > 10
    assert set() == options - set(_OPTION.findall(text_of(REFERENCE / "options.md")))
    made_up = {str(page): set(_OPTION.findall(text_of(page))) - options for page in [*PAGES, *CI_FILES]}
    assert {} == {page: found for page, found in made_up.items() if found}


def test_every_name_of_the_code_stands_on_its_page() -> None:
    """Outcomes, keywords, what is registered, kinds of traps and messages of a pair; traps and messages both ways."""
    keywords, glossary = text_of(REFERENCE / "markers.md"), text_of(DOCS / "glossary.md")
    outcomes = {*get_args(BudgetOutcome), *get_args(ComparisonOutcome)}
    assert set() == outcomes - set(re.findall(r"`([a-z ]+)`", glossary))
    assert [] == [keyword for keyword in {*BUDGET_KEYWORDS, *DEFAULT_MARGINS} if f"`{keyword}`" not in keywords]
    for group in ("scenarios", "energy_meters", "stores"):
        names = {point.name for point in entry_points(group=f"pytest_hwperf.{group}")}
        assert set() == names - set(re.findall(r"\w+", text_of(REFERENCE / "api.md")))
        assert f"`pytest_hwperf.{group}`" in text_of(ROOT / "CONTRIBUTING.md")
    cells = re.findall(r"^\|[^|]*\|([^|]*)\|", text_of(DOCS / "traps.md"), re.MULTILINE)
    kinds = {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)} - NO_KINDS
    assert TRAPS <= kinds
    assert set() == {one for one in kinds - {*_SENTENCES} if not one.startswith(("--", "hwperf_"))}
    rows = re.findall(r"^\| (`.+?`) \|", section(DOCS / "gate.md", "Messages of a pair"), re.MULTILINE)
    assert {kind.__name__ for kind in get_args(Message)} == {name for row in rows for name in re.findall(r"\w+", row)}


def test_the_pictures_are_of_this_version() -> None:
    """`python -m benchmarks pictures` makes them anew, all of one run."""
    picture = text_of(DOCS / "pictures" / "gate.svg")
    assert f"pytest-hwperf&#160;{__version__}<" in picture
    (change,) = set(re.findall(r"latency&#160;p50&#160;\+(\d+)", picture))
    assert f"+{change} %" in text_of(DOCS / "pictures" / "report.html")


def test_the_reference_has_the_default_margins() -> None:
    rows = re.findall(r"^\| (`[a-z_0-9`, ]+`) \| `([\d.]+)(%|pp)`", text_of(REFERENCE / "markers.md"), re.MULTILINE)
    shown = {name: (float(size) / 100, unit) for names, size, unit in rows for name in re.findall(r"\w+", names)}
    units = {"relative": "%", "absolute": "pp"}
    assert {name: (one.size, units[one.scale]) for name, one in DEFAULT_MARGINS.items()} == shown


def test_the_architecture_names_every_storey_and_tests_that_exist() -> None:
    """The layers that import-linter enforces, the uppermost first, and the proof of each invariant."""
    settings = tomllib.loads(text_of(ROOT / "pyproject.toml"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    storeys = [sorted(name.strip() for name in layer.split("|")) for layer in layers]
    picture = section(ARCHITECTURE, "Storeys").split("```")[1]
    drawn = [sorted(re.findall(r"\b(\w+)(?:/|\.py)", storey)) for storey in re.split("─+", picture)]
    listed = re.findall(r"^\| `(\w+)(?:/|\.py)`", section(ARCHITECTURE, "Folders"), re.MULTILINE)
    assert storeys == drawn
    assert sorted(name for storey in storeys for name in storey) == sorted(listed)
    proofs = set(re.findall(r"`(test_\w+)`", section(ARCHITECTURE, "Invariants")))
    tests = "\n".join(map(text_of, (ROOT / "tests").rglob("test_*.py")))
    assert len(proofs) > 10
    assert [] == [proof for proof in sorted(proofs) if f"def {proof}(" not in tests]
