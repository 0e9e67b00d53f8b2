"""The command `hwperf`, for what is done outside a pytest run."""

import argparse
import sys
from collections.abc import Sequence

from pytest_hwperf import __version__
from pytest_hwperf.cli.progress import clear_progress
from pytest_hwperf.core.errors import HwperfError

USAGE = 4  # pytest's own exit code; 0 and 1 are as in pytest too
INTERRUPTED = 130  # Ctrl-C, as in shells


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, the same numbers as pytest's, or 130 after Ctrl-C."""
    try:
        options = _parser().parse_args(arguments)
        return int(options.run(options))
    except HwperfError as error:
        print(f"hwperf: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        clear_progress()
        print("hwperf: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    from pytest_hwperf.cli import baseline, calibrate, compare, recompute, selfcheck
    from pytest_hwperf.cli.doctor import command as doctor

    parser = argparse.ArgumentParser(prog="hwperf", description="What pytest-hwperf does outside a pytest run.")
    parser.add_argument("--version", action="version", version=f"pytest-hwperf {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (baseline, recompute, compare, selfcheck, doctor, calibrate):
        command.add_command(commands)
    return parser
