"""`hwperf doctor`: what can be measured on this machine, what makes it noisy, and what to do about either."""

import argparse
import json
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from pytest_hwperf import registry
from pytest_hwperf.cli.doctor.abilities import ESTIMATE, KNOWN_SOURCES
from pytest_hwperf.cli.doctor.findings import ABILITIES, Probes, collect_findings, plain_data
from pytest_hwperf.cli.doctor.noise import Noise, pair_for, read_noise
from pytest_hwperf.cli.doctor.text import fitting_width, render
from pytest_hwperf.cli.output import complain, say_lines
from pytest_hwperf.cli.progress import ProgressLine, clear_progress
from pytest_hwperf.core.budgets import nearest_or_all
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.host.control_groups import control_groups
from pytest_hwperf.host.interference import snapshot

OK, MISSING = 0, 1
_AN_HOUR_S = 3600.0


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    doctor = commands.add_parser(
        "doctor",
        help="what can be measured on this machine, and what makes it noisy",
        description="Look for energy counters, memory peaks, clocks and everything that disturbs timings; then let "
        "equal processes take turns, to see how noisy this machine is now. Exit code 1: an ability named by "
        "--require is missing.",
    )
    doctor.add_argument("--json", action="store_true", help="the same facts as plain data")
    doctor.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="ABILITY,…",
        help="energy (measured, not the estimate), memory, cpu, clock, or a source of energy such as rapl; repeatable",
    )
    doctor.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        metavar="N",
        help="for the noise reading; 0 skips it and the speed of numpy; default: 20",
    )
    doctor.set_defaults(run=run)


def run(
    options: argparse.Namespace, probes: Probes | None = None, noise: Callable[[float], Noise] | None = None
) -> int:
    """Examine the machine, print the findings, and return the exit code; `noise` is read for so many seconds."""
    required = parse_required(options.require)
    if not 0 <= options.seconds <= _AN_HOUR_S:
        raise UsageProblem(f"--seconds={options.seconds:g}: a number from 0 up to an hour, such as 20")
    probes = probes or Probes()
    found = collect_findings(probes)
    if options.seconds:
        found = replace(found, peaks=probes.peaks(found.machine), noise=(noise or _noise)(options.seconds))
    if options.json:
        say_lines(json.dumps(plain_data(found, required), indent=1, allow_nan=False))  # which escapes all but ASCII
    else:
        say_lines("\n".join(render(found, fitting_width(shutil.get_terminal_size().columns))))
    missing = [name for name in required if not found.abilities[name]]
    if missing:
        complain(f"required and missing here: {', '.join(missing)}")
    return MISSING if missing else OK


def parse_required(given: Sequence[str], registered: Collection[str] | None = None) -> list[str]:
    """Return the abilities named by --require, each once."""
    sources = registry.names("energy_meters") if registered is None else registered
    allowed = list(dict.fromkeys([*ABILITIES, *KNOWN_SOURCES, *sources, ESTIMATE]))
    names = list(dict.fromkeys(name.strip() for words in given for name in words.split(",")))
    for name in names:
        if name not in allowed:
            raise UsageProblem(f"--require={name}: unknown ability {name!r}.{nearest_or_all(name, allowed)}")
    return names


def _noise(seconds: float) -> Noise:
    line = ProgressLine()
    pairs = pair_for(seconds, lambda progress: line.show(f"equal processes take turns: {progress.stage}"))
    noise = read_noise(pairs, partial(snapshot, groups=tuple(control_groups())))
    clear_progress()
    return noise
