"""The action, workflows and forms for GitHub and the templates for GitLab: what they may do, and their steps run.

The service itself is not there: its expressions are given by the test, and what the steps call are stand-ins
(`fakes.workflow_steps`).
"""

import json
import re
import shutil
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.repositories import commit, git, repository_with
from fakes.workflow_steps import ROOT, Runner, load

from pytest_hwperf import __version__

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, DEVELOPING = SETTINGS["project"], SETTINGS["dependency-groups"]["dev"]
ACTION = load("action.yml")
PERFORMANCE = load("example_project/.github/workflows/performance.yml")
COMMENT = load("example_project/.github/workflows/comment.yml")
KINDS = load("example_project/.github/workflows/kinds.yml")
TESTS = load(".github/workflows/tests.yml")
FORMS = {path.name: load(f".github/ISSUE_TEMPLATE/{path.name}") for path in (ROOT / ".github/ISSUE_TEMPLATE").iterdir()}
GITLAB, GITLAB_KINDS = load("ci/gitlab.yml"), load("ci/gitlab-kinds.yml")
TEMPLATES = ("ci/gitlab.yml", "ci/gitlab-kinds.yml")
WORKFLOWS = {"performance": PERFORMANCE, "comment": COMMENT, "kinds": KINDS}
FILES = ("action.yml", *(f"example_project/.github/workflows/{name}.yml" for name in WORKFLOWS))
BAD = "<!-- pytest-hwperf -->\n<!-- state: bad -->\n\n### it regressed\n"
GOOD = BAD.replace("bad", "good")
FILES_ASKED = ("/report.json", "/summary.md", "/")
BOT, PERSON = {"type": "Bot"}, {"type": "User"}
MINE = {"id": 5, "user": BOT, "body": BAD}
OTHERS = [{"id": 1, "user": PERSON, "body": BAD}, {"id": 2, "user": BOT, "body": f"I quote:\n{BAD}"}]


def steps_of(file: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "runs" in file:
        found: list[dict[str, Any]] = file["runs"]["steps"]
        return found
    return [step for job in file["jobs"].values() for step in job["steps"]]


def step(file: Mapping[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in steps_of(file) if one.get("name") == name)


def texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    else:
        yield str(value)


def expressions(value: object) -> set[str]:
    """Return the names in all expressions below a value, and in the conditions of its steps."""
    found = [one for text in texts(value) for one in re.findall(r"\$\{\{(.*?)\}\}", text)]
    return {name for one in found for name in re.findall(r"[a-z_]+\.[\w.-]+", one)}


def test_no_expression_is_part_of_a_command_and_what_others_have_written_has_a_version() -> None:
    steps = [one for file in (ACTION, TESTS, *WORKFLOWS.values()) for one in steps_of(file)]
    used = [one["uses"] for one in steps if "uses" in one]
    assert [] == [one["run"] for one in steps if "${{" in one.get("run", "")]
    assert [] == [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+(\.\d+)*|[0-9a-f]{40})", one)]


def test_every_input_of_the_action_is_used_and_declared() -> None:
    conditions = " ".join(one.get("if", "") for one in steps_of(ACTION))
    used = expressions(ACTION["runs"]) | set(re.findall(r"inputs\.[\w-]+", conditions))
    assert {f"inputs.{name}" for name in ACTION["inputs"]} == {one for one in used if one.startswith("inputs.")}
    assert {*ACTION["inputs"]} >= {"against", "tests", "pytest-args", "python", "alpha", "extras", "artifacts"}


def test_outputs_are_those_of_a_step_before() -> None:
    for file in (ACTION, COMMENT):
        known: set[str] = set()
        for one in steps_of(file):
            condition = set(re.findall(r"steps\.[\w.-]+", one.get("if", "")))
            assert {name for name in expressions(one) | condition if name.startswith("steps.")} <= known
            written = re.findall(r'echo "(\w+)=', one.get("run", ""))
            known |= {f"steps.{one['id']}.outputs.{name}" for name in written if "id" in one}
        assert {name for name in expressions(file.get("outputs", {})) if name.startswith("steps.")} <= known


def test_every_step_of_the_action_names_its_shell() -> None:
    """GitHub refuses a composite action otherwise, and descriptions with an expression that it does not know."""
    allowed = {"name", "id", "if", "shell", "env", "run", "uses", "with"}
    assert [] == [one for one in steps_of(ACTION) if "run" in one and one["shell"] != "bash"]
    assert [] == [one for one in steps_of(ACTION) if not set(one) <= allowed or ("run" in one) == ("uses" in one)]
    assert {"name", "description", "inputs", "outputs", "runs", "branding"} == set(ACTION)
    assert [] == [one for one in ACTION["inputs"].values() if set(one) != {"description", "default"}]


def test_the_job_that_runs_foreign_code_may_write_nothing_and_the_other_one_runs_none() -> None:
    assert {"contents": "read"} == PERFORMANCE["permissions"] == KINDS["permissions"]
    assert {} == COMMENT["permissions"]
    [checkout] = [one for one in steps_of(PERFORMANCE) if "checkout" in one.get("uses", "")]
    assert 0 == checkout["with"]["fetch-depth"]
    [job] = COMMENT["jobs"].values()
    assert {"actions": "read", "pull-requests": "write"} == job["permissions"]
    assert [] == [one for one in steps_of(COMMENT) if "checkout" in one.get("uses", "")]
    assert [] == [text for file in WORKFLOWS.values() for text in texts(file) if "secrets" in text]
    assert {PERFORMANCE["name"], KINDS["name"]} == {*COMMENT["on"]["workflow_run"]["workflows"]}
    assert "event == 'pull_request'" in job["if"]


def test_each_system_runs_its_tests_on_each_python() -> None:
    """Linux runs all of tox; what has never been tried is marked so, and may change nothing either."""
    linux, others = TESTS["jobs"]["linux"], TESTS["jobs"]["others"]
    pythons = ["3.11", "3.12", "3.13", "3.14"]
    assert {"contents": "read"} == TESTS["permissions"]
    assert {"fail-fast": False, "matrix": {"python": pythons}} == linux["strategy"]
    assert {"system": ["macos-latest", "windows-latest"], "python": pythons} == others["strategy"]["matrix"]
    assert ["python -m pip install tox tox-uv", "python -m tox"] == [one["run"] for one in linux["steps"][2:]]
    assert others["steps"][-1]["run"].endswith('-m "not live"')
    assert others["continue-on-error"]
    tested = {f"Programming Language :: Python :: {one}" for one in pythons if one not in linux["continue-on-error"]}
    assert tested == {one for one in PROJECT["classifiers"] if one.rpartition(" :: ")[2].startswith("3.")}


def test_an_issue_form_asks_for_what_github_knows() -> None:
    """GitHub shows no form that has an unknown type, a field without a label or one name twice."""
    assert {"bug.yml", "wrong-verdict.yml"} == {*FORMS}
    for form in FORMS.values():
        asked = [one for one in form["body"] if one["type"] != "markdown"]
        assert {"name", "description", "labels", "body"} == {*form}
        assert {"input", "textarea", "dropdown"} >= {one["type"] for one in asked}
        assert len(asked) == len({one["id"] for one in asked}) == len({one["attributes"]["label"] for one in asked})
        assert any(one.get("validations") == {"required": True} for one in asked)
    links = [one for text in texts([*FORMS.values()]) for one in re.findall(r"\(\.\./blob/HEAD/(.+?)\)", text)]
    links += re.findall(r"\]\((.+?)\)", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(FORMS) + 1 == len(links)
    assert [] == [one for one in links if not (ROOT / one).is_file()]


def test_what_describes_the_package_is_of_one_mind() -> None:
    """The citation names this version; what pre-commit runs is the environment of tox; the sdist holds these files."""
    citation, [hook] = load("CITATION.cff"), load(".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert (PROJECT["name"], __version__, PROJECT["license"]) == tuple(
        citation[k] for k in ("title", "version", "license")
    )
    assert (PROJECT["authors"], PROJECT["description"]) == (citation["authors"], citation["abstract"])
    assert "tox -e lint" == hook["entry"]
    assert {one for one in DEVELOPING if isinstance(one, str)} == {*hook["additional_dependencies"]}


def test_the_token_is_given_to_the_comment_alone() -> None:
    for file in (ACTION, COMMENT):
        holders = [one["name"] for one in steps_of(file) if "GH_TOKEN" in one.get("env", {})]
        assert [] == [name for name in holders if "pip" in step(file, name)["run"] or "pytest" in name]
    assert ["Comment"] == [one["name"] for one in steps_of(ACTION) if "inputs.token" in expressions(one)]


def test_both_ways_comment_alike() -> None:
    _, script = step(COMMENT, "Comment")["run"].split("\n", 1)
    assert step(ACTION, "Comment")["run"] == script


@pytest.fixture
def pull_request(tmp_path: Path) -> Path:
    """A clone of one commit, as actions/checkout makes it: main has gone on since the branch left it."""
    origin = repository_with(tmp_path / "origin", a__py="1")
    git(origin, "checkout", "-b", "feature")
    commit(origin, a__py="2")
    git(origin, "checkout", "main")
    commit(origin, b__py="3")
    git(tmp_path, "clone", "--depth=1", "--branch=feature", "--single-branch", f"file://{origin}", "clone")
    return tmp_path / "clone"


CONTEXT = {
    **{f"inputs.{name}": "" for name in ACTION["inputs"]},
    "inputs.tests": "tests/a.py 'tests/b c.py'",
    "inputs.pytest-args": "-k 'a or b'",
    "inputs.alpha": "5%",
    "inputs.extras": "torch",
    "inputs.token": "t0ken",
    "github.action_path": "/action",
    "github.token": "t0ken",
    "github.event.pull_request.number": "12",
}


def runner(folder: Path, tmp_path: Path, summary: str = BAD, **variables: str) -> Runner:
    if not all(map(shutil.which, ("bash", "jq", "unzip"))):
        pytest.skip("the stand-ins need bash, jq and unzip")
    made = Runner(folder, tmp_path / "stubs", CONTEXT, **variables)
    (made.stubs / "summary.md").write_text(summary, encoding="utf-8")
    (made.stubs / "report.json").write_text("{}", encoding="utf-8")
    return made


def answer(made: Runner, path: str, value: object) -> None:
    (made.stubs / path.replace("/", "_")).write_text(json.dumps(value), encoding="utf-8")


@pytest.mark.live
def test_the_action_compares_shows_comments_and_fails(pull_request: Path, tmp_path: Path) -> None:
    made = runner(pull_request, tmp_path, GITHUB_BASE_REF="main", STUB_CODE="1")
    answer(made, "repos/o/r/issues/12/comments", OTHERS)
    names = ("Install pytest-hwperf", "Fetch where the pull request has left its target branch", "Compare", "Show")
    done = {name: made.run(step(ACTION, name)) for name in (*names, "Comment", "Verdict")}
    assert {"Verdict": 1} == {name: one.returncode for name, one in done.items() if one.returncode}
    report = made.stubs / "pytest-hwperf"
    files = [f"--hwperf-report={report}{name}" for name in FILES_ASKED]
    given = ["tests/a.py", "tests/b c.py", "-k", "a or b", "--hwperf-alpha=5%"]
    calls = [line for line in made.lines("calls") if line.startswith("python\t-P")]
    assert calls[:2] == [
        "python\t-P\t-m\tpip\tinstall\t/action[torch]",
        "\t".join(["python", "-P", "-m", "pytest", "--hwperf-only", "--hwperf-against=origin/main...", *files, *given]),
    ]  # fmt: skip
    assert git(pull_request, "merge-base", "origin/main", "HEAD") == git(pull_request, "rev-parse", "HEAD^")
    printed = ["::stop-commands::drawn-word", "::error::printed by a test", "::drawn-word::"]
    assert printed == done["Compare"].stdout.splitlines()
    assert BAD == (made.stubs / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
    assert "::error title=Performance::annotated\n" == done["Show"].stdout
    assert ["POST repos/o/r/issues/12/comments"] == made.lines("sent")
    assert BAD == (made.stubs / "body").read_text(encoding="utf-8")


# Inputs `tests` and `pytest-args` → the words that pytest gets, or None where they are refused.
SPLIT: Sequence[tuple[str, str, Sequence[str] | None]] = (
    ("tests/a.py", "-k '' --hwperf-strict", ["tests/a.py", "-k", "", "--hwperf-strict"]),
    ("", "-k 'it\\s' \"a\nb\" --deselect 't[*]'", ["-k", "it\\s", "a\nb", "--deselect", "t[*]"]),
    ("", "-k don't --hwperf-strict", None),
    ("tests/'a", "-k b' --hwperf-strict", None),  # a quote of one input is not closed in the other
    ("", "--hwperf-strict \\", None),
)


@pytest.mark.live
def test_arguments_are_split_as_in_a_shell_or_refused(tmp_path: Path) -> None:
    for number, (tests, arguments, given) in enumerate(SPLIT):
        made = runner(tmp_path, tmp_path / str(number))
        done = made.run({**step(ACTION, "Compare"), "env": {}}, AGAINST="x", TESTS=tests, ARGUMENTS=arguments, ALPHA="")
        _, asked, given_words = (made.stubs / "calls").read_text(encoding="utf-8").rpartition("--hwperf-report=")
        if given is None:
            assert (4, "") == (done.returncode, given_words if asked else "")
            assert "cannot be split as a shell would: No " in done.stderr
        else:
            assert "\t".join([f"{made.stubs / 'pytest-hwperf'}/", *given]) + "\n" == given_words


@pytest.mark.live
def test_arguments_of_the_template_are_split_as_in_a_shell_or_refused(tmp_path: Path) -> None:
    made = runner(tmp_path, tmp_path)
    gate = GITLAB["performance"]["script"][-1]
    done = [
        made.shell(gate, HWPERF_ARGUMENTS=text, CI_MERGE_REQUEST_DIFF_BASE_SHA="x").returncode
        for text in ("-k 'a or b' ''", "-k 'a")
    ]
    assert [0, 4] == done
    [called] = [line for line in made.lines("calls") if line.startswith("python\t-P")]
    assert called.endswith("--junitxml=performance/junit.xml\t-k\ta or b\t")


CALL = re.compile(r"(?<![\w/-])python(?! ?:)(?: -[IP])? -[cm][^\n]*")


def test_no_python_looks_for_modules_in_the_repository() -> None:
    calls = {name: CALL.findall((ROOT / name).read_text(encoding="utf-8")) for name in (*FILES, *TEMPLATES)}
    safe = ("python -I -c ", "python -I -m ", "python -P -m ")
    assert ["performance.yml"] == [name.rpartition("/")[2] for name, found in calls.items() if not found]
    assert [] == [one for found in calls.values() for one in found if not one.startswith(safe)]


@pytest.mark.live
def test_modules_of_the_repository_do_not_stand_in_for_others(tmp_path: Path) -> None:
    """One for each module that is imported or run, by its name; the Python is a real one."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in (*FILES, *TEMPLATES))
    imported = [one.strip() for line in re.findall(r"\bimport ([\w, ]+)", text) for one in line.split(",")]
    names = {*imported, *re.findall(r"python -[IP] -m (\w+)", text), "pluggy", "random", "shlex"}
    place = tmp_path / "repository"
    place.mkdir()
    for name in names:
        (place / f"{name}.py").write_text("open('harm', 'a').write(__name__)\nraise SystemExit(9)\n", encoding="utf-8")
    made = runner(place, tmp_path)
    (made.stubs / "bin" / "python").write_text('#!/bin/bash\nexec "$STUB_PYTHON" "$@"\n', encoding="utf-8")
    compared = made.run({**step(ACTION, "Compare"), "env": {}}, AGAINST="x", TESTS="", ARGUMENTS="--version", ALPHA="")
    made.run(step(ACTION, "Show"))
    gate = GITLAB["performance"]["script"][-1]
    there = made.shell(gate, HWPERF_ARGUMENTS="--version", CI_MERGE_REQUEST_DIFF_BASE_SHA="x")
    assert (0, 0) == (compared.returncode, there.returncode), compared.stderr + there.stderr
    assert re.search(r"^::stop-commands::[0-9a-f]{32}$", compared.stdout, re.MULTILINE)
    assert not (place / "harm").exists()


@pytest.mark.live
def test_the_history_that_cannot_be_fetched_is_asked_for(pull_request: Path, tmp_path: Path) -> None:
    made = runner(pull_request, tmp_path)
    fetch = step(ACTION, "Fetch where the pull request has left its target branch")
    git(pull_request, "remote", "set-url", "origin", "file:///nowhere")
    refused, unknown = made.run(fetch, GITHUB_BASE_REF="main"), made.run(fetch)
    assert (4, 4) == (refused.returncode, unknown.returncode)
    assert "check out with fetch-depth: 0" in refused.stdout
    assert "this run is of no pull request: give 'against'" in unknown.stdout


# Comments that are there, the summary, how sending ends → what is sent, and what is said.
COMMENTS: Sequence[tuple[object, str, Mapping[str, str], Sequence[str], str]] = (
    ([*OTHERS, MINE], GOOD, {}, ["PATCH repos/o/r/issues/comments/5"], ""),
    (OTHERS, GOOD, {}, [], ""),
    (None, BAD, {}, [], "the token may not read them"),
    ([], BAD, {"STUB_WRITTEN": "1"}, ["POST repos/o/r/issues/12/comments"], "pull-requests: write"),
)


@pytest.mark.live
def test_one_comment_is_kept(tmp_path: Path) -> None:
    for number, (comments, summary, variables, sent, said) in enumerate(COMMENTS):
        made = runner(tmp_path, tmp_path / str(number), summary)
        if comments is not None:
            answer(made, "repos/o/r/issues/12/comments", comments)
        state, file = summary.split()[5], str(made.stubs / "summary.md")
        environment = {"GH_TOKEN": "t", "NUMBER": "12", "STATE": state, "SUMMARY": file}
        done = made.shell(step(ACTION, "Comment")["run"], **environment, **variables)
        assert (0, sent) == (done.returncode, made.lines("sent"))
        assert (said in done.stdout) if said else not done.stdout


@pytest.mark.live
def test_a_part_of_a_build_is_shown_whatever_its_verdict(tmp_path: Path) -> None:
    """Its verdict is given by another step; only a report that could not be shown ends this one."""
    for code, ended in ((0, 0), (1, 0), (3, 0), (4, 1), (70, 1)):
        made = runner(tmp_path, tmp_path / str(code), STUB_SHOWN=str(code))
        report = str(made.stubs / "report.json")
        written = made.run({**step(COMMENT, "Write it as Markdown"), "env": {}}, REPORT=report)
        shown = made.run({**step(ACTION, "Show"), "env": {}}, REPORT=str(made.stubs))
        assert (code, ended, ended) == (code, written.returncode, shown.returncode)


@pytest.mark.live
def test_without_a_report_the_code_of_pytest_stays(tmp_path: Path) -> None:
    made = runner(tmp_path, tmp_path, STUB_CODE="4")
    for name in ("summary.md", "report.json"):
        (made.stubs / name).unlink()
    made.run({**step(ACTION, "Compare"), "env": {}}, AGAINST="x", TESTS="", ARGUMENTS="", ALPHA="")
    shown, verdict = made.run(step(ACTION, "Show")), made.run(step(ACTION, "Verdict"))
    assert "--hwperf-report=" in made.lines("calls")[-1].split("\t")[-1]  # nothing empty behind it
    assert "nothing was reported" in shown.stdout
    assert 4 == verdict.returncode


def test_every_kind_of_machine_has_a_job_and_is_expected() -> None:
    """Each job leaves its report under a name of its own, which the one that merges asks for."""
    compare, verdict = KINDS["jobs"]["compare"], KINDS["jobs"]["verdict"]
    [action] = [one["with"] for one in compare["steps"] if "pytest-hwperf" in one["uses"]]
    kinds = [one["kind"] for one in compare["strategy"]["matrix"]["include"]]
    assert kinds == step(KINDS, "Merge")["env"]["KINDS"].split(",")
    assert "--hwperf-machine-kind=${{ matrix.kind }}" == action["pytest-args"]
    assert "performance-${{ matrix.kind }}" == action["artifacts"]
    assert {*action} <= {*ACTION["inputs"]}
    assert ("compare", "always()") == (verdict["needs"], verdict["if"])
    assert {"kind": kinds[0], "runner": "ubuntu-latest"} in compare["strategy"]["matrix"]["include"]


@pytest.mark.live
def test_the_job_that_merges_has_the_code_of_the_merge(tmp_path: Path) -> None:
    for code in (0, 1, 3):
        made = runner(tmp_path, tmp_path / str(code), STUB_SHOWN=str(code))
        done = made.run(step(KINDS, "Merge"))
        assert code == done.returncode
    assert "report\tkinds/*/report.json\t--kinds=x86-64,arm64\t--annotations\t" in made.lines("calls")[-1]
    assert "::error title=Performance::annotated\n" == done.stdout
    assert BAD == (made.stubs / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")


EVENT = {"RUN": "99", "HEAD_SHA": "a" * 40, "HEAD_OWNER": "fork", "HEAD_BRANCH": "it'$(touch x)"}


@pytest.mark.live
def test_the_pull_request_is_that_of_the_commit(tmp_path: Path) -> None:
    for heads, number in (("ab", "1"), ("b", None), ("aa", None), ("", None)):
        made = runner(tmp_path, tmp_path / f"of-{heads}")
        answer(made, "repos/o/r/pulls", [{"number": n, "head": {"sha": sha * 40}} for n, sha in enumerate(heads, 1)])
        done = made.run({**step(COMMENT, "Find the pull request of this commit"), "env": {}}, **EVENT)
        assert (0, number) == (done.returncode, made._context.get("steps.pull.outputs.number"))
        assert "\t--raw-field\thead=fork:it'$(touch x)\t" in made.lines("calls")[0]


# What the artifact holds, and the most that is taken → what is said of it.
ARTIFACTS: Sequence[tuple[Mapping[str, bytes], str, str]] = (
    ({"report.json": b"{}", "../../escape": b"x"}, "5000", ""),
    ({"report.json": b"0" * 100_000}, "5000", "above 5000 bytes"),
    ({"report.json": b"{}"}, "10", "has no artifact 'performance', or one above 10 bytes"),
    ({"summary.md": b"@everyone"}, "5000", "no report.json in the artifact"),
)


@pytest.mark.live
def test_the_artifact_is_data(tmp_path: Path) -> None:
    for number, (content, most, said) in enumerate(ARTIFACTS):
        made = runner(tmp_path, tmp_path / str(number))
        with zipfile.ZipFile(made.stubs / "repos_o_r_actions_artifacts_3_zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in content.items():
                archive.writestr(name, text)
        size = (made.stubs / "repos_o_r_actions_artifacts_3_zip").stat().st_size
        found = [{"name": "performance", "id": 3, "size_in_bytes": size, "expired": False}]
        answer(made, "repos/o/r/actions/runs/99/artifacts", {"artifacts": found})
        done = made.run({**step(COMMENT, "Take the report as data"), "env": {}}, **EVENT, MOST=most)
        assert 0 == done.returncode
        assert (said in done.stdout) if said else not done.stdout
        assert (b"{}" == (made.stubs / "report.json").read_bytes()) if not said else True
    assert [] == [*tmp_path.glob("**/escape")]


# From here on the templates for GitLab.
NOTES = [{"id": 3, "author": {"id": 8}, "body": BAD}, {"id": 4, "author": {"id": 7}, "body": f"I quote {BAD}"}]


def test_no_token_is_given_to_foreign_code_on_gitlab() -> None:
    gate, note = GITLAB["performance"], GITLAB["performance:note"]
    assert "HWPERF_TOKEN" not in f"{gate} {GITLAB_KINDS}"
    assert "none" == note["variables"]["GIT_STRATEGY"]
    [rule] = note["rules"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in rule["if"]


def test_on_gitlab_the_commit_of_the_target_is_there_and_junit_is_read() -> None:
    gate = GITLAB["performance"]
    [command] = [line for line in gate["script"] if "pytest" in line and "pip" not in line]
    assert "0" == gate["variables"]["GIT_DEPTH"]
    assert '"--hwperf-against=$CI_MERGE_REQUEST_DIFF_BASE_SHA"' in command
    assert f"--junitxml={gate['artifacts']['reports']['junit']}" in command
    assert "always" == gate["artifacts"]["when"]


def test_on_gitlab_every_kind_of_machine_has_a_job_and_is_expected() -> None:
    kind, merged = GITLAB_KINDS["performance:kind"], GITLAB_KINDS["performance"]
    [command] = [line for line in kind["script"] if "pytest" in line and "pip" not in line]
    assert GITLAB_KINDS["variables"]["HWPERF_KINDS"].split(",") == kind["parallel"]["matrix"][0]["KIND"]
    assert ["$KIND"] == kind["tags"]
    assert '"--hwperf-machine-kind=$KIND" \\\n  "--hwperf-report=performance/$KIND.json"' in command
    assert ("none", "always") == (merged["variables"]["GIT_STRATEGY"], merged["rules"][0]["when"])
    assert 'report performance/*.json "--kinds=$HWPERF_KINDS"' in merged["script"][-1]


@pytest.mark.live
def test_one_note_is_kept_on_gitlab(tmp_path: Path) -> None:
    (tmp_path / "performance").mkdir()
    (tmp_path / "performance" / "report.json").write_text("{}", encoding="utf-8")
    given = {"HWPERF_TOKEN": "t", "HWPERF_PACKAGE": "p", "CI_API_V4_URL": "https://g/api/v4", "CI_PROJECT_ID": "1"}
    script = "\n".join(GITLAB["performance:note"]["script"])
    address = "https://g/api/v4/projects/1/merge_requests/2/"
    mine = {"id": 5, "author": {"id": 7}, "body": BAD}
    rows = (([*NOTES, mine], GOOD, "PUT notes/5"), (NOTES, GOOD, ""), (NOTES, BAD, "POST notes"))
    for number, (notes, summary, sent) in enumerate(rows):
        made = Runner(tmp_path, tmp_path / f"stubs{number}", {}, STUB_SHOWN="3")
        (made.stubs / "summary.md").write_text(summary, encoding="utf-8")
        (made.stubs / "notes").write_text(json.dumps(notes), encoding="utf-8")
        done = made.shell(script, **given, CI_MERGE_REQUEST_IID="2")
        assert 0 == done.returncode, done.stderr
        words = " ".join(made.lines("sent")).split()
        assert sent == (f"{words[words.index('--request') + 1]} {words[-1].removeprefix(address)}" if words else "")
