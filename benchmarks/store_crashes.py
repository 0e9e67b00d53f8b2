"""Kills of writers and of the server at random moments: PYTHONPATH=tests python -m benchmarks.store_crashes.

Several processes save runs, one after the other, and report each as it was acknowledged. Meanwhile one of them, or the
server of PostgreSQL, is killed with SIGKILL, is started again, and so on. At the end every run that was reported has to
be there, each once; and of each kill at most the run under way beside it.
"""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from fakes import postgres
from fakes.store_writers import killed_servers, killed_writers

KINDS = ("json", "sqlite", "postgresql")


def main() -> None:
    """Kill, count, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    for kind in options.kinds:
        with ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            server = None
            if kind == "postgresql":
                if why := postgres.why_missing():
                    print(f"{kind}: {why}")
                    continue
                server = opened.enter_context(postgres.server())
            location = f"{folder}/baselines" if kind == "json" else f"sqlite:///{folder}/team.db"
            location = location if server is None else server.url()
            print(f"{kind}, writers killed: {killed_writers(location, options.kills, server)}")
            if server is not None:
                print(f"{kind}, server killed: {killed_servers(server, location, options.kills)}")


if __name__ == "__main__":
    main()
