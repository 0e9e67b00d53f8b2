"""What children of this process have used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_hwperf.host.clocks import cpu_seconds_of_living, touched_by_children

_TAKES = "kept = bytearray(b'1') * (32 << 20)\nfor _ in range(10**6): pass\nprint(flush=True)\ninput()"


def test_memory_and_cpu_time_of_a_child_are_seen_while_it_lives_and_its_memory_afterwards() -> None:
    before, idle_s = touched_by_children(), cpu_seconds_of_living()
    with subprocess.Popen([sys.executable, "-c", _TAKES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = touched_by_children() - before
        assert cpu_seconds_of_living() > idle_s
        child.communicate(b"\n")
    assert alive > 2 << 20  # a huge page costs one fault
    assert touched_by_children() - before >= alive


def test_descendants_count_whatever_their_names_are(tmp_path: Path) -> None:
    """A child with 100 faults and 2 ticks, and its own with 10 and 30 ticks; the last one has ended meanwhile."""
    for process, name, faults, ticks, children in (("7", "a) R 1 (b", 100, 2, "8 9"), ("8", "c", 10, 30, "")):
        (tmp_path / process / "task" / process).mkdir(parents=True)
        (tmp_path / process / "task" / process / "children").write_text(children)
        fields = ["S", *["0"] * 6, str(faults), "0", "0", "0", str(ticks), "0", "0", "0"]
        (tmp_path / process / "stat").write_text(f"{process} ({name}) {' '.join(fields)}\n")
    (tmp_path / "self" / "task" / "1").mkdir(parents=True)
    (tmp_path / "self" / "task" / "1" / "children").write_text("7")
    assert 32 / os.sysconf("SC_CLK_TCK") == pytest.approx(cpu_seconds_of_living(tmp_path))
