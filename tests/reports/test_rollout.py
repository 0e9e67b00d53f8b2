"""The decision as Markdown, and in a terminal of 80 columns."""

import re
from collections.abc import Callable

from fakes.rollouts import accuracy, figure, file, latency, limit, version

from pytest_hwperf.cli.compare import verdicts_of
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin, uncompared
from pytest_hwperf.reports import rollout
from pytest_hwperf.reports.document import as_text
from pytest_hwperf.reports.rollout import document_of
from pytest_hwperf.stats.choice.rollout import Requests
from pytest_hwperf.stats.choice.rollout_plan import RolloutFile, VersionRecord, plan_of

OLD, NEW = version("old.onnx", 1.0), version("new.onnx", 1.0)
P95 = limit("latency_p95_ms", "latency", "p95", 0.0015)
EQUAL = latency("equivalent")
EVIL = "<script>alert(1)</script>|`a`\u202e\x1b[2J @all #1 [x](http://y) https://z.example"


def render(found: RolloutFile) -> bytes:
    return rollout.render(found, verdicts_of(found))


def text_of(found: RolloutFile) -> list[str]:
    return as_text(document_of(found, verdicts_of(found)), 80)


def no_go(target: str = "http://a/p", why: str = "503 busy", slower: float = 1.0) -> RolloutFile:
    requests = [Requests(made=1000, failed=n, why=why * bool(n)) for n in (0, 40)]
    old, new = (version(target, 1.0 + n * slower, requests=one) for n, one in enumerate(requests))
    memory = limit("memory_max_mb", "memory", "p50", 1e7)
    return file(old, new, (latency("regressed", 0.9, 0.8, 1.0),), (P95, memory))


def test_a_go_shows_both_versions_and_the_plan(golden: Callable[[str, bytes], None]) -> None:
    golden("markdown/rollout_go.md", render(file(OLD, NEW, (EQUAL, accuracy(540, 0)), (P95,))))


def test_a_no_go_shows_what_is_worse_and_what_is_missed(golden: Callable[[str, bytes], None]) -> None:
    golden("markdown/rollout_no_go.md", render(no_go()))


def test_names_from_outside_do_no_harm() -> None:
    text = render(file(replace(OLD, target=EVIL), replace(NEW, target=EVIL), (EQUAL,))).decode()
    assert [] == re.findall(r"<script|\u202e|\x1b|(?<!;)\[x\]\(", text.partition("```")[0])
    assert [] == re.findall(r"\u202e|\x1b", text)
    assert not any("@all" in line for line in text.partition("```")[0].splitlines() if "<code>" not in line)


def test_drawing_twice_gives_the_same_bytes() -> None:
    assert render(file(OLD, NEW, (EQUAL,))) == render(file(OLD, NEW, (EQUAL,)))


def test_a_terminal_of_80_columns_has_room() -> None:
    lines = text_of(no_go("http://a/p" * 9, "503 \x1b[2J"))
    assert "  latency p95  1.00 ms (0.980 .. 1.02)  2.00 ms (1.96 .. 2.04)" in lines
    assert [] == [line for line in lines if (len(line) > 80 and "http" not in line) or "\x1b" in line]
    lines = text_of(file(OLD, NEW, (EQUAL, accuracy(540, 0))))
    assert "  stage  requests  slower than 1.10 ms      wrong labels" == lines[-5]
    assert "  100 %      3520     217 (sees 6.7 %)  146 (sees 4.6 %)" == lines[-1]


def test_the_first_line_is_the_decision_with_its_first_reason() -> None:
    margin = Margin(metric="latency", statistic="p50", size=0.02)
    late = uncompared(margin, "inconclusive", state("out of time", limit=6))
    noisy = replace(latency("inconclusive", 0.01, None, 0.02), cause=state("said", text="too noisy"))
    for compared, line in (
        ((), "inconclusive: nothing was compared"),
        ((EQUAL,), "go: nothing is worse by more than its margin"),
        ((late,), "inconclusive: latency p50: the time of 6 s was too short"),
        ((uncompared(margin, "not comparable", None),), "inconclusive: latency p50: not comparable"),
        ((noisy,), "inconclusive: latency p50 +1.0 % (? .. +2.0), margin 2 %, too noisy"),
    ):
        assert text_of(file(OLD, NEW, compared))[0].startswith(line)


def test_limits_say_where_they_come_from() -> None:
    """What a go with all three kinds of origin says that the golden file does not."""
    requests = Requests(made=1000, failed=2)
    old, new = (version("http://a/p", ms, requests=requests) for ms in (1.0, 1.09))
    asked = limit("accuracy_min", "accuracy", "mean", 0.97)
    planned = replace(file(OLD, NEW, (EQUAL,)), plan=plan_of(old, new, [asked], 0.10, 0.01))
    text = " ".join(" ".join(text_of(planned)).split())
    assert "latency p95 1.11 ms: the upper end of NEW's 1.09 ms (1.07 .. 1.11)" in text
    assert "accuracy 0.970: the requirement accuracy_min; measured 0.980 (0.968 .. 0.988)" in text
    assert "failed requests 0.84 %: the upper end of NEW's 0.2 %, n=1000" in text


def test_what_was_not_compared_is_said() -> None:
    size = replace(figure("model_size", "p50", 1.5e6, 1.5e6, 1.5e6))
    mixed = file(replace(OLD, figures=(size,)), version("http://a/p", 1.0, requests=Requests(made=10, failed=0)), ())
    unlabelled = replace(mixed, record=replace(mixed.record, rows=replace(mixed.record.rows, labelled=False)))
    lines = text_of(unlabelled)
    found = [line.partition(":")[0].strip() for line in lines[lines.index("Not compared") + 1 :] if ":" in line]
    assert ["accuracy", "model size", "the models alone", "the hardware behind an address"] == found[:4]
    assert any("1.50 MB" in line for line in lines)


def test_every_part_of_a_decision_comes_back_through_json() -> None:
    """A go with its plan, a no-go by each kind of reason, and the record alone."""
    go = file(OLD, NEW, (EQUAL, accuracy(540, 0)), (P95,))
    for one in (go, no_go()):
        assert one == from_json(RolloutFile, to_json(one))
        assert one.record == from_json(VersionRecord, to_json(one.record))
    assert go.plan is not None
