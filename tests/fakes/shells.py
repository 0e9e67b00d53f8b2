"""Commands as a user types them, in a shell whose programs are those of this Python.

The settings of the environment only shorten the runs: one real pair of processes instead of fifteen
(`fakes.repeated_pairs`), short sampling, one scenario.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

SHORTER = (
    "-phwperf -pfakes.repeated_pairs {} --hwperf-sample-time=0.1 --hwperf-alpha=20% --hwperf-energy=off "
    "--hwperf-explain=never -k 'not onnx'"
)
EQUAL = "-pfakes.instant_pairs"  # where no timing of the pairs is shown, they find both sides equal at once


def type_in(folder: Path, command: str, ended: int, shown: str, pairs: str) -> None:
    """Run a command in a folder; it has to end with an exit code, and to show something."""
    programs = folder.with_name("programs")
    if not programs.exists():
        make_programs(programs)
    modules = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    # Without byte code each side of a gate would compile all that it imports.
    dropped = ("PYTEST_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    settings = {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": modules,
        "PYTEST_ADDOPTS": SHORTER.format(pairs),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
        **{f"GIT_{who}_{what}": "tests@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=kept | settings, capture_output=True, text=True, check=False
    )
    assert ended == done.returncode, f"{command}\n{done.stdout}{done.stderr}"
    assert shown in done.stdout, f"{command}\n{done.stdout}"


def words_of(command: str) -> list[str]:
    """Return the words into which bash splits a command that is typed as it stands."""
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return [os.fsdecode(word) for word in printed.stdout.split(b"\0")[:-1]]


def make_programs(folder: Path) -> None:
    """Make programs of the names that an installation gives; where the tests run it may lie elsewhere."""
    folder.mkdir()
    for name, arguments in {"python": "", "pytest": "-m pytest", "hwperf": "-m pytest_hwperf.cli"}.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
