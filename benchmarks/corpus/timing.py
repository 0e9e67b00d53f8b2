"""How long the call of a row takes on both sides: fresh processes in turn, without any of the tools."""

import json
import statistics
import subprocess
from typing import Any

from benchmarks.corpus.checkouts import TESTS, Checkout

PROCESSES = 5  # of each side
# The least of fifteen blocks of 20 ms: what disturbs a block makes it longer, never shorter.
_CHILD = """
import json, sys, time
names = {"__name__": "work", "__file__": sys.argv[1]}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names)
call, calls, spent = names["CALLS"]["call"], 1, 0.0
def block():
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - began
while (spent := block()) < 0.02:
    calls = max(calls + 1, int(calls * 0.025 / max(spent, 1e-6)))
print(json.dumps(min(block() for _ in range(15)) / calls))
"""


def measured(checkout: Checkout) -> dict[str, Any]:
    """Return the medians of both sides in seconds, and the ratio of the later to the earlier with its extremes."""
    taken: dict[str, list[float]] = {"main": [], "candidate": []}
    for number in range(PROCESSES):
        for side in sorted(taken, reverse=bool(number % 2)):
            checkout.restore(side)
            words = [checkout.python, "-c", _CHILD, str(checkout.root / TESTS / "test_work.py")]
            environment = {**checkout.environment, "PYTHONHASHSEED": str(number)}
            done = subprocess.run(
                words, cwd=checkout.root, env=environment, check=True, capture_output=True, text=True, timeout=300
            )
            taken[side].append(float(json.loads(done.stdout)))
    base, head = (statistics.median(taken[side]) for side in ("main", "candidate"))
    ratios = [head / base for base, head in zip(taken["main"], taken["candidate"], strict=True)]
    return {"base_s": base, "head_s": head, "ratio": head / base, "ratios": [min(ratios), max(ratios)]}
