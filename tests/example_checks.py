"""What the example project has to show, and that its gate can fail.

tox runs it after the README's first command, on the report of that run: `python tests/example_checks.py REPORT.json`.
It ends with exit code 1 and a sentence for each thing that is not so. Standard library only.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

EXAMPLE = Path(__file__).parents[1] / "example_project"
SCENARIOS = ("sklearn_fp32", "onnx_fp32", "onnx_int8")
NO_INT8 = ("tests/test_forest.py", "onnx_int8")
# metric and statistic → the fewest that it may be made of: calls or batches, examples, fresh processes, files
FIGURES = {("latency", "p50"): 20, ("latency", "p95"): 20, ("accuracy", "mean"): 540, ("model_size", "p50"): 1}
MEMORY_MEASURED = {("memory", "p50"): 3}
FILES = {
    "tests/test_mlp.py": {**FIGURES, **MEMORY_MEASURED},
    "tests/test_logistic.py": FIGURES,
    "tests/test_forest.py": FIGURES,
}

QUICK = ("tests/test_pixels.py", "--hwperf-max-time=0.5")
SESSIONS = 3
WORK = "    return X / 16\n"
MORE = "    for _ in range(20):\n        done = X / 16\n    return done\n"
SLOWED = "test_scaling_the_pixels"


def untrue(report: dict[str, Any]) -> list[str]:
    """Say what a run of the example did not measure: each model in three scenarios, but for the forest in INT8."""
    wanted = [(file, scenario) for file in FILES for scenario in SCENARIOS if (file, scenario) != NO_INT8]
    found = [said for file, scenario in wanted for said in _unmeasured(report, file, scenario)]
    skips = [(skip["test"].partition("::")[0], skip["scenario"]) for skip in report["skips"]]
    if skips != [NO_INT8]:
        found.append(f"skipped are {skips}, and not only the forest's INT8")
    causes = [(skip, skip["cause"]["texts"].get("text", "")) for skip in report["skips"]]
    found += [f"skipped without its reason: {skip}" for skip, text in causes if "quantisable" not in text]
    return found


def _unmeasured(report: dict[str, Any], file: str, scenario: str) -> Iterator[str]:
    runs = [
        one
        for one in report["judgements"]
        if one["run"]["test"] == f"{file}::test_one_image[{scenario}]" and one["run"]["scenario"] == scenario
    ]
    if len(runs) != 1:
        yield f"{file} has {len(runs)} runs of {scenario}, not one"
        return
    figures = {(figure["metric"], figure["statistic"]): figure for figure in runs[0]["figures"]}
    for (metric, statistic), fewest in FILES[file].items():
        figure = figures.get((metric, statistic))
        reported = figure and figure["source"] and figure["estimate"]["value"] > 0 and figure["estimate"]["n"] >= fewest
        if not reported:
            yield f"{file} in {scenario}: {metric} {statistic} is no figure of {fewest} or more: {figure}"
    precision = runs[0]["run"]["conditions"]["precision"]
    if ("int8" in scenario) != ("int8" in precision):
        yield f"{file}: {scenario} ran in {precision}"


def unfailed(folder: Path) -> list[str]:
    """Save a baseline of a copy of the example, let it do twenty times the work, and say where the gate is silent.

    No git knows the copy, so that timings are held against the stored runs: of three the median counts, which one
    disturbed session cannot move. Twenty times, since the speed of a shared machine may change twofold in between.
    """
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for _ in range(SESSIONS):
        code, shown = _pytest(folder, "--hwperf-save")
        if code != 0:
            return [f"saving a baseline ended with exit code {code}:\n{shown}"]
    models = folder / "digits_models.py"
    before = models.read_text(encoding="utf-8")
    if before.count(WORK) != 1:
        return [f"{models.name} has no line {WORK.strip()!r} to do twenty times"]
    models.write_text(before.replace(WORK, MORE), encoding="utf-8")
    code, shown = _pytest(folder, "--hwperf-compare", "--junitxml=junit.xml")
    failed = _failures(folder / "junit.xml")
    if code == 1 and re.search(r"^REGRESSED +latency p50 ", failed.get(SLOWED, ""), re.MULTILINE):
        return []
    return [f"twenty times the work ended with exit code {code}, in the JUnit file failed {failed}:\n{shown}"]


def _failures(junit: Path) -> dict[str, str]:
    """Return what each failed test of a JUnit file has to say."""
    if not junit.exists():
        return {}
    cases = ET.parse(junit).iter("testcase")  # noqa: S314 - pytest wrote it a moment ago
    return {case.get("name", ""): failure.text or "" for case in cases for failure in case.findall("failure")}


def _pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest as a user of the example does; return its exit code and what it showed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", *QUICK, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def main(report: str) -> int:
    """Say what is untrue; return 1 where anything is."""
    found = untrue(json.loads(Path(report).read_text(encoding="utf-8"))["report"])
    with tempfile.TemporaryDirectory(prefix="hwperf-example-") as place:
        found += unfailed(Path(place, "example"))
    for line in found:
        sys.stderr.write(f"{line}\n")
    if not found:
        sys.stdout.write(
            "the example: three scenarios measured, the forest's INT8 skipped, twenty times the work found\n"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
