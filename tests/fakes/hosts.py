"""Machines under a temporary folder: what Linux shows of clock rate and control groups; and what psutil returns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil  # noqa: TID253 - only tests import this

# Two CPUs of a laptop: turbo on, sibling threads on, once slowed down for heat.
LAPTOP: Mapping[str, str] = {
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "800000",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3400000",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "4700000",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "2",
    "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "0",
    "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "5",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0",
    "sys/devices/system/cpu/smt/active": "1",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Laptop\ncpu family\t: 6\nmodel\t\t: 1\nflags\t\t: fpu sse2\n",
    "proc/self/cgroup": "0::/jobs/one",
    "proc/self/status": "VmHWM:\t100 kB\nVmRSS:\t90 kB",
    "proc/self/smaps_rollup": "Rss: 90 kB",
    "sys/fs/cgroup/jobs/cpu.max": "150000 100000",
    "sys/fs/cgroup/jobs/cpu.stat": "usage_usec 9\nnr_periods 50\nnr_throttled 7\nthrottled_usec 250000",
    "sys/fs/cgroup/jobs/memory.max": "2000000000",
    "sys/fs/cgroup/jobs/one/memory.max": "max",
}


def settle_in(root: Path, files: Mapping[str, str] = LAPTOP) -> Path:
    """Write what such a machine shows under `root`."""
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="ascii")
    (root / "proc/self/fd").mkdir(parents=True, exist_ok=True)
    return root


def cpu_times(**seconds: float) -> Any:
    """Return what `psutil.cpu_times` does, 0 where nothing is given."""
    own = psutil.cpu_times()
    return own._replace(**{**dict.fromkeys(own._fields, 0.0), **seconds})


def swap_memory(*, total: int, used: int) -> Any:
    """Return what `psutil.swap_memory` does."""
    return type(psutil.swap_memory())(total, used, total - used, 100 * used / total, 0, 0)


def refuse() -> Any:
    """Fail as psutil does where the kernel hides its files."""
    raise FileNotFoundError(2, "No such file or directory", "/proc/stat")
