"""The template for GitLab: which job may do what, and the note that it keeps, its script run with stand-ins."""

import json
from pathlib import Path

import pytest
from fakes.workflow_steps import Runner, load

TEMPLATE = load("ci/gitlab.yml")
KINDS = load("ci/gitlab-kinds.yml")
BAD = "<!-- pytest-hwperf -->\n<!-- state: bad -->\n\n### it regressed\n"
GOOD = BAD.replace("bad", "good")
OTHERS = [{"id": 3, "author": {"id": 8}, "body": BAD}, {"id": 4, "author": {"id": 7}, "body": f"I quote {BAD}"}]
MINE = {"id": 5, "author": {"id": 7}, "body": BAD}


def test_no_token_is_given_to_foreign_code() -> None:
    gate, note = TEMPLATE["performance"], TEMPLATE["performance:note"]
    assert "HWPERF_TOKEN" not in str(gate)
    assert "none" == note["variables"]["GIT_STRATEGY"]
    [rule] = note["rules"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in rule["if"]


def test_the_commit_of_the_target_is_there_and_junit_is_read() -> None:
    gate = TEMPLATE["performance"]
    [command] = [line for line in gate["script"] if "pytest" in line and "pip" not in line]
    assert "0" == gate["variables"]["GIT_DEPTH"]
    assert '"--hwperf-against=$CI_MERGE_REQUEST_DIFF_BASE_SHA"' in command
    assert f"--junitxml={gate['artifacts']['reports']['junit']}" in command
    assert "always" == gate["artifacts"]["when"]


def test_every_kind_of_machine_has_a_job_and_is_expected() -> None:
    kind, merged = KINDS["performance:kind"], KINDS["performance"]
    [command] = [line for line in kind["script"] if "pytest" in line and "pip" not in line]
    assert KINDS["variables"]["HWPERF_KINDS"].split(",") == kind["parallel"]["matrix"][0]["KIND"]
    assert ["$KIND"] == kind["tags"]
    assert '"--hwperf-machine-kind=$KIND" \\\n  "--hwperf-report=performance/$KIND.json"' in command
    assert "HWPERF_TOKEN" not in str(KINDS)
    assert ("none", "always") == (merged["variables"]["GIT_STRATEGY"], merged["rules"][0]["when"])
    assert 'report performance/*.json "--kinds=$HWPERF_KINDS"' in merged["script"][-1]


@pytest.mark.live
@pytest.mark.parametrize(
    ("notes", "summary", "sent"),
    [([*OTHERS, MINE], GOOD, "PUT notes/5"), (OTHERS, GOOD, ""), (OTHERS, BAD, "POST notes")],
    ids=["updated", "silent", "begun"],
)
def test_one_note_is_kept(tmp_path: Path, notes: list[object], summary: str, sent: str) -> None:
    made = Runner(tmp_path, tmp_path / "stubs", {}, STUB_SHOWN="3")
    (made.stubs / "summary.md").write_text(summary, encoding="utf-8")
    (made.stubs / "notes").write_text(json.dumps(notes), encoding="utf-8")
    (tmp_path / "performance").mkdir()
    (tmp_path / "performance" / "report.json").write_text("{}", encoding="utf-8")
    given = {"HWPERF_TOKEN": "t", "HWPERF_PACKAGE": "p", "CI_API_V4_URL": "https://g/api/v4", "CI_PROJECT_ID": "1"}
    script = "\n".join(TEMPLATE["performance:note"]["script"])
    done = made.shell(script, **given, CI_MERGE_REQUEST_IID="2")
    assert 0 == done.returncode, done.stderr
    words = " ".join(made.lines("sent")).split()
    address = "https://g/api/v4/projects/1/merge_requests/2/"
    assert sent == (f"{words[words.index('--request') + 1]} {words[-1].removeprefix(address)}" if words else "")
