"""What the example project has to show; that its gate can fail is in `test_readme_commands.py`.

tox runs it after the README's first command, on the report of that run: `python tests/example_checks.py REPORT.json`.
It ends with exit code 1 and a sentence for each thing that is not so. Standard library only.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCENARIOS = ("sklearn_fp32", "onnx_fp32", "onnx_int8")
NO_INT8 = ("tests/test_forest.py", "onnx_int8")
NO_FORM = "no int8 form"  # the kind of its cause
# metric and statistic → the fewest that it may be made of: calls or batches, examples, fresh processes, files
FIGURES = {("latency", "p50"): 20, ("latency", "p95"): 20, ("accuracy", "mean"): 540, ("model_size", "p50"): 1}
MEMORY_MEASURED = {("memory", "p50"): 3}
SERVED = "tests/test_served.py::test_requests"
FILES = {
    "tests/test_mlp.py": {**FIGURES, **MEMORY_MEASURED},
    "tests/test_logistic.py": FIGURES,
    "tests/test_forest.py": FIGURES,
}


def untrue(report: dict[str, Any]) -> list[str]:
    """Say what a run of the example did not measure: each model in three scenarios, but for the forest in INT8."""
    wanted = [(file, scenario) for file in FILES for scenario in SCENARIOS if (file, scenario) != NO_INT8]
    found = [said for file, scenario in wanted for said in _unmeasured(report, file, scenario)]
    skips = [(skip["test"].partition("::")[0], skip["scenario"]) for skip in report["skips"]]
    if skips != [NO_INT8]:
        found.append(f"skipped are {skips}, and not only the forest's INT8")
    found += _unserved(report)
    found += [f"skipped for another reason: {skip}" for skip in report["skips"] if skip["cause"]["kind"] != NO_FORM]
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


def _unserved(report: dict[str, Any]) -> Iterator[str]:
    """Say what is wrong with the load on the service; it is skipped where FastAPI is not installed."""
    for one in report["judgements"]:
        if one["run"]["test"] == SERVED:
            if not one["run"]["conditions"]["load"].startswith("server qps="):
                yield f"{SERVED} was measured without its load"
            judged = {verdict["subject"]["keyword"] for verdict in one["verdicts"] if "keyword" in verdict["subject"]}
            if not {"latency_p95_ms", "goodput_min_qps"} <= judged:
                yield f"{SERVED} has budgets on {sorted(judged)} only"


def main(report: str) -> int:
    """Say what is untrue; return 1 where anything is."""
    found = untrue(json.loads(Path(report).read_text(encoding="utf-8"))["report"])
    for line in found:
        sys.stderr.write(f"{line}\n")
    if not found:
        sys.stdout.write("the example: three scenarios measured, the forest's INT8 skipped\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
