"""What is said of the log of a process that was lost."""

import subprocess
import sys
from pathlib import Path

from pytest_hwperf.host.launch import Launched


def test_the_end_of_an_endless_log_is_quoted(tmp_path: Path) -> None:
    """A process may write gigabytes: only the end is read."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 36)
        file.seek(0, 2)
        file.write(b"\n" + b"\n".join(b"line %d" % n for n in range(20)))
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        tail = Launched(process=process, log=log).log_tail()

    assert ["The end of its log:", *(f"  line {n}" for n in range(8, 20))] == tail.splitlines()
