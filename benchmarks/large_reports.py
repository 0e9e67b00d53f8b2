"""Memory and time of each report format of many tests: python -m benchmarks.large_reports [--tests 1250 2500 5000].

The report is made up as benchmarks/html_report.py makes it. Each format is rendered in a process of its own that is
forked beside the report: what it takes is its peak memory minus what the report takes already.
"""

import argparse
import math
import os
import resource
from collections.abc import Callable
from random import Random
from statistics import fmean
from time import perf_counter

from benchmarks.html_report import report_of
from pytest_hwperf.core.codec import from_json
from pytest_hwperf.core.report import Report, ReportFile
from pytest_hwperf.reports import annotations, csv_files, exports, json_file, markdown, terminal
from pytest_hwperf.reports.html import page

FORMATS: dict[str, Callable[[Report], object]] = {
    "terminal, summary": lambda report: terminal.render_summary(report, width=100, color=True),
    "terminal, -vv": lambda report: terminal.render(report, width=100, color=True, detail="verbose"),
    "JSON": json_file.render,
    "JSON, read back": lambda report: from_json(ReportFile, json_file.render(report)),
    "HTML": page.render,
    "Markdown": markdown.render,
    "annotations": lambda report: [*annotations.lines_of(report)],
    "CSV": csv_files.render,
    "bencher": exports.render_bencher,
    "github-action-benchmark": exports.render_action_benchmark,
    "otava": exports.render_otava,
    "pytest-benchmark": exports.render_pytest_benchmark,
}


def main() -> None:
    """Render, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, nargs="+", default=[1250, 2500, 5000])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=8)
    options = parser.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMATS}
    for tests in options.tests:
        report, _ = report_of(tests, options.pairs, options.blocks, Random(1))
        print(f"{tests} tests: the report itself, and all that is loaded, {resident_bytes() / 1e6:.0f} MB", flush=True)
        for name, render in FORMATS.items():
            taken[name].append(apart(render, report))
        del report
    for name, found in taken.items():
        cells = " | ".join(f"{seconds:.2f} s, {size / 1e6:.0f} MB" for seconds, size in found)
        print(f"| {name} | {cells} | {exponent(options.tests, [size for _, size in found]):.2f} |")


def apart(render: Callable[[Report], object], report: Report) -> tuple[float, float]:
    """Return the seconds and the further bytes that rendering takes, in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        before, began = resident_bytes(), perf_counter()
        render(report)
        spent = perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        os.write(writing, f"{spent} {max(0, peak - before)}".encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        seconds, size = answer.read().split()
    return float(seconds), float(size)


def resident_bytes() -> int:
    """Return the memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a line of the kernel
        return int(file.read().split()[1]) * resource.getpagesize()


def exponent(counts: list[int], sizes: list[float]) -> float:
    """Return the slope of logarithms: 1 where memory grows as the tests do."""
    x, y = [math.log(one) for one in counts], [math.log(max(one, 1.0)) for one in sizes]
    spread = sum((one - fmean(x)) ** 2 for one in x)
    return sum((a - fmean(x)) * (b - fmean(y)) for a, b in zip(x, y, strict=True)) / spread if spread else math.nan


if __name__ == "__main__":
    main()
