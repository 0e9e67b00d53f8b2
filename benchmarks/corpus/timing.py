"""How much longer the call of a row takes on one side: both alive in turns, without any of the tools.

CPU time, since a cloud machine takes its processors away at any moment.
"""

import statistics
import subprocess
from contextlib import ExitStack
from typing import Any

from benchmarks.corpus.checkouts import TESTS, Checkout

PAIRS = 5  # of processes
_TURNS = 40  # of each side in a pair, of 3 ms or more
_CHILD = """
import sys
from time import process_time
names = {"__name__": "work", "__file__": sys.argv[1]}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names)
call, calls, spent = names["CALLS"]["call"], 1, 0.0
def block():
    began = process_time()
    for _ in range(calls):
        call()
    return process_time() - began
while (spent := block()) < 0.003:
    calls = max(calls + 1, int(calls * 0.004 / max(spent, 1e-6)))
print("warm", flush=True)
for _ in sys.stdin:
    print(block() / calls, flush=True)
"""


def measured(checkout: Checkout) -> dict[str, Any]:
    """Return the medians of both sides in seconds, and the ratio of the later to the earlier with its extremes."""
    pairs = [_pair(checkout, number) for number in range(PAIRS)]
    base, head = (statistics.median(value for pair in pairs for value in pair[side]) for side in (0, 1))
    ratios = [statistics.median(late / early for early, late in zip(*pair, strict=True)) for pair in pairs]
    return {
        "base_s": base,
        "head_s": head,
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(end, 4) for end in (min(ratios), max(ratios))],
    }


def _pair(checkout: Checkout, number: int) -> tuple[list[float], list[float]]:
    """Let two fresh processes take turns; each has imported its tree before the other is checked out."""
    with ExitStack() as stack:
        sides = []
        for branch in ("main", "candidate"):
            checkout.restore(branch)
            sides.append(stack.enter_context(_started(checkout, number)))
            stack.callback(sides[-1].kill)
            _line(sides[-1])
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(_TURNS):
            for side in (0, 1) if turn % 2 else (1, 0):
                print(file=sides[side].stdin, flush=True)
                taken[side].append(float(_line(sides[side])))
        return taken


def _started(checkout: Checkout, number: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [checkout.python, "-c", _CHILD, str(checkout.root / TESTS / "test_work.py")],
        cwd=checkout.root,
        env={**checkout.environment, "PYTHONHASHSEED": str(number)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(side: "subprocess.Popen[str]") -> str:
    line = side.stdout.readline() if side.stdout else ""
    if not line:
        raise subprocess.SubprocessError(f"a side of the timing ended with code {side.wait()}")
    return line
