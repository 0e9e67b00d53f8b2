"""Writers at once, and kills at random moments: whether a run that was acknowledged is lost.

    python -m benchmarks store_crashes --kills=100

First 16 processes save 50 runs each. Then two processes save runs one after the other and report each that was
acknowledged, until both are killed with SIGKILL, again and again; and then the server of PostgreSQL is killed and
started anew below two that go on. At the end every run that was reported has to be there, once, and beside those at
most the run that each killed process had under way.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from benchmarks.projects import ROOT

sys.path.append(str(ROOT / "tests"))
from fakes import postgres
from fakes.store_writers import killed_servers, killed_writers, lost, saved_together

KINDS = ("json", "sqlite", "postgresql")
WRITERS, SAVES = 16, 50


def main() -> None:
    """Write, kill, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    for kind in options.kinds:
        if kind == "postgresql" and (why := postgres.why_missing()):
            print(f"{kind}: {why}")
        else:
            with ExitStack() as opened:
                try_out(kind, options.kills, Path(opened.enter_context(tempfile.TemporaryDirectory())), opened)


def try_out(kind: str, kills: int, folder: Path, opened: ExitStack) -> None:
    """Try one kind of store."""
    server = opened.enter_context(postgres.server()) if kind == "postgresql" else None
    if server is not None:
        os.environ["PGPASSFILE"] = str(server.passwords)

    def fresh(name: str) -> str:
        if server is None:
            return f"{folder}/{name}" if kind == "json" else f"sqlite:///{folder}/{name}.db"
        server.execute(f"CREATE SCHEMA {name}")
        return server.url(schema=name)

    began, place = perf_counter(), fresh("together")
    reported = saved_together(place, WRITERS, SAVES)
    found = lost(place, reported, most=WRITERS * SAVES)
    print(f"{kind}, {WRITERS} writers of {SAVES}: {found}, {perf_counter() - began:.0f} s", flush=True)
    print(f"{kind}, writers killed {kills} times: {killed_writers(fresh('writers'), kills)}", flush=True)
    if server is not None:
        print(f"{kind}, server killed {kills} times: {killed_servers(server, fresh('servers'), kills)}", flush=True)
