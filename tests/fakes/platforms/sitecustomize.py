"""Another operating system, as far as `pytest_hwperf` and its tests can see: it lacks what macOS or Windows lacks.

With this folder on PYTHONPATH and HWPERF_TEST_PLATFORM set to `darwin` or `win32`, every process of Python has it, also
one that a test starts. Only the package sees it: libraries keep the Linux that they were built for. It shows that no
call goes to a function that the other system has not, and that what remains is enough; it shows no timing, and nothing
of what macOS and Windows do in their own ways.
"""

import builtins
import importlib
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

PLATFORM = os.environ.get("HWPERF_TEST_PLATFORM", "")
_SEERS = ("pytest_hwperf", "tests")
_HIDDEN = ("/proc", "/sys")

# On neither; each list is what Python's documentation says of availability, and what typeshed has.
_LINUX_ONLY = {
    "os": {"sched_getaffinity", "sched_setaffinity", "pidfd_open", "O_TMPFILE", "memfd_create", "eventfd", "waitid"},
    "signal": {"pidfd_send_signal", "sigtimedwait"},
    "time": {"CLOCK_BOOTTIME", "pthread_getcpuclockid"},
}
_POSIX_ONLY = {
    "os": {
        *("fork", "forkpty", "wait", "wait3", "wait4", "WNOHANG", "killpg", "getpgid", "setpgid", "setsid", "getsid"),
        *("getuid", "geteuid", "getgid", "getegid", "setuid", "setgid", "getloadavg", "sysconf", "uname", "nice"),
        *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "mkfifo", "pread", "pwrite", "fchmod", "fchown"),
        *("posix_spawn", "statvfs", "register_at_fork", "openpty", "ttyname", "sched_yield", "WEXITED", "P_PID"),
    },
    "signal": {
        *("SIGKILL", "SIGHUP", "SIGALRM", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGPIPE"),
        *("setitimer", "getitimer", "ITIMER_REAL", "ITIMER_PROF", "pthread_sigmask", "pthread_kill", "sigwait"),
        *("SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK", "alarm", "pause"),
    },
    "time": {"clock_gettime", "clock_gettime_ns", "clock_settime", "CLOCK_MONOTONIC", "CLOCK_REALTIME", "tzset"},
    "socket": {"AF_UNIX"},
}
_POSIX_MODULES = {"fcntl", "resource", "pwd", "grp", "termios"}
_NAMES = {"darwin": ("posix", "Darwin"), "win32": ("nt", "Windows")}


class Seen(ModuleType):
    """A module without some of its names, and with other values of some."""

    def __init__(self, real: ModuleType, missing: Collection[str], other: Mapping[str, Any]) -> None:
        super().__init__(real.__name__)
        vars(self).update(other, _real=real, _missing=frozenset(missing), __spec__=real.__spec__)

    def __getattr__(self, name: str) -> Any:
        if name in vars(self)["_missing"]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on {PLATFORM}")
        return getattr(vars(self)["_real"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["_real"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(vars(self)["_real"], name)


class WindowsPopen(subprocess.Popen):  # type: ignore[type-arg]
    """Starts a process as Windows does: with descriptors that are inheritable, and without sessions."""

    def __init__(self, *given: Any, **named: Any) -> None:
        for name in ("pass_fds", "preexec_fn"):
            if named.get(name):
                raise ValueError(f"{name} is not supported on Windows")
        named.pop("start_new_session", None)
        super().__init__(*given, **named)

    def send_signal(self, sig: int) -> None:
        """Send one of those that Windows has; Ctrl-C itself reaches only a whole group."""
        if sig not in (signal.SIGTERM, signal.SIGKILL):  # `kill` sends the second one
            raise ValueError(f"Unsupported signal: {sig}")
        super().send_signal(sig)


def _import_module(name: str, package: str | None = None) -> Any:
    known = name == "resource"
    return builtins.__import__(name, {"__name__": _SEERS[0]}) if known else importlib.import_module(name, package)


def _usage_of_macos(who: int) -> Any:
    """Return it with the peak in bytes."""
    used = resource.getrusage(who)
    return resource.struct_rusage([*used[:2], _peak() if who == resource.RUSAGE_SELF else used[2] * 1024, *used[3:]])


def _peak() -> int:
    """Return the peak of this process in bytes; `ru_maxrss` of Linux begins with what its parent held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024


def _seen() -> dict[str, ModuleType]:
    name, system = _NAMES[PLATFORM]
    of_windows = PLATFORM == "win32"
    other: dict[str, dict[str, Any]] = {
        "os": {"name": name, **({"set_handle_inheritable": os.set_inheritable} if of_windows else {})},
        "sys": {"platform": PLATFORM},
        "platform": {"system": lambda: system, "libc_ver": lambda *_: ("", "")},
        "subprocess": {"Popen": WindowsPopen} if of_windows else {},
        "importlib": {"import_module": _import_module},
        "resource": {"getrusage": _usage_of_macos},
    }
    modules = (os, sys, platform, signal, time, socket, subprocess, importlib, resource)
    return {
        one.__name__: Seen(
            one,
            _LINUX_ONLY.get(one.__name__, set()) | (_POSIX_ONLY.get(one.__name__, set()) if of_windows else set()),
            other.get(one.__name__, {}),
        )
        for one in modules
    }


def _asks(frame: FrameType | None) -> bool:
    """Whether the package asks, directly or through the standard library."""
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__")), frame.f_code.co_filename
        if name.partition(".")[0] in _SEERS:
            return True
        if "site-packages" in file or name.partition(".")[0] not in sys.stdlib_module_names:
            return False
        frame = frame.f_back
    return False


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Hide the folders that Linux alone has; on Windows, refuse to replace or remove a file that is open."""
    if event in ("open", "os.listdir", "os.scandir"):
        path = arguments[0]
        if isinstance(path, str | bytes) and os.fsdecode(path).startswith(_HIDDEN) and _asks(sys._getframe(1)):
            raise FileNotFoundError(2, f"No such file or directory on {PLATFORM}", os.fsdecode(path))
        is_folder = event == "open" and PLATFORM == "win32" and isinstance(path, str | Path) and Path(path).is_dir()
        if is_folder and _asks(sys._getframe(1)):
            raise PermissionError(13, "Permission denied", str(path))
    elif event in ("os.rename", "os.remove") and PLATFORM == "win32" and _asks(sys._getframe(1)):
        replaced = os.path.realpath(os.fsdecode(arguments[1] if event == "os.rename" else arguments[0]))
        if replaced in map(os.path.realpath, _opened()):
            raise PermissionError(13, "The process cannot access the file because it is being used", replaced)


def _without_hidden(function: Any) -> Any:
    def asked(path: Any, *given: Any, **named: Any) -> Any:
        if not isinstance(path, int) and os.fsdecode(path).startswith(_HIDDEN) and _asks(sys._getframe(1)):
            raise FileNotFoundError(2, f"No such file or directory on {PLATFORM}", os.fsdecode(path))
        return function(path, *given, **named)

    return asked


def _opened() -> list[str]:
    return [f"/proc/self/fd/{one.name}" for one in os.scandir("/proc/self/fd")]


def _install() -> None:
    seen, real = _seen(), builtins.__import__

    def load(name: str, *given: Any, **named: Any) -> Any:
        asking = given[0] if given else named.get("globals")
        if asking and str(asking.get("__name__")).partition(".")[0] in _SEERS:
            if PLATFORM == "win32" and name in _POSIX_MODULES:
                raise ModuleNotFoundError(f"No module named {name!r} on {PLATFORM}", name=name)
            if name in seen:
                return seen[name]
        return real(name, *given, **named)

    builtins.__import__ = load
    sys.addaudithook(_refuse)
    for name in ("stat", "lstat", "readlink"):  # which no event tells of
        setattr(os, name, _without_hidden(getattr(os, name)))


def _peaks_of_windows() -> None:
    """Let psutil tell the peak of this process by the name that it has on Windows."""
    import psutil

    told = psutil.Process.memory_info

    class Shown:
        def __init__(self, process: Any) -> None:
            self.rss, self.peak_wset = told(process).rss, _peak()

    class WindowsProcess(psutil.Process):  # type: ignore[misc]
        def memory_info(self) -> Any:
            return Shown(self)

    psutil.Process = WindowsProcess


if PLATFORM:
    _install()
    if PLATFORM == "win32":
        with suppress(ImportError):  # a fresh process without libraries
            _peaks_of_windows()
