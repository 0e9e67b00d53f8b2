"""The decision as Markdown."""

import re
from collections.abc import Callable

from fakes.rollouts import accuracy, file, latency, limit, version

from pytest_hwperf.cli.compare import verdicts_of
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports import rollout
from pytest_hwperf.stats.rollout import Requests
from pytest_hwperf.stats.rollout_plan import RolloutFile

OLD, NEW = version("old.onnx", 1.0), version("new.onnx", 1.0)
P95 = limit("latency_p95_ms", "latency", "p95", 0.0015)
EVIL = "<script>alert(1)</script>|`a`\u202e\x1b[2J @all #1 [x](http://y) https://z.example"


def render(found: RolloutFile) -> bytes:
    return rollout.render(found, verdicts_of(found))


def test_a_go_shows_both_versions_and_the_plan(golden: Callable[[str, bytes], None]) -> None:
    golden("markdown/rollout_go.md", render(file(OLD, NEW, (latency("equivalent"), accuracy(540, 0)), (P95,))))


def test_a_no_go_shows_what_is_worse_and_what_is_missed(golden: Callable[[str, bytes], None]) -> None:
    requests = [Requests(made=1000, failed=n, why="503 busy" * bool(n)) for n in (0, 40)]
    old, new = (version("http://a/p", 1.0 + n, requests=one) for n, one in enumerate(requests))
    slower = latency("regressed", 0.9, 0.8, 1.0)
    memory = limit("memory_max_mb", "memory", "p50", 1e7)

    golden("markdown/rollout_no_go.md", render(file(old, new, (slower,), (P95, memory))))


def test_names_from_outside_do_no_harm() -> None:
    text = render(file(replace(OLD, target=EVIL), replace(NEW, target=EVIL), (latency("equivalent"),))).decode()
    assert [] == re.findall(r"<script|\u202e|\x1b|(?<!;)\[x\]\(", text.partition("```")[0])
    assert [] == re.findall(r"\u202e|\x1b", text)
    assert not any("@all" in line for line in text.partition("```")[0].splitlines() if "<code>" not in line)


def test_drawing_twice_gives_the_same_bytes() -> None:
    one = file(OLD, NEW, (latency("equivalent"),))
    assert render(one) == render(one)
