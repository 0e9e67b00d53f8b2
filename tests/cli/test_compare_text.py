"""What `hwperf compare` says at 80 columns: the decision first, then what was compared, required and measured."""

from fakes.rollouts import accuracy, file, latency, limit, version

from pytest_hwperf.cli.compare import verdicts_of
from pytest_hwperf.reports.document import as_text
from pytest_hwperf.reports.rollout import document_of
from pytest_hwperf.stats.rollout import Requests
from pytest_hwperf.stats.rollout_plan import RolloutFile

P95 = limit("latency_p95_ms", "latency", "p95", 0.0015)


def text_of(found: RolloutFile) -> list[str]:
    return as_text(document_of(found, verdicts_of(found)), 80)


def test_a_no_go_has_all_its_reasons_and_no_plan() -> None:
    requests = [Requests(made=1000, failed=n, why="503 \x1b[2J" * bool(n)) for n in (0, 40)]
    old, new = (version("http://a/p" * 9, 1.0 + n, requests=one) for n, one in enumerate(requests))
    lines = text_of(file(old, new, (latency("regressed", 0.9, 0.8, 1.0),), (P95,)))
    assert "no-go: latency p50 +90.0 % (+80.0 .. +100.0), margin 2 %; 2 further reasons" == lines[0]
    assert 2 == len([line for line in lines if line.startswith("  also no-go: ")])
    assert "  latency p95  1.00 ms (0.980 .. 1.02)  2.00 ms (1.96 .. 2.04)" in lines
    assert "  requests to NEW: 40 of 1,000 requests failed (2.7 .. 5.7 %)" in lines
    assert "no plan: there is one when the decision is go" == lines[-1]
    assert [] == [line for line in lines if (len(line) > 80 and "http" not in line) or "\x1b" in line]


def test_a_go_ends_with_the_stages_of_its_plan() -> None:
    compared = (latency("equivalent"), accuracy(540, 0))
    lines = text_of(file(version("old.onnx", 1.0), version("new.onnx", 1.0), compared))
    assert "  stage  requests  slower than 1.10 ms      wrong labels" == lines[-5]
    assert "  100 %      3520     217 (sees 6.7 %)  146 (sees 4.6 %)" == lines[-1]
