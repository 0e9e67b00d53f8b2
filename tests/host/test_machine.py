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


@pytest.mark.parametrize(
    ("described", "named"),
    [
        ({"model name": "AMD EPYC", "cpu family": "25", "model": "1"}, "AMD EPYC (family 25 model 1)"),
        ({"model name": "ARMv8"}, "ARMv8"),
        ({"cpu family": "6", "model": "85"}, ""),
        ({}, ""),
    ],
)
def test_a_processor_is_named_with_its_generation(described: dict[str, str], named: str) -> None:
    assert named == machine.name_processor(described)


@pytest.mark.parametrize("text", [None, "processor\t: 0\nCPU part\t: 0xd0c\n"])
def test_without_a_name_the_architecture_serves(root: Path, text: str | None) -> None:
    """ARM servers name no model, and other systems have no such file."""
    (root / "proc/cpuinfo").unlink()
    if text:
        write(root, "proc/cpuinfo", text)
    seen = described(root)
    assert seen.architecture == seen.cpu_model


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        pytest.param("0::/\n", {}, 8, id="no quota files"),
        pytest.param("0::/\n", {"cpu.max": "max 100000"}, 8, id="v2 without a limit"),
        pytest.param("0::/\n", {"cpu.max": "200000 100000"}, 2, id="v2: two cores"),
        pytest.param("0::/\n", {"cpu.max": "150000 100000"}, 2, id="v2: part of a core counts as one"),
        pytest.param("0::/\n", {"cpu.max": "1000 100000"}, 1, id="v2: never none"),
        pytest.param("0::/\n", {"cpu.max": "6400000 100000"}, 8, id="v2: more than the affinity"),
        pytest.param("0::/a.slice/b\n", {"a.slice/cpu.max": "300000 100000"}, 3, id="v2: a group above"),
        pytest.param(
            "0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "500000 100000"}, 3, id="v2: the tightest"
        ),
        pytest.param("0::/\n", {"unified/cpu.max": "400000 100000"}, 4, id="hybrid"),
        pytest.param(
            "3:cpu,cpuacct:/docker/f00\n0::/\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            3,
            id="v1: the container's own top",
        ),
        pytest.param(
            "3:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "50000", "cpu/x/cpu.cfs_period_us": "10000"}, 5, id="v1: a group"
        ),
        pytest.param(
            "3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8, id="v1: no limit"
        ),
        pytest.param("4:memory:/x\n", {"memory/x/cpu.max": "100000 100000"}, 8, id="another controller"),
        pytest.param("", {"cpu.max": "100000 100000"}, 8, id="no membership: not Linux"),
    ],
)
def test_cores_are_those_that_affinity_and_quota_leave(
    root: Path, membership: str, files: Mapping[str, str], cores: int
) -> None:
    """Of 8 by affinity."""
    write(root, "proc/self/cgroup", membership)
    for name, text in files.items():
        write(root, f"sys/fs/cgroup/{name}", f"{text}\n")
    assert cores == described(root).cores


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


@pytest.mark.parametrize(
    ("flags", "architecture", "saturates"),
    [
        ("sse2 avx2", "x86_64", True),
        ("avx512f avx512_vnni", "x86_64", False),
        ("avx2 avx_vnni", "AMD64", False),
        ("", "AMD64", True),  # nothing tells that it has any
        ("", "aarch64", False),
    ],
)
def test_products_of_bytes_saturate_on_x86_without_vnni(flags: str, architecture: str, *, saturates: bool) -> None:
    assert saturates == machine.saturates_bytes({"flags": flags}, architecture)
