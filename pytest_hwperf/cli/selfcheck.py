"""`hwperf selfcheck`: the user's own tests compared with themselves, without and with planted work."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from pytest_hwperf.checkout.revision import top_of
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.doctor_noise import CHANGES, pairs_for
from pytest_hwperf.cli.inputs import run_pytest
from pytest_hwperf.cli.output import FAILED, OK, say
from pytest_hwperf.host.files import read_file, replace_file
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, UsageProblem
from pytest_hwperf.records.evidence import Stage
from pytest_hwperf.records.false_alarms import parse_rate
from pytest_hwperf.records.markers import parse_size
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.units import counted, show, show_share
from pytest_hwperf.stats.figures.exact import share_interval
from pytest_hwperf.stats.pairs.sequence import SHARES

_LARGEST = 50_000_000  # bytes of a record


class Build(Record, frozen=True, kw_only=True):
    """One build of the self-check."""

    alpha: float  # stated rate of false alarms
    planted: float  # share of work added to the candidate, 0.0 for none
    questions: int  # paired comparisons of latency
    alarms: int  # of them called regressed
    tests: tuple[str, ...]  # that raised one


class BuildRecord(Record, frozen=True, kw_only=True):
    """All builds on one machine, as they are stored."""

    written: str  # ISO 8601, UTC
    builds: tuple[Build, ...]


def run(options: argparse.Namespace) -> int:
    """Run the builds one after the other, add them to the record, and print the rates of all of them."""
    from platformdirs import user_data_dir

    if options.builds < 0 or options.planted < 0 or not options.builds + options.planted:
        raise UsageProblem("hwperf selfcheck: --builds and --planted are numbers from 0 on, not both 0")
    alpha = parse_rate("--alpha", options.alpha)
    try:
        work = parse_size(options.work, "relative")
    except UsageProblem as problem:
        raise UsageProblem(f"--work={options.work!r}: work is a percentage of the call, such as 5%") from problem
    reports, builds = list[Report](), list[Build]()
    for number, share in enumerate([0.0] * options.builds + [work] * options.planted, start=1):
        # the share also where nothing is planted: an ini file may plant some
        plan = [f"--hwperf-against={tree()}", f"--hwperf-alpha={options.alpha}", f"--hwperf-plant={100 * share:g}%"]
        plan += [f"--hwperf-parallel={options.parallel}", "-o", "hwperf_affected=false"]  # equal code affects no test
        report = run_pytest([*plan, *options.pytest]).needed()
        build = build_of(report, share, alpha)
        reports.append(report)
        builds.append(build)
        what = f"{show_share(share)} work planted" if share else "equal code"
        say(f"build {number}, {what}: {build.alarms} of {counted(build.questions, 'test')} regressed")
    record = Path(user_data_dir("pytest-hwperf"), "selfcheck", f"{reports[0].machine.fingerprint}.json")
    known = [] if options.forget else read_record(record)
    write_record(record, [*known, *builds])
    lines, too_many = render([*known, *builds], alpha)
    for line in [*lines, *needed(reports, alpha), f"record of this machine: {record}"]:
        say(line)
    return FAILED if too_many else OK


def build_of(report: Report, share: float, alpha: float) -> Build:
    """Count the alarms of the paired latencies in a report."""
    if not report.gates:
        raise UsageProblem("no pairs were run: hwperf selfcheck needs tests that are measured")
    found = [
        (judgement.run.test, comparison)
        for judgement in report.judgements
        for comparison in judgement.comparisons
        if comparison.key == MEDIAN_LATENCY and comparison.change is not None
    ]
    alarms = [test for test, comparison in found if comparison.outcome == "regressed"]
    return Build(alpha=alpha, planted=share, questions=len(found), alarms=len(alarms), tests=tuple(alarms))


def render(builds: Sequence[Build], alpha: float) -> tuple[list[str], bool]:
    """Describe all builds on this machine; return also whether there were surely too many false alarms."""
    lines, too_many = list[str](), False
    builds = [build for build in builds if build.alpha == alpha]
    equal = [build for build in builds if not build.planted]
    if equal:
        red = sum(build.alarms > 0 for build in equal)
        low, high = share_interval(red, len(equal), 0.95)
        lines.append(
            f"equal code: {counted(red, 'false alarm')} in {counted(len(equal), 'build')} "
            f"({show_share(low, 1)} .. {show_share(high, 1)}, Clopper-Pearson 95 %), stated {show_share(alpha, 1)}"
        )
        too_many = low > alpha
        if too_many:
            lines.append("more false alarms than stated: the margin or the machine is at fault; see docs/gate.md")
    for share in sorted({build.planted for build in builds if build.planted}):
        chosen = [build for build in builds if build.planted == share]
        asked, found = sum(build.questions for build in chosen), sum(build.alarms for build in chosen)
        low, high = share_interval(found, asked, 0.95) if asked else (0.0, 1.0)
        lines.append(
            f"{show_share(share)} work planted: found in {found} of {counted(asked, 'test')} "
            f"({show_share(low, 1)} .. {show_share(high, 1)}, Clopper-Pearson 95 %)"
        )
    return lines, too_many


def needed(reports: Sequence[Report], alpha: float) -> list[str]:
    """Describe how many pairs a change takes here, by the noise of the builds just run."""
    lines, values = list[str](), dict[str, list[float]]()
    gates = [gate for report in reports for gate in report.gates]
    pairs = [pair for gate in gates for pair in gate.evidence.pairs]
    for one in (one for pair in pairs for one in pair.observations):
        if one.key[1:] == MEDIAN_LATENCY and one.change is not None:
            values.setdefault(one.measurement.test, []).append(one.change)
    for test, changes in values.items():
        needs = [pairs_for(change, changes, SHARES[0] * alpha) for change in CHANGES]
        counts = ", ".join(f"{show_share(need.change)}: {need.pairs or need.reason}" for need in needs)
        lines.append(f"pairs that a change needs ({test}): {counts}")
    # What pairs side by side save is held against what they cost.
    spent_s = sum(gate.seconds.get(stage, 0.0) for gate in gates for stage in get_args(Stage) if stage != "rehearsal")
    if ran := sum(pair.stage != "rehearsal" for pair in pairs):
        lines.append(f"a pair{gates[0].beside} took {show(spent_s / ran, 's')}, in the mean of {counted(ran, 'pair')}")
    return lines


def read_record(path: Path) -> list[Build]:
    """Read the builds of earlier checks."""
    if not path.exists():
        return []
    try:
        return [*from_json(BuildRecord, read_file(path, _LARGEST)).builds]
    except (OSError, SerialisationError) as error:
        raise UsageProblem(f"{path} is no record of hwperf selfcheck: start over with --forget ({error})") from error


def write_record(path: Path, builds: Sequence[Build]) -> None:
    """Replace the record atomically."""
    written = datetime.now(UTC).isoformat(timespec="seconds")
    replace_file(path, to_json(BuildRecord(written=written, builds=tuple(builds))) + b"\n")


def tree() -> Path:
    """Return the root of the work tree here; without one, this folder."""
    try:
        return top_of(Path.cwd())
    except UsageProblem:
        return Path.cwd()


_ARGUMENTS = (
    arg.option("--builds", "N", "run this many builds with equal code", type=int, default=5),
    arg.option("--planted", "N", "run this many builds with planted work", type=int, default=2),
    arg.option("--work", "PERCENT", "plant this much work", default="5%"),
    arg.option("--alpha", "PERCENT", "check the gate at this rate of false alarms", default="1%"),
    arg.option("--parallel", "N", "run this many pairs side by side", default="1"),
    arg.flag("--forget", "forget earlier builds of this machine"),
    arg.option("pytest", "PYTEST_ARGUMENT", "pass tests and options to pytest, after --", nargs="*"),
)
COMMAND = arg.Subcommand(
    "selfcheck",
    run,
    "measure false alarms and detection on your tests and machine",
    _ARGUMENTS,
    "Compare your tests with a copy of themselves, first equal, then with planted work. Equal builds show false "
    "alarms of the median latency, planted ones detection. Builds of one machine and --alpha add up.",
    answers={0: "false alarms are not significantly too frequent", 1: "false alarms are significantly more frequent"},
)
