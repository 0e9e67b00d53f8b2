"""The description of a machine, from a fake /proc and /sys."""

import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_hwperf.host import machine
from pytest_hwperf.records.run import Machine

CPUINFO = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
cpu MHz\t\t: {mhz}

processor\t: 1
model name\t: AMD EPYC
"""


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def versions(installed: Mapping[str, str]) -> Any:
    """Look versions up as the metadata would."""

    def version_of(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    return version_of


def described(root: Path, environment: Mapping[str, str] | None = None) -> Machine:
    return machine.describe_machine(
        root,
        environment or {},
        usable=lambda: 8,
        memory=lambda: 24_607_412 * 1024,
        version_of=versions({"numpy": "2.1.0", "pytest": "9"}),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/cpuinfo", CPUINFO.format(mhz="2596.142"))
    return tmp_path


def test_a_machine_is_described_by_its_stable_facts(root: Path) -> None:
    """24607412 kB of 1024 bytes are 25.2 × 10^9 bytes."""
    seen = described(root, {"OMP_NUM_THREADS": "1", "HOME": "/root"})
    assert ("AMD EPYC (family 25 model 17)", 8, 25) == (seen.cpu_model, seen.cores, seen.memory_gb)
    assert ({"numpy": "2.1.0"}, {"OMP_NUM_THREADS": "1"}) == (seen.libraries, seen.threads)


def test_the_clock_rate_is_no_part_of_it(root: Path) -> None:
    """The same machine has the same fingerprint whatever it is doing."""
    before = described(root).fingerprint
    write(root, "proc/cpuinfo", CPUINFO.format(mhz="3400.000"))
    assert before == described(root).fingerprint


def test_one_name_of_two_generations_is_two_machines(root: Path) -> None:
    """Clouds call several generations `AMD EPYC`."""
    before = described(root)
    write(root, "proc/cpuinfo", CPUINFO.format(mhz="2596.142").replace("model\t\t: 17", "model\t\t: 1"))
    assert before.fingerprint != described(root).fingerprint


def test_without_a_name_the_architecture_serves(root: Path) -> None:
    """ARM servers name no model, and other systems have no such file."""
    assert "ARMv8" == machine.name_processor({"model name": "ARMv8"})
    write(root, "proc/cpuinfo", "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 85\n")
    nameless = described(root)
    (root / "proc/cpuinfo").unlink()
    assert nameless.architecture == nameless.cpu_model == described(root).cpu_model


QUOTAS: dict[str, tuple[str, dict[str, str], int]] = {
    "no quota files": ("0::/\n", {}, 8),
    "v2 without a limit": ("0::/\n", {"cpu.max": "max 100000"}, 8),
    "v2: two cores": ("0::/\n", {"cpu.max": "200000 100000"}, 2),
    "v2: part of a core counts as one": ("0::/\n", {"cpu.max": "150000 100000"}, 2),
    "v2: never none": ("0::/\n", {"cpu.max": "1000 100000"}, 1),
    "v2: more than the affinity": ("0::/\n", {"cpu.max": "6400000 100000"}, 8),
    "v2: a group above": ("0::/a.slice/b\n", {"a.slice/cpu.max": "300000 100000"}, 3),
    "v2: the tightest": ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "500000 100000"}, 3),
    "hybrid": ("0::/\n", {"unified/cpu.max": "400000 100000"}, 4),
    "v1: the container's own top": (
        "3:cpu,cpuacct:/docker/f00\n0::/\n",
        {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
        3,
    ),
    "v1: a group": ("3:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "50000", "cpu/x/cpu.cfs_period_us": "10000"}, 5),
    "v1: no limit": ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    "another controller": ("4:memory:/x\n", {"memory/x/cpu.max": "100000 100000"}, 8),
    "no membership: not Linux": ("", {"cpu.max": "100000 100000"}, 8),
}


def test_cores_are_those_that_affinity_and_quota_leave(tmp_path: Path) -> None:
    """Of 8 by affinity."""
    for name, (membership, files, cores) in QUOTAS.items():
        write(tmp_path / name, "proc/self/cgroup", membership)
        for file, text in files.items():
            write(tmp_path / name, f"sys/fs/cgroup/{file}", f"{text}\n")
        assert (name, cores) == (name, described(tmp_path / name).cores)


def test_memory_is_that_of_the_machine() -> None:
    """In 10^9 bytes, not what is free now."""
    assert machine.describe_machine().memory_gb == round(psutil.virtual_memory().total / 1e9)


def test_this_machine_is_described_twice_alike_and_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process would be started with is taken away."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    once, again = machine.describe_machine(), machine.describe_machine()
    assert once.fingerprint == again.fingerprint
    assert once.cores >= 1
    assert "numpy" in once.libraries


def test_products_of_bytes_saturate_on_x86_without_vnni() -> None:
    """Or where nothing tells that it has any."""
    rows = [("sse2 avx2", "x86_64"), ("", "AMD64"), ("avx512f avx512_vnni", "x86_64"), ("avx2 avx_vnni", "AMD64")]
    rows += [("", "aarch64")]
    assert rows[:2] == [(flags, its) for flags, its in rows if machine.saturates_bytes({"flags": flags}, its)]
