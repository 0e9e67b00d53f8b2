"""A program over SSH that ends with its connection: `python -m pytest_hwperf.fleet.attached -m MODULE [ARGUMENT ...]`.

Without a terminal a server of SSH sends no signal when the connection is gone, whether it was closed, the other side
was killed or its network has failed; and some servers pass on no signal at all. But it closes the standard input.
"""

import os
import runpy
import signal
import sys
import threading
from time import sleep

from pytest_hwperf.host.workdirs import workdir

_GRACE_S = 20.0  # to end by itself after SIGTERM


def main() -> None:
    """Run a module as a program until the standard input is closed; what dask writes goes with it."""
    _, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    with workdir() as folder:
        os.environ["DASK_TEMPORARY_DIRECTORY"] = str(folder)
        threading.Thread(target=end_with, args=(sys.stdin.fileno(),), daemon=True).start()
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_with(descriptor: int) -> None:
    """End this process when a descriptor is closed: by SIGTERM, which lets dask end its work, then at once."""
    while os.read(descriptor, 1 << 12):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(_GRACE_S)
    os._exit(1)


if __name__ == "__main__":
    main()
