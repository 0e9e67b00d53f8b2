"""`hwperf doctor`: what can be measured on this machine, what makes it noisy, and what to do about either."""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_hwperf import registry
from pytest_hwperf.cli.doctor.abilities import ESTIMATE, KNOWN_SOURCES
from pytest_hwperf.cli.doctor.findings import ABILITIES, Place, examine, plain, render
from pytest_hwperf.cli.doctor.layout import fitting
from pytest_hwperf.cli.doctor.noise import Noise, pair_for, read_noise
from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.host.interference import snapshot
from pytest_hwperf.host.machine import control_groups

if TYPE_CHECKING:
    from pytest_hwperf.pairs.conductor import Progress

OK, MISSING = 0, 1
_AN_HOUR_S = 3600.0


def add_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
        "--seconds", type=float, default=20.0, metavar="N", help="for the noise reading, 0 for none; default: 20"
    )
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace, place: Place | None = None, listen: Callable[[float], Noise] | None = None) -> int:
    """Examine, print what was found, and return the exit code.

    Args:
        options: of the command line.
        place: the machine to look at, this one where None.
        listen: reads the noise for so many seconds; where None, by equal processes in pairs.

    Raises:
        UsageProblem: an ability that nobody knows, or no such number of seconds.
    """
    required = parse_required(options.require)
    if not 0 <= options.seconds <= _AN_HOUR_S:
        raise UsageProblem(f"--seconds={options.seconds:g}: a number from 0 up to an hour, such as 20")
    found = examine(place or Place())
    if options.seconds:
        found = replace(found, noise=(listen or _listen)(options.seconds))
    if options.json:
        print(json.dumps(plain(found, required), indent=1, allow_nan=False))
    else:
        print("\n".join(render(found, fitting(shutil.get_terminal_size().columns))))
    missing = [name for name in required if not found.abilities[name]]
    if missing:
        print(f"hwperf: required and missing here: {', '.join(missing)}", file=sys.stderr)
    return MISSING if missing else OK


def parse_required(given: Sequence[str], registered: Collection[str] | None = None) -> list[str]:
    """Return the abilities named by --require, each once.

    Raises:
        UsageProblem: one that nobody knows; says which there are.
    """
    sources = registry.names("energy_meters") if registered is None else registered
    allowed = list(dict.fromkeys([*ABILITIES, *KNOWN_SOURCES, *sources, ESTIMATE]))
    names = list(dict.fromkeys(name.strip() for words in given for name in words.split(",")))
    for name in names:
        if name not in allowed:
            hint = nearest(name, allowed)
            raise UsageProblem(f"--require={name}: unknown ability {name!r}.{hint} Allowed: {', '.join(allowed)}")
    return names


def _listen(seconds: float) -> Noise:
    noise = read_noise(pair_for(seconds, _tell), partial(snapshot, groups=tuple(control_groups())))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return noise


def _tell(progress: "Progress") -> None:
    """Show that something is going on, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[Kequal processes take turns: {progress.stage}", end="", file=sys.stderr, flush=True)
