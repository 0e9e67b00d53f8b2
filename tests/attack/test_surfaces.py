r"""No surface shows a character that a terminal, XML or an editor obeys, whatever the text that it shows comes from.

A report is filled with every such character wherever it holds text, and then taken to every surface; what commands
are given, and what third-party code raises, likewise.
"""

import argparse
import io
import json
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from fakes import gates, shards
from fakes import records as fake
from fakes.shells import words_of

from pytest_hwperf.cli import INTERNAL, USAGE, doctor, main
from pytest_hwperf.cli.output import progress_line
from pytest_hwperf.records import errors
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.evidence import Observation
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import visible, visible_json, visible_lines
from pytest_hwperf.reports import csv_files, exports, json_file, terminal
from pytest_hwperf.stats.verdicts import explain
from pytest_hwperf.stores.json_files import JsonStore

CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]
INVISIBLE = [*"\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"]
SURROGATES = ["\udc00", "\udc80", "\udcff", "\udfff", "\ud800", "\udbff"]  # in an order in which none are a pair
EVERY = [*CONTROLS, *INVISIBLE, *SURROGATES, "\ufffe", "\uffff", "\U000e0041"]
HOSTILE = f"x{''.join(EVERY)}y \x1b[2J\x1b]0;title\x07 \r\nhwperf: forged"
GIVEN = "x" + "".join(one for one in EVERY if one != "\0" and not "\ud800" <= one < "\udc80" and one < "\udd00")


def obeyed(text: str) -> set[str]:
    """Return what a terminal would obey, or could not be shown, but for the ends of lines."""
    return {one for one in text if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"}} - {"\n"}


def leaves(value: Any, kind: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
    """Yield the place of every text below a value of JSON, and its kind: the names on the way and beside it."""
    kind += tuple(value) if isinstance(value, dict) else ()
    for key, part in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
        within = (*kind, f"in {key}" if isinstance(value, dict) else "each")
        if isinstance(part, str):
            yield value, key, within
        elif isinstance(part, dict | list):
            yield from leaves(part, within)


def names(value: Any, kind: tuple[str, ...] = ()) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield every object below a value of JSON, and its kind: the names on the way."""
    if isinstance(value, dict):
        yield value, kind
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            yield from names(part, (*kind, str(key) if isinstance(value, dict) else "each"))


def readable(whole: Any) -> bool:
    try:
        from_json(ReportFile, json.dumps(whole).encode())
    except errors.SerialisationError:
        return False
    return True


def filled(report: Report) -> Report:
    """Put the hostile text into every place of a report that may hold any text, names of its own metrics too.

    The first place of a kind that is tried says whether all of them may; that they do is seen when all is read.
    """
    whole = json.loads(json_file.render(report))
    fits, places = dict[object, bool](), 0
    for holder, key, kind in [*leaves(whole)]:
        if key in ("metric", "statistic"):
            continue  # names that are looked up: see the metrics of a test's own below
        before, holder[key] = holder[key], f"{holder[key]}{HOSTILE}"
        if kind not in fits:
            fits[kind] = readable(whole)
        places += fits[kind]
        if not fits[kind]:
            holder[key] = before
    for holder, kind in [*names(whole)]:
        for name in [*holder]:
            if name in METRICS:
                continue
            value = holder.pop(name)
            holder[f"{name}{HOSTILE}"] = value
            if (kind, name) not in fits:
                fits[kind, name] = readable(whole)
            places += fits[kind, name]
            if not fits[kind, name]:
                del holder[f"{name}{HOSTILE}"]
                holder[name] = value
    assert places > 20
    return from_json(ReportFile, json.dumps(whole).encode()).report


def small(report: Report) -> Report:
    """Keep two blocks of each side in every pair."""
    (gate,) = report.gates
    pairs = [replace(pair, observations=tuple(map(two_blocks, pair.observations))) for pair in gate.evidence.pairs]
    return replace(report, gates=(replace(gate, evidence=replace(gate.evidence, pairs=tuple(pairs))),))


def two_blocks(one: Observation) -> Observation:
    return replace(one, baseline=one.baseline[:2], candidate=one.candidate[:2])


@pytest.fixture(scope="module")
def hostile() -> list[Report]:
    """Reports of every outcome, and of pairs."""
    one_of_each = replace(fake.report(), warnings=("a warning",))
    part = gates.report(3)
    return [filled(one_of_each), filled(small(replace(part, judgements=part.judgements[:1]))), of_own_metric()]


def of_own_metric() -> Report:
    """Return a report in which a metric of the test's own, which names may be anything in a file, is hostile."""
    plain = fake.plain_judgement()
    run = replace(plain.run, directions={HOSTILE: "lower"}, samples=(fake.sample(HOSTILE, [1.0]),))
    verdict = fake.comparison_verdict(HOSTILE, "p50", "no baseline")
    judgement = replace(plain, run=run, figures=(fake.figure(HOSTILE),), verdicts=(verdict,))
    return replace(fake.report(), judgements=(judgement,), skips=())


def drawn(report: Report) -> Iterator[str]:
    for detail in ("quiet", "normal", "verbose"):
        for width in (60, 120):
            yield "\n".join(text for text, _ in terminal.render(report, width=width, detail=detail))


def spelled(report: Report) -> Iterator[str]:
    for judgement in report.judgements:
        for name, text in exports.properties(judgement):
            assert "\n" not in name + text
            yield from (name, text)


def explained(report: Report) -> Iterator[str]:
    from pytest_hwperf.plugin.judging import judge as judging

    for judgement in report.judgements:
        failing = replace(judgement, verdicts=tuple(replace(one, fails=True) for one in judgement.verdicts))
        lines = judging.failures([failing])
        assert len(failing.verdicts) == len([line for line in lines if not line.startswith(" ")])  # none can be forged
        assert [] == [line for line in lines if "\n" in line]
        yield from lines


SURFACES: dict[str, Callable[[Report], Iterator[str]]] = {
    "terminal": drawn,
    "failure": explained,
    "JUnit": spelled,
    "CSV": lambda report: (content.decode() for content in csv_files.render(report).values()),
    "JSON": lambda report: iter([json_file.render(report).decode()]),
}


def test_a_report_shows_nothing_that_is_obeyed(hostile: list[Report]) -> None:
    shown = {name: [text for report in hostile for text in draw(report)] for name, draw in SURFACES.items()}
    assert [] == [name for name, texts in shown.items() if not any("u202e" in text for text in texts)]
    found = {name: {one for text in texts for one in obeyed(text)} for name, texts in shown.items()}
    assert {} == {name: characters for name, characters in found.items() if characters}


def test_what_is_made_visible_in_json_reads_as_before(hostile: list[Report]) -> None:
    for report in hostile:
        assert report == from_json(ReportFile, json_file.render(report)).report
    text = HOSTILE.encode(errors="ignore").decode()  # a record with lone surrogates is written in ASCII
    assert text == json.loads(visible_json(json.dumps(text, ensure_ascii=False).encode()))


def test_verifying_shows_nothing_that_is_obeyed(
    hostile: list[Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lines quote tests, labels, sources and reasons of the file."""
    lines = 0
    for number, report in enumerate(hostile):
        path = tmp_path / f"{number}.json"
        path.write_bytes(json_file.render(report))
        main(["report", str(path), "--verify"])
        shown = capsys.readouterr()
        assert set() == obeyed(shown.out + shown.err)
        assert all(line.startswith(("differs (", *"0123456789")) for line in shown.out.splitlines())
        lines += len(shown.out.splitlines())
    assert lines > 2


def test_merging_shows_nothing_that_is_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a shard that claims anything, beside one that claims something else."""
    mine = filled(small(shards.report_of(1, 0.3)))
    files = [tmp_path / "1\x1b[2J\n.json", tmp_path / "2.json"]
    for file, report in zip(files, (mine, shards.report_of(2, 0.0)), strict=True):
        file.write_bytes(json_file.render(report))
    page = tmp_path / "page.md"
    assert 1 == main(["report", str(files[0]), f"--output={page}"])
    assert USAGE == main(["report", *map(str, files)])
    shown = capsys.readouterr()
    assert set() == obeyed(shown.out + shown.err + page.read_text(encoding="utf-8"))


def test_accepting_shows_nothing_that_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The id of the test is what the file says."""
    monkeypatch.chdir(tmp_path)
    test = f"tests/test_{GIVEN}.py::test_it"
    JsonStore(tmp_path / ".hwperf").hold("main", [fake.session(test=test)])
    assert main(["baseline", "accept", test]) == 0
    shown = capsys.readouterr().out
    assert f"accepted as baseline main: {visible(test)}\n" == shown
    assert set() == obeyed(shown)


COMPARE = ["compare", "a:f", "b:f", "--data=rows.csv"]
GIVEN_TO_COMMANDS = [
    [GIVEN],
    ["compare", GIVEN, "b:f", "--data=x.npy"],
    ["compare", "a:f", "b:f", f"--data={GIVEN}"],
    ["compare", "a:f", "b:f", f"--data={GIVEN}.csv"],
    [*COMPARE, f"--target={GIVEN}"],
    [*COMPARE, f"--margin={GIVEN}"],
    [*COMPARE, f"--alpha={GIVEN}"],
    ["baseline", "accept", GIVEN],
    ["baseline", "accept", "*", f"--store={GIVEN}:x"],
    ["baseline", "accept", "*", f"--baseline={GIVEN}"],
    ["report", GIVEN],
    ["report", "rows.csv"],
    ["report", "rows.csv", GIVEN],
    ["report", "rows.csv", f"--output={GIVEN}"],
    ["report", f"--from={GIVEN}"],
    ["doctor", f"--require={GIVEN}"],
    ["selfcheck", f"--work={GIVEN}"],
]


def test_what_a_command_was_given_is_shown_and_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(f"a,b{HOSTILE[1:8]}\n1,2\n", encoding="utf-8", errors="replace")
    found = list[tuple[list[str], int, bool, set[str]]]()
    for arguments in GIVEN_TO_COMMANDS:
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = capsys.readouterr()
        found.append((arguments, code, bool(shown.err), obeyed(shown.out + shown.err)))
    assert [] == [one for one in found if one[1] not in {USAGE, 1} or one[2:] != (True, set())]


def raising(error: Exception) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]


def test_no_error_is_obeyed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of this package wherever they are shown, pytest's own output included; others where a command ends."""
    for kind in (*KINDS, RuntimeError, OSError, ValueError):
        with monkeypatch.context() as patch:
            patch.setattr(doctor, "COMMAND", doctor.COMMAND._replace(run=raising(kind(HOSTILE))))
            assert main(["doctor"]) == (USAGE if kind in KINDS else INTERNAL)
        assert set() == obeyed(capsys.readouterr().err)
    assert {kind: set[str]() for kind in KINDS} == {kind: obeyed(str(kind(HOSTILE))) for kind in KINDS}
    assert set() == obeyed(f"{errors.StoreError('a sentence', log=HOSTILE)}")


def test_the_line_of_progress_holds_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    progress_line().show(HOSTILE)
    assert set() == obeyed(stream.getvalue().rpartition("\r")[2])
    assert "\n" not in stream.getvalue()


def test_json_without_a_surrogate_is_made_visible_too() -> None:
    """With one it is written by the standard library, which escapes all that is not ASCII by itself."""
    text = json_file.render(replace(fake.report(), baseline="a\x9b2J\u202eb")).decode()
    assert r"a\u009b2J\u202eb" in text
    assert set() == obeyed(text)


@pytest.mark.live
def test_the_hint_to_accept_can_be_shown_and_typed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of the file is everything that a file name can be."""
    (pytester.path / f"test_{GIVEN.replace('/', '')[:60]}.py").write_text(
        "import pytest\n\n\n@pytest.mark.hwbudget(latency_p50_ms=0.000001)\ndef test_it():\n    sum(range(99))\n",
        encoding="utf-8",
    )
    result = pytester.runpytest_inprocess("--hwperf-save", "--hwperf-sample-time=0.05", "--hwperf-energy=off")
    line = next(line for line in result.outlines if line.startswith("hwperf: 1 run not saved"))
    monkeypatch.chdir(pytester.path)
    capsys.readouterr()
    assert set() == obeyed(line)
    assert 0 == main(words_of(line.partition(": hwperf ")[2]))
    assert "accepted as baseline main: test_" in capsys.readouterr().out


HOSTILE_TESTS = """
import pytest

from fakes import records as fake
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import replace
from pytest_hwperf.gate.models import compare as models

HOSTILE = {hostile}


@pytest.fixture
def hwperf_model():
    return object()


@pytest.fixture
def hwperf_data():
    return [[1.0]]


def compared(old, new, X, y, settings):
    verdict = fake.comparison_verdict("latency", "p50", "regressed", (0.3, 0.2, 0.4), reason=HOSTILE)
    return (verdict.subject,), fake_gate()


def fake_gate():
    from fakes import gates
    return replace(gates.report(3).gates[0], against=HOSTILE)


def test_compared(hwperf, monkeypatch):
    monkeypatch.setattr(models, "compare_models", compared)
    hwperf.compare({{"old": "a:f", HOSTILE: "b:f"}}, [[1.0]])


def unavailable(*_, **__):
    raise ScenarioUnavailable(HOSTILE)


def test_skipped(hwperf, monkeypatch, request):
    from pytest_hwperf import registry
    from pytest_hwperf.plugin.fixture.targets import ready_scenario
    monkeypatch.setattr(registry, "find", lambda *_: unavailable)
    ready_scenario(request.node, "onnx_fp32", object(), [[1.0]])


def test_raised(hwperf):
    hwperf(1, label=HOSTILE)
"""


def test_a_whole_run_of_pytest_obeys_nothing(pytester: pytest.Pytester) -> None:
    """Labels, reasons and sources from outside, in the terminal and in JUnit, whose file stays XML."""
    pytester.makepyfile(HOSTILE_TESTS.format(hostile=ascii(HOSTILE)))
    result = pytester.runpytest_inprocess("--junitxml=junit.xml", "-rs", "--hwperf-energy=off", "-p", "no:xdist")

    result.assert_outcomes(failed=2, skipped=1)
    assert set() == obeyed(result.stdout.str() + result.stderr.str())
    found = [one.attrib["name"] for one in ET.parse(pytester.path / "junit.xml").iter("property")]  # noqa: S314 - our own
    assert f"hwperf.{visible(HOSTILE)} against old.comparison.latency_p50" in found


def test_text_that_can_be_shown_stays_as_it_is() -> None:
    text = "tests/test_é.py::test[日本-8] ×2.3 µs 🙂"
    assert {text} == {visible(text), visible_lines(text), visible_json(text.encode()).decode()}
    assert "a\\x1b\\r\nb" == visible_lines("a\x1b\r\nb")
    assert explain(fake.comparison_verdict("latency", "p50", "regressed", reason="x")).startswith("REGRESSED")
