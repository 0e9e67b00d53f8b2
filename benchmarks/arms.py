"""Arms in turn: builds in a drawn order, one JSON line for each as soon as it has ended, on a machine busy or not.

A run that was stopped goes on with `--resume`. Builds of two settings are never mixed in one file.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

Turn = Mapping[str, Any]  # what tells a build from all others in its file: its round, and its arm
Record = Mapping[str, Any]  # a turn and what was found in it
Build = Callable[[Turn], Mapping[str, Any]]

T = TypeVar("T")
_LOOP = "while True: pass"


def parser(description: str | None, out: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that all arms share; `out` is the usual file."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--out", type=Path, default=Path(out), help=f"one JSON line for each build (default: {out})")
    found.add_argument("--resume", action="store_true", help="go on with what --out holds")
    found.add_argument("--only-table", action="store_true", help="run nothing, print the table of --out")
    return found


def drawn(arms: Iterable[T], rounds: int, seed: int = 0) -> Iterator[tuple[int, T]]:
    """Yield the number of a round and an arm, every arm once a round, in an order that is drawn for each round.

    So drift of the machine is as likely to hit one arm as another.
    """
    every = [*arms]
    for number in range(rounds):
        order = [*every]
        Random(f"{seed} {number}").shuffle(order)
        yield from ((number, arm) for arm in order)


def run(
    asked: argparse.Namespace,
    turns: Iterable[Turn],
    build: Build,
    setting: Mapping[str, str] | None = None,
    say: Callable[[Record], str] = json.dumps,
) -> list[Record]:
    """Make the builds that the file does not hold yet, one at a time, and return all that it holds.

    Args:
        asked: what `parser` has read.
        turns: in their order.
        build: makes one build and says what was found.
        setting: under which these builds are made: those of another one are refused.
        say: what is printed of a build.
    """
    records = read(asked, setting)
    if asked.only_table:
        return records
    common = {"revision": _revision(), **({"setting": dict(setting)} if setting else {})}
    for turn in turns:
        if any(turn.items() <= record.items() for record in records):
            continue
        load = round(os.getloadavg()[0], 2)
        records.append({**turn, "load": load, **build(turn), **common})
        append(asked.out, records[-1])
        print(say(records[-1]), flush=True)
    return records


def read(asked: argparse.Namespace, setting: Mapping[str, str] | None = None) -> list[Record]:
    """Return the builds that a file holds, without a last line that is only half written.

    Raises:
        SystemExit: the file exists and nobody said what to do with it, or it holds builds of another setting.
    """
    out: Path = asked.out
    if not out.exists():
        return []
    if not asked.resume and not asked.only_table:
        raise SystemExit(f"{out} exists: give --resume to go on, or another --out")
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()]
    for record in records:
        if not asked.only_table and record.get("setting", setting) != setting:
            raise SystemExit(f"{out} holds builds of another setting: {record['setting']}; here: {setting}")
    if not asked.only_table:
        out.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return records


def append(out: Path, record: Record) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes computing; the load of the machine approaches their number within some minutes."""
    with ExitStack() as stack:
        for _ in range(processes):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", _LOOP]))
            stack.callback(process.kill)
        yield


def _revision() -> str:
    """Return the revision of this repository, with -dirty where files were changed since."""
    words = ("git", "describe", "--always", "--dirty", "--match=")
    done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
