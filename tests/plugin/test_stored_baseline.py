"""`--hwperf-save` and `--hwperf-compare`: what is caught, what is said aloud, and what is never saved."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.repositories import commit, git
from fakes.reruns import SIMULATED

HWPERF = (sys.executable, "-m", "pytest_hwperf.cli")
QUICK = ("--hwperf-sample-time=0.4", "--hwperf-energy=off", *SIMULATED)

# `work` takes as long as asked; labels are right in as many of 1000 rows as asked.
MODEL = """
from fakes.simulated_time import spend

def work():
    spend({call_us})

def predict(rows):
    spend(300)
    return [row if row < {right} else -1 for row in rows]
"""
TESTS = """
from model import predict, work

def test_speed(hwperf):
    hwperf(work)

def test_accuracy(hwperf):
    rows = list(range(1000))
    hwperf(predict, rows, y_true=rows)
"""

pytestmark = pytest.mark.usefixtures("fakes_in_reach")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a saved baseline."""
    write(pytester)
    pytester.makepyfile(test_model=TESTS)
    run(pytester, "--hwperf-save").assert_outcomes(passed=2)
    return pytester


def write(pytester: pytest.Pytester, *, call_us: float = 250, right: int = 960) -> None:
    pytester.makepyfile(model=MODEL.format(call_us=call_us, right=right))


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*QUICK, "-p", "no:cacheprovider", *options)


def files(pytester: pytest.Pytester) -> list[Path]:
    return sorted((pytester.path / ".hwperf").rglob("test_*.jsonl"))


def stored(path: Path) -> list[Any]:
    """Return the stored runs of a file; its first line says what it is."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]


@pytest.mark.live
def test_sessions_add_up_from_a_first_one_without_a_baseline_on(pytester: pytest.Pytester) -> None:
    """Unchanged code passes, and it is said what could have been caught."""
    write(pytester)
    pytester.makepyfile(test_model=TESTS)
    first = run(pytester, "--hwperf-compare")
    run(pytester, "--hwperf-save").assert_outcomes(passed=2)
    second = run(pytester, "--hwperf-compare", "--hwperf-save", "-v")
    strict = run(pytester, "--hwperf-compare", "--hwperf-strict")
    first.assert_outcomes(passed=2)
    first.stdout.fnmatch_lines(
        [
            "*2 tests have no baseline*: save one with pytest --hwperf-save",
            "comparisons: 3 no baseline*",
        ]
    )
    second.assert_outcomes(passed=2)
    second.stdout.re_match_lines(
        [
            r"hwperf: comparing with and saving to baseline main in",
            r"hwperf: machine [0-9a-f]{16} ",
            r".*historical; false-alarm rate not guaranteed: limit \+\d+\.\d.*",
            r"hwperf: 2 runs saved to baseline main in ",
        ]
    )
    strict.assert_outcomes(failed=2)
    strict.stdout.fnmatch_lines(["latency p50 *; inconclusive"])
    assert [len(stored(path)) for path in files(pytester)] == [2, 2]


def test_a_baseline_of_nothing_is_said_to_be_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = run(pytester, "--hwperf-save")
    result.stdout.fnmatch_lines(["hwperf: nothing was measured: nothing was saved or compared"])


CHANGING = f"""{MODEL}
import random

ROUGE = {{rouge}}

def unseeded(rows, right={{least}} + random.SystemRandom().randrange(300)):
    spend(300)
    return [row if row < right else -1 for row in rows]
"""
MORE = """
from model import unseeded

def test_unseeded(hwperf):
    rows = list(range(1000))
    hwperf(unseeded, rows, y_true=rows)

def test_steady(hwperf):
    hwperf(predict, [1])
"""


@pytest.mark.live
def test_what_is_worse_in_two_further_processes_fails_alone_and_becomes_no_baseline_until_it_is_accepted(
    pytester: pytest.Pytester,
) -> None:
    """One stored run is enough. A regressed run that were saved would hide the regression from the next one.

    50 of 1000 rows are newly wrong and none is newly right: McNemar's p is 2^-50. A model that is trained without a
    seed is worse in every process, which more stored runs could tell from chance: its run is held, and nothing fails.
    """
    own = "hwperf.record('rouge_l', model.ROUGE, better='higher', margin='5%')"
    pytester.makepyfile(test_model=f"import model\n{TESTS.replace('(work)', f'(work); {own}')}{MORE}")
    pytester.makepyfile(model=CHANGING.format(call_us=250, right=960, least=650, rouge=0.6))
    run(pytester, "--hwperf-save").assert_outcomes(passed=4)
    pytester.makepyfile(model=CHANGING.format(call_us=750, right=910, least=10, rouge=0.1))
    worse = run(pytester, "--hwperf-compare", "--hwperf-save", "--junitxml=junit.xml")
    worse.assert_outcomes(passed=2, failed=2)
    worse.stdout.re_match_lines([r"latency p50 ×\d+\.\d ", r"  .*historical; false-alarm rate not guaranteed.*"])
    worse.stdout.re_match_lines([r"accuracy -5\.00 pp ", r"  p=8\.9e-16"])
    worse.stdout.re_match_lines([r"rouge_l -83\.3 % .*"])  # in its own direction, by its own margin
    worse.stdout.re_match_lines([r"FAILED test_model.py::test_speed - latency p50 ×"])
    command = "hwperf baseline accept --baseline main --store json:/*"
    worse.stdout.fnmatch_lines(["*1 run saved*", f"*3 runs not saved to the baseline: failed, or perhaps *: {command}"])
    assert '<failure message="latency p50 ×' in (pytester.path / "junit.xml").read_text(encoding="utf-8")
    counts = {"speed": 1, "accuracy": 1, "unseeded": 1, "steady": 2}
    kept = {one.name: len(stored(one)) for one in files(pytester) if ".held" not in one.parts}
    assert counts == {name: sum(kept[file] for file in kept if name in file) for name in counts}

    accepted = pytester.run(*HWPERF, "baseline", "accept", "test_model.py::test_speed")
    again = run(pytester, "--hwperf-compare", "-k", "speed")
    assert accepted.ret == 0
    accepted.stdout.fnmatch_lines(["accepted as baseline main: test_model.py::test_speed"])
    again.assert_outcomes(passed=1)


@pytest.mark.live
def test_another_name_other_data_and_another_machine_are_not_comparable(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracy on other rows is another quantity, and thread settings are part of a machine: each is named."""
    project.makepyfile(test_model=TESTS.replace("test_speed", "test_renamed").replace("range(1000)", "range(900)"))
    other = run(project, "--hwperf-compare")
    project.makepyfile(test_model=TESTS)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    elsewhere = run(project, "--hwperf-compare")
    other.assert_outcomes(passed=2)
    other.stdout.re_match_lines([r".*no baseline.*", r"comparisons: .*1 no baseline"])
    other.stdout.re_match_lines([r".*batch_size: 1000, 900; data: [0-9a-f]{16}, [0-9a-f]{16} \(baseline, now\).*"])
    elsewhere.assert_outcomes(passed=2)
    elsewhere.stdout.fnmatch_lines(["*other versions or settings (OMP_NUM_THREADS: absent, 7; baseline, now)*"])
    elsewhere.stdout.fnmatch_lines(["*none of 3 comparisons could be made: *", "*; --hwperf-strict fails them"])


def test_only_what_the_process_has_loaded_voids_a_baseline(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing loads three that come, go or change; numpy is loaded, and of another version than the installed one."""
    installed: list[tuple[str, dict[str, str]]] = [
        ("--hwperf-save", {"ai-edge-litert": "1.0", "openvino": "1.0"}),
        ("--hwperf-compare", {"ai-edge-litert": "2.0", "lightgbm": "9.9"}),
        ("--hwperf-compare", {"ai-edge-litert": "1.0", "openvino": "1.0", "numpy": "9.9"}),
    ]
    write(pytester)
    pytester.makepyfile(test_model=TESTS)
    results = []
    for number, (option, versions) in enumerate(installed):
        folder = pytester.path / f"installed-{number}"
        for name, version in versions.items():
            metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
            metadata.parent.mkdir(parents=True)
            metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            results.append(run(pytester, option))
    for result in results:
        result.assert_outcomes(passed=2)
    results[1].stdout.fnmatch_lines(["comparisons: 1 equivalent, 2 inconclusive*"])
    results[2].stdout.fnmatch_lines(["*other versions or settings (numpy: *, 9.9; baseline, now)*"])


@pytest.mark.parametrize("count", [2, 7])
def test_each_held_run_is_offered_and_all_at_once(pytester: pytest.Pytester, count: int) -> None:
    """Up to five tests have a line of their own, which can be typed as it stands."""
    write(pytester)
    head = "import pytest\nfrom model import work\n\npytestmark = pytest.mark.hwbudget(latency_p50_ms=1e-9)\n"
    test = "\n\ndef test_{}(hwperf):\n    hwperf(work)\n"
    pytester.makepyfile(test_held=head + "".join(test.format(number) for number in range(count)))
    result = run(pytester, "--hwperf-save")

    command = f"hwperf baseline accept --baseline main --store json:{pytester.path}/.hwperf"
    singles = [f"{command} test_held.py::test_{number}" for number in range(min(count, 5))]
    lines = [line for line in result.outlines if command in line]
    assert (
        f"{count} runs not saved to the baseline: failed, or perhaps worse. Where this is the new normal: {singles[0]}"
        in lines[0]
    )
    assert [f"hwperf: {line}" for line in singles[1:]] == lines[1:-1]
    assert f"hwperf: for every run that waits there: {command} '*'" == lines[-1]


@pytest.mark.live
def test_nothing_of_a_test_that_did_not_pass_is_saved(pytester: pytest.Pytester) -> None:
    """A failing teardown is a failed test too, whose run is held."""
    ends = {"fails": "assert False", "xfails": "pytest.xfail('known')", "skips": "pytest.skip('not here')"}
    tests = "".join(
        f"def test_{name}(hwperf):\n    hwperf(lambda: spend(100))\n    {end}\n" for name, end in ends.items()
    )
    broken = "@pytest.fixture\ndef broken():\n    yield\n    raise RuntimeError\n"
    torn = "def test_torn(hwperf, broken): hwperf(lambda: spend(100))\n"
    pytester.makepyfile(f"import pytest\nfrom fakes.simulated_time import spend\n{broken}{tests}{torn}")
    result = run(pytester, "--hwperf-save")
    result.assert_outcomes(failed=1, xfailed=1, skipped=1, passed=1, errors=1)
    result.stdout.fnmatch_lines(["hwperf: 0 runs saved*"])
    (held,) = files(pytester)
    assert held.is_relative_to(pytester.path / ".hwperf" / ".held")
    assert "::test_torn" in held.read_text(encoding="utf-8")


DAMAGES: list[tuple[Callable[[str], str], str]] = [
    (lambda text: text[: len(text) // 2], "cut off"),
    (lambda _: '{"some": "other json"}', "hwperf"),
    (lambda text: re.sub(r'"schema": ?\d+', '"schema":99', text, count=1), "newer"),
    (lambda text: re.sub(r'"n": ?(\d+)', r'"n":9\1', text, count=1), "by hand"),
]


@pytest.mark.live
def test_a_damaged_baseline_ends_the_session_before_anything_is_measured(project: pytest.Pytester) -> None:
    """Truncated, foreign, of a newer version, edited by hand: named, never skipped, never overwritten."""
    path = files(project)[0]
    whole = path.read_text(encoding="utf-8")
    for damage, reported in DAMAGES:
        path.write_text(damage(whole), encoding="utf-8")
        for option in ("--hwperf-compare", "--hwperf-save"):
            result = run(project, option)
            assert result.ret == pytest.ExitCode.USAGE_ERROR
            result.stderr.fnmatch_lines([f"ERROR: *{path.name}*"])
            assert reported in result.stderr.str()
        assert path.read_text(encoding="utf-8") == damage(whole)


def test_a_stored_measurement_that_is_made_no_more_is_named_until_a_later_revision_is_saved(
    pytester: pytest.Pytester,
) -> None:
    """A call was deleted, or all of them; what another test makes, or one that does not run, is not gone."""
    write(pytester)
    tests = "from model import work\ndef test_parts(hwperf):\n    {}\ndef test_lost(hwperf):\n    {}\n"
    kept, label, call = "hwperf(work, label='kept')", "hwperf(work, label='gone')", "hwperf(work)"
    other = "def test_other(hwperf): hwperf(work)\n"
    pytester.makepyfile(test_model=tests.format(f"{kept}; {label}", call) + other)
    git(pytester.path, "init", "--quiet")
    (pytester.path / ".gitignore").write_text("*", encoding="utf-8")
    commit(pytester.path)
    never = ("--hwperf-compare", "-ohwperf_rerun=never", "--deselect=test_model.py::test_other")
    run(pytester, "--hwperf-save")
    pytester.makepyfile(test_model=tests.format(kept, "pass") + other)
    first = run(pytester, *never, "--hwperf-save")
    git(pytester.path, "commit", "--quiet", "--allow-empty", "--message=next")
    run(pytester, "--hwperf-save")
    then = run(pytester, *never)

    warned = "warning: {} not compared: {}"
    lost = "test_model.py::test_lost: only the baseline makes the measurement"
    parts = "test_model.py::test_parts: only the baseline makes the measurement 'gone'"
    for result, said in (
        (first, warned.format("2 stored measurements", f"{parts}; {lost}")),
        (then, warned.format("1 stored measurement", lost)),
    ):
        result.assert_outcomes(passed=2, deselected=1)
        assert said in " ".join(line.strip() for line in result.outlines)


def test_a_baseline_that_is_damaged_meanwhile_fails_its_tests_and_loses_no_report(pytester: pytest.Pytester) -> None:
    """Each says which file, and no traceback; the budgets are judged, and what cannot be compared says so."""
    write(pytester)
    tests = """
        import pathlib, pytest
        from model import work
        @pytest.mark.hwbudget(latency_p50_ms=1000)
        def test_speed(hwperf):
            hwperf(work)
            {}
        """
    pytester.makepyfile(test_model=tests.format(""))
    run(pytester, "--hwperf-save")
    damage = "[one.write_text('{') for one in pathlib.Path('.hwperf').rglob('test_*.jsonl')]"
    pytester.makepyfile(test_model=tests.format(damage))
    result = run(pytester, "--hwperf-compare", "--hwperf-report=report.json")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["budgets: 1 passed; comparisons: 1 not comparable"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*judging.py*")
    assert ".jsonl is not whole JSON: " in (pytester.path / "report.json").read_text(encoding="utf-8")


@pytest.mark.live
def test_an_interrupted_session_keeps_what_is_complete(pytester: pytest.Pytester) -> None:
    """Ctrl-C in the second test: the first is saved, the report says that it is partial."""
    pytester.makepyfile(
        """
        from fakes.simulated_time import spend
        def test_one(hwperf): hwperf(lambda: spend(100))
        def test_two(hwperf): hwperf(lambda: spend(100)); raise KeyboardInterrupt
        """
    )
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-save", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["interrupted: what is shown is complete, but not all tests ran"])
    assert len(files(pytester)) == 1


@pytest.mark.live
def test_a_repeat_that_fails_loses_no_budget(project: pytest.Pytester) -> None:
    """The comparison could not be made, which fails the test; its budget is judged and reported all the same."""
    write(project, call_us=750)
    project.makepyfile(
        test_model="""
        import os, pytest
        from model import work
        if "REPEATED" in os.environ: raise SystemExit("only in the asking session")
        @pytest.mark.hwbudget(latency_p50_ms=0)
        def test_speed(hwperf):
            hwperf(work)
        """
    )
    project.makeconftest("import os\nif 'HWPERF_WORKER' in os.environ: os.environ['REPEATED'] = '1'\n")
    result = run(project, "--hwperf-compare", "--hwperf-report=report.json")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["latency p50 *limit 0 s; *"])
    result.stdout.fnmatch_lines(["*not comparable*"])


def test_a_revision_that_cannot_be_rerun_is_said_when_it_is_saved(pytester: pytest.Pytester) -> None:
    """Not only by the comparison, when it is too late."""
    write(pytester)
    pytester.makepyfile(test_model=TESTS)
    git(pytester.path, "init", "--quiet")
    commit(pytester.path)
    clean = run(pytester, "--hwperf-save")
    write(pytester, call_us=251)
    dirty = run(pytester, "--hwperf-save")

    clean.stdout.no_fnmatch_line("*cannot rerun this revision*")
    reason = "it was saved with changes that were not committed"
    dirty.stdout.fnmatch_lines([f"hwperf: --hwperf-compare cannot rerun this revision, since {reason}, *: commit and*"])
